"""Usage columns for tests, from plain runs: one row a run, as if every run had an hour of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.columns import UNKNOWN, SessionRuns, UsageColumns, coded, log_micro, token_bucket
from core.maths.statistics.savings import Savings, savings


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A run as usage sees it."""

    run_class: str = "selected"
    tokens: int | None = 1_000
    hour: int = 0
    model: str = "m"
    channel: str = ""
    status: str = "completed"
    duration_ms: int | None = None
    prob: float | None = None
    truncated: bool = False
    session: str | None = None
    draw: str | None = None
    bill_pico: int | None = None
    bill_marks: int = 0


def usage_of(runs: Sequence[Counted]) -> UsageColumns:
    """The columns of these runs."""
    tokens = [0 if run.tokens is None else run.tokens for run in runs]
    logs = np.array([0 if run.tokens is None else log_micro(run.tokens) for run in runs]) / 1e6
    durations = [0 if run.duration_ms is None else run.duration_ms for run in runs]
    return UsageColumns(
        hour=_ints([run.hour for run in runs]),
        run_class=tuple(run.run_class for run in runs),
        model=tuple(run.model for run in runs),
        channel=tuple(run.channel for run in runs),
        status=tuple(run.status for run in runs),
        outcome=tuple("observed" for _ in runs),
        prob_micro=_ints([UNKNOWN if run.prob is None else round(1e6 * run.prob) for run in runs]),
        bucket=_ints([UNKNOWN if run.tokens is None else token_bucket(run.tokens) for run in runs]),
        n=np.ones(len(runs), dtype=np.int64),
        n_truncated=_ints([int(run.truncated) for run in runs]),
        tokens=_ints(tokens),
        tokens_squared=np.array(tokens, dtype=np.float64) ** 2,
        log=logs,
        log_squared=logs**2,
        n_timed=_ints([int(run.duration_ms is not None) for run in runs]),
        duration_ms=_ints(durations),
        duration_squared=np.array(durations, dtype=np.float64) ** 2,
    )


def sessions_of(runs: Sequence[Counted]) -> SessionRuns:
    """The same runs with their sessions; one of none is a session by itself."""
    names = [f"alone {place}" if run.session is None else run.session for place, run in enumerate(runs)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    decided = [place for place, run in enumerate(runs) if run.run_class in {"baseline", "selected"}]
    kept = [runs[place] for place in decided]
    return SessionRuns(
        session=_ints([numbers[names[place]] for place in decided]),
        draw=coded(place if run.draw is None else run.draw for place, run in enumerate(kept))[0],
        hour=_ints([run.hour for run in kept]),
        run_class=tuple(run.run_class for run in kept),
        model=tuple(run.model for run in kept),
        channel=tuple(run.channel for run in kept),
        status=tuple(run.status for run in kept),
        prob_micro=_ints([UNKNOWN if run.prob is None else round(1e6 * run.prob) for run in kept]),
        tokens=_ints([UNKNOWN if run.tokens is None else run.tokens for run in kept]),
        duration_ms=_ints([UNKNOWN if run.duration_ms is None else run.duration_ms for run in kept]),
        bill_pico=_ints([UNKNOWN if run.bill_pico is None else run.bill_pico for run in kept]),
        bill_marks=_ints([run.bill_marks for run in kept]),
    )


def tossed(runs: Sequence[Counted], seed: int = 0) -> list[Counted]:
    """The same runs in a random order, as if a coin with their share of baseline runs had drawn each class."""
    decided = [run.run_class for run in runs if run.run_class in {"baseline", "selected"}]
    prob = decided.count("baseline") / max(len(decided), 1)
    order = np.random.default_rng(seed).permutation(len(runs)).tolist()
    return [replace(runs[place], prob=prob) for place in order]


def single_runs(
    is_baseline: Sequence[bool], tokens: Sequence[float], prob_micro: int, *, models: Sequence[str] = ("m",)
) -> tuple[UsageColumns, SessionRuns]:
    """The columns of runs alone, an hour apart, of some models in turn, and the same with their sessions."""
    amounts = [max(round(one), 1) for one in tokens]
    runs = [
        Counted(
            run_class="baseline" if base else "selected",
            tokens=amount,
            hour=hour,
            model=models[hour % len(models)],
        )
        for hour, (base, amount) in enumerate(zip(is_baseline, amounts, strict=True))
    ]
    usage, sessions = usage_of(runs), sessions_of(runs)
    probs = np.full(len(runs), prob_micro, dtype=np.int64)
    return replace(usage, prob_micro=probs), replace(sessions, prob_micro=probs)


def billed(runs: Sequence[Counted], price: float) -> list[Counted]:
    """The same runs with an exact bill: one price, in dollars per million tokens, for every token."""
    return [
        replace(run, bill_pico=None if run.tokens is None else round(run.tokens * price * 1e6))
        for run in runs
    ]


def group(run_class: str, tokens: Sequence[int], **rest: object) -> list[Counted]:
    """Runs of one class that differ in their tokens."""
    return [Counted(run_class=run_class, tokens=one, **rest) for one in tokens]  # type: ignore[arg-type]  # fields of Counted


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def savings_of(runs: list[Counted], *, rate: float = 0.1, n_arms: int = 30) -> Savings:
    """Return the savings of these runs, in sessions or alone."""
    return savings(usage_of(runs), sessions_of(runs), baseline_rate=rate, n_arms=n_arms)


def amounts(seed: int, n: int, mean: float, spread: float = 0.4) -> list[int]:
    """Return drawn amounts of tokens."""
    drawn = np.random.default_rng(seed).lognormal(math.log(mean), spread, n)
    return [max(1, round(one)) for one in drawn.tolist()]
