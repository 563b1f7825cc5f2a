"""Worlds whose savings are known, many at once: what the estimates say of each, against the truth.

Everything after the drawing is the product's own: size classes, the cap, sums, sessions, comparisons, claims. Only
the adding up is done here for many worlds in one go (a world leads, as a day does in a path).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from core.columns import Bools, Floats, Ints
from core.maths.statistics.savings.cap import OwnCaps, own_caps, relative_caps
from core.maths.statistics.savings.comparison import LARGEST, is_narrow
from core.maths.statistics.savings.ratio import Compared, compare
from core.maths.statistics.savings.sessions import SessionSums
from core.maths.statistics.savings.sums import SELECTED, StratumSums
from core.maths.statistics.savings.verdict import claims

Runaways = Literal["none", "both", "selected"]
Coin = Literal["run", "session"]
Way = Literal["mean", "typical", "capped"]
WAYS: Final[tuple[Way, ...]] = ("mean", "typical", "capped")

MODELS: Final = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
"""How often each of six models is asked; the dearest costs eight times as much as the cheapest."""
SCALES: Final = np.geomspace(1, 8, len(MODELS))
RUNAWAY_SHARE: Final = 0.03
RUNAWAY_TIMES: Final = 30.0
ALIKE: Final = 0.5
"""Of the variance of a run's logarithm, the part that its session has in common."""
CHANGED: Final = (0.4, 1.6)
"""By how much the rate is off its mean in both halves where it changes: to four times of what it was."""
BASELINE_TOKENS: Final = 20_000.0
_AT_ONCE: Final = 300_000

SIZES: Final = ((30, 270), (100, 900), (200, 2_000))
SPREADS: Final = (0.3, 0.6, 1.0, 1.3, 1.7)
SESSIONS: Final[tuple[tuple[int, Coin], ...]] = (
    (1, "run"),
    (10, "run"),
    (10, "session"),
    (30, "run"),
    (30, "session"),
)
RUNAWAYS: Final[tuple[Runaways, ...]] = ("none", "both", "selected")


@dataclass(frozen=True, kw_only=True)
class World:
    """How runs come about. ``rate`` is that of the coin on average, ``ratio`` what selecting makes of the tokens of a
    run, ``ramp`` by how much more the load is at the end (-.5: half).
    """

    n_runs: int
    rate: float
    spread: float
    runaways: Runaways = "none"
    session_runs: int = 1
    coin: Coin = "run"
    n_models: int = 1
    is_changed: bool = False
    ratio: float = 0.65
    ramp: float = 0.0

    @property
    def n_strata(self) -> int:
        return self.n_models * (2 if self.is_changed else 1)

    @property
    def rates(self) -> tuple[float, float]:
        first, second = CHANGED if self.is_changed else (1.0, 1.0)
        return self.rate * first, self.rate * second

    @property
    def n_baseline_sessions(self) -> float:
        """Sessions with a baseline run to be expected, a run by itself counted as one."""
        n_sessions = self.n_runs / self.session_runs
        if self.coin == "session":
            return n_sessions * self.rate
        return sum(n_sessions / 2 * (1 - (1 - rate) ** self.session_runs) for rate in self.rates)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Runs of some worlds, a row each; ``stratum`` is model and half."""

    group: Ints
    model: Ints
    stratum: Ints
    session: Ints
    baseline_tokens: Floats
    """What each would use as a baseline run, runaway or not."""

    def until(self, n_runs: int) -> Drawn:
        """The first so many runs of each world."""
        return Drawn(
            group=self.group[:, :n_runs],
            model=self.model[:, :n_runs],
            stratum=self.stratum[:, :n_runs],
            session=self.session[:, :n_runs],
            baseline_tokens=self.baseline_tokens[:, :n_runs],
        )


def draw(chance: np.random.Generator, world: World, n_worlds: int) -> Drawn:
    """Runs in a row of sessions, the coin for each run or for each session."""
    shape = (n_worlds, world.n_runs)
    session = np.arange(world.n_runs) // world.session_runs
    first = np.arange(session[-1] + 1) * world.session_runs
    half = (np.arange(world.n_runs) >= world.n_runs / 2).astype(np.int64)
    if world.coin == "session":
        half = half[first][session]
    prob = np.array(world.rates)[half]
    of_session = (n_worlds, len(first))
    if world.coin == "session":
        is_selected = (chance.random(of_session) >= prob[first])[:, session]
    else:
        is_selected = chance.random(shape) >= prob
    log = chance.standard_normal(shape)
    if world.session_runs > 1:
        log *= math.sqrt(1 - ALIKE)
        log += math.sqrt(ALIKE) * chance.standard_normal(of_session)[:, session]
    tokens = np.exp(world.spread * log - world.spread**2 / 2)
    tokens *= BASELINE_TOKENS * (1 + world.ramp * np.arange(world.n_runs) / world.n_runs)
    model = np.zeros(shape, dtype=np.int64)
    if world.n_models > 1:
        model = chance.choice(world.n_models, size=of_session, p=MODELS)[:, session]
        tokens *= SCALES[model]
    if world.runaways != "none":
        away = chance.random(shape) < RUNAWAY_SHARE
        tokens[away & (is_selected | (world.runaways == "both"))] *= RUNAWAY_TIMES
    return Drawn(
        group=is_selected.astype(np.int64),
        model=model,
        stratum=model * 2 + half if world.is_changed else model,
        session=np.broadcast_to(session, shape),
        baseline_tokens=tokens,
    )


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the estimates say of each world: each way's comparison, whether the mean has an interval, the claims."""

    mean: Compared
    typical: Compared
    capped: Compared
    is_narrow: Bools
    proven: Bools
    costs_more: Bools
    mixed: Bools

    def limits(self, way: Way) -> tuple[Floats, Floats]:
        """The interval for one look; NaN where none is given."""
        compared: Compared = getattr(self, way)
        lower, upper = compared.saved_percent_limits(0.95)
        given = self.is_narrow if way == "mean" else np.ones(len(lower), dtype=np.bool_)
        return np.where(given, lower, np.nan), np.where(given, upper, np.nan)


class Estimates:
    """The product's estimates of worlds drawn; ``of`` may be asked for several ratios of the same runs."""

    def __init__(self, world: World, drawn: Drawn) -> None:
        self._world, self._drawn = world, drawn
        self._n_worlds = len(drawn.group)
        place = np.arange(self._n_worlds)[:, None]
        self._cell = ((place * world.n_strata + drawn.stratum) * 2 + drawn.group).ravel()
        self._pair = (place * world.n_models + drawn.model).ravel()
        self._shape = (self._n_worlds, world.n_strata, 2)
        if world.session_runs > 1:
            session = (place * (int(drawn.session.max()) + 1) + drawn.session).ravel()
            n_cells = int(np.prod(self._shape))
            both, self._entry = np.unique(session * n_cells + self._cell, return_inverse=True)
            self._entry_cell, self._entry_session = both % n_cells, both // n_cells

    def of(self, ratio: float) -> Told:
        """What is stated where selecting makes this of a run's tokens."""
        drawn = self._drawn
        tokens = np.rint(np.where(drawn.group == SELECTED, ratio, 1.0) * drawn.baseline_tokens)
        tokens = np.maximum(tokens, 1.0).ravel()
        own, caps, medians = self._caps(tokens)
        mean = self._compared(tokens)[1]
        cell = self._pair * 2 + drawn.group.ravel()
        cut = np.minimum(tokens, own.cap[cell])
        capped = self._compared(cut, varied=own.moved(tokens, cell))[1]
        common = mean.mean_of(self._sums(np.minimum(tokens, caps.ravel()[self._pair])))
        logs, typical = self._compared(np.log(tokens), is_log=True)
        largest = (tokens / medians.ravel()[self._pair]).reshape(self._n_worlds, -1).max(-1)
        made = claims(mean, capped, common, 0.95, largest > LARGEST)
        return Told(
            mean=mean,
            typical=typical,
            capped=capped,
            is_narrow=is_narrow(logs, largest),
            proven=made.proven,
            costs_more=made.costs_more,
            mixed=made.runaways_cost | made.runaways_spare,
        )

    def _caps(self, tokens: Floats) -> tuple[OwnCaps, Floats, Floats]:
        share, power = np.frexp(tokens)
        bucket = 8 * (power - 1) + np.floor(8 * (2 * share - 1)).astype(np.int64)
        first = int(bucket.min())
        shape = (self._n_worlds, self._world.n_models, 2, int(bucket.max()) - first + 1)
        cell = self._pair * 2 + self._drawn.group.ravel()
        counts = self._added(cell * shape[-1] + bucket - first, np.ones(len(tokens)), shape)
        logs = self._added(cell, np.log(tokens), shape[:-1])
        return own_caps(counts, first, logs), *relative_caps(counts.sum(-2), first)

    def _sums(self, amount: Floats) -> StratumSums:
        return StratumSums(
            n=self._added(self._cell, np.ones(len(amount)), self._shape),
            total=self._added(self._cell, amount, self._shape),
            squares=self._added(self._cell, amount**2, self._shape),
        )

    def _compared(
        self, amount: Floats, *, varied: Floats | None = None, is_log: bool = False
    ) -> tuple[StratumSums, Compared]:
        sums = self._sums(amount)
        spread = amount if varied is None else varied
        sessions = None
        if self._world.session_runs > 1:
            entries = self._entry_cell.shape
            sessions = SessionSums(
                cell=self._entry_cell,
                session=self._entry_session,
                n=self._added(self._entry, np.ones(len(amount)), entries),
                total=self._added(self._entry, spread, entries),
                squares=self._added(self._entry, spread**2, entries),
            )
        return sums, compare(sums, sessions, varied=self._sums(spread), is_log=is_log)

    @staticmethod
    def _added(place: Ints, amount: Floats, shape: tuple[int, ...]) -> Floats:
        added = np.bincount(place, weights=amount, minlength=math.prod(shape))
        return np.asarray(added, dtype=np.float64).reshape(shape)


def truth(world: World) -> dict[Way, float]:
    """The true savings in per cent, each way: those of a million runs. Sessions change no mean."""
    return _truth(replace(world, n_runs=500_000, session_runs=1, coin="run"))


@lru_cache(maxsize=1 << 12)
def _truth(endless: World) -> dict[Way, float]:
    found = []
    for part in range(2):
        drawn = draw(np.random.default_rng([20261122, part]), endless, 1)
        told = Estimates(endless, drawn).of(endless.ratio)
        found.append([float(getattr(told, way).log_ratio[0]) for way in WAYS])
    means = np.mean(found, axis=0).tolist()
    return dict(zip(WAYS, (-100 * math.expm1(mean) for mean in means), strict=True))


def answers_by_ratio(
    world: World, n_worlds: int, *, seed: int = 1, ratios: tuple[float, ...]
) -> Iterator[dict[float, Told]]:
    """What is stated of so many worlds, some at a time, for each ratio."""
    key = [seed, world.n_runs, round(100 * world.spread), world.session_runs, world.n_strata]
    chance = np.random.default_rng(key)
    step = max(1, _AT_ONCE // world.n_runs)
    for first in range(0, n_worlds, step):
        estimates = Estimates(world, draw(chance, world, min(step, n_worlds - first)))
        yield {ratio: estimates.of(ratio) for ratio in ratios}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One cell of the table, over ``n`` worlds: for each way the share of worlds with an interval and the share of
    these that hold the truth; the share of worlds in which savings, a loss, or runs going different ways are claimed,
    as drawn and where selecting changes nothing (``null``).
    """

    world: World
    n: int
    given: dict[Way, float]
    held: dict[Way, float]
    proven: float
    costs_more: float
    mixed: float
    null_proven: float
    null_costs_more: float

    def error(self, way: Way) -> float:
        """Three standard errors of the share that holds the truth, were it .93 or .97."""
        return 3 * math.sqrt(0.93 * 0.07 / max(self.given[way] * self.n, 1.0))

    def holds(self, way: Way) -> bool:
        """Whether the share goes with a true one from .93 to .97."""
        return self.given[way] == 0 or 0.93 - self.error(way) <= self.held[way] <= 0.97 + self.error(way)


def measured(world: World, n_worlds: int) -> Measured:
    """What the estimates are worth in a kind of world."""
    true = truth(world)
    parts = list(answers_by_ratio(world, n_worlds, ratios=(world.ratio, 1.0)))
    given, held = {}, {}
    for way in WAYS:
        limits = [one[world.ratio].limits(way) for one in parts]
        lower, upper = (np.concatenate(side) for side in zip(*limits, strict=True))
        known = np.isfinite(lower)
        inside = known & (lower <= true[way]) & (true[way] <= upper)
        given[way] = float(known.mean())
        held[way] = float(inside.sum() / max(known.sum(), 1))
    drawn, null = ([one[ratio] for one in parts] for ratio in (world.ratio, 1.0))
    return Measured(
        world=world,
        n=n_worlds,
        given=given,
        held=held,
        proven=_share([one.proven for one in drawn]),
        costs_more=_share([one.costs_more for one in drawn]),
        mixed=_share([one.mixed for one in drawn]),
        null_proven=_share([one.proven for one in null]),
        null_costs_more=_share([one.costs_more for one in null]),
    )


def _share(flags: list[Bools]) -> float:
    return float(np.concatenate(flags).mean())


# The table


def table() -> Iterator[World]:
    """Every cell: sizes, spreads, runaway runs, sessions with their coin, strata, rates."""
    for n_models in (1, 6):
        for is_changed in (False, True):
            for session_runs, coin in SESSIONS:
                for n_baseline, n_selected in SIZES:
                    for runaways in RUNAWAYS:
                        for spread in SPREADS:
                            yield World(
                                n_runs=n_baseline + n_selected,
                                rate=n_baseline / (n_baseline + n_selected),
                                spread=spread,
                                runaways=runaways,
                                session_runs=session_runs,
                                coin=coin,
                                n_models=n_models,
                                is_changed=is_changed,
                            )
