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

Work = Callable[[int], object]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: ``figure``, in ``unit``, should be at most ``goal``; None = for comparison only."""

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


def hits_of(base: str, name: str, hits: int, n: int, *, goal: float, note: str) -> Row:
    """Return a row of a share in per cent."""
    return Row(name=name, base=base, figure=100 * hits / n, unit="pt", goal=goal, n=n, note=note)


class _Size:
    """Size of a benchmark by scale."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def __get__(self, scale: Scale, _owner: type[Scale]) -> int:
        return self.sizes[scale.number]


@dataclass(frozen=True)
class Scale:
    """How much work each row does: tiny, quick, full."""

    number: int

    n_bulk_runs = _Size(40, 4_000, 20_000)
    n_bulk_pairs = _Size(1, 7, 9)
    n_session_prompts = _Size(6, 1_500, 8_000)
    n_progress_files = _Size(3, 300, 1_000)
    n_progress_pairs = _Size(1, 7, 7)
    n_durable_pairs = _Size(2, 200, 1_000)
    n_batch_rewards = _Size(20, 10_000, 10_000)
    n_batch_pairs = _Size(1, 7, 15)
    n_writers = _Size(2, 30, 30)
    n_writes = _Size(3, 40, 100)
    n_writer_rounds = _Size(1, 5, 9)
    n_grown_from = _Size(60, 10_000, 10_000)
    n_grown_to = _Size(200, 1_000_000, 1_000_000)
    n_grown_runs = _Size(20, 2_000, 2_000)
    n_grown_pairs = _Size(1, 7, 7)
    n_summary_arms = _Size(300, 100_000, 100_000)
    n_select_arms = _Size(300, 10_000, 10_000)
    n_number_pairs = _Size(1, 15, 51)
    n_inclusion_arms = _Size(40, 1_000, 1_000)
    n_inclusion_pairs = _Size(1, 3, 5)
    n_training_rows = _Size(40, 100_000, 100_000)
    n_training_pairs = _Size(1, 3, 3)
    n_page_runs = _Size(60, 20_000, 1_000_000)
    n_page_pairs = _Size(1, 200, 200)
    n_page_evaluations = _Size(200, 100_000, 100_000)
    n_learners = _Size(20, 2_000, 2_000)
    n_fleet_pairs = _Size(1, 15, 15)
    n_screen_arms = _Size(40, 10_000, 10_000)
    n_screen_pairs = _Size(1, 15, 51)
    n_clicks = _Size(0, 0, 15)
    import_mb = _Size(1, 100, 1_000)

    @property
    def crowd_s(self) -> float:
        return (0.5, 20.0, 60.0)[self.number]

    @property
    def n_planted(self) -> int:
        """Number of planted worlds of a kind."""
        return 400 if self.n_number_pairs > 40 else min(40, 3 * self.n_number_pairs - 2)


TINY, QUICK, FULL = map(Scale, range(3))

Benchmark = Callable[[Scale, Path], list[Row]]


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
    each timing, so that no one pays for the other's garbage.
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
