"""Judgements: how often intervals hold the true rate where runs of one session are alike, and who is judged."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from core.records.judgement import ENOUGH_PULLS
from tests.bench.harness import Row, Scale
from tests.statistics.clustered import CORRELATIONS, RATES, cover, decided, world

_SHAPES: Final[tuple[tuple[int, int | None], ...]] = tuple(product((10, 20, 30, 100), (3, 10, 30, None)))
"""Sessions, and runs in each; None: geometric, 2.9 on average."""
_DISTANCE: Final = 0.3
_LOST_GOAL: Final = 5.0
_WRONG_GOAL: Final = 10.0
_OFF_GOAL: Final = 2.0
_BASE: Final = "the true rate"


def judgements(scale: Scale, _folder: Path) -> list[Row]:
    """Coverage, power, and the arms that independent runs lose, by sessions, size, correlation and rate."""
    n_arms = scale.n_number_pairs * 100
    rng = np.random.default_rng(31)
    rows = [
        _covered(rng, n_arms, *shape, correlation) for correlation, shape in product(CORRELATIONS, _SHAPES)
    ]
    rows += [_pooled(rng, n_arms, correlation) for correlation in CORRELATIONS]
    rows += [_power(rng, n_arms, rate, sign) for rate in (0.35, 0.5, 0.65) for sign in (-1, 1)]
    return [*rows, *(_lost(rng, n_arms, *shape) for shape in _SHAPES)]


def _covered(
    rng: np.random.Generator, n_arms: int, n_sessions: int, size: int | None, correlation: float
) -> Row:
    """Return the rate whose share of intervals that hold it lies farthest from 95 of 100."""
    parts = []
    for rate in RATES:
        share, n_judged = cover(world(rng, (n_arms, n_sessions), size, correlation=correlation, rate=rate))
        parts.append((share, n_judged, rate))
    shown = ", ".join(f"{rate:g}: {share:.1%} of {n_judged:.0%}" for share, n_judged, rate in parts)
    farthest = max((abs(100 * share - 95) for share, n_judged, _ in parts if n_judged), default=0.0)
    return Row(
        name=f"off 95 %: {n_sessions} x {size or 'few'}, intra-class {correlation:g}",
        base=_BASE,
        figure=farthest,
        unit="pt",
        goal=_OFF_GOAL,
        n=n_arms * len(RATES),
        note=shown,
    )


def _pooled(rng: np.random.Generator, n_arms: int, correlation: float) -> Row:
    """Return the same of all shapes and rates, each judged interval counted once."""
    shares = [
        cover(world(rng, (n_arms, n_sessions), size, correlation=correlation, rate=rate))
        for (n_sessions, size), rate in product(_SHAPES, RATES)
    ]
    n_judged = sum(judged for _, judged in shares)
    held = sum(share * judged for share, judged in shares if judged) / n_judged
    return Row(
        name=f"off 95 %: all shapes, intra-class {correlation:g}",
        base=_BASE,
        figure=abs(100 * held - 95),
        unit="pt",
        goal=_OFF_GOAL,
        n=round(n_judged * n_arms),
        note=f"{held:.2%} hold it",
    )


def _power(rng: np.random.Generator, n_arms: int, rate: float, sign: int) -> Row:
    found = decided(world(rng, (n_arms, 100), 10, correlation=0.1, rate=rate), rate + sign * _DISTANCE)
    return Row(
        name=f"not judged rightly: rate {rate:g}, break-even {rate + sign * _DISTANCE:g}",
        base="100 sessions x 10 runs, intra-class .1",
        figure=float(100 * (found != -sign).mean()),
        unit="pt",
        goal=_WRONG_GOAL,
        n=n_arms,
        note=f"{(found == sign).mean():.2%} judged wrongly",
    )


def _lost(rng: np.random.Generator, n_arms: int, n_sessions: int, size: int | None) -> Row:
    """Return the arms that are too early by effective pulls, of those with enough pulls."""
    lost = []
    for rate in RATES:
        one = world(rng, (n_arms, n_sessions), size, correlation=0.0, rate=rate)
        before = float((one.size.sum(axis=1) >= ENOUGH_PULLS).mean())
        lost.append(100 * (before - cover(one)[1]))
    return Row(
        name=f"independent runs, arms lost: {n_sessions} x {size or 'few'}",
        base="arms of 20 pulls",
        figure=max(float(np.mean(lost)), 0.0),
        unit="pt",
        goal=_LOST_GOAL,
        n=n_arms * len(RATES),
        note=", ".join(f"{rate:g}: {one:.1f}" for rate, one in zip(RATES, lost, strict=True)),
    )
