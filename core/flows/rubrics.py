"""Rubrics: versions by which people judge: defined, listed with their levels, and taken back by `undo`."""

from __future__ import annotations

from core.flows.context import Context
from core.records.review import RubricAnswer, RubricRow
from core.records.rubric import LEVELS, Level, Rubric
from core.store.reads.rubrics import rubric_rows
from core.store.rubrics import add_rubric as store_rubric
from core.store.rubrics import rubric_of
from core.store.transaction import Facts, Transaction


def add_rubric(context: Context, rubric: Rubric) -> RubricAnswer:
    """Define a version of a rubric; it is on disk when this returns, and `undo` takes it back.

    The same version with the same content again answers with the one that stands. Raises `Conflict` where it stands
    with other content: a version never changes.
    """

    def work(txn: Transaction) -> RubricAnswer:
        known = rubric_of(txn, rubric.version)
        if known is not None and known[1] == rubric:
            return RubricAnswer(id=f"rubric-{known[0]}", version=rubric.version)
        number = store_rubric(txn, rubric, actor=txn.actor.name, at_ms=txn.now_ms)
        answer = RubricAnswer(id=f"rubric-{number}", version=rubric.version)
        txn.audit("rubric", answer.id, {"version": rubric.version, "title": rubric.title})
        return answer

    return context.write("queue", work)


def rubrics(context: Context) -> tuple[RubricRow, ...]:
    """Versions that stand, newest first, with their levels and how often they were judged by."""
    with context.reading() as snapshot:
        return rubric_rows(snapshot)


def rubric_levels(context: Context, version: str) -> tuple[Level, ...]:
    """The levels of a version, from the one that 1 stands for on; those of a rubric that names none where nobody has
    defined it.
    """
    with context.reading() as snapshot:
        return levels_of(snapshot, version)


def levels_of(facts: Facts, version: str) -> tuple[Level, ...]:
    """The same at a moment that is open."""
    known = rubric_of(facts, version) if version else None
    return LEVELS if known is None else known[1].levels
