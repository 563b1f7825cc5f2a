"""Harness: the same work twice, ours and in the barest way, in turns on one machine. What counts is the ratio.

Machines are noisy, so every pair runs back to back, who goes first changes, and the median of the pairs'
ratios is judged. Milliseconds and the disk's fsync time are printed for orientation only.
"""

from __future__ import annotations

import gc
import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

import msgspec

Unit = Literal["x", "B", "MB", "/s", "pt", "/month", "share", "ms"]

_LIBRARIES: Final = ("numpy", "scipy", "sqlalchemy", "msgspec", "orjson", "streamlit", "plotly")
NEIGHBOURS: Final = ("mabwiser", "river")
"""In the extra ``bench``; measured where they are installed."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: ``figure`` is what is judged, in ``unit``; it should be at most ``goal``.

    ``goal`` None = for comparison only.
    """

    name: str
    base: str
    figure: float
    unit: Unit = "x"
    goal: float | None
    base_ms: float | None = None
    ours_ms: float | None = None
    n: int
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return "-"
        return "met" if self.figure <= self.goal else "MISSED"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much work each row does."""

    n_bulk_runs: int
    n_bulk_pairs: int
    n_session_prompts: int
    n_progress_files: int
    n_progress_pairs: int
    n_durable_pairs: int
    n_batch_rewards: int
    n_batch_pairs: int
    n_writers: int
    n_writes: int
    n_writer_rounds: int
    n_grown_from: int
    n_grown_to: int
    n_grown_runs: int
    n_grown_pairs: int
    n_summary_arms: int
    n_select_arms: int
    n_number_pairs: int
    n_inclusion_arms: int
    n_inclusion_pairs: int
    n_judged_items: int
    n_training_rows: int
    n_training_pairs: int
    n_page_runs: int
    n_page_pairs: int
    n_page_evaluations: int
    n_learners: int
    n_fleet_pairs: int
    n_screen_arms: int
    n_screen_pairs: int
    crowd_s: float
    n_clicks: int
    import_mb: int
    n_starts: int
    n_quiet_worlds: int
    n_quiet_seeds: int
    n_quiet_months: int
    n_planted_seeds: int


TINY: Final = Scale(
    n_bulk_runs=40,
    n_bulk_pairs=1,
    n_session_prompts=6,
    n_progress_files=3,
    n_progress_pairs=1,
    n_durable_pairs=2,
    n_batch_rewards=20,
    n_batch_pairs=1,
    n_writers=2,
    n_writes=3,
    n_writer_rounds=1,
    n_grown_from=60,
    n_grown_to=200,
    n_grown_runs=20,
    n_grown_pairs=1,
    n_summary_arms=300,
    n_select_arms=300,
    n_number_pairs=1,
    n_inclusion_arms=40,
    n_inclusion_pairs=1,
    n_judged_items=300,
    n_training_rows=40,
    n_training_pairs=1,
    n_page_runs=60,
    n_page_pairs=1,
    n_page_evaluations=200,
    n_learners=20,
    n_fleet_pairs=1,
    n_screen_arms=40,
    n_screen_pairs=1,
    crowd_s=0.5,
    n_clicks=0,
    import_mb=1,
    n_starts=0,
    n_quiet_worlds=1,
    n_quiet_seeds=1,
    n_quiet_months=1,
    n_planted_seeds=1,
)
QUICK: Final = Scale(
    n_bulk_runs=4_000,
    n_bulk_pairs=7,
    n_session_prompts=1_500,
    n_progress_files=300,
    n_progress_pairs=7,
    n_durable_pairs=200,
    n_batch_rewards=10_000,
    n_batch_pairs=7,
    n_writers=30,
    n_writes=40,
    n_writer_rounds=5,
    n_grown_from=10_000,
    n_grown_to=1_000_000,
    n_grown_runs=2_000,
    n_grown_pairs=7,
    n_summary_arms=100_000,
    n_select_arms=10_000,
    n_number_pairs=15,
    n_inclusion_arms=1_000,
    n_inclusion_pairs=3,
    n_judged_items=10_000,
    n_training_rows=100_000,
    n_training_pairs=3,
    n_page_runs=20_000,
    n_page_pairs=200,
    n_page_evaluations=100_000,
    n_learners=2_000,
    n_fleet_pairs=15,
    n_screen_arms=10_000,
    n_screen_pairs=15,
    crowd_s=20,
    n_clicks=0,
    import_mb=100,
    n_starts=0,
    n_quiet_worlds=20,
    n_quiet_seeds=5,
    n_quiet_months=3,
    n_planted_seeds=20,
)
FULL: Final = Scale(
    n_bulk_runs=20_000,
    n_bulk_pairs=9,
    n_session_prompts=8_000,
    n_progress_files=1_000,
    n_progress_pairs=7,
    n_durable_pairs=1_000,
    n_batch_rewards=10_000,
    n_batch_pairs=15,
    n_writers=30,
    n_writes=100,
    n_writer_rounds=9,
    n_grown_from=10_000,
    n_grown_to=1_000_000,
    n_grown_runs=2_000,
    n_grown_pairs=7,
    n_summary_arms=100_000,
    n_select_arms=10_000,
    n_number_pairs=51,
    n_inclusion_arms=1_000,
    n_inclusion_pairs=5,
    n_judged_items=10_000,
    n_training_rows=100_000,
    n_training_pairs=3,
    n_page_runs=1_000_000,
    n_page_pairs=200,
    n_page_evaluations=100_000,
    n_learners=2_000,
    n_fleet_pairs=15,
    n_screen_arms=10_000,
    n_screen_pairs=51,
    crowd_s=60,
    n_clicks=15,
    import_mb=1_000,
    n_starts=3,
    n_quiet_worlds=20,
    n_quiet_seeds=5,
    n_quiet_months=3,
    n_planted_seeds=20,
)

Benchmark = Callable[[Scale, Path], list[Row]]
Work = Callable[[int], object]


@dataclass(frozen=True)
class Pairs:
    """Medians of interleaved pairs."""

    base_ms: float
    ours_ms: float
    ratio: float
    n: int

    def row(self, name: str, base: str, goal: float | None, note: str = "") -> Row:
        return Row(
            name=name,
            base=base,
            figure=self.ratio,
            goal=goal,
            base_ms=self.base_ms,
            ours_ms=self.ours_ms,
            n=self.n,
            note=note,
        )


def pairs(base: Work, ours: Work, n: int, *, collect: bool = True) -> Pairs:
    """Time ``base`` and ``ours`` in turns; each is called with the number of its pair.

    One pair more is run first and not counted: it fills caches and loads code. ``collect`` tidies up before
    each timing, so that nobody pays for the other's garbage.
    """
    base_ms: list[float] = []
    ours_ms: list[float] = []
    for number in range(n + 1):
        works = ((base, base_ms), (ours, ours_ms))
        for work, times in works if number % 2 else reversed(works):
            if collect:
                gc.collect()
            began = time.perf_counter_ns()
            work(number)
            times.append((time.perf_counter_ns() - began) / 1e6)
    ratios = [mine / bare for mine, bare in zip(ours_ms[1:], base_ms[1:], strict=True)]
    return Pairs(statistics.median(base_ms[1:]), statistics.median(ours_ms[1:]), statistics.median(ratios), n)


def machine(folder: Path) -> dict[str, str | float | int]:
    """What the figures were measured on."""
    versions = {name: metadata.version(name) for name in _LIBRARIES}
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count() or 0,
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **versions,
        "fsync_ms": round(_fsync_ms(folder), 3),
    }


def _fsync_ms(folder: Path) -> float:
    times = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(bytes(4096))
            began = time.perf_counter_ns()
            os.fsync(file.fileno())
            times.append((time.perf_counter_ns() - began) / 1e6)
    return statistics.median(times)


def missing_neighbours() -> list[str]:
    """Neighbours that are not installed."""
    return [name for name in NEIGHBOURS if not _installed(name)]


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
