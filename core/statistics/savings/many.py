"""Savings of many learners at once, from their sums.

The plain figures alone, without intervals, which take sessions: for a list, where each leads to its own page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from core.columns import Floats
from core.statistics.savings.ratio import compare
from core.statistics.savings.sums import SELECTED, StratumSums


class PlainSavings(NamedTuple):
    """Savings of selected runs, in per cent and in tokens; None where it cannot be computed."""

    percent: float | None
    tokens: int | None


def plain_savings(learners: Sequence[Sequence[tuple[int, int, int, int]]]) -> list[PlainSavings]:
    """Return the plain figures of many learners, each as `saved_percent_of` has it, and what selected runs saved
    together.

    Parameters
    ----------
    learners : sequence of sequence of four int, n_learners long
        Of each stratum of a learner: baseline runs, their tokens, selected runs, their tokens.

    Returns
    -------
    list of PlainSavings
        One for each learner, in their order.

    Examples
    --------
    >>> [one] = plain_savings([[(4, 400, 10, 650)]])
    >>> round(one.percent, 6), one.tokens, plain_savings([[]])[0].percent
    (35.0, 350, None)
    """
    n_strata = np.array([len(strata) for strata in learners], dtype=np.int64)
    learner = np.repeat(np.arange(len(learners)), n_strata)
    index = np.arange(len(learner)) - np.repeat(np.cumsum(n_strata) - n_strata, n_strata)
    cells = np.zeros((len(learners), int(n_strata.max(initial=0)), 2, 2))
    flat = [stratum for strata in learners for stratum in strata]
    cells[learner, index] = np.array(flat, dtype=np.float64).reshape(-1, 2, 2)
    n, total = cells[..., 0], cells[..., 1]
    # The squares are for intervals alone, which are not computed here.
    sums = StratumSums(n=n, total=total, squares=np.zeros_like(n))
    percent = _figures(compare(sums).saved_percent)
    saved = _figures(compare(sums, weight=n[..., SELECTED]).saved)
    return [
        PlainSavings(share, None if tokens is None else round(tokens))
        for share, tokens in zip(percent, saved, strict=True)
    ]


def _figures(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
