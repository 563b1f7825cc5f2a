"""Measures: a learner as a monitor sees it, kept while nothing changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final, NamedTuple

from core.columns import ArmColumns
from core.flows.context import Context
from core.flows.queries.belief import belief_in
from core.flows.queries.frame import sight
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
"""What goes by the clock (a queue becomes overdue) is seen within so long."""
BUCKETS: Final = (100, 500, 1_000, 2_000, 4_000, 8_000, 16_000)
"""Tokens, as qortex counts them."""
_MOST_KEPT: Final = 256


@dataclass(frozen=True, kw_only=True)
class Measures:
    """A learner at one moment: the first page, every arm with what is believed of it, and what was counted."""

    learner: str
    revision: int
    overview: Overview
    columns: ArmColumns
    summary: Summary
    counted: Counted


def measures(context: Context) -> Measures:
    """A learner as a monitor sees it."""
    seen = overview(context)
    with context.reading() as snapshot:
        belief = belief_in(snapshot, View())
        return Measures(
            learner=context.learner,
            revision=snapshot.revision,
            overview=seen,
            columns=belief.columns,
            summary=belief.summary,
            counted=counted(snapshot),
        )


def n_denials(context: Context) -> int:
    """How often anybody was refused anything, ever; for who may read every learner."""
    authorise(context.actor, "read", None)
    with context.store.reading(INSTALLATION) as snapshot:
        return count_denials(snapshot, 0)


class Budgets(NamedTuple):
    """Runs chosen within a budget, by the tokens that were in the prompt: how many in each of `BUCKETS` and beyond,
    and the tokens of all.
    """

    n: tuple[int, ...] = (0,) * (len(BUCKETS) + 1)
    tokens: int = 0

    def plus(self, used: Iterable[int]) -> Budgets:
        """The same with more runs.

        >>> Budgets().plus([100, 101, 20_000])
        Budgets(n=(1, 1, 0, 0, 0, 0, 0, 1), tokens=20201)
        """
        n, tokens = list(self.n), self.tokens
        for one in used:
            n[bisect_left(BUCKETS, one)] += 1
            tokens += one
        return Budgets(tuple(n), tokens)


class _Since(NamedTuple):
    """What was counted so far in which database, and up to which run."""

    database: tuple[str, tuple[int, ...]]
    run_no: int
    budgets: Budgets


class Monitor:
    """What is kept between one look and the next, at one database.

    Measures are kept while the learner's moment is the same, or for ten minutes. Tokens used of budgets are counted
    from the first look on, as any process counts what it saw: so a look costs what is new, never what there is.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[Hashable, tuple[Hashable, Measures]] = {}
        self._budgets: dict[str, _Since] = {}

    def measures(self, context: Context) -> Measures:
        """A learner as a monitor sees it, the same while nothing was recorded."""
        seen = sight(context)
        who = (context.learner, seen.roles, seen.hidden)
        key = (seen.moment, context.clock() // BY_CLOCK_MS)
        known = self._kept.get(who)
        if known is not None and known[0] == key:
            return known[1]
        found = measures(context)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[who] = (key, found)
        return found

    def budgets(self, context: Context) -> Budgets:
        """Runs chosen within a budget since the first look."""
        with self._lock, context.reading() as snapshot:
            database = (snapshot.origin, snapshot.moment.file)
            known = self._budgets.get(context.learner)
            if known is None or known.database != database:
                known = _Since(database, last_run_no(snapshot), Budgets())
            run_no, used = budgets_used(snapshot, known.run_no)
            now = self._budgets[context.learner] = _Since(database, run_no, known.budgets.plus(used))
            return now.budgets
