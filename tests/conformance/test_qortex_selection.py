"""Frequency of each arm's selection, within four standard errors of both over as many draws as qortex had."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

from core.columns import Bools, Floats, Ints
from core.maths.packing import fill, order_selected
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
        config = given.get("config", {})
        states = [given.get("states", {}).get(arm["id"], {}) for arm in given["arms"]]
        return cls(
            keys=tuple(arm["id"] for arm in given["arms"]),
            cost=np.array([arm.get("token_cost", 0) for arm in given["arms"]], dtype=np.int64),
            alpha=np.array([state.get("alpha", 1) for state in states], dtype=np.float64),
            beta=np.array([state.get("beta", 1) for state in states], dtype=np.float64),
            pulls=np.array([state.get("pulls", 0) for state in states], dtype=np.int64),
            rate=config.get("baseline_rate", 0.1),
            min_pulls=config.get("min_pulls", 0),
            budget_tokens=max(given.get("token_budget", 0), 0),
            k=max(given.get("k", 0), 0),  # below 0 means no cap there, which is 0 here
        )

    @property
    def under(self) -> Ints:
        """Places of the under-explored arms."""
        return np.flatnonzero(self.pulls < self.min_pulls)


# What we do otherwise: `DEVIATIONS` say what it is and where it may show, and `_as_qortex` what qortex answers then,
# so a difference is held to be that one.


def _baseline_keeps_to_k(case: Case) -> bool:
    asked = Asked.of(case.vector.input)
    return case.name == "packed" and asked.rate > 0 and 0 < asked.k < len(asked.keys)


def _forces_under_explored(case: Case) -> bool:
    """Past budget and k, and in baseline runs too."""
    asked = Asked.of(case.vector.input)
    return case.name in {"packed", "over budget", "first"} and len(asked.under) > 0


DEVIATIONS: Final = (
    Deviation(
        f"{rules.SELECTED} {rules.BASELINE}",
        "qortex puts all under-explored arms in, past budget and k, as they are listed, in baseline runs too.",
        _forces_under_explored,
    ),
    Deviation(
        rules.BASELINE,
        "A baseline run shows what the prompt would be without us, so k does not hold it back.",
        _baseline_keeps_to_k,
    ),
)


@pytest.mark.parametrize("vector", load("qortex_selection"))
def test_arms_are_selected_as_often_as_by_qortex(vector: Vector) -> None:
    asked = Asked.of(vector.input)
    n_draws = vector.output["draws"]

    def near(ours: list[float], theirs: list[float]) -> bool:
        return _near(ours, theirs, n_draws)

    ours = _drawn(asked, n_draws, _rng(vector))
    theirs = _as_qortex(asked, n_draws, _rng(vector))
    told = _told(vector.output, asked)
    compare(vector, theirs, told, (), near)
    deviating = [name for name in told if any(one.covers(Case(vector, name, None)) for one in DEVIATIONS)]
    compare(vector, {**ours, **{name: told[name] for name in deviating}}, told, (), near)


def _rng(vector: Vector) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(vector.id.encode()))


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
    n_baseline = int((rng.random(n_draws) < asked.rate).sum())
    baseline = _packed(asked, _shuffled(len(asked.keys), n_baseline, rng), k=0)
    selected = _packed(asked, _orders(asked, n_draws - n_baseline, rng), k=asked.k)
    return _frequencies(asked, n_baseline, baseline, selected)


def _as_qortex(asked: Asked, n_draws: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """The same for qortex: under-explored arms go in like seeds, before every kind of order, within one k."""
    n_baseline = int((rng.random(n_draws) < asked.rate).sum())
    ahead = asked.under
    rest = np.setdiff1d(np.arange(len(asked.keys)), ahead)
    draws = rng.beta(asked.alpha[rest], asked.beta[rest], size=(n_draws - n_baseline, len(rest)))
    baseline, selected = (
        _packed(
            asked, np.hstack((np.tile(ahead, (len(order), 1)), rest[order])), k=asked.k, n_ahead=len(ahead)
        )
        for order in (_shuffled(len(rest), n_baseline, rng), np.argsort(-draws, axis=1))
    )
    return _frequencies(asked, n_baseline, baseline, selected)


def _shuffled(n_arms: int, n_orders: int, rng: np.random.Generator) -> Ints:
    return np.argsort(rng.random((n_orders, n_arms)), axis=1)


def _frequencies(
    asked: Asked, n_baseline: int, baseline: tuple[Bools, Ints], selected: tuple[Bools, Ints]
) -> dict[str, list[float]]:
    packed, first = np.concatenate((baseline[0], selected[0])), np.concatenate((baseline[1], selected[1]))
    n_draws = len(packed)
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


def _packed(asked: Asked, orders: Ints, *, k: int, n_ahead: int = 0) -> tuple[Bools, Ints]:
    """Which arms each order packs, the first ``n_ahead`` whether they fit or not; and which first (-1: none)."""
    packed = np.zeros(orders.shape, dtype=np.bool_)
    if not packed.size:
        return packed, np.full(len(orders), -1)
    cost = asked.cost[orders]
    by_rank = _by_rank(cost, n_ahead, asked.budget_tokens, k)
    for row in range(min(CHECKED_ORDERS, len(orders))):
        assert by_rank[row].tolist() == fill(cost[row], n_ahead, asked.budget_tokens, k).tolist()
    np.put_along_axis(packed, orders, by_rank, axis=1)
    rank = by_rank.argmax(axis=1)
    first = np.where(by_rank.any(axis=1), np.take_along_axis(orders, rank[:, None], axis=1)[:, 0], -1)
    return packed, first


def _by_rank(cost: Ints, n_ahead: int, budget_tokens: int, k: int) -> Bools:
    """`fill` for many orders at once, one row each."""
    packed = np.zeros(cost.shape, dtype=np.bool_)
    used, n_in = np.zeros(len(cost), dtype=np.int64), np.zeros(len(cost), dtype=np.int64)
    for rank, asked in enumerate(cost.T):
        fits = (used + asked <= budget_tokens) | (budget_tokens == 0)
        packed[:, rank] = (rank < n_ahead) | (fits & (n_in < (k or cost.shape[1])))
        used += asked * packed[:, rank]
        n_in += packed[:, rank]
    return packed


# What no vector shows


def _made(seed: int) -> Vector:
    """Questions of every kind: no arms or some, free ones, k and budget of none or more, arms too large for it."""
    rng = np.random.default_rng(seed)
    arms = [
        {"id": f"arm{number}", "token_cost": int(rng.choice([0, 5, 20, 100]))}
        for number in range(rng.integers(0, 5))
    ]
    states = {
        arm["id"]: {
            "alpha": 1 + 9 * rng.random(),
            "beta": 1 + 9 * rng.random(),
            "pulls": int(rng.integers(5)),
        }
        for arm in arms
        if rng.random() < 0.8
    }
    config = {"baseline_rate": float(rng.choice([0, 0.3, 1])), "min_pulls": int(rng.choice([0, 0, 3]))}
    asked = {"k": int(rng.integers(-1, 4)), "token_budget": int(rng.choice([0, 1, 10, 30, 130]))}
    given = {"arms": arms, "states": states, "config": config, **asked}
    return Vector(id=f"made-{seed}", function="select", input=given, output=None, error=None)


@pytest.mark.parametrize("seed", range(60))
def test_ours_and_theirs_differ_only_where_a_rule_says_so(seed: int) -> None:
    vector = _made(seed)
    asked = Asked.of(vector.input)
    ours = _drawn(asked, 500, np.random.default_rng(seed))
    theirs = _as_qortex(asked, 500, np.random.default_rng(1_000 + seed))
    for name, told in theirs.items():
        if not any(one.covers(Case(vector, name, told)) for one in DEVIATIONS):
            assert _near(ours[name], told, 500), name


def test_nothing_is_asked_of_a_vector_but_its_arms() -> None:
    asked = Asked.of({"arms": [{"id": "a"}]})
    assert _drawn(asked, 10, np.random.default_rng(1))["packed"] == [1.0, 0.0, 1.0]
    assert _as_qortex(asked, 10, np.random.default_rng(1))["first"] == [1.0]


def test_a_forced_arm_larger_than_the_budget_is_first_with_them_and_left_out_by_us() -> None:
    arms = [{"id": "a", "token_cost": 50}, {"id": "b", "token_cost": 5}]
    asked = Asked.of({"arms": arms, "token_budget": 10, "config": {"baseline_rate": 0, "min_pulls": 1}})
    ours, theirs = (way(asked, 10, np.random.default_rng(1)) for way in (_drawn, _as_qortex))
    assert (ours["first"], theirs["first"]) == ([0.0, 1.0], [1.0, 0.0])
    assert (ours["over budget"], theirs["over budget"]) == ([0.0], [1.0])
