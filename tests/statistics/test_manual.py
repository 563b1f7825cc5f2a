"""Manual rewards: an account that parts from the detector is named, a burst is, and honest people never are."""

from __future__ import annotations

import numpy as np
import pytest

from core.columns import ArmColumns, Floats, Ints, LedgerSums, ManualRewards
from core.maths.statistics.manual import ManualFindings, manual_findings
from core.records.arm import MICRO
from core.records.observation import KINDS
from core.records.times import DAY_MS, MINUTE_MS
from tests.worlds.columns import arms

N_ARMS, N_DAYS, N_RUNS = 16, 28, 1_400
FEEDBACK = KINDS.index("feedback")

Given = tuple[Ints, Ints, Floats, Ints]
"""Account, arm, reward and time of each reward."""


class World:
    """A month of arms that the detector saw at their own rates, and rewards by hand beside it."""

    def __init__(self, seed: int, n_runs: int = N_RUNS) -> None:
        self.rng = np.random.default_rng(seed)
        self.rates = np.clip(self.rng.beta(3, 2, N_ARMS), 0.3, 0.9)
        self.n_runs = n_runs

    def people(self, n: int, a_day: float, level: float | None = None) -> Given:
        """Rewards at the arms' own rates, with a mood by day; or all at one level."""
        counts = self.rng.poisson(a_day, (n, N_DAYS))
        who, day = (np.repeat(index, counts.ravel()) for index in np.indices(counts.shape).reshape(2, -1))
        arm = self.rng.integers(N_ARMS, size=len(who))
        mood = self.rng.normal(0, 0.5, counts.shape)[who, day]
        odds = np.log(self.rates / (1 - self.rates))[arm] + mood
        prob = 1 / (1 + np.exp(-odds)) if level is None else np.full(len(arm), level)
        at_ms = ((day + self.rng.random(len(day))) * DAY_MS).astype(np.int64)
        return who, arm, (self.rng.random(len(arm)) < prob).astype(np.float64), at_ms

    def account(self, who: int, reward: Floats, at_ms: Ints, arm: int = 0) -> Given:
        return np.full(len(reward), who), np.full(len(reward), arm), reward, at_ms

    def found(self, *given: Given) -> ManualFindings:
        who, arm, reward, at_ms = (np.concatenate(parts) for parts in zip(*given, strict=True))
        order = np.argsort(at_ms, kind="stable")
        who, arm, reward, at_ms = who[order], arm[order], reward[order], at_ms[order]
        ledger, n_used = LedgerSums.none(N_ARMS), self.rng.binomial(self.n_runs, self.rates)
        np.add.at(ledger.n[FEEDBACK], arm, 1)
        success = np.round(reward * MICRO).astype(np.int64)
        np.add.at(ledger.success_micro[FEEDBACK], arm, success)
        np.add.at(ledger.failure_micro[FEEDBACK], arm, MICRO - success)
        columns: ArmColumns = arms(
            [f"tool:other:t{index:02}" for index in range(N_ARMS)],
            successes=(n_used + ledger.success_micro[FEEDBACK] / MICRO).tolist(),
            failures=(self.n_runs - n_used + ledger.failure_micro[FEEDBACK] / MICRO).tolist(),
        )
        rewards = ManualRewards(
            actors=tuple(f"account-{index}" for index in range(int(who.max()) + 1)),
            actor=who,
            arm=arm,
            success_micro=success,
            failure_micro=MICRO - success,
            at_ms=at_ms,
            number=np.arange(1, len(who) + 1),
        )
        return manual_findings(columns, ledger, rewards)


@pytest.mark.parametrize("seed", range(40, 46))
def test_an_account_that_parts_from_the_detector_is_named_alone(seed: int) -> None:
    """Six rejections of one arm a day, beside honest people or without them, and with honest rewards of its own."""
    world = World(seed)
    times = np.arange(6 * N_DAYS) * (DAY_MS // 6)
    zeros = world.account(9, np.zeros(len(times)), times)
    own = world.people(1, 20)
    for given in ([zeros], [zeros, world.people(3, 3)], [zeros, (own[0] + 9, *own[1:])]):
        found = world.found(*given)
        (one,) = found.apart
        assert found.bursts == ()
        assert (one.actor, one.arms[0]) == ("account-9", "tool:other:t00")
        assert one.after < one.before


@pytest.mark.parametrize("seed", range(60, 63))
def test_an_account_that_rejects_two_arms_alone_is_one_finding(seed: int) -> None:
    """It has no habit that would excuse it, and both arms are in its one row."""
    world = World(seed)
    times = 20 * DAY_MS + np.arange(15 * 8) * (DAY_MS // 15)
    zeros = [world.account(0, np.zeros(len(times)), times, arm) for arm in (6, 7)]
    (one,) = world.found(*zeros).apart
    assert set(one.arms) == {"tool:other:t06", "tool:other:t07"}


@pytest.mark.parametrize("seed", range(50, 56))
def test_a_burst_is_one_finding_that_names_the_account(seed: int) -> None:
    world = World(seed)
    times = 20 * DAY_MS + np.arange(300) * 1_000
    burst = world.account(5, (world.rng.random(300) < 0.1).astype(np.float64), times)
    found = world.found(burst, world.people(3, 3))
    (one,) = found.bursts
    assert found.apart == ()
    assert (one.actor, one.n, one.minutes) == ("account-5", 300, 5)
    assert len(one.acts) == 300
    assert one.after < one.before


@pytest.mark.parametrize(
    ("n", "a_day", "level", "n_runs"),
    [
        (3, 3, None, N_RUNS),
        (5, 20, None, N_RUNS),
        (3, 20, None, 150),
        (1, 20, 0.85, N_RUNS),
        (3, 20, 0.85, 150),
    ],
)
def test_honest_people_are_never_named(n: int, a_day: float, level: float | None, n_runs: int) -> None:
    """Forty months: people of the detector's mind, or who accept nearly everything."""
    for seed in range(40):
        world = World(1_000 + seed, n_runs)
        assert world.found(world.people(n, a_day, level)) == ManualFindings()


def test_a_busy_service_has_no_burst() -> None:
    """Thirty thumbs in every ten minutes of its hours are its usual pace."""
    world = World(7)
    times = np.concatenate([day * DAY_MS + np.arange(8 * 180) * 20_000 for day in range(N_DAYS)])
    arm = world.rng.integers(2, size=len(times))
    thumbs = (world.rng.random(len(times)) < world.rates[arm]).astype(np.float64)
    assert world.found((np.zeros(len(times), dtype=np.int64), arm, thumbs, times)).bursts == ()


def test_a_few_rewards_or_few_days_name_nobody() -> None:
    world = World(8)
    few = world.account(1, np.zeros(19), np.arange(19) * DAY_MS)
    one_day = world.account(2, np.zeros(24), np.arange(24) * 59 * MINUTE_MS)
    assert world.found(few, one_day) == ManualFindings()
