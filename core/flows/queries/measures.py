"""Measures of a learner for a monitoring system, cached while nothing changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final, NamedTuple

from core.columns import ArmColumns
from core.flows.context import Context
from core.flows.queries.belief import belief_in
from core.flows.queries.frame import visibility
from core.flows.queries.overview import overview
from core.permissions import authorise
from core.records.learner import INSTALLATION
from core.records.times import MINUTE_MS
from core.records.view import View
from core.statistics.overview import Overview
from core.statistics.summary import Summary
from core.store.denials import count_denials
from core.store.reads.measured import Counted, budgets_used, counted, last_run_no

BY_CLOCK_MS: Final = 10 * MINUTE_MS
"""Maximum delay until the measures show an effect of time alone, such as an overdue queue."""
BUCKETS: Final = (100, 500, 1_000, 2_000, 4_000, 8_000, 16_000)
"""Upper bounds in tokens, as in qortex."""
_MOST_CACHED: Final = 256


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
        """Return a copy with more runs.

        >>> Budgets().plus([100, 101, 20_000])
        Budgets(n=(1, 1, 0, 0, 0, 0, 0, 1), tokens=20201)
        """
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
        reader = (context.learner, visible.roles, visible.hidden)
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
