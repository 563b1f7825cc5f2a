"""KAIROS's shapes: hostile input, gates, pairing, and lines that come back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ArmscopeError, Denied, InvalidEvaluation, InvalidInput, StoreFull, UnknownLayer
from core.formats.kairos import (
    Refusal,
    Reward,
    RewardInput,
    TrainingRow,
    preference_jsonl,
    read_reward,
    read_rewarded,
    read_trace,
    refusal,
    reward_input,
    reward_jsonl,
    reward_output,
    sft_jsonl,
    trace_jsonl,
)
from core.formats.strict import UNDECODABLE
from core.maths.evaluate import grade
from core.records.evaluation import EvaluationOutcome, Thresholds
from core.records.javascript import rewritten, stringify
from core.records.layer import LayerUri
from core.records.limits import LAST_MS
from core.records.times import iso

LAYER = "kairos://layer/aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
OTHER = "kairos://layer/99999999-bbbb-cccc-dddd-eeeeeeeeeeee"
EXECUTION = "11111111-2222-3333-4444-555555555555"

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
MAYBE = st.none() | TEXTS
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMED = st.sampled_from(["tensor_in", "activation_query", "layer_instructions", "trace", "7"])
JSON_OBJECTS = st.dictionaries(NAMED | TEXTS, VALUES, max_size=4).map(
    lambda value: rewritten(json.dumps(value))
)
REWARDS = st.builds(
    Reward,
    outcome=st.sampled_from(["success", "failure"]),
    score=st.none() | st.floats(0, 1).map(abs),
    feedback=MAYBE,
    rater=MAYBE,
    rubric_version=MAYBE,
    llm_model_id=MAYBE,
    rated_at_ms=st.none() | st.integers(0, 4 * 10**12),
)
ROWS = st.builds(
    TrainingRow,
    execution=TEXTS,
    adapter_uri=TEXTS,
    layer_uri=st.sampled_from([LAYER, LAYER.upper(), f"{LAYER}?execution_id={EXECUTION}", OTHER, "no URI"]),
    layer_index=st.integers(0, 3),
    at_ms=st.none() | st.integers(0, 4 * 10**12),
    instruction=JSON_OBJECTS,
    response=JSON_OBJECTS,
    reward=st.none() | REWARDS,
)


def reward(outcome: Any = "success", score: float | None = 0.9, **said: Any) -> Reward:  # noqa: ANN401 - of a test
    return Reward(outcome=outcome, score=score, **{"rater": "mara", "rubric_version": "v1", **said})


def row(given: Reward | None = None, answer: str = "a", **fields: Any) -> TrainingRow:  # noqa: ANN401 - of a test
    known: dict[str, Any] = {
        "execution": EXECUTION,
        "adapter_uri": "kairos://adapter/review",
        "layer_uri": LAYER,
        "layer_index": 2,
        "at_ms": 0,
        "instruction": '{"tensor_in":{},"layer_instructions":"do it"}',
        "response": stringify({"trace": answer}),
    }
    return TrainingRow(**{**known, **fields}, reward=given)


@given(st.lists(ROWS, max_size=5))
def test_a_trace_comes_back_whole(rows: list[TrainingRow]) -> None:
    lines = list(trace_jsonl(rows))
    assert [read_trace(line) for line in lines] == rows
    assert [rewritten(line).encode() for line in lines] == lines


@pytest.mark.parametrize("outcome", ["success", "failure"])
@pytest.mark.parametrize("score", [1e-6, 1.5e-6, 9e-6, 9.999999e-6, 1e-5, 9.9e-7, 1e-7, 1.25e-21, 0.1 + 0.2])
def test_small_scores_are_written_as_javascript_writes_them(outcome: EvaluationOutcome, score: float) -> None:
    """It writes no exponent down to a millionth, as a score of few millionths is one."""
    given = row(reward(outcome, score))
    for written in (trace_jsonl, reward_jsonl):
        (line,) = written([given])
        assert rewritten(line).encode() == line
    told = RewardInput(layer=LayerUri.parse(LAYER), outcome=outcome, score=score)
    graded = grade(outcome, score, rater=None, model=None, rubric=None)
    answer = reward_output(told, graded, 0)
    assert rewritten(answer).encode() == answer


@given(st.lists(ROWS, max_size=5))
def test_rewarded_lines_come_back_the_same(rows: list[TrainingRow]) -> None:
    lines = list(reward_jsonl(rows))
    assert len(lines) == sum(each.reward is not None for each in rows)
    assert list(reward_jsonl(map(read_rewarded, lines))) == lines


@given(st.lists(ROWS, max_size=8), st.floats(0, 1), st.floats(0, 1))
def test_nothing_passes_a_gate_that_is_not_good_enough(
    rows: list[TrainingRow], sft: float, preference: float
) -> None:
    thresholds = Thresholds(sft=sft, preference=preference)
    fine = list(sft_jsonl(rows, thresholds))
    graded = [each.reward.graded(thresholds) for each in rows if each.reward is not None]
    assert len(fine) == sum(each.exportable_for_sft for each in graded)
    bare = [json.loads(line) for line in sft_jsonl(rows, thresholds, include_reward=False)]
    with_reward = [json.loads(line) for line in fine]
    for each in with_reward:
        assert each["metadata"].pop("reward")["exportable_for_sft"] is True
    assert with_reward == bare
    pairs = list(preference_jsonl(rows, thresholds, pairing="layer"))
    assert len(pairs) <= sum(each.exportable_for_preference for each in graded) // 2


@given(st.lists(ROWS, max_size=8))
def test_flags_in_a_line_agree_with_its_blockers(rows: list[TrainingRow]) -> None:
    for line in reward_jsonl(rows):
        held = json.loads(line)["reward"]
        assert held["exportable_for_sft"] == (held["sft_blockers"] == [])
        assert held["exportable_for_preference"] == (held["preference_blockers"] == [])


def test_the_thresholds_decide_and_not_what_a_line_says_of_its_worth() -> None:
    line = json.loads(next(trace_jsonl([row(reward(rubric_version=None))])))
    line["reward"] |= {"exportable_for_sft": True, "sft_blockers": [], "evaluation_label": "gold"}
    assert list(sft_jsonl([read_trace(json.dumps(line).encode())])) == []
    rows = [row(reward(score=0.6))]
    assert list(sft_jsonl(rows)) == []
    assert len(list(sft_jsonl(rows, Thresholds(sft=0.6)))) == 1


def test_the_best_success_is_chosen_over_the_surest_failure() -> None:
    rows = [
        row(reward("failure", 0.9), "unsure"),
        row(reward(score=0.8), "good"),
        row(reward("failure", 0.95), "sure"),
        row(reward(score=0.8), "as good, but later"),
        row(reward(score=None), "nobody said how good"),
        row(reward(score=1.0, rater=" "), "nobody's"),
    ]
    (line,) = map(json.loads, preference_jsonl(rows))
    assert (line["chosen"], line["rejected"]) == ('{"trace":"good"}', '{"trace":"sure"}')
    assert line["prompt"] == rows[0].instruction
    assert line["metadata"] == {
        "adapter_uri": "kairos://adapter/review",
        "layer_uri": LAYER,
        "layer_index": 2,
    }


def test_answers_to_one_instruction_pair_whatever_their_layer() -> None:
    turned = '{"layer_instructions":"do it","tensor_in":{}}'
    rows = [
        row(reward()),
        row(reward("failure"), layer_uri=OTHER, instruction=turned),
        row(reward("failure"), instruction='{"tensor_in":{},"layer_instructions":"do it twice"}'),
    ]
    (line,) = map(json.loads, preference_jsonl(rows))
    assert line["rejected"] == rows[1].response
    (line,) = map(json.loads, preference_jsonl(rows, pairing="layer"))
    assert line["rejected"] == rows[2].response


def test_a_layer_is_one_in_any_case_and_any_execution() -> None:
    rows = [
        row(reward(), layer_uri=f"KAIROS://LAYER/{LAYER[-36:].upper()}?execution_id={EXECUTION}"),
        row(reward("failure"), layer_uri=LAYER),
    ]
    (line,) = map(json.loads, preference_jsonl(rows, pairing="layer"))
    assert line["metadata"]["layer_uri"] == f"kairos://layer/{LAYER[-36:].upper()}"


def test_what_is_not_there_is_null_in_one_format_and_left_out_in_the_other() -> None:
    given = row(reward(), response="{}", instruction='{"tensor_in":{"n":1}}')
    item = json.loads(next(reward_jsonl([given])))
    assert item["instruction"] == {"activation_query": None, "tensor_in": {"n": 1}}
    assert item["response"] == {"tensor_out": None, "trace": None, "raw_solution": None}
    sample = json.loads(next(sft_jsonl([given])))
    assert [message["content"] for message in sample["messages"]] == ['{"tensor_in":{"n":1}}', "{}"]


@given(st.integers(0, LAST_MS))
def test_times_are_written_as_everywhere(at_ms: int) -> None:
    line = json.loads(next(trace_jsonl([row(reward(rated_at_ms=at_ms), at_ms=at_ms)])))
    assert line["timestamp"] == line["reward"]["rated_at"] == iso(at_ms)


def test_rows_are_read_as_they_are_asked_for() -> None:
    rows = iter([row(reward()), row(reward())])
    lines = sft_jsonl(rows)
    next(lines)
    assert len(list(rows)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"reward": {"outcome": "partial", "rated_at": "2026-01-01T00:00:00.000Z"}},
        {"reward": {"outcome": "success", "score": 1.2}},
        {"reward": {"outcome": "success", "score": "0.9"}},
        {"reward": {"outcome": "success", "score": True}},
        {"reward": {"outcome": "success", "rater": "a\0b"}},
        {"instruction": "do it"},
        {"instruction": None},
        {"response": []},
        {"layer_index": -1},
        {"layer_index": 10**30},
        {"layer_uri": None},
        {"execution_id": "\0"},
    ],
)
def test_a_hostile_trace_is_refused(changed: dict[str, Any]) -> None:
    line = {**json.loads(next(trace_jsonl([row(reward())]))), **changed}
    with pytest.raises(UNDECODABLE):
        read_trace(json.dumps(line).encode())


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b"null", b'{"a":' * 200 + b"1" + b"}" * 200, b'{"response": "\\ud800"}', b"\xff"],
)
def test_what_is_no_row_is_refused(line: bytes) -> None:
    for read in (read_trace, read_rewarded):
        with pytest.raises(UNDECODABLE):
            read(line)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"uri": "\\ud800"}', b"\xff", b"[" * 10_000, b'{"uri": "x", "score": NaN}']
)
def test_a_body_that_is_no_json_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(InvalidEvaluation) as refused:
        read_reward(body)
    assert refused.value.fields == ("(root)",)


@given(st.dictionaries(st.sampled_from(["uri", "outcome", "score", "feedback", "rater", "x"]), VALUES))
def test_any_object_is_read_or_refused_by_its_fields(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvaluation) as refused:
        reward_input(value)
    assert "uri" in refused.value.fields
    assert list(refused.value.fields) == sorted(set(refused.value.fields))


def test_a_message_says_what_is_wrong_and_what_is_allowed() -> None:
    with pytest.raises(InvalidEvaluation) as refused:
        reward_input({"uri": LAYER, "outcome": "Success", "score": 1.2, "feedback": ""})
    assert refused.value.problem == (
        "feedback must be a text that is not empty, or left out, got '', "
        "outcome must be one of success, failure, got 'Success', "
        "score must be a number from 0 to 1, or left out, got 1.2."
    )


@pytest.mark.parametrize(
    "uri", [LAYER, f"{LAYER.upper()}?EXECUTION_ID={EXECUTION}", f"kairos://mem/{LAYER[-36:]}"]
)
def test_an_answer_names_the_layer_as_it_was_sent(uri: str) -> None:
    given = RewardInput(layer=LayerUri.parse(uri), outcome="failure", rater="")
    graded = grade("failure", None, rater="", model=None, rubric=None)
    answer = json.loads(reward_output(given, graded, 1_767_706_326_680))
    (told,) = answer["results"]
    assert (told["uri"], told["rater"], told["llm_model_id"]) == (uri, "", None)
    assert told["rated_at"] == "2026-01-06T13:32:06.680Z"
    assert (answer["total_rated"] + answer["total_failed"], answer["next_call"]) == (1, None)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidEvaluation("a", next_step="b", fields=("uri",)), 400, "INVALID_INPUT"),
        (InvalidEvaluation("a", next_step="b"), 400, "INVALID_URI"),
        (InvalidInput("a", next_step="b"), 400, "INVALID_INPUT"),
        (UnknownLayer("a", next_step="b"), 400, "INVALID_INPUT"),
        (StoreFull("a", next_step="b"), 503, "REWARD_FAILED"),
        (Denied("a", next_step="b"), 403, "DENIED"),
    ],
)
def test_an_error_is_told_in_kairos_words(error: ArmscopeError, status: int, code: Any) -> None:  # noqa: ANN401
    assert refusal(error) == Refusal(status=status, code=code, message="a b")
