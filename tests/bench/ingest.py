"""Ingest: many runs at once, from records, our own lines and transcripts; and what they take on disk."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record_all
from tests.bench import bare
from tests.bench.harness import Row, Scale, pairs
from tests.bench.worlds import N_ARMS, context_at, runs, write_lines, write_session

_TABLE: Final = (
    "CREATE TABLE outcome (learner_id INTEGER NOT NULL, run_no BIGINT NOT NULL, arm_no BIGINT NOT NULL,"
    " flags BIGINT NOT NULL, token_cost BIGINT NOT NULL, PRIMARY KEY (learner_id, run_no, arm_no))"
    " WITHOUT ROWID"
)


_COUNTED: Final = ("outcome", "arm_hour", "arm_day", "usage_hour", "usage_day", "posterior")


def from_records(scale: Scale, folder: Path) -> list[Row]:
    """Runs as records, with posterior, rollups and everything else that is kept of a run."""
    told = list(runs(scale.n_bulk_runs))
    return [
        _against_rows(
            "bulk ingest from records", 1.3, scale, folder, lambda context: record_all(context, told)
        )
    ]


def from_lines(scale: Scale, folder: Path) -> list[Row]:
    """The same runs from a file of our own JSON lines."""
    path = folder / "runs.jsonl"
    write_lines(path, scale.n_bulk_runs)
    return [
        _against_rows(
            "bulk ingest from our JSON lines",
            1.7,
            scale,
            folder,
            lambda context: import_files(context, [path]),
        )
    ]


def _against_rows(
    name: str, goal: float, scale: Scale, folder: Path, ingest: Callable[[Context], object]
) -> Row:
    """Ingest into fresh databases against writing only the outcome rows that come of it."""
    twin = context_at(folder / "twin.db")
    ingest(twin)
    twin.store.close()
    rows = _outcomes(folder / "twin.db")
    contexts = [context_at(folder / f"ours-{number}.db") for number in range(scale.n_bulk_pairs + 1)]
    drivers = [bare.connect(folder / f"base-{number}.db") for number in range(scale.n_bulk_pairs + 1)]
    for driver in drivers:
        driver.execute(_TABLE)
    timed = pairs(
        lambda number: _insert(drivers[number], rows),
        lambda number: ingest(contexts[number]),
        scale.n_bulk_pairs,
    )
    for driver, context in zip(drivers, contexts, strict=True):
        driver.close()
        context.store.close()
    _check(folder, rows)
    note = f"{scale.n_bulk_runs:,} runs, {N_ARMS} arms; {_rate(rows, timed.ours_ms)}"
    return timed.row(name, "executemany of the outcome rows alone", goal, note)


def from_transcripts(scale: Scale, folder: Path) -> list[Row]:
    """A Claude Code session, read, detected, judged and stored."""
    path = folder / "session.jsonl"
    write_session(path, scale.n_session_prompts)
    contexts = [context_at(folder / f"ours-{number}.db") for number in range(scale.n_bulk_pairs + 1)]
    timed = pairs(
        lambda _: _read(path), lambda number: import_files(contexts[number], [path]), scale.n_bulk_pairs
    )
    for context in contexts:
        context.store.close()
    note = f"{scale.n_session_prompts:,} prompts, {path.stat().st_size / 1e6:.0f} MB"
    return [
        timed.row(
            "transcripts (Claude Code)", "json.loads of each line and one pass over the text", 2.5, note
        )
    ]


def disk(scale: Scale, folder: Path) -> list[Row]:
    """Bytes on disk for each outcome: the rows themselves and the rollups."""
    context = context_at(folder / "ours.db")
    n_runs = max(scale.n_bulk_runs, 40)
    record_all(context, list(runs(n_runs)))
    context.store.close()
    with sqlite3.connect(folder / "ours.db") as driver:
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (n_outcomes,) = driver.execute("SELECT count(*) FROM outcome").fetchone()
        sizes = dict(_sizes(driver))
    driver.close()
    row = sizes["outcome"] / n_outcomes
    cached = sum(sizes[name] for name in _COUNTED) / n_outcomes
    whole = (folder / "ours.db").stat().st_size / n_outcomes
    note = f"outcome row {row:.1f} B; whole file {whole:.1f} B (runs with their text ids included)"
    return [
        Row(
            name="disk per outcome",
            base="17 B row",
            figure=cached,
            unit="B",
            goal=20,
            n=n_outcomes,
            note=note,
        )
    ]


def _sizes(driver: sqlite3.Connection) -> list[tuple[str, int]]:
    """Bytes of each table. Where SQLite was built without its statistics, by copying each into a file."""
    try:
        return driver.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
    except sqlite3.OperationalError:
        return [(name, _alone(driver, name)) for name in _COUNTED]


def _alone(driver: sqlite3.Connection, table: str) -> int:
    (made,) = driver.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).fetchone()
    rows = driver.execute(f"SELECT * FROM {table}").fetchall()
    with sqlite3.connect(":memory:") as copy:
        copy.execute(made)
        if rows:
            copy.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        (n_pages,), (page,) = (
            copy.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
        )
    copy.close()
    return int((n_pages - 1) * page)


def _outcomes(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as driver:
        rows = driver.execute("SELECT * FROM outcome").fetchall()
    driver.close()
    return rows


def _insert(driver: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    driver.execute("BEGIN IMMEDIATE")
    driver.executemany("INSERT INTO outcome VALUES (?, ?, ?, ?, ?)", rows)
    driver.execute("COMMIT")


def _read(path: Path) -> int:
    """The barest reader: every line decoded, every text looked at once."""
    seen = 0
    with path.open("rb") as file:
        for raw in file:
            content = json.loads(raw).get("message", {}).get("content", "")
            for text in (
                [content] if isinstance(content, str) else [block.get("text", "") for block in content]
            ):
                seen += text.casefold().count("read")
    return seen


def _rate(rows: list[tuple[Any, ...]], ms: float) -> str:
    return f"{len(rows) / ms / 1000:.2f} M rows/s"


def _check(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    for name in ("base", "ours"):
        if _outcomes(folder / f"{name}-0.db") != rows:
            raise AssertionError(f"{name} must hold the same outcomes")
