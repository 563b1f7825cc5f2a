"""Findings of rewards: recall of each planted fault, and precision of each kind, on dice that no test has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from core.records.episode import FINDING_KINDS, FindingKind
from core.statistics.rewards.lint import lint
from tests.bench import harness
from tests.bench.harness import Row
from tests.statistics.rewards.planted import FAULTS, GOOD, Found, Planted, found

_SIZES: Final = (10, 30, 100, 300)
_SEEDS: Final = range(1_000, 1_020)
_FEW_SEEDS: Final = range(1_000, 1_002)


def planted(scale: harness.Scale, _: Path) -> list[Row]:
    """Planted faults and good environments, in worlds of 10 to 300 episodes."""
    is_tiny = scale is harness.TINY
    sizes, seeds = ((100,), _FEW_SEEDS) if is_tiny else (_SIZES, _SEEDS)
    return [row for n in sizes for row in _rows(n, list(found(_kinds, n, seeds)))]


def _kinds(world: Planted, n: int, seed: int) -> set[FindingKind]:
    return {one.kind for one in lint(world.episodes(n, seed), world.scale)}


def _rows(n: int, results: list[Found]) -> list[Row]:
    faults, good = results[: len(FAULTS)], results[len(FAULTS) :]
    rows = [
        Row(
            name=f"recall, {one.planted.kind}: {one.planted.name}",
            base=f"{n} episodes",
            figure=one.n_found / one.n_worlds,
            goal=None,
            n=one.n_worlds,
            note=f"another finding in {one.n_false}",
        )
        for one in faults
    ]
    for kind in FINDING_KINDS:
        right = sum(kind in kinds and kind in one.there for one in results for kinds in one.kinds)
        wrong = sum(kind in kinds and kind not in one.there for one in results for kinds in one.kinds)
        if right + wrong:
            rows.append(
                Row(
                    name=f"precision, {kind}",
                    base=f"{n} episodes",
                    figure=right / (right + wrong),
                    goal=None,
                    n=right + wrong,
                )
            )
    n_good = sum(one.n_worlds for one in good)
    rows.append(
        Row(
            name="good environments without a finding",
            base=f"{n} episodes",
            figure=1 - sum(one.n_false for one in good) / n_good,
            goal=None,
            n=n_good,
            note=f"{len(GOOD)} kinds",
        )
    )
    return rows
