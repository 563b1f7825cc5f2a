"""Judgements in long format → Krippendorff's alpha: one minus the disagreement seen by that expected by chance.

A judgement is a row: which item, which value. Nothing loops over items or raters: levels (outcomes, labels) come to a
coincidence matrix by counting, scores to four sums an item, because the matrix of thousands of different scores
would be larger than the data.

A panel holds comparable judgements, one of each grader for each item.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from core.columns import Bools, Floats, Ints
from core.errors import InvalidInput
from core.records.agreement import Metric, NoAgreement

MOST_LEVELS: Final = 32
"""Different levels of a nominal or ordinal value: a rubric has nine."""

_FLAT: Final = 1e-12
"""Expected disagreement of a value, on a scale of 0 to 1, that is nothing but rounding."""


class Alpha(NamedTuple):
    """Krippendorff's alpha in [-1, 1], 0 by chance; None with the reason where it is not defined."""

    value: float | None
    missing: NoAgreement | None


def level_counts(item: Ints, level: Ints) -> Floats:
    """Return the number of times each item received each level."""
    check_rows(item, level)
    if not len(level):
        return np.zeros((0, 0))
    least, most = int(level.min()), int(level.max())
    if least < -1 or most >= MOST_LEVELS:
        raise InvalidInput(
            f"level must be 0 to {MOST_LEVELS - 1}, or -1 where absent, got {least if least < -1 else most}.",
            next_step="Number the levels from 0, or compare scores with the metric interval.",
        )
    if least < 0:
        item, level = item[level >= 0], level[level >= 0]
    n_items = int(item.max(initial=-1)) + 1
    counts = np.bincount(item * (most + 1) + level, minlength=n_items * (most + 1))
    return counts.reshape(n_items, most + 1).astype(np.float64)


def score_sums(item: Ints, score: Ints | Floats) -> Floats:
    """Return a row per item with two or more scores: their number, sum, sum of squares, and disagreement.

    The disagreement is the sum of squared differences over ordered pairs, divided by the number less one.
    Scores are moved and scaled so that those which are paired reach from 0 to 1; alpha stays what it is.
    """
    item, scale, n = paired_scores(item, score)
    total = np.bincount(item, scale, minlength=len(n))
    squares = np.bincount(item, scale * scale, minlength=len(n))
    is_paired = n >= 2
    n, total, squares = n[is_paired], total[is_paired], squares[is_paired]
    apart = 2 * np.maximum(n * squares - total**2, 0) / (n - 1)
    return np.column_stack((n, total, squares, apart))


def paired_scores(item: Ints, score: Ints | Floats) -> tuple[Ints, Floats, Ints]:
    """Return the scores of items that have two or more, scaled to reach from 0 to 1."""
    check_rows(item, score)
    plain = np.asarray(score, dtype=np.float64)
    if np.isinf(plain).any():
        raise InvalidInput(
            "score must be a finite number, or NaN where absent, got an infinite one.",
            next_step="Leave the score out.",
        )
    absent = np.isnan(plain)
    if absent.any():
        item, plain = item[~absent], plain[~absent]
    n = np.bincount(item)
    if (n == 1).any():
        paired = n[item] >= 2
        item, plain = item[paired], plain[paired]
    if not len(item):
        return item, plain, n
    least, most = float(plain.min()), float(plain.max())
    # Halves keep the width of scores near the largest floats finite.
    width = most / 2 - least / 2
    return item, (plain / 2 - least / 2) / (width or 1.0), n


def alpha_of(sums: Floats, metric: Metric) -> Alpha:
    """Return Krippendorff's alpha of the sums over all items.

    ``alpha = 1 - D_o / D_e``: how far the values of one item lie apart, by how far any two values do. Items with
    one judgement say nothing of agreement and are left out of both. K. Krippendorff, *Computing Krippendorff's
    Alpha-Reliability*, 2011 (https://repository.upenn.edu/asc_papers/43).
    """
    n = sums[0] if metric == "interval" else sums.sum()
    if n == 0:
        return Alpha(None, "no_pairs")
    value = float(alphas_of(sums[None], metric)[0])
    return Alpha(None, "no_variation") if np.isnan(value) else Alpha(value, None)


def alphas_of(sums: Floats, metric: Metric) -> Floats:
    """Return the alpha of many such sums at once; NaN where nothing varies."""
    observed, expected = _scores_apart(sums) if metric == "interval" else _levels_apart(sums, metric)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > _FLAT, 1 - observed / expected, np.nan)


def distances(margin: Floats, metric: Metric) -> Floats:
    """Return the distance between each two levels, given how often each level occurs."""
    if metric == "nominal":
        return np.broadcast_to(1 - np.eye(margin.shape[-1]), (*margin.shape, margin.shape[-1]))
    n = np.maximum(margin.sum(axis=-1, keepdims=True), 1)
    middle = (np.cumsum(margin, axis=-1) - margin / 2) / n
    return np.asarray((middle[..., :, None] - middle[..., None, :]) ** 2)


def levels_of(value: Ints | Floats) -> Ints:
    """Return values as levels, -1 where absent."""
    if np.issubdtype(value.dtype, np.integer):
        return np.asarray(value, dtype=np.int64)
    plain = np.where(np.isnan(value), -1.0, value)
    broken = plain[~(np.isfinite(plain) & (plain == np.floor(plain)))]
    if len(broken):
        raise InvalidInput(
            f"level must be a whole number, got {broken[0]}.",
            next_step="Number the levels from 0, or compare scores with the metric interval.",
        )
    return plain.astype(np.int64)


def check_rows(item: Ints, *aligned: Ints | Floats) -> None:
    """Raise `InvalidInput` if rows are not aligned or an item is below 0."""
    shapes = [one.shape for one in (item, *aligned)]
    if len(item.shape) != 1 or len(set(shapes)) > 1:
        raise InvalidInput(
            f"columns must be equally long, got shapes {' and '.join(map(str, shapes))}.",
            next_step="Give one row a judgement.",
        )
    if len(item) and int(item.min()) < 0:
        raise InvalidInput(
            f"item must be 0 or more, got {int(item.min())}.", next_step="Number the items from 0."
        )


def _levels_apart(sums: Floats, metric: Metric) -> tuple[Floats, Floats]:
    """Return the disagreement seen and expected, each a judgement."""
    n_levels = round(sums.shape[-1] ** 0.5)
    matrix = sums.reshape(-1, n_levels, n_levels)
    margin = matrix.sum(axis=-1)
    n = np.maximum(margin.sum(axis=-1), 1)
    apart = distances(margin, metric)
    observed = np.einsum("bck,bck->b", matrix, apart) / n
    expected = np.einsum("bc,bk,bck->b", margin, margin, apart) / (n * np.maximum(n - 1, 1))
    return observed, expected


def _scores_apart(sums: Floats) -> tuple[Floats, Floats]:
    n, total, squares, apart = sums.T
    many = np.maximum(n, 2)
    return apart / many, 2 * (many * squares - total**2) / (many * (many - 1))


def panel(item: Ints, grader: Ints, *, is_known: Bools) -> Ints:
    """Return the rows of a panel: known graders and real items only, and of a grader's several judgements of an item
    the last.

    Parameters
    ----------
    item : array of int, shape (n_rows,)
        What was judged, 0 or more; -1 for what only one grader can judge.
    grader : array of int, shape (n_rows,)
        By whom, 0 to ``n_graders - 1``.
    is_known : array of bool, shape (n_graders,)
        Whether a grader is distinct from every other; a grader without any name is not.

    Returns
    -------
    array of int, shape (n_kept,)
        Indexes of the rows that are kept, ascending.

    Examples
    --------
    >>> item, grader = np.array([0, 0, 0, 1, -1]), np.array([0, 1, 0, 2, 0])
    >>> panel(item, grader, is_known=np.array([True, True, False])).tolist()
    [1, 2]
    """
    rows = np.flatnonzero((item >= 0) & is_known[grader]) if len(item) else np.zeros(0, dtype=np.int64)
    of_pair = (item[rows] * len(is_known) + grader[rows])[::-1]
    latest = np.unique(of_pair, return_index=True)[1]
    return np.sort(rows[len(rows) - 1 - latest])
