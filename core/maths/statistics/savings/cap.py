"""Cap: the tokens up to which a run counts, and the sums of runs counted so.

A few runaway runs can move a mean to any value. So besides the plain mean there is a capped one: every run
counts, but none with more than a cap. Each group is cut at its own 95th percentile, so that a saving of 25 % in all
runs stays 25 %. Caps are relative, because one number of tokens for all models would cut the dear models only: each
run is divided by the typical run of its group, model and channel, and the percentile is of all of these.

A common cap, from both groups together, says which runs are runaways: a selection must not have more of their tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from core.columns import Floats, Ints
from core.maths.statistics.savings.sums import MIN_SESSIONS

CAP_QUANTILE: Final = 0.95
_TAIL: Final = (0.9, 0.975)
"""Percentiles that measure how thinly runs lie at the cap."""
_ROUNDS: Final = 6
_GRID: Final = np.linspace(0, 1, 21)
"""Parts of a span that each round of a search narrows to one."""
_STEPS: Final = 8
"""Size classes to each power of two (`core.columns.token_bucket`)."""


def relative_caps(counts: Floats, first: int) -> tuple[Floats, Floats]:
    """Return the cap that both groups share, and the median, of each model and channel.

    ``counts`` are runs by model and channel (the last axis but one) and size class (the last), of which ``first`` is
    the first; within a class runs count as evenly spread. Infinite, and NaN, where there is no run.
    """
    n = np.asarray(counts.sum(-1), dtype=np.float64)
    medians = _tokens(first + _position_of(_passed(counts), n / 2))
    known = np.isfinite(medians)
    scale = np.where(known, medians, 1.0)
    quantile = _relative_quantiles(counts, first, scale, n, (CAP_QUANTILE,))
    return np.where(known, quantile * scale, np.inf), medians


def _relative_quantiles(
    counts: Floats, first: int, scale: Floats, weight: Floats, quantiles: tuple[float, ...]
) -> Floats:
    """Return quantiles (the last axis) of runs, each divided by the ``scale`` of its model and channel.

    These weigh ``weight``, however many runs they have.
    """
    passed = _passed(counts)
    n = passed[..., -1]
    weight = np.where(n > 0, weight, 0.0)
    each = weight / np.maximum(n, 1.0)
    target = weight.sum(-1)[..., None] * quantiles
    low, high = (
        np.repeat(end[..., None], len(quantiles), -1) for end in _bounds(counts.shape[-1], first, scale)
    )
    for _ in range(_ROUNDS):
        tried = low[..., None] + (high - low)[..., None] * _GRID
        flat = np.exp2(tried).reshape(*low.shape[:-1], 1, -1)
        positions = _position(flat * scale[..., None]) - first
        n_passed = (each[..., None] * _passed_at(passed, positions)).sum(-2).reshape(tried.shape)
        at = np.clip((n_passed < target[..., None]).sum(-1), 1, len(_GRID) - 1)
        low, high = (low + (high - low) * _GRID[place] for place in (at - 1, at))
    return np.asarray(np.exp2(high))


def _passed(counts: Floats) -> Floats:
    """Return the runs below the start of each class, and below the end of the last."""
    return np.concatenate([np.zeros((*counts.shape[:-1], 1)), np.cumsum(counts, -1)], axis=-1)


@dataclass(frozen=True, kw_only=True)
class OwnCaps:
    """Cap of each group in each model and channel, and what its estimation adds to the variance of a capped mean.

    Flat arrays, indexed by twice the number of model and channel, plus the group. A cap moves with the quantile, by
    ``step`` for each run above it, and with the typical run (``centre`` is its logarithm), by ``slope`` for each unit
    of the logarithm.
    """

    cap: Floats
    step: Floats
    slope: Floats
    centre: Floats

    def moved(self, tokens: Floats, cell: Ints) -> Floats:
        """Return what each run adds to the capped mean, its effect on the cap included."""
        above = np.where(tokens > self.cap[cell], self.step[cell], 0.0)
        off = self.slope[cell] * (np.log(tokens) - self.centre[cell])
        return np.asarray(np.minimum(tokens, self.cap[cell]) + above + off)

    def moved_sums(self, n: Ints, cut: Capped, log: Floats, cell: Ints) -> tuple[Floats, Floats]:
        """Return the same added up over rows of runs, one size class each, and its squares."""
        step, cap = self.step[cell], np.where(np.isfinite(self.cap[cell]), self.cap[cell], 0.0)
        off = self.slope[cell] * (log / np.maximum(n, 1) - self.centre[cell])
        total = cut.total + step * cut.n_above
        squares = cut.squares + step * (step + 2 * cap) * cut.n_above
        return total + n * off, squares + 2 * off * total + n * off**2


def own_caps(counts: Floats, first: int, logs: Floats) -> OwnCaps:
    """Return the caps of both groups, each from its own runs.

    ``counts`` are runs by model and channel, group, and size class; ``logs`` the sums of logarithms of their tokens.
    Models and channels weigh the same in both groups: the runs that both have there.

    * R. J. Serfling, *Approximation Theorems of Mathematical Statistics*, 1980, 8.1: the effect of the quantile.
    * B. M. Hill, *Ann. Stat.* 3, 1975, 1163: the tail as a power, which gives the density at the cap.
    """
    by_group = np.swapaxes(counts, -3, -2)
    n = by_group.sum(-1)
    common = np.where((n >= MIN_SESSIONS).all(-2), n.sum(-2), 0.0)
    has_common = np.asarray(common.any(-1))[..., None]
    weight = np.where(has_common, common, n.sum(-2))[..., None, :]
    centre = np.swapaxes(logs, -2, -1) / np.maximum(n, 1.0)
    scale = np.exp(centre)
    quantiles = _relative_quantiles(by_group, first, scale, weight, (_TAIL[0], CAP_QUANTILE, _TAIL[1]))
    caps = quantiles[..., 1:2] * scale
    weight = np.where(n > 0, weight, 0.0)
    mean_cap = (weight * caps).sum(-1, keepdims=True) / np.maximum(weight.sum(-1, keepdims=True), 1.0)
    tail = np.log(quantiles[..., 2:] / quantiles[..., :1]) / math.log((1 - _TAIL[0]) / (1 - _TAIL[1]))

    def flat(amount: Floats, nothing: float) -> Floats:
        return np.swapaxes(np.where(n > 0, amount, nothing), -2, -1).ravel()

    return OwnCaps(
        cap=flat(caps, np.inf),
        step=flat(tail * mean_cap, 0.0),
        slope=flat((1 - CAP_QUANTILE) * (caps - mean_cap), 0.0),
        centre=flat(centre, 0.0),
    )


def _bounds(n_classes: int, first: int, scale: Floats) -> tuple[Floats, Floats]:
    """Return the powers of two between which the cap lies, in medians."""
    ends = np.log2(_tokens(np.array([first, first + n_classes], dtype=np.float64)))
    return ends[0] - np.log2(scale).max(-1, initial=0.0) - 1, ends[1] - np.log2(scale).min(
        -1, initial=0.0
    ) + 1


def _position_of(passed: Floats, target: Floats) -> Floats:
    """Return the class, and the fraction of it, at which so many runs have been passed; NaN if there is no run."""
    at = np.minimum((passed[..., 1:] < target[..., None]).sum(-1), passed.shape[-1] - 2)
    before = np.take_along_axis(passed, at[..., None], -1)[..., 0]
    inside = np.take_along_axis(passed, at[..., None] + 1, -1)[..., 0] - before
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(at + (target - before) / inside)


def _passed_at(passed: Floats, position: Floats) -> Floats:
    """Return the runs passed at positions (the last axis), a part of each one's class included."""
    last = passed.shape[-1] - 1
    position = np.clip(position, 0, last)
    at = np.minimum(position.astype(np.int64), last - 1)
    starts = np.arange(0, passed.size, last + 1).reshape(*passed.shape[:-1], 1)
    before, after = passed.take(starts + at), passed.take(starts + at + 1)
    return np.asarray(before + (position - at) * (after - before))


def _position(tokens: Floats) -> Floats:
    """Return the size class of tokens, and the fraction of it."""
    share, power = np.frexp(tokens)
    return np.asarray(_STEPS * (power - 1 + 2 * share - 1))


def _tokens(position: Floats) -> Floats:
    """Return the tokens at a position."""
    power = np.floor(position / _STEPS)
    return np.asarray(np.exp2(power) * (1 + position / _STEPS - power))


def bucket_of(amount: Ints) -> Ints:
    """Return the size class of each amount of 1 or more, as `core.columns.token_bucket`.

    >>> bucket_of(np.array([1, 2, 1_000, 1 << 40])).tolist()
    [0, 8, 79, 320]
    """
    return np.floor(_position(amount.astype(np.float64))).astype(np.int64)


class Capped(NamedTuple):
    """Sums of runs counted up to a cap, of their squares, and how many of them are above it."""

    total: Floats
    squares: Floats
    n_above: Floats


def capped(n: Ints, total: Ints, squares: Floats, bucket: Ints, cap: Floats) -> Capped:
    """Return the sums of rows of runs, one size class each, with no run above its row's ``cap``.

    Exact below and above the class of the cap, and in it for rows of one or two runs; more count as lying one
    standard deviation to each side of their mean.
    """
    count = np.maximum(n, 1)
    mean = total / count
    apart = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    known = np.isfinite(cap)
    at = np.where(known, np.floor(_position(np.where(known, cap, 1.0))), np.inf)
    low, high = (np.where(bucket > at, np.inf, mean + side * apart) for side in (-1, 1))
    is_cut = (bucket >= at) & (high > cap)
    low_cut, high_cut = np.where(is_cut, np.minimum(low, cap), 0.0), np.where(is_cut, cap, 0.0)
    return Capped(
        total=np.where(is_cut, n * (low_cut + high_cut) / 2, total),
        squares=np.where(is_cut, n * (low_cut**2 + high_cut**2) / 2, squares),
        n_above=np.where(is_cut, n * (1.0 + (low > cap)) / 2, 0.0),
    )
