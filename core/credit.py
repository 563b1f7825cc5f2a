"""Credit: which arms share what a run was worth, and how much of it each gets. Pure; whole millionths.

What was said of a run as a whole is dealt to its arms, and what several people say of one arm in one run is dealt
among them, so that nobody's judgement counts more than one observation. Parts are millionths, by largest remainder:
they add up to the whole exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.records.arm import MICRO
from core.records.evaluation import GraderKind
from core.records.judging import Crediting, Graders


class Claim(NamedTuple):
    """What one judgement was to give an arm when it came: its number, who graded, whose judgements moved arms
    then, and the weight in millionths.
    """

    number: int
    grader: GraderKind
    mover: Graders
    weight_micro: int


def deal(total: int, parts: Sequence[int]) -> list[int]:
    """Shares of ``total`` in proportion to ``parts``, by largest remainder; the earlier first where two are equal.

    Parameters
    ----------
    total
        What is dealt, 0 or more.
    parts
        Shape (n,): 0 or more each, not all 0.

    Returns
    -------
    list of int
        Shape (n,), adding up to ``total``.

    References
    ----------
    M. L. Balinski and H. P. Young, Fair Representation, 1982 (Hamilton's method).

    Examples
    --------
    >>> deal(1_000_000, [1, 1, 1])
    [333334, 333333, 333333]
    """
    whole = sum(parts)
    shares = [total * part // whole for part in parts]
    left = total - sum(shares)
    by_remainder = sorted(range(len(parts)), key=lambda place: (-(total * parts[place] % whole), place))
    for place in by_remainder[:left]:
        shares[place] += 1
    return shares


def credited(crediting: Crediting, included: Sequence[int], referenced: Sequence[int]) -> dict[int, int]:
    """What each arm gets of a judgement of its run as a whole: arm number → weight in millionths.

    Nothing where the setting says so, and where there is no arm to get it.

    >>> credited("equal", [4, 7], [7]), credited("referenced", [4, 7], [7]), credited("none", [4], [])
    ({4: 500000, 7: 500000}, {7: 1000000}, {})
    """
    arms = sorted({"none": (), "equal": included, "referenced": referenced}[crediting])
    if not arms:
        return {}
    dealt = deal(MICRO, [1] * len(arms))
    return {arm: weight for arm, weight in zip(arms, dealt, strict=True) if weight}


def shares(claims: Sequence[Claim]) -> dict[int, int]:
    """What each of the judgements of one arm in one run gives it: number → weight in millionths.

    ``claims`` come in the order they were made. Those that count share one observation; where the setting of the
    time chose a kind of grader, the first of that kind takes the place of all others.

    >>> shares([Claim(1, "human", "all", MICRO), Claim(2, "model", "all", MICRO)])
    {1: 500000, 2: 500000}
    >>> shares([Claim(1, "model", "human", MICRO), Claim(2, "human", "human", MICRO)])
    {2: 1000000}
    """
    moving: list[Claim] = []
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
