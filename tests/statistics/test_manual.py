"""Manual rewards: accounts that part from the detector and bursts are named, honest people never; bias is counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import ArmColumns, Floats, Ints, LedgerSums, ManualRewards
from core.errors import InvalidInput
from core.maths.statistics.bias import group_shares, mean_score, readiness, spread_by_group
from core.maths.statistics.manual import ManualFindings, manual_findings
from core.records.arm import MICRO
from core.records.observation import KINDS
from core.records.times import DAY_MS, MINUTE_MS
from tests.worlds.columns import arms

N_ARMS, N_DAYS, N_RUNS = 16, 28, 1_400
FEEDBACK = KINDS.index("feedback")

Given = tuple[Ints, Ints, Floats, Ints]
"""Account, arm, reward and time of each reward."""
ROW = st.tuples(
    st.integers(0, 3), st.booleans(), st.one_of(st.just(float("nan")), st.floats(0, 1)), st.integers(0, 3)
)


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
    for accounts in ([zeros], [zeros, world.people(3, 3)], [zeros, (own[0] + 9, *own[1:])]):
        found = world.found(*accounts)
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


@given(st.lists(ROW, max_size=40))
def test_groups_hold_every_evaluation_once(rows: list[tuple[int, bool, float, int]]) -> None:
    group = np.array([row[0] for row in rows], dtype=np.int64)
    good = np.array([row[1] for row in rows], dtype=np.bool_)
    score = np.array([row[2] for row in rows], dtype=np.float64)
    label = np.array([row[3] for row in rows], dtype=np.int64)
    found = spread_by_group(group, good, score, label, n_groups=4, n_labels=4)
    assert [one.group for one in found] == [0, 1, 2, 3]
    assert tuple(one.n for one in found) == group_shares(group, 4).counts
    for one in found:
        mine = group == one.group
        given_scores = score[mine & ~np.isnan(score)]
        assert one.labels == tuple(int((label[mine] == place).sum()) for place in range(4))
        assert one.n_scored == len(given_scores) == sum(one.bins)
        assert one.score == mean_score(given_scores)
        if one.n >= 2:
            assert one.success.value == good[mine].mean()


def test_a_score_of_0_counts_and_1_is_in_the_last_class() -> None:
    score = np.array([0.0, 0.0, 1.0, 0.95, np.nan])
    one = spread_by_group(
        np.zeros(5, dtype=np.int64),
        np.ones(5, dtype=np.bool_),
        score,
        np.zeros(5, dtype=np.int64),
        n_groups=1,
        n_labels=1,
    )[0]
    assert (one.n, one.n_scored, one.bins) == (5, 4, (2, 0, 0, 0, 0, 0, 0, 0, 0, 2))
    assert one.score.value == pytest.approx(0.4875)


def test_shares_add_up_to_one_and_nothing_has_none() -> None:
    found = group_shares(np.array([0, 2, 2, 1, 2]), 4)
    assert found.counts == (1, 1, 3, 0)
    assert found.shares == (0.2, 0.2, 0.6, 0.0)
    assert group_shares(np.array([], dtype=np.int64), 3).shares is None


@pytest.mark.parametrize("n", [10, 30, 100])
def test_the_interval_of_a_mean_score_holds(n: int) -> None:
    rng = np.random.default_rng([61, n])
    held = 0
    for scores in rng.beta(6, 3, (1_000, n)):
        found = mean_score(scores)
        assert found.lower is not None
        assert found.upper is not None
        held += found.lower <= 2 / 3 <= found.upper
    assert held >= 930


def test_why_a_mean_has_no_interval() -> None:
    assert mean_score(np.array([0.5])).missing == "few_runs"
    assert mean_score(np.array([0.5, 0.7])).missing == "few_for_interval"
    same = mean_score(np.full(50, 1.0))
    assert (same.value, same.lower, same.missing) == (1.0, None, "no_variation")


def test_blockers_are_counted_by_name() -> None:
    good = np.array([True, True, True, False, False])
    sft = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]], dtype=np.bool_)
    preference = np.array([[0], [0], [1], [0], [1]], dtype=np.bool_)
    found = readiness(good, sft, preference, sft_names=("a", "b", "c"), preference_names=("b",))
    assert (found.n, found.n_sft, found.n_chosen, found.n_rejected, found.n_preference) == (5, 1, 2, 1, 3)
    assert [(one.name, one.n, one.n_alone) for one in found.sft_blockers] == [
        ("a", 2, 1),
        ("b", 2, 0),
        ("c", 2, 1),
    ]
    assert [(one.name, one.n, one.n_alone) for one in found.preference_blockers] == [("b", 2, 2)]
    assert (found.sft.value, found.sft.missing) == (0.2, "few_for_interval")


def test_nothing_evaluated_is_an_answer_too() -> None:
    none = np.array([], dtype=np.bool_)
    found = readiness(
        none, none.reshape(0, 2), none.reshape(0, 1), sft_names=("a", "b"), preference_names=("a",)
    )
    assert (found.n, found.n_sft, found.sft.value) == (0, 0, None)
    assert [one.n for one in found.sft_blockers] == [0, 0]


def test_what_is_out_of_range_is_refused() -> None:
    one, good = np.array([0]), np.array([True])
    with pytest.raises(InvalidInput, match="group must be 0 to 0, got 1"):
        group_shares(np.array([1]), 1)
    with pytest.raises(InvalidInput, match=r"score must be within 0\.\.1, got 1\.2"):
        spread_by_group(one, good, np.array([1.2]), one, n_groups=1, n_labels=1)
    with pytest.raises(InvalidInput, match=r"score must be within 0\.\.1, got inf"):
        spread_by_group(one, good, np.array([np.inf]), one, n_groups=1, n_labels=1)
    with pytest.raises(InvalidInput, match="label must be 0 to 0, got -1"):
        spread_by_group(one, good, np.array([0.5]), np.array([-1]), n_groups=1, n_labels=1)
    with pytest.raises(InvalidInput, match="1 evaluations by 2 names"):
        readiness(good, good[:, None], good[:, None], sft_names=("a", "b"), preference_names=("a",))
