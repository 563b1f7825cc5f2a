"""Status of a learner in one answer."""

from __future__ import annotations

from core.flows.context import Context
from core.flows.queries.overview import overview_in
from core.flows.queries.savings import limits_of, money_of
from core.records.status import Baseline, Status
from core.records.times import iso
from core.records.view import View
from core.statistics import savings as savings_of
from core.store import reads
from core.store.files import files_of, is_open_to_others
from core.store.offers import offer_counts


def status(context: Context) -> Status:
    """Show where the data are and what they hold."""
    with context.reading() as snapshot:
        totals, overall, offers, servers, standing = snapshot.together(
            lambda: reads.totals(snapshot),
            lambda: overview_in(context, snapshot, View()),
            lambda: offer_counts(snapshot),
            lambda: reads.servers(snapshot),
            lambda: reads.standing(snapshot),
        )
    standby = context.store.standby
    read_standing = None if standby is None else standby.standing()
    return Status(
        database=str(context.store.location),
        learner=context.learner,
        phase=snapshot.settings.phase,
        mode=snapshot.settings.mode,
        runs=totals.runs,
        observed=totals.observed,
        skipped=totals.skipped,
        empty=totals.empty,
        arms=overall.n_arms,
        pulls=overall.n_pulls,
        need_a_look=overall.needs,
        offers=offers.n_offers,
        offers_unobserved=offers.unobserved,
        tokens=totals.tokens,
        baseline=_baseline(overall.savings),
        money=money_of(overall.money),
        revision=snapshot.revision,
        first_run=iso(totals.first_at_ms),
        last_run=iso(totals.last_at_ms),
        open_to_others=tuple(
            str(file) for file in files_of(context.store.location) if is_open_to_others(file)
        ),
        servers=servers,
        standing=standing,
        read_database=None if standby is None else str(standby.place),
        read_standing=read_standing,
        read_problem=None if standby is None or standby.problem is None else standby.problem.problem,
    )


def _baseline(saved: savings_of.Comparison) -> Baseline:
    return Baseline(
        baseline_runs=saved.baseline.n_runs,
        selected_runs=saved.selected.n_runs,
        baseline_avg_tokens=saved.baseline.mean_tokens,
        selected_avg_tokens=saved.selected.mean_tokens,
        savings_percent=saved.saved_percent.value,
        interval=limits_of(saved.saved_percent),
        truncated_runs=saved.baseline.n_truncated,
        typical_savings_percent=saved.typical_percent.value,
        typical_interval=limits_of(saved.typical_percent),
        capped_savings_percent=saved.capped_percent.value,
        capped_interval=limits_of(saved.capped_percent),
        compared_runs=saved.n_compared,
        uncompared_runs=saved.n_uncompared,
        formula_savings_percent=saved.plain_percent,
        verdict=saved.verdict,
        headline="plain" if saved.is_narrow else "capped",
    )
