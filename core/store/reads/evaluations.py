"""Evaluations: one by one, the latest first, and as columns of all matches.

The filter is SQL, written once (`_conditions`); a test compares its grades with `core.maths.evaluate`. ``hidden`` are
numbers of evaluations that the caller may not see: each read leaves them out.

Their subjects are layers, executions and the arms of runs. Judged layers have a quality. Of bare ones only the name
is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import count
from typing import Any, Final, Literal

import msgspec
import numpy as np

from core.columns import EvaluationColumns, Ints, ints
from core.errors import InvalidEvaluation
from core.maths.evaluate import grade, grader_kind
from core.records.evaluation import Blocker, Subject
from core.records.evaluation_page import (
    Evaluation,
    EvaluationFilter,
    EvaluationPage,
    EvaluationState,
    Grader,
)
from core.records.javascript import WHITE_SPACE, trimmed
from core.records.layer import BareLayer, JudgedLayer, LayerUri, parse_uri
from core.store.browsers import RATER, UNCONFIRMED
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_RUN
from core.store.quality import heads_of
from core.store.reads.arms import arm_number
from core.store.reads.log import Position
from core.store.reads.runs import find_run
from core.store.tables import leaving_out
from core.store.transaction import Facts

_SEARCHED: Final = 5_000

Condition = tuple[str, list[Any]]
"""SQL that begins with AND, and its values."""

_ACTIVE_ROWS: Final = f" WHERE e.learner_id = ? AND e.{ACTIVE}"
_GRADER: Final = f"CASE WHEN e.model <> '' THEN e.model ELSE {RATER} END"
_KIND: Final = "CASE WHEN e.model <> '' THEN 'model' WHEN e.rater <> '' THEN 'human' ELSE 'unknown' END"
_SCORE: Final = "coalesce(e.score, CASE WHEN e.outcome = 'success' THEN 1.0 ELSE 0.0 END)"
_LABEL: Final = (
    f"CASE WHEN e.outcome = 'failure' THEN 'rejected' WHEN {_SCORE} >= ? THEN 'gold'"
    f" WHEN {_SCORE} >= ? THEN 'silver' ELSE 'bronze' END"
)
_OF_ARM: Final = (
    " AND (e.arm_no = ? OR (e.arm_no = 0 AND e.run_no <> 0 AND EXISTS (SELECT 1 FROM credit c"
    " WHERE c.learner_id = ? AND c.evaluation_no = e.evaluation_no AND c.arm_no = ?)))"
)
_MOST_COUNTED: Final = 10
"""Codes for each row up to which counting them is quicker than sorting the rows."""
_NO_SCORE: Final = -1.0
"""None was given: numbers alone become an array twice as fast as numbers and None."""
_ROWS: Final = (
    f"SELECT e.evaluation_no, l.uid, x.uid, r.uid, r.run_no, a.key, {RATER}, e.model, e.rubric, e.blank, e.outcome,"
    " e.score, e.feedback, e.supersedes, e.counts, CASE WHEN e.standing = 0 THEN 1 ELSE e.undone END, e.actor,"
    f" e.at_ms, e.claimed_by, e.changed, {UNCONFIRMED} FROM evaluation e"
    " LEFT JOIN layer l ON l.learner_id = e.learner_id AND l.layer_no = e.layer_no AND e.layer_no > 0"
    " LEFT JOIN execution x ON x.learner_id = e.learner_id AND x.execution_no = e.execution_no"
    " LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no AND e.run_no > 0"
    " LEFT JOIN arm a ON a.learner_id = e.learner_id AND a.arm_no = e.arm_no AND e.arm_no > 0"
    f"{_ACTIVE_ROWS}"
)
_COLUMNS: Final = (
    f"SELECT e.layer_no, e.execution_no, e.run_no, e.arm_no, {RATER}, e.model, e.rubric,"
    f" CASE WHEN e.outcome = 'success' THEN 1 ELSE 0 END, coalesce(e.score, {_NO_SCORE}),"
    " CASE WHEN e.claimed_by <> '' THEN 1 ELSE 0 END"
    f" FROM evaluation e{_ACTIVE_ROWS}"
)

_BLOCKED: Final[dict[Blocker, str]] = {
    "missing_rubric_version": " AND trim(e.rubric, ?) = ''",
    "missing_evaluator_identity": " AND trim(e.rater, ?) = '' AND trim(e.model, ?) = ''",
    "outcome_not_success": " AND e.outcome <> 'success'",
    "score_below_sft_threshold": f" AND {_SCORE} < ?",
    "score_below_preference_threshold": f" AND {_SCORE} < ?",
}


def near_uids(facts: Facts, kind: Literal["layer", "execution"], uid: str) -> list[str]:
    """Uids that may have been meant, of the first 5,000 in their order."""
    known = facts.column(
        f"SELECT uid FROM {kind} WHERE learner_id = ? AND {ACTIVE} ORDER BY uid LIMIT {_SEARCHED}"
    )
    return get_close_matches(uid.lower(), known, n=3, cutoff=0.7)


def layer_number(facts: Facts, named: str) -> int | None:
    """Return the number of an active layer, by its uid or URI; None if unknown."""
    uid = named
    if named.strip().lower().startswith("kairos:"):
        try:
            uri = parse_uri(named)
        except InvalidEvaluation:
            return None
        uid = uri.key if isinstance(uri, LayerUri) else named
    return facts.scalar(
        int, f"SELECT layer_no FROM layer WHERE learner_id = ? AND uid = ? AND {ACTIVE}", [uid.lower()]
    )


def arms_of_runs(facts: Facts, run_nos: Collection[int], flags: int) -> dict[int, list[int]]:
    """Return, per run, the arms that have all of these flags."""
    arms: dict[int, list[int]] = {}
    for run_no, arm_no in facts.rows_in(
        f"SELECT run_no, arm_no FROM outcome WHERE learner_id = ? AND flags & {flags} = {flags} AND run_no IN ({{}})",
        sorted(run_nos),
    ):
        arms.setdefault(run_no, []).append(arm_no)
    return arms


def evaluation_page(
    facts: Facts,
    evaluation_filter: EvaluationFilter,
    *,
    before: int | None = None,
    limit: int,
    hidden: Collection[int] = (),
    after: Position | None = None,
) -> EvaluationPage:
    """Return the matching evaluations with a number below ``before``, the latest first, with their feedback.

    With ``after`` those that changed after a position, in the order of their changes, superseded and undone ones too.
    """
    if after is not None:
        evaluation_filter = msgspec.structs.replace(evaluation_filter, counting=False)
    condition = _conditions(facts, evaluation_filter)
    if condition is None:
        return EvaluationPage((), None)
    fits, values = condition
    below, cursor = ("", []) if before is None else (" AND e.evaluation_no < ?", [before])
    unless, left_out = leaving_out("e.evaluation_no", hidden)
    selected, order = _ROWS, "e.evaluation_no DESC"
    if after is not None:
        selected, order = _ROWS.removesuffix(f" AND e.{ACTIVE}"), "e.changed, e.evaluation_no"
        below, cursor = " AND (e.changed, e.evaluation_no) > (?, ?)", [*after]
    rows = facts.rows(
        f"{selected}{fits}{below}{unless} ORDER BY {order} LIMIT ?", [*values, *cursor, *left_out, limit + 1]
    )
    page = rows[:limit]
    n_arms: dict[int, int] = dict(
        facts.rows_in(
            f"SELECT evaluation_no, count(*) FROM observation {BY_RUN} WHERE learner_id = ? AND run_no <> 0"
            f" AND run_no IN ({{}}) AND evaluation_no <> 0 AND {ACTIVE} GROUP BY evaluation_no",
            sorted({row[4] for row in page if row[4] is not None}),
        )
    )
    return EvaluationPage(
        tuple(_evaluation(facts, row, n_arms.get(row[0], 0)) for row in page),
        page[-1][0] if len(rows) > limit else None,
    )


def evaluation_columns(
    facts: Facts,
    evaluation_filter: EvaluationFilter = EvaluationFilter(),  # noqa: B008 - frozen
    *,
    hidden: Collection[int] = (),
) -> EvaluationColumns:
    """Return all matching evaluations, the earliest first."""
    condition = _conditions(facts, evaluation_filter)
    values: list[list[Any]] = [[] for _ in range(10)]
    if condition is not None:
        fits, more = condition
        unless, left_out = leaving_out("e.evaluation_no", hidden)
        values = facts.connection.columns(
            f"{_COLUMNS}{fits}{unless} ORDER BY e.evaluation_no", [facts.learner_id, *more, *left_out]
        )
    return _columns(*values)


def evaluated_names(facts: Facts) -> tuple[tuple[Grader, ...], tuple[str, ...]]:
    """Return every grader and rubric version of active evaluations, in order."""
    rows = facts.rows(
        f"SELECT DISTINCT {RATER}, e.model, e.rubric FROM evaluation e WHERE e.learner_id = ? AND e.{ACTIVE}"
    )
    graders = {grader_of(rater, model) for rater, model, _ in rows}
    return tuple(sorted(graders)), tuple(sorted({rubric for _, _, rubric in rows}))


def grader_of(rater: str, model: str) -> Grader:
    """Return the grader of these stored names."""
    return Grader(grader_kind(rater, model), model or rater)


# Filters


def _conditions(facts: Facts, evaluation_filter: EvaluationFilter) -> Condition | None:
    """The filter as SQL and its values; None where it names what isn't there, so that nothing is."""
    conditions = list(_named(facts, evaluation_filter))
    if None in conditions:
        return None
    parts = [*[part for part in conditions if part is not None], *_verdicts(facts, evaluation_filter)]
    return "".join(sql for sql, _ in parts), [value for _, values in parts for value in values]


def _named(facts: Facts, evaluation_filter: EvaluationFilter) -> Iterator[Condition | None]:
    """Return its subject, by number."""
    if evaluation_filter.layer is not None:
        layer_no = layer_number(facts, evaluation_filter.layer)
        yield None if layer_no is None else (" AND e.layer_no = ?", [layer_no])
    if evaluation_filter.run is not None:
        run = find_run(facts, evaluation_filter.run)
        yield None if run is None else (" AND e.run_no = ? AND e.run_no <> 0", [run.run_no])
    if evaluation_filter.arm is not None:
        arm_no = arm_number(facts, evaluation_filter.arm)
        yield None if arm_no is None else (_OF_ARM, [arm_no, facts.learner_id, arm_no])


def _verdicts(facts: Facts, evaluation_filter: EvaluationFilter) -> Iterator[Condition]:
    """Return its author, verdict and time."""
    thresholds = facts.settings.thresholds
    if evaluation_filter.counting:
        yield " AND e.counts = 1", []
    for sql, value in (
        (f" AND {_GRADER} = ?", evaluation_filter.rater),
        (f" AND {_KIND} = ?", evaluation_filter.kind),
        (" AND e.rubric = ?", evaluation_filter.rubric),
        (" AND e.outcome = ?", evaluation_filter.outcome),
        (" AND e.at_ms >= ?", evaluation_filter.since_ms),
        (" AND e.at_ms < ?", evaluation_filter.until_ms),
    ):
        if value is not None:
            yield sql, [value]
    if evaluation_filter.label is not None:
        yield f" AND {_LABEL} = ?", [thresholds.gold, thresholds.sft, evaluation_filter.label]
    if evaluation_filter.blocker is not None:
        below = {
            "score_below_sft_threshold": thresholds.sft,
            "score_below_preference_threshold": thresholds.preference,
        }
        threshold = below.get(evaluation_filter.blocker)
        sql = _BLOCKED[evaluation_filter.blocker]
        yield sql, [WHITE_SPACE] * sql.count("?") if threshold is None else [threshold]


# Rows → records


def _evaluation(facts: Facts, row: Row, n_arms: int) -> Evaluation:
    number, layer, execution, run, run_no, arm, rater, model, rubric, blank, *rest = row
    outcome, score, feedback, supersedes, counts, undone, actor, at_ms, claimed_by, changed, browser = rest
    rated = grade(
        outcome, score, rater=rater, model=model, rubric=rubric, thresholds=facts.settings.thresholds
    )
    return Evaluation(
        id=f"evaluation-{number}",
        subject=Subject(layer=layer or "", execution=execution or "", run=run or "", arm=arm or ""),
        run_no=run_no,
        outcome=outcome,
        score=score,
        feedback=feedback,
        rater=rater if rater or blank & 1 else None,
        model=model if model or blank & 2 else None,
        rubric=rubric if rubric or blank & 4 else None,
        grader=grader_of(rater, model),
        signed_score=rated.signed_score,
        label=rated.label,
        sft_blockers=rated.sft_blockers,
        preference_blockers=rated.preference_blockers,
        supersedes=f"evaluation-{supersedes}" if supersedes else None,
        state=_state(counts=counts, undone=undone),
        arms=n_arms,
        actor=actor,
        at_ms=at_ms,
        claimed_by=claimed_by or None,
        browser=browser,
        revision=changed,
    )


def _state(*, counts: int, undone: int) -> EvaluationState:
    if undone:
        return "undone"
    return "counts" if counts else "superseded"


# Rows → columns


def _columns(  # noqa: PLR0917 - one for each column of the statement
    layer_no: list[int],
    execution_no: list[int],
    run_no: list[int],
    arm_no: list[int],
    rater: list[str],
    model: list[str],
    rubric: list[str],
    is_success: list[int],
    score: list[float],
    is_claimed: list[int],
) -> EvaluationColumns:
    named, who = _placed(zip(rater, model, rubric, strict=True), len(rater))
    graders, grader = _placed((grader_of(one, other) for one, other, _ in named), len(named))
    rubrics, version = _placed((of for _, _, of in named), len(named))
    is_identity = np.array([bool(trimmed(one) or trimmed(other)) for one, other, _ in named], dtype=np.bool_)
    is_version = np.array([bool(trimmed(of)) for of in rubrics], dtype=np.bool_)
    scores = np.fromiter(score, np.float64, len(score))
    scores[scores == _NO_SCORE] = np.nan
    return EvaluationColumns(
        item=_items(*map(ints, (layer_no, execution_no, run_no, arm_no))),
        grader=grader[who],
        rubric=version[who],
        is_success=ints(is_success).astype(np.bool_),
        score=scores,
        is_named=is_identity[who],
        has_rubric=is_version[version][who],
        is_claimed=ints(is_claimed).astype(np.bool_),
        graders=tuple(graders),
        rubrics=tuple(rubrics),
    )


def _placed(values: Iterable[Any], n: int) -> tuple[list[Any], Ints]:
    """Different values of ``n`` in the order in which they come, and the place of each among them."""
    places: defaultdict[Any, int] = defaultdict(count().__next__)
    index = np.fromiter(map(places.__getitem__, values), np.int64, n)
    return list(places), index


def _items(layer_no: Ints, execution_no: Ints, run_no: Ints, arm_no: Ints) -> Ints:
    """Return the judged subjects, numbered from 0; -1 for a layer as such."""
    code = np.zeros(len(layer_no), dtype=np.int64)
    for part in (layer_no, execution_no, run_no, arm_no):
        room = int(part.max(initial=0)) + 1
        if int(code.max(initial=0)) >= 2**62 // room:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
        code = code * room + part
    is_one = (execution_no != 0) | (run_no != 0)
    item = np.full(len(code), -1, dtype=np.int64)
    item[is_one] = _ranks(code[is_one])
    return item


def _ranks(code: Ints) -> Ints:
    """The place of each code among those that occur, ascending."""
    if int(code.max(initial=0)) > _MOST_COUNTED * len(code):
        return np.unique(code, return_inverse=True)[1].astype(np.int64)
    return np.asarray((np.cumsum(np.bincount(code) > 0) - 1)[code])


def judged_layers(facts: Facts, *, limit: int) -> tuple[JudgedLayer, ...]:
    """Return active layers that have quality, the best first."""
    rows = facts.rows(
        "SELECT l.layer_no, l.uid, a.uri, a.name, l.layer_index, l.label, l.bare, q.retrievals, q.successes,"
        " q.failures, q.bonus, q.last_no FROM layer_quality q"
        " JOIN layer l ON l.learner_id = q.learner_id AND l.layer_no = q.layer_no"
        " LEFT JOIN adapter a ON a.learner_id = l.learner_id AND a.adapter_no = l.adapter_no"
        f" WHERE q.learner_id = ? AND l.{ACTIVE} ORDER BY q.bonus DESC, l.uid LIMIT ?",
        [limit],
    )
    heads = heads_of(facts, [number for number, *_ in rows])
    uids = _uids(facts, sorted(set(heads.values())))
    latest = facts.rows_in(
        f"SELECT e.evaluation_no, e.at_ms, CASE WHEN e.model <> '' THEN e.model ELSE {RATER} END FROM evaluation e"
        " WHERE e.learner_id = ? AND e.evaluation_no IN ({})",
        sorted({row[11] for row in rows}),
    )
    rated = {number: (at_ms, name) for number, at_ms, name in latest}
    return tuple(_layer(row, uids.get(heads.get(row[0], 0)), rated.get(row[11])) for row in rows)


def n_judged_layers(facts: Facts) -> int:
    """Return the number of active layers that have quality."""
    return facts.count_of(
        "SELECT count(*) FROM layer_quality q JOIN layer l ON l.learner_id = q.learner_id"
        f" AND l.layer_no = q.layer_no WHERE q.learner_id = ? AND l.{ACTIVE}"
    )


def bare_layers(facts: Facts, *, limit: int) -> tuple[BareLayer, ...]:
    """Return active layers of which only the name is known, those judged most often first."""
    rows = facts.rows(
        "SELECT l.uid, coalesce(q.retrievals, 0) AS judged FROM layer l LEFT JOIN layer_quality q"
        " ON q.learner_id = l.learner_id AND q.layer_no = l.layer_no"
        f" WHERE l.learner_id = ? AND l.{ACTIVE} AND l.bare = 1 ORDER BY judged DESC, l.uid LIMIT ?",
        [limit],
    )
    return tuple(BareLayer(uid=uid, n_judged=judged) for uid, judged in rows)


def n_bare_layers(facts: Facts) -> int:
    """Return the number of bare layers."""
    return facts.count_of(f"SELECT count(*) FROM layer WHERE learner_id = ? AND {ACTIVE} AND bare = 1")


def _uids(facts: Facts, layer_nos: Sequence[int]) -> dict[int, str]:
    rows = facts.rows_in(
        "SELECT layer_no, uid FROM layer WHERE learner_id = ? AND layer_no IN ({})", layer_nos
    )
    return dict(rows)


def _layer(row: Row, head: str | None, rated: tuple[int, str] | None) -> JudgedLayer:
    _, uid, adapter, adapter_name, index, label, bare, n_judged, successes, failures, bonus, _ = row
    return JudgedLayer(
        uid=uid,
        adapter=adapter,
        adapter_name=adapter_name,
        index=index,
        label=label,
        bare=bool(bare),
        head=head,
        n_judged=n_judged,
        successes=successes,
        failures=failures,
        quality=bonus,
        rated_ms=None if rated is None else rated[0],
        rater=None if rated is None else rated[1] or None,
    )
