"""Credit: which arms share the value of a run, and the part of each. Pure; whole millionths.

A judgement of a run as a whole is dealt to its arms. Judgements of several people on one arm in one run share one
observation, so no judgement counts more than one. The value of an episode is dealt to the arms of its runs. Parts are
millionths, by largest remainder: they add up to the whole exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Final, TypeVar

import msgspec

from core.records.arm import MICRO
from core.records.evaluation import Crediting, GraderKind, Graders
from core.records.evidence import INCLUDED, REFERENCED

Sharer = TypeVar("Sharer", int, tuple[int, int])
"""An arm by number, or a run and an arm in its prompt."""

SHARING: Final[Mapping[Crediting, int]] = {"none": 0, "equal": INCLUDED, "referenced": INCLUDED | REFERENCED}
"""Flags that an arm must have in a run to share a judgement of the whole run; 0 = no arm shares it."""


class CreditClaim(msgspec.Struct, frozen=True, gc=False):
    """Claim of one judgement on an arm: its number, who graded, whose judgements moved arms at that time, and the
    weight in millionths.
    """

    number: int
    grader: GraderKind
    mover: Graders
    weight_micro: int


def deal(total: int, parts: Sequence[int]) -> list[int]:
    """Return the shares of ``total`` in proportion to ``parts``, by largest remainder; the earlier first on a tie.

    Both are 0 or more, and not all parts 0.
    M. L. Balinski and H. P. Young, Fair Representation, 1982 (Hamilton's method).
    """
    whole = sum(parts)
    shares = [total * part // whole for part in parts]
    left = total - sum(shares)
    by_remainder = sorted(range(len(parts)), key=lambda index: (-(total * parts[index] % whole), index))
    for index in by_remainder[:left]:
        shares[index] += 1
    return shares


def credited(arms: Sequence[Sharer]) -> dict[Sharer, int]:
    """Return the equal weights in millionths for the arms that share a judgement of their run, or an episode's value.

    >>> credited([7, 4]), credited([7]), credited([])
    ({4: 500000, 7: 500000}, {7: 1000000}, {})
    """
    if len(arms) == 1:
        return {arms[0]: MICRO}
    return {arm: weight for arm, weight in zip(sorted(arms), _alike(len(arms)), strict=True) if weight}


def credited_by_payments(payments: Iterable[tuple[Decimal, Sequence[Sharer]]]) -> dict[Sharer, int]:
    """Return the weights of the arms that share an episode's value by the payments of its steps.

    Of each payment, positive or negative, the size counts, and the arms that its step called share that alike. A
    payment whose step called none is left out; if nothing is left, no arm gets anything.

    >>> credited_by_payments([(Decimal("0.5"), [7]), (Decimal("-1"), [4, 7]), (Decimal("9"), [])])
    {4: 333333, 7: 666667}
    >>> credited_by_payments([(Decimal(0), [7])])
    {}
    """
    sizes: dict[Sharer, Fraction] = defaultdict(Fraction)
    for paid, arms in payments:
        for arm in arms if paid else ():
            sizes[arm] += Fraction(paid.copy_abs()) / len(arms)
    if not sizes:
        return {}
    order = sorted(sizes)
    common = lcm(*(size.denominator for size in sizes.values()))
    dealt = deal(MICRO, [int(sizes[arm] * common) for arm in order])
    return {arm: weight for arm, weight in zip(order, dealt, strict=True) if weight}


@lru_cache
def _alike(n: int) -> list[int]:
    """Deal one observation in equal parts to ``n``."""
    return deal(MICRO, [1] * n) if n else []


def shares(claims: Sequence[CreditClaim]) -> dict[int, int]:
    """Return the weight of each judgement of one arm in one run: number → weight in millionths.

    ``claims`` come in the order they were made. Those that count share one observation; where the setting of the
    time chose a kind of grader, the first of that kind replaces all others.

    >>> shares([CreditClaim(1, "human", "all", MICRO), CreditClaim(2, "model", "all", MICRO)])
    {1: 500000, 2: 500000}
    >>> shares([CreditClaim(1, "model", "human", MICRO), CreditClaim(2, "human", "human", MICRO)])
    {2: 1000000}
    """
    moving: list[CreditClaim] = []
    for claim in claims:
        if claim.mover == "all":
            moving.append(claim)
        elif claim.grader == claim.mover:
            moving = [one for one in moving if one.grader == claim.mover]
            moving.append(claim)
        elif all(one.grader != claim.mover for one in moving):
            moving.append(claim)
    if not moving:
        return {}
    weights = [claim.weight_micro for claim in moving]
    dealt = deal(sum(weights) // len(moving), weights)
    return {claim.number: weight for claim, weight in zip(moving, dealt, strict=True) if weight}
