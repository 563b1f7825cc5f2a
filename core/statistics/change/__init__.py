"""Change: arms that became more or less useful lately, since when, and with what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from core.statistics.change.rivals import NEAR_DAYS, rivals
from core.statistics.change.shift import NOTHING, Shift
from core.statistics.change.shifts import shifts
from core.statistics.change.splits import (
    FALSE_ALARM,
    MIN_AFTER,
    MIN_BEFORE,
    MIN_CHANGE,
    WINDOW_DAYS,
    Splits,
    splits,
)
from core.statistics.change.together import TOGETHER_DAYS, Poisoned, gone, together


@dataclass(frozen=True, kw_only=True)
class Changes:
    """``shifts`` of arms by themselves, surest first, and arms that fell together; no arm is in both."""

    shifts: tuple[Shift, ...] = ()
    poisoned: tuple[Poisoned, ...] = ()

    def among(self, arms: Collection[str]) -> Changes:
        """Return the changes of some arms; a group is of one type and stays whole."""
        return Changes(
            shifts=tuple(shift for shift in self.shifts if shift.arm in arms),
            poisoned=tuple(group for group in self.poisoned if group.arms[0] in arms),
        )


NOTHING_CHANGED: Final = Changes()
