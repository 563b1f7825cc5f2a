"""Laws of what an episode came to: exact decimals, gaps that are no zeros, nothing after the end."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.errors import InvalidInput
from core.maths.episodes import (
    NOTHING,
    added,
    after,
    closed,
    decimal_text,
    discounted,
    running,
    totals_of,
    written,
)
from core.records.episode import Episode, Finding, Part, Scale, Step

FINITE = st.floats(allow_nan=False, allow_infinity=False)
MODEST = st.floats(-1e6, 1e6)
REWARD = st.none() | FINITE | st.sampled_from([0.0, 0.1, 0.2, 1.0, -0.5, 5e-324, 1.7e308])
STEPS = st.lists(
    st.builds(
        Step,
        number=st.just(0),
        reward=REWARD,
        finished=st.sampled_from([False, False, False, True]),
        refused=st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
).map(lambda steps: [replace(step, number=number) for number, step in enumerate(steps)])


def exact(rewards: list[float]) -> Fraction:
    return sum((Fraction(repr(reward)) for reward in rewards), Fraction(0))


@given(st.lists(REWARD, max_size=12))
def test_a_sum_is_the_sum_of_the_decimals_as_written(rewards: list[float | None]) -> None:
    paid = [reward for reward in rewards if reward is not None]
    total = added(rewards)
    if not paid:
        assert total is None
    else:
        assert total is not None
        assert Fraction(total) == exact(paid)


@given(st.lists(REWARD, max_size=12))
def test_a_gap_changes_no_sum_and_a_zero_is_a_payment(rewards: list[float | None]) -> None:
    assert added(rewards) == added([reward for reward in rewards if reward is not None])
    assert added([*rewards, 0.0]) == (added(rewards) or 0)


@given(st.lists(REWARD, min_size=1, max_size=12))
def test_the_running_sum_ends_in_the_total_and_each_place_is_the_sum_up_to_it(
    rewards: list[float | None],
) -> None:
    found = running(rewards)
    assert found == [added(rewards[: place + 1]) for place in range(len(rewards))]


@given(st.lists(FINITE, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_a_sum_knows_no_order(rewards: list[float], random: object) -> None:
    shuffled = list(rewards)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert added(shuffled) == added(rewards)


@given(st.lists(st.none() | MODEST, max_size=12))
@example([2.00001, 1.3845648667787217e-213, -2.00001])  # 60 digits lose the small one
def test_discounted_by_one_it_is_the_total_and_by_zero_the_first_reward(rewards: list[float | None]) -> None:
    total = added(rewards)
    assert discounted(rewards, 1.0) == (None if total is None else float(total))
    if total is not None:
        assert discounted(rewards, 0.0) == (rewards[0] or 0.0)


@given(st.lists(st.none() | MODEST, min_size=1, max_size=12), st.floats(0, 1))
def test_the_discounted_return_is_the_sum_of_powers(rewards: list[float | None], gamma: float) -> None:
    found = discounted(rewards, gamma)
    if found is not None:
        said = sum(
            (
                Fraction(repr(reward)) * Fraction(repr(gamma)) ** place
                for place, reward in enumerate(rewards)
                if reward is not None
            ),
            Fraction(0),
        )
        assert found == pytest.approx(float(said), rel=1e-12, abs=1e-300)


@given(STEPS)
def test_one_by_one_is_all_at_once(steps: list[Step]) -> None:
    found = NOTHING
    for step in steps:
        found = after(found, step)
    assert found == totals_of(steps) == totals_of(list(closed(steps)))


@given(STEPS, STEPS)
def test_nothing_after_the_end_counts(steps: list[Step], later: list[Step]) -> None:
    ended = [*steps, Step(number=len(steps), reward=1.0, finished=True)]
    more = [replace(step, number=len(ended) + place) for place, step in enumerate(later)]
    found, known = totals_of([*ended, *more]), totals_of(ended)
    assert (found.total, found.final, found.n_steps, found.n_paid) == (
        known.total,
        known.final,
        known.n_steps,
        known.n_paid,
    )
    assert found.finished
    assert found.n_refused == known.n_refused + len(more)


@given(STEPS)
def test_closed_steps_make_an_episode_that_says_how_it_stands(steps: list[Step]) -> None:
    episode = Episode(uid="e", environment="sums", steps=tuple(closed(steps)))
    assert episode.finished == totals_of(steps).finished
    assert episode.status == ("finished" if episode.finished else "unfinished")
    assert replace(episode, incomplete=True).status == "incomplete"


@given(FINITE)
def test_a_decimal_has_one_text_that_is_read_as_the_same_number(value: float) -> None:
    told = decimal_text(written(value))
    assert "E" not in told
    assert Decimal(told) == written(value)
    assert float(told) == value


def test_success_is_strictly_above_the_threshold_in_decimals() -> None:
    nine = totals_of([Step(number=number, reward=0.1) for number in range(9)])
    ten = totals_of([Step(number=number, reward=0.1) for number in range(10)])
    assert sum([0.1] * 9) < 0.9 < sum([0.1] * 10) < 1, "which is why they are added as decimals"
    assert not nine.succeeded(Scale())
    assert ten.succeeded(Scale())
    assert ten.total == 1
    assert not ten.succeeded(Scale(base="final"))
    assert ten.succeeded(Scale(base="final", threshold=0.05))
    unpaid = totals_of([Step(number=0), Step(number=1, finished=True)])
    assert unpaid.total is None
    assert not unpaid.succeeded(Scale(threshold=-1))


@given(st.floats(-1e6, 1e6), st.floats(0.001, 1e6), st.floats(0, 1))
def test_a_scale_puts_its_ends_at_0_and_1_and_leaves_out_what_lies_outside(
    lo: float, width: float, share: float
) -> None:
    scale = Scale(lo=lo, hi=lo + width)
    assert scale.normalised(scale.lo) == 0
    assert scale.normalised(scale.hi) == 1
    inside = scale.normalised(min(scale.lo + share * (scale.hi - scale.lo), scale.hi))
    assert inside is not None
    assert 0 <= inside <= 1
    assert scale.normalised(scale.hi + width) is None
    assert scale.normalised(scale.lo - width) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"lo": 1.0, "hi": 1.0},
        {"step_lo": 1.0, "step_hi": 0.0},
        {"lo": float("nan")},
        {"hi": float("inf")},
        {"lo": -1.7e308, "hi": 1.7e308},
        {"threshold": float("nan")},
        {"threshold": True},
        {"gamma": 1.5},
        {"base": "best"},
    ],
)
def test_a_scale_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Scale(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("reward", ["1.0", True, float("nan"), float("inf"), 10**400, [1]])
def test_what_is_no_number_is_no_reward(reward: object) -> None:
    with pytest.raises(InvalidInput, match=r"step 4"):
        Step(number=4, reward=reward)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([Step(number=1), Step(number=1)], "each once"),
        ([Step(number=2), Step(number=1)], "order"),
        ([Step(number=0, finished=True), Step(number=1, reward=1.0)], "refused"),
    ],
)
def test_steps_that_do_not_follow_each_other_are_refused(steps: list[Step], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Episode(uid="e", environment="sums", steps=tuple(steps))


def test_a_part_is_named_once_and_is_finite() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        Episode(uid="e", environment="sums", parts=(Part(name="a", value=0.0), Part(name="a", value=1.0)))
    with pytest.raises(InvalidInput, match="finite"):
        Part(name="a", value=float("inf"))
    with pytest.raises(InvalidInput, match="certainty"):
        Finding(kind="proxy", certainty=1.5, seen="", steps=(), advice="")
