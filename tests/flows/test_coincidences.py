"""Changes with several possible causes: another kind of work, and a release on the day that a tool joins."""

from __future__ import annotations

import numpy as np
import pytest

from core import explained
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.records.run import Run
from core.records.times import DAY_MS
from tests.flows.test_changes import DAY_0
from tests.worlds import a_run

DAYS, RELEASE, PER_DAY = 56, 46, 28
NEW, OLD = "tool:other:new", "tool:other:t0"


def released(seed: int, *, with_new: str = "all", breaks: str = "AB", n_days: int = DAYS) -> list[Run]:
    """Runs of tasks A and B in equal parts. On one day a tool joins and an old tool breaks in some tasks.

    ``with_new``: the prompts that the new tool joins: all, those of "A", half at random ("half"), or none before the
    next noon ("noon").
    """
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.25, 0.8, 5)
    runs = []
    for number in range(n_days * PER_DAY):
        at = number / PER_DAY
        task, late = "AB"[int(rng.random() < 0.5)], at >= RELEASE
        used = [f"t{n}" for n in range(1, 5) if rng.random() < rates[n]]
        usual = {"A": (0.2, 0.05), "B": (0.9, 0.5)}[task]
        if rng.random() < usual[late and task in breaks]:
            used.append("t0")
        joins = {
            "all": late,
            "A": late and task == "A",
            "half": late and rng.random() < 0.5,
            "noon": at >= RELEASE + 0.5,
        }
        if joins[with_new] and rng.random() < (0.85 if task == "A" else 0.1):
            used.append("new")
        names = (*(f"t{n}" for n in range(5)), *(("new",) if joins[with_new] else ()))
        runs.append(a_run(f"r{number}", names, used or ["t1"], at_ms=DAY_0 + int(at * DAY_MS)))
    return runs


@pytest.mark.parametrize("with_new", ["all", "A", "half", "noon"])
@pytest.mark.parametrize("seed", range(4))
def test_a_coincidence_names_both_and_took_no_work(context: Context, with_new: str, seed: int) -> None:
    record_all(context, released(seed, with_new=with_new))
    judged = queries.judgements(context)
    assert "rival" not in {one.name for one in judged.values()}
    if judged[OLD].name == "drifting":
        assert judged[OLD].others == (NEW,)
        assert explained.judgement(judged[OLD], since="then").startswith(explained.arm.JOINED.format("new"))
