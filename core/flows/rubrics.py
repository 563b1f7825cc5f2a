"""Rubrics: versions of criteria and levels by which people judge."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from core.flows.context import Context
from core.records.review import LEVELS, Level, Rubric, RubricAnswer, RubricRow
from core.store.notes import add_rubric as store_rubric
from core.store.notes import rubric_of
from core.store.reads.reviewable import rubric_rows
from core.store.transaction import Facts, Transaction


def add_rubric(
    context: Context, rubric: Annotated[Rubric, Meta(description="Its version, title, criteria and levels.")]
) -> RubricAnswer:
    """Define a version of the rubric; it never changes.

    The version is on disk when this returns, and `undo` reverts it. The same version with the same content returns
    the active one. Raises `Conflict` where it is active with other content.
    """

    def work(txn: Transaction) -> RubricAnswer:
        known = rubric_of(txn, rubric.version)
        if known is not None and known[1] == rubric:
            return RubricAnswer(id=f"rubric-{known[0]}", version=rubric.version)
        number = store_rubric(txn, rubric, txn.own)
        answer = RubricAnswer(id=f"rubric-{number}", version=rubric.version)
        txn.audit("rubric", answer.id, {"version": rubric.version, "title": rubric.title})
        return answer

    return context.write("queue", work)


def rubrics(context: Context) -> tuple[RubricRow, ...]:
    """List active versions of the rubric, with their levels.

    The newest come first, each with the number of its evaluations.
    """
    with context.reading() as snapshot:
        return rubric_rows(snapshot)


def rubric_levels(context: Context, version: str) -> tuple[Level, ...]:
    """Return the levels of a version, level 1 first; the default levels for an undefined version."""
    with context.reading() as snapshot:
        return levels_of(snapshot, version)


def levels_of(facts: Facts, version: str) -> tuple[Level, ...]:
    """Return the levels of a version in an open snapshot."""
    known = rubric_of(facts, version) if version else None
    return LEVELS if known is None else known[1].levels
