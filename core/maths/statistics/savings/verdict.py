"""Verdict: what may be claimed of the tokens, and why no more, from two comparisons, capped and plain.

A claim needs runs that our own selection drew, and classes that look drawn (`design`). It rests on the capped mean,
whose interval holds on the spread of real runs, and on an interval that holds however often one looks. The plain mean
must not contradict it, nor the runaway runs, which the cap hides: a selection may make ordinary runs cheaper and
cause a few that cost more than all of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from core.columns import Bools, Floats
from core.maths.statistics.savings.ratio import Compared
from core.maths.statistics.savings.sums import BASELINE, MIN_FOR_PROOF, SELECTED
from core.records.estimate import Estimate, Missing
from core.records.saving import SavingsVerdict

VerdictReason = Literal[
    "interval_above_zero",
    "interval_below_zero",
    "interval_holds_zero",
    "few_for_proof",
    "few_sessions",
    "no_coin",
    "declared_coin",
    "unbalanced",
    "share_off",
    "follow_ups_differ",
    "lost_differ",
    "lost_open",
    "lost_suspected",
    "sessions_open",
    "early_policy",
    "estimated",
    "at_least",
    "cache",
    "unknown_differ",
    "unknown_open",
    "runaways_cost",
    "runaways_spare",
    "means_disagree",
    "few_runs",
    "cannot",
]


CLAIMS: Final = frozenset({"proven", "costs_more", "mixed"})


@dataclass(frozen=True, kw_only=True)
class Claims:
    """Claims that hold, one flag each for every entry of the leading axes.

    ``enough``: runs and sessions for a claim. ``proven`` and ``costs_more`` are never both; ``runaways_cost``: the
    capped mean says savings for sure, but the plain mean or the tokens above the cap say otherwise;
    ``runaways_spare`` the other way round. ``prob`` is that of the interval behind them.
    """

    enough: Bools
    proven: Bools
    costs_more: Bools
    runaways_cost: Bools
    runaways_spare: Bools
    prob: float


def claims(plain: Compared, capped: Compared, common: Floats, prob: float, has_runaways: Bools) -> Claims:
    """Return the claims that both comparisons of the same runs support.

    ``common`` has the mean of each group where no run counts with more than the cap that both groups share.
    ``has_runaways``: some runs are many times as large as others, so tokens above that cap count.

    I. Waudby-Smith and others, *Ann. Stat.* 52, 2024, 2613 (doi:10.1214/24-AOS2408).
    """
    lower, upper = capped.always_percent_limits(prob)
    above = plain.mean - common
    more_above, less_above = (
        has_runaways & (sign * (above[..., SELECTED] - above[..., BASELINE]) > 0) for sign in (1, -1)
    )
    enough = np.asarray((np.minimum(capped.n_sessions, capped.n) >= MIN_FOR_PROOF).all(-1))
    with np.errstate(invalid="ignore"):
        saves, costs = enough & (lower > 0), enough & (upper < 0)
        proven = saves & (plain.saved_percent > 0) & ~more_above
        costs_more = costs & (plain.saved_percent < 0) & ~less_above
    return Claims(
        enough=enough,
        proven=proven,
        costs_more=costs_more,
        runaways_cost=saves & ~proven,
        runaways_spare=costs & ~costs_more,
        prob=prob,
    )


def verdict(
    plain: Estimate, capped: Estimate, allowed: Claims, *, n_least: int
) -> tuple[SavingsVerdict, VerdictReason]:
    """Return the claim that holds, and its reason (without leading axes)."""
    if plain.value is None:
        return "no_figure", "cannot" if plain.missing == "zero_mean" else "few_runs"
    if capped.lower is None:
        return "no_interval", _why_no_interval(capped.missing)
    if not allowed.enough:
        return "not_proven", "few_for_proof" if n_least < MIN_FOR_PROOF else "few_sessions"
    cases: list[tuple[Bools, SavingsVerdict, VerdictReason]] = [
        (allowed.proven, "proven", "interval_above_zero"),
        (allowed.costs_more, "costs_more", "interval_below_zero"),
        (allowed.runaways_cost, "mixed", "runaways_cost"),
        (allowed.runaways_spare, "mixed", "runaways_spare"),
    ]
    return next(((name, why) for flag, name, why in cases if flag), ("not_proven", "interval_holds_zero"))


def _why_no_interval(missing: Missing | None) -> VerdictReason:
    if missing == "few_for_interval":
        return "few_runs"
    return "few_sessions" if missing == "few_sessions" else "cannot"


def withheld(
    claim: tuple[SavingsVerdict, VerdictReason], objections: Mapping[VerdictReason, bool]
) -> tuple[SavingsVerdict, VerdictReason]:
    """Return the verdict, without a claim if one of the objections holds; the first that holds is the reason."""
    objection = next((reason for reason, holds in objections.items() if holds), None)
    return claim if claim[0] not in CLAIMS or objection is None else ("not_proven", objection)
