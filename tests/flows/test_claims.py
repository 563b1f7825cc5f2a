"""Claims: who rates, where only a token says so, is no person's word: not in agreement, queues or tuning files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.queues import add_queue
from core.flows.review import next_item
from core.flows.settings import change
from core.flows.training import export_training
from core.records.actor import Actor, Grant
from core.records.evaluation_page import EvaluationFilter
from core.records.review import QueueAsks
from core.records.training import TrainingFormat
from tests.worlds import a_run, context_at, lines_file

LAYER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
EXECUTIONS = ("11111111-2222-4333-8444-555555555555", "22222222-3333-4444-8555-666666666666")
CI = Actor(name="token:ci", role=None, grants=(Grant(role="review"), Grant(role="ingest")), token=4)
ANN = Actor(name="ann", role=None, grants=(Grant(role="reviewer"),), member=7)


@pytest.fixture
def context(context: Context, tmp_path: Path) -> Context:
    """Two runs, and two answers of one layer to one instruction, with their texts."""
    record(context, a_run("r0"))
    record(context, a_run("r1"))
    change(context, "keep_texts", True)
    executed: list[dict[str, object]] = [
        {
            "kind": "execution",
            "uid": uid,
            "adapter": "kairos://adapter/review",
            "pairs": [
                {
                    "layer": LAYER,
                    "index": 1,
                    "instruction": '{"ask": "x"}',
                    "response": f'{{"say": {number}}}',
                }
            ],
        }
        for number, uid in enumerate(EXECUTIONS)
    ]
    import_files(context, [lines_file(tmp_path / "subjects.jsonl", *executed)])
    return context


def uri(number: int) -> str:
    return f"kairos://layer/{LAYER}?execution_id={EXECUTIONS[number]}"


def test_a_token_says_who_rates_and_takes_nobodys_place(context: Context) -> None:
    evaluate(context, "r0", "success", score=0.9, rater="mara", rubric="v1")
    claimed = evaluate(replace(context, actor=CI), "r0", "failure", score=0.9, rater="mara", rubric="v1")
    assert claimed.supersedes is None
    assert "'ci'" in claimed.warnings[-1]
    again = evaluate(replace(context, actor=CI), "r0", "success", rater="mara", rubric="v1")
    assert again.supersedes == claimed.id
    undo(context, again.id)
    newest, _, own = queries.evaluations(context, EvaluationFilter(counting=False))
    assert (newest.claimed_by, own.claimed_by) == ("ci", None)
    assert [one.state for one in (newest, own)] == ["undone", "counts"]
    assert queries.verify(context).clean


def test_who_signed_in_is_the_rater_whatever_they_send(context: Context) -> None:
    evaluate(replace(context, actor=ANN), "r0", "success", rater="mara", key="once")
    answer = evaluate(replace(context, actor=ANN), "r0", "success", rater="mara", key="once")
    (one,) = queries.evaluations(context)
    assert (one.id, one.rater, one.actor, one.claimed_by) == (answer.id, "ann", "ann", None)


def test_claims_stay_out_of_agreement(context: Context) -> None:
    for rater, outcome in (("mara", "success"), ("kim", "failure")):
        for run in ("r0", "r1"):
            evaluate(context, run, outcome, rater=rater, rubric="v1")  # type: ignore[arg-type]
    before = queries.agreement(context)
    for rater in ("bo", "jo", "mara"):
        for run in ("r0", "r1"):
            evaluate(replace(context, actor=CI), run, "success", rater=rater, rubric="v1")
    after = queries.agreement(context)
    assert (after.n, before.n) == (10, 4)
    assert (after.outcome, after.graders, after.n_panel) == (before.outcome, before.graders, before.n_panel)


def test_an_item_that_a_token_claims_to_have_judged_is_still_to_be_judged(context: Context) -> None:
    add_queue(context, "W", QueueAsks(source="filter"), rubric="v1")
    for run in ("r0", "r1"):
        evaluate(replace(context, actor=CI), run, "success", rater="ann", rubric="v1")
    given = next_item(replace(context, actor=ANN), "queue-1")
    assert given.item is not None
    assert given.progress.done == 0


@pytest.mark.parametrize("format", ["sft_jsonl", "preference_jsonl", "reward_jsonl", "trace_jsonl"])
def test_files_to_tune_by_have_claims_only_of_tokens_that_are_trusted(
    context: Context, tmp_path: Path, format: TrainingFormat
) -> None:
    ci = replace(context, actor=CI)
    evaluate(ci, uri(0), "success", score=0.9, rater="mara", rubric="v1")
    evaluate(ci, uri(1), "failure", score=0.9, rater="mara", rubric="v1")
    tunes = format in {"sft_jsonl", "preference_jsonl"}
    whole = {"sft_jsonl": 1, "preference_jsonl": 1}.get(format, 2)
    made = export_training(context, tmp_path / "untrusted", format).manifest
    assert made.rows == (0 if tunes else whole)
    assert made.claimed == {"ci": 2}
    assert made.left_out.claimed == ({"sft_jsonl": 1, "preference_jsonl": 2}[format] if tunes else 0)
    change(context, "trusted_graders", ["ci"])
    trusted = export_training(context, tmp_path / "trusted", format).manifest
    assert (trusted.rows, trusted.claimed, trusted.left_out.claimed) == (whole, {"ci": 2}, 0)
    assert trusted.suggested_weights == ()
    assert evaluate(ci, "r0", "success", rubric="").warnings == ()


def test_a_claim_moves_no_arm_where_only_people_do(context: Context) -> None:
    change(context, "graders", "human")
    arm = "tool:other:a"
    assert evaluate(replace(context, actor=CI), "r0", "success", rater="mara", arm=arm).arms == 0
    assert evaluate(context, "r0", "success", rater="mara", arm=arm).arms == 1


def test_a_claim_is_one_elsewhere_too_and_what_a_token_imports_is_one(
    context: Context, tmp_path: Path
) -> None:
    evaluate(replace(context, actor=CI), uri(0), "success", score=0.9, rater="mara", rubric="v1")
    export_file(context, tmp_path / "whole.jsonl")
    elsewhere = context_at(tmp_path / "b.db")
    for _ in range(2):
        import_files(elsewhere, [tmp_path / "whole.jsonl"])
    (one,) = queries.evaluations(elsewhere)
    assert (one.claimed_by, one.rater) == ("ci", "mara")
    told: dict[str, object] = {
        "kind": "evaluation",
        "id": "e9",
        "run": "r0",
        "outcome": "success",
        "rater": "kim",
        "by": "kim",
    }
    import_files(replace(context, actor=CI), [lines_file(tmp_path / "told.jsonl", told)])
    assert [one.claimed_by for one in queries.evaluations(context)] == ["ci", "ci"]
    export_training(context, tmp_path / "rows.jsonl", "reward_jsonl")
    import_files(context, [tmp_path / "rows.jsonl"])
    assert len(queries.evaluations(context)) == 2, "what was told already is no news, whoever claims it"
    for each in (context, elsewhere):
        assert queries.verify(each).clean
