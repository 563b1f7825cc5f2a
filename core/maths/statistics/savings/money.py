"""Bills of runs → savings in money: the comparison of tokens, with what each run cost in place of its tokens.

A bill of an unknown split, or one that is only a lower bound, takes no part, and a lower bound withholds the proof.
An estimated bill (assumed prices or an assumed split) takes part, and then nothing is proven: what selecting saves
could lie in the assumption.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from core.columns import UNKNOWN, SessionRuns, UsageColumns
from core.maths.statistics.savings.checks import NO_TERMS, ClaimTerms
from core.maths.statistics.savings.comparison import Comparison, comparison
from core.maths.statistics.savings.over_time import TotalSaved, months, running, total_saved
from core.maths.statistics.savings.runs import ComparedRuns, as_usage
from core.maths.statistics.savings.sums import BASELINE, SELECTED
from core.maths.statistics.savings.units import in_money
from core.maths.statistics.savings.verdict import VerdictReason
from core.records.alike import alike
from core.records.bill import AT_LEAST
from core.records.currency import DOLLAR, PICO
from core.records.estimate import Estimate
from core.records.model_kinds import price_offers
from core.records.saving import SavingsVerdict, SpanSaved
from core.records.status import Money

_ONE: Final = 1 / PICO
"""One unit of a bill in its currency."""


@dataclass(frozen=True, kw_only=True)
class MoneySaved:
    """Savings in money, in per cent and in dollars.

    ``shown`` is the first figure, counted as ``headline`` names; the others are beside it, as in `Comparison`.
    ``baseline_mean`` and ``selected_mean`` are dollars a run at the mix of the selected runs, ``total`` the dollars
    that all selected runs saved. ``n_unbilled`` runs have no exact bill: their model has no price, or the split of
    their tokens is unknown. ``unpriced`` names the models without a price, of other runs too, and ``offers`` the
    priced models that fit them. ``is_estimated``: a price or a split is assumed. ``is_at_least``: a bill is a lower
    bound. Then the verdict is never ``proven``. With ``is_estimated``, ``costs_more`` is a warning. ``bound_percent``
    is the capped figure if baseline runs had found their definitions in a cache that another run left; None where
    sessions share none. "Proven" needs it as well.
    """

    shown: Estimate
    headline: Literal["plain", "capped"]
    mean_percent: Estimate
    typical_percent: Estimate
    capped_percent: Estimate
    always_percent: Estimate
    baseline_mean: float | None
    selected_mean: float | None
    total: TotalSaved
    months: tuple[SpanSaved, ...]
    n_compared: tuple[int, int]
    n_uncompared: int
    n_sessions: tuple[int, int]
    n_unbilled: int
    unpriced: tuple[str, ...]
    offers: Mapping[str, str]
    is_estimated: bool
    is_at_least: bool
    verdict: SavingsVerdict
    reason: VerdictReason
    bound_percent: Estimate | None = None
    currency: str = DOLLAR

    @property
    def record(self) -> Money:
        """The savings as status and the document of savings have them."""
        return alike(
            Money,
            self,
            savings_percent=self.shown.value,
            interval=self.shown.limits,
            estimated=self.is_estimated,
            baseline_avg=self.baseline_mean,
            selected_avg=self.selected_mean,
            saved=self.total.saved.value,
            saved_interval=self.total.saved.limits,
            compared_runs=self.n_compared,
            uncompared_runs=self.n_uncompared,
            unbilled_runs=self.n_unbilled,
            unpriced_models=self.unpriced,
            price_offers=dict(self.offers),
            at_least=self.is_at_least,
            cache_bound=None if self.bound_percent is None else self.bound_percent.limits,
        )

    @property
    def is_known(self) -> bool:
        """True if there is a figure with its interval."""
        return self.shown.lower is not None


def money_saved(
    usage: UsageColumns,
    sampled: SessionRuns | None,
    *,
    priced: Collection[str],
    prob: float,
    terms: ClaimTerms = NO_TERMS,
    unpriced: Collection[str] = (),
) -> MoneySaved | None:
    """Return the savings in money of the usage's runs, by their bills; None where no model has a price.

    ``terms`` are those of a claim about the tokens; that bills are unknown equally often is checked here.
    """
    if sampled is None or not priced:
        return None
    runs = _in_view(sampled, usage)
    billed, worth = in_money(runs), _ONE * _times(usage, sampled)
    columns, compared, overall = _compared(billed, prob, terms)
    bound = None
    if np.any(runs.bound_pico != UNKNOWN):
        warm = np.where(runs.bound_pico == UNKNOWN, runs.bill_pico, runs.bound_pico)
        *_, bound = _compared(in_money(replace(runs, bill_pico=warm)), prob, terms)
    so_far = running(columns, compared, is_narrow=overall.is_narrow)
    means = [None if mean is None else mean * _ONE for mean in overall.columns.tokens]
    is_estimated = bool((runs.is_estimated & compared.is_known).any())
    is_at_least = bool(((runs.bill_marks & AT_LEAST != 0) & compared.is_compared).any())
    verdict, reason = overall.verdict, overall.reason
    if (is_estimated or is_at_least) and verdict in {"proven", "mixed"}:
        verdict, reason = "not_proven", "estimated" if is_estimated else "at_least"
    elif verdict == "proven" and bound is not None and bound.verdict != "proven":
        verdict, reason = "not_proven", "cache"
    names = tuple(sorted({*runs.model, *unpriced} - {*priced}))
    return alike(
        MoneySaved,
        overall,
        headline="plain" if overall.is_narrow else "capped",
        mean_percent=overall.saved_percent,
        baseline_mean=means[BASELINE],
        selected_mean=means[SELECTED],
        months=months([(columns, compared)], worth),
        total=total_saved(compared.tokens, so_far, prob=prob, worth=worth),
        n_unbilled=int((compared.is_compared & ~compared.is_known).sum()),
        unpriced=names,
        offers=price_offers(names, dict.fromkeys(priced, 0.0)),
        is_estimated=is_estimated,
        is_at_least=is_at_least,
        verdict=verdict,
        reason=reason,
        bound_percent=None if bound is None else bound.always_percent,
    )


def _compared(
    billed: SessionRuns, prob: float, terms: ClaimTerms
) -> tuple[UsageColumns, ComparedRuns, Comparison]:
    """Return runs with bills as tokens as usage, coded, and compared."""
    columns = as_usage(billed)
    compared = ComparedRuns(columns, billed)
    models = np.array(billed.model, dtype=np.str_)
    billable = billed.where(np.isin(models, np.unique(models[billed.tokens != UNKNOWN])))
    return columns, compared, comparison(compared, compared.everything, prob, terms.of_usage(billable))


def _in_view(runs: SessionRuns, usage: UsageColumns) -> SessionRuns:
    """Return the runs of the models and channels in the usage."""
    pairs = {*zip(usage.model, usage.channel, strict=True)}
    inside = [pair in pairs for pair in zip(runs.model, runs.channel, strict=True)]
    return runs.where(np.array(inside, dtype=np.bool_))


def _times(usage: UsageColumns, sampled: SessionRuns) -> float:
    """Return the number of selected runs for each sampled one."""
    if sampled.is_all:
        return 1.0
    n_all = int(usage.n[np.array(usage.run_class, dtype=np.str_) == "selected"].sum())
    n_sampled = int((np.array(_in_view(sampled, usage).run_class, dtype=np.str_) == "selected").sum())
    return n_all / max(n_sampled, 1)
