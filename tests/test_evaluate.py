"""Laws of a grade, and of dealing an episode's worth to its steps and arms."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidInput
from core.maths.credit import credited, credited_by_payments
from core.maths.evaluate import grade
from core.records.arm import MICRO
from core.records.evaluation import BLOCKERS, EVALUATION_OUTCOMES, LABELS, Grade, Thresholds

SCORES = st.none() | st.floats(allow_nan=True)
WITHIN = st.floats(0, 1)
WORDS = st.sampled_from([None, "", " ", "\ufeff", "\x1f", "mara", "judge-1"])
OUTCOMES = st.sampled_from(EVALUATION_OUTCOMES)
THRESHOLDS = st.builds(Thresholds, sft=WITHIN, preference=WITHIN, gold=WITHIN)
GRADES = st.builds(grade, OUTCOMES, SCORES, rater=WORDS, model=WORDS, rubric=WORDS, thresholds=THRESHOLDS)
PLACES = st.tuples(st.integers(1, 3), st.integers(1, 4))
AMOUNTS = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000
) | st.sampled_from([Decimal(0), Decimal("1e-300"), Decimal("0.1"), Decimal("-1e300")])
PAYMENTS = st.lists(st.tuples(AMOUNTS, st.lists(PLACES, unique=True, max_size=4)), max_size=8)


@given(GRADES)
def test_flags_agree_with_blockers(graded: Grade) -> None:
    assert graded.exportable_for_sft == (graded.sft_blockers == ())
    assert graded.exportable_for_preference == (graded.preference_blockers == ())
    for blockers in (graded.sft_blockers, graded.preference_blockers):
        assert sorted(set(blockers), key=BLOCKERS.index) == list(blockers)


@given(GRADES)
def test_scores_stay_within_bounds(graded: Grade) -> None:
    assert 0 <= graded.normalized_score <= 1
    assert abs(graded.signed_score) == graded.normalized_score
    assert graded.quality_bonus == graded.signed_score


@given(st.tuples(WITHIN, WITHIN).map(sorted), THRESHOLDS, st.tuples(WORDS, WORDS, WORDS))
def test_a_higher_score_of_a_success_is_never_worth_less(
    scores: list[float], thresholds: Thresholds, words: tuple[str | None, str | None, str | None]
) -> None:
    rater, model, rubric = words
    low, high = (
        grade("success", score, rater=rater, model=model, rubric=rubric, thresholds=thresholds)
        for score in scores
    )
    assert LABELS.index(low.label) <= LABELS.index(high.label)
    assert set(high.sft_blockers) <= set(low.sft_blockers)
    assert set(high.preference_blockers) <= set(low.preference_blockers)


@given(SCORES, WORDS, WORDS, WORDS)
def test_a_failure_is_rejected_and_never_fine_tuned_on(
    score: float | None, rater: str | None, model: str | None, rubric: str | None
) -> None:
    graded = grade("failure", score, rater=rater, model=model, rubric=rubric)
    assert graded.label == "rejected"
    assert "outcome_not_success" in graded.sft_blockers
    assert math.copysign(1, graded.signed_score) == -1


def test_a_score_of_0_is_no_missing_one_and_just_below_gold_is_silver() -> None:
    labels = [
        grade("success", score, rater="mara", model=None, rubric="v1").label for score in (0.8499999, 0.85)
    ]
    assert labels == ["silver", "gold"]
    given_0, given_none = (
        grade("success", score, rater=None, model=None, rubric=None).normalized_score for score in (0, None)
    )
    assert (given_0, given_none) == (0.0, 1.0)


@pytest.mark.parametrize("name", ["sft", "preference", "gold"])
@pytest.mark.parametrize("value", [-0.1, 1.2, math.nan, math.inf, True, "0.9", None])
def test_a_threshold_is_a_number_from_0_to_1(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"The threshold {name} must be a number from 0 to 1"):
        Thresholds(**{name: value})  # type: ignore[arg-type]  # that is the test


@given(PAYMENTS)
def test_shares_go_by_the_size_of_payments_and_add_up_exactly(
    payments: list[tuple[Decimal, list[tuple[int, int]]]],
) -> None:
    exact: dict[tuple[int, int], Fraction] = {}
    for paid, places in payments:
        for place in places:
            exact[place] = exact.get(place, Fraction(0)) + abs(Fraction(paid)) / len(places)
    whole = sum(exact.values())
    found = credited_by_payments(payments)
    assert sum(found.values()) == (MICRO if whole else 0)
    for place, size in exact.items():
        assert not whole or abs(found.get(place, 0) - size * MICRO / whole) < 1


@given(PAYMENTS)
def test_neither_the_order_of_payments_nor_their_scale_nor_their_sign_matters(
    payments: list[tuple[Decimal, list[tuple[int, int]]]],
) -> None:
    found = credited_by_payments(payments)
    mixed = [(-paid, places[::-1]) for paid, places in reversed(payments)]
    assert credited_by_payments(mixed) == found
    assert credited_by_payments([(paid.scaleb(3), places) for paid, places in payments]) == found


@given(st.lists(PLACES, unique=True, min_size=1, max_size=12))
def test_alike_is_by_payments_that_are_alike(places: list[tuple[int, int]]) -> None:
    assert credited(places) == credited_by_payments([(Decimal(2), [place]) for place in places])
    assert sum(credited(places).values()) == MICRO


def test_more_arms_than_millionths_leave_some_without_a_share() -> None:
    found = credited(list(range(MICRO + 1)))
    assert (len(found), sum(found.values())) == (MICRO, MICRO)
