"""Undoing: every act has an id and can be undone, an undo too. Idempotent; nothing is deleted."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from core.errors import NotApplicable, UnknownAct
from core.records.batch import MAX_BATCH
from core.store.arms import recompute_arms, recompute_descriptions
from core.store.caches import shifting
from core.store.compacted import refuse_compacted_import
from core.store.episodes import recompute_episodes
from core.store.facts import EXCHANGED, FACTS, Exchanged, Fact
from core.store.provenance import (
    Numbered,
    fact_states,
    facts_of_import,
    outheld,
    recompute_runs,
    same_keys,
)
from core.store.settings import enforce_settings
from core.store.staging import spoil
from core.store.subjects import SUBJECTS, recompute_subjects, subjects_of_import
from core.store.tables import KEYED_ACTS, marking
from core.store.transaction import Transaction

_ID: Final = re.compile(r"([a-z]+)-([1-9][0-9]{0,17})")
_BATCH_ID: Final = re.compile(r"(reward|outcome|undo)s-([1-9][0-9]{0,17})")

_BY_TABLE: Final = {fact.table: fact for fact in FACTS.values()}


class Act(NamedTuple):
    """The act of an id such as ``reset-3``."""

    kind: str
    number: int
    undone: bool
    actor: str

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.number}"


def find_act(txn: Transaction, act_id: str | None) -> Act:
    """The act an id names; raises `UnknownAct`."""
    if act_id is None:
        raise UnknownAct(
            "There is no act to undo: everything was known before.",
            next_step="Look in the history for the act that recorded it first.",
        )
    match = _ID.fullmatch(act_id)
    fact = FACTS.get(match[1]) if match else None
    if match is None or fact is None:
        *examples, last = [fact.example for fact in FACTS.values()]
        raise UnknownAct(
            f"An act's id must read like {', '.join(examples)} or {last}, got {act_id[:60]!r}.",
            next_step="Take it from the answer of the command that acted, or from the history.",
        )
    causes = fact.follows + fact.belongs_to
    columns = "".join(f", {table}_no" for table in causes)
    row = txn.row(
        f'SELECT undone, actor{columns} FROM "{fact.table}" WHERE learner_id = ? AND {fact.column} = ?',
        [int(match[2])],
    )
    if row is None:
        raise UnknownAct(
            f"Nothing by the id {act_id!r} happened in learner {txn.name!r}.",
            next_step="Look the id up in the history, or name another learner with --learner.",
        )
    for table, number in zip(causes, row[2:], strict=True):
        if number:
            cause = f"{_BY_TABLE[table].name}-{number}"
            raise NotApplicable(
                f"{act_id} follows from {cause} and can't be taken back without it.",
                next_step=f"Undo {cause}.",
            )
    return Act(fact.name, int(match[2]), bool(row[0]), row[1])


class Batch(NamedTuple):
    """Acts of one kind that were done as one, by number: rewards of a table or a run, outcomes, or their undos.

    No table holds batches: what was done in one write has one revision, and numbers that lie together.
    """

    kind: str
    acts: tuple[Act, ...]

    @property
    def id(self) -> str:
        """Return the id of the first act, in the plural."""
        return f"{self.kind}s-{self.acts[0].number}"


def find_batch(txn: Transaction, act_id: str | None) -> Batch | None:
    """Return the batch that an id such as ``rewards-12`` names by any of its acts, None for another form.

    Raises `UnknownAct` for a missing act, or for an imported one.
    """
    match = None if act_id is None else _BATCH_ID.fullmatch(act_id)
    if match is None:
        return None
    kind, number = match[1], int(match[2])
    acts = _done_together(txn, FACTS[kind], number)
    if not acts:
        raise UnknownAct(
            f"Nothing by the id {act_id!r} was given in learner {txn.name!r}.",
            next_step="Take it from the answer to the batch, or undo the import of an imported act.",
        )
    return Batch(kind, tuple(acts))


def _done_together(txn: Transaction, fact: Fact, number: int) -> list[Act]:
    """An act and those of its kind that were done in the same write, by number."""
    own = "".join(f" AND {{0}}.{act}_no = 0" for act in ("import", *fact.follows))
    if not isinstance(fact, Exchanged):
        own = ""
    rows = txn.connection.rows(
        f"SELECT b.{fact.column}, b.undone, b.actor FROM {fact.table} a JOIN {fact.table} b"
        f" ON b.learner_id = a.learner_id AND b.revision = a.revision{own.format('b')}"
        f" AND b.{fact.column} > a.{fact.column} - ? AND b.{fact.column} < a.{fact.column} + ?"
        f" WHERE a.learner_id = ? AND a.{fact.column} = ?{own.format('a')} ORDER BY b.{fact.column}",
        [MAX_BATCH, MAX_BATCH, txn.learner_id, number],
    )
    return [Act(fact.name, other, bool(undone), actor) for other, undone, actor in rows]


def undo(txn: Transaction, act: Act) -> str:
    """Undo an act; return the id of the active undo (an earlier one, where it is undone already)."""
    if act.undone:
        return active_undos(txn, act)[0].id
    return f"undo-{add_undo(txn, FACTS[act.kind], act.number)}"


def add_undo(txn: Transaction, fact: Fact, number: int) -> int:
    """Undo a fact, and return the number of the undo.

    An imported fact that was undone at its source gets an undo of its own, so that it can be redone here.
    """
    return add_undos(txn, fact, [number])[0]


def add_undos(txn: Transaction, fact: Fact, numbers: Sequence[int]) -> range:
    """Take several facts of a kind back, each by an undo of its own; the numbers of the undos, in the same order."""
    first = txn.number("undo", len(numbers))
    undo_nos = range(first, first + len(numbers))
    txn.connection.many(
        "INSERT INTO undo (learner_id, undo_no, kind, no, actor, at_ms, revision, undone)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
        [
            (txn.learner_id, undo_no, fact.name, number, txn.actor.name, txn.now_ms, txn.revision)
            for undo_no, number in zip(undo_nos, numbers, strict=True)
        ],
    )
    _mark_all(txn, fact, numbers, undone=True)
    return undo_nos


def undos_of(txn: Transaction, batch: Batch) -> dict[Act, str]:
    """The undos that keep acts of a batch undone, newest first, each with the id of what it took back."""
    rows = txn.connection.rows_in(
        "SELECT undo_no, actor, no FROM undo WHERE learner_id = ? AND kind = ? AND no IN ({}) AND undone = 0",
        [txn.learner_id, batch.kind],
        [act.number for act in batch.acts],
    )
    return {
        Act("undo", number, False, actor): f"{batch.kind}-{taken}"
        for number, actor, taken in sorted(rows, reverse=True)
    }


def active_undos(txn: Transaction, act: Act) -> list[Act]:
    """The undos that keep an act undone, newest first."""
    rows = txn.rows(
        "SELECT undo_no, actor FROM undo WHERE learner_id = ? AND kind = ? AND no = ? AND undone = 0"
        " ORDER BY undo_no DESC",
        [act.kind, act.number],
    )
    return [Act("undo", number, False, actor) for number, actor in rows]


def _mark_all(txn: Transaction, fact: Fact, numbers: Sequence[int], *, undone: bool) -> None:
    """Undo or redo several facts of a kind, and compute their common consequences once."""
    if fact is FACTS["reward"]:
        with shifting(txn, *_about(txn, numbers)):
            _set_undone(txn, fact, numbers, undone=undone)
    elif fact is FACTS["undo"]:
        _set_undone(txn, fact, numbers, undone=undone)
        _mark_all_again(txn, numbers)
    else:
        for number in numbers:
            if fact is FACTS["import"]:
                refuse_compacted_import(txn, number)
            row = txn.row(
                f'SELECT revision FROM "{fact.table}" WHERE learner_id = ? AND {fact.column} = ?', [number]
            )
            with fact.moving(txn, number, row[0] if row else 0):
                txn.set_row(fact.table, f"{fact.column} = ?", [number], undone=int(undone))
            fact.settled(txn, [number])
            if fact is FACTS["import"]:
                _recompute_import(txn, number)


def _set_undone(txn: Transaction, fact: Fact, numbers: Sequence[int], *, undone: bool) -> None:
    txn.connection.many(
        f"UPDATE {fact.table} SET undone = ?{marking(fact.table)} WHERE learner_id = ? AND {fact.column} = ?",
        [(int(undone), *txn.marks(fact.table), txn.learner_id, number) for number in numbers],
    )


def _about(txn: Transaction, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """The runs that rewards are about, and of the rewards those that are about none."""
    rows = txn.rows_in(
        "SELECT observation_no, run_no FROM observation WHERE learner_id = ? AND observation_no IN ({})",
        sorted(numbers),
    )
    return sorted({run_no for _, run_no in rows if run_no}), [number for number, run_no in rows if not run_no]


def _mark_all_again(txn: Transaction, undo_nos: Sequence[int]) -> None:
    """Recompute the acts of several undos: each is undone while any undo of it is active."""
    targets: dict[str, set[int]] = defaultdict(set)
    for kind, number in txn.rows_in(
        "SELECT kind, no FROM undo WHERE learner_id = ? AND undo_no IN ({})", sorted(undo_nos)
    ):
        targets[kind].add(number)
    for kind, numbers in sorted(targets.items()):
        rows = txn.connection.rows_in(
            "SELECT no FROM undo WHERE learner_id = ? AND kind = ? AND no IN ({}) AND undone = 0",
            [txn.learner_id, kind],
            sorted(numbers),
        )
        others = {number for (number,) in rows}
        for still, undone in ((numbers & others, True), (numbers - others, False)):
            if still:
                _mark_all(txn, FACTS[kind], sorted(still), undone=undone)


def recompute(txn: Transaction, fact: Fact, number: int) -> None:
    """Recompute an imported fact from its active sources."""
    _restate(txn, fact, number)
    fact.settled(txn, [number])


def _restate(txn: Transaction, fact: Fact, number: int) -> None:
    row = txn.row(
        f"SELECT import_no, revision, standing FROM {fact.table} WHERE learner_id = ? AND {fact.column} = ?",
        [number],
    )
    if row is None:
        return
    import_no, revision, was = row  # was: whether an import with the fact was active
    is_active, since = fact_states(txn, fact.table, {number: (import_no, revision)})[number]
    if (is_active, since) != (bool(was), revision):
        txn.note_news()
        with fact.moving(txn, number, min(since, revision)):
            txn.set_row(fact.table, f"{fact.column} = ?", [number], standing=int(is_active), revision=since)


def _recompute_import(txn: Transaction, import_no: int) -> None:
    """Recompute every fact of an import; those with keys by their tables, as one may wait for another."""
    spoil(txn)
    enforce_settings(txn)
    keyed = _keyed_facts(txn, import_no)
    for fact in EXCHANGED.values():
        if fact.name not in KEYED_ACTS:
            for number in facts_of_import(txn, fact.table, import_no):
                _restate(txn, fact, number)
    for table, number in sorted(
        keyed, key=lambda one: (one[0] != "reset", one)
    ):  # boundaries before what they part
        _restate(txn, _BY_TABLE[table], number)
    for kind in SUBJECTS:
        recompute_subjects(txn, kind, subjects_of_import(txn, kind, import_no))
    for fact in EXCHANGED.values():
        changed = {no for table, no in keyed if table == fact.table}
        fact.settled(txn, sorted(changed or facts_of_import(txn, fact.table, import_no)))
    recompute_arms(txn, _about_arms(txn, import_no, "('arm')"))
    recompute_descriptions(txn, _about_arms(txn, import_no, "('cost', 'label')"))
    recompute_runs(txn, facts_of_import(txn, "run", import_no))
    recompute_episodes(txn, subjects_of_import(txn, "episode", import_no))


def _keyed_facts(txn: Transaction, import_no: int) -> set[Numbered]:
    """Return the facts of an import of kinds with idempotency keys, and the facts that hold the same keys."""
    facts: set[Numbered] = set()
    for table in KEYED_ACTS.values():
        numbers = facts_of_import(txn, table, import_no)
        facts.update((table, number) for number in numbers)
        facts.update(rival for _, rival in same_keys(txn, table, numbers))
    return facts


def _about_arms(txn: Transaction, import_no: int, kinds: str) -> list[int]:
    """Arms of which an import says something of these kinds."""
    return txn.column(
        "SELECT DISTINCT no FROM provenance"
        f" WHERE learner_id = ? AND kind IN {kinds} AND import_no = ? ORDER BY no",
        [import_no],
    )


def left_out(txn: Transaction, act: Act) -> int:
    """Return the number of an import's facts that stay inactive, because their keys were used again meanwhile.

    One key has one active fact. For an undo, the number is that of the import that it took back.
    """
    kind, number = act.kind, act.number
    while kind == "undo":
        kind, number = txn.rows("SELECT kind, no FROM undo WHERE learner_id = ? AND undo_no = ?", [number])[0]
    if kind != "import":
        return 0
    return sum(len(outheld(txn, table, facts_of_import(txn, table, number))) for table in KEYED_ACTS.values())
