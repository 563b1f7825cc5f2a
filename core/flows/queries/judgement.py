"""Judgements of arms, which every page and command uses, with the confidence in their posteriors, and lists of arms.

Layers have their quality here, and unread observations are counted: rewards that no posterior includes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal, Protocol, TypeVar, Unpack

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from core.columns import ArmColumns, ArmHours, Bools, Ints, LedgerSums, SessionSums
from core.flows.context import Context
from core.flows.queries.belief import belief_in, posteriors
from core.flows.queries.chances import Inclusion, inclusion_in
from core.maths.statistics import change
from core.maths.statistics import confidence as confidence_of
from core.maths.statistics.change import Changes
from core.maths.statistics.confidence import pulls_to_width
from core.maths.statistics.effective import Effective, effective
from core.maths.statistics.judgement import STALE_DAYS, judge, never_referenced, stale_arms
from core.maths.statistics.sources import automatic_columns
from core.records.alike import alike
from core.records.arm import ArmType, BetaPair, Posterior
from core.records.arm_summary import ArmSummary, JudgedArm
from core.records.judgement import ENOUGH_PULLS, JudgedPosterior, Judgement
from core.records.layer import BareLayer, JudgedLayer
from core.records.run_query import EVERYTHING, ArmQuery, ArmScope, View, arms_of
from core.records.times import DAY_MS, HOUR_MS, iso
from core.store import reads
from core.store.reads import arm_columns
from core.store.reads.evaluations import bare_layers, judged_layers, n_bare_layers, n_judged_layers
from core.store.reads.log import mark_of, position_of
from core.store.transaction import Snapshot

_MOST_EXPLAINED: Final = 20
"""Maximum number of falls that are searched for rivals, the surest first. If more arms fell, no rival is the cause.
"""


Beside = TypeVar("Beside")

_RECENT_MS: Final = STALE_DAYS * DAY_MS
"""Maximum age of the last inclusion of an arm that still counts as included."""
_Row = TypeVar("_Row", JudgedPosterior, JudgedArm)
_Row_co = TypeVar("_Row_co", JudgedPosterior, JudgedArm, covariant=True)

LAYERS_SHOWN: Final = 50

UnreadReason = Literal["no_arm", "no_run", "no_observation", "not_in_posterior"]


def changes_in(
    snapshot: Snapshot,
    columns: ArmColumns,
    view: View,
    end_ms: int | None,
    beside: Callable[[LedgerSums], Beside],
) -> tuple[change.Changes, LedgerSums, Beside]:
    """Return the arms that changed, with the ledger rows of all arms, which do not count: automatic ones alone do.

    ``beside`` reads what depends on these rows, in round trips that are needed anyway. Falls have rivals, and groups
    fell together. ``columns`` hold all arms at the view's end. ``end_ms`` is the end of the data by then (None:
    nothing is dated).
    """
    until_ms = view.until_ms
    if end_ms is None:
        ledger = reads.ledger_sums(snapshot, columns, until_ms=until_ms)
        return change.Changes(), ledger, beside(ledger)
    end_day = (end_ms if until_ms is None else end_ms - 1) // DAY_MS
    since_day = end_day - change.HISTORY_DAYS + 1
    days, walk, ledger, by_hand = snapshot.together(
        lambda: reads.recent_days(
            snapshot,
            columns,
            since_day=end_day - change.WINDOW_DAYS + 1,
            until_ms=until_ms,
            min_pulls=change.MIN_BEFORE + change.MIN_AFTER,
        ),
        lambda: reads.walk(snapshot, columns, until_ms=until_ms),
        lambda: reads.ledger_sums(snapshot, columns, until_ms=until_ms),
        lambda: reads.given(snapshot, since_ms=since_day * DAY_MS, until_ms=until_ms),
    )
    given = by_hand.hours(snapshot, columns, walk.at)
    seen = automatic_columns(columns, ledger)

    def changed() -> change.Changes:
        automatic = days.less(given)
        split = change.splits(seen, automatic)
        sessions = reads.arm_sessions(snapshot, columns, split.arm[split.suspects], walk)
        shifts = change.shifts(seen, split, sessions)
        mixed = change.unexplained(seen, split, sessions, shifts)
        falls = [shift for shift in shifts if shift.fell]
        hours, past, mix, first = snapshot.together(
            lambda: _hours(snapshot, columns, falls, end_ms + 1 if until_ms is None else until_ms, walk),
            lambda: reads.history_days(
                snapshot, columns, _places(columns, falls), walk.at, since_day=since_day
            ),
            lambda: reads.mix_days(snapshot, end_day - 2 * change.WINDOW_DAYS, until_ms) if mixed else None,
            lambda: reads.first_days(snapshot) if falls else {},
        )
        hours, past = hours.less(given), past.less(given)
        passing = change.passing(columns, falls, past, end_day)
        shifts = tuple(
            change.gone(shift, hours.of(columns.places[shift.arm]))
            for shift in shifts
            if shift.arm not in passing
        )
        tested = [columns.keys[arm] for arm in split.arm[split.n_tested > 0].tolist()]
        poisoned = change.together(shifts, seen, hours, tested, automatic)
        taken = {arm for group in poisoned for arm in group.arms}
        alone = [shift for shift in shifts if shift.arm not in taken]
        explained = snapshot.together(
            *[partial(_explained, snapshot, columns, walk, first, shift) for shift in alone[:_MOST_EXPLAINED]]
        )
        alone[:_MOST_EXPLAINED] = explained
        return change.Changes(
            shifts=tuple(alone),
            poisoned=poisoned,
            causes=change.causes(mixed, mix, alone),
        )

    changes, read_beside = snapshot.together(changed, lambda: beside(ledger))
    return changes, ledger, read_beside


def _places(columns: ArmColumns, shifts: Sequence[change.Shift]) -> Ints:
    return np.array([columns.places[shift.arm] for shift in shifts], dtype=np.int64)


def _hours(
    snapshot: Snapshot,
    columns: ArmColumns,
    falls: Sequence[change.Shift],
    until_ms: int,
    walk: reads.Walk,
) -> ArmHours:
    """Return the hours of fallen arms since the first of them fell."""
    return reads.arm_hours(
        snapshot,
        columns,
        _places(columns, falls),
        since_ms=min((shift.since_ms for shift in falls), default=until_ms),
        until_ms=until_ms,
        at=walk.at,
    )


def _explained(
    snapshot: Snapshot,
    columns: ArmColumns,
    walk: reads.Walk,
    first: Mapping[int, int],
    shift: change.Shift,
) -> change.Shift:
    """Add its rivals to a fall, or the arms that joined on its day."""
    if not shift.fell:
        return shift
    day = shift.since_ms // DAY_MS
    joined = reads.joined_arms(
        snapshot,
        columns,
        shift.arm,
        days=(day - change.NEAR_DAYS, day + change.NEAR_DAYS),
        since_ms=shift.since_ms,
        walk=walk,
        first=first,
    )
    return change.explained(shift, joined)


def arms(context: Context, *, types: Sequence[ArmType] = (), listed: bool = True) -> list[ArmSummary]:
    """List every arm, sorted by id; not ``listed``: those that an undo left nothing of."""
    with context.reading() as snapshot:
        columns, loads = snapshot.together(
            lambda: arm_columns(snapshot, types=types, listed=listed),
            lambda: reads.sessions_of_loads(snapshot),
        )
    numbers = (
        columns.token_cost,
        columns.prior_alpha_micro,
        columns.prior_beta_micro,
        columns.pulls,
        columns.inclusions,
        columns.n_named,
        columns.n_loaded,
    )
    return [
        ArmSummary(
            arm=key,
            type=kind,
            token_cost=None if cost < 0 else cost,
            prior=BetaPair(alpha=alpha / 1e6, beta=beta / 1e6),
            pulls=pulls,
            inclusions=inclusions,
            n_named=named,
            n_loaded=loaded,
            loaded_sessions=loads.get(key, {}).get("call", 0),
            typed_sessions=loads.get(key, {}).get("typed", 0),
        )
        for key, kind, cost, alpha, beta, pulls, inclusions, named, loaded in zip(
            columns.keys, columns.types, *[one.tolist() for one in numbers], strict=True
        )
    ]


@dataclass(frozen=True, kw_only=True)
class RecentEvents:
    """Recent events of all arms: the end of the data, inclusions in its last 14 days, changes, and ledger rows.

    ``by_session`` holds the effective pulls of the arms that were read by session, and ``never`` marks the arms that
    were never referenced.
    """

    columns: ArmColumns
    end_ms: int | None
    inclusions: Ints
    changes: Changes
    ledger: LedgerSums
    by_session: Effective
    never: Bools


def judgements(
    context: Context,
    view: Annotated[View, Meta(description="Which arms, and by which time; default: all.")] = EVERYTHING,
    *,
    inclusion: Inclusion | None = None,
) -> dict[str, Judgement]:
    """Return every arm's judgement by id as of the view's end. The break-even mean is the present one.

    ``inclusion`` passes chances that the caller has already: they take longer than all the rest.
    """
    with context.reading() as snapshot:
        beliefs, end_ms = snapshot.together(
            lambda: belief_in(snapshot, View(until_ms=view.until_ms)), lambda: end_in(snapshot, view)
        )
        lately, chances = snapshot.together(
            lambda: recent_events_in(
                snapshot, beliefs.columns, view, end_ms, also=_by_worth(snapshot, beliefs.columns)
            ),
            lambda: inclusion or _chances(snapshot, beliefs.columns, view),
        )
        judged = judge(
            beliefs.columns,
            beliefs.summary,
            snapshot.settings.always_in,
            changes=lately.changes,
            stale=stale_arms(beliefs.columns, lately.inclusions, lately.end_ms),
            chances=chances.arms,
            by_session=lately.by_session,
            ledger=lately.ledger,
        )
    types = view.types or beliefs.columns.types
    return {one.arm: one for one, of in zip(judged, beliefs.columns.types, strict=True) if of in types}


def judged_posteriors(
    context: Context,
    view: Annotated[View, Meta(description="Which runs and arms count; default: all.")] = EVERYTHING,
    *,
    judged: Mapping[str, Judgement] | None = None,
    **query: Unpack[ArmQuery],
) -> list[JudgedPosterior]:
    """List every arm with its posterior and its judgement, sorted by id.

    With ``since`` it lists arms that changed, oldest change first. ``judged`` passes judgements that the caller has
    already.
    """
    scope = arms_of(query, view)
    view = replace(view, types=scope.types)

    def rows(*, listed: bool) -> Iterator[JudgedPosterior]:
        known = {} if not listed else judgements(context, view) if judged is None else judged
        for one in posteriors(context, view, listed=listed):
            if not listed:
                yield replace(_judged_posterior(one, _of_unlisted(one)), state="unlisted")
            elif one.arm in known:
                yield _judged_posterior(one, known[one.arm])

    return list(rows(listed=True)) if view.until_ms is not None else _marked(context, scope, rows)


def judged_arms(
    context: Context, *, judged: Mapping[str, Judgement] | None = None, **query: Unpack[ArmQuery]
) -> list[JudgedArm]:
    """List every arm with its cost, prior and judgement, sorted by id.

    With ``since`` it lists arms that changed, oldest change first. ``judged`` passes judgements that the caller has
    already.
    """
    scope = arms_of(query, EVERYTHING)

    def rows(*, listed: bool) -> Iterator[JudgedArm]:
        known = {} if not listed else judgements(context) if judged is None else judged
        for one in arms(context, types=scope.types, listed=listed):
            if listed and one.arm not in known:
                continue
            judgement = known.get(one.arm)
            yield JudgedArm(
                **msgspec.structs.asdict(one),
                effective_pulls=None if judgement is None else judgement.effective_pulls,
                called_only=judgement is not None and judgement.called_only,
                break_even=None if judgement is None else judgement.break_even,
                judgement="too_early" if judgement is None else judgement.name,
                state="listed" if listed else "unlisted",
            )

    return _marked(context, scope, rows)


class _ArmList(Protocol[_Row_co]):
    """Rows of a list of arms: of the listed ones or of the others."""

    def __call__(self, *, listed: bool) -> Iterator[_Row_co]: ...


def _marked(context: Context, scope: ArmScope, rows: _ArmList[_Row]) -> list[_Row]:
    """Return rows with their marks; with ``since`` those that changed, oldest change first.

    The positions are read before the rows. So an arm that changes in between is listed again the next time.
    """
    with context.reading() as snapshot:
        after = None if scope.since is None else position_of(snapshot, scope.since)
        changes = reads.arm_changes(snapshot, after, types=scope.types)
        marks = {arm: mark_of(snapshot, position) for arm, position in changes.items()}
    if after is None:
        return [replace(row, mark=marks.get(row.arm)) for row in rows(listed=True)]
    changed = {row.arm: row for listed in (False, True) for row in rows(listed=listed)} if marks else {}
    return [replace(changed[arm], mark=mark) for arm, mark in marks.items() if arm in changed]


def _of_unlisted(one: Posterior) -> Judgement:
    """Return the judgement of an arm that nothing counts of any more: it is back at its prior."""
    return Judgement(
        arm=one.arm,
        name="too_early",
        mean=one.mean,
        interval=one.interval,
        pulls=one.pulls,
        inclusions=one.inclusions,
        prior_weight=one.alpha + one.beta,
        missing_pulls=ENOUGH_PULLS,
        no_break_even="not_offered",
    )


def _judged_posterior(believed: Posterior, judged: Judgement) -> JudgedPosterior:
    recent = judged.recent
    return alike(
        JudgedPosterior,
        judged,
        **msgspec.structs.asdict(believed),
        judgement=judged.name,
        since=None if recent is None else iso(recent.since_ms),
        n_since=None if recent is None else recent.n,
        mean_since=None if recent is None else recent.mean,
        n_before=None if recent is None else recent.n_before,
        mean_before=None if recent is None else recent.mean_before,
    )


def end_in(snapshot: Snapshot, view: View) -> int | None:
    """Return the view's end, or the end of the data; None: nothing is dated."""
    return reads.last_run_ms(snapshot) if view.until_ms is None else view.until_ms


def recent_events_in(
    snapshot: Snapshot,
    columns: ArmColumns,
    view: View,
    end_ms: int | None,
    *,
    also: Bools | None = None,
) -> RecentEvents:
    """Return the recent events by the view's end; arms that no run referenced, and ``also``, are read by session."""

    def sessions(ledger: LedgerSums) -> SessionSums:
        requested = never_referenced(columns, ledger)
        requested = requested if also is None else requested | also
        return reads.session_sums(snapshot, columns, requested, until_ms=view.until_ms)

    recent, (changes, ledger, sums) = snapshot.together(
        lambda: _recent(snapshot, view, end_ms), lambda: changes_in(snapshot, columns, view, end_ms, sessions)
    )
    by_session = effective(columns, sums)
    return RecentEvents(
        columns=columns,
        end_ms=end_ms,
        inclusions=np.array([recent.get(key, 0) for key in columns.keys], dtype=np.int64),
        changes=changes,
        ledger=ledger,
        by_session=by_session,
        never=never_referenced(columns, ledger, by_session),
    )


def _by_worth(snapshot: Snapshot, columns: ArmColumns) -> Bools:
    """Return the arms whose judgement depends on their sessions: all but sections where inventories are inferred."""
    not_section = np.array([of != "section" for of in columns.types], dtype=np.bool_)
    if reads.has_inferred(snapshot):
        return not_section
    seeds = snapshot.settings.always_in
    not_seed = np.array([key not in seeds for key in columns.keys], dtype=np.bool_)
    return np.asarray(not_section & not_seed & (columns.pulls >= ENOUGH_PULLS))


def _chances(snapshot: Snapshot, columns: ArmColumns, view: View) -> Inclusion:
    """Return the present chances, even if the view has an end."""
    now = columns if view.until_ms is None else reads.arm_columns(snapshot)
    return inclusion_in(snapshot, now)


def _recent(snapshot: Snapshot, view: View, end_ms: int | None) -> dict[str, int]:
    """Return the recent inclusions of arms. The newest hour counts only if the view has no end."""
    if end_ms is None:
        return {}
    until_ms = end_ms + HOUR_MS if view.until_ms is None else end_ms
    return reads.inclusions_between(snapshot, end_ms - _RECENT_MS, until_ms)


@dataclass(frozen=True, kw_only=True)
class LayersView:
    """Judged layers, the best first, and bare layers, the most judged first.

    ``n_judged`` and ``n_bare`` count all of them. The lists stop at a limit.
    """

    judged: tuple[JudgedLayer, ...]
    n_judged: int
    bare: tuple[BareLayer, ...]
    n_bare: int


def layers(context: Context, *, limit: int = LAYERS_SHOWN) -> LayersView:
    """List layers by quality with their heads, and bare layers."""
    with context.reading() as snapshot:
        return LayersView(
            judged=judged_layers(snapshot, limit=limit),
            n_judged=n_judged_layers(snapshot),
            bare=bare_layers(snapshot, limit=limit),
            n_bare=n_bare_layers(snapshot),
        )


def confidence(context: Context, view: View = View()) -> confidence_of.Confidence:  # noqa: B008 - frozen
    """Return the confidence in each arm's posterior."""
    with context.reading() as snapshot:
        beliefs = belief_in(snapshot, view)
        return confidence_of.confidence(
            beliefs.columns,
            beliefs.summary,
            min_pulls=snapshot.settings.min_pulls,
            excluded=snapshot.settings.left_out,
        )


def pulls_needed(context: Context, view: View = View(), *, width: float) -> Ints:  # noqa: B008 - frozen
    """Return the further pulls until each arm's interval is at most this wide, aligned with `confidence`."""
    with context.reading() as snapshot:
        summary = belief_in(snapshot, view).summary
    return pulls_to_width(summary.alpha, summary.beta, width)


@dataclass(frozen=True, kw_only=True)
class UnreadArm:
    """Observations of one arm that no posterior includes, and the reason."""

    arm: str
    reason: UnreadReason
    n: int


@dataclass(frozen=True, kw_only=True)
class UnreadReport:
    """Check that every recorded observation is in a posterior.

    ``n_pulls`` are the pulls in the posteriors of the listed arms. Of the active rewards, ``n_present`` are in the
    present posteriors and ``n_earlier`` in those of closed epochs. ``n_replaced`` are superseded by a later
    correction. ``arms`` name the rest. ``query`` is the SQL that read the rewards.
    """

    n_pulls: int
    n_present: int
    n_earlier: int
    n_replaced: int
    arms: tuple[UnreadArm, ...]
    query: str

    @property
    def n_unread(self) -> int:
        return sum(one.n for one in self.arms)

    @property
    def n_rewards(self) -> int:
        """All active rewards. Those missing from a posterior are among the present ones."""
        missing = sum(one.n for one in self.arms if one.reason != "not_in_posterior")
        return self.n_present + self.n_earlier + self.n_replaced + missing


def unread(context: Context) -> UnreadReport:
    """Count the observations that no posterior includes."""
    with context.reading() as snapshot:
        rewards = reads.rewards_read(snapshot)
        present = {row.arm: row.pulls_micro for row in rewards if row.reader == "present"}
        held = reads.pulls_held(snapshot, present)
    counts = dict.fromkeys(("present", "earlier", "replaced"), 0)
    arms: list[UnreadArm] = []
    for row in rewards:
        match row.reader:
            case "present" | "earlier" | "replaced":
                counts[row.reader] += row.n
            case _:
                arms.append(UnreadArm(arm=row.arm, reason=row.reader, n=row.n))
    arms += [UnreadArm(arm=arm, reason="not_in_posterior", n=n) for arm, n in held.short]
    if held.hidden:
        arms.append(UnreadArm(arm="", reason="no_arm", n=held.hidden))
    return UnreadReport(
        n_pulls=held.listed,
        n_present=counts["present"],
        n_earlier=counts["earlier"],
        n_replaced=counts["replaced"],
        arms=tuple(arms),
        query=reads.REWARDS_READ,
    )
