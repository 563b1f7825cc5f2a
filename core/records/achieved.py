"""Outcome of a run: a number from 0 to 1 with its source, derived from facts about the run."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

OutcomeSource = Literal["program", "environment", "person", "grader", "thumb"]
"""Sources of an outcome: the program, the environment that paid the run, people or models that evaluated it, and
rewards of the whole run.
"""
OUTCOME_SOURCES: Final[tuple[OutcomeSource, ...]] = get_args(OutcomeSource)
SOLVED: Final = 0.9
"""A run is solved if its outcome is strictly above this."""


class Achieved(NamedTuple):
    """The outcome of a run, and its source."""

    value: float
    source: OutcomeSource

    @property
    def is_solved(self) -> bool:
        return self.value > SOLVED
