"""Undoing: every act has an id, every act can be undone, an undo too. Idempotent; nothing is deleted."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, assert_never, get_args

from core.errors import UnknownAct
from core.store.caches import CHUNK
from core.store.claims import (
    KEYED,
    Fact,
    LedgerKind,
    outheld,
    same_keys,
    settle_arms,
    settle_descriptions,
    settle_runs,
)
from core.store.ledger import mark_observation, settle_observation
from core.store.notes import mark_note, settle_note
from core.store.resets import mark_reset, settle_reset
from core.store.settings import enforce_settings, mark_setting
from core.store.staging import spoil
from core.store.tables import ACT_TABLES, ActKind
from core.store.transaction import Transaction

_KINDS: Final[tuple[ActKind, ...]] = get_args(ActKind)
_ID: Final = re.compile(r"([a-z]+)-([1-9][0-9]{0,17})")


class Act(NamedTuple):
    """What an id such as ``reset-3`` names."""

    kind: ActKind
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
            "There is no act to undo: nothing was told that wasn't known.",
            next_step="Look in the history for the act that told it first.",
        )
    match = _ID.fullmatch(act_id)
    kind = next((kind for kind in _KINDS if match and kind == match[1]), None)
    if match is None or kind is None:
        raise UnknownAct(
            "An act's id must read like reward-12, reset-3, import-1, setting-2, note-1 or undo-4, "
            f"got {act_id[:60]!r}.",
            next_step="Take it from the answer of the command that acted, or from the history.",
        )
    table = ACT_TABLES[kind]
    row = txn.link.row(
        f'SELECT undone, actor FROM "{table}" WHERE learner_id = ? AND {table}_no = ?',
        [txn.learner_id, int(match[2])],
    )
    if row is None:
        raise UnknownAct(
            f"Nothing by the id {act_id!r} happened in learner {txn.name!r}.",
            next_step="Look the id up in the history, or name another learner with --learner.",
        )
    return Act(kind, int(match[2]), bool(row[0]), row[1])


def undo(txn: Transaction, act: Act) -> str:
    """Undo an act; the id of the undo that stands for it (an earlier one, where it is undone already)."""
    if act.undone:
        return standing_undos(txn, act)[0].id
    return f"undo-{_add_undo(txn, act.kind, act.number)}"


def tell_undone(txn: Transaction, kind: Literal["reward", "reset", "note"], number: int) -> None:
    """Note that a fact came undone already, so that it can be redone here like any other."""
    _add_undo(txn, kind, number)


def _add_undo(txn: Transaction, kind: ActKind, number: int) -> int:
    undo_no = txn.number("undo")
    txn.link.run(
        "INSERT INTO undo VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
        [txn.learner_id, undo_no, kind, number, txn.actor.name, txn.now_ms, txn.revision],
    )
    _mark(txn, kind, number, undone=True)
    return undo_no


def standing_undos(txn: Transaction, act: Act) -> list[Act]:
    """The undos that keep an act undone, newest first."""
    rows = txn.link.rows(
        "SELECT undo_no, actor FROM undo WHERE learner_id = ? AND kind = ? AND no = ? AND undone = 0"
        " ORDER BY undo_no DESC",
        [txn.learner_id, act.kind, act.number],
    )
    return [Act("undo", number, False, actor) for number, actor in rows]


def _mark(txn: Transaction, kind: ActKind, number: int, *, undone: bool) -> None:
    if kind == "reward":
        mark_observation(txn, number, undone=undone)
    elif kind == "reset":
        mark_reset(txn, number, undone=undone)
    elif kind == "import":
        _mark_import(txn, number, undone=undone)
    elif kind == "setting":
        mark_setting(txn, number, undone=undone)
    elif kind == "note":
        mark_note(txn, number, undone=undone)
    elif kind == "undo":
        _mark_undo(txn, number, undone=undone)
    else:
        assert_never(kind)


def _mark_undo(txn: Transaction, number: int, *, undone: bool) -> None:
    """An undo that is undone lets its act stand again, unless another undo of it stands."""
    txn.link.run(
        "UPDATE undo SET undone = ? WHERE learner_id = ? AND undo_no = ?",
        [int(undone), txn.learner_id, number],
    )
    kind, target = _target(txn, number)
    others = txn.link.row(
        "SELECT count(*) FROM undo WHERE learner_id = ? AND kind = ? AND no = ? AND undone = 0",
        [txn.learner_id, kind, target],
    )
    _mark(txn, kind, target, undone=bool(others and others[0]))


def _target(txn: Transaction, undo_no: int) -> tuple[ActKind, int]:
    """What an undo took back."""
    row = txn.link.row(
        "SELECT kind, no FROM undo WHERE learner_id = ? AND undo_no = ?", [txn.learner_id, undo_no]
    )
    kind = next(kind for kind in _KINDS if row is not None and kind == row[0])
    return kind, row[1] if row is not None else 0


def _mark_import(txn: Transaction, number: int, *, undone: bool) -> None:
    spoil(txn)
    txn.link.run(
        "UPDATE import SET undone = ? WHERE learner_id = ? AND import_no = ?",
        [int(undone), txn.learner_id, number],
    )
    enforce_settings(txn)
    for reset_no in _told_by(txn, "reset", number):
        settle_reset(txn, reset_no)
    for table, fact_no in sorted(_keyed_facts(txn, number)):
        settle = settle_observation if table == "observation" else settle_note
        settle(txn, fact_no)
    settle_arms(txn, _named_by(txn, number))
    settle_descriptions(txn, _described_by(txn, number))
    run_nos = _told_by(txn, "run", number)
    for start in range(0, len(run_nos), CHUNK):
        settle_runs(txn, run_nos[start : start + CHUNK])


def _keyed_facts(txn: Transaction, import_no: int) -> set[Fact]:
    """Rewards and notes that an import tells, and those that were asked for under the same keys."""
    found: set[Fact] = set()
    for table in KEYED:
        told = _told_by(txn, table, import_no)
        found.update((table, number) for number in told)
        found.update(rival for _, rival in same_keys(txn, table, told))
    return found


def left_out(txn: Transaction, act: Act) -> int:
    """Rewards and notes that an import tells in vain, because their keys were used again while it was undone: of what
    was asked for under one key one fact stands. Of an undo that was taken back, those of what it had taken back.
    """
    kind, number = act.kind, act.number
    while kind == "undo":
        kind, number = _target(txn, number)
    if kind != "import":
        return 0
    return sum(len(outheld(txn, table, _told_by(txn, table, number))) for table in KEYED)


def _told_by(txn: Transaction, kind: Literal["run"] | LedgerKind, import_no: int) -> list[int]:
    """Facts of a kind that an import told, first or again."""
    rows = txn.link.rows(
        f"SELECT {kind}_no FROM {kind} WHERE learner_id = ? AND import_no = ?"
        " UNION SELECT no FROM sighting WHERE learner_id = ? AND kind = ? AND import_no = ?",
        [txn.learner_id, import_no, txn.learner_id, kind, import_no],
    )
    return [number for (number,) in rows]


def _named_by(txn: Transaction, import_no: int) -> list[int]:
    rows = txn.link.rows(
        "SELECT no FROM sighting WHERE learner_id = ? AND kind = 'arm' AND import_no = ?",
        [txn.learner_id, import_no],
    )
    return [arm_no for (arm_no,) in rows]


def _described_by(txn: Transaction, import_no: int) -> list[int]:
    rows = txn.link.rows(
        "SELECT arm_no FROM description WHERE learner_id = ? AND import_no = ?", [txn.learner_id, import_no]
    )
    return [arm_no for (arm_no,) in rows]
