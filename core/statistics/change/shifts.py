"""Splits and sessions → arms that changed, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from core.columns import ArmColumns, ArmSessions, Floats
from core.records.times import DAY_MS
from core.statistics.change.doubt import doubted
from core.statistics.change.shift import Shift
from core.statistics.change.splits import FALSE_ALARM, Splits, least_prob, named


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

    Examples
    --------
    >>> from core.columns import RecentDays
    >>> from core.statistics.change import splits
    >>> def ints(*values: int) -> Ints:
    ...     return np.array(values, dtype=np.int64)
    >>> arm = ArmColumns(keys=("tool:fs:Read",), types=("tool",), prior_alpha_micro=ints(3_000_000),
    ...     prior_beta_micro=ints(1_000_000), base_alpha_micro=ints(3_000_000), base_beta_micro=ints(1_000_000),
    ...     success_micro=ints(80_000_000), failure_micro=ints(50_000_000), pulls=ints(130), part_micro=ints(0),
    ...     inclusions=ints(130), token_cost=ints(300), epoch=ints(0), last_at_ms=ints(0))
    >>> sums = RecentDays(arm=ints(0), day=ints(20_000), success_micro=ints(0), failure_micro=ints(30_000_000))
    >>> one_run_each = ArmSessions(arm=np.zeros(130, dtype=np.int64),
    ...     day=np.repeat(ints(19_990, 20_000), [100, 30]), since_day=None, stratum=np.zeros(130, dtype=np.int64),
    ...     success_micro=np.repeat(ints(1_000_000, 0), [80, 50]),
    ...     failure_micro=np.repeat(ints(0, 1_000_000), [80, 50]))
    >>> (shift,) = shifts(arm, splits(arm, sums), one_run_each)
    >>> shift.since_ms // 86_400_000, shift.mean_before, shift.mean_after, shift.n_after
    (20000, 0.8, 0.0, 30)
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
