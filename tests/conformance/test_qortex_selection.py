"""How often each arm is selected, over as many draws as qortex was asked for.

Two samples are compared, so a frequency may differ by four standard errors of both together.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

from core.columns import Bools, Floats, Ints
from core.packing import fill, fill_many, order_selected
from tests.conformance import rules
from tests.conformance.vectors import Case, Deviation, Vector, compare, load

ERRORS: Final = 4
CHECKED_ORDERS: Final = 100


@dataclass(frozen=True)
class Asked:
    """A vector's question, its arms as columns; an arm without a state is at Beta(1, 1)."""

    keys: tuple[str, ...]
    cost: Ints
    alpha: Floats
    beta: Floats
    pulls: Ints
    rate: float
    min_pulls: int
    budget_tokens: int
    k: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Asked:
        states = [given["states"].get(arm["id"], {}) for arm in given["arms"]]
        return cls(
            keys=tuple(arm["id"] for arm in given["arms"]),
            cost=np.array([arm["token_cost"] for arm in given["arms"]], dtype=np.int64),
            alpha=np.array([state.get("alpha", 1) for state in states], dtype=np.float64),
            beta=np.array([state.get("beta", 1) for state in states], dtype=np.float64),
            pulls=np.array([state.get("pulls", 0) for state in states], dtype=np.int64),
            rate=given["config"].get("baseline_rate", 0.1),
            min_pulls=given["config"].get("min_pulls", 0),
            budget_tokens=given["token_budget"],
            k=given["k"],
        )

    @property
    def under(self) -> Ints:
        """Places of the under-explored arms."""
        return np.flatnonzero(self.pulls < self.min_pulls)

    @property
    def forced_out(self) -> bool:
        """Whether the under-explored arms are too many or too large to go in together."""
        tokens = int(self.cost[self.under].sum())
        return 0 < self.budget_tokens < tokens or 0 < self.k < len(self.under)

    @property
    def is_short(self) -> bool:
        """Whether something must be left out."""
        return 0 < self.budget_tokens < int(self.cost.sum()) or 0 < self.k < len(self.cost)


# What we do otherwise


def _baseline_ignores_k(case: Case) -> bool:
    asked = Asked.of(case.vector.input)
    return case.name == "packed" and asked.rate > 0 and 0 < asked.k < len(asked.keys)


def _forces_under_explored(case: Case) -> bool:
    asked = Asked.of(case.vector.input)
    if case.name == "over budget":
        return 0 < asked.budget_tokens < int(asked.cost[asked.under].sum())
    return case.name == "packed" and asked.forced_out


def _explores_in_baseline(case: Case) -> bool:
    asked = Asked.of(case.vector.input)
    is_mixed = asked.rate > 0 and 0 < len(asked.under) < len(asked.keys)
    return is_mixed and (case.name == "first" or (case.name == "packed" and asked.is_short))


def _explores_as_listed(case: Case) -> bool:
    asked = Asked.of(case.vector.input)
    if case.name != "first" or len(asked.under) < 2:
        return False
    most = asked.budget_tokens or int(asked.cost.sum())
    fitting = [place for place in asked.under if asked.cost[place] <= most]
    fewest = min((asked.pulls[place] for place in fitting), default=-1)
    return [place for place in fitting if asked.pulls[place] == fewest] != [asked.under[0]]


DEVIATIONS: Final = (
    Deviation(
        rules.BASELINE,
        "A baseline run shows what the prompt would be without us, so k does not hold it back.",
        _baseline_ignores_k,
    ),
    Deviation(
        rules.SELECTED,
        "qortex puts all under-explored arms in, past budget and k.",
        _forces_under_explored,
    ),
    Deviation(
        rules.BASELINE,
        "qortex puts under-explored arms first in baseline runs too.",
        _explores_in_baseline,
    ),
    Deviation(
        rules.EXPLORED,
        "qortex takes under-explored arms as they are listed.",
        _explores_as_listed,
    ),
)


@pytest.mark.parametrize("vector", load("qortex_selection"))
def test_arms_are_selected_as_often_as_by_qortex(vector: Vector) -> None:
    asked = Asked.of(vector.input)
    n_draws = vector.output["draws"]
    ours = _drawn(asked, n_draws, np.random.default_rng(zlib.crc32(vector.id.encode())))
    compare(
        vector, ours, _told(vector.output, asked), DEVIATIONS, lambda one, other: _near(one, other, n_draws)
    )


def _told(output: Mapping[str, Any], asked: Asked) -> dict[str, list[float]]:
    sizes = output["set_size_fraction"]
    return {
        "baseline": [output["baseline_fraction"]],
        "packed": [
            *[output["inclusion"][key] for key in asked.keys],
            *[sizes.get(str(size), 0.0) for size in range(len(asked.keys) + 1)],
        ],
        "first": [output["first_place"][key] for key in asked.keys],
        "over budget": [output["over_budget_fraction"]],
    }


def _near(ours: list[float], theirs: list[float], n_draws: int) -> bool:
    return all(map(lambda one, other: _is_near(one, other, n_draws), ours, theirs))


def _is_near(ours: float, theirs: float, n_draws: int) -> bool:
    # A frequency of 0 or 1 still has an error: about what one more draw would have made of it.
    variances = [max(share * (1 - share), 1 / n_draws) / n_draws for share in (ours, theirs)]
    return abs(ours - theirs) <= ERRORS * float(np.sqrt(sum(variances)))


def _drawn(asked: Asked, n_draws: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """Frequencies of our selection: coin, order, packing, all draws at once."""
    is_baseline = rng.random(n_draws) < asked.rate
    n_baseline = int(is_baseline.sum())
    shuffled = np.argsort(rng.random((n_baseline, len(asked.keys))), axis=1)
    baseline = _packed(asked, shuffled, k=0)
    selected = _packed(asked, _orders(asked, n_draws - n_baseline, rng), k=asked.k)
    packed, first = np.concatenate((baseline[0], selected[0])), np.concatenate((baseline[1], selected[1]))
    used = (packed * asked.cost).sum(axis=1)
    is_over = (used > asked.budget_tokens) if asked.budget_tokens else np.zeros(n_draws, dtype=np.bool_)
    size = np.bincount(packed.sum(axis=1), minlength=len(asked.keys) + 1)
    return {
        "baseline": [n_baseline / n_draws],
        "packed": [*packed.mean(axis=0).tolist(), *(size / n_draws).tolist()],
        "first": (np.bincount(first[first >= 0], minlength=len(asked.keys)) / n_draws).tolist(),
        "over budget": [float(is_over.mean())],
    }


def _orders(asked: Asked, n_orders: int, rng: np.random.Generator) -> Ints:
    """Orders of selected runs, one row each; the first ones are checked against the selector's own."""
    draws = rng.beta(asked.alpha, asked.beta, size=(n_orders, len(asked.keys)))
    ahead = 2.0 * np.minimum(asked.pulls, asked.min_pulls)  # no draw overcomes a pull
    orders: Ints = np.argsort(ahead - draws, axis=1, kind="stable")
    for order, drawn in zip(orders[:CHECKED_ORDERS], draws[:CHECKED_ORDERS], strict=True):
        own, _ = order_selected(np.array([], dtype=np.int64), asked.pulls, drawn, asked.min_pulls)
        assert order.tolist() == own.tolist()
    return orders


def _packed(asked: Asked, orders: Ints, *, k: int) -> tuple[Bools, Ints]:
    """Which arms each order packs, and which it packs first (-1 where none fits)."""
    cost = asked.cost[orders]
    by_rank = fill_many(cost.T, 0, asked.budget_tokens, k).T
    for row in range(min(CHECKED_ORDERS, len(orders))):
        assert by_rank[row].tolist() == fill(cost[row], 0, asked.budget_tokens, k).tolist()
    packed = np.zeros(orders.shape, dtype=np.bool_)
    np.put_along_axis(packed, orders, by_rank, axis=1)
    rank = by_rank.argmax(axis=1)
    first = np.where(by_rank.any(axis=1), np.take_along_axis(orders, rank[:, None], axis=1)[:, 0], -1)
    return packed, first
