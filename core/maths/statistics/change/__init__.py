"""Change: arms that became more or less used lately, since when, and with what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from core.maths.statistics.change.causes import (
    HISTORY_DAYS,
    LEAST_SHARE,
    MANY,
    Cause,
    CauseKind,
    causes,
    passing,
)
from core.maths.statistics.change.shifts import (
    NEAR_DAYS,
    NOTHING,
    Shift,
    explained,
    shifts,
    unexplained,
)
from core.maths.statistics.change.splits import (
    FALSE_ALARM,
    MIN_AFTER,
    MIN_BEFORE,
    MIN_CHANGE,
    WINDOW_DAYS,
    Splits,
    splits,
)
from core.maths.statistics.change.together import TOGETHER_DAYS, Poisoned, gone, together


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Arms that changed, surest first, and arms of one type that fell together; no arm is in both.

    ``causes`` name why several changed. Arms of a day on which many changed are in ``shifts`` too; those that another
    mix or model moved are not, because they did not change within any.
    """

    shifts: tuple[Shift, ...] = ()
    poisoned: tuple[Poisoned, ...] = ()
    causes: tuple[Cause, ...] = ()

    def among(self, arms: Collection[str]) -> Changes:
        """Return the changes of some arms; a group is of one type and stays whole."""
        parts = [
            replace(cause, shifts=tuple(shift for shift in cause.shifts if shift.arm in arms))
            for cause in self.causes
        ]
        return Changes(
            shifts=tuple(shift for shift in self.shifts if shift.arm in arms),
            poisoned=tuple(group for group in self.poisoned if group.arms[0] in arms),
            causes=tuple(cause for cause in parts if cause.shifts),
        )


NOTHING_CHANGED: Final = Changes()
