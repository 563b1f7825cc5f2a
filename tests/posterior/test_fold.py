from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.posterior.fold import NOTHING, Counts, fold
from core.records.arm import CURATED, UNIFORM
from core.records.observation import Amount

AMOUNTS = st.builds(
    Amount.of,
    st.floats(min_value=0, max_value=1),
    st.integers(min_value=1, max_value=5_000_000),
)
COUNTS = st.lists(AMOUNTS, max_size=20).map(fold)


@given(st.lists(AMOUNTS, max_size=30), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_counts(amounts: list[Amount], chance: Random) -> None:
    shuffled = list(amounts)
    chance.shuffle(shuffled)
    assert fold(shuffled) == fold(amounts)


@given(COUNTS, COUNTS, COUNTS)
def test_merging_is_commutative_and_associative_with_nothing_in_the_middle(
    first: Counts, second: Counts, third: Counts
) -> None:
    assert first.merge(second) == second.merge(first)
    assert first.merge(second).merge(third) == first.merge(second.merge(third))
    assert first.merge(NOTHING) == first
    assert first.merge(second).split(second) == first


@given(COUNTS, AMOUNTS, AMOUNTS)
def test_revert_undoes_add(counts: Counts, amount: Amount, other: Amount) -> None:
    assert counts.add(amount).revert(amount) == counts
    assert counts.add(amount).add(other).revert(amount) == counts.add(other)
    assert counts.revert(amount).add(amount) == counts


@given(COUNTS, AMOUNTS, AMOUNTS)
def test_a_correction_replaces_and_keeps_the_pulls(counts: Counts, was: Amount, now: Amount) -> None:
    corrected = counts.add(was).correct(was, now)
    assert corrected == counts.add(now)
    assert corrected.correct(now, was) == counts.add(was)
    assert corrected.pulls == counts.pulls + 1


@given(st.lists(AMOUNTS, max_size=30), st.integers(min_value=0, max_value=30))
def test_merge_of_parts_is_the_whole(amounts: list[Amount], cut: int) -> None:
    assert fold(amounts[:cut]).merge(fold(amounts[cut:])) == fold(amounts)


@given(st.lists(AMOUNTS, max_size=30))
def test_nothing_is_lost_to_rounding(amounts: list[Amount]) -> None:
    counts = fold(amounts)
    weight = sum(amount.success_micro + amount.failure_micro for amount in amounts)
    assert counts.success_micro + counts.failure_micro == weight
    posterior = counts.posterior(CURATED)
    assert posterior.alpha_micro + posterior.beta_micro == weight + 4_000_000


def test_below_zero_is_refused_only_when_checked() -> None:
    short = NOTHING.revert(Amount.of(1.0))
    assert short.pulls == -1
    with pytest.raises(InvalidInput, match="Counts must be 0 or more"):
        short.check()
    assert NOTHING.check().posterior(UNIFORM) == UNIFORM
