"""Holds: what the arms of sessions cost in full, redrawn and held prompts, over cache prices, runs and calls.

Each cell plays sessions with arms of planted usefulness and a cache that forgets after five minutes. The cache is
followed prompt by prompt: a call reads the longest front of its prompt that is warm and writes the rest. The figures
that are judged: a held prompt against the cheapest with five runs or more, and how often the product names the
cheapest kind.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from core.columns import ArmColumns
from core.maths.policy import pack
from core.maths.statistics.cheapest import PromptKind, prompt_costs, prompt_rates
from core.records.learner import LearnerSettings
from tests.bench.harness import Row, Scale
from tests.worlds.columns import arms

READS: Final = (0.05, 0.1, 0.25, 0.5, 1.0)
RUNS: Final = (1, 2, 3, 5, 10, 20, 40)
CALLS: Final = (1, 2, 3, 5, 10, 23, 40)
PAUSES_MS: Final = {"cold": 30 * 60_000, "warm": 60_000}
"""Time between sessions: the full prompt of the one before is forgotten, or it is still warm."""
_KINDS: Final[tuple[PromptKind, ...]] = ("full", "redrawn", "held")
_IDLE_MS: Final = 5 * 60_000
_RUN_MS: Final = 60_000
_N_ARMS: Final = 30
_TOKENS: Final = 100
_BUDGET: Final = 2_000
_MANY_RUNS: Final = 5
_TOLERANCE: Final = 1.03


@dataclass(frozen=True)
class Cell:
    """One combination: price of a cached read, mean runs of a session, mean calls of a run, and the pauses."""

    read: float
    runs: int
    calls: int
    pause: str

    @property
    def write(self) -> float:
        return 1.25 if self.read < 1 else 1.0


@dataclass
class Sums:
    """Cost of all sessions in input tokens, and usefulness that was left out, over the runs."""

    cost: float = 0.0
    regret: float = 0.0
    n_runs: int = 0


class Cache:
    """A provider's cache of prompts: what a call pays for a prompt of equal arms, in input tokens."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._used_ms: dict[tuple[int, ...], int] = {}

    def cost(self, prompt: tuple[int, ...], at_ms: int, n_calls: int) -> float:
        """Return the cost of some calls in a row with one prompt."""
        self._used_ms = {one: used for one, used in self._used_ms.items() if at_ms - used <= _IDLE_MS}
        n_warm = max((_common(one, prompt) for one in self._used_ms), default=0)
        self._used_ms[prompt] = at_ms
        first = n_warm * self._cell.read + (len(prompt) - n_warm) * self._cell.write
        return _TOKENS * (first + (n_calls - 1) * len(prompt) * self._cell.read)


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    n_same = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        n_same += 1
    return n_same


def prompts(scale: Scale, _folder: Path) -> list[Row]:
    """Costs and regrets of the three kinds of prompts in every cell."""
    n_sessions = 60 if scale.n_bulk_runs > 100_000 else min(24, scale.n_bulk_runs // 20)
    cells = [Cell(*one) for one in _product()]
    worst: dict[str, float] = defaultdict(float)
    n_right = 0
    _say(
        "cache read, runs a session, calls a run, pause: cost of full, redrawn, held; regret; cheapest, named"
    )
    for number, cell in enumerate(cells):
        sums, named = _played(cell, n_sessions, seed=number)
        cost = {kind: sums[kind].cost / n_sessions for kind in _KINDS}
        best = min(_KINDS, key=cost.__getitem__)
        n_right += cost[named] <= _TOLERANCE * cost[best]
        if cell.runs >= _MANY_RUNS and cell.read < 1:
            worst[cell.pause] = max(worst[cell.pause], cost["held"] / cost[best])
        shown = " ".join(f"{cost[kind]:10,.0f}" for kind in _KINDS)
        regrets = " ".join(f"{sums[kind].regret / sums[kind].n_runs:.3f}" for kind in _KINDS)
        _say(
            f"{cell.read:5.2f} {cell.runs:3} {cell.calls:3} {cell.pause}: {shown}; {regrets}; {best}, {named}"
        )
    return [
        Row(
            name="held against the cheapest, 5 runs or more, sessions that begin cold",
            base="the cheapest of full, redrawn and held",
            figure=worst["cold"],
            goal=_TOLERANCE,
            n=len(cells),
        ),
        Row(
            name="held against the cheapest, 5 runs or more, full prompt kept warm by others",
            base="the cheapest of full, redrawn and held",
            figure=worst["warm"],
            goal=None,
            n=len(cells),
        ),
        Row(
            name="cells where the kind that is named costs more than 1.03 of the cheapest",
            base="all cells",
            figure=1 - n_right / len(cells),
            unit="share",
            goal=0.05,
            n=len(cells),
        ),
    ]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _product() -> list[tuple[float, int, int, str]]:
    return [
        (read, runs, calls, pause)
        for read in READS
        for runs in RUNS
        for calls in CALLS
        for pause in PAUSES_MS
    ]


def _played(cell: Cell, n_sessions: int, *, seed: int) -> tuple[dict[PromptKind, Sums], PromptKind]:
    """Play the sessions of a cell with each kind; the sums, and the kind that the product names."""
    dice = np.random.default_rng(seed)
    useful = dice.beta(1, 3, _N_ARMS)
    n_runs = 1 + dice.poisson(cell.runs - 1, n_sessions)
    session = np.repeat(np.arange(n_sessions), n_runs)
    n_calls = 1 + dice.poisson(cell.calls - 1, len(session))
    at_ms = np.cumsum(np.where(np.diff(session, prepend=-1) > 0, PAUSES_MS[cell.pause], _RUN_MS))
    sums: dict[PromptKind, Sums] = {}
    n_chosen = 0.0
    for kind in _KINDS:
        sums[kind], n_arms = _paid(cell, kind, (session, at_ms, n_calls), useful, seed)
        n_chosen = n_arms if kind != "full" else n_chosen
    rates = prompt_rates(session, at_ms, n_calls, _IDLE_MS)
    costs = prompt_costs(
        rates, _N_ARMS * _TOKENS, n_chosen * _TOKENS, read_ratio=cell.read, write_ratio=cell.write
    )
    return sums, costs.cheapest


def _paid(
    cell: Cell,
    kind: PromptKind,
    runs: tuple[np.ndarray, np.ndarray, np.ndarray],
    useful: np.ndarray,
    seed: int,
) -> tuple[Sums, float]:
    dice = np.random.default_rng((seed, _KINDS.index(kind)))
    settings = LearnerSettings(budget_tokens=_BUDGET, baseline_rate=0.0, seed_arms=(), min_pulls=0)
    arms, cache, result = _arms(), Cache(cell), Sums()
    best = float(np.sort(useful)[-_BUDGET // _TOKENS :].sum())
    prompt, last, n_arms = tuple(range(_N_ARMS)), -1, 0
    for session, at_ms, n_calls in zip(*(one.tolist() for one in runs), strict=True):
        if kind == "redrawn" or (kind == "held" and session != last):
            packed = pack(arms, settings, seed=int(dice.integers(1 << 62)))
            prompt = tuple(packed.included_places.tolist())
        last, n_arms = session, n_arms + len(prompt)
        result.cost += cache.cost(prompt, at_ms, n_calls)
        result.regret += max(best - float(useful[list(prompt)].sum()), 0.0)
        result.n_runs += 1
        hit = np.zeros(_N_ARMS, dtype=np.int64)
        hit[list(prompt)] = dice.random(len(prompt)) < useful[list(prompt)]
        pulled = np.zeros(_N_ARMS, dtype=np.int64)
        pulled[list(prompt)] = 1
        arms = replace(
            arms,
            success_micro=arms.success_micro + hit * 1_000_000,
            failure_micro=arms.failure_micro + (pulled - hit) * 1_000_000,
            pulls=arms.pulls + pulled,
        )
    return result, n_arms / result.n_runs


def _arms() -> ArmColumns:
    return arms([f"tool:other:t{number:02}" for number in range(_N_ARMS)], costs=[_TOKENS] * _N_ARMS)
