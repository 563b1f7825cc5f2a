"""Laws of dealing: parts of an episode's worth are millionths that add up to one observation."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from core.maths.credit import credited, credited_by_payments
from core.records.arm import MICRO

PLACES = st.tuples(st.integers(1, 3), st.integers(1, 4))
AMOUNTS = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000
) | st.sampled_from([Decimal(0), Decimal("1e-300"), Decimal("0.1"), Decimal("-1e300")])
PAYMENTS = st.lists(st.tuples(AMOUNTS, st.lists(PLACES, unique=True, max_size=4)), max_size=8)


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
