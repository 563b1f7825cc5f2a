"""Arm history: its posterior by day, its ledger and its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from core.columns import UNKNOWN
from core.flows.context import Context, unknown_arm
from core.flows.inventory import skill_edits
from core.flows.queries.run import implied_where
from core.maths.observe import reward_of_flag
from core.maths.posterior.beta import interval
from core.maths.statistics.path import Boundary, Path, path
from core.records.alike import alike
from core.records.arm import MICRO, Interval, arm_type
from core.records.arm_summary import ArmVersion, ArmVersions, SkillUse
from core.records.evidence import INCLUDED, NAMED, OBSERVED, REFERENCED, ArmState, Where, state_of, was_loaded
from core.records.observation import Observation
from core.records.run_page import Cursor, RunRow
from core.records.run_query import RunFilter, View
from core.records.selection import REASONS, Reason
from core.records.times import DAY_MS
from core.store import reads
from core.store.reads.arm_story import (
    ArmPart,
    ArmReset,
    VersionCount,
    arm_resets,
    arm_start,
    first_of_models,
    last_run_ms,
    n_in_prompts,
    parts_of_arm,
    unversioned_counts,
    version_counts,
)
from core.store.reads.arms import is_known_by_text, sessions_of_loads, skills_named_alike
from core.store.reads.log import SettingRow, setting_rows
from core.store.reads.run_pages import run_page
from core.store.transaction import Snapshot

MarkKind = Literal["reset", "setting", "model", "definition"]
PAGE_ROWS: Final = 25
_SETTINGS_AT_MOST: Final = 500
_WHERE_VALUES: Final[tuple[Where, ...]] = get_args(Where)
_LEARNING: Final = frozenset({"phase", "mode", "meta_tools"})
"""Settings that change what runs teach about every arm."""


@dataclass(frozen=True, kw_only=True)
class HistoryMark:
    """Event in an arm's history. ``name`` is the reset's target, the setting, the model, or the definition's version.

    ``before`` and ``after`` are a setting's values. ``actor`` is None for events without one.
    """

    at_ms: int
    kind: MarkKind
    name: str
    before: object = None
    after: object = None
    actor: str | None = None
    reason: str | None = None
    undone: bool = False


@dataclass(frozen=True, kw_only=True)
class ArmPath:
    """Posterior by day, and events in time order.

    ``since_ms`` is the reset that began the present epoch, None in the first epoch. ``epoch_no`` counts from 1.
    """

    path: Path
    marks: tuple[HistoryMark, ...]
    since_ms: int | None
    epoch_no: int
    versions: ArmVersions
    use: SkillUse | None = None


@dataclass(frozen=True, kw_only=True)
class ArmObservation:
    """One observation of an arm: automatic (``entry`` None), or a row of the ledger.

    ``mean_moved`` is the present mean less the mean without it; 0 if it does not count at present.
    ``taken_back_by`` is the repair that takes an automatic one back.
    """

    at_ms: int | None
    run_no: int | None
    run: str | None
    reward: float
    mean_moved: float
    counts: bool
    is_present_epoch: bool
    where: Where | None = None
    excerpt: str | None = None
    referenced: bool = False
    n_calls: int = 0
    entry: Observation | None = None
    taken_back_by: str | None = None


@dataclass(frozen=True)
class LedgerCursor:
    """Position in a ledger: after this run and this row, the last ones shown."""

    run_at_ms: int | None = None
    run_no: int | None = None
    row_at_ms: int | None = None
    row_no: int | None = None


@dataclass(frozen=True, kw_only=True)
class ArmLedger:
    """A page of observations, the latest first; ``onward`` None at the end."""

    rows: tuple[ArmObservation, ...]
    onward: LedgerCursor | None


@dataclass(frozen=True, kw_only=True)
class ArmInRun:
    """One arm's part in one run. ``reason`` to ``budget_left`` are None if no selection was recorded.

    ``reward`` is None where nothing was learned, or where the repair ``taken_back_by`` takes it back.
    """

    run: RunRow
    in_prompt: bool
    state: ArmState
    loaded: bool
    referenced: bool
    reward: float | None
    reason: Reason | None
    rank: int | None
    draw: float | None
    token_cost: int | None
    budget_left: int | None
    taken_back_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class ArmRuns:
    """A page of runs that offered an arm, the latest first; ``onward`` None at the end."""

    rows: tuple[ArmInRun, ...]
    onward: Cursor | None


def arm_path(context: Context, arm: str, until_ms: int | None = None) -> ArmPath:
    """Return an arm's posterior at the end of each day up to a time, and the events.

    Raises `UnknownArm`.
    """
    with context.reading() as snapshot:
        arm_no = _arm_no(snapshot, arm)
        of_all_times, versions = snapshot.together(
            lambda: arm_resets(snapshot, arm_no), lambda: _versions(snapshot, arm, arm_no)
        )
        resets = [one for one in of_all_times if until_ms is None or one.at_ms < until_ms]
        marks = _marks(snapshot, arm, resets, versions)
        path_by_day = _path(snapshot, arm_no, resets, marks, until_ms)
        active = [one for one in resets if not one.undone]
        within = path_by_day.day[[0, -1]] if len(path_by_day) else (0, -1)
        return ArmPath(
            path=path_by_day,
            marks=tuple(mark for mark in marks if within[0] <= mark.at_ms // DAY_MS <= within[1]),
            since_ms=active[-1].at_ms if active else None,
            epoch_no=len(active) + 1,
            versions=versions,
            use=_skill_use(snapshot, arm, arm_no),
        )


def _skill_use(snapshot: Snapshot, arm: str, arm_no: int) -> SkillUse | None:
    """Return the evidence of a skill's use; None for another arm."""
    if arm_type(arm) != "skill":
        return None
    loads, by_text, spellings = snapshot.together(
        lambda: sessions_of_loads(snapshot, arm_no).get(arm, {}),
        lambda: is_known_by_text(snapshot, arm_no),
        lambda: skills_named_alike(snapshot, arm),
    )
    return SkillUse(
        loaded_sessions=loads.get("call", 0),
        typed_sessions=loads.get("typed", 0),
        by_text=by_text,
        spellings=spellings,
    )


def arm_ledger(
    context: Context,
    arm: str,
    *,
    after: LedgerCursor = LedgerCursor(),
    limit: int = PAGE_ROWS,
) -> ArmLedger:
    """Return a page of an arm's observations, automatic and manual, the latest first.

    Raises `UnknownArm`.
    """
    with context.reading() as snapshot:
        arm_no = _arm_no(snapshot, arm)
        (automatic, is_more), recorded = snapshot.together(
            lambda: _automatic(snapshot, arm, arm_no, after, limit),
            lambda: _recorded(snapshot, arm_no, after, limit, context.hidden_from(snapshot)),
        )
    rows = sorted([*automatic, *recorded], key=_newest_first)[:limit]
    is_more = is_more or len(recorded) == limit or len(automatic) + len(recorded) > limit
    return ArmLedger(rows=tuple(rows), onward=_next_cursor(after, rows) if is_more else None)


def arm_runs(context: Context, arm: str, *, cursor: Cursor | None = None, limit: int = PAGE_ROWS) -> ArmRuns:
    """Return a page of runs that included an arm or left it out, with the reason, the latest first.

    Raises `UnknownArm`.
    """
    with context.reading() as snapshot:
        arm_no = _arm_no(snapshot, arm)
        page = run_page(snapshot, RunFilter(arm=arm), View(), cursor=cursor, limit=limit)
        run_nos = [row.run_no for row in page.rows]
        parts, repairs = snapshot.together(
            lambda: parts_of_arm(snapshot, arm_no, run_nos), lambda: _repairs(snapshot, arm_no, run_nos)
        )
        rows = tuple(_in_run(row, parts[row.run_no], repairs.get(row.run_no)) for row in page.rows)
        return ArmRuns(rows=rows, onward=page.onward)


def arm_versions(context: Context, arm: Annotated[str, Meta(description="The arm's id.")]) -> ArmVersions:
    """List the versions of an arm's definition, with the runs and the belief of each.

    A version is a digest of the definition's text. A skill's file has one, too: a run without a version on record
    had that of its time, if the imports of one machine saw it. Raises `UnknownArm`.
    """
    with context.reading() as snapshot:
        return _versions(snapshot, arm, _arm_no(snapshot, arm))


def _versions(snapshot: Snapshot, arm: str, arm_no: int) -> ArmVersions:
    counts, n_all, start = snapshot.together(
        lambda: version_counts(snapshot, arm_no),
        lambda: n_in_prompts(snapshot, arm_no),
        lambda: arm_start(snapshot, arm_no),
    )
    edits = skill_edits(snapshot, arm)
    if edits:
        dated = [(one.version, one.since_ms) for one in reversed(edits)]
        counts = [*counts, *unversioned_counts(snapshot, arm_no, dated)]
    groups: dict[str, list[VersionCount]] = {}
    for one in counts:
        groups.setdefault(one.version, []).append(one)
    versions = [_version(name, group, start) for name, group in groups.items()]
    return ArmVersions(
        arm=arm,
        versions=tuple(
            sorted(versions, key=lambda one: (one.first_ms is None, one.first_ms or 0, one.version))
        ),
        without=n_all - sum(one.runs for one in counts),
    )


def _version(name: str, counts: Sequence[VersionCount], start: tuple[int, int]) -> ArmVersion:
    def total(bits: int, of: int) -> int:
        return sum(one.runs for one in counts if one.flags & of == bits)

    firsts = [one.first_ms for one in counts if one.first_ms is not None]
    lasts = [one.last_ms for one in counts if one.last_ms is not None]
    full = INCLUDED | NAMED
    pulls, used = total(OBSERVED, OBSERVED), total(OBSERVED | REFERENCED, OBSERVED | REFERENCED)
    alpha, beta = start[0] / MICRO + used, start[1] / MICRO + pulls - used
    lower, upper = interval(alpha, beta)
    return ArmVersion(
        version=name,
        first_ms=min(firsts, default=None),
        last_ms=max(lasts, default=None),
        runs=total(INCLUDED, full),
        named=total(NAMED, NAMED),
        referenced=total(INCLUDED | REFERENCED, full | REFERENCED),
        pulls=pulls,
        mean=alpha / (alpha + beta),
        interval=Interval(lower=float(lower), upper=float(upper)),
    )


def near_arms(context: Context, arm: str, limit: int = 5) -> tuple[str, ...]:
    """Return listed ids that are similar to a mistyped one."""
    with context.reading() as snapshot:
        return tuple(reads.near_keys(snapshot, arm, limit))


def _arm_no(snapshot: Snapshot, arm: str) -> int:
    arm_no = reads.arm_number(snapshot, arm)
    if arm_no is None:
        raise unknown_arm(snapshot, arm)
    return arm_no


def _path(
    snapshot: Snapshot,
    arm_no: int,
    resets: Sequence[ArmReset],
    marks: Sequence[HistoryMark],
    until_ms: int | None,
) -> Path:
    """Return the path from the first known day to that of the newest run or mark."""
    gathered, (alpha, beta), last_ms = snapshot.together(
        lambda: reads.arm_path(snapshot, arm_no),
        lambda: arm_start(snapshot, arm_no),
        lambda: last_run_ms(snapshot),
    )
    first = Boundary(since_ms=0, epoch=0, alpha_micro=alpha, beta_micro=beta)
    later = [
        Boundary(
            since_ms=one.at_ms, epoch=one.revision, alpha_micro=one.alpha_micro, beta_micro=one.beta_micro
        )
        for one in resets
        if not one.undone
    ]
    days = {*gathered.day[gathered.day != UNKNOWN].tolist(), *(one.since_ms // DAY_MS for one in later)}
    ends = [last_ms or 0, *(mark.at_ms for mark in marks)]
    last = max([*days, *(at_ms // DAY_MS for at_ms in ends)])
    if until_ms is not None:
        last = min(last, (until_ms - 1) // DAY_MS)
    return path(
        gathered,
        boundaries=(first, *later),
        first_day=min(days) if days else last + 1,
        last_day=last,
    )


def _marks(
    snapshot: Snapshot, arm: str, resets: Sequence[ArmReset], versions: ArmVersions
) -> list[HistoryMark]:
    """Return resets, changes of its settings, first runs of models and of later versions, in time order."""
    models, rows = snapshot.together(
        lambda: first_of_models(snapshot), lambda: setting_rows(snapshot, _SETTINGS_AT_MOST)
    )
    first = models[0][1] // DAY_MS if models else 0
    marks = [
        *(alike(HistoryMark, one, kind="reset", name=one.target) for one in resets),
        *(alike(HistoryMark, row, kind="setting", after=row.value) for row in rows if _concerns(row, arm)),
        *(
            HistoryMark(at_ms=at_ms, kind="model", name=model)
            for model, at_ms in models
            if at_ms // DAY_MS > first
        ),
        *(
            HistoryMark(at_ms=one.first_ms, kind="definition", name=one.version)
            for one in versions.versions[1:]
            if one.first_ms is not None
        ),
    ]
    return sorted(marks, key=lambda mark: mark.at_ms)


def _concerns(row: SettingRow, arm: str) -> bool:
    """Return whether a change of a setting touches an arm: its prior, its seed, its exclusion, or what runs teach."""
    if row.name in {"seed_arms", "excluded_arms"}:
        return _has(row.before, arm) != _has(row.value, arm)
    if row.name == "priors":
        return _prior(row.before, arm) != _prior(row.value, arm)
    return row.name in _LEARNING


def _has(value: object, arm: str) -> bool:
    return isinstance(value, list | tuple) and arm in value


def _prior(value: object, arm: str) -> object:
    return value.get(arm_type(arm)) if isinstance(value, dict) else None


def _automatic(
    snapshot: Snapshot, arm: str, arm_no: int, after: LedgerCursor, limit: int
) -> tuple[list[ArmObservation], bool]:
    """Return automatic observations, and whether there are more."""
    cursor = None if after.run_no is None else Cursor(after.run_at_ms, after.run_no)
    filters = RunFilter(arm=arm, part="in", outcomes=("observed",))
    page = run_page(snapshot, filters, View(), cursor=cursor, limit=limit)
    run_nos = [row.run_no for row in page.rows]
    parts, repairs, _, now = snapshot.together(
        lambda: parts_of_arm(snapshot, arm_no, run_nos),
        lambda: _repairs(snapshot, arm_no, run_nos),
        lambda: snapshot.epochs.load([arm_no]),
        lambda: reads.arm_row(snapshot, arm_no),
    )
    rows = [
        _automatic_observation(
            snapshot,
            (arm, arm_no),
            row,
            parts[row.run_no],
            now=now,
            taken_back_by=repairs.get(row.run_no),
        )
        for row in page.rows
    ]
    return rows, page.onward is not None


def _repairs(snapshot: Snapshot, arm_no: int, run_nos: Sequence[int]) -> dict[int, str]:
    """Return the repair that takes back what a run observed of an arm, by the run's number."""
    found = reads.taken_back(snapshot, run_nos)
    return {run_no: f"repair-{number}" for (run_no, no), (number, _) in found.items() if no == arm_no}


def _automatic_observation(
    snapshot: Snapshot,
    named: tuple[str, int],
    row: RunRow,
    part: ArmPart,
    *,
    now: tuple[int, int, int] | None,
    taken_back_by: str | None,
) -> ArmObservation:
    """Return one automatic observation; ``named`` is the arm's id and number."""
    arm, arm_no = named
    reward = 1.0 if part.flags & REFERENCED else 0.0
    is_present = snapshot.epochs.of(arm_no, part.revision) == snapshot.epochs.current(arm_no)
    counts = not part.corrected and taken_back_by is None
    return ArmObservation(
        at_ms=row.at_ms,
        run_no=row.run_no,
        run=row.uid,
        reward=reward,
        mean_moved=_moved(reward, now) if counts and is_present else 0.0,
        counts=counts,
        is_present_epoch=is_present,
        where=_where(part, arm) if part.flags & REFERENCED else None,
        excerpt=part.excerpt,
        referenced=bool(part.flags & REFERENCED),
        n_calls=part.n_calls,
        taken_back_by=taken_back_by,
    )


def _where(part: ArmPart, arm: str) -> Where:
    """Return the location of a reference: the stored one, or the one that its type implies."""
    return next((where for where in _WHERE_VALUES if where == part.place), implied_where(arm))


def _moved(reward: float, now: tuple[int, int, int] | None) -> float:
    """Return the present mean less the mean without one automatic observation."""
    if now is None:
        return 0.0
    alpha, beta, _ = now
    success = MICRO if reward > 0 else 0
    return alpha / (alpha + beta) - (alpha - success) / (alpha + beta - MICRO)


def _recorded(
    snapshot: Snapshot, arm_no: int, after: LedgerCursor, limit: int, hidden: frozenset[int]
) -> list[ArmObservation]:
    before = None if after.row_no is None or after.row_at_ms is None else (after.row_at_ms, after.row_no)
    rows = reads.ledger_of_arm(snapshot, arm_no, before=before, limit=limit, hidden=hidden)
    return [
        alike(
            ArmObservation,
            row,
            mean_moved=row.mean_moved or 0.0,
            is_present_epoch=row.epoch == snapshot.epochs.current(arm_no),
            entry=row,
        )
        for row in rows
    ]


def _newest_first(one: ArmObservation) -> tuple[bool, int, bool]:
    """Sort the latest first and unknown times last. At equal times manual observations precede automatic ones."""
    return one.at_ms is None, -(one.at_ms or 0), one.entry is None


def _next_cursor(after: LedgerCursor, rows: list[ArmObservation]) -> LedgerCursor:
    automatic = [one for one in rows if one.entry is None]
    recorded = [one.entry for one in rows if one.entry is not None]
    return LedgerCursor(
        run_at_ms=automatic[-1].at_ms if automatic else after.run_at_ms,
        run_no=automatic[-1].run_no if automatic else after.run_no,
        row_at_ms=recorded[-1].at_ms if recorded else after.row_at_ms,
        row_no=recorded[-1].row_no if recorded else after.row_no,
    )


def _in_run(row: RunRow, part: ArmPart, taken_back_by: str | None) -> ArmInRun:
    decided = part.decided_cost if part.decided_cost is not None else part.token_cost
    return ArmInRun(
        run=row,
        in_prompt=bool(part.flags & INCLUDED),
        state=state_of(part.flags),
        loaded=was_loaded(part.flags),
        referenced=bool(part.flags & REFERENCED),
        reward=reward_of_flag(part.flags),
        reason=next((reason for reason in REASONS if reason == part.reason), None),
        rank=part.rank,
        draw=part.draw,
        token_cost=None if decided == UNKNOWN else decided,
        budget_left=part.budget_left,
        taken_back_by=taken_back_by,
    )
