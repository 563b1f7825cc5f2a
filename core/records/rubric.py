"""A rubric: criteria and levels that reviewers read beside the work. A version never changes."""

from __future__ import annotations

from typing import Final

import msgspec

from core.errors import InvalidInput
from core.records.evaluation import EvaluationOutcome
from core.records.limits import number, text

MAX_VERSION_CHARS: Final = 200
MAX_TITLE_CHARS: Final = 200
MAX_WORDS_CHARS: Final = 4_000
MAX_CRITERIA: Final = 50
FEWEST_LEVELS: Final = 2
MOST_LEVELS: Final = 9


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing to look at, and an example of it."""

    name: str
    words: str = ""
    example: str = ""

    def __post_init__(self) -> None:
        text("A criterion's name", self.name, MAX_TITLE_CHARS, lowest=1)
        text("A criterion's words", self.words, MAX_WORDS_CHARS)
        text("A criterion's example", self.example, MAX_WORDS_CHARS)


class Level(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The meaning of one digit: an outcome with its score. For a failure the score is the certainty.

    >>> Level(words="Right", outcome="success", score=1.0).example
    ''
    """

    words: str
    outcome: EvaluationOutcome
    score: float
    example: str = ""

    def __post_init__(self) -> None:
        text("A level's words", self.words, MAX_TITLE_CHARS, lowest=1)
        text("A level's example", self.example, MAX_WORDS_CHARS)
        number("A level's score", self.score, lowest=0, highest=1)


LEVELS: Final = (
    Level(words="Wrong, and surely so", outcome="failure", score=1.0),
    Level(words="Probably wrong", outcome="failure", score=0.7),
    Level(words="Right, with flaws", outcome="success", score=0.7),
    Level(words="Right", outcome="success", score=1.0),
)
"""The levels of a rubric that names none."""


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One version: its title, what to look at, and 2 to 9 levels.

    >>> [level.outcome for level in Rubric(version="v1").levels]
    ['failure', 'failure', 'success', 'success']
    """

    version: str
    title: str = ""
    criteria: tuple[Criterion, ...] = ()
    levels: tuple[Level, ...] = LEVELS

    def __post_init__(self) -> None:
        text("A rubric's version", self.version, MAX_VERSION_CHARS, lowest=1)
        text("A rubric's title", self.title, MAX_TITLE_CHARS)
        if self.version.strip() != self.version:
            raise InvalidInput(
                f"A rubric's version must not begin or end with a blank, got {self.version[:60]!r}.",
                next_step="Write it without.",
            )
        if len(self.criteria) > MAX_CRITERIA:
            raise InvalidInput(
                f"A rubric must have at most {MAX_CRITERIA} criteria, got {len(self.criteria):,}.",
                next_step="Join those that belong together.",
            )
        if not FEWEST_LEVELS <= len(self.levels) <= MOST_LEVELS:
            raise InvalidInput(
                f"A rubric must have {FEWEST_LEVELS} to {MOST_LEVELS} levels, one for each digit, got "
                f"{len(self.levels)}.",
                next_step="Leave levels out to have the usual four.",
            )
