"""Rewards of environments: averages, progress, contests of models, the pattern of a reward, and its faults."""
