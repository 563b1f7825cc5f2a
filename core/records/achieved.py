"""Outcome of a run: a number from 0 to 1 with its source, derived from facts about the run.

A program's outcome is a fact of its own, here as it is ordered, answered and exported. The other sources are the
episodes, evaluations and rewards of the run.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from core.records.limits import MAX_LABEL_CHARS, number, text
from core.records.line_checks import KeyedLine, check_id, check_storable
from core.records.observation import check_request_key, digest

OutcomeSource = Literal["program", "environment", "person", "grader", "thumb"]
"""Source of an outcome: the program, the environment that paid the run, people or models that evaluated it, or
rewards of the whole run.
"""
OUTCOME_SOURCES: Final[tuple[OutcomeSource, ...]] = get_args(OutcomeSource)
SOLVED: Final = 0.9
"""A run is solved if its outcome is strictly above this."""
Solved = Literal["solved", "unsolved", "unknown"]
SOLVED_WORDS: Final[tuple[Solved, ...]] = get_args(Solved)


class Achieved(NamedTuple):
    """The outcome of a run, and its source."""

    value: float
    source: OutcomeSource


def solved_word(achieved: Achieved | None) -> Solved:
    """Return the word of an outcome, by which lists are filtered.

    >>> solved_word(None), solved_word(Achieved(0.9, "program")), solved_word(Achieved(0.91, "program"))
    ('unknown', 'unsolved', 'solved')
    """
    if achieved is None:
        return "unknown"
    return "solved" if achieved.value > SOLVED else "unsolved"


def check_achieved(value: object) -> float:
    """Return an outcome if it is a number from 0 to 1.

    >>> check_achieved(0)
    0.0
    """
    return abs(number("An outcome", value, lowest=0, highest=1))  # a negative zero is a zero


class OutcomeOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An outcome of a run, as a caller sends it; checked when made. ``run`` is a uid or number.

    >>> OutcomeOrder(run="request-1", value=1).value
    1.0
    """

    run: Annotated[str, Meta(description="The run: uid or number.")]
    value: Annotated[float, Meta(description="What it achieved, 0 to 1.")]
    key: Annotated[str | None, Meta(description="Idempotency key of this line.")] = None

    def __post_init__(self) -> None:
        text("run", self.run, MAX_LABEL_CHARS, lowest=1)
        force_setattr(self, "value", check_achieved(self.value))
        check_request_key(self.key)


class OutcomeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded outcome; ``id`` is what `undo` takes.

    ``achieved`` and ``achieved_by`` are what the run shows with it, by the order of sources in force. ``before`` was
    the program's outcome until then. In a preview ``id`` is None, and nothing was recorded.
    """

    id: str | None
    run: str
    value: float
    achieved: float | None
    achieved_by: OutcomeSource | None
    before: float | None = None


class OutcomesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes that were recorded together; ``id`` undoes all of them."""

    id: str | None
    count: int
    outcomes: tuple[OutcomeAnswer, ...] = ()


class OutcomeLine(KeyedLine, frozen=True, tag="outcome"):
    """An outcome of a run, as its program states it; of a run the latest active one is in force.

    >>> OutcomeLine(id="o1", run="request-1", value=1).value
    1.0
    """

    id: str
    run: str
    value: float

    def __post_init__(self) -> None:
        check_id(self.id)
        text("An outcome's run", self.run, MAX_LABEL_CHARS, lowest=1)
        force_setattr(self, "value", check_achieved(self.value))
        check_storable(run=self.run, by=self.by)
        check_request_key(self.key)


def stated_line(run: str, value: float) -> OutcomeLine:
    """Return the line of an outcome that the run's own record states; the same record gives the same line."""
    request = outcome_payload(run, value).to_bytes(8, "big", signed=True).hex()
    return OutcomeLine(id=f"run/{request}", run=run, value=value)


def outcome_payload(run: str, value: float) -> int:
    """Return the digest of the request, distinct from that of other verbs."""
    return digest(("outcome", run, value))
