"""Status of a learner in one answer."""

from __future__ import annotations

from collections import Counter

from core.columns import ArmColumns
from core.flows.context import Context
from core.flows.queries.judgement import recent_events_in
from core.flows.queries.savings import savings_in, used_in
from core.records.judgement import JUDGEMENTS, JudgementName
from core.records.status import Baseline, Compacted, Status
from core.records.times import iso
from core.records.view import View
from core.spool import Spool
from core.statistics import savings as savings_of
from core.statistics.judgement import alarms, stale_arms
from core.store import reads
from core.store.compacted import all_compacted
from core.store.files import files_of, is_open_to_others
from core.store.offers import offer_counts
from core.store.transaction import Snapshot


def status(context: Context) -> Status:
    """Show where the data are and what they hold."""
    with context.reading() as snapshot:
        (totals, columns, judged), used, offers, servers, standing = snapshot.together(
            lambda: _counts(snapshot),
            lambda: used_in(snapshot, View()),
            lambda: offer_counts(snapshot),
            lambda: reads.servers(snapshot),
            lambda: reads.standing(snapshot),
        )
        saved = savings_in(snapshot, used, len(columns))
        deleted = all_compacted(snapshot)
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
        arms=len(columns),
        pulls=columns.n_pulls,
        judged=judged,
        offers=offers.n_offers,
        offers_unobserved=offers.unobserved,
        tokens=totals.tokens,
        baseline=_baseline(saved.overall),
        money=None if saved.money is None else saved.money.record,
        revision=snapshot.revision,
        head=snapshot.head,
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
        spool=Spool.of_database(context.store.location, context.learner).counts(),
        compacted=deleted,
    )


def compacted(context: Context) -> Compacted | None:
    """Return the runs that `compact` deleted; None without any."""
    with context.reading() as snapshot:
        return all_compacted(snapshot)


def _counts(snapshot: Snapshot) -> tuple[reads.Totals, ArmColumns, dict[JudgementName, int]]:
    """Return run totals, arms, and the number of arms per judgement that needs attention."""
    totals, columns = snapshot.together(lambda: reads.totals(snapshot), lambda: reads.arm_columns(snapshot))
    lately = recent_events_in(snapshot, columns, View(), totals.last_at_ms)
    stale = stale_arms(columns, lately.inclusions, lately.end_ms)
    counts = Counter(alarms(columns, lately.changes, stale, lately.never).values())
    return totals, columns, {name: counts[name] for name in JUDGEMENTS if name in counts}


def _baseline(saved: savings_of.Comparison) -> Baseline:
    return Baseline(
        baseline_runs=saved.baseline.n_runs,
        selected_runs=saved.selected.n_runs,
        baseline_avg_tokens=saved.baseline.mean_tokens,
        selected_avg_tokens=saved.selected.mean_tokens,
        savings_percent=saved.saved_percent.value,
        interval=saved.saved_percent.limits,
        truncated_runs=saved.baseline.n_truncated,
        typical_savings_percent=saved.typical_percent.value,
        typical_interval=saved.typical_percent.limits,
        capped_savings_percent=saved.capped_percent.value,
        capped_interval=saved.capped_percent.limits,
        compared_runs=saved.n_compared,
        uncompared_runs=saved.n_uncompared,
        formula_savings_percent=saved.plain_percent,
        verdict=saved.verdict,
        headline="plain" if saved.is_narrow else "capped",
    )
