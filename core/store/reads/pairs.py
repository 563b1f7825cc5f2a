"""Pairs of answers to one instruction, for comparison by a reviewer."""

from __future__ import annotations

from typing import Final, NamedTuple

from core.store.engine.words import ACTIVE
from core.store.transaction import Facts

_COUNTED: Final = 1_000
_LEFT: Final = (
    " FROM training_pair a JOIN training_pair b ON b.learner_id = a.learner_id AND b.digest = a.digest"
    " AND b.digest <> '' AND b.layer_no = a.layer_no AND b.execution_no > a.execution_no"
    f" JOIN execution x ON x.learner_id = a.learner_id AND x.execution_no = a.execution_no AND x.{ACTIVE}"
    f" JOIN execution y ON y.learner_id = b.learner_id AND y.execution_no = b.execution_no AND y.{ACTIVE}"
    " LEFT JOIN run r ON r.learner_id = x.learner_id AND r.run_no = x.run_no"
    " LEFT JOIN run s ON s.learner_id = y.learner_id AND s.run_no = y.run_no"
    " WHERE a.learner_id = ?1 AND a.digest <> '' AND (? = 0 OR a.layer_no = ?)"
    " AND coalesce(r.standing, 1) = 1 AND coalesce(s.standing, 1) = 1"
    " AND a.response IS NOT NULL AND b.response IS NOT NULL AND a.response <> b.response"
    " AND NOT EXISTS (SELECT 1 FROM choice c WHERE c.learner_id = ?1 AND c.layer_no = a.layer_no"
    f" AND c.rater = ? AND c.{ACTIVE} AND c.undone = 0 AND ((c.first_no = a.execution_no AND c.second_no ="
    " b.execution_no) OR (c.first_no = b.execution_no AND c.second_no = a.execution_no)))"
)


class Answer(NamedTuple):
    """The answer to an instruction in one execution; ``digest`` identifies the instruction, '' = not stored."""

    layer: str
    execution: str
    digest: str
    instruction: str | None
    response: str | None


class Left(NamedTuple):
    """Number of remaining pairs, 1,000 at most, and the oldest (None without any)."""

    n: int
    oldest: tuple[Answer, ...]


def pairs_left(facts: Facts, rater: str, layer_no: int) -> Left:
    """Return pairs of different answers that the rater has not compared yet, of a layer (0 = of any)."""
    values = [facts.learner_id, layer_no, layer_no, rater]
    counted = facts.connection.row(
        f"SELECT count(*) FROM (SELECT a.execution_no{_LEFT} LIMIT {_COUNTED}) AS found", values
    )
    row = facts.connection.row(
        f"SELECT a.layer_no, a.execution_no, b.execution_no{_LEFT}"
        " ORDER BY a.execution_no, b.execution_no, a.layer_no LIMIT 1",
        values,
    )
    if row is None or counted is None:
        return Left(0, ())
    return Left(counted[0], tuple(_numbered(facts, row[0], number) for number in row[1:]))


def _numbered(facts: Facts, layer_no: int, execution_no: int) -> Answer:
    row = facts.connection.row(
        "SELECT l.uid, x.uid, p.digest, p.instruction, p.response FROM training_pair p"
        " JOIN layer l ON l.learner_id = p.learner_id AND l.layer_no = p.layer_no"
        " JOIN execution x ON x.learner_id = p.learner_id AND x.execution_no = p.execution_no"
        " WHERE p.learner_id = ? AND p.layer_no = ? AND p.execution_no = ?",
        [facts.learner_id, layer_no, execution_no],
    )
    assert row is not None  # noqa: S101 - it was just found
    return Answer(*row)


def answer_in(facts: Facts, layer: str, execution: str) -> Answer | None:
    """Return a layer's answer in an execution, by their uids; None without an active one."""
    row = facts.connection.row(
        "SELECT p.layer_no, p.execution_no FROM layer l"
        " JOIN training_pair p ON p.learner_id = l.learner_id AND p.layer_no = l.layer_no"
        " JOIN execution x ON x.learner_id = p.learner_id AND x.execution_no = p.execution_no"
        f" WHERE l.learner_id = ? AND l.uid = ? AND x.uid = ? AND x.{ACTIVE}",
        [facts.learner_id, layer, execution],
    )
    return None if row is None else _numbered(facts, row[0], row[1])
