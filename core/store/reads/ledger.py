"""Ledger rows: observations and resets, with their present effect.

An observation that follows from an evaluation or an episode's credit has the id of that act. Undoing the act undoes
it. ``hidden`` are numbers of evaluations that the caller may not see.

Notes about arms, newest first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from core.columns import UNKNOWN, ArmColumns, ArmHours, Ints, LedgerSums, ManualRewards, ints
from core.records.arm import MICRO
from core.records.corrections import Note, Reset
from core.records.evidence import INCLUDED, OBSERVATION, OBSERVED, REFERENCED, RETRACTED
from core.records.observation import KINDS, Kind, Observation, Replacement, plain_reward
from core.records.run_query import EVERY_REWARD, RewardScope
from core.records.times import HOUR_MS
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_ARM, BY_RUN
from core.store.reads.log import Position
from core.store.tables import leaving_out
from core.store.transaction import Facts, Snapshot

_OBSERVATIONS: Final = (
    "SELECT b.observation_no, a.key, b.kind, b.success_micro, b.failure_micro, r.uid, b.run_no, b.reason,"
    " b.actor, b.at_ms, b.undone, b.standing, b.revision, b.arm_no, r.revision, r.standing, o.flags,"
    f" (SELECT max(c.observation_no) FROM observation c {BY_RUN} WHERE c.learner_id = ?1"
    "   AND c.run_no = b.run_no AND c.run_no <> 0 AND c.arm_no = b.arm_no AND c.kind = 'correction'"
    f"   AND c.undone = 0 AND c.{ACTIVE}), b.evaluation_no, b.episode_credit_no,"
    " coalesce(v.undone, w.undone, b.undone), b.changed"
    " FROM observation b {by} JOIN arm a ON a.learner_id = b.learner_id AND a.arm_no = b.arm_no"
    " LEFT JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND b.run_no > 0"
    " LEFT JOIN outcome o ON o.learner_id = b.learner_id AND o.run_no = b.run_no AND o.arm_no = b.arm_no"
    " LEFT JOIN evaluation v ON v.learner_id = b.learner_id AND v.evaluation_no = b.evaluation_no"
    " LEFT JOIN episode_credit w ON w.learner_id = b.learner_id AND w.episode_credit_no = b.episode_credit_no"
    " WHERE b.learner_id = ?1"
)
_TAKEN_BACK: Final = (
    "("
    + " OR ".join(
        f"(observation.{act}_no <> 0 AND EXISTS (SELECT 1 FROM {act} v WHERE v.learner_id = ?1"
        f" AND v.{act}_no = observation.{act}_no AND v.undone = 1 AND v.{ACTIVE}))"
        for act in ("evaluation", "episode_credit")
    )
    + ")"
)

_EVER: Final = 1 << 60
"""A time that never comes."""
_COUNTING: Final = (
    " FROM observation b JOIN posterior p ON p.learner_id = b.learner_id AND p.arm_no = b.arm_no"
    " LEFT JOIN run r ON r.learner_id = b.learner_id AND r.run_no = b.run_no AND b.run_no > 0"
    " LEFT JOIN outcome o ON o.learner_id = b.learner_id AND o.run_no = b.run_no AND o.arm_no = b.arm_no"
    f" WHERE b.learner_id = ?1 AND b.undone = 0 AND b.{ACTIVE} AND b.revision <= ? AND {{condition}}"
    f" AND (b.run_no = 0 OR (r.{ACTIVE} AND r.revision <= ? AND o.flags & {INCLUDED} <> 0))"
    f" AND (b.kind <> 'correction' OR (o.flags & {OBSERVATION} <> 0 AND NOT EXISTS (SELECT 1 FROM observation c"
    f" {BY_RUN} WHERE c.learner_id = ?1 AND c.run_no = b.run_no AND c.run_no <> 0 AND c.arm_no = b.arm_no"
    f" AND c.kind = 'correction' AND c.undone = 0 AND c.{ACTIVE} AND c.observation_no > b.observation_no)))"
)
"""Ledger rows that count. Of several corrections the latest counts, as in the caches."""
_REWARDED: Final = OBSERVED | REFERENCED
_SUMS: Final = (
    "SELECT a.key, s.kind, s.since, s.n, s.success, s.failure, s.observed, s.referenced, a.arm_no FROM"
    " (SELECT b.arm_no, b.kind, {since} AS since, count(*) AS n, sum(b.success_micro) AS success,"
    f" sum(b.failure_micro) AS failure, sum(CASE WHEN o.flags & {OBSERVED} <> 0 THEN 1 ELSE 0 END) AS observed,"
    f" sum(CASE WHEN o.flags & {_REWARDED} = {_REWARDED} THEN 1 ELSE 0 END) AS referenced"
    f"{_COUNTING} GROUP BY b.arm_no, b.kind, {{since}}) s JOIN arm a ON a.learner_id = ?1 AND a.arm_no = s.arm_no"
)
"""Sums of the rows that count, by arm and kind."""
_REVISION: Final = "CASE WHEN b.run_no = 0 THEN b.revision ELSE r.revision END"
_PRESENT_SUMS: Final = _SUMS.replace("{since}", "p.epoch").replace("{condition}", f"{_REVISION} > p.epoch")
_SUMS_UNTIL: Final = _SUMS.replace("{since}", _REVISION).replace("{condition}", "b.at_ms < ?")

_REPLACED: Final = (
    f"CASE WHEN b.kind = 'correction' AND (o.flags & {OBSERVED}) <> 0 AND (o.flags & {REFERENCED}) {{is}} 0"
    f" THEN {MICRO} ELSE 0 END"
)
_GIVEN: Final = (
    f"SELECT b.arm_no, {{since}} AS since, b.at_ms / {HOUR_MS},"
    f" sum(b.success_micro - {_REPLACED.replace('{is}', '<>')}),"
    f" sum(b.failure_micro - {_REPLACED.replace('{is}', '=')}){_COUNTING} AND b.kind <> 'reported'"
    f" GROUP BY b.arm_no, {{since}}, b.at_ms / {HOUR_MS}"
)
_GIVEN_SINCE: Final = _GIVEN.replace("{since}", "p.epoch").replace(
    "{condition}", f"{_REVISION} > p.epoch AND b.at_ms >= ? AND b.at_ms < ?"
)
_GIVEN_UNTIL: Final = _GIVEN.replace("{since}", _REVISION).replace(
    "{condition}", "b.at_ms >= ? AND b.at_ms < ?"
)

_BY_KIND: Final = (
    "SELECT b.arm_no, b.kind, sum(b.success_micro), sum(b.failure_micro),"
    f" sum({_REPLACED.replace('{is}', '<>')}), sum({_REPLACED.replace('{is}', '=')}){_COUNTING}"
    " GROUP BY b.arm_no, b.kind"
).replace("{condition}", f"{_REVISION} > p.epoch AND {{condition}}")

_BY_HAND: Final = (
    "SELECT b.actor, a.key, b.success_micro, b.failure_micro, b.at_ms, b.observation_no"
    + _COUNTING.replace(
        " WHERE ", " JOIN arm a ON a.learner_id = b.learner_id AND a.arm_no = b.arm_no WHERE ", 1
    ).replace(
        "{condition}", f"{_REVISION} > p.epoch AND b.kind IN ('feedback', 'correction') AND b.at_ms >= ?"
    )
    + " ORDER BY b.at_ms, b.observation_no"
)


def observations(
    facts: Facts,
    *,
    limit: int,
    actor: str | None = None,
    arm: str | None = None,
    run_no: int | None = None,
    hidden: Collection[int] = (),
    scope: RewardScope = EVERY_REWARD,
    before: int | None = None,
    after: Position | None = None,
) -> tuple[Observation, ...]:
    """The latest ledger rows, newest first, each with what it moves the mean at present.

    With ``after`` those that changed after a position, in the order of their changes.
    """
    sql = _observations_by("" if run_no is None else BY_RUN)
    values: list[object] = [facts.learner_id]
    for column, chosen in scope.columns:
        sql += f" AND coalesce({column}, '') IN ({','.join('?' * len(chosen))})"
        values += chosen
    for bound, at_ms in ((" AND b.at_ms >= ?", scope.since_ms), (" AND b.at_ms < ?", scope.until_ms)):
        if at_ms is not None:
            sql += bound
            values.append(at_ms)
    for column, value in (("b.actor", actor), ("a.key", arm)):
        if value is not None:
            sql += f" AND {column} = ?"
            values.append(value)
    if run_no is not None:
        sql += " AND b.run_no = ? AND b.run_no <> 0"
        values.append(run_no)
    unless, left_out = leaving_out("b.evaluation_no", hidden)
    if after is not None:
        sql += " AND (b.changed, b.observation_no) > (?, ?)"
        values += after
    elif before is not None:
        sql += " AND b.observation_no < ?"
        values.append(before)
    order = "b.observation_no DESC" if after is None else "b.changed, b.observation_no"
    unread, blind = leaving_out("b.run_no", facts.blind)
    left_out += blind
    rows = facts.connection.rows(
        f"{sql}{unless}{unread} ORDER BY {order} LIMIT ?", [*values, *left_out, limit]
    )
    return _observations(facts, rows)


def _observations(facts: Facts, rows: Sequence[Row]) -> tuple[Observation, ...]:
    """Rows of `_OBSERVATIONS` as they are read back, in their order."""
    posteriors, replacing, _ = facts.together(
        lambda: _posteriors(facts, [row[13] for row in rows]),
        lambda: _replacing(facts, rows),
        lambda: facts.epochs.load(row[13] for row in rows),
    )
    return tuple(
        _observation(facts, row, posteriors[row[13]], replacing.get(row[17]) if _is_replaced(row) else None)
        for row in rows
    )


def _is_replaced(row: Row) -> bool:
    """Return whether a later correction superseded an active one."""
    number, kind, undone, is_active, latest = row[0], row[2], row[10], row[11], row[17]
    return kind == "correction" and bool(is_active) and not undone and latest not in (None, number)


def _replacing(facts: Facts, rows: Sequence[Row]) -> dict[int, Replacement]:
    """The corrections that took the place of some of the rows, by number."""
    later = facts.rows_in(
        "SELECT observation_no, success_micro, failure_micro, actor, at_ms FROM observation"
        " WHERE learner_id = ? AND observation_no IN ({})",
        sorted({row[17] for row in rows if _is_replaced(row)}),
    )
    return {
        number: Replacement(
            id=f"reward-{number}", reward=success / (success + failure), actor=actor, at_ms=at_ms
        )
        for number, success, failure, actor, at_ms in later
    }


def newest_about(facts: Facts, run_no: int, arm_no: int) -> tuple[int, str, float, str] | None:
    """Number, kind, reward and author of the newest reward by hand of an arm in a run, None where there is none."""
    row = facts.row(
        f"SELECT observation_no, kind, success_micro, failure_micro, actor FROM observation {BY_RUN}"
        f" WHERE learner_id = ? AND run_no = ? AND run_no <> 0 AND arm_no = ? AND undone = 0 AND {ACTIVE}"
        " AND evaluation_no = 0 AND episode_credit_no = 0 ORDER BY observation_no DESC LIMIT 1",
        [run_no, arm_no],
    )
    if row is None:
        return None
    number, kind, success, failure, actor = row
    return number, kind, success / (success + failure), actor


def ledger_sums(snapshot: Snapshot, columns: ArmColumns, *, until_ms: int | None = None) -> LedgerSums:
    """Return the ledger rows of arms in the epochs of their columns, by kind; as of a time by full hours."""
    if until_ms is None:
        rows = snapshot.rows(_PRESENT_SUMS, [snapshot.revision, snapshot.revision])
    else:
        end_ms = until_ms // HOUR_MS * HOUR_MS
        values = [snapshot.learner_id, snapshot.revision, end_ms, snapshot.revision]
        rows = snapshot.connection.rows(_SUMS_UNTIL, values)
        snapshot.epochs.load(row[8] for row in rows)
    sums = LedgerSums.none(len(columns))
    for key, kind, since, n, success, failure, observed, referenced, arm_no in rows:
        index = columns.places.get(key)
        if index is None:
            continue
        if until_ms is not None and snapshot.epochs.of(arm_no, since) != columns.epoch[index]:
            continue
        at = (KINDS.index(kind), index)
        sums.n[at] += n
        sums.success_micro[at] += success
        sums.failure_micro[at] += failure
        if kind == "correction":
            sums.replaced[index] += observed
            sums.replaced_successes[index] += referenced
    return sums


class Given(NamedTuple):
    """Sums by arm number, epoch (or revision) and hour."""

    rows: list[Row]
    until_ms: int | None

    def hours(self, snapshot: Snapshot, columns: ArmColumns, at: Ints) -> ArmHours:
        """Return the sums of the arms in the epochs of their columns; ``at`` maps arm numbers to columns."""
        rows = [row for row in self.rows if row[0] < len(at) and at[row[0]] != UNKNOWN]
        if self.until_ms is not None:
            snapshot.epochs.load(number for number, *_ in rows)
            rows = [row for row in rows if snapshot.epochs.of(row[0], row[1]) == columns.epoch[at[row[0]]]]
        arm_no, _, hour, success, failure = map(ints, zip(*rows, strict=True) if rows else [()] * 5)
        arm = at[arm_no] if len(arm_no) else arm_no
        return ArmHours(arm=arm, hour=hour, success_micro=success, failure_micro=failure)


def given(snapshot: Snapshot, *, since_ms: int, until_ms: int | None = None) -> Given:
    """Return what people, graders and credit added to the sums of arms since a time, by hour.

    A correction adds the difference from the observation it replaces. Ends by full hours, as the rollups do.
    """
    end_ms = _EVER if until_ms is None else until_ms // HOUR_MS * HOUR_MS
    values = [snapshot.learner_id, snapshot.revision, since_ms, end_ms, snapshot.revision]
    sql = _GIVEN_SINCE if until_ms is None else _GIVEN_UNTIL
    return Given(snapshot.connection.rows(sql, values), until_ms)


class KindSum(NamedTuple):
    """Ledger rows of one kind that count for an arm, in millionths, and the observations that they replace."""

    arm_no: int
    kind: Kind
    success_micro: int
    failure_micro: int
    replaced_success_micro: int
    replaced_failure_micro: int


def sums_by_kind(snapshot: Snapshot, condition: str, values: Sequence[object]) -> list[KindSum]:
    """Return the ledger rows in the present epochs that pass a condition, by arm and kind."""
    rows = snapshot.rows(
        _BY_KIND.replace("{condition}", condition), [snapshot.revision, *values, snapshot.revision]
    )
    return [KindSum(arm_no, kind, *map(int, sums)) for arm_no, kind, *sums in rows]


def manual_rewards(snapshot: Snapshot, columns: ArmColumns, since_ms: int) -> ManualRewards:
    """Return the feedback and corrections since a time that count in the present epochs, by time."""
    values = [snapshot.learner_id, snapshot.revision, since_ms, snapshot.revision]
    rows = [row for row in snapshot.connection.rows(_BY_HAND, values) if row[1] in columns.places]
    actors = {actor: index for index, actor in enumerate(sorted({number for number, *_ in rows}))}
    actor, arm, *amounts = zip(*rows, strict=True) if rows else [()] * 6
    success, failure, at_ms, number = map(ints, amounts)
    return ManualRewards(
        actors=tuple(actors),
        actor=ints([actors[one] for one in actor]),
        arm=ints([columns.places[one] for one in arm]),
        success_micro=success,
        failure_micro=failure,
        at_ms=at_ms,
        number=number,
    )


def taken_back(facts: Facts, run_nos: Sequence[int]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the first repair that takes back what a run observed of an arm, and its revision, by (run, arm)."""
    rows = facts.connection.rows_in(
        "SELECT t.run_no, t.arm_no, p.repair_no, p.revision FROM retraction t"
        " JOIN repair p ON p.learner_id = t.learner_id AND p.repair_no = t.repair_no"
        " JOIN run r ON r.learner_id = t.learner_id AND r.run_no = t.run_no"
        " JOIN outcome o ON o.learner_id = t.learner_id AND o.run_no = t.run_no AND o.arm_no = t.arm_no"
        f" WHERE t.learner_id = ? AND t.observation_no = 0 AND p.undone = 0 AND p.{ACTIVE} AND r.{ACTIVE}"
        f" AND r.revision <= ? AND o.flags & {RETRACTED} <> 0"
        f" AND t.referenced = (o.flags & {REFERENCED}) / {REFERENCED} AND t.run_no IN ({{}})"
        " ORDER BY p.revision DESC, p.repair_no DESC",
        [facts.learner_id, facts.revision],
        run_nos,
    )
    return {(run_no, arm_no): (repair_no, revision) for run_no, arm_no, repair_no, revision in rows}


def ledger_of_arm(
    snapshot: Snapshot,
    arm_no: int,
    *,
    before: tuple[int, int] | None = None,
    limit: int,
    hidden: Collection[int] = (),
) -> tuple[Observation, ...]:
    """Return one arm's ledger rows, the latest in time first; ``before`` is the (time, number) to continue from.

    Rows of undone imports are left out, and so are superseded evaluations and credits. Undone ones are included.
    """
    beyond, cursor = ("", []) if before is None else (" AND (at_ms, observation_no) < (?, ?)", [*before])
    unless, left_out = leaving_out("evaluation_no", hidden)
    unread, blind = leaving_out("run_no", snapshot.blind)
    numbers = snapshot.column(
        f"SELECT observation_no FROM observation {BY_ARM} WHERE learner_id = ?1 AND arm_no = ?"
        f" AND ({ACTIVE} OR {_TAKEN_BACK}){beyond}{unless}{unread} ORDER BY at_ms DESC, observation_no DESC LIMIT ?",
        [arm_no, *cursor, *left_out, *blind, limit],
    )
    rows = snapshot.rows_in(f"{_observations_by('')} AND b.observation_no IN ({{}})", numbers)
    return _observations(snapshot, sorted(rows, key=lambda row: (row[9], row[0]), reverse=True))


def _observations_by(way: str) -> str:
    return _OBSERVATIONS.replace("{by}", way)


def _posteriors(facts: Facts, arm_nos: Sequence[int]) -> dict[int, Row]:
    """Successes and failures with the base, and the epoch, of some arms."""
    rows = facts.rows_in(
        "SELECT arm_no, base_alpha_micro + success_micro, base_beta_micro + failure_micro, epoch FROM posterior"
        " WHERE learner_id = ? AND arm_no IN ({})",
        sorted(set(arm_nos)),
    )
    return {number: tuple(rest) for number, *rest in rows}


def _observation(
    facts: Facts, row: Row, posterior: Row, replaced_by: Replacement | None = None
) -> Observation:
    number, key, kind, success, failure, uid, run_no, reason, actor, at_ms, _, is_active = row[:12]
    (
        revision,
        arm_no,
        run_revision,
        run_is_active,
        flags,
        latest,
        evaluation_no,
        credit_no,
        undone,
        changed,
    ) = row[12:]
    epoch = facts.epochs.of(arm_no, revision if run_revision is None else run_revision)
    about = run_no == 0 or (run_is_active == 1 and flags is not None and bool(flags & INCLUDED))
    if kind == "correction":
        about = about and latest == number and bool((flags or 0) & OBSERVATION)
    counts = bool(is_active) and not undone and about
    weight = success + failure
    return Observation(
        id=f"evaluation-{evaluation_no}"
        if evaluation_no
        else f"credit-{credit_no}"
        if credit_no
        else f"reward-{number}",
        row_no=number,
        arm=key,
        kind=kind,
        reward=plain_reward(success, weight),
        weight=weight / MICRO,
        run=uid,
        run_no=run_no or None,
        reason=(reason or None) if facts.shows_words else None,
        actor=actor,
        at_ms=at_ms,
        epoch=epoch,
        undone=bool(undone),
        counts=counts,
        mean_moved=_moved(kind, success, failure, flags, posterior)
        if counts and epoch == posterior[2]
        else 0.0,
        replaced_by=replaced_by,
        revision=changed,
    )


def _moved(kind: str, success: int, failure: int, flags: int | None, posterior: Row) -> float:
    """Mean now less the mean without this observation (a correction gives way to the automatic one)."""
    alpha, beta, _ = posterior
    if kind == "correction" and not (flags or 0) & RETRACTED:
        automatic = MICRO if (flags or 0) & REFERENCED else 0
        success, failure = success - automatic, failure - (MICRO - automatic)
    return float(alpha / (alpha + beta) - (alpha - success) / (alpha + beta - success - failure))


def resets(snapshot: Snapshot) -> tuple[Reset, ...]:
    """All resets, newest first."""
    rows = snapshot.rows(
        "SELECT reset_no, revision, at_ms, actor, target, scope, reason, n_arms, undone, standing FROM reset"
        " WHERE learner_id = ? ORDER BY reset_no DESC"
    )
    return tuple(
        Reset(
            id=f"reset-{number}",
            revision=revision,
            at_ms=at_ms,
            actor=actor,
            target=target,
            scope=scope,
            reason=(reason or None) if snapshot.shows_words else None,
            n_arms=n_arms,
            undone=bool(undone) or not is_active,
        )
        for number, revision, at_ms, actor, target, scope, reason, n_arms, undone, is_active in rows
    )


class Correction(NamedTuple):
    """A correction: success and failure in millionths, and its time."""

    amounts: tuple[int, int]
    at_ms: int


def active_corrections(facts: Facts, run_nos: Collection[int]) -> dict[tuple[int, int], Correction]:
    """The corrections that count in some runs, by (run, arm)."""
    rows = facts.rows_in(
        f"SELECT run_no, arm_no, success_micro, failure_micro, at_ms FROM observation {BY_RUN} WHERE learner_id = ?"
        f" AND run_no <> 0 AND run_no IN ({{}}) AND kind = 'correction' AND undone = 0 AND {ACTIVE}"
        " ORDER BY observation_no",
        sorted(run_nos),
    )
    return {
        (run_no, arm_no): Correction((success, failure), at_ms)
        for run_no, arm_no, success, failure, at_ms in rows
    }


def notes(snapshot: Snapshot, arm: str, *, limit: int = 50) -> tuple[Note, ...]:
    """The latest notes about an arm, except of undone imports; without texts for callers who may not read them."""
    rows = snapshot.rows(
        "SELECT n.note_no, a.key, n.text, n.actor, n.at_ms, n.undone FROM note n"
        " JOIN arm a ON a.learner_id = n.learner_id AND a.arm_no = n.arm_no"
        f" WHERE n.learner_id = ? AND n.{ACTIVE}"
        " AND n.arm_no = (SELECT arm_no FROM arm WHERE learner_id = ? AND key = ?)"
        " ORDER BY n.at_ms DESC, n.note_no DESC LIMIT ?",
        [snapshot.learner_id, arm, limit],
    )
    return tuple(
        Note(
            id=f"note-{number}",
            arm=key,
            text=text if snapshot.shows_words else "",
            actor=actor,
            at_ms=at_ms,
            undone=bool(undone),
        )
        for number, key, text, actor, at_ms, undone in rows
    )
