"""Packing: order, costs, budget → what goes into the prompt. The one packer, for real selections and simulated ones.

Arms are packed one after the other; what does not fit is skipped and the next tried, so the remaining budget
never grows along the way. A budget or a number of arms of 0 is unlimited. Seeds are packed whether or not
they fit; once they exceed the budget nothing else fits, not even an arm whose cost is 0 or unknown.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from math import lgamma
from typing import Final

import numpy as np

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.errors import InvalidInput
from core.records.selection import MAX_SEED_BITS

_ROUNDS: Final = 24
"""Vectorised passes before going on arm by arm: an unlucky order of costs takes one pass per arm."""

_FEW: Final = 128
"""Arms that are packed one by one from the start: that is quicker than a pass."""

_BLOCK: Final = 1_024
"""Arms added up in one pass; a budget rarely reaches further."""

_CERTAIN: Final = 1e-4
"""Least distance of a chance from 0 and 1 where a draw decides."""

_NONE: Final = np.array([], dtype=np.int64)


def counted_cost(token_cost: Ints) -> Ints:
    """Return the tokens that count against the budget: an unknown cost counts as 0.

    Parameters
    ----------
    token_cost : array of int, any shape
        Tokens of each arm, 0 or more, or `UNKNOWN` (-1).

    Returns
    -------
    array of int, same shape
        Tokens, 0 or more.

    Examples
    --------
    >>> counted_cost(np.array([120, UNKNOWN])).tolist()
    [120, 0]
    """
    return np.where(token_cost == UNKNOWN, 0, token_cost)


def seed_places(keys: Sequence[str], seed_arms: Collection[str]) -> Ints:
    """Return the indexes of the seeds among sorted ``keys``, ascending; seeds that are no arms yet are left out.

    It finds excluded arms, too.
    """
    candidates = {(bisect_left(keys, seed), seed) for seed in seed_arms}
    places = sorted(index for index, seed in candidates if index < len(keys) and keys[index] == seed)
    return np.array(places, dtype=np.int64)


def order_selected(
    seeds: Ints,
    pulls: Ints,
    draws: Floats,
    min_pulls: int,
    *,
    leading: int = 0,
    excluded: Ints = _NONE,
    first: Ints = _NONE,
) -> tuple[Ints, int]:
    """Return the order of a selected run, and how many under-explored arms follow its seeds.

    Seeds by id, then ``first``, then arms below ``min_pulls`` with fewest pulls first (ties: higher draw), then all
    others by draw, highest first, and the excluded arms by id. Equal draws are ordered by id. With ``leading``, only
    so many from the front (or a few more) are put in order, which is much quicker where they are few. ``seeds``,
    ``excluded`` and ``first`` are indexes, ascending, none in two of them; ``pulls`` and ``draws`` are those of each
    arm.

    W. R. Thompson, *Biometrika* 25, 1933, 285 (doi:10.1093/biomet/25.3-4.285): the draws.
    """
    is_under = pulls < min_pulls
    is_under[seeds] = False
    is_under[excluded] = is_under[first] = False
    under = np.flatnonzero(is_under)
    # One sort for all: seeds and under-explored arms are pushed to the front, then put in their own orders.
    falling = -draws
    falling[under] = -2.0
    falling[first] = -2.5
    falling[seeds] = -3.0
    falling[excluded] = 1.0
    n_fixed = len(seeds) + len(first)
    n_ahead = n_fixed + len(under)
    order = _rising(falling, max(leading, n_ahead) if leading else len(falling))
    order[:n_fixed] = np.concatenate((seeds, first))
    order[n_fixed:n_ahead] = under[np.lexsort((-draws[under], pulls[under]))]
    return order, len(under)


def _rising(value: Floats, n_needed: int) -> Ints:
    """Return indexes by value, ties by index: all of them, or from the smallest on at least those needed.

    The bound up to which to sort is read off every eighth value: cheaper than finding it exactly.
    """
    if 4 * n_needed < len(value):
        bound = np.sort(value[::8])[n_needed // 8 + 16 :]
        places = np.flatnonzero(value <= bound[0]) if len(bound) else np.array([], dtype=np.int64)
        if len(places) >= n_needed:
            return places[np.argsort(value[places], kind="stable")]
    return np.argsort(value, kind="stable")


def order_baseline(seeds: Ints, shuffled: Ints, *, excluded: Ints = _NONE) -> Ints:
    """Return the order of a baseline run: seeds by id, the others as ``shuffled`` has them, excluded arms by id.

    >>> order_baseline(np.array([1]), np.array([2, 1, 0])).tolist()
    [1, 2, 0]
    """
    if not len(seeds) and not len(excluded):
        return shuffled
    others = shuffled[~np.isin(shuffled, np.concatenate((seeds, excluded)))]
    return np.concatenate((seeds, others, excluded))


def fill(cost: Ints, n_seeds: int, budget_tokens: int, k: int) -> Bools:
    """Return which arms go in; ``cost`` and the answer are in packing order, the first ``n_seeds`` being seeds.

    Seeds go in whether or not they fit, and count against the tokens and the arms that may go in (0 = unlimited).
    """
    packed = np.zeros(len(cost), dtype=np.bool_)
    packed[:n_seeds] = True
    room = len(cost) - n_seeds if k == 0 else max(k - n_seeds, 0)
    if budget_tokens == 0:
        packed[n_seeds : n_seeds + room] = True
        return packed
    left = budget_tokens - int(cost[:n_seeds].sum())
    if left >= 0 and room > 0:
        _fill_rest(packed, cost, n_seeds, left, room)
    return packed


def _fill_rest(packed: Bools, cost: Ints, start: int, left: int, room: int) -> None:
    """Pack in passes: a block that fits as a whole, then only among those that can still fit."""
    places = np.arange(start, len(cost))
    for _ in range(_ROUNDS if len(places) > _FEW else 0):
        running = np.cumsum(cost[places[:_BLOCK]])
        n_in = min(int(np.searchsorted(running, left, side="right")), room)
        packed[places[:n_in]] = True
        room -= n_in
        left -= int(running[n_in - 1]) if n_in else 0
        places = places[n_in:]
        places = places[np.flatnonzero(cost[places] <= left)] if n_in < len(running) else places
        if room == 0 or not len(places):
            return
    for index, tokens in zip(places.tolist(), cost[places].tolist(), strict=True):
        if room and tokens <= left:
            packed[index] = True
            left -= tokens
            room -= 1


# Chances


def ranks_to_beat(costs: Sequence[int], left: int, room: int) -> list[int]:
    """Return the rank of the arm that each arm must go ahead of to be packed, if all others keep their order.

    It is -1 for an arm that never fits, and the number of arms for one that fits even as the last. An arm that is out
    must go ahead of the arm that left too little for it. An arm that is in must stay ahead of the first one behind it
    that would fit instead. ``costs`` are by rank.

    >>> ranks_to_beat([3, 4, 2, 1], 5, 4)
    [1, 0, 3, 2]
    """
    spent, lacks = [], []
    for tokens in costs:
        spent.append(-left if room > 0 else 1)
        fits = room > 0 and tokens <= left
        lacks.append(None if fits else tokens - left)
        left, room = (left - tokens, room - 1) if fits else (left, room)
    ranks = [bisect_right(spent, -tokens) - 1 for tokens in costs]
    # Lacks and ranks of the arms that are out. An earlier arm hides later ones that lack as much or more.
    out: list[tuple[int, int]] = []
    for rank in range(len(costs) - 1, -1, -1):
        if (lack := lacks[rank]) is None:
            at = bisect_right(out, (costs[rank], len(costs)))
            ranks[rank] = out[at - 1][1] if at else len(costs)
        else:
            del out[bisect_left(out, (lack, 0)) :]
            out.append((lack, rank))
    return ranks


def chance_above(alpha: Floats, beta: Floats, draw: Floats) -> Floats:
    """Return the chance, from 0.0001 to 0.9999, that each posterior draws more. SciPy would take long to load.

    Peizer and Pratt's normal approximation is taken with one more success and failure, and the exact difference is
    subtracted. The error is below 0.001 where both parameters are 1 or more, and below 0.004 from 0.1 on.

    D. Peizer and J. Pratt, *J. Am. Stat. Assoc.* 63, 1968, 1416 (doi:10.1080/01621459.1968.10480938). E. Page, *Appl.
    Stat.* 26, 1977, 75 (doi:10.2307/2346872): the normal distribution.

    >>> chance_above(np.array([1.0, 8.0]), np.array([1.0, 2.0]), np.array([0.25, 0.9])).round(2).tolist()
    [0.75, 0.23]
    """
    x = np.minimum(np.maximum(draw, 1e-300), 1 - 1e-16)
    y, n = 1 - x, alpha + beta + 1
    log_x, log_y = np.log(x), np.log(y)
    a, b = alpha + 0.5, beta + 0.5
    gap, least = b - n * y, 1e-12 * n
    deviance = b * (np.log(b / n) - log_y) + a * (np.log(a / n) - log_x)
    slope = (2 * deviance + least) / (gap * gap + least * n * x * y)  # its limit where the gap is 0
    skew = 0.02 * (x / (beta + 1) - y / (alpha + 1) + (x - 0.5) / (n + 1))
    normal = (gap + 1 / 6 - y / 3 + skew) * np.sqrt(slope / (1 + 1 / (6 * n)))
    rows = zip(alpha.tolist(), beta.tolist(), strict=True)
    logs = np.array([lgamma(one + other) - lgamma(one) - lgamma(other) for one, other in rows])
    more = np.exp(logs + alpha * log_x + beta * log_y) * (y / alpha - x / beta)
    above = 0.5 - 0.5 * np.tanh(normal * (0.7988 + 0.03528 * normal * normal)) - more
    result: Floats = np.minimum(np.maximum(above, _CERTAIN), 1 - _CERTAIN)
    return result


# Seeds and draws


def generator(seed: int) -> np.random.Generator:
    """Return the generator of a seed; raise `InvalidInput` outside 0 to 2^128 - 1."""
    if not 0 <= seed < 1 << MAX_SEED_BITS:
        raise InvalidInput(
            f"seed must be a whole number from 0 to 2^{MAX_SEED_BITS} - 1, got {seed}.",
            next_step="Draw one with secrets.randbits(128); 0 is a seed too.",
        )
    return np.random.Generator(np.random.PCG64(seed))


def belief_digest(
    keys: Sequence[str], alpha_micro: Sequence[int] | Ints, beta_micro: Sequence[int] | Ints
) -> str:
    """Return sixteen hexadecimal digits of arms and their beliefs.

    Parameters
    ----------
    keys : sequence of str
        Ids of the arms, sorted.
    alpha_micro : sequence of int, shape (n_arms,)
        First parameter of their posteriors, in millionths.
    beta_micro : sequence of int, shape (n_arms,)
        Second parameter, in millionths.

    Returns
    -------
    str
        The first 16 hexadecimal digits of a hash.

    Examples
    --------
    >>> belief_digest(["tool:fs:Read"], [1_000_000], [1_000_000]) == belief_digest(["tool:fs:Read"], [2], [2])
    False
    """
    hashed = hashlib.blake2b("\n".join(keys).encode("utf-8", "surrogatepass"), digest_size=8)
    for amounts in (alpha_micro, beta_micro):
        hashed.update(np.asarray(amounts, dtype="<i8").tobytes())
    return hashed.hexdigest()


def coin_and_draws(seed: int, baseline_rate: float, alpha: Floats, beta: Floats) -> tuple[bool, Floats]:
    """Return what a seed decides first: whether the coin says baseline, and the draws that follow if it doesn't.

    Parameters
    ----------
    seed : int
        Of the random generator, from 0 to 2^128 - 1.
    baseline_rate : float
        Probability of the coin.
    alpha : array of float, shape (n_arms,)
        First parameter of the posteriors of the arms, sorted by id.
    beta : array of float, shape (n_arms,)
        Second parameter.

    Returns
    -------
    tuple of bool and Floats
        The coin and one draw per arm.
    """
    rng = generator(seed)
    return bool(rng.random() < baseline_rate), rng.beta(alpha, beta)
