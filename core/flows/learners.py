"""Learners: who there is, and a new one."""

from __future__ import annotations

import msgspec

from core.errors import Conflict
from core.flows.context import Context
from core.flows.names import learner_names
from core.records.run import Phase
from core.records.times import iso
from core.settings import check_learner
from core.store import reads
from core.store.transaction import Transaction


class LearnerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A learner in one line; ``last_run`` is ISO 8601 UTC, None = no run with a time."""

    name: str
    phase: Phase
    runs: int
    arms: int
    revision: int
    last_run: str | None


def learners(context: Context) -> list[LearnerSummary]:
    """Every learner of the database that the actor may read, by name; raises `Denied` where that can be none."""
    return [_summary(context, name) for name in learner_names(context)]


def create_learner(context: Context, name: str) -> LearnerSummary:
    """Make a learner with settings as they come, and nothing in it.

    Raises `InvalidSetting` for a name that can't be one, `Conflict` for one that is taken.
    """
    fresh = context.of(check_learner(name.strip()))

    def work(txn: Transaction) -> None:
        if not txn.created:
            raise Conflict(
                f"A new learner's name must be free, got {fresh.learner!r}, which is there.",
                next_step="Choose another name, or go to that learner.",
            )
        txn.audit("create", None, {"learner": fresh.learner})

    fresh.write("settings", work, create=True)
    return _summary(context, fresh.learner)


def _summary(context: Context, name: str) -> LearnerSummary:
    with context.store.reading(name) as snapshot:
        totals = reads.totals(snapshot)
        return LearnerSummary(
            name=name,
            phase=snapshot.settings.phase,
            runs=totals.runs,
            arms=sum(reads.arm_counts(snapshot).values()),
            revision=snapshot.revision,
            last_run=iso(totals.last_at_ms),
        )
