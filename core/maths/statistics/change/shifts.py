"""Arms that are used more or less, since when, and the arms that took their work.

Nothing conditions a mean on what else was in the prompt, so an arm whose work a new one does looks as if it
drifted. Whether it did shows in runs that our own draws left the newcomer out of. Without them, nothing shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from core.columns import ArmColumns, ArmSessions, Floats, JoinedArms
from core.maths.statistics.change.doubt import doubted
from core.maths.statistics.change.splits import (
    FALSE_ALARM,
    MIN_BEFORE,
    MIN_CHANGE,
    Splits,
    chance_of_at_most,
    least_prob,
    named,
)
from core.records.times import DAY_MS

ShiftKind = Literal["drifting", "rival", "rising"]

NOTHING: Final = 0.05
"""An arm whose mean since then is at most this has fallen to nothing."""

NEAR_DAYS: Final = 7
"""An arm may have brought a change about if it joined within so many days of it; of a small one the day is vague."""

_SAME_DAYS: Final = 2
_SURE: Final = 0.01
_LIKELY: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Shift:
    """An arm that is used more or less often since a time (UTC) than before in the same epoch.

    The time is the beginning of a day, of an hour where the arm fell to nothing. ``prob`` is how often observations
    without a change would lie so far apart, all dependence of runs on each other admitted. ``rivals`` are arms that
    joined the prompt then and took its work, the one that took most first. ``joined`` are arms that joined on that
    day, where nothing shows whether they took its work.
    """

    arm: str
    since_ms: int
    mean_before: float
    mean_after: float
    n_before: int
    n_after: int
    prob: float
    rivals: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()

    @property
    def kind(self) -> ShiftKind:
        """Name of the change."""
        return "rising" if not self.fell else "rival" if self.rivals else "drifting"

    @property
    def fell(self) -> bool:
        return self.mean_after < self.mean_before

    @property
    def to_nothing(self) -> bool:
        return self.fell and self.mean_after <= NOTHING


def shifts(columns: ArmColumns, table: Splits, sessions: ArmSessions) -> tuple[Shift, ...]:
    """Return the arms that changed in the last 28 days of the data, the surest first.

    ``sessions`` are those of ``table.suspects``. An arm's chance is the least of its days', times their number
    (Bonferroni), the arms then pass Holm's procedure. Under any dependence at most one look in a hundred names an
    arm that did not change. Of the days that are sure, the one with the largest likelihood ratio is reported.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    table : Splits
        What `splits` says of the same columns.
    sessions : ArmSessions
        Sums by session of the arms that ``table.suspects`` names.

    Returns
    -------
    tuple of Shift
        One for each arm that changed.

    References
    ----------
    S. Holm, *Scand. J. Stat.* 6, 1979, 65-70.
    """
    prob = np.ones(table.prob.shape)
    for row in table.suspects.tolist():
        prob[row] = doubted(table, row, sessions)
    least = least_prob(table, prob)
    rows = named(least).tolist()
    surest_first = sorted(rows, key=lambda row: float(least[row]))
    return tuple(
        _shift(columns, table, prob[row], row, n_left=len(least) - rank)
        for rank, row in enumerate(surest_first)
    )


def unexplained(
    columns: ArmColumns, table: Splits, sessions: ArmSessions, found: Sequence[Shift]
) -> tuple[Shift, ...]:
    """Return the arms that changed only where models and channels are pooled.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    table : Splits
        What `splits` says of the same columns.
    sessions : ArmSessions
        Sums by session of the arms that ``table.suspects`` names.
    found : sequence of Shift
        Those of `shifts`.

    Returns
    -------
    tuple of Shift
        None of those found.
    """
    arms = {shift.arm for shift in found}
    left = [row for row in table.suspects.tolist() if columns.keys[int(table.arm[row])] not in arms]
    if not left or len(np.unique(sessions.stratum)) < 2:
        return ()
    whole = replace(sessions, stratum=np.zeros_like(sessions.stratum))
    return tuple(shift for shift in shifts(columns, table, whole) if shift.arm not in arms)


def _shift(columns: ArmColumns, table: Splits, prob: Floats, row: int, *, n_left: int) -> Shift:
    sure = prob * table.n_tested[row] * n_left <= FALSE_ALARM
    at = int(np.argmax(np.where(sure, table.ratio[row], -np.inf)))
    return Shift(
        arm=columns.keys[int(table.arm[row])],
        since_ms=int(table.day[at]) * DAY_MS,
        mean_before=float(table.mean_before[row, at]),
        mean_after=float(table.mean_after[row, at]),
        n_before=round(float(table.n_before[row, at])),
        n_after=round(float(table.n_after[row, at])),
        prob=float(prob[at]),
    )


def explained(shift: Shift, joined: JoinedArms) -> Shift:
    """Return a fall with its rivals, the arms that took its work; without any, with the arms that joined then.

    A contrast shows a rival: our own draws left it out of at least 10 runs since. The older arm must have kept its
    mean in these and have a lower one next to the newcomer (Fisher's exact test). Other runs without the newcomer
    show nothing: they may be other work. Arms that joined are those within two days of the fall that are used. The
    most used come first.

    Parameters
    ----------
    shift : Shift
        An arm's fall.
    joined : JoinedArms
        Arms that joined around then, and how often the arm and each of them were in the same runs since.

    Returns
    -------
    Shift
        The same one with newcomers.

    References
    ----------
    R. A. Fisher, *Statistical Methods for Research Workers*, 1934, section 21.02: the exact test.
    """
    by_use = np.argsort(-joined.n_joined_used, kind="stable").tolist()
    took = tuple(joined.keys[index] for index in by_use if _took(shift, joined, index))
    near = np.abs(joined.first_day - shift.since_ms // DAY_MS) <= _SAME_DAYS
    used = tuple(joined.keys[index] for index in by_use if near[index] and joined.n_joined_used[index] > 0)
    return replace(shift, rivals=took, joined=() if took else used)


def _took(shift: Shift, joined: JoinedArms, index: int) -> bool:
    n_with, n_used = int(joined.n_with[index]), int(joined.n_used[index])
    n_out, used_out = int(joined.n_out[index]), int(joined.n_out_used[index])
    if min(n_with, n_out) < MIN_BEFORE:
        return False
    return _holds(shift, n_out, used_out) and _fewer(n_used, n_with, used_out, n_out) <= _SURE


def _holds(shift: Shift, n_without: int, used_without: int) -> bool:
    """Return whether the older arm is used as before where the newcomer is absent."""
    if used_without / n_without > shift.mean_before - MIN_CHANGE:
        return True
    used_before = round(shift.mean_before * shift.n_before)
    return _fewer(used_without, n_without, used_before, shift.n_before) > _LIKELY


def _fewer(used: int, n: int, other_used: int, other_n: int) -> float:
    """Return the chance of so few or fewer uses of the first, if both were used equally often."""
    if n == 0 or other_n == 0:
        return 1.0
    return float(chance_of_at_most(used, n + other_n, used + other_used, n))
