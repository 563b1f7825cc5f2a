"""Manual rewards: accounts whose rewards part from the detector, and bursts that moved an arm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from core.columns import ArmColumns, Floats, Ints, LedgerSums, ManualRewards
from core.maths.statistics.sources import observed
from core.records.arm import MICRO
from core.records.times import DAY_MS, HOUR_MS, MINUTE_MS

WINDOW_DAYS: Final = 28
"""Rewards of this many last days are compared."""

ENOUGH: Final = 20
"""Fewest rewards of one arm by one account, and fewest runs that observed the arm."""

BURST_MS: Final = 10 * MINUTE_MS

_FALSE_ALARM: Final = 0.001
"""Chance that a look names any account whose rewards have the mean of the detector."""

_FEWEST_DAYS: Final = 5
_APART: Final = 0.15
"""Least difference of two means: what people accept and what a detector sees are never quite the same."""
_HABIT_ARMS: Final = 4
"""Other arms on which an account shows how it rewards in general; who rejects two arms alone has no habit."""
_ERRORS: Final = 4
"""Least difference from other rewards, in standard errors."""
_MOVED: Final = 0.015
_BURST_MOVED: Final = 0.02
_ABOVE_PACE: Final = 5
"""A burst has at least this many times the rewards of the account's usual pace: a busy service has none."""


Pair = tuple[int, int]
"""Account and arm, by their indexes."""


@dataclass(frozen=True, kw_only=True)
class ManualFinding:
    """Finding about the manual rewards of one account.

    ``arms`` are most affected first. The other fields belong to the first: ``n`` rewards with ``mean`` by this
    account, from ``since_ms`` to ``until_ms``, moved the arm's mean from ``before`` to ``after``. ``detector`` is the
    share of observed runs that referenced it. ``acts`` are the ids that undo all rewards of the finding.
    """

    actor: str
    arms: tuple[str, ...]
    n: int
    mean: float
    since_ms: int
    until_ms: int
    before: float
    after: float
    detector: float | None
    acts: tuple[str, ...]

    @property
    def minutes(self) -> int:
        """Length in minutes, rounded up."""
        return max(-(-(self.until_ms - self.since_ms) // MINUTE_MS), 1)


@dataclass(frozen=True, kw_only=True)
class ManualFindings:
    """Accounts that part from the detector, and bursts; an arm with a burst by an account is no other finding."""

    apart: tuple[ManualFinding, ...] = ()
    bursts: tuple[ManualFinding, ...] = ()


NO_MANUAL_FINDINGS: Final = ManualFindings()


def manual_findings(columns: ArmColumns, ledger: LedgerSums, rewards: ManualRewards) -> ManualFindings:
    """Return one finding for each account that parts from the detector, and for each with a burst.

    A reward by hand need not follow what a detector sees. So an account is named only if its rewards of an arm
    differ from the detector, from those of other people on the arm, and from its own on other arms, if those are
    many: in their mean, and in their difference from the detector.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    ledger : LedgerSums of n_arms
        Ledger rows of the same arms.
    rewards : ManualRewards
        Rewards of the last `WINDOW_DAYS` in the present epochs, by time.

    Returns
    -------
    ManualFindings
        Findings by account, the most affected arm first.

    References
    ----------
    R. G. Miller, Simultaneous Statistical Inference, 1981 (Bonferroni). The variance is clustered by day.
    """
    pairs = _pairs(rewards)
    bursts = {pair: inside for pair, at in pairs.items() if len(inside := _burst(columns, rewards, at))}
    rest = {pair: at for pair, at in pairs.items() if pair not in bursts}
    runs = observed(columns, ledger)
    rates = np.divide(runs.n_referenced, runs.n, out=np.full(len(columns), np.nan), where=runs.n >= ENOUGH)
    apart = _apart(columns, rewards, rest, rates, runs.n)
    return ManualFindings(
        apart=_by_account(columns, rewards, apart, rates), bursts=_by_account(columns, rewards, bursts, rates)
    )


def _pairs(rewards: ManualRewards) -> dict[Pair, Ints]:
    """Return the rewards of each account on each arm, by time, where there are enough."""
    order = np.lexsort((rewards.arm, rewards.actor))  # stable, so still by time
    actor, arm = rewards.actor[order], rewards.arm[order]
    starts = np.flatnonzero(np.diff(actor, prepend=-1) | np.diff(arm, prepend=-1))
    parts = np.split(order, starts[1:]) if len(order) else []
    return {(int(rewards.actor[at[0]]), int(rewards.arm[at[0]])): at for at in parts if len(at) >= ENOUGH}


def _burst(columns: ArmColumns, rewards: ManualRewards, at: Ints) -> Ints:
    """Return the rewards of the fullest ten minutes, if they are a burst that moved the arm; else none."""
    times = rewards.at_ms[at]
    ends = np.searchsorted(times, times + BURST_MS, side="right")
    first = int((ends - np.arange(len(at))).argmax())
    inside = at[first : ends[first]]
    active_ms = len(np.unique(times // HOUR_MS)) * HOUR_MS
    usual = (len(at) - len(inside)) * BURST_MS / active_ms
    before, after = _means(columns, rewards, inside)
    is_burst = len(inside) >= max(ENOUGH, _ABOVE_PACE * usual) and abs(after - before) >= _BURST_MOVED
    return inside if is_burst else inside[:0]


def _apart(
    columns: ArmColumns, rewards: ManualRewards, pairs: Mapping[Pair, Ints], rates: Floats, n_observed: Ints
) -> dict[Pair, Ints]:
    """Return the pairs whose rewards differ from the detector beyond chance, and by themselves."""
    tested = {pair: at for pair, at in pairs.items() if not np.isnan(rates[pair[1]])}
    reward = rewards.success_micro / (rewards.success_micro + rewards.failure_micro)
    beyond = reward - rates[rewards.arm]
    apart = {}
    for (actor, arm), at in tested.items():
        difference = float(beyond[at].mean())
        before, after = _means(columns, rewards, at)
        if abs(difference) < _APART or abs(after - before) < _MOVED:
            continue
        prob = _chance(reward[at], rewards.at_ms[at] // DAY_MS, float(rates[arm]), int(n_observed[arm]))
        own = (rewards.actor == actor) & (rewards.arm != arm) & ~np.isnan(beyond)
        others = (rewards.actor != actor) & (rewards.arm == arm)
        has_habit = len(np.unique(rewards.arm[own])) >= _HABIT_ARMS
        is_alone = _differs(beyond[at], beyond[others]) and (
            not has_habit or (_differs(beyond[at], beyond[own]) and _differs(reward[at], reward[own]))
        )
        if prob * len(tested) < _FALSE_ALARM and is_alone:
            apart[actor, arm] = at
    return apart


def _differs(values: Floats, others: Floats) -> bool:
    """Return whether the mean of some values lies apart from that of others; true if those are too few."""
    if len(others) < ENOUGH:
        return True
    variance = float(np.concatenate([values, others]).var())
    error = np.sqrt(variance / len(values) + variance / len(others))
    return bool(abs(values.mean() - others.mean()) >= max(_APART, _ERRORS * error))


def _chance(reward: Floats, day: Ints, rate: float, n_observed: int) -> float:
    """Return the chance of as large a difference between rewards and detector; 1 on fewer than five days."""
    days, index = np.unique(day, return_inverse=True)
    n_days, n = len(days), len(reward)
    if n_days < _FEWEST_DAYS:
        return 1.0
    mean = float(reward.mean())
    by_day = np.bincount(index, weights=reward - mean)
    smooth = (rate * n_observed + 1) / (n_observed + 2)
    by_chance = smooth * (1 - smooth)
    clustered = float((by_day**2).sum()) / n**2 * n_days / (n_days - 1)
    error = np.sqrt(max(clustered, by_chance / n) + 2 * by_chance / n_observed)
    return float(2 * scipy.special.stdtr(n_days - 1, -abs(mean - rate) / error))


def _means(columns: ArmColumns, rewards: ManualRewards, at: Ints) -> tuple[float, float]:
    """Return the mean of the arm of these rewards without them, and with them."""
    arm = rewards.arm[at[0]]
    alpha = int(columns.base_alpha_micro[arm] + columns.success_micro[arm])
    weight = alpha + int(columns.base_beta_micro[arm] + columns.failure_micro[arm])
    success = int(rewards.success_micro[at].sum())
    total = success + int(rewards.failure_micro[at].sum())
    return (alpha - success) / (weight - total), alpha / weight


def _by_account(
    columns: ArmColumns, rewards: ManualRewards, pairs: Mapping[Pair, Ints], rates: Floats
) -> tuple[ManualFinding, ...]:
    """Return one finding for each account, the most affected arm first."""
    of_actor: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for (actor, arm), at in pairs.items():
        before, after = _means(columns, rewards, at)
        of_actor[actor].append((-abs(after - before), arm))
    findings = []
    for actor, moved in of_actor.items():
        arms = [arm for _, arm in sorted(moved)]
        at = pairs[actor, arms[0]]
        before, after = _means(columns, rewards, at)
        rate = float(rates[arms[0]])
        findings.append(
            ManualFinding(
                actor=rewards.actors[actor],
                arms=tuple(columns.keys[arm] for arm in arms),
                n=len(at),
                mean=int(rewards.success_micro[at].sum()) / MICRO / len(at),
                since_ms=int(rewards.at_ms[at[0]]),
                until_ms=int(rewards.at_ms[at[-1]]),
                before=before,
                after=after,
                detector=None if np.isnan(rate) else rate,
                acts=tuple(
                    f"reward-{no}" for arm in arms for no in rewards.number[pairs[actor, arm]].tolist()
                ),
            )
        )
    return tuple(findings)
