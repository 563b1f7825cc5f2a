"""Queue lines: what is to be judged, and what was skipped, as lines of our own loss-free export."""

from __future__ import annotations

from typing import Annotated

import msgspec

from core.errors import InvalidInput
from core.records.arm import MICRO, check_key
from core.records.evaluation import MAX_NAME_CHARS as MAX_RUBRIC_CHARS
from core.records.evaluation import EvaluationOutcome
from core.records.limits import MAX_LABEL_CHARS, Millis, text
from core.records.line_checks import FactOfLine, check_id, check_storable
from core.records.review import (
    MAX_ITEMS,
    MAX_NAME_CHARS,
    MAX_REASON_CHARS,
    MAX_REVIEWERS,
    QueueAsks,
    check_skip_reason,
)

Number = Annotated[int, msgspec.Meta(ge=1, le=10 * MAX_ITEMS)]


class ItemLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One item of a queue. What state it is in follows from the evaluations and from what was skipped.

    >>> ItemLine(no=1, run="request-1", why="no person has judged it").control
    """

    no: Number
    layer: str | None = None
    execution: str | None = None
    run: str | None = None
    arm: str | None = None
    why: str = ""
    control: EvaluationOutcome | None = None
    assigned_to: str | None = None

    def __post_init__(self) -> None:
        for name in ("layer", "execution", "run", "assigned_to"):
            value = getattr(self, name)
            if value is not None:
                text(f"An item's {name}", value, MAX_LABEL_CHARS, lowest=1)
        text("An item's why", self.why, MAX_REASON_CHARS)
        if self.arm is not None:
            check_key(self.arm)
        if self.execution is None and self.run is None:
            raise InvalidInput(
                f"An item must name an execution or a run, got neither (item {self.no}).",
                next_step="Name what is to be judged.",
            )


class QueueLine(FactOfLine, frozen=True, tag="review_queue"):
    """A review queue with its items: the number of reviewers and the rules. ``control_micro`` is the share of control
    items in millionths.

    >>> QueueLine(id="q1", name="Week 12", items=(ItemLine(no=1, run="request-1"),)).n_reviewers
    1
    """

    id: str
    name: str
    asks: QueueAsks = QueueAsks()
    n_reviewers: Annotated[int, msgspec.Meta(ge=1, le=MAX_REVIEWERS)] = 1
    blind: bool = False
    rubric: str = ""
    control_micro: Annotated[int, msgspec.Meta(ge=0, le=MICRO)] = 0
    due_ms: Millis | None = None
    items: tuple[ItemLine, ...] = ()

    def __post_init__(self) -> None:
        check_id(self.id)
        text("A queue's name", self.name, MAX_NAME_CHARS, lowest=1)
        text("A queue's rubric", self.rubric, MAX_RUBRIC_CHARS)
        check_storable(by=self.by)
        numbers = [item.no for item in self.items]
        if len(numbers) > 2 * MAX_ITEMS or len(set(numbers)) < len(numbers):
            raise InvalidInput(
                f"A queue must have at most {2 * MAX_ITEMS:,} items of different numbers, got {len(numbers):,}.",
                next_step="Number them 1, 2, 3 and so on.",
            )


class SkippedLine(FactOfLine, frozen=True, tag="review_aside"):
    """A report that an item of a queue (the id of its line) can't be judged. ``final`` = by an operator, which
    suffices.

    >>> SkippedLine(id="s1", queue="q1", item=1, reason="cut off").final
    False
    """

    id: str
    queue: str
    item: Number
    reason: str
    final: bool = False

    def __post_init__(self) -> None:
        check_id(self.id)
        check_id(self.queue)
        check_skip_reason(self.reason)
        check_storable(by=self.by)
