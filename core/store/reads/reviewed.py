"""Reviewed: a person's latest judgements, and a model grader's of the same subject."""

from __future__ import annotations

from core.records.judging import Subject
from core.records.review import MyJudgement, Suggestion
from core.store.browsers import RATER
from core.store.engine.words import ACTIVE, EVALUATIONS_BY_KEY
from core.store.queues import Placed
from core.store.transaction import Facts


def judged_last(facts: Facts, rater: str, *, limit: int) -> tuple[MyJudgement, ...]:
    """The latest evaluations of one person, newest first, those that are undone too."""
    rows = facts.connection.rows(
        "SELECT e.evaluation_no, e.layer_no, e.execution_no, e.run_no, e.arm_no, l.uid, x.uid, r.uid, a.key,"
        " e.outcome, e.score, e.rubric, e.at_ms, e.undone FROM evaluation e"
        " LEFT JOIN layer l ON l.learner_id = e.learner_id AND l.layer_no = e.layer_no"
        " LEFT JOIN execution x ON x.learner_id = e.learner_id AND x.execution_no = e.execution_no"
        " LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no"
        " LEFT JOIN arm a ON a.learner_id = e.learner_id AND a.arm_no = e.arm_no"
        f" WHERE e.learner_id = ? AND {RATER} = ? AND e.model = '' AND e.{ACTIVE}"
        " ORDER BY e.evaluation_no DESC LIMIT ?",
        [facts.learner_id, rater, limit],
    )
    judgements = []
    for number, *rest in rows:
        about, (layer, execution, run, arm), (outcome, score, rubric, at_ms, undone) = (
            Placed(*rest[:4]),
            rest[4:8],
            rest[8:],
        )
        queue_no, item_no = _item_of(facts, about, rubric)
        subject = Subject(layer=layer or "", execution=execution or "", run=run or "", arm=arm or "")
        judgements.append(
            MyJudgement(
                id=f"evaluation-{number}",
                queue=f"queue-{queue_no}" if queue_no else None,
                item=item_no or None,
                uri=subject.uri,
                outcome=outcome,
                score=score,
                rubric=rubric or None,
                at_ms=at_ms,
                undone=bool(undone),
            )
        )
    return tuple(judgements)


def _item_of(facts: Facts, about: Placed, rubric: str) -> tuple[int, int]:
    """Return the newest active queue of this rubric with the subject as an item, and its number there; 0 = none."""
    row = facts.connection.row(
        "SELECT i.review_queue_no, i.item_no FROM review_item i JOIN review_queue q"
        " ON q.learner_id = i.learner_id AND q.review_queue_no = i.review_queue_no"
        " WHERE i.learner_id = ? AND i.execution_no = ? AND i.run_no = ? AND i.arm_no = ? AND i.layer_no = ?"
        f" AND q.{ACTIVE} AND q.undone = 0 AND q.rubric = ? ORDER BY i.review_queue_no DESC, i.item_no LIMIT 1",
        [facts.learner_id, about.execution_no, about.run_no, about.arm_no, about.layer_no, rubric],
    )
    return (0, 0) if row is None else (row[0], row[1])


def suggestion_of(facts: Facts, about: Placed, outcome: str, score: float | None) -> Suggestion | None:
    """The latest judgement of a model grader that counts, beside one's own of the same subject."""
    whose, number = ("execution_no", about.execution_no) if about.execution_no else ("run_no", about.run_no)
    row = facts.connection.row(
        f"SELECT model, outcome, score FROM evaluation {EVALUATIONS_BY_KEY} WHERE learner_id = ? AND layer_no = ?"
        f" AND execution_no = ? AND arm_no = ? AND {whose} = ? AND counts = 1"
        " AND (execution_no <> 0 OR run_no <> 0) AND model <> '' ORDER BY evaluation_no DESC LIMIT 1",
        [facts.learner_id, about.layer_no, about.execution_no, about.arm_no, number],
    )
    if row is None:
        return None
    model, its_outcome, its_score = row
    theirs, own = _signed(its_outcome, its_score), _signed(outcome, score)
    return Suggestion(
        model=model,
        outcome=its_outcome,
        score=its_score,
        agrees=its_outcome == outcome,
        difference=None if theirs is None or own is None else theirs - own,
    )


def _signed(outcome: str, score: float | None) -> float | None:
    """A score as that of an outcome: below 0 for a failure, whose score says how sure the grader is.

    >>> _signed("failure", 0.7), _signed("success", None)
    (-0.7, None)
    """
    if score is None:
        return None
    return score if outcome == "success" else -score
