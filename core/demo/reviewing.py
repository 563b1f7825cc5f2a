"""Reviewing: raters of the workflow's answers, their rubrics and times; two people read them, one doesn't.

A program grades first. The people need two versions of the rubric: by the first a reply is right or wrong, the second
adds a reply that could be sent and should be better. Arms are judged after the last run, so no selection depends on
it: with or without evaluations the thirty days are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, Literal

import msgspec
import numpy as np

from core.demo.answers import DRAFT, HEAD, LAYERS, N_ANSWERS, SORT, UNKNOWN_LAYER, Answer, answers
from core.demo.people import (
    AGENT,
    JON,
    MARA,
    PRIYA,
    Act,
    Evaluate,
    InRun,
    brought,
)
from core.demo.world import at
from core.flows.choose import choose
from core.flows.context import Context
from core.flows.queues import add_queue, add_rubric
from core.flows.settings import change
from core.records.actor import Actor
from core.records.evaluation import EvaluationOrder
from core.records.evaluation_lines import LayerLine
from core.records.review import LEVELS, Criterion, Level, QueueAsks, Rubric
from core.records.times import MINUTE_MS

GRADER: Final = Actor(name="grader", role="reviewer")
MODEL: Final = "judge-2026-08"
FIRST_RUBRIC: Final = Rubric(
    version="support-1",
    title="Can this reply be sent?",
    criteria=(
        Criterion(
            name="True",
            words="What it says of order, invoice or contract is so.",
            example="It names the amount that the order says.",
        ),
        Criterion(name="Helps", words="The customer need not ask again."),
    ),
)
SECOND_RUBRIC: Final = Rubric(
    version="support-2",
    title="Can this reply be sent, and would you?",
    criteria=(
        *FIRST_RUBRIC.criteria,
        Criterion(
            name="Harmless",
            words="It does nothing that can't be taken back.",
            example="Deleting a customer's data at once does.",
        ),
    ),
    levels=(
        Level(words="Does harm", outcome="failure", score=1.0, example="A second factor is switched off."),
        Level(words="Wrong", outcome="failure", score=0.75),
        Level(words="Could be sent, should be better", outcome="success", score=0.6),
        Level(words="Right", outcome="success", score=0.8),
        Level(words="Right, and well said", outcome="success", score=1.0),
    ),
)
N_OPEN: Final = 30
OPEN: Final = partial(
    add_queue,
    name="Replies nobody has read yet",
    asks=QueueAsks(source="unjudged", about="layer", order="oldest", limit=N_OPEN),
    n_reviewers=2,
    rubric=SECOND_RUBRIC.version,
    due_days=None,  # whenever the demo is looked at, it would be overdue
)
"""Queue that is left for visitors of the demo."""

_DOUBTED: Final = "looked again, too late in the evening"
_CARELESS: Final = JON
_PROB_ERROR: Final = {MARA.name: 0.03, PRIYA.name: 0.04, GRADER.name: 0.05}
_SUCCESS_SCORES: Final = (0.58, 0.99)
_FAILURE_SCORES: Final = (0.62, 0.99)
_A_SITTING: Final = 10
_N_REVISED: Final = 4
_N_COMPARED: Final = 8
_PROB_REMARK: Final = 0.35
_GOOD: Final = ("Clear and complete.", "I would send it as it is.", "Says what happens next, and when.")
_BAD: Final = (
    "Not what was asked.",
    "This is not so, see the order.",
    "The customer will have to write again.",
)
_OFFHAND: Final = ("ok", "no", "meh")

_LAST_MINUTE: Final = at(20, 9, 39)
_IN_RUNS: Final = (
    Act(at_ms=_LAST_MINUTE, actor=JON, does=partial(change, name="evaluation_credit", value="referenced")),
    Act(
        at_ms=_LAST_MINUTE + 10_000,
        actor=PRIYA,
        does=Evaluate(
            rubric=SECOND_RUBRIC.version,
            in_runs=(
                InRun(arm="tool:fs:Read", outcome="success", score=1.0, feedback="Read before it wrote."),
                InRun(arm="tool:exec:Bash", outcome="success", score=0.8),
                InRun(arm="tool:fs:Grep", outcome="success", score=1.0),
                InRun(arm="skill:code-review:main", outcome="success", score=0.8),
                InRun(arm="memory:fact:prod-db-is-read-only", outcome="success", score=1.0),
            ),
        ),
    ),
    Act(
        at_ms=_LAST_MINUTE + 25_000,
        actor=MARA,
        does=Evaluate(
            rubric=SECOND_RUBRIC.version,
            in_runs=(
                InRun(arm="tool:fs:Read", outcome="success", score=0.8),
                InRun(arm="tool:exec:Bash", outcome="success", score=1.0),
                InRun(
                    arm="tool:other:screenshot_page",
                    was_used=False,
                    outcome="failure",
                    score=0.75,
                    feedback="Offered, and nobody needed it.",
                ),
                InRun(arm="tool:fs:Edit", is_whole=True, outcome="success", score=0.8),
            ),
        ),
    ),
)


def review(seed: int) -> list[Act]:
    """All that is done about the workflow's answers, drawn on dice of its own."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    replies = answers(seed, rng)
    third = len(replies) // 3
    first, second, still_open = replies[:third], replies[third : 2 * third], replies[2 * third :]
    return [
        Act(at_ms=at(10, 10), actor=JON, does=partial(change, name="keep_texts", value=True)),
        Act(at_ms=at(10, 10, 5), actor=AGENT, does=_file(replies)),
        *_judged(first, HEAD, MARA, at(10, 14, 20), None, rng),
        Act(at_ms=at(11, 9, 30), actor=MARA, does=partial(add_rubric, rubric=FIRST_RUBRIC)),
        Act(at_ms=at(11, 10), actor=GRADER, does=_graded(first, FIRST_RUBRIC, rng)),
        *_judged(first, SORT, PRIYA, at(11, 13, 5), FIRST_RUBRIC, rng),
        *_judged(first, DRAFT, MARA, at(11, 14, 10), FIRST_RUBRIC, rng),
        *_judged(first, DRAFT, PRIYA, at(12, 9, 15), FIRST_RUBRIC, rng),
        *_judged(first, DRAFT, JON, at(12, 11, 58), FIRST_RUBRIC, rng),
        *_looked_again(first, rng),
        Act(at_ms=at(16, 9, 10), actor=MARA, does=partial(add_rubric, rubric=SECOND_RUBRIC)),
        Act(at_ms=at(16, 10), actor=GRADER, does=_graded((*second, *still_open[::3]), SECOND_RUBRIC, rng)),
        *_judged(second, DRAFT, PRIYA, at(16, 13, 30), SECOND_RUBRIC, rng),
        *_judged(second, DRAFT, MARA, at(17, 9, 5), SECOND_RUBRIC, rng),
        *_judged(second, DRAFT, JON, at(17, 16, 50), SECOND_RUBRIC, rng),
        *_compared(second),
        Act(at_ms=at(19, 16, 15), actor=MARA, does=OPEN),
        *_IN_RUNS,
    ]


def _file(replies: Sequence[Answer]) -> Callable[[Context], object]:
    lines = (*LAYERS, *(one.line for one in replies))
    content = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    return brought("support-answers.jsonl", content)


def _graded(replies: Sequence[Answer], rubric: Rubric, rng: np.random.Generator) -> Evaluate:
    """Grade drafts by a program, some before it names itself, and a layer without a description."""
    orders = [_grade(one, rubric, rng) for one in replies]
    orders += [
        EvaluationOrder(layer=HEAD.uid, outcome="success", score=0.75),
        EvaluationOrder(layer=UNKNOWN_LAYER, outcome="success", model=MODEL, create=True),
    ]
    return Evaluate(orders=tuple(orders))


def _grade(one: Answer, rubric: Rubric, rng: np.random.Generator) -> EvaluationOrder:
    is_success = one.is_right != bool(rng.random() < _PROB_ERROR[GRADER.name])
    return EvaluationOrder(
        layer=DRAFT.uid,
        execution=one.uid,
        outcome="success" if is_success else "failure",
        score=round(float(rng.uniform(*(_SUCCESS_SCORES if is_success else _FAILURE_SCORES))), 2),
        model=MODEL,
        rubric=rubric.version,
    )


def _judged(  # noqa: PLR0917 - one line per argument of `review`
    replies: Sequence[Answer],
    layer: LayerLine,
    rater: Actor,
    begun_ms: int,
    rubric: Rubric | None,
    rng: np.random.Generator,
) -> list[Act]:
    """A rater judges what a layer answered, ten at a sitting; the careless one takes a minute for them."""
    acts = []
    for sitting, index in enumerate(range(0, len(replies), _A_SITTING)):
        orders = [_judgement(one, layer, rater, rubric, rng) for one in replies[index : index + _A_SITTING]]
        lag_ms = sitting * (1 if rater is _CARELESS else 22) * MINUTE_MS
        acts.append(Act(at_ms=begun_ms + lag_ms, actor=rater, does=Evaluate(orders=tuple(orders))))
    return acts


def _judgement(
    one: Answer, layer: LayerLine, rater: Actor, rubric: Rubric | None, rng: np.random.Generator
) -> EvaluationOrder:
    """By a level of the rubric, or (no rubric) of the usual ones."""
    levels = LEVELS if rubric is None else rubric.levels
    remarks = _OFFHAND
    if rater is not _CARELESS:
        is_success = (one.is_right or layer is SORT) != bool(rng.random() < _PROB_ERROR[rater.name])
        levels = tuple(level for level in levels if (level.outcome == "success") == is_success)
        remarks = _GOOD if is_success else _BAD
    level = levels[int(rng.integers(len(levels)))]
    return EvaluationOrder(
        layer=layer.uid,
        execution=one.uid,
        outcome=level.outcome,
        score=level.score,
        feedback=remarks[int(rng.integers(len(remarks)))] if rng.random() < _PROB_REMARK else None,
        rater=rater.name,
        rubric=None if rubric is None else rubric.version,
    )


def _looked_again(replies: Sequence[Answer], rng: np.random.Generator) -> list[Act]:
    """A rater revises some, and late in the evening one more, which is taken back in the morning."""
    again = [
        msgspec.structs.replace(
            _judgement(one, DRAFT, PRIYA, FIRST_RUBRIC, rng), feedback="On second thoughts."
        )
        for one in replies[: _N_REVISED + 1]
    ]
    doubted = msgspec.structs.replace(again.pop(), outcome="failure", score=1.0, feedback="No.")
    return [
        Act(at_ms=at(12, 17, 5), actor=PRIYA, does=Evaluate(orders=tuple(again))),
        Act(at_ms=at(12, 22, 48), actor=PRIYA, does=Evaluate(orders=(doubted,), name=_DOUBTED)),
        Act(at_ms=at(13, 8, 31), actor=PRIYA, does=_DOUBTED),
    ]


def _compared(replies: Sequence[Answer]) -> list[Act]:
    """The two answers to some tickets side by side, by two people in turn."""
    pairs = zip(replies[::N_ANSWERS], replies[1::N_ANSWERS], strict=True)
    return [
        Act(
            at_ms=at(18, 10, 5 + 2 * index),
            actor=PRIYA if index % 2 else MARA,
            does=partial(
                choose,
                layer=DRAFT.uid,
                first=one.uid,
                second=other.uid,
                chosen=_better(one, other),
                rubric=SECOND_RUBRIC.version,
            ),
        )
        for index, (one, other) in enumerate(islice(pairs, _N_COMPARED))
    ]


def _better(one: Answer, other: Answer) -> Literal["first", "second", "equal"]:
    """The right one; two of a kind are equal."""
    if one.is_right == other.is_right:
        return "equal"
    return "first" if one.is_right else "second"
