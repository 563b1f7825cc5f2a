"""A trial of an arm: its plan, its results, and what they show."""
