"""Evaluations: what is judged, what supersedes what, what moves with it, and that it can all be taken back."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    Conflict,
    InvalidEvaluation,
    InvalidSetting,
    NotApplicable,
    UnknownArm,
    UnknownExecution,
    UnknownLayer,
    UnknownRun,
)
from core.flows import queries
from core.flows.context import Context
from core.flows.evaluate import evaluate, evaluate_all
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.reset import reset
from core.flows.settings import change
from core.flows.undo import redo, undo
from core.records.evaluation import EvaluationOrder
from core.store.quality import stored_quality
from core.store.subjects import subject_no
from tests.worlds import a_run, beliefs, context_at, is_clean, lines_file

A, B, C = (f"tool:other:{name}" for name in "abc")
LAYER_UID = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
LAYER = f"kairos://layer/{LAYER_UID}"
EXECUTED = f"{LAYER}?execution_id=11111111-2222-4333-8444-555555555555"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    made = context_at(tmp_path / "a.db")
    record(made, a_run("r1"))
    record(made, a_run("r2", calls=("a", "b")))
    return made


def moved(
    before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """What each arm gained in success and failure, to the millionth."""
    return {
        arm: (round(after[arm][0] - before[arm][0], 6), round(after[arm][1] - before[arm][1], 6))
        for arm in after
        if after[arm] != before[arm]
    }


def test_a_success_is_worth_its_score_and_a_failure_nothing_however_sure(context: Context) -> None:
    before = beliefs(context)
    given = evaluate(context, "r1", "success", arm=A, score=0.7, rater="mara", rubric="v1")
    assert moved(before, beliefs(context)) == {A: (0.7, 0.3)}
    undo(context, given.id)
    assert beliefs(context) == before
    evaluate(context, "r1", "failure", arm=A, score=0.9, rater="mara")
    assert moved(before, beliefs(context)) == {A: (0.0, 1.0)}
    undo(context, "evaluation-2")
    evaluate(
        context, "r1", "success", arm=B, score=0, rater="mara"
    )  # 0 is a score, and none is another thing
    assert moved(before, beliefs(context)) == {B: (0.0, 1.0)}
    assert is_clean(context)


def test_the_same_key_is_a_revision_and_undoing_it_lets_the_earlier_one_stand(context: Context) -> None:
    before = beliefs(context)
    first = evaluate(context, "r1", "success", arm=A, score=0.5, rater="mara")
    second = evaluate(context, "r1", "failure", arm=A, rater="mara")
    assert (first.supersedes, second.supersedes) == (None, first.id)
    assert moved(before, beliefs(context)) == {A: (0.0, 1.0)}
    undo(context, second.id)
    assert moved(before, beliefs(context)) == {A: (0.5, 0.5)}
    undo(context, first.id)
    assert beliefs(context) == before
    redo(context, second.id)
    assert moved(before, beliefs(context)) == {A: (0.0, 1.0)}
    redo(context, first.id)  # the later one still stands in its place
    assert moved(before, beliefs(context)) == {A: (0.0, 1.0)}
    assert is_clean(context)


def test_raters_of_one_arm_in_one_run_share_one_observation(context: Context) -> None:
    before = beliefs(context)
    for rater in ("mara", "bob", "kim"):
        evaluate(context, "r1", "success", arm=A, rater=rater)
    assert moved(before, beliefs(context)) == {A: (1.0, 0.0)}
    evaluate(context, "r1", "failure", arm=A, rater="lee")
    assert moved(before, beliefs(context)) == {A: (0.75, 0.25)}
    undo(context, "evaluation-1")
    success, failure = moved(before, beliefs(context))[A]
    assert round(success + failure, 6) == 1
    assert failure == pytest.approx(1 / 3, abs=1e-6)
    assert is_clean(context)


@pytest.mark.parametrize(
    ("graders", "expected"), [("all", (0.5, 0.5)), ("human", (0.0, 1.0)), ("model", (1.0, 0.0))]
)
def test_which_graders_move_an_arm_is_a_setting(
    context: Context, graders: str, expected: tuple[float, float]
) -> None:
    change(context, "graders", graders)
    before = beliefs(context)
    evaluate(context, "r1", "success", arm=A, model="judge-1")
    evaluate(context, "r1", "failure", arm=A, rater="mara")
    assert moved(before, beliefs(context)) == {A: expected}
    change(context, "graders", "all")  # holds from then on
    assert moved(before, beliefs(context)) == {A: expected}
    assert is_clean(context)


@pytest.mark.parametrize(
    ("credit", "expected"),
    [
        ("none", {}),
        ("equal", {A: (0.333334, 0.0), B: (0.333333, 0.0), C: (0.333333, 0.0)}),
        ("referenced", {A: (0.5, 0.0), B: (0.5, 0.0)}),
    ],
)
def test_a_run_judged_as_a_whole_moves_the_arms_that_the_setting_names(
    context: Context, credit: str, expected: dict[str, tuple[float, float]]
) -> None:
    change(context, "evaluation_credit", credit)
    before = beliefs(context)
    given = evaluate(context, "r2", "success", rater="mara")
    assert moved(before, beliefs(context)) == expected
    assert given.arms == len(expected)
    reset(context, arms=[A])
    undo(context, given.id)
    redo(context, given.id)
    assert is_clean(context)


def test_a_rater_may_weigh_less_from_then_on(context: Context) -> None:
    before = beliefs(context)
    evaluate(context, "r1", "success", arm=A, rater="bob")
    change(context, "weight_by_agreement", {"bob": 0, "judge-1": 0.5})
    assert moved(before, beliefs(context)) == {A: (1.0, 0.0)}  # what came before keeps its weight
    assert evaluate(context, "r1", "failure", arm=B, rater="bob").arms == 0
    evaluate(context, "r1", "failure", arm=C, rater="bob", model="judge-1")
    assert moved(before, beliefs(context)) == {A: (1.0, 0.0), C: (0.0, 0.5)}
    evaluate(context, "r1", "success", arm=C, rater="mara")
    assert moved(before, beliefs(context))[C] == (0.5, 0.25)
    for wrong in ({"bob": 1.5}, {"": 0.5}, {"bob": float("nan")}):
        with pytest.raises(InvalidSetting):
            change(context, "weight_by_agreement", wrong)
    assert is_clean(context)


def test_an_evaluation_without_execution_or_run_counts_each_time_unless_it_has_a_key(
    context: Context,
) -> None:
    for _ in range(2):
        evaluate(context, LAYER, "success", create=True, key="once")
        evaluate(context, LAYER, "success", create=True)
    with context.reading() as snapshot:
        (quality,) = stored_quality(snapshot).values()
    assert quality.retrievals == 3
    with pytest.raises(Conflict, match="once"):
        evaluate(context, LAYER, "failure", key="once")
    evaluate(context, EXECUTED, "success", create=True)
    assert evaluate(context, EXECUTED, "failure").supersedes == "evaluation-4"
    with context.reading() as snapshot:
        (quality,) = stored_quality(snapshot).values()
    assert (quality.retrievals, quality.failures) == (4, 1)
    assert is_clean(context)


def test_what_nobody_knows_is_refused_with_what_may_have_been_meant(context: Context) -> None:
    with pytest.raises(UnknownLayer, match="--create"):
        evaluate(context, LAYER, "success")
    evaluate(context, LAYER, "success", create=True)
    with pytest.raises(UnknownLayer, match="Did you mean aaaaaaaa"):
        evaluate(context, LAYER.replace("eeee", "eeef"), "success")
    with pytest.raises(UnknownExecution):
        evaluate(context, EXECUTED, "success")
    with pytest.raises(UnknownRun):
        evaluate(context, "r9", "success")
    with pytest.raises(UnknownArm, match="tool:other:a"):
        evaluate(context, "r1", "success", arm="tool:other:A")
    record(context, a_run("r3", arms=("a",)))
    with pytest.raises(NotApplicable):
        evaluate(context, "r3", "success", arm=B)
    with pytest.raises(InvalidEvaluation, match="requires a layer URI"):
        evaluate(context, "kairos://adapter/review", "success")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"score": 1.2}, "score must be a number from 0 to 1, got 1.2"),
        ({"score": -0.1}, "got -0.1"),
        ({"score": float("nan")}, "got nan"),
        ({"score": True}, "got True"),
        ({"score": "0.9"}, "got '0.9'"),
        ({"outcome": "Success"}, "outcome must be success or failure, got 'Success'"),
        ({"feedback": ""}, "feedback must have 1 to"),
        ({"feedback": "x" * 10_000}, "got 10,000"),
    ],
)
def test_bad_input_is_said_and_nothing_is_stored(
    context: Context, asked: dict[str, object], said: str
) -> None:
    before = queries.revision(context)
    order: dict[str, Any] = {"outcome": "success", "run": "r1"} | asked
    with pytest.raises(InvalidEvaluation, match=said):
        evaluate_all(context, [EvaluationOrder(**order)])
    assert queries.revision(context) == before


def test_a_blank_rater_is_no_identity_and_no_error(context: Context) -> None:
    given = evaluate(context, "r1", "success", rater=" ", rubric="v1")
    assert given.sft_blockers == ("missing_evaluator_identity",)
    assert given.warnings == ("There is no rubric 'v1': it is kept as it was given.",)


def test_what_follows_from_an_evaluation_is_taken_back_with_it_only(context: Context) -> None:
    given = evaluate(context, "r1", "success", arm=A)
    assert given.observation == "reward-1"
    with pytest.raises(NotApplicable, match="Undo evaluation-1"):
        undo(context, "reward-1")


def test_a_batch_is_all_or_nothing(context: Context) -> None:
    good = EvaluationOrder(run="r1", outcome="success", key="k")
    before = queries.revision(context)
    with pytest.raises(UnknownRun):
        evaluate_all(context, [good, EvaluationOrder(run="r9", outcome="success")])
    assert queries.revision(context) == before
    answers = evaluate_all(context, [good, good, EvaluationOrder(run="r1", outcome="failure")])
    assert [one.id for one in answers] == ["evaluation-1", "evaluation-1", "evaluation-2"]
    assert answers[2].supersedes == "evaluation-1"
    assert is_clean(context)


def test_an_export_brings_all_of_it_and_undoing_the_import_none(context: Context, tmp_path: Path) -> None:
    change(context, "evaluation_credit", "equal")
    evaluate(context, "r1", "success", arm=A, rater="mara", key="first", feedback="well done")
    evaluate(context, "r1", "failure", arm=A, rater="bob")
    evaluate(context, "r2", "success", score=0.25)
    for outcome in ("success", "failure"):
        evaluate(context, EXECUTED, outcome, rater="", model="judge-1", create=True)
    undo(context, "evaluation-2")
    export_file(context, tmp_path / "one.jsonl")
    other = context_at(tmp_path / "b.db")
    record(other, a_run("own"))
    before = beliefs(other)
    told = import_files(other, [tmp_path / "one.jsonl"])
    assert not told.rejected
    assert {arm: beliefs(other)[arm] for arm in (B, C)} != {arm: before[arm] for arm in (B, C)}
    assert import_files(other, [tmp_path / "one.jsonl"]).id is None
    again = evaluate(other, "r1", "success", arm=A, rater="mara", key="first", feedback="well done")
    assert again.id == "evaluation-1"
    undo(other, told.id)
    assert beliefs(other) == before
    assert is_clean(other)
    redo(other, told.id)
    assert is_clean(other)
    empty = context_at(tmp_path / "c.db")
    import_files(empty, [tmp_path / "one.jsonl"])
    assert beliefs(empty) == beliefs(context)
    with context.reading() as mine, empty.reading() as theirs:
        assert stored_quality(mine) == stored_quality(theirs)


def test_what_is_judged_here_outlives_the_import_that_brought_it(context: Context, tmp_path: Path) -> None:
    """The layer stands while someone names it: it goes back to being bare, and keeps its quality."""
    brought = import_files(
        context,
        [lines_file(tmp_path / "layers.jsonl", {"kind": "layer", "uid": LAYER_UID, "label": "Draft"})],
    )
    evaluate(context, LAYER, "success")
    undo(context, brought.id)
    with context.reading() as snapshot:
        number = subject_no(snapshot, "layer", LAYER_UID)
        assert number is not None
        assert stored_quality(snapshot)[number].retrievals == 1
    assert queries.verify(context).clean


def test_what_two_files_tell_stands_with_its_layer_while_one_of_them_does(
    context: Context, tmp_path: Path
) -> None:
    said: dict[str, object] = {
        "kind": "evaluation",
        "id": "elsewhere/1",
        "layer": LAYER_UID,
        "outcome": "success",
    }
    files = [
        lines_file(tmp_path / f"{name}.jsonl", {"kind": "arm", "key": f"tool:other:new-{name}"}, said)
        for name in "ab"
    ]
    first, second = (import_files(context, [file]).id for file in files)
    for gone, back in ((first, second), (second, first)):
        undo(context, gone)
        with context.reading() as snapshot:
            assert subject_no(snapshot, "layer", LAYER_UID) is not None
        assert queries.verify(context).clean
        undo(context, back)
        with context.reading() as snapshot:
            assert subject_no(snapshot, "layer", LAYER_UID) is None
        redo(context, gone)
        redo(context, back)


def test_what_is_told_anew_shares_a_weight_as_its_export_tells(context: Context, tmp_path: Path) -> None:
    """Of three raters of one arm the first has the millionth that is over; one told again comes after the others."""

    def told(name: str, outcome: str) -> str | None:
        arm = "tool:other:a"
        said: dict[str, object] = {"kind": "evaluation", "id": f"elsewhere/{name}", "run": "r1", "arm": arm}
        more = {"outcome": outcome, "rater": name, "credit": [{"arm": arm}]}
        beside: dict[str, object] = {"kind": "arm", "key": f"tool:other:beside{next(numbers)}"}
        return import_files(context, [lines_file(tmp_path / "told.jsonl", beside, {**said, **more})]).id

    numbers = count()
    first = told("mara", "success")
    told("jon", "failure")
    told("priya", "failure")
    undo(context, first)
    told("mara", "success")
    export_file(context, tmp_path / "all.jsonl")
    other = context_at(tmp_path / "other.db")
    import_files(other, [tmp_path / "all.jsonl"])
    here, there = (
        next((one.alpha, one.beta) for one in queries.posteriors(each) if one.arm == "tool:other:a")
        for each in (context, other)
    )
    assert here == there


def test_a_batch_in_which_one_layer_is_revised_adds_up_for_the_head_of_others(
    context: Context, tmp_path: Path
) -> None:
    uids = [f"00000000-0000-4000-8000-00000000000{index}" for index in (1, 2, 3)]
    told = [
        {"kind": "layer", "uid": uid, "adapter": "kairos://adapter/review", "index": index}
        for index, uid in enumerate(uids, start=1)
    ]
    import_files(context, [lines_file(tmp_path / "layers.jsonl", *told)])
    orders = [
        EvaluationOrder(layer=uid, execution="e1", outcome="success", rater="mara", create=True)
        for uid in uids
    ]
    orders.append(EvaluationOrder(layer=uids[1], execution="e1", outcome="failure", rater="mara"))
    evaluate_all(context, orders)
    with context.reading() as snapshot:
        head = stored_quality(snapshot)[1]
    assert (head.retrievals, head.successes, head.failures) == (3, 2, 1)
    assert is_clean(context)
