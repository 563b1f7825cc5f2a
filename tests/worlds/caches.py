"""Sessions that share a prompt cache: a draw that is rare keeps its own prompts cold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from core.doors.python import Learner
from core.records.arm import Arm
from core.records.bill import Spent
from core.records.run import Usage
from tests.worlds import START_MS, chosen_among

FULL: Final = {"input": 3, "cache_read": 0.3, "cache_write_5m": 3.75, "cache_write_1h": 6, "output": 15}
"""Prices of the model ``m``."""
_LOOK: Final = 40
_LASTS_MS: Final = 300_000


def share_a_cache(learner: Learner, *, gap_s: float, n_runs: int = 800, seed: int = 5) -> Iterator[None]:
    """Record sessions of one run each, whose prompts any session reads again within five minutes.

    Yield after each 40 runs. With gaps of 80 s the full prompt on every request would cost less than half of what
    selecting costs. With gaps of hours each prompt is cold, and selecting saves.
    """
    own = Arm(key="tool:own:seed", token_cost=4_000)
    arms = [own, *(Arm(key=f"tool:other:t{number}", token_cost=500) for number in range(20))]
    costs = {arm.key: arm.token_cost or 0 for arm in arms}
    learner.change("seed_arms", [own.key])
    for name, value in {"baseline_rate": 0.12, "k": 3, "sticky": "session", "prices": {"m": FULL}}.items():
        learner.change(name, value)
    chance, now_ms, last_ms = np.random.default_rng(seed), START_MS, dict[frozenset[str], int]()
    runs = []
    for number in range(1, n_runs + 1):
        now_ms += round(1000 * chance.exponential(gap_s))
        chosen = learner.select(arms, session=f"s{number}")
        prompt, prefix = frozenset(chosen.included), sum(map(costs.__getitem__, chosen.included))
        is_warm = now_ms - last_ms.get(prompt, -(1 << 40)) <= _LASTS_MS
        last_ms[prompt] = now_ms
        read, write = (prefix, 0) if is_warm else (0, prefix)
        output = round(280 * chance.lognormal(0, 0.3))
        runs.append(
            chosen_among(
                f"r{number}",
                chosen,
                arms,
                usage=Usage(input=400, output=output, cache_read=read, cache_write=write),
                bill=(Spent(input=400, output=output, cache_read=read, cache_write_5m=write),),
                session=f"s{number}",
                model="m",
                ended_at_ms=now_ms,
            )
        )
        if not number % _LOOK:
            learner.record_runs(runs)
            runs.clear()
            yield
