"""A view: the part of a learner's history that a page shows."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from core.records.achieved import Solved
from core.records.arm import ArmType
from core.records.evidence import Outcome
from core.records.run import RunClass, Status


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Time span and filters; empty = all. Times are UTC milliseconds, ``until_ms`` is "as of", exclusive.

    Models, channels and the start of the span choose runs. There is one posterior per arm, so beliefs heed
    only ``until_ms`` (by full hours) and ``types``.

    >>> View(types=("tool",)).until_ms is None
    True
    """

    since_ms: int | None = None
    until_ms: int | None = None
    models: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    types: tuple[ArmType, ...] = ()


EVERYTHING: Final = View()


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of the runs in a view, beside span, models and channels; empty = all.

    ``arm`` selects runs that had it in the prompt in full, by name or left out, or (None) any. ``achieved`` has words
    of outcomes.
    """

    arm: str | None = None
    part: Literal["in", "named", "out"] | None = None
    outcomes: tuple[Outcome, ...] = ()
    classes: tuple[RunClass, ...] = ()
    statuses: tuple[Status, ...] = ()
    achieved: tuple[Solved, ...] = ()
