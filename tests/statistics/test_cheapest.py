"""Cheapest prompt: the costs are those of a cache that is followed call by call."""

from __future__ import annotations

import numpy as np
import pytest

from core.maths.statistics.cheapest import PromptKind, PromptRates, prompt_costs, prompt_rates

FULL, CHOSEN = 100.0, 66.0
IDLE_MS = 300


@pytest.mark.parametrize(
    ("runs", "calls", "ratio"), [(5, 1, 2.2), (20, 1, 1.04), (10, 3, 0.91), (20, 3, 0.79), (1, 23, 0.99)]
)
def test_a_held_prompt_against_a_full_one_that_is_always_warm(
    runs: float, calls: float, ratio: float
) -> None:
    rates = PromptRates(n_spans=1, runs_per_session=runs, calls_per_run=calls, warm_share=1.0)
    cost = prompt_costs(rates, FULL, CHOSEN).cost
    assert cost["held"] / cost["full"] == pytest.approx(ratio, abs=0.03)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("read", [0.05, 0.1, 0.5, 1.0])
def test_the_costs_of_all_sessions_are_those_of_their_calls(seed: int, read: float) -> None:
    """Law: the means are enough, because a cost is linear in runs and calls."""
    dice = np.random.default_rng(seed)
    n = 60
    session = np.sort(dice.integers(0, 12, n))
    n_calls = dice.integers(1, 9, n)
    at_ms = np.cumsum(dice.choice([10, 100, 290, 310, 4_000], n))
    rates = prompt_rates(session, at_ms, n_calls, IDLE_MS)
    costs = prompt_costs(rates, FULL, CHOSEN, read_ratio=read, write_ratio=1.25)
    paid: dict[PromptKind, float] = {"full": 0.0, "redrawn": 0.0, "held": 0.0}
    last_ms = -(10**9)
    last_of: dict[int, int] = {}
    for one, at, calls in zip(session.tolist(), at_ms.tolist(), n_calls.tolist(), strict=True):
        later = (calls - 1) * read
        is_open = at - last_of.get(one, -(10**9)) <= IDLE_MS
        paid["full"] += FULL * ((read if at - last_ms <= IDLE_MS else 1.25) + later)
        paid["redrawn"] += CHOSEN * (1.25 + later)
        paid["held"] += CHOSEN * ((read if is_open else 1.25) + later)
        last_ms = last_of[one] = at
    # A pause inside a session ends the warmth of the full prompt only where no other session was active.
    for kind, amount in paid.items():
        assert costs.cost[kind] * rates.n_spans == pytest.approx(amount)
    assert costs.cost[costs.cheapest] == min(costs.cost.values())


def test_without_runs_there_are_no_rates() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert prompt_rates(none, none, none, IDLE_MS).n_spans == 0
