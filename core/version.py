"""Version of the distributions; the only definition."""

__version__ = "0.2.0"
