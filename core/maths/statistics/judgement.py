"""Judgement of each arm from its posterior, recent changes and chance of inclusion: the only module that judges
arms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from core.columns import UNKNOWN, ArmColumns, Bools, Floats, Ints, LedgerSums
from core.maths.posterior.beta import highest_density
from core.maths.statistics.change import Changes, Shift
from core.maths.statistics.effective import PROB, Effective
from core.maths.statistics.inclusion import Chance
from core.maths.statistics.sources import observed, sources
from core.maths.statistics.summary import Summary
from core.records.arm import MICRO, Interval
from core.records.judgement import ENOUGH_PULLS, ENOUGH_SESSIONS, Judgement, JudgementName, RecentMean
from core.records.times import DAY_MS

STALE_DAYS: Final = 14

_NEAR_THE_END: Final = 0.1
"""Distance from 0 or 1 within which the equal-tailed interval leaves out the likeliest values."""

_HALF: Final = 0.5
"""Rate that useful arms exceed, where no cost can be weighed."""

_NOT_OFFERED: Final = Chance(
    chance=None, standard_error=None, break_even_mean=None, no_break_even="not_offered", n_offering=0
)


def alarms(columns: ArmColumns, changes: Changes, stale: Bools, never: Bools) -> dict[str, JudgementName]:
    """Return the alarm of each arm that has one, by arm.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    changes : Changes
        Arms that changed, of the same revision.
    stale : array of bool, shape (n_arms,)
        Whether each is stale.
    never : array of bool, shape (n_arms,)
        Whether each was never referenced (`never_referenced`).

    Returns
    -------
    dict of str to JudgementName
        The name of what is wrong, by arm.
    """
    names: dict[str, JudgementName] = {}
    for index in np.flatnonzero(stale | never).tolist():
        names[columns.keys[index]] = "stale" if stale[index] else "never_referenced"
    names |= {shift.arm: shift.kind for shift in changes.shifts}
    return names | {arm: "poisoned" for group in changes.poisoned for arm in group.arms}


def stale_arms(columns: ArmColumns, recent_inclusions: Ints, end_ms: int | None) -> Bools:
    """Return the arms put in during the last days whose last observation is longer ago than that.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    recent_inclusions : array of int, shape (n_arms,)
        How often each was in a prompt during the last days, 0 or more.
    end_ms : int or None
        The latest time in the data, in ms since 1970; None where nothing is dated.

    Returns
    -------
    array of bool, shape (n_arms,)
        True where an arm is stale.
    """
    if end_ms is None:
        return np.zeros(len(columns), dtype=np.bool_)
    last = columns.last_at_ms
    return np.asarray((recent_inclusions > 0) & (last != UNKNOWN) & (last < end_ms - STALE_DAYS * DAY_MS))


def never_referenced(
    columns: ArmColumns, ledger: LedgerSums | None = None, by_session: Effective | None = None
) -> Bools:
    """Return the arms that none of at least 20 observed runs referenced; what people gave does not count.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    ledger : LedgerSums of n_arms, or None, optional
        Ledger rows of the same arms; None: there are none.
    by_session : Effective of n_arms, or None, optional
        Design effects that divide the runs; the arms need 10 sessions then. None: each run is independent.

    Returns
    -------
    array of bool, shape (n_arms,)
        Whether each was never referenced.
    """
    runs = observed(columns, LedgerSums.none(len(columns)) if ledger is None else ledger)
    never = (runs.n >= ENOUGH_PULLS) & (runs.n_referenced == 0)
    if by_session is None:
        return np.asarray(never)
    enough = runs.n / by_session.unseen_design >= ENOUGH_PULLS
    return np.asarray(never & enough & (by_session.n_run_sessions >= ENOUGH_SESSIONS))


def judge(
    columns: ArmColumns,
    summary: Summary,
    seeds: frozenset[str],
    *,
    changes: Changes,
    stale: Bools,
    chances: Mapping[str, Chance],
    by_session: Effective,
    ledger: LedgerSums | None = None,
) -> tuple[Judgement, ...]:
    """Return every arm's judgement, aligned with the columns.

    ``changes`` and ``stale`` are of the same arms and revision, ``chances`` by arm. Titles, the attention list,
    tables, the report and the command line all use these judgements.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    summary : Summary of n_arms
        What is believed of the same arms.
    seeds : frozenset of str
        Ids of the seeds.
    changes : Changes
        Arms that changed.
    stale : array of bool, shape (n_arms,)
        Whether each is stale.
    chances : mapping of str to Chance
        Chances of inclusion; arms may be missing.
    by_session : Effective of n_arms
        Effective pulls of the same arms.
    ledger : LedgerSums of n_arms, or None, optional
        Ledger rows of the same arms; None: there are none.

    Returns
    -------
    tuple of Judgement, n_arms long
        Judgement of each arm.
    """
    ledger = LedgerSums.none(len(columns)) if ledger is None else ledger
    alarmed = alarms(columns, changes, stale, never_referenced(columns, ledger, by_session))
    runs, parts = observed(columns, ledger), sources(columns, ledger)
    shifts = {shift.arm: shift for shift in changes.shifts}
    shifts |= {shift.arm: shift for group in changes.poisoned for shift in group.shifts}
    groups = {arm: group.arms for group in changes.poisoned for arm in group.arms}
    lower, upper, is_near = _intervals(columns, summary)
    weight = (columns.base_alpha_micro + columns.base_beta_micro) / MICRO
    judgements = []
    for index, key in enumerate(columns.keys):
        chance, shift = chances.get(key, _NOT_OFFERED), shifts.get(key)
        interval = Interval(
            lower=float(lower[index]),
            upper=float(upper[index]),
            method="highest-density" if is_near[index] else "exact",
            prob=summary.prob,
        )
        pulls = int(columns.pulls[index])
        n_sessions, judged_by = int(by_session.n_sessions[index]), _judged_by(by_session, index)
        effective = None if judged_by is None else float(by_session.pulls[index])
        missing = _missing(max(ENOUGH_PULLS, int(weight[index]) + 1), pulls, effective)
        name = (
            alarmed.get(key)
            or _by_rule(columns, seeds, by_session, index)
            or _by_worth(missing, judged_by, chance)
        )
        last = int(columns.last_at_ms[index])
        judgements.append(
            Judgement(
                arm=key,
                name=name,
                mean=float(summary.mean[index]),
                interval=interval,
                pulls=pulls,
                inclusions=int(columns.inclusions[index]),
                prior_weight=float(weight[index]),
                missing_pulls=missing,
                recent=None if shift is None else _recent_mean(shift),
                others=_others(key, shift, groups),
                last_at_ms=None if last == UNKNOWN else last,
                pulls_exact=columns.exact_pulls(index),
                chance=chance.chance,
                chance_error=chance.standard_error,
                break_even=chance.break_even_mean,
                no_break_even=chance.no_break_even,
                limits=chance.limits,
                n_observed=int(runs.n[index]),
                n_referenced=int(runs.n_referenced[index]),
                sources=parts[index],
                n_sessions=n_sessions,
                effective_pulls=effective,
                judged_by=judged_by,
                called_only=bool(by_session.called_only[index]),
                n_named=int(columns.n_named[index]),
                n_loaded=int(columns.n_loaded[index]),
            )
        )
    return tuple(judgements)


def _judged_by(by_session: Effective, index: int) -> Interval | None:
    """Return the interval of the arm's effective pulls, or None if it has too few sessions."""
    lower, upper = float(by_session.lower[index]), float(by_session.upper[index])
    if math.isnan(lower):
        return None
    return Interval(lower=lower, upper=upper, method="effective", prob=PROB)


def _missing(needed: int, pulls: int, effective: float | None) -> int:
    """Return how many pulls are missing; how many effective ones if there are enough pulls as such."""
    if pulls < needed or effective is None:
        return max(needed - pulls, 0)
    return max(math.ceil(needed - effective), 0)


def _by_rule(
    columns: ArmColumns, seeds: frozenset[str], by_session: Effective, index: int
) -> JudgementName | None:
    if columns.types[index] == "section":
        return "section"
    if by_session.called_only[index]:
        return "called_only"
    return "seed" if columns.keys[index] in seeds else None


def _by_worth(missing: int, judged_by: Interval | None, chance: Chance) -> JudgementName:
    """Judge by the interval against the break-even mean, or against one half where none is known."""
    if missing:
        return "too_early"
    if judged_by is None:
        return "few_sessions"
    if chance.no_break_even == "always_in":
        by_belief = _against(judged_by, _HALF, "used_often", "used_seldom")
        return "unopposed" if by_belief == "open" else by_belief
    if chance.no_break_even == "never_in":
        return "not_worth"
    if chance.break_even_mean is None:
        return _against(judged_by, _HALF, "used_often", "used_seldom")
    return _against(judged_by, chance.break_even_mean, "worth", "not_worth")


def _against(by: Interval, mean: float, above: JudgementName, below: JudgementName) -> JudgementName:
    if by.lower > mean:
        return above
    return below if by.upper < mean else "open"


def _intervals(columns: ArmColumns, summary: Summary) -> tuple[Floats, Floats, Bools]:
    """Return the equal tails, highest density where the mean is near 0 or 1, and where that is.

    Sections keep the equal tails: their means are always near 1 and say nothing.
    """
    lower, upper = summary.lower.copy(), summary.upper.copy()
    not_section = np.array([of != "section" for of in columns.types], dtype=np.bool_)
    near = not_section & (np.minimum(summary.mean, 1 - summary.mean) < _NEAR_THE_END)
    if near.any():
        lower[near], upper[near] = highest_density(summary.alpha[near], summary.beta[near], summary.prob)
    return lower, upper, near


def _recent_mean(shift: Shift) -> RecentMean:
    return RecentMean(
        since_ms=shift.since_ms,
        mean=shift.mean_after,
        n=shift.n_after,
        mean_before=shift.mean_before,
        n_before=shift.n_before,
    )


def _others(key: str, shift: Shift | None, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if key in groups:
        return tuple(arm for arm in groups[key] if arm != key)
    return () if shift is None else shift.rivals or shift.joined
