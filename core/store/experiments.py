"""Experiments: their starts and later acts as facts, and the assignment of sessions.

The side of a session follows from its name and the key of the experiment, before anything is drawn. It is written
once, as a row that later selections read. A run without a session is a unit by itself: its side follows from the
seed of its selection. The key stays in the database that started the experiment. Without it nothing is assigned.
"""

from __future__ import annotations

import hmac
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple

import msgspec

from core.errors import InvalidInput, NotApplicable, UnknownAct, UnreadableSource
from core.records.arm import MICRO
from core.records.experiment import (
    MOST_RUNNING,
    Assigned,
    AssignmentLine,
    ExperimentAct,
    ExperimentForm,
    ExperimentLine,
    ExperimentPlan,
)
from core.records.ledger_lines import PlacedLine
from core.records.limits import MAX_LABEL_CHARS, shown, text
from core.records.run import Run
from core.records.times import HOUR_MS
from core.records.trial import TrialSide
from core.store.caches import shifting
from core.store.engine.dialect import ACTIVE
from core.store.erased import Erased
from core.store.provenance import of_trials
from core.store.staging import spoil
from core.store.transaction import Byline, Facts, Snapshot, Transaction
from core.store.version import assigned_among, session_key

_COIN_BYTES: Final = 8
_LOOKS: Final = 60
"""Checks of the verdict while an experiment assigns its planned sessions."""
_MOST_BETWEEN: Final = 1_000
"""Assignments between two looks, on average."""
_MOST_CACHED: Final = 64
_CACHE: Final[dict[tuple[object, ...], tuple[StartedExperiment, ...]]] = {}
"""Starts of learners by `Snapshot.state_of_experiments`."""
_ASSIGNED: Final = (
    "SELECT experiment_no, side, chance_micro, n_fitting, at_ms FROM assignment WHERE learner_id = ?"
    f" AND undone = 0 AND {ACTIVE} AND {{unit}} = ? AND {{unit}} <> '' ORDER BY revision, assignment_no LIMIT 1"
)
_KNOWN: Final = " UNION ALL ".join(
    f"SELECT 1 FROM {table} WHERE learner_id = ? AND session = ?" for table in ("run", "hold", "offer")
)
_SEEDS: Final = "SELECT {unit}, choice FROM run WHERE learner_id = ? AND {unit} IN ({}) AND choice LIKE ?"
_SIDED: Final = '%"experiment":%'
"""Pattern of the stored selections that carry a side."""


class ExperimentFact(NamedTuple):
    """A start or a later act as stored. ``line_id`` is its id in lines. ``start_no`` is 0 for a start."""

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
        """The id that `undo` takes."""
        return f"experiment-{self.number}"


@dataclass(frozen=True)
class StartedExperiment:
    """A start with its later acts that are in force, oldest first."""

    fact: ExperimentFact
    plan: ExperimentPlan
    acts: tuple[ExperimentFact, ...] = ()

    @cached_property
    def _keyed(self) -> hmac.HMAC:
        return hmac.new(bytes.fromhex(self.fact.secret), digestmod="sha256")

    def hashed(self, unit: str) -> bytes:
        """Return the HMAC-SHA256 of a unit under the key of the experiment."""
        keyed = self._keyed.copy()  # a copy takes a third of the time of a new HMAC
        keyed.update(unit.encode("utf-8", "surrogatepass"))
        return keyed.digest()

    @cached_property
    def share(self) -> float:
        """The chance of the side with the arm, for new sessions."""
        shares = [one.content.share for one in self.acts if isinstance(one.content, ExperimentAct)]
        return next((one for one in reversed(shares) if one is not None), self.plan.share)

    @cached_property
    def stop(self) -> ExperimentFact | None:
        """The first act that stopped it."""
        return next((one for one in self.acts if one.form == "stop"), None)

    @cached_property
    def latest(self) -> ExperimentAct:
        """The latest act that stopped it or decided about its arm; empty where there is none."""
        stops = [one.content for one in self.acts if one.form == "stop"]
        return next((act for act in reversed(stops) if isinstance(act, ExperimentAct)), ExperimentAct())

    @cached_property
    def _assigns_until_ms(self) -> int:
        is_open = not self.fact.undone and self.stop is None and bool(self.fact.secret)
        return self.plan.ends_ms if is_open else 0

    def assigns(self, now_ms: int) -> bool:
        """Return whether new sessions get a side."""
        return now_ms < self._assigns_until_ms


class StoredSide(NamedTuple):
    """An assignment as stored, with the number of its experiment."""

    experiment_no: int
    side: TrialSide
    chance_micro: int
    n_fitting: int
    at_ms: int


class Sided(NamedTuple):
    """The side of a request, with the number and the end of its experiment; ``is_new``: no row has it yet."""

    assigned: Assigned
    experiment_no: int
    until_ms: int
    is_new: bool


# Facts


def add_experiment(txn: Transaction, line: ExperimentLine, byline: Byline, *, secret: str = "") -> int:
    """Append a start or a later act, and return its number. An import changes no experiment that has its key here."""
    start_no = _number_of(txn, line.of) if line.of else 0
    if byline.import_no and _with_key(txn, start_no) is not None:
        raise UnreadableSource(
            f"An act on an experiment of this database must be done here, got one on {shown(line.of)}.",
            next_step="Leave the line out, or use armscope experiment.",
        )
    content = msgspec.json.encode(line.plan or line.act or ExperimentAct()).decode()
    return txn.append_fact(
        "experiment", byline, form=line.form, start_no=start_no, content=content, secret=secret
    )


def add_assignment(txn: Transaction, line: AssignmentLine, byline: Byline) -> int:
    """Append the assignment of a session or run, and return its number.

    Where the key is here, the session must have the side of its coin, and no row yet.
    """
    start = _with_key(txn, _number_of(txn, line.of))
    if start is not None and not (
        line.session
        and _row_of(txn, line.session) is None
        and _is_by(start, line.session, line.side, line.chance_micro)
    ):
        raise UnreadableSource(
            f"A new assignment to an experiment of this database must follow from its key, got {shown(line.id)}.",
            next_step="Leave the line out.",
        )
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


def _with_key(txn: Transaction, experiment_no: int) -> StartedExperiment | None:
    """Return an experiment that was started here."""
    return next((one for one in started(txn) if one.fact.number == experiment_no and one.fact.secret), None)


def check_running(txn: Transaction) -> None:
    """Refuse an undo after which more experiments would run than may be started; raises `NotApplicable`."""
    arms = [one.plan.arm for one in started(txn) if one.assigns(txn.now_ms)]
    if len(arms) > MOST_RUNNING or len({*arms}) < len(arms):
        raise NotApplicable(
            f"At most {MOST_RUNNING} experiments may run, each on an arm of its own, got {', '.join(arms)}.",
            next_step="Stop one of them first.",
        )


def settle_assignments(txn: Transaction, numbers: Sequence[int]) -> None:
    """Mark the runs of the sessions of some assignments as assigned or not, by their present state."""
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
        own_no = facts.scalar(
            int,
            "SELECT experiment_no FROM experiment WHERE learner_id = ? AND experiment_no = ? AND uid = ''",
            [int(own)],
        )
    else:
        own_no = facts.scalar(
            int, "SELECT experiment_no FROM experiment WHERE learner_id = ? AND uid = ?", [line_id]
        )
    if own_no is None:
        raise UnreadableSource(
            f"An act of an experiment must come after its start, got {shown(line_id)} without one.",
            next_step="Import the whole export that has the start.",
        )
    return own_no


def started(facts: Facts) -> tuple[StartedExperiment, ...]:
    """Return the active and undone starts with their acts in force, in the order of their revisions."""
    if not facts.has_experiments:
        return ()
    rows = facts.rows(
        "SELECT experiment_no, uid, form, start_no, content, secret, actor, at_ms, undone FROM experiment"
        f" WHERE learner_id = ? AND {ACTIVE} AND revision <= ? ORDER BY revision, experiment_no",
        [facts.revision],
    )
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
        for number, uid, form, start_no, content, secret, actor, at_ms, undone in rows
    ]
    return tuple(
        StartedExperiment(
            one, one.content, tuple(act for act in known if act.start_no == one.number and not act.undone)
        )
        for one in known
        if isinstance(one.content, ExperimentPlan)
    )


def named_experiment(facts: Facts, name: str) -> StartedExperiment:
    """Return the experiment with an id or a number, or the latest one on an arm; raises `UnknownAct`."""
    known = started(facts)
    number = name.removeprefix("experiment-").removeprefix("#")
    matching = [
        one for one in known if name in {one.plan.arm, one.fact.line_id} or str(one.fact.number) == number
    ]
    if not matching:
        raise UnknownAct(
            f"There is no experiment {shown(name)} in this learner.",
            next_step="Use an id or arm that armscope experiment list shows.",
        )
    return matching[-1]


def _decoded(form: str, content: str) -> ExperimentPlan | ExperimentAct:
    if form == "start":
        return msgspec.json.decode(content, type=ExperimentPlan)
    return msgspec.json.decode(content, type=ExperimentAct)


# Sides


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

    Without a ``session`` (unknown, or none), the side follows from the ``seed`` of the selection. A session is not
    assigned if it had a run, hold or offer before, or belongs to a trial. Of several experiments that fit, the keyed
    hash chooses one.
    """
    if not facts.has_experiments or (session and not _can_be_stored(session)):
        return None
    starts = _starts(facts)
    row = _row_of(facts, session) if session else None
    if row is not None:
        return _stored(row, starts, now_ms)
    fitting = [
        one
        for one in starts
        if one.assigns(now_ms) and one.plan.arm in offered and one.plan.arm not in left_out
    ]
    if not fitting or (session and _was_known(facts, session)):
        return None
    unit = session or _of_seed(seed)
    hashes = [one.hashed(unit) for one in fitting]
    chosen, own = max(zip(fitting, hashes, strict=True), key=lambda pair: pair[1][_COIN_BYTES:])
    chance_micro = round(chosen.share * MICRO)
    side: TrialSide = "with" if is_with(own, chance_micro) else "without"
    assigned = _assigned((chosen.fact.line_id, chosen.plan.arm), side, chance_micro, len(fitting))
    return Sided(assigned, chosen.fact.number, chosen.plan.ends_ms, is_new=True)


def _can_be_stored(session: str) -> bool:
    """Return whether a session's name is one that a row can have; a selection without a hold takes any."""
    with suppress(InvalidInput, UnicodeEncodeError):
        return bool(text("A session", session, MAX_LABEL_CHARS).encode())
    return False


def assigned_side(facts: Facts, session: str | None, uid: str) -> tuple[str, Assigned] | None:
    """Return the experiment's id and the side of a session, or of a run without one; None = not assigned."""
    if not facts.has_experiments:
        return None
    row = _row_of(facts, session) if session else _row_of(facts, uid, "run")
    known = None if row is None else _stored(row, started(facts), 0)
    return None if known is None else (f"experiment-{known.experiment_no}", known.assigned)


def _starts(facts: Facts) -> tuple[StartedExperiment, ...]:
    """Return the starts; those of a snapshot are cached, because each selection needs them."""
    if isinstance(facts, Transaction):
        return started(facts)
    known = _CACHE.get(facts.state_of_experiments)
    if known is None:
        if len(_CACHE) > _MOST_CACHED:
            _CACHE.clear()
        known = _CACHE[facts.state_of_experiments] = started(facts)
    return known


def _row_of(facts: Facts, name: str, unit: Literal["session", "run"] = "session") -> StoredSide | None:
    """Return the assignment of a session or of a run; an erased session is stored under a number."""
    sql = _ASSIGNED.replace("{unit}", unit)
    row = facts.row(sql, [name])
    if row is None and unit == "session" and (stored := _name(facts, name)) != name:
        row = facts.row(sql, [stored])
    return None if row is None else StoredSide(*row)


def _of_seed(seed: int | str) -> str:
    """Return the unit of a selection whose session was unknown at the draw."""
    return f"seed:{seed}"


@lru_cache(maxsize=64)
def _assigned(
    of: tuple[str, str], side: TrialSide, chance_micro: int, n_fitting: int, *, in_force: bool = True
) -> Assigned:
    """Return the side in an experiment, ``of`` this id and arm."""
    own = {"chance_micro": chance_micro, "n_fitting": n_fitting}
    return Assigned(experiment=of[0], arm=of[1], side=side, in_force=in_force, **own)


def is_with(hashed: bytes, chance_micro: int) -> bool:
    r"""Return whether a unit gets the side with the arm: the first bytes of its hash lie below the chance.

    >>> is_with(bytes(32), 1), is_with(b"\xff" * 32, 999_999)
    (True, False)
    """
    return int.from_bytes(hashed[:_COIN_BYTES], "big") * MICRO < chance_micro << 8 * _COIN_BYTES


def _stored(row: StoredSide, starts: Iterable[StartedExperiment], now_ms: int) -> Sided | None:
    """Return the side that a row has; it is in force as long as its session counts."""
    known = next((one for one in starts if one.fact.number == row.experiment_no), None)
    if known is None:
        return None
    is_open = now_ms <= row.at_ms + known.plan.hours * HOUR_MS
    of = known.fact.line_id, known.plan.arm
    assigned = _assigned(of, row.side, row.chance_micro, row.n_fitting, in_force=is_open)
    return Sided(assigned, row.experiment_no, known.plan.ends_ms, is_new=False)


def _was_known(facts: Facts, session: str) -> bool:
    """Return whether a session had a run, hold or offer before, or is one of a trial."""
    name = _name(facts, session)
    had = facts.has_row(f"{_KNOWN} LIMIT 1", [name, *[facts.learner_id, name] * 2])
    return had or bool(of_trials(facts, [(name, "", name)]))


def _name(facts: Facts, session: str) -> str:
    """Return the name under which a session is stored: a number if it was erased."""
    erased = facts.erased if isinstance(facts, Transaction) else Erased.of(facts.connection, facts.learner_id)
    return erased.session(session) or session


def assign(
    txn: Transaction, sided: Sided, *, session: str = "", run: str = "", at_ms: int | None = None
) -> int:
    """Write the row of a new assignment and return its number. ``at_ms`` is when its session began; None = now."""
    one = sided.assigned
    return txn.append_fact(
        "assignment",
        Byline(txn.actor.name, txn.now_ms if at_ms is None else min(at_ms, txn.now_ms)),
        experiment_no=sided.experiment_no,
        session=_name(txn, session) if session else "",
        run=run,
        side=one.side,
        chance_micro=one.chance_micro,
        n_fitting=one.n_fitting,
    )


def due_experiments(txn: Transaction) -> list[int]:
    """Return the experiments whose verdict is due after the assignments of this write."""
    n_new = txn.n_numbered("assignment")
    if not n_new:
        return []
    rows = txn.rows(
        "SELECT assignment_no, experiment_no FROM assignment WHERE learner_id = ? AND assignment_no >= ?",
        [txn.number("assignment", 0) - n_new],
    )
    starts = {one.fact.number: one for one in started(txn)}
    return sorted({number for at, number in rows if number in starts and _is_look(starts[number], at)})


def _is_look(start: StartedExperiment, assignment_no: int) -> bool:
    """Return whether a look follows an assignment: by chance, since experiments share the numbers."""
    every = min(max(start.plan.n_planned // _LOOKS, 1), _MOST_BETWEEN)
    return int.from_bytes(start.hashed(f"look {assignment_no}")[:_COIN_BYTES], "big") % every == 0


class RecordedSide(NamedTuple):
    """The side that the selection of a run carries, with its seed; None = none."""

    uid: str
    session: str
    at_ms: int | None
    assigned: Assigned | None
    seed: str = ""


def recorded_side(run: Run) -> RecordedSide:
    """Return the side that the selection of a run carries. A fallback has none: it repeats an earlier selection."""
    chosen = None if run.run_class == "fallback" else run.selection
    carried, seed = (None, "") if chosen is None else (chosen.experiment or None, chosen.seed)
    return RecordedSide(run.uid, run.session or "", run.ended_at_ms, carried, seed)


def assign_recorded(txn: Transaction, runs: Sequence[RecordedSide]) -> None:
    """Write the assignments of new runs whose selection carries a side that no row has yet.

    The session of such a selection was unknown at the draw, so its side is that of its seed. A session that had
    another run, a hold or an offer is not assigned.
    """
    if not txn.has_experiments or not any(one.assigned for one in runs):
        return
    starts = {one.fact.line_id: one for one in started(txn)}
    uids = {one.uid for one in runs}
    for uid, session, at_ms, assigned, seed in runs:
        start = None if assigned is None else starts.get(assigned.experiment)
        if assigned is None or start is None or not start.fact.secret or not assigned.in_force:
            continue
        if not _is_by(start, _of_seed(seed), assigned.side, assigned.chance_micro):
            continue
        name = _name(txn, session) if session else ""
        unit = "session" if session else "run"
        if txn.row(_ASSIGNED.replace("{unit}", unit), [name or uid]) is None and not (
            session and _had_others(txn, name, uids)
        ):
            sided = Sided(assigned, start.fact.number, start.plan.ends_ms, is_new=True)
            assign(txn, sided, session=session, run="" if session else uid, at_ms=at_ms)
            _leave_out(txn, {name})


def _is_by(start: StartedExperiment, unit: str, side: TrialSide, chance_micro: int) -> bool:
    """Return whether the side is that of a unit's hash."""
    return is_with(start.hashed(unit), chance_micro) == (side == "with")


def assign_started(txn: Transaction, sessions: Iterable[tuple[str, int, Assigned]]) -> None:
    """Write the assignments of sessions that were assigned as they began, at those times.

    A selection that another machine had prepared assigns nothing once its experiment was stopped or has ended.
    """
    starts = {one.fact.line_id: one for one in started(txn)}
    for session, at_ms, assigned in sessions:
        start = starts.get(assigned.experiment)
        if start is None or not start.fact.secret or start.fact.undone or _row_of(txn, session) is not None:
            continue
        if at_ms < start.plan.ends_ms and (start.stop is None or at_ms <= start.stop.at_ms):
            sided = Sided(assigned, start.fact.number, start.plan.ends_ms, is_new=True)
            assign(txn, sided, session=session, at_ms=at_ms)
            _leave_out(txn, {_name(txn, session)})


def assign_imported(txn: Transaction, import_no: int) -> None:
    """Write the assignments of the runs of a staged import, once these are active."""
    if not txn.has_experiments:
        return
    rows = txn.rows(
        "SELECT uid, session, at_ms, choice FROM run WHERE learner_id = ? AND import_no = ? AND class <> 'fallback'"
        " AND choice LIKE ?",
        [import_no, _SIDED],
    )
    runs = [
        RecordedSide(uid, session or "", at_ms, carried.experiment, carried.seed)
        for uid, session, at_ms, choice in rows
        for carried in [_CARRYING.decode(choice)]
    ]
    assign_recorded(txn, sorted(runs, key=lambda one: (one.at_ms or 0, one.uid)))
    last = txn.number("assignment", 0)
    settle_assignments(txn, range(last - txn.n_numbered("assignment"), last))


class _Carrying(msgspec.Struct, frozen=True):
    seed: str = ""
    experiment: Assigned | None = None


_CARRYING: Final = msgspec.json.Decoder(_Carrying)


def _had_others(txn: Transaction, session: str, uids: set[str]) -> bool:
    """Return whether a session has a hold, an offer, or a run other than these."""
    before = txn.column(
        "SELECT uid FROM run WHERE learner_id = ? AND session = ? LIMIT ?", [session, len(uids) + 1]
    )
    return not uids.issuperset(before) or txn.has_row(
        _KNOWN.split(" UNION ALL ", 1)[1] + " LIMIT 1", [session, txn.learner_id, session]
    )


def n_open(facts: Facts, one: StartedExperiment, now_ms: int) -> int:
    """Return how many assigned sessions of an experiment keep their side now."""
    sql = (
        "SELECT count(*) FROM assignment WHERE learner_id = ? AND experiment_no = ? AND undone = 0"
        f" AND {ACTIVE} AND at_ms >= ?"
    )
    return facts.count_of(sql, [one.fact.number, now_ms - one.plan.hours * HOUR_MS])


# Check


def unlike_assignments(facts: Facts) -> Iterator[tuple[int, TrialSide]]:
    """Yield each assignment whose side follows from none of its coins, as its number and side.

    The unit of a coin is the name of the session, or the seed of a selection that its runs have. Where the name was
    erased, or there is neither name nor run, nothing can be recomputed.
    """
    starts = {one.fact.number: one for one in started(facts) if one.fact.secret}
    erased = Erased.of(facts.connection, facts.learner_id)
    doubtful = [
        (number, "uid" if run else "session", run or session, side, (starts[experiment_no], chance_micro))
        for number, experiment_no, session, run, side, chance_micro in facts.rows(
            "SELECT assignment_no, experiment_no, session, run, side, chance_micro FROM assignment"
            " WHERE learner_id = ? ORDER BY assignment_no"
        )
        if experiment_no in starts
        and not erased.is_number(session)
        and (run or not _is_by(starts[experiment_no], session, side, chance_micro))
    ]
    seeds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for kind in ("session", "uid"):
        units = [unit for _, of, unit, _, _ in doubtful if of == kind]
        for unit, choice in facts.rows_in(_SEEDS.replace("{unit}", kind), units, [_SIDED]):
            seeds[kind, unit].add(_CARRYING.decode(choice).seed)
    for number, kind, unit, side, (start, chance_micro) in doubtful:
        known = seeds[kind, unit]
        if known and not any(_is_by(start, _of_seed(seed), side, chance_micro) for seed in known):
            yield number, side


# Lines


def experiment_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Yield starts and later acts as lines, without keys."""
    ids = {one.fact.number: one.fact.line_id for one in started(snapshot)}
    for _, one in snapshot.acts("experiment", "form", "start_no", "content"):
        content = _decoded(one["form"], one.pop("content"))
        plan, act = (content, None) if isinstance(content, ExperimentPlan) else (None, content)
        start_no = one.pop("start_no")
        yield one["revision"], ExperimentLine(plan=plan, act=act, of=ids.get(start_no, ""), **one)


def assignment_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Yield assignments as lines."""
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
