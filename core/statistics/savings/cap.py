"""Size classes → up to how many tokens a run is counted, and what runs add up to then.

A few runaway runs can move a mean to any value. So besides the plain mean there is a capped one: every run
counts, but none with more than a cap. The cap is relative, for one number of tokens for all models would cut the dear
models only and fabricate savings: each run is divided by the median of its model and channel, both groups together,
and the cap is the 95th percentile of all of these. A higher one lets the intervals fail again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from core.columns import Floats, Ints

CAP_QUANTILE: Final = 0.95
_HALVINGS: Final = 60
_STEPS: Final = 8
"""Size classes to each power of two (`core.columns.token_bucket`)."""


def relative_caps(counts: Floats, first: int, quantile: float = CAP_QUANTILE) -> tuple[Floats, Floats]:
    """Return the tokens up to which runs count, and the median, of each model and channel.

    ``counts`` are runs by model and channel (the last axis but one) and size class (the last), of which ``first`` is
    the first; within a class runs count as evenly spread. Infinite, and NaN, where there is no run.

    Examples
    --------
    >>> caps, medians = relative_caps(np.array([[0, 100, 0, 0], [0, 0, 0, 100]]), 80)
    >>> caps.round(1).tolist(), medians.tolist()
    ([1268.1, 1535.1], [1216.0, 1472.0])
    """
    passed = np.concatenate([np.zeros((*counts.shape[:-1], 1)), np.cumsum(counts, -1)], axis=-1)
    medians = _tokens(first + _position_of(passed, passed[..., -1] / 2))
    known = np.isfinite(medians)
    scale = np.where(known, medians, 1.0)
    target = quantile * passed[..., -1].sum(-1)
    low, high = _bounds(counts.shape[-1], first, scale)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        places = _position(np.exp2(middle)[..., None] * scale) - first
        below = _passed_at(passed, places).sum(-1) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(known, np.exp2(high)[..., None] * scale, np.inf), medians


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
    """Return the runs passed at a position, a part of its class included."""
    last = passed.shape[-1] - 1
    position = np.clip(position, 0, last)
    at = np.minimum(position.astype(np.int64), last - 1)
    before = np.take_along_axis(passed, at[..., None], -1)[..., 0]
    after = np.take_along_axis(passed, at[..., None] + 1, -1)[..., 0]
    return np.asarray(before + (position - at) * (after - before))


def _position(tokens: Floats) -> Floats:
    """Return the size class of tokens, and the fraction of it."""
    share, power = np.frexp(tokens)
    return np.asarray(_STEPS * (power - 1 + 2 * share - 1))


def _tokens(position: Floats) -> Floats:
    """Return the tokens at a position."""
    power = np.floor(position / _STEPS)
    return np.asarray(np.exp2(power) * (1 + position / _STEPS - power))


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
