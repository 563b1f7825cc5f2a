"""False claims about money in worlds where selecting saves no money: ``python -m tests.bench.money``.

A baseline run reads its prompt from the cache, or not; a selected run writes a smaller prompt anew. Prompts are sized
so that both cost the same on average. A coin of .3 decides each session. Every world is looked at 60 times.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from core.columns import SessionRuns
from core.maths.statistics.savings.money import money_saved
from core.maths.statistics.savings.runs import as_usage
from core.maths.statistics.savings.shares import wilson

LOOKS: Final = 60
RATE: Final = 0.3
READ, WRITE, INPUT, OUTPUT = 0.3, 3.75, 3.0, 15.0
"""Dollars per million tokens."""


class Null(NamedTuple):
    """A kind of world: whether prompts are cached, model calls a run, runs a session."""

    cached: bool
    calls: int
    session_runs: int


CELLS: Final = tuple(
    Null(cached, calls, runs) for cached in (False, True) for calls in (1, 10, 40) for runs in (1, 5, 40)
)


def null(kind: Null, seed: int, n_sessions: int = 240, gain: float = 1.0) -> SessionRuns:
    """Return the runs of a world; ``gain`` multiplies the cost of selected runs."""
    chance = np.random.default_rng(seed)
    n = n_sessions * kind.session_runs
    session = np.repeat(np.arange(n_sessions), kind.session_runs)
    baseline = (chance.random(n_sessions) < RATE)[session]
    alike = chance.normal(0, 0.4, n_sessions)[session]
    size = np.exp(alike + chance.normal(-0.125, 0.5, n))
    prompt = 12_000 * kind.calls * (READ if kind.cached else INPUT)
    answer = 300 * kind.calls * OUTPUT
    dollars = np.where(baseline, 1.0, gain) * (prompt + answer) * size
    return SessionRuns(
        session=session,
        draw=session,
        hour=np.arange(n),
        run_class=tuple(np.where(baseline, "baseline", "selected").tolist()),
        model=("m",) * n,
        channel=("api",) * n,
        status=("completed",) * n,
        prob_micro=np.full(n, round(1e6 * RATE)),
        tokens=np.where(baseline, 20_000, 14_000),
        duration_ms=np.full(n, -1),
        bill_pico=np.rint(dollars * 1e6).astype(np.int64),
        bill_marks=np.zeros(n, dtype=np.int64),
    )


def verdicts(runs: SessionRuns, looks: int = LOOKS) -> Iterator[str]:
    """Yield the verdict on money at each look, the last at the end."""
    n_sessions = int(runs.session.max()) + 1
    for look in range(1, looks + 1):
        part = runs.where(runs.session < math.ceil(n_sessions * look / looks))
        saved = money_saved(as_usage(part), part, priced=("m",), prob=0.95)
        assert saved is not None
        yield saved.verdict


def main(n_worlds: int = 100) -> None:
    """Print, for each kind of world, how often money was ever said to be saved or lost."""
    _say("cached calls runs/session  worlds  saves money  costs more")
    for number, kind in enumerate(CELLS):
        said = [{*verdicts(null(kind, 1_000 * number + seed))} for seed in range(n_worlds)]
        counts = [sum(name in one for one in said) for name in ("proven", "costs_more")]
        words = [f"{n / n_worlds:.3f} (to {wilson(n, n_worlds, 0.95)[1]:.3f})" for n in counts]
        _say(f"{kind.cached!s:6} {kind.calls:5} {kind.session_runs:12} {n_worlds:7}  {'  '.join(words)}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
