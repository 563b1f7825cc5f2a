"""Evaluations: read back with their grades, and watched for bias: who judges, how, what blocks, who parts.

Labels, flags and blockers are computed from the record and the thresholds in force whenever they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from core.columns import EvaluationColumns, Ints
from core.evaluate import PREFERENCE_BLOCKERS, SFT_BLOCKERS, GradeColumns, grade_all
from core.flows.context import Context
from core.flows.queries.blind import hidden_from
from core.records.evaluation import GRADER_KINDS, LABELS, Thresholds
from core.records.evaluation_page import ANY_EVALUATION, Evaluation, EvaluationFilter, EvaluationPage, Grader
from core.statistics.bias import (
    GroupShares,
    GroupSpread,
    Readiness,
    group_shares,
    readiness,
    spread_by_group,
)
from core.statistics.panel import panel
from core.statistics.parting import PartingGrader, parting_raters
from core.store.reads.evaluations import evaluated_names, evaluation_columns, evaluation_page

PAGE_EVALUATIONS: Final = 25


@dataclass(frozen=True, kw_only=True)
class GraderSpread:
    """How one grader's evaluations are spread."""

    grader: Grader
    spread: GroupSpread


@dataclass(frozen=True, kw_only=True)
class RubricSpread:
    """How evaluations by one version of a rubric are spread; "" = by none."""

    rubric: str
    spread: GroupSpread


@dataclass(frozen=True, kw_only=True)
class BiasWatch:
    """What evaluations look like by those who made them.

    ``n`` of them pass the filter. ``kinds`` and ``by_kind`` are in the order of `GRADER_KINDS`; graders and rubrics
    are sorted by how many evaluations they have.
    """

    n: int
    kinds: GroupShares
    by_kind: tuple[GroupSpread, ...]
    by_grader: tuple[GraderSpread, ...]
    by_rubric: tuple[RubricSpread, ...]
    readiness: Readiness
    parting: tuple[PartingGrader, ...]


def evaluations(
    context: Context,
    wanted: Annotated[
        EvaluationFilter, Meta(description="Only evaluations that pass this filter.")
    ] = ANY_EVALUATION,
    *,
    limit: Annotated[
        int, Meta(ge=1, le=10_000, description="Maximum number of evaluations, newest first.")
    ] = 50,
) -> tuple[Evaluation, ...]:
    """List the latest evaluations, with their grades and export blockers."""
    return seen_evaluations(context, wanted, limit=limit).rows


def seen_evaluations(
    context: Context,
    wanted: EvaluationFilter = ANY_EVALUATION,
    *,
    before: int | None = None,
    limit: int = PAGE_EVALUATIONS,
) -> EvaluationPage:
    """A page of evaluations, the latest first, from below the number ``before`` on.

    Feedback is a text: without the action ``read_texts`` there is none.
    """
    with context.reading() as snapshot:
        hidden = hidden_from(context, snapshot)
        page = evaluation_page(snapshot, wanted, before=before, limit=limit, hidden=hidden)
    if context.may("read_texts"):
        return page
    return page._replace(rows=tuple(msgspec.structs.replace(row, feedback=None) for row in page.rows))


def bias_watch(context: Context, wanted: EvaluationFilter = ANY_EVALUATION) -> BiasWatch:
    """Who judges, how each of them does, what blocks an export, and who parts from the others."""
    with context.reading() as snapshot:
        columns = evaluation_columns(snapshot, wanted, hidden=hidden_from(context, snapshot))
        thresholds = snapshot.settings.thresholds
    grades = grades_of(columns, thresholds)
    kind = _kinds(columns)[columns.grader] if len(columns) else columns.grader
    return BiasWatch(
        n=len(columns),
        kinds=group_shares(kind, len(GRADER_KINDS)),
        by_kind=_spread(columns, grades, kind, len(GRADER_KINDS)),
        by_grader=tuple(
            GraderSpread(grader=columns.graders[one.group], spread=one)
            for one in _most_first(_spread(columns, grades, columns.grader, len(columns.graders)))
        ),
        by_rubric=tuple(
            RubricSpread(rubric=columns.rubrics[one.group], spread=one)
            for one in _most_first(_spread(columns, grades, columns.rubric, len(columns.rubrics)))
        ),
        readiness=ready(columns, grades),
        parting=parting_of(columns),
    )


def evaluated(context: Context) -> tuple[tuple[Grader, ...], tuple[str, ...]]:
    """Every grader, and every version of a rubric, that anything was judged by, in order."""
    with context.reading() as snapshot:
        return evaluated_names(snapshot)


def grades_of(columns: EvaluationColumns, thresholds: Thresholds) -> GradeColumns:
    """What follows from evaluations by some thresholds."""
    return grade_all(
        columns.is_success,
        columns.score,
        is_named=columns.is_named,
        has_rubric=columns.has_rubric,
        thresholds=thresholds,
    )


def ready(columns: EvaluationColumns, grades: GradeColumns) -> Readiness:
    """How much of them an export takes."""
    return readiness(
        columns.is_success,
        grades.sft_blocked,
        grades.preference_blocked,
        sft_names=SFT_BLOCKERS,
        preference_names=PREFERENCE_BLOCKERS,
    )


def panel_of(columns: EvaluationColumns) -> Ints:
    """Rows that can be held against each other: of graders who are known, not only claimed by a token."""
    is_known = np.array([one.kind != "unknown" for one in columns.graders], dtype=np.bool_)
    known = np.flatnonzero(~columns.is_claimed)
    return np.asarray(known[panel(columns.item[known], columns.grader[known], is_known=is_known)])


def parting_of(columns: EvaluationColumns) -> tuple[PartingGrader, ...]:
    """Who parts from the others on the same items, the surest first."""
    rows = panel_of(columns)
    found = parting_raters(columns.item[rows], columns.grader[rows], columns.is_success[rows])
    return tuple(PartingGrader(grader=columns.graders[one.rater], found=one) for one in found)


def _kinds(columns: EvaluationColumns) -> Ints:
    """The kind of each grader."""
    return np.array([GRADER_KINDS.index(one.kind) for one in columns.graders], dtype=np.int64)


def _spread(
    columns: EvaluationColumns, grades: GradeColumns, group: Ints, n_groups: int
) -> tuple[GroupSpread, ...]:
    return spread_by_group(
        group, columns.is_success, columns.score, grades.label, n_groups=n_groups, n_labels=len(LABELS)
    )


def _most_first(spreads: tuple[GroupSpread, ...]) -> list[GroupSpread]:
    return sorted(spreads, key=lambda one: -one.n)
