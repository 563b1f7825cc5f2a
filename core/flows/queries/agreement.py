"""Agreement between graders, with intervals."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from core.columns import EvaluationColumns, Ints
from core.evaluate import GradeColumns
from core.flows.context import Context
from core.flows.queries.blind import hidden_from
from core.flows.queries.evaluations import grades_of, panel_of
from core.records.agreement import AgreementReport, GraderAgainstRest, GraderPair, ModelAgainstPeople
from core.records.evaluation_page import ANY_EVALUATION, EvaluationFilter
from core.statistics.agreement import (
    against_rest,
    graders_against_humans,
    pairwise,
)
from core.statistics.agreement import agreement as krippendorff
from core.store.reads.evaluations import evaluation_columns

MOST_GRADERS: Final = 12
"""Maximum number of graders that are listed, the busiest first; 12 graders are 66 pairs."""
_SEED: Final = 1
"""Seed of the bootstrap: the same evaluations have the same intervals for every caller."""


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
        columns = evaluation_columns(snapshot, wanted, hidden=hidden_from(context, snapshot))
        thresholds = snapshot.settings.thresholds
    return agreement_in(columns, grades_of(columns, thresholds))


def agreement_in(columns: EvaluationColumns, grades: GradeColumns) -> AgreementReport:
    """Report the agreement in these columns."""
    rows = panel_of(columns)
    item, outcome = columns.item[rows], columns.is_success[rows].astype(np.int64)
    on_outcome = krippendorff(item, outcome, "nominal", seed=_SEED)
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
        models=_models(columns, rows),
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


def _models(columns: EvaluationColumns, rows: Ints) -> tuple[ModelAgainstPeople, ...]:
    kinds = [one.kind for one in columns.graders]
    results = graders_against_humans(
        columns.item[rows],
        columns.grader[rows],
        columns.is_success[rows].astype(np.int64),
        is_human=np.array([kind == "human" for kind in kinds], dtype=np.bool_),
        is_model=np.array([kind == "model" for kind in kinds], dtype=np.bool_),
        seed=_SEED,
    )
    return tuple(ModelAgainstPeople(grader=columns.graders[one.rater], result=one) for one in results)
