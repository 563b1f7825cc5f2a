"""Training rows read back: the same evaluations and quality, nothing twice, and as if never read once undone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.evaluate import evaluate_all
from core.flows.export import lines as all_lines
from core.flows.importing import import_files
from core.flows.settings import change
from core.flows.training import export_training
from core.formats import recognise
from core.records.evaluation_lines import EvaluationLine, ExecutionLine
from core.records.training import TrainingFormat
from core.store.quality import rated_layers, stored_quality
from tests.worlds import context_at, keeping, lines_file
from tests.worlds.training import (
    executed,
    execution_line,
    execution_uid,
    judged,
    layer_line,
    layer_uid,
    order,
)

Said = dict[tuple[object, ...], tuple[object, ...]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return judged(tmp_path_factory.mktemp("judged"), 60)


def evaluations(context: Context) -> Said:
    """What counts, by what it is about and who said it."""
    with context.reading() as snapshot:
        found: Said = {}
        for line in all_lines(snapshot):
            if isinstance(line, EvaluationLine) and not line.undone:
                about = line.layer, line.execution, line.rater, line.model, line.rubric
                found[about] = line.outcome, line.score, line.feedback, line.at_ms
        return found


def qualities(context: Context) -> dict[str, Any]:
    with context.reading() as snapshot:
        return {
            uid: stored_quality(snapshot)[layer_no][:4]
            for layer_no in rated_layers(snapshot)
            for (uid,) in snapshot.connection.rows(
                "SELECT uid FROM layer WHERE learner_id = ? AND layer_no = ?", [snapshot.learner_id, layer_no]
            )
        }


def texts(context: Context) -> set[tuple[str, str | None]]:
    with context.reading() as snapshot:
        return {
            (line.uid, pair.response)
            for line in all_lines(snapshot)
            if isinstance(line, ExecutionLine)
            for pair in line.pairs
        }


def rows_file(context: Context, folder: Path, format: TrainingFormat) -> Path:
    path = folder / f"rows.{format}"
    export_training(context, path, format, manifest=False)
    return path


@pytest.mark.parametrize("format", ["reward_jsonl", "trace_jsonl"])
def test_an_export_read_elsewhere_says_the_same(
    source: Context, tmp_path: Path, format: TrainingFormat
) -> None:
    path = rows_file(source, tmp_path, format)
    assert recognise(path) == "kairos"
    other = context_at(tmp_path / "other.db", name="kim")
    change(other, "keep_texts", True)
    told = import_files(other, [path])
    assert told.rejected_count == 0
    assert evaluations(other) == evaluations(source)
    assert qualities(other) == qualities(source)
    if format == "trace_jsonl":
        assert texts(other) == texts(source)
    before = queries.revision(other)
    assert import_files(other, [path]).id is None
    assert queries.revision(other) == before
    assert queries.verify(other).clean
    undo(other, told.id)
    assert (evaluations(other), qualities(other), texts(other)) == ({}, {}, set())
    assert queries.verify(other).clean
    other.store.close()


@pytest.mark.parametrize("format", ["reward_jsonl", "trace_jsonl"])
def test_an_export_read_where_it_is_from_is_nothing_new(tmp_path: Path, format: TrainingFormat) -> None:
    context = judged(tmp_path, 40)
    path = rows_file(context, tmp_path, format)
    before = evaluations(context), qualities(context), texts(context)
    told = import_files(context, [path])
    assert (evaluations(context), qualities(context), texts(context)) == before
    assert told.ledger == told.ledger_duplicates
    assert queries.verify(context).clean


@pytest.mark.parametrize(
    ("first", "second"), [("reward_jsonl", "trace_jsonl"), ("trace_jsonl", "reward_jsonl")]
)
def test_either_file_after_the_other_is_nothing_new(
    source: Context, tmp_path: Path, first: TrainingFormat, second: TrainingFormat
) -> None:
    """Whatever order they write members in, and whether they say null or nothing."""
    other = keeping(tmp_path, name="other.db")
    import_files(other, [rows_file(source, tmp_path, first)])
    before = evaluations(other), qualities(other)
    told = import_files(other, [rows_file(source, tmp_path, second)])
    more = {execution_uid(number) for number in range(60)} - {str(about[1]) for about in before[0]}
    assert told.rejected == ()
    assert told.ledger == told.ledger_duplicates
    assert (evaluations(other), qualities(other)) == before
    assert texts(other) == texts(source)
    assert more, "only one of the files tells of pairs that nobody judged"
    assert queries.verify(other).clean


def test_rewards_of_some_pairs_come_and_go_beside_the_whole_execution(tmp_path: Path) -> None:
    whole = execution_line(0)
    whole["pairs"] += execution_line(0, layer=2, ask="b", say="b")["pairs"]
    context = executed(tmp_path, layer_line(1), layer_line(2), whole)
    evaluate_all(context, [order(0, "success", score=0.9, rater="mara", rubric="v1")])
    traces, rewards = (rows_file(context, tmp_path, name) for name in ("trace_jsonl", "reward_jsonl"))
    other = keeping(tmp_path, name="other.db")
    all_of_it = import_files(other, [traces])
    assert import_files(other, [rewards]).rejected == ()
    assert texts(other) == texts(context)
    undo(other, all_of_it.id)
    assert (texts(other), queries.verify(other).clean) == (set(), True)
    assert import_files(other, [rewards]).rejected == ()
    assert texts(other) == {(execution_uid(0), '{"trace":"say 0"}')}
    (refused,) = import_files(other, [traces]).rejected
    assert "known already, with other pairs: undo what brought it first" in refused.reason


def test_texts_are_kept_only_where_the_setting_says_so(source: Context, tmp_path: Path) -> None:
    other = context_at(tmp_path / "other.db")
    import_files(other, [rows_file(source, tmp_path, "trace_jsonl")])
    assert {text for _, text in texts(other)} == {None}
    assert evaluations(other) == evaluations(source)


def test_rows_of_an_execution_may_stand_anywhere(source: Context, tmp_path: Path) -> None:
    path = rows_file(source, tmp_path, "trace_jsonl")
    pair = execution_line(3, layer=9)["pairs"][0]
    first = json.loads(path.read_bytes().splitlines()[0])
    more = {**first, "execution_id": execution_uid(3), "layer_uri": f"kairos://layer/{layer_uid(9)}"}
    more |= {"layer_index": 9, "instruction": json.loads(pair["instruction"]), "response": {"trace": "x"}}
    rows = [more, *map(json.loads, path.read_bytes().splitlines()), {**more, "response": {"trace": "y"}}]
    other = keeping(tmp_path, name="other.db")
    told = import_files(other, [lines_file(tmp_path / "shuffled.jsonl", *rows)])
    assert [(one.line, "another text" in one.reason) for one in told.rejected] == [(len(rows), True)]
    assert (execution_uid(3), '{"trace":"x"}') in texts(other)
    assert len({uid for uid, _ in texts(other)}) == len({uid for uid, _ in texts(source)})


@pytest.mark.parametrize(
    ("change_of", "reason"),
    [
        ({"execution_id": ""}, "names no execution"),
        ({"layer_uri": "kairos://adapter/a"}, "names no layer"),
        ({"reward": {"outcome": "Success"}}, "another shape"),
        ({"reward": {"outcome": "success", "score": 1.5}}, "another shape"),
        ({"reward": {"outcome": "success", "feedback": "x" * 9000}}, "feedback must have"),
        ({"adapter_uri": "a" * 9000}, "adapter"),
        ({"layer_index": -1}, "another shape"),
    ],
)
def test_rows_that_can_not_be_are_refused_with_their_line(
    source: Context, tmp_path: Path, change_of: dict[str, object], reason: str
) -> None:
    rows = [json.loads(line) for line in rows_file(source, tmp_path, "trace_jsonl").read_bytes().splitlines()]
    other = context_at(tmp_path / "other.db")
    told = import_files(
        other, [lines_file(tmp_path / "bad.jsonl", rows[0], {**rows[1], **change_of}, rows[2])]
    )
    assert [(one.line, reason in one.reason) for one in told.rejected] == [(2, True)], told.rejected
    assert told.ledger >= 1
