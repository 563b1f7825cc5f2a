"""Laws of a layer's quality: one by one is all at once, heads gain what layers gain, order counts."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.maths.quality import (
    UNNAMED_RATER,
    evaluator,
    gained,
    healer_bonus,
    histories,
    implementation_bonus,
    layer_quality,
    step,
    step_quality,
    total,
    updates,
    wilson_adjustment,
)
from core.records.evaluation import ModelHistory, Quality, Rated, Update
from core.records.layer import Layer

NAMES = st.sampled_from([None, "", "mara", "judge-1", "judge-2", "7", "10", "constructor", "__proto__"])
RATED = st.builds(
    Rated,
    outcome=st.sampled_from(["success", "failure"]),
    score=st.none() | st.floats(0, 1),
    rater=NAMES,
    model=NAMES,
    at_ms=st.integers(0, 10**12),
    feedback=st.none() | st.sampled_from(["", "well done"]),
)
SEVERAL = st.lists(RATED, max_size=30)


def success(who: str, score: float = 1.0) -> Rated:
    return Rated(outcome="success", score=score, rater=who, model=None, at_ms=0)


def failure(who: str, score: float = 0.0) -> Rated:
    return Rated(outcome="failure", score=score, rater=who, model=None, at_ms=0)


@given(SEVERAL, st.randoms(use_true_random=False))
def test_one_by_one_from_stored_columns_is_all_at_once(rated: list[Rated], random: Random) -> None:
    quality = Quality()
    stored: dict[str, tuple[int, int, int]] = {}
    for each in rated:
        rows = [
            ModelHistory(model=name, rank=rank, attempts=attempts, successes=successes)
            for name, (rank, attempts, successes) in stored.items()
        ]
        random.shuffle(rows)  # rows come in any order
        update = step(rows, each)
        kept = update.history
        stored[kept.model] = (kept.rank, kept.attempts, kept.successes)
        quality = gained(quality, update)
    made = updates(rated)
    assert quality == total(made)
    assert {(row.model, row.rank, row.attempts, row.successes) for row in histories(made)} == {
        (name, *counts) for name, counts in stored.items()
    }


@given(SEVERAL, st.integers(0, 30))
def test_a_fold_goes_on_from_where_it_stopped(rated: list[Rated], at: int) -> None:
    made = updates(rated)
    assert total(made[at:], total(made[:at])) == total(made)
    assert updates(rated[:at]) == made[:at]  # what comes later changes nothing before it


@given(SEVERAL)
def test_counts_are_counts(rated: list[Rated]) -> None:
    quality = total(updates(rated))
    assert quality.retrievals == quality.successes + quality.failures == len(rated)
    assert quality.successes == sum(each.outcome == "success" for each in rated)
    assert sum(row.attempts for row in histories(updates(rated))) == len(rated)


@given(SEVERAL)
def test_the_latest_evaluation_is_the_last_one(rated: list[Rated]) -> None:
    quality = total(updates(rated))
    assert quality.last_rater == (evaluator(rated[-1].rater, rated[-1].model) if rated else "")
    assert quality.last_rated_ms == (rated[-1].at_ms if rated else None)
    said = [f"{each.outcome} reward" if each.feedback is None else each.feedback for each in rated]
    assert quality.usage_context == next((text for text in reversed(said) if text), "")


@given(SEVERAL)
def test_a_bonus_is_the_sum_of_its_parts(rated: list[Rated]) -> None:
    for update in updates(rated):
        assert update.bonus == update.basic + update.implementation + update.signed_score
        assert 0 <= update.implementation <= 25
        assert update.outcome == "success" or update.implementation == 0


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "head"]), RATED), max_size=30))
def test_a_head_gains_what_its_layers_gain_in_the_order_of_all(rated: list[tuple[str, Rated]]) -> None:
    known: dict[str, dict[str, ModelHistory]] = {"a": {}, "b": {}, "head": {}}
    qualities = dict.fromkeys(known, Quality())
    in_order: list[Update] = []
    for name, each in rated:
        update = step(known[name].values(), each)
        known[name][update.rater] = update.history
        for gaining in {name, "head"}:
            qualities[gaining] = gained(qualities[gaining], update)
        in_order.append(update)
    own = {name: updates([each for layer, each in rated if layer == name]) for name in known}
    apart = {name: iter(made) for name, made in own.items()}
    assert [next(apart[name]) for name, _ in rated] == in_order
    assert qualities["a"] == total(own["a"])
    assert qualities["head"] == total(in_order)


def test_order_counts() -> None:
    bonuses = [
        total(updates(rated)).bonus
        for rated in ([failure("a"), failure("a"), success("b")], [success("b"), failure("a"), failure("a")])
    ]
    assert bonuses[0] > bonuses[1]


def test_a_newcomer_earns_most_where_others_fail() -> None:
    *_, last = updates([*[failure("a")] * 9, success("b")])
    assert last.implementation == 25
    earned, _ = implementation_bonus(histories(updates([failure("a")] * 9)), "b", "success")
    assert (earned.comparative, earned.rare_success, earned.rarity) == (10.0, True, 10.0)


@pytest.mark.parametrize(
    ("rater", "model", "name"),
    [
        ("mara", "judge-1", "judge-1"),
        ("mara", None, "mara"),
        ("mara", "", UNNAMED_RATER),  # a model was named, by no name
        ("", None, UNNAMED_RATER),
        (None, None, UNNAMED_RATER),
        (" ", None, " "),
    ],
)
def test_who_an_evaluation_counts_for(rater: str | None, model: str | None, name: str) -> None:
    assert evaluator(rater, model) == name


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_wilsons_lower_end_is_the_root_it_should_be(counts: tuple[int, int]) -> None:
    """The lower end solves (p - x)^2 = z^2 x (1 - x) / n."""
    attempts, successes = counts
    lower = wilson_adjustment(attempts, successes) - 0.5
    rate, z = Fraction(successes, attempts), Fraction(196, 100)
    left = (rate - Fraction(lower)) ** 2
    right = z * z * Fraction(lower) * (1 - Fraction(lower)) / attempts
    assert abs(left - right) < 1e-12
    assert 0 <= lower <= rate


def test_rates_that_read_as_indexes_are_added_up_first() -> None:
    """0.1 + 0.2 + 0.3 is another double in another order."""
    rates = {"b": (0, 3), "10": (1, 1), "2": (2, 2)}
    known = [
        ModelHistory(model=name, rank=rank, attempts=10, successes=successes)
        for name, (rank, successes) in rates.items()
    ]
    earned, _ = implementation_bonus(known, "new", "success")
    mean = (0.2 + 0.1 + 0.3) / 3
    assert earned.comparative == min(10, (1 - mean) * 20)


@given(st.integers(0, 1000), st.integers(1, 5), st.sampled_from(["clarify", "correct", "other"]))
def test_a_healers_bonus_is_within_its_bounds(improvements: int, n_healers: int, kind: str) -> None:
    assert 3 <= healer_bonus(improvements, n_healers, kind) <= 15
    assert healer_bonus(None, n_healers, kind) == 0


def test_a_layer_that_says_nothing_is_looked_at_as_kairos_does() -> None:
    bare = Layer(uid="a" * 36, bare=True)
    for outcome in ("success", "partial", "failure", None):
        assert layer_quality(bare, outcome) == step_quality(
            "Knowledge step", "general", "context", (), outcome
        )


@pytest.mark.parametrize(("attempts", "successes"), [(1, 2), (0, -1), (-1, 0)])
def test_a_history_has_no_more_successes_than_attempts(attempts: int, successes: int) -> None:
    with pytest.raises(InvalidInput, match="successes must be from 0 to"):
        ModelHistory(model="m", rank=0, attempts=attempts, successes=successes)
