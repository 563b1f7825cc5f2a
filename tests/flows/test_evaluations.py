"""Evaluations: what is judged, what supersedes what, what moves with it, and that it can all be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import (
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
from core.flows.corrections import redo, undo
from core.flows.evaluate import evaluate, evaluate_all
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.settings import change
from core.records.evaluation import EvaluationOrder
from core.store.quality import stored_quality
from core.store.subjects import subject_no
from tests.worlds import a_run, beliefs, context_at, is_clean, lines_file

A, B, C = (f"tool:other:{name}" for name in "abc")
LAYER_UID = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
LAYER = f"kairos://layer/{LAYER_UID}"
EXECUTED = f"{LAYER}?execution_id=11111111-2222-4333-8444-555555555555"


@pytest.fixture
def context(context: Context) -> Context:
    record(context, a_run("r1"))
    record(context, a_run("r2", calls=("a", "b")))
    return context


def moved(
    before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """What each arm gained in success and failure, to the millionth."""
    return {
        arm: (round(after[arm][0] - before[arm][0], 6), round(after[arm][1] - before[arm][1], 6))
        for arm in after
        if after[arm] != before[arm]
    }


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


def test_a_blank_rater_is_no_identity_and_no_error(context: Context) -> None:
    given = evaluate(context, "r1", "success", rater=" ", rubric="v1")
    assert given.sft_blockers == ("missing_evaluator_identity",)
    assert given.warnings == ("There is no rubric 'v1': it is kept as it was given.",)


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
