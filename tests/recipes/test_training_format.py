"""The recipe "A training format", followed: a file, its name in four places; then every door and the page have it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.recipes.copy import Copy, recipe

_MOST_CHANGED: Final = 5

_FORMAT: Final = '''"""Pairs: what was asked and answered, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from core.formats.kairos import TrainingRow


def pairs_jsonl(rows: Iterable[TrainingRow]) -> Iterator[bytes]:
    """A line for every row."""
    for row in rows:
        pair = {"instruction": msgspec.Raw(row.instruction), "response": msgspec.Raw(row.response)}
        yield msgspec.json.encode(pair)
'''
_LINES: Final = """    if query.format == "pairs_jsonl":
        return pairs_jsonl(counts.rows(judged, _is_sample, once=True))
"""
_BEFORE_LINES: Final = "        return sft_jsonl(rows, thresholds, include_reward=query.include_reward)\n"
_TESTS: Final = '''"""Pairs: golden lines, and that every row is eligible."""

from __future__ import annotations

import json
from pathlib import Path

from core.flows.training import export_training
from core.formats.kairos import TrainingRow
from core.formats.pairs import pairs_jsonl
from tests.worlds.training import blockers_of, judged


def test_a_line_is_a_pair() -> None:
    row = TrainingRow(
        execution="e", adapter_uri="a", layer_uri="l", layer_index=1, at_ms=0,
        instruction='{"tensor_in":{}}', response='{"trace":"x"}',
    )
    assert list(pairs_jsonl([row])) == [b'{"instruction":{"tensor_in":{}},"response":{"trace":"x"}}']


def test_every_row_is_eligible(tmp_path: Path) -> None:
    context = judged(tmp_path, 60)
    for name in ("pairs_jsonl", "reward_jsonl"):
        export_training(context, tmp_path / name, name)
    pairs, rewarded = (
        [json.loads(line) for line in (tmp_path / name).read_bytes().splitlines()]
        for name in ("pairs_jsonl", "reward_jsonl")
    )
    good = [row["response"]["trace"] for row in rewarded if not blockers_of(row["reward"])[0]]
    assert [row["response"]["trace"] for row in pairs] == list(dict.fromkeys(good))
'''


@pytest.mark.long
def test_a_training_format_is_a_file_and_its_name(tmp_path: Path) -> None:
    copy, read = Copy(tmp_path), recipe("A training format")
    copy.add("core/formats/pairs.py", _FORMAT)
    copy.insert("core/records/training.py", ', "pairs_jsonl"', after='"trace_jsonl", "reward_csv"')
    copy.insert("core/flows/training.py", _LINES, after=_BEFORE_LINES)
    copy.insert(
        "core/flows/training.py",
        "from core.formats.pairs import pairs_jsonl\n",
        after="    trace_jsonl,\n)\n",
    )
    copy.insert(
        "dashboard/widgets/data/exports.py",
        '    "pairs_jsonl": (Words("Pairs"), "What was asked and answered, and nothing else."),\n',
        after='    "reward_csv": (Words("Table"), "All judged answers as a table, without formulas."),\n',
    )
    copy.insert(
        "core/guide/evaluation.md",
        "| `pairs_jsonl` | requests and answers, and nothing else |\n",
        after="| `trace_jsonl` | all pairs of request and answer |\n",
    )
    copy.add("tests/formats/test_pairs.py", _TESTS)

    assert copy.new() == {"core/formats/pairs.py", "tests/formats/test_pairs.py"}
    assert len(copy.changed()) <= _MOST_CHANGED
    assert all(f"`{path}`" in read for path in copy.changed())

    own, of_every, page = (
        "tests/formats/test_pairs.py",
        "tests/flows/test_training.py",
        "tests/dashboard/test_data.py",
    )
    copy.passes(
        own,
        of_every,
        page,
        "-k",
        "line_is_a_pair or row_is_eligible or pairs_jsonl or training_file_of_every",
    )
