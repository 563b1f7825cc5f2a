"""Claims: how often savings are falsely proven, how soon true ones are, and how often intervals hold the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from scipy.special import betaincinv

from core.columns import UNKNOWN, Bools, Floats
from core.maths.statistics.savings import Savings, savings
from tests.bench.harness import Row, Scale
from tests.worlds.savings import Coin, Estimates, Runaways, World, answers_by_ratio, draw, measured, truth
from tests.worlds.usage import single_runs

SPREADS: Final = (0.3, 0.6, 0.9, 1.4, 1.7)
LOOKS: Final = 60
RUNS_A_LOOK: Final = 80
RATE: Final = 0.15
_SAVING: Final = 25.0
_SESSIONS: Final[tuple[tuple[int, Coin], ...]] = ((1, "run"), (8, "run"), (8, "session"))
_FALSE_GOAL: Final = 5.0
_WITHHELD_GOAL: Final = 2.0
_OFF_GOAL: Final = 2.0
_AT_ONCE: Final = 50

_UNFAIR: Final[dict[str, Callable[[Floats], Floats]]] = {
    "all baseline runs first": lambda at: (at < RATE).astype(np.float64),
    "rate doubles halfway": lambda at: np.where(at < 0.5, RATE * 2 / 3, RATE * 4 / 3),
    "rate triples for one of two models": lambda at: np.where(np.arange(len(at)) % 2, RATE * 1.5, RATE * 0.5),
}
"""Probability of a baseline run by the share of the time gone; the stored one is the same for all."""


def _n_worlds(scale: Scale, most: int) -> int:
    return min(most, 4 * scale.n_number_pairs)


def _spreads(scale: Scale) -> Sequence[float]:
    return SPREADS[: scale.n_number_pairs]


def false_proof(scale: Scale, _folder: Path) -> list[Row]:
    """Share of worlds without a saving in which any of 60 looks proves one, with and without a coin."""
    n_worlds = _n_worlds(scale, 200)
    rows = [
        _looked(
            World(n_runs=LOOKS * RUNS_A_LOOK, rate=RATE, spread=spread, session_runs=runs, coin=coin),
            n_worlds,
        )
        for spread in _spreads(scale)
        for runs, coin in _SESSIONS
    ]
    kinds: Sequence[tuple[float, Runaways]] = ((0.6, "both"), (1.3, "both"))
    rows += [
        _looked(World(n_runs=LOOKS * RUNS_A_LOOK, rate=RATE, spread=spread, runaways=away), n_worlds)
        for spread, away in kinds[: scale.n_number_pairs]
    ]
    return [*rows, *(_undrawn(name, world, scale) for name, world in _UNDRAWN.items())]


def _looked(world: World, n_worlds: int) -> Row:
    chance, ever = np.random.default_rng([61, n_worlds]), np.zeros((2, n_worlds), dtype=np.bool_)
    for first in range(0, n_worlds, _AT_ONCE):
        drawn = draw(chance, world, min(_AT_ONCE, n_worlds - first))
        for n_seen in range(RUNS_A_LOOK, world.n_runs + 1, RUNS_A_LOOK):
            answer = Estimates(world, drawn.until(n_seen)).of(1.0)
            part = slice(first, first + len(answer.proven))
            ever[:, part] |= np.stack((answer.proven, answer.costs_more))
    n_proven, n_costs = ever.sum(1).tolist()
    return Row(
        name=f"falsely proven: log-sd {world.spread:g}, {_sessions(world)}{_away(world)}",
        base="a coin, nothing saved",
        figure=100 * n_proven / n_worlds,
        unit="pt",
        goal=_FALSE_GOAL,
        n=n_worlds,
        note=f"at most {_most(n_proven, n_worlds):.1f} % (95 %); falsely dearer {100 * n_costs / n_worlds:.1f} %",
    )


def _most(hits: int, n: int) -> float:
    """Return the upper limit of a share in per cent, by Clopper and Pearson."""
    return 100.0 if hits == n else 100 * float(betaincinv(hits + 1, n - hits, 0.975))


def _sessions(world: World) -> str:
    return (
        "runs alone" if world.session_runs == 1 else f"sessions of {world.session_runs}, coin a {world.coin}"
    )


def _away(world: World) -> str:
    return "" if world.runaways == "none" else f", runaways in {world.runaways}"


# Worlds without a coin, through everything that a page computes


def _before_and_after(ramp: float) -> Callable[[np.random.Generator], tuple[Bools, Floats]]:
    def world(chance: np.random.Generator) -> tuple[Bools, Floats]:
        at = np.arange(1_000) / 1_000
        return at < 0.3, 20_000 * (1 + ramp * at) * chance.lognormal(-0.18, 0.6, 1_000)

    return world


def _coin_per_user(chance: np.random.Generator) -> tuple[Bools, Floats]:
    user = chance.integers(60, size=1_500)
    tokens = 20_000 * chance.lognormal(0, 0.6, 60)[user] * chance.lognormal(0, 0.4, 1_500)
    return (chance.random(60) < 0.2)[user], tokens


_UNDRAWN: Final = {
    "before and after, load - 30 %": _before_and_after(-0.3),
    "before and after, load + 30 %": _before_and_after(0.3),
    "a class per user": _coin_per_user,
}


def _undrawn(name: str, world: Callable[[np.random.Generator], tuple[Bools, Floats]], scale: Scale) -> Row:
    n_worlds, n_looks = _n_worlds(scale, 200), min(LOOKS, scale.n_number_pairs)
    n_proven = n_costs = n_tempted = 0
    for seed in range(n_worlds):
        is_baseline, tokens = world(np.random.default_rng([62, seed]))
        answers = [
            _page(is_baseline[:n], tokens[:n], prob=None)
            for n in np.linspace(len(tokens) / n_looks, len(tokens), n_looks).astype(int).tolist()
        ]
        n_proven += any(one.overall.verdict == "proven" for one in answers)
        n_costs += any(one.overall.verdict == "costs_more" for one in answers)
        n_tempted += any(one.overall.claimed[0] == "proven" for one in answers)
    return Row(
        name=f"falsely proven: {name}",
        base="no stored coin, nothing saved",
        figure=100 * n_proven / n_worlds,
        unit="pt",
        goal=0.0,
        n=n_worlds,
        note=f"{n_looks} looks; falsely dearer {100 * n_costs / n_worlds:.1f} %; by the tokens alone proven in "
        f"{100 * n_tempted / n_worlds:.1f} %",
    )


def _page(is_baseline: Bools, tokens: Floats, *, prob: float | None = RATE) -> Savings:
    """Return the savings of runs alone, an hour apart, two models in turn."""
    prob_micro = UNKNOWN if prob is None else round(1e6 * prob)
    columns = single_runs(is_baseline.tolist(), tokens.tolist(), prob_micro, models=("m1", "m2"))
    return savings(*columns, baseline_rate=RATE, n_arms=5)


# The balance test, power, coverage


def balance(scale: Scale, _folder: Path) -> list[Row]:
    """Share of worlds with a true saving whose claim the balance test withholds; and of unfair coins it notices."""
    n_worlds = _n_worlds(scale, 200)
    n_proven = n_withheld = 0
    for seed in range(n_worlds):
        chance = np.random.default_rng([63, seed])
        is_baseline = chance.random(1_200) < RATE
        tokens = 20_000 * np.where(is_baseline, 1, 0.75) * chance.lognormal(-0.18, 0.4, 1_200)
        answer = _page(is_baseline, tokens)
        n_proven += answer.overall.verdict == "proven"
        n_withheld += answer.overall.reason == "unbalanced"
    fair = Row(
        name="claims of a true saving withheld by the balance test",
        base="a fair coin",
        figure=100 * n_withheld / n_worlds,
        unit="pt",
        goal=_WITHHELD_GOAL,
        n=n_worlds,
        note=f"at most {_most(n_withheld, n_worlds):.1f} % (95 %); proven in {100 * n_proven / n_worlds:.1f} %",
    )
    return [fair, *(_unfair(name, prob, n_worlds) for name, prob in _UNFAIR.items())]


def _unfair(name: str, prob: Callable[[Floats], Floats], n_worlds: int) -> Row:
    n_missed = 0
    for seed in range(n_worlds):
        chance = np.random.default_rng([64, seed])
        at = np.arange(1_200) / 1_200
        is_baseline = chance.random(1_200) < prob(at)
        n_missed += not _page(is_baseline, 20_000 * chance.lognormal(-0.18, 0.6, 1_200)).balance.fails
    return Row(
        name=f"unfair coins not noticed: {name}",
        base="one stored probability",
        figure=100 * n_missed / n_worlds,
        unit="pt",
        goal=None,
        n=n_worlds,
        note="1,200 runs",
    )


def power(scale: Scale, _folder: Path) -> list[Row]:
    """Share of worlds with a saving of 25 % in which it is proven, by runs, spread and sessions."""
    n_worlds, rows = _n_worlds(scale, 200), []
    for spread in _spreads(scale):
        for runs, coin in _SESSIONS:
            world = World(n_runs=1_200, rate=RATE, spread=spread, session_runs=runs, coin=coin)
            shares = {n: _proven(replace(world, n_runs=n), n_worlds) for n in (1_200, 2_400, 4_800, 9_600)}
            rows.append(
                Row(
                    name=f"25 % proven: log-sd {spread:g}, {_sessions(world)}",
                    base="1,200 runs",
                    figure=100 * shares[1_200],
                    unit="pt",
                    goal=None,
                    n=n_worlds,
                    note=", ".join(f"{n:,} runs: {share:.0%}" for n, share in shares.items()),
                )
            )
    return rows


def _proven(world: World, n_worlds: int) -> float:
    ratio = 1 - _SAVING / 100
    return float(
        np.concatenate(
            [one[ratio].proven for one in answers_by_ratio(world, n_worlds, ratios=(ratio,))]
        ).mean()
    )


def coverage(scale: Scale, _folder: Path) -> list[Row]:
    """Share of intervals of the capped figure that hold its truth, and that truth where all runs save 25 %."""
    return [_covered(world, _n_worlds(scale, 2_000) * 10) for world in _covered_worlds(_spreads(scale))]


def _covered_worlds(spreads: Sequence[float]) -> Iterator[World]:
    for spread in spreads:
        for runs, coin in _SESSIONS:
            yield World(
                n_runs=2_400, rate=RATE, spread=spread, session_runs=runs, coin=coin, ratio=1 - _SAVING / 100
            )


def _covered(world: World, n_worlds: int) -> Row:
    result = measured(world, n_worlds)
    held = 100 * result.held["capped"]
    return Row(
        name=f"capped interval off 95 %: log-sd {world.spread:g}, {_sessions(world)}",
        base="the true figure",
        figure=abs(held - 95),
        unit="pt",
        goal=_OFF_GOAL,
        n=n_worlds,
        note=f"estimand {truth(world)['capped']:.1f} %; {held:.1f} % hold it of {result.given['capped']:.0%} given",
    )
