"""Version: what this is called when it is installed; the one place that says it."""

__version__ = "0.1.0"
