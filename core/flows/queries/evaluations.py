"""Evaluations with their grades, and the checks for bias: graders, spreads, blockers and outlier raters.

Labels, flags and blockers are computed on each read from the record and the active thresholds.

Agreement between graders, with intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Unpack

import msgspec
import numpy as np
from msgspec import Meta

from core.columns import EvaluationColumns, Ints
from core.flows.context import Context
from core.maths.evaluate import PREFERENCE_BLOCKERS, SFT_BLOCKERS, GradeColumns, grade_all
from core.maths.statistics.agreement import (
    against_rest,
    graders_against_humans,
    pairwise,
)
from core.maths.statistics.agreement import agreement as krippendorff
from core.maths.statistics.agreement.alpha import panel
from core.maths.statistics.bias import (
    GroupShares,
    GroupSpread,
    Readiness,
    group_shares,
    readiness,
    spread_by_group,
)
from core.maths.statistics.parting import PartingGrader, parting_raters
from core.records.agreement import AgreementReport, GraderAgainstRest, GraderPair, ModelAgainstPeople
from core.records.evaluation import GRADER_KINDS, LABELS, Thresholds
from core.records.evaluation_page import ANY_EVALUATION, Evaluation, EvaluationFilter, EvaluationPage, Grader
from core.records.parameters import completed
from core.records.run_query import Dates, dates_of
from core.store.reads.evaluations import evaluated_names, evaluation_columns, evaluation_page
from core.store.reads.log import Position, after_of, mark_of

PAGE_EVALUATIONS: Final = 25

MOST_GRADERS: Final = 12
"""Maximum number of graders that are listed, the busiest first; 12 graders are 66 pairs."""
_SEED: Final = 1
"""Seed of the bootstrap: the same evaluations have the same intervals for every caller."""


@dataclass(frozen=True, kw_only=True)
class GraderSpread:
    """Spread of one grader's evaluations."""

    grader: Grader
    spread: GroupSpread


@dataclass(frozen=True, kw_only=True)
class RubricSpread:
    """Spread of the evaluations by one rubric version; "" = without a rubric."""

    rubric: str
    spread: GroupSpread


@dataclass(frozen=True, kw_only=True)
class BiasWatch:
    """Evaluations by grader kind, grader and rubric.

    ``n`` of them pass the filter. ``kinds`` and ``by_kind`` are in the order of `GRADER_KINDS`. Graders and rubrics
    are sorted by their number of evaluations.
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
    limit: Annotated[
        int, Meta(ge=1, le=10_000, description="Maximum number of evaluations, newest first.")
    ] = 50,
    **query: Unpack[Dates],
) -> tuple[Evaluation, ...]:
    """List the latest evaluations, with their grades and export blockers."""
    return page_of_evaluations(context, wanted, limit=limit, **query).rows


def page_of_evaluations(
    context: Context,
    filters: EvaluationFilter = ANY_EVALUATION,
    *,
    before: int | None = None,
    limit: int = PAGE_EVALUATIONS,
    **query: Unpack[Dates],
) -> EvaluationPage:
    """Return a page of evaluations below the number ``before``, the latest first; with ``since`` what changed.

    Feedback is a text: a caller without the action ``read_words`` gets none.
    """
    since = completed(Dates, query)["since"]
    since_ms, until_ms = dates_of(query)
    if since_ms is not None or until_ms is not None:
        filters = msgspec.structs.replace(filters, since_ms=since_ms, until_ms=until_ms)
    with context.reading() as snapshot:
        hidden = context.hidden_from(snapshot)
        after = after_of(snapshot, since, hidden)
        page = evaluation_page(snapshot, filters, before=before, limit=limit, hidden=hidden, after=after)
        shows = context.may("read_words")
        rows = [
            msgspec.structs.replace(
                row,
                feedback=row.feedback if shows else None,
                mark=mark_of(snapshot, Position(row.revision, row.number)),
            )
            for row in page.rows
        ]
    return page._replace(rows=tuple(rows))


def bias_watch(context: Context, filters: EvaluationFilter = ANY_EVALUATION) -> BiasWatch:
    """Return the spread of each grader's evaluations, what blocks an export, and outlier raters."""
    with context.reading() as snapshot:
        columns = evaluation_columns(snapshot, filters, hidden=context.hidden_from(snapshot))
        thresholds = snapshot.settings.thresholds
    grades = grades_of(columns, thresholds)
    kinds = np.array([GRADER_KINDS.index(one.kind) for one in columns.graders], dtype=np.int64)
    kind = kinds[columns.grader] if len(columns) else columns.grader
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
        parting=outlier_graders(columns),
    )


def evaluated(context: Context) -> tuple[tuple[Grader, ...], tuple[str, ...]]:
    """Return every grader and every rubric version that an evaluation names, in order."""
    with context.reading() as snapshot:
        return evaluated_names(snapshot)


def grades_of(columns: EvaluationColumns, thresholds: Thresholds) -> GradeColumns:
    """Return the grades of evaluations by these thresholds."""
    return grade_all(
        columns.is_success,
        columns.score,
        is_named=columns.is_named,
        has_rubric=columns.has_rubric,
        thresholds=thresholds,
    )


def ready(columns: EvaluationColumns, grades: GradeColumns) -> Readiness:
    """Return how many of the evaluations an export accepts."""
    return readiness(
        columns.is_success,
        grades.sft_blocked,
        grades.preference_blocked,
        sft_names=SFT_BLOCKERS,
        preference_names=PREFERENCE_BLOCKERS,
    )


def panel_of(columns: EvaluationColumns) -> Ints:
    """Return comparable rows: of known graders. Names that a token merely claims are left out."""
    is_known = np.array([one.kind != "unknown" for one in columns.graders], dtype=np.bool_)
    known = np.flatnonzero(~columns.is_claimed)
    return np.asarray(known[panel(columns.item[known], columns.grader[known], is_known=is_known)])


def outlier_graders(columns: EvaluationColumns) -> tuple[PartingGrader, ...]:
    """Return graders who differ from the others on the same items, the surest first."""
    rows = panel_of(columns)
    outliers = parting_raters(columns.item[rows], columns.grader[rows], columns.is_success[rows])
    return tuple(PartingGrader(grader=columns.graders[one.rater], parting=one) for one in outliers)


def _spread(
    columns: EvaluationColumns, grades: GradeColumns, group: Ints, n_groups: int
) -> tuple[GroupSpread, ...]:
    return spread_by_group(
        group, columns.is_success, columns.score, grades.label, n_groups=n_groups, n_labels=len(LABELS)
    )


def _most_first(spreads: tuple[GroupSpread, ...]) -> list[GroupSpread]:
    return sorted(spreads, key=lambda one: -one.n)


def agreement(
    context: Context,
    wanted: Annotated[
        EvaluationFilter, Meta(description="Only evaluations that pass this filter.")
    ] = ANY_EVALUATION,
) -> AgreementReport:
    """Report how far graders agree, with intervals.

    It covers outcome, label and score, each pair of graders, and models compared with people.
    """
    with context.reading() as snapshot:
        columns = evaluation_columns(snapshot, wanted, hidden=context.hidden_from(snapshot))
        thresholds = snapshot.settings.thresholds
    return agreement_in(columns, grades_of(columns, thresholds))


def agreement_in(columns: EvaluationColumns, grades: GradeColumns) -> AgreementReport:
    """Report the agreement in these columns."""
    rows = panel_of(columns)
    item, outcome = columns.item[rows], columns.is_success[rows].astype(np.int64)
    on_outcome = krippendorff(item, outcome, "nominal", seed=_SEED)
    kinds = [one.kind for one in columns.graders]
    results = graders_against_humans(
        columns.item[rows],
        columns.grader[rows],
        columns.is_success[rows].astype(np.int64),
        is_human=np.array([kind == "human" for kind in kinds], dtype=np.bool_),
        is_model=np.array([kind == "model" for kind in kinds], dtype=np.bool_),
        seed=_SEED,
    )
    return AgreementReport(
        n=len(columns),
        n_panel=len(rows),
        n_items=on_outcome.n_items,
        n_graders=len(np.unique(columns.grader[rows])),
        outcome=on_outcome,
        label=krippendorff(item, grades.label[rows], "ordinal", seed=_SEED),
        score=krippendorff(item, columns.signed_score[rows], "interval", seed=_SEED),
        graders=_against_rest(columns, rows),
        pairs=_pairs(columns, rows),
        models=tuple(ModelAgainstPeople(grader=columns.graders[one.rater], result=one) for one in results),
    )


def _busiest(columns: EvaluationColumns, rows: Ints) -> Ints:
    """Return the graders that are listed."""
    n_of = np.bincount(columns.grader[rows], minlength=len(columns.graders))
    first = np.argsort(-n_of, kind="stable")[:MOST_GRADERS]
    return np.asarray(first[n_of[first] > 0])


def _against_rest(columns: EvaluationColumns, rows: Ints) -> tuple[GraderAgainstRest, ...]:
    named = set(_busiest(columns, rows).tolist())
    outcome = columns.is_success[rows].astype(np.int64)
    results = against_rest(columns.item[rows], columns.grader[rows], outcome, "nominal", seed=_SEED)
    return tuple(
        GraderAgainstRest(grader=columns.graders[one.rater], agreement=one.agreement, weight=one.weight)
        for one in results
        if one.rater in named
    )


def _pairs(columns: EvaluationColumns, rows: Ints) -> tuple[GraderPair, ...]:
    rows = rows[np.isin(columns.grader[rows], _busiest(columns, rows))]
    outcome = columns.is_success[rows].astype(np.int64)
    results = pairwise(columns.item[rows], columns.grader[rows], outcome, "nominal", seed=_SEED)
    return tuple(
        GraderPair(
            grader=columns.graders[one.rater], other=columns.graders[one.other], agreement=one.agreement
        )
        for one in results
    )
