"""Experiments: their starts and later acts as facts, and the assignment of sessions.

The side of a session follows from its name and the key of the experiment, before anything is drawn. One row is
written, and later selections read it. A run without a session is a unit by itself: its side follows from the seed of
its selection. The key stays in the database that started the experiment. Without it nothing is assigned.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from core.errors import UnreadableSource
from core.records.arm import MICRO
from core.records.experiment import (
    Assigned,
    AssignmentLine,
    ExperimentAct,
    ExperimentForm,
    ExperimentLine,
    ExperimentPlan,
)
from core.records.ledger_lines import PlacedLine
from core.records.limits import shown
from core.records.run import Run
from core.records.times import HOUR_MS
from core.records.trial import TrialSide
from core.store.caches import shifting
from core.store.engine.dialect import ACTIVE
from core.store.erased import Erased
from core.store.staging import spoil
from core.store.transaction import Byline, Facts, Snapshot, Transaction
from core.store.version import assigned_among, session_key

_COIN_BYTES: Final = 8
_ASSIGNED: Final = (
    "SELECT experiment_no, side, chance_micro, n_fitting, at_ms FROM assignment WHERE learner_id = ?"
    f" AND undone = 0 AND {ACTIVE} AND {{unit}} = ? AND {{unit}} <> '' ORDER BY revision, assignment_no LIMIT 1"
)
_KNOWN: Final = " UNION ALL ".join(
    f"SELECT 1 FROM {table} WHERE learner_id = ? AND session = ?" for table in ("run", "hold", "offer")
)


class ExperimentFact(NamedTuple):
    """A start or a later act as stored. ``line_id`` names it in lines; ``start_no`` 0: it is a start."""

    number: int
    line_id: str
    form: ExperimentForm
    start_no: int
    content: ExperimentPlan | ExperimentAct
    secret: str
    actor: str
    at_ms: int
    undone: bool

    @property
    def id(self) -> str:
        """Return the id that `undo` takes."""
        return f"experiment-{self.number}"


class Started(NamedTuple):
    """A start with its later acts that are in force, oldest first."""

    fact: ExperimentFact
    plan: ExperimentPlan
    acts: tuple[ExperimentFact, ...] = ()

    @property
    def share(self) -> float:
        """The chance of the side with the arm, for new sessions."""
        shares = [one.content.share for one in self.acts if isinstance(one.content, ExperimentAct)]
        return next((one for one in reversed(shares) if one is not None), self.plan.share)

    @property
    def stop(self) -> ExperimentFact | None:
        """The first act that stopped it."""
        return next((one for one in self.acts if one.form in {"stop", "decision"}), None)

    def assigns(self, now_ms: int) -> bool:
        """Return whether new sessions get a side."""
        is_open = not self.fact.undone and self.stop is None and now_ms < self.plan.ends_ms
        return is_open and bool(self.fact.secret)


class Assignment(NamedTuple):
    """A stored assignment, by its experiment's number."""

    experiment_no: int
    side: TrialSide
    chance_micro: int
    n_fitting: int
    at_ms: int


class Sided(NamedTuple):
    """The side of a request, and the number of its experiment; ``is_new``: no row has it yet."""

    assigned: Assigned
    experiment_no: int
    is_new: bool


# Facts


def add_experiment(txn: Transaction, line: ExperimentLine, byline: Byline, *, secret: str = "") -> int:
    """Append a start or a later act, and return its number."""
    spoil(txn)
    start_no = _number_of(txn, line.of) if line.of else 0
    content = msgspec.json.encode(line.plan or line.act or ExperimentAct()).decode()
    return txn.append_fact(
        "experiment", byline, form=line.form, start_no=start_no, content=content, secret=secret
    )


def add_assignment(txn: Transaction, line: AssignmentLine, byline: Byline) -> int:
    """Append the assignment of a session or run, and return its number."""
    spoil(txn)
    number = txn.append_fact(
        "assignment",
        byline,
        experiment_no=_number_of(txn, line.of),
        session=(session := txn.erased.session(line.session) or line.session),
        run=line.run,
        side=line.side,
        chance_micro=line.chance_micro,
        n_fitting=line.n_fitting,
    )
    _leave_out(txn, {session})
    return number


def settle_assignments(txn: Transaction, numbers: Sequence[int]) -> None:
    """Leave the runs of assigned sessions out of savings, as the state of some assignments is now."""
    sql = "SELECT session FROM assignment WHERE learner_id = ? AND assignment_no IN ({})"
    _leave_out(txn, txn.distinct_in(sql, numbers))


def _leave_out(txn: Transaction, sessions: Collection[str]) -> None:
    """Mark the runs of sessions as assigned or not, and update the caches."""
    rows = txn.rows_in(
        "SELECT session_key, run_no, class, session, choice FROM run WHERE learner_id = ?"
        " AND session IN ({}) AND revision <= ?",
        sorted({*sessions} - {""}),
        [txn.revision],
    )
    assigned = assigned_among(txn, {session for *_, session, _ in rows})
    keys = [(key, run[0], session_key(*run, is_assigned=run[2] in assigned)) for key, *run in rows]
    changed = [(key, txn.learner_id, run_no) for before, run_no, key in keys if key != before]
    with shifting(txn, [run_no for *_, run_no in changed]):
        txn.connection.many("UPDATE run SET session_key = ? WHERE learner_id = ? AND run_no = ?", changed)


def _number_of(facts: Facts, line_id: str) -> int:
    """Return the number of a start by the id of its line; raises `UnreadableSource`."""
    prefix = f"{facts.origin}/experiment-"
    own = line_id.removeprefix(prefix)
    if line_id.startswith(prefix) and own.isdecimal():
        found = facts.scalar(
            int,
            "SELECT experiment_no FROM experiment WHERE learner_id = ? AND experiment_no = ? AND uid = ''",
            [int(own)],
        )
    else:
        found = facts.scalar(
            int, "SELECT experiment_no FROM experiment WHERE learner_id = ? AND uid = ?", [line_id]
        )
    if found is None:
        raise UnreadableSource(
            f"An act of an experiment must come after its start, got {shown(line_id)} without one.",
            next_step="Import the whole export that has the start.",
        )
    return found


def started(facts: Facts) -> list[Started]:
    """Return the active and undone starts with their acts, in the order of their revisions."""
    if not facts.has_experiments:
        return []
    known = [
        ExperimentFact(
            number,
            uid or f"{facts.origin}/experiment-{number}",
            form,
            start_no,
            _decoded(form, content),
            secret,
            actor,
            at_ms,
            undone > 0,
        )
        for number, uid, form, start_no, content, secret, actor, at_ms, undone in facts.rows(
            "SELECT experiment_no, uid, form, start_no, content, secret, actor, at_ms, undone FROM experiment"
            f" WHERE learner_id = ? AND {ACTIVE} AND revision <= ? ORDER BY revision, experiment_no",
            [facts.revision],
        )
    ]
    return [
        Started(
            one, one.content, tuple(act for act in known if act.start_no == one.number and not act.undone)
        )
        for one in known
        if isinstance(one.content, ExperimentPlan)
    ]


@lru_cache(maxsize=256)
def _decoded(form: str, content: str) -> ExperimentPlan | ExperimentAct:
    if form == "start":
        return msgspec.json.decode(content, type=ExperimentPlan)
    return msgspec.json.decode(content, type=ExperimentAct)


# Assignment


def side_of(
    facts: Facts,
    session: str | None,
    offered: Collection[str],
    *,
    seed: int,
    now_ms: int,
    left_out: Collection[str] = (),
) -> Sided | None:
    """Return the side of a request in an experiment; None: no experiment assigns it.

    ``session`` None: it is unknown or there is none, so the side follows from the ``seed`` of the selection. A
    session that had a run, hold or offer before is not assigned. Of several experiments that fit, the keyed hash
    chooses one.
    """
    if not facts.has_experiments:
        return None
    starts = started(facts)
    if session:
        name = _name(facts, session)
        row = facts.row(_ASSIGNED.replace("{unit}", "session"), [name])
        if row is not None:
            return _stored(Assignment(*row), starts, now_ms)
    fitting = [one for one in starts if one.assigns(now_ms) and one.plan.arm in offered]
    fitting = [one for one in fitting if one.plan.arm not in left_out]
    if not fitting or (session and _was_known(facts, session)):
        return None
    unit = session or f"seed:{seed}"
    chosen = max(fitting, key=lambda one: coin(one.fact.secret, f"choose:{unit}"))
    chance_micro = round(chosen.share * MICRO)
    return Sided(
        Assigned(
            experiment=chosen.fact.line_id,
            arm=chosen.plan.arm,
            side="with" if is_with(chosen.fact.secret, unit, chance_micro) else "without",
            chance_micro=chance_micro,
            n_fitting=len(fitting),
        ),
        chosen.fact.number,
        is_new=True,
    )


def coin(secret: str, unit: str) -> int:
    """Return the first 8 bytes of HMAC-SHA256 of a unit under a key in hexadecimal, as a whole number."""
    digest = hmac.digest(bytes.fromhex(secret), unit.encode("utf-8", "surrogatepass"), "sha256")
    return int.from_bytes(digest[:_COIN_BYTES], "big")


def is_with(secret: str, unit: str, chance_micro: int) -> bool:
    """Return whether a unit gets the side with the arm: its coin lies below the chance."""
    return coin(secret, unit) * MICRO < chance_micro << 8 * _COIN_BYTES


def _stored(row: Assignment, starts: Iterable[Started], now_ms: int) -> Sided | None:
    """Return the side that a row has, as long as its session counts."""
    known = next((one for one in starts if one.fact.number == row.experiment_no), None)
    if known is None:
        return None
    assigned = Assigned(
        experiment=known.fact.line_id,
        arm=known.plan.arm,
        side=row.side,
        chance_micro=row.chance_micro,
        n_fitting=row.n_fitting,
        in_force=now_ms <= row.at_ms + known.plan.hours * HOUR_MS,
    )
    return Sided(assigned, row.experiment_no, is_new=False)


def _was_known(facts: Facts, session: str) -> bool:
    name = _name(facts, session)
    return facts.has_row(f"{_KNOWN} LIMIT 1", [name, *[facts.learner_id, name] * 2])


def _name(facts: Facts, session: str) -> str:
    """Return the name under which a session is stored: that of an erased one is a number."""
    erased = facts.erased if isinstance(facts, Transaction) else Erased.of(facts.connection, facts.learner_id)
    return erased.session(session) or session


def assign(
    txn: Transaction, sided: Sided, *, session: str = "", run: str = "", at_ms: int | None = None
) -> None:
    """Write the row of a new assignment, whose session began at a time (None = now)."""
    one = sided.assigned
    txn.append_fact(
        "assignment",
        Byline(txn.actor.name, txn.now_ms if at_ms is None else min(at_ms, txn.now_ms)),
        experiment_no=sided.experiment_no,
        session=_name(txn, session) if session else "",
        run=run,
        side=one.side,
        chance_micro=one.chance_micro,
        n_fitting=one.n_fitting,
    )


class RecordedSide(NamedTuple):
    """The side that the selection of a run carries; None = none."""

    uid: str
    session: str
    at_ms: int | None
    assigned: Assigned | None


def recorded_side(run: Run) -> RecordedSide:
    """Return the side that the selection of a run carries."""
    carried = msgspec.UNSET if run.selection is None else run.selection.experiment
    return RecordedSide(run.uid, run.session or "", run.ended_at_ms, carried or None)


def assign_recorded(txn: Transaction, runs: Sequence[RecordedSide]) -> None:
    """Write the rows of new runs whose selection carries a side that no row has yet.

    The session of such a selection was unknown at the draw. A session that had an earlier run is not assigned.
    """
    if not txn.has_experiments or not any(one.assigned for one in runs):
        return
    starts = {one.fact.line_id: one.fact for one in started(txn)}
    uids = {one.uid for one in runs}
    for uid, session, at_ms, assigned in runs:
        fact = None if assigned is None else starts.get(assigned.experiment)
        if assigned is None or fact is None or not fact.secret or not assigned.in_force:
            continue
        name = _name(txn, session) if session else ""
        unit = "session" if session else "run"
        if txn.row(_ASSIGNED.replace("{unit}", unit), [name or uid]) is None and not (
            session and _had_others(txn, name, uids)
        ):
            sided = Sided(assigned, fact.number, is_new=True)
            assign(txn, sided, session=session, run="" if session else uid, at_ms=at_ms)
            _leave_out(txn, {name})


def assign_imported(txn: Transaction, import_no: int) -> None:
    """Write the rows of a staged import's runs, once they are active."""
    if not txn.has_experiments:
        return
    rows = txn.rows(
        "SELECT uid, session, at_ms, choice FROM run WHERE learner_id = ? AND import_no = ? AND choice LIKE ?",
        [import_no, '%"experiment":%'],
    )
    runs = [
        RecordedSide(uid, session or "", at_ms, msgspec.json.decode(choice, type=_Carrying).experiment)
        for uid, session, at_ms, choice in rows
    ]
    assign_recorded(txn, sorted(runs, key=lambda one: (one.at_ms or 0, one.uid)))
    last = txn.number("assignment", 0)
    settle_assignments(txn, range(last - txn.n_numbered("assignment"), last))


class _Carrying(msgspec.Struct, frozen=True):
    experiment: Assigned | None = None


def _had_others(txn: Transaction, session: str, uids: set[str]) -> bool:
    """Return whether a session has a hold, an offer, or a run other than these."""
    before = txn.column(
        "SELECT uid FROM run WHERE learner_id = ? AND session = ? LIMIT ?", [session, len(uids) + 1]
    )
    return not uids.issuperset(before) or txn.has_row(
        _KNOWN.split(" UNION ALL ", 1)[1] + " LIMIT 1", [session, txn.learner_id, session]
    )


# Lines


def experiment_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return starts and later acts as lines, without keys."""
    ids = {one.fact.number: one.fact.line_id for one in started(snapshot)}
    for _, one in snapshot.acts("experiment", "form", "start_no", "content"):
        content = _decoded(one["form"], one.pop("content"))
        plan, act = (content, None) if isinstance(content, ExperimentPlan) else (None, content)
        start_no = one.pop("start_no")
        yield one["revision"], ExperimentLine(plan=plan, act=act, of=ids.get(start_no, ""), **one)


def assignment_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return assignments as lines."""
    ids = {one.fact.number: one.fact.line_id for one in started(snapshot)}
    columns = ("experiment_no", "session", "run", "side", "chance_micro", "n_fitting")
    for _, one in snapshot.acts("assignment", *columns):
        number = one.pop("experiment_no")
        if number in ids:
            yield one["revision"], AssignmentLine(of=ids[number], **one)


def rename_sessions_of_experiments(txn: Transaction, sessions: Mapping[str, str]) -> None:
    """Replace names of sessions by numbers."""
    for name, other in sessions.items():
        txn.set_row("assignment", "session = ?", [name], session=other)
