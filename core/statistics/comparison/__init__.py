"""Two groups of runs compared: what `core.statistics.savings` is worked out with."""
