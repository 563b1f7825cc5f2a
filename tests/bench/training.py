"""Training exports: rows → lines, against decoding and writing the same dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from core.formats.kairos import Reward, TrainingRow, sft_jsonl
from core.records.javascript import stringify
from tests.bench.harness import Row, Scale, pairs


def samples(scale: Scale, _folder: Path) -> list[Row]:
    """Rows that are all good enough to fine-tune on, graded and written."""
    rows = [_row(number) for number in range(scale.n_bulk_runs)]
    lines = list(sft_jsonl(rows))
    if len(lines) != len(rows):
        raise AssertionError("base and ours must write the same lines")
    timed = pairs(
        lambda _: _through(msgspec.json.encode(msgspec.json.decode(line)) for line in lines),
        lambda _: _through(sft_jsonl(rows)),
        scale.n_bulk_pairs,
    )
    what = f"sft_jsonl of {len(lines):,} rows, without reading them"
    return [timed.row(what, "msgspec decodes and writes the lines", 2.5)]


def _through(lines: Iterable[bytes]) -> int:
    return sum(map(len, lines))


def _row(number: int) -> TrainingRow:
    execution = f"11111111-2222-3333-4444-{number:012d}"
    instruction = {"activation_query": "q", "tensor_in": {"n": number}, "layer_instructions": "Do it. " * 40}
    return TrainingRow(
        execution=execution,
        adapter_uri="kairos://adapter/review",
        layer_uri=f"kairos://layer/aaaaaaaa-bbbb-cccc-dddd-{number % 50:012d}?execution_id={execution}",
        layer_index=2,
        at_ms=1_767_706_326_680 + 61_000 * number,
        instruction=stringify(instruction),
        response=stringify({"trace": "It is done. " * 40}),
        reward=Reward(
            outcome="success",
            score=0.65 + number % 3_500 / 10_000,
            feedback="ok",
            rater="mara",
            rubric_version="v1",
            rated_at_ms=1_767_706_326_680 + 61_000 * number,
        ),
    )
