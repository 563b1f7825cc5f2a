"""Worlds of raters whose agreement is known: what they would agree on among infinitely many items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.columns import Bools, Floats, Ints
from core.maths.statistics.agreement import Metric
from core.maths.statistics.agreement.alpha import Alpha, alpha_of
from core.maths.statistics.agreement.interval import item_sums


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Rows of judgements, one a judgement."""

    item: Ints
    rater: Ints
    value: Floats

    def where(self, kept: Bools) -> Panel:
        return Panel(item=self.item[kept], rater=self.rater[kept], value=self.value[kept])


def alpha(item: Ints, value: Ints | Floats, metric: Metric) -> Alpha:
    """The alpha of judgements, one a row."""
    return alpha_of(item_sums(item, value, metric).total, metric)


def in_rows(table: Floats) -> Panel:
    """Long format of a table, raters by items, NaN absent; rows in an order of no meaning."""
    rater, item = np.nonzero(~np.isnan(table))
    order = np.random.default_rng(len(item)).permutation(len(item))
    return Panel(item=item[order], rater=rater[order], value=table[rater, item][order])


def outcomes(
    rng: np.random.Generator, n_items: int, *, share: float, know: float, n_raters: int = 3
) -> Panel:
    """Each rater knows an item's outcome with the chance ``know`` and else guesses at its share: alpha is know²."""
    truth = rng.random(n_items) < share
    knows = rng.random((n_raters, n_items)) < know
    said = np.where(knows, truth, rng.random((n_raters, n_items)) < share)
    return in_rows(said.astype(np.float64))


def scores(rng: np.random.Generator, n_items: int, *, alpha: float, n_raters: int = 3) -> Panel:
    """Normal scores whose variance lies between items with the share ``alpha``."""
    truth = rng.normal(size=n_items) * np.sqrt(alpha)
    return in_rows(truth + rng.normal(size=(n_raters, n_items)) * np.sqrt(1 - alpha))
