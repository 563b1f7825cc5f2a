"""Status of a learner in one answer, and its measures for a monitoring system."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final, NamedTuple

from core.columns import ArmColumns
from core.flows.context import Context
from core.flows.queries.belief import belief_in
from core.flows.queries.frame import visibility
from core.flows.queries.judgement import recent_events_in
from core.flows.queries.overview import overview
from core.flows.queries.savings import savings_in, used_in
from core.maths.statistics import savings as savings_of
from core.maths.statistics.judgement import alarms, stale_arms
from core.maths.statistics.overview import Overview
from core.maths.statistics.summary import Summary
from core.records.actor import authorise
from core.records.alike import alike
from core.records.judgement import JUDGEMENTS, JudgementName
from core.records.learner import INSTALLATION
from core.records.run_query import View
from core.records.saving import Outcomes
from core.records.status import Baseline, Status
from core.records.times import MINUTE_MS, iso
from core.spool import Spool
from core.store import reads
from core.store.compacted import all_compacted
from core.store.denials import count_denials
from core.store.files import files_of, is_open_to_others
from core.store.mending import unprovable_until
from core.store.offers import offer_counts
from core.store.reads.usage import Counted, budgets_used, counted, last_run_no
from core.store.transaction import Snapshot
from core.upkeep import known_damage

BY_CLOCK_MS: Final = 10 * MINUTE_MS
"""Maximum delay until the measures show an effect of time alone, such as an overdue queue."""
BUCKETS: Final = (100, 500, 1_000, 2_000, 4_000, 8_000, 16_000)
"""Upper bounds in tokens, as in qortex."""
_MOST_CACHED: Final = 256


def status(context: Context) -> Status:
    """Show where the data are and what they hold."""
    with context.reading() as snapshot:
        (totals, columns, judged), used, offers, servers, (server, deleted, until) = snapshot.together(
            lambda: _counts(snapshot),
            lambda: used_in(snapshot, View()),
            lambda: offer_counts(snapshot),
            lambda: reads.servers(snapshot),
            lambda: (reads.server_state(snapshot), all_compacted(snapshot), unprovable_until(snapshot)),
        )
        saved = savings_in(snapshot, used, len(columns))
    standby = context.store.standby
    read_server = None if standby is None else standby.server_state()
    return alike(
        Status,
        totals,
        database=str(context.store.location),
        learner=context.learner,
        phase=snapshot.settings.phase,
        mode=snapshot.settings.mode,
        arms=len(columns),
        pulls=columns.n_pulls,
        judged=judged,
        offers=offers.n_offers,
        offers_unobserved=offers.unobserved,
        baseline=_baseline(saved.overall, saved.outcome),
        money=None if saved.money is None else saved.money.record,
        revision=snapshot.revision,
        head=snapshot.head,
        first_run=iso(totals.first_at_ms),
        last_run=iso(totals.last_at_ms),
        open_to_others=tuple(
            str(file) for file in files_of(context.store.location) if is_open_to_others(file)
        ),
        servers=servers,
        standing=server,
        read_database=None if standby is None else str(standby.place),
        read_standing=read_server,
        read_problem=None if standby is None or standby.problem is None else standby.problem.problem,
        spool=Spool.of_database(context.store.location, context.learner).counts(),
        compacted=deleted,
        unprovable=until,
        damage=known_damage(context.store.location),
    )


def _counts(snapshot: Snapshot) -> tuple[reads.Totals, ArmColumns, dict[JudgementName, int]]:
    """Return run totals, arms, and the number of arms per judgement that needs attention."""
    totals, columns = snapshot.together(lambda: reads.totals(snapshot), lambda: reads.arm_columns(snapshot))
    lately = recent_events_in(snapshot, columns, View(), totals.last_at_ms)
    stale = stale_arms(columns, lately.inclusions, lately.end_ms)
    counts = Counter(alarms(columns, lately.changes, stale, lately.never).values())
    return totals, columns, {name: counts[name] for name in JUDGEMENTS if name in counts}


def _baseline(saved: savings_of.Comparison, outcome: Outcomes) -> Baseline:
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
        outcome=outcome,
    )


# Measures


@dataclass(frozen=True, kw_only=True)
class Measures:
    """One revision of a learner: the overview, every arm's posterior, and the counters."""

    learner: str
    revision: int
    overview: Overview
    columns: ArmColumns
    summary: Summary
    counted: Counted


def measures(context: Context) -> Measures:
    """Return the measures of a learner for a monitoring system."""
    overall = overview(context)
    with context.reading() as snapshot:
        belief = belief_in(snapshot, View())
        return Measures(
            learner=context.learner,
            revision=snapshot.revision,
            overview=overall,
            columns=belief.columns,
            summary=belief.summary,
            counted=counted(snapshot),
        )


def n_denials(context: Context) -> int:
    """Return the total number of refused requests. The caller must be able to read every learner."""
    authorise(context.actor, "read", None)
    with context.store.reading(INSTALLATION) as snapshot:
        return count_denials(snapshot, 0)


class Budgets(NamedTuple):
    """Runs selected within a budget by the tokens of their prompts: counts per bucket, and the sum.

    ``n`` has one more entry than `BUCKETS`, for larger prompts.
    """

    n: tuple[int, ...] = (0,) * (len(BUCKETS) + 1)
    tokens: int = 0

    def plus(self, used: Iterable[int]) -> Budgets:
        """Return a copy with more runs."""
        n, tokens = list(self.n), self.tokens
        for one in used:
            n[bisect_left(BUCKETS, one)] += 1
            tokens += one
        return Budgets(tuple(n), tokens)


class _Since(NamedTuple):
    """Budgets counted so far, the database they belong to, and the last run counted."""

    database: tuple[str, tuple[int, ...]]
    run_no: int
    budgets: Budgets


class Monitor:
    """Cache of the measures of one database between two polls.

    Measures are cached while the learner's revision is the same, for at most 10 minutes. Tokens of budgets are
    counted from the first poll on, like any counter of a process. A poll therefore costs only the new runs.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._cache: dict[Hashable, tuple[Hashable, Measures]] = {}
        self._budgets: dict[str, _Since] = {}

    def measures(self, context: Context) -> Measures:
        """Return the measures of a learner, from the cache while nothing was recorded."""
        visible = visibility(context)
        reader = (context.learner, visible.roles, visible.hidden, visible.blind)
        key = (visible.snapshot_key, context.clock() // BY_CLOCK_MS)
        known = self._cache.get(reader)
        if known is not None and known[0] == key:
            return known[1]
        current = measures(context)
        if len(self._cache) >= _MOST_CACHED:
            self._cache.clear()
        self._cache[reader] = (key, current)
        return current

    def budgets(self, context: Context) -> Budgets:
        """Return the runs selected within a budget since the first poll."""
        with self._lock, context.reading() as snapshot:
            database = (snapshot.origin, snapshot.moment.file)
            known = self._budgets.get(context.learner)
            if known is None or known.database != database:
                # A restored database counts on: a counter must not fall.
                so_far = Budgets() if known is None else known.budgets
                known = _Since(database, last_run_no(snapshot), so_far)
            run_no, used = budgets_used(snapshot, known.run_no)
            now = self._budgets[context.learner] = _Since(database, run_no, known.budgets.plus(used))
            return now.budgets
