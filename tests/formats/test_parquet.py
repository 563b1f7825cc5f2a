"""Parquet: the rows of the export as lines, in one table, in groups of bounded size."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.demo import LEARNER
from core.demo.build import build
from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.erase import erase
from core.flows.export import export_file
from core.formats.parquet import columns, columns_of_line, write_parquet
from core.records.ledger_lines import ArmLine, LedgerLine
from core.records.times import instant
from tests.flows.test_erase import PERSON, SESSION, WORD, planted_world
from tests.worlds import acting, context_at

DEMO_RUNS = 60
NAMES = {("learner", "texts"): "has_texts", ("run", "arms"): "inventory_arms"}
"""Fields of a line whose column has another name."""


def flat(document: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}_")
        else:
            yield f"{before}{name}", value


def check_row(line: dict[str, Any], row: dict[str, Any]) -> None:
    """Each field of a line is in its row, as it is."""
    if (chosen := line.pop("settings", None)) is not None:
        shown = msgspec.json.decode(row["settings"])
        assert {name: shown[name] for name in chosen} == chosen
    for name, value in flat(line):
        column = NAMES.get((line["kind"], name), name)
        if column not in row:  # a time
            assert row[name.removesuffix("_ms")] == instant(value), name
        elif isinstance(value, list):
            assert [_key(one) for one in row[column]] == [_key(one) for one in value], name
        else:
            assert row[column] == value, name
            assert type(row[column]) is type(value) or isinstance(row[column], float), name


def _key(item: object) -> object:
    """What distinguishes an item of a list: itself, or its first value."""
    if isinstance(item, dict):
        return next((one for one in item.values() if isinstance(one, str | int)), None)
    return item


def check_rows(context: Context, folder: Path) -> Counter[str]:
    """Compare the two exports of a learner; return how many rows there are of each kind."""
    export_file(context, folder / "a.jsonl")
    export_file(context, folder / "a.parquet", "parquet")
    documents = [msgspec.json.decode(line) for line in (folder / "a.jsonl").read_bytes().splitlines()]
    rows = pq.read_table(folder / "a.parquet").to_pylist()
    assert [row["kind"] for row in rows] == [one["kind"] for one in documents]
    for document, row in zip(documents, rows, strict=True):
        check_row(document, row)
    return Counter(row["kind"] for row in rows)


def test_rows_are_the_lines_of_the_demo(tmp_path: Path) -> None:
    build(tmp_path / "demo.db", n_runs=DEMO_RUNS)
    context = context_at(tmp_path / "demo.db", learner=LEARNER)
    counts = check_rows(context, tmp_path)
    context.store.close()
    assert {"learner", "arm", "run", "reward", "episode", "evaluation"} <= counts.keys()


def test_rows_have_what_their_reader_may_read_and_nothing_erased(tmp_path: Path) -> None:
    context = planted_world(tmp_path)
    viewer = acting(context, "viewer")
    texts = []
    for number, reader in enumerate((context, viewer)):
        (tmp_path / str(number)).mkdir()
        check_rows(reader, tmp_path / str(number))
        texts.append(repr(pq.read_table(tmp_path / str(number) / "a.parquet").to_pylist()))
    assert WORD in texts[0].replace(SESSION, "")
    assert f"{WORD} note" not in texts[1]
    erase(context, session=SESSION)
    erase(context, rater=PERSON)
    export_file(context, tmp_path / "erased.parquet", "parquet")
    erased = repr(pq.read_table(tmp_path / "erased.parquet").to_pylist())
    assert WORD not in erased
    assert PERSON not in erased
    context.store.close()


def test_a_column_has_the_same_type_in_all_kinds_of_lines() -> None:
    for line in get_args(LedgerLine):
        for column in columns_of_line(line):
            (shared,) = [one for one in columns() if one.name == column.name]
            assert shared.kind == column.kind, (line, column.name)
    schema = {one.name: one.kind for one in columns()}
    assert schema["usage_total"] == schema["revision"] == "integer"
    assert schema["at"] == schema["ended_at"] == "time"


def test_rows_are_written_in_groups_as_they_come(tmp_path: Path) -> None:
    taken, held = 0, []

    def arms() -> Iterator[LedgerLine]:
        nonlocal taken
        for taken in range(1, 25_001):
            yield ArmLine(key=f"tool:other:{taken}", token_cost=2**53 + taken)

    with (tmp_path / "arms.parquet").open("wb") as file:

        def write(piece: bytes) -> None:
            held.append(taken)
            file.write(piece)

        write_parquet(arms(), write)
    table = pq.ParquetFile(tmp_path / "arms.parquet")
    assert [table.metadata.row_group(n).num_rows for n in range(3)] == [10_000, 10_000, 5_000]
    assert {10_000, 20_000, 25_000} <= set(held)
    costs = table.read(["token_cost"])["token_cost"]
    assert costs.type == pa.int64()
    assert costs[24_999].as_py() == 2**53 + 25_000
    # A group ends once its texts have more than 200,000 characters.
    long = [ArmLine(key="tool:other:a", label="x" * 150_000) for _ in range(4)]
    with (tmp_path / "long.parquet").open("wb") as file:
        write_parquet(long, file.write)
    assert pq.ParquetFile(tmp_path / "long.parquet").metadata.num_row_groups == 2


def test_without_pyarrow_no_file_is_left(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match="needs the package pyarrow"):
        export_file(context, tmp_path / "a.parquet", "parquet")
    assert not (tmp_path / "a.parquet").exists()
    context.store.close()
