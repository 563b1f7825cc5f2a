"""Coverage: how often intervals hold the truth, in worlds whose truth is known.

Beliefs are made by the real pipeline: runs are chosen or recorded through the flows, detected, guarded and folded.
Short versions run always, judged with three standard errors of their own sample; long ones (``-m long``) print what
they measured.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pytest
from scipy import stats

from core.columns import ArmColumns, CandidateSets, Floats
from core.flows import look
from core.flows.desk import Desk
from core.flows.learn import record, record_all
from core.flows.select import select
from core.flows.settings import change
from core.policy import select as select_arms
from core.records.arm import Arm, ArmType
from core.records.learner import LearnerSettings, Priors
from core.records.run import Call, Inventory, Run
from core.statistics.inclusion import inclusion_chances
from core.statistics.savings.ratio import Compared, Sums, compare
from tests.arms import arms
from tests.flows.world import desk_at
from tests.statistics.luck import LEAST_PROB, prob_of_luck

LOWEST, HIGHEST = 0.93, 0.97
ALWAYS: Final = "tool:exec:Bash"
"""Called in every run, so that the guard lets every run count and none is picked by what it used."""
KINDS: Final[tuple[ArmType, ...]] = ("tool", "skill", "file", "memory")
"""Sections are always referenced, so they have no usefulness to draw."""


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Write a line past pytest's capture: what was measured is the point of the long versions."""

    def written(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}")

    return written


def within(covered: float, n: int) -> bool:
    """Whether a measured share goes with a true one between the bounds."""
    error = math.sqrt(LOWEST * (1 - LOWEST) / n)
    return LOWEST - 3 * error <= covered <= HIGHEST + 3 * error


# Posterior intervals, through choose, record, detect, guard, fold


class Part(NamedTuple):
    """An arm, its true usefulness, and the one call or the words by which a run uses it."""

    arm: Arm
    useful: float
    call: str
    words: str


def part(chance: np.random.Generator, number: int) -> Part:
    """An arm that nothing else can be taken for, its usefulness drawn from its type's prior."""
    kind = KINDS[number % len(KINDS)]
    prior = Priors().of(kind)
    useful = float(chance.beta(prior.alpha_micro / 1e6, prior.beta_micro / 1e6))
    name = f"{kind}{number:05d}x"
    if kind == "tool":
        return Part(Arm(key=f"tool:other:{name}"), useful, name, "")
    if kind == "skill":
        return Part(Arm(key=f"skill:{name}:main"), useful, "", name)
    if kind == "file":
        return Part(Arm(key=f"file:workspace:src/{name}.py"), useful, "", f"{name}.py")
    return Part(Arm(key=f"memory:fact:{name}", content=name), useful, "", name)


def played(chance: np.random.Generator, included: list[Part]) -> tuple[tuple[Call, ...], tuple[str, ...]]:
    """What a run does with the arms it was given: each is used with the chance it is useful."""
    used = [one for one in included if chance.random() < one.useful]
    calls = tuple(Call(name=one.call) for one in used if one.call)
    return (Call(name="Bash"), *calls), (" ".join(one.words for one in used if one.words),)


def recorded(desk: Desk, chance: np.random.Generator, n_arms: int, n_runs: int) -> list[Part]:
    """A world recorded in bulk: each run had some two fifths of the arms."""
    parts = [part(chance, number) for number in range(n_arms)]
    runs = []
    for number in range(n_runs):
        included = [one for one in parts if chance.random() < 0.4]
        calls, texts = played(chance, included)
        given = (Arm(key=ALWAYS), *(one.arm for one in included))
        inventory = Inventory(kind="declared", arms=given)
        runs.append(Run(uid=f"run-{number}", inventory=inventory, calls=calls, texts=texts))
    record_all(desk, runs)
    return parts


def chosen(desk: Desk, chance: np.random.Generator, n_arms: int, n_runs: int) -> list[Part]:
    """A world where armscope chose a third of the arms of every run, by what it had learnt until then."""
    parts = [part(chance, number) for number in range(n_arms)]
    by_key = {one.arm.key: one for one in parts}
    given = (Arm(key=ALWAYS), *(one.arm for one in parts))
    change(desk, "k", n_arms // 3)
    for number in range(n_runs):
        choice = select(desk, given)
        calls, texts = played(chance, [by_key[key] for key in choice.included if key in by_key])
        inventory = Inventory(
            kind="declared", arms=tuple(arm for arm in given if arm.key in set(choice.included))
        )
        record(
            desk,
            Run(
                uid=f"run-{number}",
                inventory=inventory,
                excluded=choice.excluded,
                selection=choice,
                run_class=choice.run_class,
                calls=calls,
                texts=texts,
            ),
        )
    return parts


def held(desk: Desk, parts: list[Part]) -> list[bool]:
    """For each arm that was in a run, whether its 95 % interval holds its true usefulness."""
    beliefs = {one.arm: one for one in look.posteriors(desk) if one.pulls}
    told = [(beliefs[one.arm.key].interval, one.useful) for one in parts if one.arm.key in beliefs]
    return [bool(interval.lower <= useful <= interval.upper) for interval, useful in told]


def posterior_coverage(folder: Path, *, n_worlds: int, n_arms: int, n_runs: int, by_choice: bool) -> Floats:
    """One flag an arm, over seeded worlds."""
    flags: list[bool] = []
    for seed in range(n_worlds):
        desk = desk_at(folder / f"{seed}.db")
        play = chosen if by_choice else recorded
        flags += held(desk, play(desk, np.random.default_rng(seed), n_arms, n_runs))
    return np.array(flags, dtype=np.float64)


def test_posteriors_of_recorded_worlds_hold_the_truth(tmp_path: Path) -> None:
    flags = posterior_coverage(tmp_path, n_worlds=4, n_arms=240, n_runs=30, by_choice=False)
    assert len(flags) == 960
    assert within(float(flags.mean()), len(flags))


def test_posteriors_of_chosen_worlds_hold_the_truth(tmp_path: Path) -> None:
    """Choosing by what was learnt changes which arms are pulled, not what a pull says of them."""
    flags = posterior_coverage(tmp_path, n_worlds=5, n_arms=48, n_runs=40, by_choice=True)
    assert len(flags) > 150
    assert within(float(flags.mean()), len(flags))


@pytest.mark.long
@pytest.mark.parametrize(("by_choice", "size"), [(False, (30, 400, 60)), (True, (40, 96, 120))])
def test_long_posterior_coverage(
    tmp_path: Path, say: Callable[[str], None], by_choice: bool, size: tuple[int, int, int]
) -> None:
    n_worlds, n_arms, n_runs = size
    flags = posterior_coverage(tmp_path, n_worlds=n_worlds, n_arms=n_arms, n_runs=n_runs, by_choice=by_choice)
    how = "chosen by armscope" if by_choice else "recorded in bulk"
    error = math.sqrt(0.95 * 0.05 / len(flags))
    say(f"95% posterior intervals, {how}: {flags.mean():.4f} of {len(flags):,} arms, s.e. {error:.4f}")
    assert LOWEST <= flags.mean() <= HIGHEST


# Savings intervals

TRUE_RATIO: Final = 0.65
BASELINE_MEAN: Final = 12_000.0


def compared(chance: np.random.Generator, n: tuple[int, int], spread: float, n_worlds: int) -> Compared:
    """Worlds of log-normal token counts with this log-sd, in one stratum, summed as the rollups sum them."""
    total, squares = np.zeros((n_worlds, 1, 2)), np.zeros((n_worlds, 1, 2))
    for group, mean in enumerate((BASELINE_MEAN, BASELINE_MEAN * TRUE_RATIO)):
        for start in range(0, n_worlds, 1_000):
            rows = slice(start, start + 1_000)
            size = (len(total[rows]), n[group])
            drawn = np.rint(chance.lognormal(math.log(mean) - spread**2 / 2, spread, size))
            total[rows, 0, group], squares[rows, 0, group] = drawn.sum(1), (drawn**2).sum(1)
    counts = np.broadcast_to(np.array([list(n)], dtype=np.float64), total.shape)
    return compare(Sums(n=counts, total=total, squares=squares))


def by_formula(worlds: Compared) -> tuple[Floats, Floats]:
    """The page's interval of the savings, also where it refuses one because a group is too small."""
    relative = worlds.error / worlds.mean**2
    df = relative.sum(-1) ** 2 / (relative**2 / worlds.df).sum(-1)
    half = stats.t.ppf(0.975, df) * np.sqrt(relative.sum(-1))
    return -100 * np.expm1(worlds.log_ratio + half), -100 * np.expm1(worlds.log_ratio - half)


def share_held(limits: tuple[Floats, Floats], truth: float) -> float:
    lower, upper = limits
    return float(((lower <= truth) & (truth <= upper)).mean())


def savings_coverage(n: tuple[int, int], spread: float, n_worlds: int) -> tuple[float, float]:
    """Share of worlds whose intervals hold the true savings in per cent, and the true tokens saved per run."""
    worlds = compared(np.random.default_rng([*n, round(100 * spread)]), n, spread, n_worlds)
    percent = by_formula(worlds)
    if min(n) < 10:
        assert np.isnan(worlds.saved_percent_limits(0.95)).all()
        return share_held(percent, 100 * (1 - TRUE_RATIO)), math.nan
    np.testing.assert_allclose(worlds.saved_percent_limits(0.95), percent, rtol=1e-9)
    tokens = share_held(worlds.saved_limits(0.95), BASELINE_MEAN * (1 - TRUE_RATIO))
    return share_held(percent, 100 * (1 - TRUE_RATIO)), tokens


@pytest.mark.parametrize("spread", [0.2, 0.6])
@pytest.mark.parametrize("n", [(30, 30), (30, 270)])
def test_savings_intervals_hold_the_truth(n: tuple[int, int], spread: float) -> None:
    percent, tokens = savings_coverage(n, spread, 3_000)
    assert within(percent, 3_000)
    assert within(tokens, 3_000)


@pytest.mark.long
@pytest.mark.parametrize("spread", [0.2, 0.4, 0.6])
@pytest.mark.parametrize(
    "n",
    [(2, 2), (5, 5), (10, 10), (20, 20), (10, 90), (20, 180), (30, 30), (30, 270), (30, 1_000), (300, 2_700)],
)
def test_long_savings_coverage(say: Callable[[str], None], n: tuple[int, int], spread: float) -> None:
    """Where a group has 30 runs, within the bounds; smaller groups are printed (under 10 the page shows none)."""
    n_worlds = 40_000 if sum(n) < 1_500 else 10_000
    percent, tokens = savings_coverage(n, spread, n_worlds)
    error = math.sqrt(0.95 * 0.05 / n_worlds)
    say(
        f"savings intervals at {n[0]} against {n[1]:,} runs, log-sd {spread}: per cent {percent:.4f}, "
        f"tokens {tokens:.4f}, s.e. {error:.4f}"
    )
    if min(n) >= 30:
        assert LOWEST <= percent <= HIGHEST
        assert LOWEST <= tokens <= HIGHEST


# Chance of inclusion, against the selector that really selects

_N_ARMS: Final = 40


def inclusion_off(settings: LearnerSettings, offered: CandidateSets, n_runs: int) -> Floats:
    """How many standard errors each arm's chance is from the share of real selections that had it in.

    Runs offer the sets in turn, as often as ``offered`` says. Arms whose fate is no matter of chance are left out:
    what is certain must be so to the last run.
    """
    columns = _forty_arms()
    counted = np.zeros((2, _N_ARMS))
    turns = np.repeat(np.arange(len(offered.n_runs)), offered.n_runs)
    sets = [columns.where(np.isin(np.arange(_N_ARMS), places)) for places in offered.places]
    for seed in range(n_runs):
        turn = int(turns[seed % len(turns)])
        chosen = select_arms(sets[turn], settings, seed=seed).included
        counted[0, [columns.places[key] for key in chosen]] += 1
        counted[1, offered.places[turn]] += 1
    found = inclusion_chances(columns, settings, seed=0, candidates=offered)
    n_in, n_offered = counted[:, found.offered > 0]
    chance, error = found.chance[found.offered > 0], found.standard_error[found.offered > 0]
    smoothed = (n_in + 0.5) / (n_offered + 1)
    off = (chance - n_in / n_offered) / np.hypot(error, np.sqrt(smoothed * (1 - smoothed) / n_offered))
    assert (chance[error == 0] * n_offered[error == 0] == n_in[error == 0]).all()
    return np.asarray(off[error > 0])


def _forty_arms() -> ArmColumns:
    chance = np.random.default_rng(7)
    pulls = chance.integers(0, 60, _N_ARMS)
    good = chance.binomial(pulls, chance.random(_N_ARMS))
    return arms(
        [f"tool:other:t{place:02d}" for place in range(_N_ARMS)],
        successes=good.tolist(),
        failures=(pulls - good).tolist(),
        costs=chance.integers(50, 900, _N_ARMS).tolist(),
    )


SELECTING: Final = (
    LearnerSettings(baseline_rate=0.1, budget_tokens=6_000, seed_arms=("tool:other:t03",)),
    LearnerSettings(baseline_rate=0.3, budget_tokens=4_000, k=12, min_pulls=3, seed_arms=()),
)
OFFERED: Final = (
    CandidateSets.everything(_N_ARMS),
    CandidateSets(  # most, few, and some that are nowhere else; four arms are never offered
        places=(np.arange(0, 30), np.arange(20, 34), np.arange(1, 36, 2)), n_runs=(17, 6, 2), of="chosen"
    ),
)
"""Candidate sets of the runs."""


@pytest.mark.parametrize("offered", OFFERED)
@pytest.mark.parametrize("settings", SELECTING)
def test_chances_of_inclusion_are_those_of_the_real_selector(
    settings: LearnerSettings, offered: CandidateSets
) -> None:
    """The largest of all arms' errors is none that luck gives less than one correct world in a hundred."""
    off = inclusion_off(settings, offered, 1_500)
    assert (np.abs(off) > 3).sum() <= 1
    assert prob_of_luck(off) >= LEAST_PROB


@pytest.mark.long
@pytest.mark.parametrize("offered", OFFERED)
@pytest.mark.parametrize("settings", SELECTING)
def test_long_chances_of_inclusion(
    say: Callable[[str], None], settings: LearnerSettings, offered: CandidateSets
) -> None:
    """The same of 40,000 real selections. Among 40 arms the largest error is 2.5 in the median correct world, beyond
    3 in one of ten, and beyond 3.66 in one of a hundred, which is the bound for all of them together.
    """
    off = np.abs(inclusion_off(settings, offered, 40_000))
    say(
        f"chance of inclusion, {len(offered.places)} candidate sets: {off.max():.2f} standard errors at most over "
        f"{len(off)} arms, of which luck makes at least as much in {prob_of_luck(off):.0%} of correct worlds or "
        f"fewer; {off.mean():.2f} on average"
    )
    assert (off > 3).sum() <= 1
    assert prob_of_luck(off) >= LEAST_PROB
