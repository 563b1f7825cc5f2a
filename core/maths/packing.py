"""Packing: order, costs, budget → what goes into the prompt. The one packer, for real selections and simulated ones.

Arms are packed one after the other; what does not fit is skipped and the next tried, so the remaining budget
never grows along the way. A budget or a number of arms of 0 is unlimited. Seeds are packed whether or not
they fit; once they exceed the budget nothing else fits, not even an arm whose cost is 0 or unknown.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from functools import lru_cache
from math import prod
from typing import Final, NamedTuple

import numpy as np

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.errors import InvalidInput
from core.records.selection import MAX_SEED_BITS

_ROUNDS: Final = 24
"""Vectorised passes before going on arm by arm: an unlucky order of costs takes one pass per arm."""

_FEW: Final = 128
"""Up to so many arms are packed arm by arm: passes cost more."""

_BLOCK: Final = 1_024
"""Arms added up in one pass; a budget rarely reaches further."""

_NONE: Final = np.array([], dtype=np.int64)

N_DRAWS: Final = 256
"""Draws for chances by default."""

_N_SIMULATIONS: Final = 32
"""Simulations at most."""

_N_SPREAD: Final = 1 << 10
"""Samples of which each arm gets two at random."""

_MOST: Final = 1e7
_APART: Final = 1e8
_ANY: Final = -1e15
"""Largest cube root, distance between groups that go ahead of each other, and the threshold that any draw beats."""

_CERTAIN: Final = 9.0
"""Normal quantile beyond which there is nothing."""

_UNCERTAIN: Final = 1e-4
"""Least distance of a chance from 0 and 1 where draws matter."""


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


def chances(
    alpha: Floats,
    beta: Floats,
    cost: Ints,
    *,
    ahead: Ints | None = None,
    left: int,
    room: int,
    seed: int,
    n_draws: int = N_DRAWS,
) -> Floats:
    """Return the chance of each of these arms to go in, where draws decide their order.

    Few simulations give each arm the draw that it must beat, as in `core.maths.statistics.inclusion.simulation`. The
    chance is the mean probability of a higher draw. A draw is a ratio of two gamma numbers. Those of an arm are
    spread evenly over their distributions, one in each of equal parts.

    Parameters
    ----------
    alpha, beta : array of float, shape (n_arms,)
        Parameters of the posteriors.
    cost : array of int, shape (n_arms,)
        Tokens, 0 or more.
    ahead : array of int, shape (n_arms,), or None, optional
        Number of the group of each arm, from 0; a lower one goes ahead. None: there is one group.
    left : int
        Tokens that may be taken.
    room : int
        Number of arms that may go in.
    seed : int
        Of the simulations. They use no generator of NumPy.
    n_draws : int, optional
        Draws of the simulations in all, about. Many arms steady each other's thresholds.

    Returns
    -------
    array of float, shape (n_arms,)
        Probabilities; 0 and 1 only where no draw matters. With 256 draws the mean error is below 0.03.

    References
    ----------
    E. Paulson, *Ann. Math. Stat.* 13, 1942, 233 (doi:10.1214/aoms/1177731608): cube roots. E. Page, *Appl. Stat.* 26,
    1977, 75 (doi:10.2307/2346872): the normal distribution. M. McKay, R. Beckman and W. Conover, *Technometrics* 21,
    1979, 239 (doi:10.1080/00401706.1979.10489755): equal parts.
    """
    at = np.flatnonzero(cost <= (left if room > 0 else -1))
    if len(at) < len(cost):
        result = np.zeros(len(cost))
        if len(at):
            beliefs, groups = (alpha[at], beta[at], cost[at]), None if ahead is None else ahead[at]
            result[at] = chances(*beliefs, ahead=groups, left=left, room=room, seed=seed, n_draws=n_draws)
        return result
    if int(cost.sum()) <= left and len(cost) <= room:
        return np.ones(len(cost))
    posteriors = _CubeRoots.of(alpha, beta, min(max(n_draws // len(cost), 1), _N_SIMULATIONS), seed)
    if ahead is None:
        thresholds = _thresholds(posteriors.draws, cost, left, room)
    else:
        behind = ahead * _APART
        thresholds = _thresholds(posteriors.draws - behind, cost, left, room) + behind
    return np.minimum(np.maximum(posteriors.above(thresholds), _UNCERTAIN), 1 - _UNCERTAIN)


class _CubeRoots(NamedTuple):
    """Draws as cube roots of odds in ``unit``: each a ratio of two numbers that are nearly normal.

    ``inverse_a`` and ``inverse_b`` are their variances, and what their means lack to 1.
    """

    draws: Floats
    unit: Floats
    inverse_a: Floats
    inverse_b: Floats

    @classmethod
    def of(cls, alpha: Floats, beta: Floats, n_simulations: int, seed: int) -> _CubeRoots:
        """Return one row of draws per simulation."""
        parts = np.array((alpha, beta))
        small = parts < 1
        power: float | Floats = 1.0
        if small.any():  # a gamma number is that of a larger part times a power of a uniform one
            uniform = (_words(f"powers {seed}", 2, n_simulations, len(alpha)) + 0.5) / 2**32
            logs = small[:, None] * np.log(uniform) / (3 * parts)[:, None]
            power = np.exp(np.clip(logs[0] - logs[1], -60, 60))
            parts = parts + small
        normal = _spread(n_simulations)[:, _words(f"chances {seed}", 2, len(alpha)) % _N_SPREAD]
        inverse = 1 / (9 * parts)
        ratio = normal * np.sqrt(inverse) + (1 - inverse)
        unit = np.cbrt(parts[0] / parts[1]) * power
        roots = unit * ratio[:, 0] / np.maximum(ratio[:, 1], 0.01)
        return cls(np.minimum(np.maximum(roots, -_MOST), _MOST), unit, *inverse)

    def above(self, thresholds: Floats) -> Floats:
        """Return the mean probability of a draw above the thresholds."""
        roots = thresholds / self.unit
        normal = (roots - roots * self.inverse_b - 1 + self.inverse_a) / np.sqrt(
            roots * roots * self.inverse_b + self.inverse_a
        )
        normal[thresholds < -_APART / 2] = -_CERTAIN
        normal[thresholds > _APART / 2] = _CERTAIN
        twice = np.tanh(normal * (0.7988 + 0.03528 * (normal * normal))).sum(axis=0)
        return np.asarray(0.5 - twice / (2 * len(thresholds)))


@lru_cache(maxsize=_N_SIMULATIONS)
def _spread(n_simulations: int) -> Floats:
    """Return samples of normal numbers, one per column: each has one number in each of equal parts.

    The quantiles are by Page's formula, the inverse of the probability in `_CubeRoots.above`.
    """
    words = _words("spread", 2, n_simulations, _N_SPREAD)
    share = (words[0].argsort(axis=0) + (words[1] + 0.5) / 2**32) / n_simulations
    return np.asarray(5.494 * np.sinh(np.arcsinh(0.3418 * np.log(share / (1 - share))) / 3))


def _words(name: str, *shape: int) -> Ints:
    """Return random 32-bit numbers, the same with every version of NumPy."""
    data = hashlib.shake_128(name.encode()).digest(4 * prod(shape))
    return np.frombuffer(data, dtype="<u4").reshape(shape)


def _thresholds(draws: Floats, cost: Ints, left: int, room: int) -> Floats:
    """Return the draw that each arm must beat, one row per simulation."""
    n_simulations, n_arms = draws.shape
    rows = np.arange(n_simulations)[:, None]
    order = (-draws).argsort(axis=1)
    ranks = np.array([_beaten(own, left, room) for own in cost[order].tolist()])
    ordered = np.full((n_simulations, n_arms + 1), _ANY)
    ordered[:, :-1] = draws[rows, order]
    result = np.empty_like(draws)
    result[rows, order] = ordered[rows, ranks]
    return result


def _beaten(costs: Sequence[int], left: int, room: int) -> list[int]:
    """Return the rank of the arm that each one must go ahead of to be in, their number where it may be the last.

    >>> _beaten([3, 4, 2, 1], 5, 4)
    [1, 0, 3, 4]
    """
    now, free, largest = left, room, -1
    lefts: list[int] = []
    unbeaten: list[int] = []
    others: list[int] = []
    ranks = [len(costs)] * len(costs)
    for rank, tokens in enumerate(costs):
        if free and tokens <= now:
            now -= tokens
            free -= 1
            largest = max(largest, tokens)
            (unbeaten if len(unbeaten) < N_DRAWS else others).append(
                rank
            )  # one of many needs hardly any room
        else:
            others.append(rank)
            lack = tokens - now
            if lack <= largest:  # it would fit without one of those that are in, and then takes its room
                for at in unbeaten:
                    if costs[at] >= lack:
                        ranks[at] = rank
                unbeaten = [at for at in unbeaten if costs[at] < lack]
                largest = max([costs[at] for at in unbeaten], default=-1)
        lefts.append(-now if free else 1)
    for rank in others:  # the one whose packing left too little
        ranks[rank] = bisect_right(lefts, -costs[rank])
    return ranks


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
