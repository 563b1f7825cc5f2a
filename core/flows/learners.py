"""Learners: who there is, how each is doing, and a new one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from core.errors import Conflict, StoreAway, StoreError
from core.flows.context import Context
from core.flows.names import readable
from core.flows.queries.frame import DEMO_ORIGIN
from core.permissions import authorise
from core.records.alert import ALERT_KINDS, AlertKind
from core.records.learner import INSTALLATION
from core.records.run import Phase
from core.records.times import iso
from core.settings import check_learner
from core.statistics.overview import silent_days
from core.statistics.savings import PlainSavings, plain_savings
from core.store import reads
from core.store.alerts import standing_alerts
from core.store.fleet import Glance, glances, moments
from core.store.transaction import Transaction

LearnerState = Literal["unreadable", "alarmed", "empty", "passive", "selecting"]
"""Its data can't be read; something needs somebody; there is no run yet; it only watches; it selects."""
STATES: Final[tuple[LearnerState, ...]] = get_args(LearnerState)


class LearnerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A learner in one line, from its rollups.

    ``alarms`` are the alerts that stand, and that no run comes, whoever is told of it. ``saved_percent`` is the plain
    figure without an interval and ``tokens_saved`` what selected runs saved together, None where nothing can be
    compared. ``last_run`` is ISO 8601 UTC, None = no run with a time. Of one that is ``unreadable`` nothing is known
    but its name, and ``problem`` says why.
    """

    name: str
    state: LearnerState
    alarms: tuple[AlertKind, ...] = ()
    phase: Phase | None = None
    runs: int | None = None
    arms: int | None = None
    revision: int | None = None
    saved_percent: float | None = None
    tokens_saved: int | None = None
    last_run: str | None = None
    problem: str | None = None

    @property
    def needs_somebody(self) -> bool:
        """Whether somebody should look."""
        return self.state in {"unreadable", "alarmed"}


Kept = MutableMapping[reads.LearnerMoment, Glance]
"""What was read of learners at moments that may still be theirs."""


def learners(context: Context, *, kept: Kept | None = None) -> list[LearnerSummary]:
    """List every learner of the database that the actor may read, by name.

    The statements are the same for one learner and for thousands: they read rollups. An unreadable learner is
    marked as such and does not stop the others. ``kept`` caches the rows of learners without changes, for one
    database. Raises `Denied` where the actor may read no learner.
    """
    _permit(context)
    told = moments(context.store)
    away = {name: one for name, one in told.items() if isinstance(one, StoreError)}
    there = {name: one for name, one in told.items() if not isinstance(one, StoreError)}
    kept = {} if kept is None else kept
    for past in kept.keys() - {*there.values()}:
        kept.pop(past, None)
    known = {name: there[name] for name in readable(context.actor, there)}
    rows = _summaries(context, known, _alarms(context), kept)
    rows += [_unreadable(name, away[name]) for name in readable(context.actor, away)]
    return sorted(rows, key=lambda one: one.name)


def fleet_moment(context: Context) -> Hashable:
    """What tells one state of all learners, and of the alerts that stand, from every other."""
    _permit(context)
    told = moments(context.store)
    seen = tuple((name, str(one) if isinstance(one, StoreError) else one) for name, one in told.items())
    alerts: Hashable = None
    with suppress(StoreAway), context.store.reading(INSTALLATION) as snapshot:
        alerts = snapshot.moment
    return alerts, readable(context.actor, told), seen


def _permit(context: Context) -> None:
    """Raises `Denied` for whoever may read no learner, whatever learners there are."""
    if not context.actor.grants:
        authorise(context.actor, "read", None)


def _alarms(context: Context) -> dict[str, set[AlertKind]]:
    """Alerts that stand, by learner; none where whoever keeps them doesn't answer."""
    found: dict[str, set[AlertKind]] = {}
    with suppress(StoreAway), context.store.reading(INSTALLATION) as snapshot:
        for row in standing_alerts(snapshot):
            found.setdefault(row.learner, set()).add(row.kind)
    return found


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
                f"A new learner's name must be free, got {fresh.learner!r}, which is there.",
                next_step="Choose another name, or go to that learner.",
            )
        txn.audit("create", None, {"learner": fresh.learner})

    fresh.write("settings", work, create=True)
    with context.store.reading(fresh.learner) as snapshot:
        (made,) = _summaries(context, {fresh.learner: reads.learner_moments(snapshot)[fresh.learner]}, {}, {})
    return made


def _summaries(
    context: Context,
    moments: Mapping[str, reads.LearnerMoment],
    alarms: Mapping[str, set[AlertKind]],
    kept: Kept,
) -> list[LearnerSummary]:
    seen = _seen(context, list(moments.values()), kept)
    read = {moment: one for moment, one in seen.items() if isinstance(one, Glance)}
    saved = dict(zip(read, plain_savings([one.compared for one in read.values()]), strict=True))
    now_ms = context.clock()
    rows = []
    for name, moment in moments.items():
        one = seen.get(moment)
        if isinstance(one, Glance):
            rows.append(_summary(name, one, saved[moment], alarms.get(name, set()), now_ms))
        elif one is not None:
            rows.append(_unreadable(name, one))
    return rows


def _seen(
    context: Context, moments: Sequence[reads.LearnerMoment], kept: Kept
) -> dict[reads.LearnerMoment, Glance | StoreError]:
    """Each at a glance, or why not; one that is gone meanwhile is left out."""
    there = dict(kept)  # a copy: somebody else may be asking, too
    found = glances(context.store, [one.number for one in moments if one not in there])
    read = {one: found[one.number] for one in moments if one.number in found}
    kept.update((one, seen) for one, seen in read.items() if isinstance(seen, Glance))
    return {one: there.get(one) or read[one] for one in moments if one in there or one in read}


def _summary(
    name: str, seen: Glance, saved: PlainSavings, alarms: set[AlertKind], now_ms: int
) -> LearnerSummary:
    is_awaited = not seen.origin.startswith(DEMO_ORIGIN)
    silent = silent_days(seen.last_at_ms, now_ms if is_awaited else None, pause_days=seen.pause_days)
    kinds: set[AlertKind] = alarms if silent is None else {*alarms, "silent"}
    return LearnerSummary(
        name=name,
        state=_state(seen, kinds),
        alarms=tuple(kind for kind in ALERT_KINDS if kind in kinds),
        phase=seen.phase,
        runs=seen.n_runs,
        arms=seen.n_arms,
        revision=seen.revision,
        saved_percent=saved.percent,
        tokens_saved=saved.tokens,
        last_run=iso(seen.last_at_ms),
    )


def _state(seen: Glance, alarms: set[AlertKind]) -> LearnerState:
    if alarms:
        return "alarmed"
    if not seen.n_runs:
        return "empty"
    return "passive" if seen.phase == "passive" else "selecting"
