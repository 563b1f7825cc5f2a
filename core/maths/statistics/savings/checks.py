"""Checks that can withhold a claim: whether the runs that came are those that the coin drew.

Each measures a difference in points, with limits that hold however often one looks, and doubts a fair draw with a
probability of at most `CHECK_ERROR`; all five together with at most 1 %. A check that can't see five points yet has
not passed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from core.columns import (
    UNKNOWN,
    Bools,
    Floats,
    Ints,
    SessionRuns,
    UsageColumns,
    is_held_coin,
    is_recorded_coin,
    plain_prob,
)
from core.maths.statistics.savings.bounded import always_limits
from core.maths.statistics.savings.outcomes import CHECK_ERROR, MOSTLY_KNOWN, difference, share_difference
from core.maths.statistics.savings.policies import FIRST_SHARE, HEADLINE_ERROR
from core.maths.statistics.savings.runs import Balance
from core.maths.statistics.savings.sums import no_estimate
from core.maths.statistics.savings.verdict import VerdictReason
from core.records.arm import MICRO
from core.records.estimate import Estimate
from core.records.saving import Check, CheckName, CheckState

VISIBLE_POINTS: Final = 5.0
"""Points that a check must be able to see before it passes."""
SUSPICIOUS: Final = 2.5
"""Standard errors of the share of baseline runs that leave room for lost runs."""
ROOM: Final = 0.15
"""Most room: about the part of selected runs that may be lost unseen where the share is known badly."""
_PRIOR: Final = 100.0
"""Draws that the coin's probability counts for in the bets on the share of baseline runs."""


@dataclass(frozen=True, kw_only=True)
class Selections:
    """Selections of which a row is left, by class (baseline, selected), and how many of them have no run."""

    n: tuple[int, int] = (0, 0)
    n_lost: tuple[int, int] = (0, 0)


NO_SELECTIONS: Final = Selections()


def checks(usage: UsageColumns, runs: SessionRuns, balance: Balance, left: Selections) -> tuple[Check, ...]:
    """Return every check of drawn runs."""
    return (
        Check(
            name="balance",
            state="failed" if balance.fails else "passed",
            difference=no_estimate("no_probabilities", 1 - CHECK_ERROR),
        ),
        _checked("share", _share(usage, runs)),
        _unknown_usage(runs),
        _checked("lost", share_difference(left.n_lost, left.n, CHECK_ERROR), is_certain=not any(left.n_lost)),
        _checked("follow_ups", _follow_ups(runs), within=math.inf),
    )


def _unknown_usage(runs: SessionRuns) -> Check:
    by_coin, unknown = is_recorded_coin(runs.prob_micro), runs.tokens == UNKNOWN
    differs = difference(runs, unknown.astype(np.float64), by_coin, CHECK_ERROR)
    return _checked("unknown_usage", differs, is_certain=not (unknown & by_coin).any())


def _checked(
    name: CheckName, estimate: Estimate, *, is_certain: bool = False, within: float = VISIBLE_POINTS
) -> Check:
    """Return a check that passes once it would see so many points, or where nothing can differ."""
    lower, upper = estimate.limits or (-100.0, 100.0)
    widest = max((estimate.value or 0.0) - lower, upper - (estimate.value or 0.0))
    state: CheckState = "passed" if is_certain or widest <= within else "open"
    return Check(
        name=name, state=state if lower <= 0 <= upper or is_certain else "failed", difference=estimate
    )


def _share(usage: UsageColumns, runs: SessionRuns) -> Estimate:
    """Return the share of baseline runs less the stored probability, in points. Runs of a hold count once."""
    prob, n, hits = _draws(usage, runs)
    fair = (prob > 0) & (prob < 1)
    if not n[fair].sum():
        return no_estimate("no_probabilities", 1 - CHECK_ERROR)
    prob, n, hits = prob[fair], n[fair], hits[fair]
    weight = n / n.sum()
    prior = (_PRIOR * prob, _PRIOR * (1 - prob))
    expected = float((weight * prob).sum())
    ends = [
        float(hits.sum() / n.sum()),
        *map(float, always_limits(n, hits, weight, CHECK_ERROR, prior=prior)),
    ]
    value, lower, upper = (100 * (end - expected) for end in ends)
    return Estimate(value=value, lower=lower, upper=upper, prob=1 - CHECK_ERROR)


def suspected(usage: UsageColumns, runs: SessionRuns, share: Check) -> tuple[float, float]:
    """Return the parts of baseline and selected runs that the share of baseline runs can't exclude to be lost.

    Its log odds leave room of `SUSPICIOUS` standard errors, at most of `ROOM`; while the check is open, of all it
    allows.
    """
    prob, n, hits = _draws(usage, runs)
    expected, spread = float((n * prob).sum()), float((n * prob * (1 - prob)).sum())
    came, n_all = float(hits.sum()), float(n.sum())
    if not (0 < came < n_all and spread > 0):
        return 0.0, 0.0
    odds = _log_odds(came, expected, n_all)
    room = min(SUSPICIOUS * math.sqrt(spread) / (expected * (1 - expected / n_all)), ROOM)
    most = odds + room
    if share.state == "open" and share.difference.upper is not None:
        most = _log_odds(min(expected + n_all * share.difference.upper / 100, 0.999 * n_all), expected, n_all)
    return max(-math.expm1(odds - room), 0.0), max(-math.expm1(-most), 0.0)


def _log_odds(came: float, expected: float, n_all: float) -> float:
    """Return the logarithm of the odds of a baseline run, divided by the expected ones."""
    return math.log(came / (n_all - came) * (n_all - expected) / expected)


def _draws(usage: UsageColumns, runs: SessionRuns) -> tuple[Floats, Floats, Floats]:
    """Return the stored probabilities, the draws of each, and the baseline ones of them."""
    first = np.zeros(len(runs), dtype=np.bool_)
    first[np.unique(runs.draw, return_index=True)[1]] = True
    held = first & is_held_coin(runs.prob_micro)
    parts = [
        (usage.prob_micro, usage.run_class, usage.n, ~is_held_coin(usage.prob_micro)),
        (runs.prob_micro, runs.run_class, np.ones(len(runs), dtype=np.int64), held),
    ]
    prob, is_baseline, n = (np.concatenate(one) for one in zip(*map(_decided, parts), strict=True))
    kinds, at = np.unique(plain_prob(prob), return_inverse=True)
    return (
        kinds / MICRO,
        np.bincount(at, n, len(kinds)).astype(np.float64),
        np.bincount(at, n * is_baseline, len(kinds)).astype(np.float64),
    )


def _decided(part: tuple[Ints, Sequence[str], Ints, Bools]) -> tuple[Ints, Bools, Ints]:
    prob, run_class, n, counted = part
    classes = np.array(run_class, dtype=np.str_)
    rows = counted & is_recorded_coin(prob) & np.isin(classes, ("baseline", "selected"))
    return prob[rows], classes[rows] == "baseline", n[rows]


def _follow_ups(runs: SessionRuns) -> Estimate:
    """Return how much more sessions go on that began with a selected run, where each run is drawn by itself."""
    order = np.lexsort((runs.revision, runs.hour, runs.session))
    rows = order[is_recorded_coin(runs.prob_micro[order]) & ~is_held_coin(runs.prob_micro[order])]
    _, first, n = np.unique(runs.session[rows], return_index=True, return_counts=True)
    if not (n > 1).any():
        return no_estimate("no_variation", 1 - CHECK_ERROR)
    going_on = np.zeros(len(runs))
    going_on[rows[first]] = 1 - 1 / n
    mask = np.zeros(len(runs), dtype=np.bool_)
    mask[rows[first]] = True
    return difference(runs, going_on, mask, CHECK_ERROR)


@dataclass(frozen=True, kw_only=True)
class ClaimTerms:
    """The terms of a claim: the probability ``error`` that it is ever wrong, and what withholds it.

    ``unknown_open``: it can't be seen yet that tokens are unknown equally often, so a claim must hold with the runs
    of unknown tokens counted against it. ``lost`` are the parts of baseline and selected runs that the share of
    baseline runs can't exclude to be lost. At the cap they must not make all of a difference; while the check of the
    share is open (``share_open``), a claim must hold with them.
    """

    error: float
    objections: Mapping[VerdictReason, bool]
    unknown_open: bool
    lost: tuple[float, float]
    share_open: bool = False

    @classmethod
    def of(
        cls, results: Sequence[Check], left: Selections, error: float, lost: tuple[float, float]
    ) -> ClaimTerms:
        """Return the terms that checks allow."""
        state = {check.name: check.state for check in results}
        enough = [n == 0 or n - gone >= MOSTLY_KNOWN * n for n, gone in zip(left.n, left.n_lost, strict=True)]
        withheld: dict[VerdictReason, bool] = {
            "unbalanced": state["balance"] == "failed",
            "share_off": state["share"] == "failed",
            "lost_differ": state["lost"] == "failed",
            "lost_open": not all(enough),
            "unknown_differ": state["unknown_usage"] == "failed",
            "follow_ups_differ": state["follow_ups"] == "failed",
        }
        return cls(
            error=error,
            objections=withheld,
            unknown_open=state["unknown_usage"] == "open",
            lost=lost,
            share_open=state["share"] == "open",
        )

    def of_usage(self, runs: SessionRuns) -> ClaimTerms:
        """Return the terms of a claim about other amounts of the runs."""
        state = _unknown_usage(runs).state
        objections = {**self.objections, "unknown_differ": state == "failed"}
        return replace(self, objections=objections, unknown_open=state == "open")


NO_TERMS: Final = ClaimTerms(
    error=HEADLINE_ERROR * FIRST_SHARE, objections={}, unknown_open=False, lost=(0.0, 0.0)
)
