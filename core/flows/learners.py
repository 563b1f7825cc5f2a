"""Learners of a database: list them with their state, and create one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Annotated, Final, get_args

from msgspec import Meta

from core.errors import Conflict, StoreAway, StoreError
from core.flows.context import Context, readable
from core.flows.queries.frame import DEMO_ORIGIN
from core.maths.statistics.overview import silent_days
from core.maths.statistics.savings import PlainSavings, plain_savings
from core.records.actor import authorise
from core.records.alert import ALERT_KINDS, AlertKind
from core.records.learner import INSTALLATION, LearnerState, LearnerSummary
from core.records.times import iso
from core.settings import check_learner
from core.store import reads
from core.store.alerts import active_alerts
from core.store.fleet import LearnerSummaryRow, glances, moments
from core.store.transaction import Transaction

STATES: Final[tuple[LearnerState, ...]] = get_args(LearnerState)


LearnerCache = MutableMapping[reads.LearnerStateKey, LearnerSummaryRow]
"""Cache of learner rows by version."""


def learners(context: Context, *, cache: LearnerCache | None = None) -> list[LearnerSummary]:
    """List every learner of the database that the actor may read, by name.

    The statements are the same for one learner and for thousands: they read rollups. An unreadable learner is marked
    as such and does not stop the others. ``cache`` holds the rows of unchanged learners of one database. Raises
    `Denied` if the actor may read no learner.
    """
    _permit(context)
    versions = moments(context.store)
    unreadable = {name: one for name, one in versions.items() if isinstance(one, StoreError)}
    readable_versions = {name: one for name, one in versions.items() if not isinstance(one, StoreError)}
    cache = {} if cache is None else cache
    for outdated in cache.keys() - {*readable_versions.values()}:
        cache.pop(outdated, None)
    known = {name: readable_versions[name] for name in readable(context.actor, readable_versions)}
    kinds: dict[str, set[AlertKind]] = {}
    with suppress(StoreAway), context.store.reading(INSTALLATION) as snapshot:
        for row in active_alerts(snapshot):
            kinds.setdefault(row.learner, set()).add(row.kind)
    rows = _summaries(context, known, kinds, cache)
    rows += [_unreadable(name, unreadable[name]) for name in readable(context.actor, unreadable)]
    return sorted(rows, key=lambda one: one.name)


def fleet_version(context: Context) -> Hashable:
    """Return a key of the state of all learners and active alerts."""
    _permit(context)
    versions = moments(context.store)
    states = tuple((name, str(one) if isinstance(one, StoreError) else one) for name, one in versions.items())
    alerts: Hashable = None
    with suppress(StoreAway), context.store.reading(INSTALLATION) as snapshot:
        alerts = snapshot.moment
    return alerts, readable(context.actor, versions), states


def _permit(context: Context) -> None:
    """Raise `Denied` for an actor without any role, even if there are no learners."""
    if not context.actor.grants:
        authorise(context.actor, "read", None)


def _unreadable(name: str, problem: StoreError) -> LearnerSummary:
    return LearnerSummary(name=name, state="unreadable", problem=problem.problem)


def create_learner(
    context: Context, name: Annotated[str, Meta(description="Name of the new learner.")]
) -> LearnerSummary:
    """Create an empty learner with the default settings.

    Raises `InvalidSetting` for an invalid name, `Conflict` for an existing one.
    """
    fresh = context.of(check_learner(name.strip()))

    def work(txn: Transaction) -> None:
        if not txn.created:
            raise Conflict(
                f"A new learner's name must be free, got {fresh.learner!r}, which exists.",
                next_step="Choose another name, or use that learner.",
            )
        txn.audit("create", None, {"learner": fresh.learner})

    fresh.write("settings", work, create=True)
    with context.store.reading(fresh.learner) as snapshot:
        (summary,) = _summaries(
            context, {fresh.learner: reads.learner_moments(snapshot)[fresh.learner]}, {}, {}
        )
    return summary


def _summaries(
    context: Context,
    versions: Mapping[str, reads.LearnerStateKey],
    alarms: Mapping[str, set[AlertKind]],
    cache: LearnerCache,
) -> list[LearnerSummary]:
    rows_by_version = _summary_rows(context, list(versions.values()), cache)
    read = {version: one for version, one in rows_by_version.items() if isinstance(one, LearnerSummaryRow)}
    saved = dict(zip(read, plain_savings([one.compared for one in read.values()]), strict=True))
    now_ms = context.clock()
    rows = []
    for name, version in versions.items():
        one = rows_by_version.get(version)
        if isinstance(one, LearnerSummaryRow):
            rows.append(_summary(name, one, saved[version], alarms.get(name, set()), now_ms))
        elif one is not None:
            rows.append(_unreadable(name, one))
    return rows


def _summary_rows(
    context: Context, versions: Sequence[reads.LearnerStateKey], cache: LearnerCache
) -> dict[reads.LearnerStateKey, LearnerSummaryRow | StoreError]:
    """Return the row of each learner, or its error. Learners removed meanwhile are left out."""
    cached = dict(cache)  # a copy: another thread may use the cache too
    fresh = glances(context.store, [one.number for one in versions if one not in cached])
    read = {one: fresh[one.number] for one in versions if one.number in fresh}
    cache.update((version, one) for version, one in read.items() if isinstance(one, LearnerSummaryRow))
    return {one: cached.get(one) or read[one] for one in versions if one in cached or one in read}


def _summary(
    name: str, state: LearnerSummaryRow, saved: PlainSavings, alarms: set[AlertKind], now_ms: int
) -> LearnerSummary:
    is_awaited = not state.origin.startswith(DEMO_ORIGIN)
    silent = silent_days(state.last_at_ms, now_ms if is_awaited else None, pause_days=state.pause_days)
    kinds: set[AlertKind] = alarms if silent is None else {*alarms, "silent"}
    return LearnerSummary(
        name=name,
        state=_state(state, kinds),
        alarms=tuple(kind for kind in ALERT_KINDS if kind in kinds),
        phase=state.phase,
        runs=state.n_runs,
        arms=state.n_arms,
        revision=state.revision,
        saved_percent=saved.percent,
        tokens_saved=saved.tokens,
        last_run=iso(state.last_at_ms),
    )


def _state(state: LearnerSummaryRow, alarms: set[AlertKind]) -> LearnerState:
    if alarms:
        return "alarmed"
    if not state.n_runs:
        return "empty"
    return "passive" if state.phase == "passive" else "selecting"
