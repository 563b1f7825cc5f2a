"""Episodes: read in, recorded step by step, shown and looked over, against runs, the driver, and NumPy alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from core.flows import queries
from core.flows.context import Context
from core.flows.episode import record_step
from core.flows.importing import import_files
from core.formats.armscope import write
from core.records.episode import Episode, Scale, Step
from core.records.episode_page import EpisodeCursor
from core.statistics.rewards.lint import FINDINGS, findings_in
from core.statistics.rewards.paid import Paid, columns_of
from core.store.episodes import tell_episodes
from core.store.reads.episodes import alike_columns, environment_names, episode_columns
from core.store.transaction import Snapshot
from tests.bench import bare, harness
from tests.bench.harness import Row, pairs
from tests.bench.worlds import MINUTE_MS, START_MS, context_at, runs

N_STEPS: Final = 30
_BATCH: Final = 2_000
_MOST: Final = 100_000
_STEPS_BEFORE: Final = 10
_ALIKE: Final = (
    "SELECT environment_no, split, task, variant, model, finished, total_text, final_text, n"
    " FROM environment_task WHERE learner_id = 1"
)
_EACH: Final = (
    "SELECT environment_no, split, task, variant, model, coalesce(at_ms, -1), finished, total, final FROM episode"
    " WHERE learner_id = 1 AND standing = 1 AND environment_no = 2"
)


def episode(number: int) -> Episode:
    """One of four environments, by one of three models, at one of a thousand tasks."""
    at_ms = START_MS + number * MINUTE_MS
    steps = [
        Step(number=at, name="bash", reward=0.1 if at % 3 else None, at_ms=at_ms + at, n_chars_in=12 + at)
        for at in range(N_STEPS - 1)
    ]
    end = Step(number=N_STEPS - 1, name="submit", reward=float(number * 7 % 10 < 6), finished=True)
    return Episode(
        uid=f"e{number}",
        environment=f"env/{number % 4}",
        split="train",
        task=f"t{number % 997}",
        model=f"m{number % 3}",
        at_ms=at_ms,
        steps=(*steps, end),
    )


def from_lines(scale: harness.Scale, folder: Path) -> list[Row]:
    """An import of episodes against one of as many runs with as many arms."""
    n = scale.n_bulk_runs // 2
    told = {"runs": folder / "runs.jsonl", "episodes": folder / "episodes.jsonl"}
    told["runs"].write_bytes(b"".join(write(list(runs(n, n_arms=N_STEPS)))))
    told["episodes"].write_bytes(b"".join(write([episode(number) for number in range(n)])))

    def read(what: str, number: int) -> None:
        context = context_at(folder / f"{what}-{number}.db")
        import_files(context, [told[what]])
        context.store.close()

    timed = pairs(partial(read, "runs"), partial(read, "episodes"), scale.n_bulk_pairs)
    return [timed.row(f"import of {n:,} episodes × {N_STEPS} steps", f"of {n:,} runs × {N_STEPS} arms", 2.0)]


def one_step(scale: harness.Scale, folder: Path) -> list[Row]:
    """One recorded step, on disk, against the rows it changes as driver statements."""
    n = scale.n_durable_pairs
    warm = context_at(folder / "warm.db")
    for _ in range(_STEPS_BEFORE):
        record_step(warm, "e", environment="env", name="bash", reward=0.1)
    warm.store.close()
    context = context_at(bare.copied(folder / "warm.db", folder / "ours.db"))
    driver = bare.connect(bare.copied(folder / "warm.db", folder / "base.db"))
    timed = pairs(
        lambda number: _put(driver, _STEPS_BEFORE + number),
        lambda _: record_step(context, "e", name="bash", reward=0.1),
        n,
        collect=False,
    )
    driver.close()
    context.store.close()
    ours, base = (_recorded(folder / name) for name in ("ours.db", "base.db"))
    if ours != base:
        raise AssertionError(f"both must have recorded the same steps, got {ours} and {base}")
    return [timed.row("one recorded step, durable", "the same rows as driver statements", 2.0)]


def _recorded(path: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(path)) as driver:
        return driver.execute("SELECT n_steps, total_text FROM episode").fetchall()


def _put(driver: sqlite3.Connection, number: int) -> None:
    """The learner's counter, the step, and what the episode, who told it, its day and its task came to."""
    total = f"{(number + 1) / 10:.10f}".rstrip("0").rstrip(".")
    driver.execute("BEGIN IMMEDIATE")
    driver.execute("UPDATE learner SET revision = revision + 1, token = ? WHERE learner_id = 1", [number])
    driver.execute(
        "INSERT INTO step (learner_id, episode_no, step_no, kind, name, reward, finished, refused, at_ms)"
        " VALUES (1, 1, ?, 'call', 'bash', 0.1, 0, 0, ?)",
        [number, START_MS],
    )
    driver.execute(
        "UPDATE episode SET n_steps = ?, n_paid = ?, total_text = ?, total = ?, digest = ?"
        " WHERE learner_id = 1 AND episode_no = 1",
        [number + 1, number + 1, total, float(total), number],
    )
    driver.execute(
        "UPDATE provenance SET rank = rank + 1, digest = ? WHERE learner_id = 1 AND kind = 'episode' AND no = 1",
        [number],
    )
    driver.execute("UPDATE environment_day SET reward_sum = ?, reward_squares = ?", [total, total])
    driver.execute("UPDATE environment_task SET digest = ?, total_text = ?", [f"{number:032}", total])
    driver.execute("COMMIT")


def data(scale: harness.Scale, folder: Path) -> list[Row]:
    """What Episodes and Environment read, against the same statement; whole answers; one of them, however deep."""
    n = min(scale.n_page_runs, _MOST)
    context = filled(folder / "ours.db", n)
    driver = sqlite3.connect(folder / "ours.db")
    what, n_pairs = f"{n:,} episodes × {N_STEPS} steps", max(scale.n_page_pairs // 20, 1)

    def fetch(sql: str, _: int) -> None:
        driver.execute(sql).fetchall()

    def read(columns: Callable[[Snapshot], object], _: int) -> None:
        with context.reading() as snapshot:
            columns(snapshot)

    with context.reading() as snapshot:
        named = environment_names(snapshot)
    rows = []
    for name, sql, columns in (
        ("episodes", _ALIKE, lambda snapshot: alike_columns(snapshot, named)),
        ("environment", _EACH, lambda snapshot: episode_columns(snapshot, 2)),
    ):
        timed = pairs(partial(fetch, sql), partial(read, columns), n_pairs, collect=False)
        rows.append(timed.row(f"page data: {name}, {what}", "its rollup's own SQL", 1.5))
    for name, sql, ask in (
        ("episodes, without patterns", _ALIKE, lambda: queries.episodes(context, with_design=False)),
        ("episodes", _ALIKE, lambda: queries.episodes(context)),
        ("environment", _EACH, lambda: queries.environment(context, "env/1")),
    ):
        timed = pairs(partial(fetch, sql), partial(_ask, ask), n_pairs, collect=False)
        rows.append(timed.row(f"whole answer: {name}, {what}", "its rollup's own SQL", 8.0))
    last = EpisodeCursor(START_MS + 60 * MINUTE_MS, 61)
    timed = pairs(
        lambda _: queries.episode_list(context),
        lambda _: queries.episode_list(context, cursor=last),
        scale.n_page_pairs,
        collect=False,
    )
    rows.append(timed.row("page of episodes, the last one", "the first page of episodes", 1.5))
    timed = pairs(
        lambda _: queries.episode(context, "e0"),
        lambda _: queries.episode(context, f"e{n - 1}"),
        scale.n_page_pairs,
        collect=False,
    )
    rows.append(timed.row("one episode, the last", "the first", 1.5))
    driver.close()
    context.store.close()
    return rows


def _ask(ask: Callable[[], object], _: int) -> None:
    ask()


def filled(path: Path, n: int) -> Context:
    """A learner of which so many episodes are told."""
    context = context_at(path)
    for first in range(0, n, _BATCH):
        told = [episode(number) for number in range(first, min(n, first + _BATCH))]
        context.write("ingest", partial(tell_episodes, lines=told), create=True)
    return context


def lint(scale: harness.Scale, folder: Path) -> list[Row]:
    """All findings against as many passes of NumPy over the rewards, by episode."""
    n = scale.n_judged_items
    paid = columns_of([episode(number) for number in range(n)], Scale())
    timed = pairs(lambda _: _passes(paid), lambda _: findings_in(paid), scale.n_number_pairs)
    return [timed.row(f"lint of {n:,} episodes × {N_STEPS} steps", "one NumPy pass a finding", 2.0)]


def _passes(paid: Paid) -> None:
    for _ in FINDINGS:
        np.bincount(paid.episode, weights=np.nan_to_num(paid.reward), minlength=paid.n)
