"""Training exports: every row eligible, whoever looks; what is left out counted; no cluster in train and test."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from hashlib import sha256
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.evaluate import evaluate, evaluate_all
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.settings import change
from core.flows.training import export_training, training_into
from core.records.training import TRAINING_FORMATS, TrainingAnswer, TrainingFormat, TrainingQuery
from tests.engine import named
from tests.worlds import a_run, lines_file
from tests.worlds.training import (
    blockers_of,
    executed,
    execution_line,
    execution_uid,
    judged,
    layer_line,
    layer_uid,
    order,
    store_unmasked,
)

Json = dict[str, Any]
GOOD: Json = {"score": 0.9, "rater": "mara", "rubric": "v1"}

KEY = "AKIAIOSFODNN7EXAMPLX"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return judged(tmp_path_factory.mktemp("judged"))


def exported(
    context: Context,
    folder: Path,
    format: TrainingFormat,
    **asked: Any,  # noqa: ANN401 - whatever an export is asked with
) -> tuple[list[Json], TrainingAnswer]:
    folder.mkdir(exist_ok=True)
    answer = export_training(context, folder / f"out.{format}", format, **asked)
    return [json.loads(line) for line in (folder / f"out.{format}").read_bytes().splitlines()], answer


def test_every_row_of_every_format_is_eligible(context: Context, tmp_path: Path) -> None:
    rewarded, told = exported(context, tmp_path, "reward_jsonl")
    samples, of_samples = exported(context, tmp_path, "sft_jsonl")
    pairs, of_pairs = exported(context, tmp_path, "preference_jsonl")
    assert len(rewarded) > 200
    assert samples
    assert pairs
    for row in rewarded:
        reward = row["reward"]
        assert (reward["sft_blockers"], reward["preference_blockers"]) == blockers_of(reward)
        assert reward["exportable_for_sft"] == (not reward["sft_blockers"])
    assert all(blockers_of(row["metadata"]["reward"])[0] == [] for row in samples)
    eligible: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rewarded:
        if not blockers_of(row["reward"])[1]:
            prompt, answer = (json.dumps(row[name], sort_keys=True) for name in ("instruction", "response"))
            eligible[prompt, row["reward"]["outcome"]].add(answer)
    for row in pairs:
        prompt = json.dumps(json.loads(row["prompt"]), sort_keys=True)
        for part, outcome in (("chosen", "success"), ("rejected", "failure")):
            filled = {"tensor_out": None, "raw_solution": None, **json.loads(row[part])}
            assert json.dumps(filled, sort_keys=True) in eligible[prompt, outcome]
    for made in (told, of_samples, of_pairs):
        manifest = made.manifest
        rows = manifest.rows * (2 if manifest.query.format == "preference_jsonl" else 1)
        left_out = sum(msgspec.structs.astuple(manifest.left_out))
        assert rows + left_out == manifest.evaluations == len(rewarded)
        counted = Counter(name for row in rewarded for name in blockers_of(row["reward"])[0])
        assert manifest.sft_blockers == counted
        counted = Counter(name for row in rewarded for name in blockers_of(row["reward"])[1])
        assert manifest.preference_blockers == counted


def test_a_changed_threshold_gates_old_rows_anew(tmp_path: Path) -> None:
    context = judged(tmp_path, 60)
    before, _ = exported(context, tmp_path / "before", "sft_jsonl")
    change(context, "thresholds", {"sft": 0.86, "preference": 0.2, "gold": 0.9})
    after, answer = exported(context, tmp_path / "after", "sft_jsonl")
    assert 0 < len(after) < len(before)
    for row in after:
        assert blockers_of(row["metadata"]["reward"], sft=0.86)[0] == []
    rewarded, _ = exported(context, tmp_path / "after", "reward_jsonl")
    for row in rewarded:
        assert row["reward"]["preference_blockers"] == blockers_of(row["reward"], sft=0.86, preference=0.2)[1]
    assert answer.manifest.thresholds.sft == 0.86


def test_without_rewards_the_same_rows_pass(context: Context, tmp_path: Path) -> None:
    with_them, _ = exported(context, tmp_path / "with", "sft_jsonl")
    without, _ = exported(context, tmp_path / "without", "sft_jsonl", include_reward=False)
    for row in with_them:
        del row["metadata"]["reward"]
    assert without == with_them


def test_the_manifest_says_what_is_in_the_file(context: Context, tmp_path: Path) -> None:
    _, answer = exported(context, tmp_path, "reward_jsonl")
    content = (tmp_path / "out.reward_jsonl").read_bytes()
    manifest = answer.manifest
    assert answer.manifest_file == f"{tmp_path / 'out.reward_jsonl'}.manifest.json"
    beside = json.loads(Path(answer.manifest_file).read_bytes())
    assert beside["sha256"] == manifest.sha256 == sha256(content).hexdigest()
    assert beside["size_bytes"] == len(content)
    assert beside["rows"] == answer.rows == content.count(b"\n")
    assert {one["version"] for one in beside["rubrics"]} == {"v1", "v2", "", "\u00a0"}
    assert [one["of"] for one in beside["agreement"]] == ["outcome", "label", "signed_score"]
    assert all(one["lower"] <= one["alpha"] <= one["upper"] for one in beside["agreement"])
    assert {one["rater"] for one in beside["suggested_weights"]} >= {"mara", "bob", "judge-1"}
    with pytest.raises(InvalidInput, match="must not exist yet"):
        export_training(context, tmp_path / "out.reward_jsonl", "reward_jsonl")
    (tmp_path / "x.manifest.json").touch()
    with pytest.raises(InvalidInput, match="must not exist yet"):
        export_training(context, tmp_path / "x", "reward_jsonl")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("format", [one for one in TRAINING_FORMATS if one != "reward_csv"])
def test_no_session_and_no_instruction_is_on_both_sides(
    context: Context, tmp_path: Path, format: TrainingFormat
) -> None:
    rows, answer = exported(context, tmp_path, format)
    split = answer.manifest.split
    aside = {line for first, last in split.test_lines for line in range(first, last + 1)}
    assert (split.test, split.train) == (len(aside), len(rows) - len(aside))
    asked: dict[str, set[bool]] = defaultdict(set)
    for line, row in enumerate(rows, start=1):
        if format == "sft_jsonl":
            instruction = json.loads(row["messages"][0]["content"])
        elif format == "preference_jsonl":
            instruction = json.loads(row["prompt"])
        else:
            instruction = row["instruction"]
        asked[json.dumps(instruction, sort_keys=True)].add(line in aside)
    assert all(len(sides) == 1 for sides in asked.values())


def test_whole_clusters_fall_to_one_side(tmp_path: Path) -> None:
    """Forty sessions are one cluster: each has two instructions, and the next session has one of them."""
    chained = [
        execution_line(2 * n + k, ask=f"ask {n + k}", session=f"s{n}") for n in range(40) for k in (0, 1)
    ]
    alone = [execution_line(1000 + n, session=f"alone {n}") for n in range(400)]
    context = executed(tmp_path, layer_line(1), *chained, *alone)
    _, answer = exported(context, tmp_path, "trace_jsonl")
    aside = {line for first, last in answer.manifest.split.test_lines for line in range(first, last + 1)}
    assert len({line in aside for line in range(1, 81)}) == 1
    assert 15 <= len(aside - set(range(1, 81))) <= 70  # a tenth of 400
    again, second = exported(context, tmp_path / "again", "trace_jsonl")
    assert second.manifest.split == answer.manifest.split
    assert len(again) == 480


def test_several_raters_of_a_pair_are_several_rows_but_one_sample(tmp_path: Path) -> None:
    context = executed(tmp_path, layer_line(1), *(execution_line(n) for n in range(2)))
    evaluate_all(
        context,
        [
            order(0, "success", **GOOD),
            order(0, "success", **{**GOOD, "rater": "bob"}),
            order(0, "failure", **{**GOOD, "rater": "kim"}),
        ],
    )
    rewarded, answer = exported(context, tmp_path, "reward_jsonl")
    assert [row["reward"]["rater"] for row in rewarded] == ["mara", "bob", "kim"]
    assert (answer.manifest.duplicates, answer.manifest.disputed) == (2, 1)
    samples, answer = exported(context, tmp_path, "sft_jsonl")
    assert [row["metadata"]["reward"]["rater"] for row in samples] == ["mara"]
    assert answer.manifest.left_out.second_opinion == 1
    pairs, answer = exported(context, tmp_path, "preference_jsonl", pairing="layer")
    assert (pairs, answer.manifest.left_out.same_answer) == ([], 2)
    traces, _ = exported(context, tmp_path, "trace_jsonl")
    assert [("reward" in row) for row in traces] == [True, True, True, False]


def test_pairs_are_of_one_instruction_or_of_one_layer(tmp_path: Path) -> None:
    said = [("a", 0), ("a", 1), ("b", 2), ("b", 3)]
    context = executed(
        tmp_path, layer_line(1), *(execution_line(n, ask=ask, session=f"{n}") for ask, n in said)
    )
    orders = [order(0, "success", **GOOD), order(1, "failure", **{**GOOD, "score": 0.75})]
    orders += [order(2, "failure", **GOOD), order(3, "failure", **GOOD)]
    evaluate_all(context, orders)
    by_prompt, answer = exported(context, tmp_path, "preference_jsonl")
    assert [(json.loads(row["chosen"]), json.loads(row["rejected"])) for row in by_prompt] == [
        ({"trace": "say 0"}, {"trace": "say 1"})
    ]
    assert (answer.manifest.left_out.no_other, answer.manifest.left_out.not_best) == (1, 1)
    by_layer, _ = exported(context, tmp_path / "layer", "preference_jsonl", pairing="layer")
    assert [json.loads(row["rejected"]) for row in by_layer] == [{"trace": "say 2"}]


def test_the_nearest_judgement_of_a_rater_counts(tmp_path: Path) -> None:
    """Of a pair, of its execution, of its run; what stands no more counts no more."""
    context = executed(tmp_path, layer_line(1))
    record(context, a_run("r1"))
    import_files(context, [lines_file(tmp_path / "more.jsonl", {**execution_line(7), "run": "r1"})])
    evaluate(context, "r1", "success", rater="mara", score=0.1)
    evaluate(context, "r1", "success", rater="bob", score=0.2)
    whole = evaluate(context, execution_uid(7), "success", rater="mara", score=0.3)

    def scores() -> dict[str, float]:
        file = BytesIO()
        training_into(context, file, "x", TrainingQuery(format="reward_jsonl"))
        rows = [json.loads(line)["reward"] for line in file.getvalue().splitlines()]
        assert len(rows) == len({row["rater"] for row in rows})
        return {row["rater"]: row["score"] for row in rows}

    assert scores() == {"mara": 0.3, "bob": 0.2}
    own = evaluate_all(context, [order(7, "success", rater="mara", score=0.4)])[0]
    assert scores() == {"mara": 0.4, "bob": 0.2}
    evaluate(context, "r1", "success", arm="tool:other:a", rater="kim")
    assert "kim" not in scores()
    undo(context, own.id)
    assert scores() == {"mara": 0.3, "bob": 0.2}
    undo(context, whole.id)
    assert scores() == {"mara": 0.1, "bob": 0.2}
    redo(context, own.id)
    undo(context, "import-2")
    assert scores() == {}


def test_what_has_no_texts_is_left_out_and_counted(tmp_path: Path) -> None:
    context = executed(tmp_path, layer_line(1), execution_line(0), keep_texts=False)
    evaluate_all(context, [order(0, "success", **GOOD)])
    rows, answer = exported(context, tmp_path, "sft_jsonl")
    assert rows == []
    assert answer.manifest.left_out.no_text == 1
    plain = execution_line(1)
    plain["pairs"][0] |= {"instruction": '"only words"', "response": "{\n}"}
    (tmp_path / "other").mkdir()
    other = executed(tmp_path / "other", layer_line(1), plain)
    evaluate_all(other, [order(1, "success", **GOOD)])
    assert exported(other, tmp_path / "more", "reward_jsonl")[1].manifest.left_out.other_shape == 1


def test_what_looks_like_a_secret_is_held_back_and_never_repeated(tmp_path: Path) -> None:
    context = executed(tmp_path, layer_line(1), *map(execution_line, range(3)))
    store_unmasked(named(context.store), 1, f"the key is {KEY}")
    evaluate_all(
        context,
        [order(n, "success", **GOOD, feedback="password: hunter22" if n == 2 else None) for n in range(3)],
    )
    rows, answer = exported(context, tmp_path, "sft_jsonl")
    assert len(rows) == 1
    assert answer.manifest.left_out.secret == answer.manifest.suspicions_count == 2
    assert [(one.line, one.execution, one.kinds) for one in answer.manifest.suspicions] == [
        (None, execution_uid(1), ("aws_access_key",)),
        (None, execution_uid(2), ("password",)),
    ]
    for file in tmp_path.glob("out.*"):
        assert KEY not in file.read_text()
    rows, answer = exported(context, tmp_path / "with", "sft_jsonl", with_secrets=True)
    assert [one.line for one in answer.manifest.suspicions] == [2, 3]
    assert KEY in json.dumps(rows[1])
    assert KEY not in Path(answer.manifest_file or "").read_text()
    rows, _ = exported(context, tmp_path / "bare", "sft_jsonl", include_reward=False)
    assert len(rows) == 2, "feedback is not in it"


def test_a_table_holds_no_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    context = executed(tmp_path, layer_line(1), execution_line(0))
    evaluate_all(
        context,
        [
            order(0, "failure", score=0.5, rater="=cmd|' /C calc'!A0", rubric="-0.5", feedback="@SUM(1)\n+1"),
            order(0, "success", score=0.9, rater="mara", rubric="v1", model="+1+1"),
        ],
    )
    answer = export_training(context, tmp_path / "out.csv", "reward_csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        first, second = csv.DictReader(StringIO(file.read()))
    assert (first["rater"], first["rubric_version"], first["feedback"]) == (
        "'=cmd|' /C calc'!A0",
        "-0.5",
        "'@SUM(1)\n+1",
    )
    assert (first["score"], first["signed_score"], second["llm_model_id"]) == ("0.5", "-0.5", "'+1+1")
    assert first["sft_blockers"] == "outcome_not_success score_below_sft_threshold"
    assert answer.rows == 2


def test_only_what_was_asked_for(context: Context, tmp_path: Path) -> None:
    everything, _ = exported(context, tmp_path / "all", "reward_jsonl")

    def asked(place: str, **given: Any) -> list[Json]:  # noqa: ANN401 - the same
        return exported(context, tmp_path / place, "reward_jsonl", **given)[0]

    of_layer = [row for row in everything if layer_uid(2) in row["metadata"]["layer_uri"]]
    assert asked("a", layers=(f"kairos://layer/{layer_uid(2).upper()}",)) == of_layer
    assert asked("b", raters=("mara",)) == [row for row in everything if row["reward"]["rater"] == "mara"]
    assert asked("c", rubrics=("v1", "v2"), executions=(execution_uid(3), execution_uid(4))) == [
        row
        for row in everything
        if row["reward"]["rubric_version"] in {"v1", "v2"}
        and row["metadata"]["execution_id"] in {execution_uid(3), execution_uid(4)}
    ]
    assert asked("d", adapters=("kairos://adapter/review",)) == everything
    assert asked("e", adapters=("kairos://adapter/other",)) == []
    assert asked("f", since_ms=0, until_ms=1) == []
