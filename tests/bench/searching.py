"""Searching: how long a search takes, and whether its time says that there is a hit which the reader may not see."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.flows.queues import add_queue
from core.flows.settings import change
from core.records.actor import Actor
from core.records.review import QueueAsks
from tests.bench.harness import Row, Scale
from tests.bench.pages import filled
from tests.bench.worlds import runs

_MOST_RUNS: Final = 100_000
_GOAL_MS: Final = 300.0
_LEAST_PAIRS: Final = 3
_NORMAL_95: Final = 1.96
_TEXT_WORDS: Final = 300
HIDDEN, ABSENT = "kanarienvogel", "wellensittich"
"""Two words of one length, of which texts that the reader may not see have the first."""
_QUESTIONS: Final = (
    "session-37",
    "run-00000007",
    "nothing of this",
    "large mail",
    "tool_00012",
    "w77 w78",
    "w7",
)


def searches(scale: Scale, folder: Path) -> list[Row]:
    """Searches of many runs against 300 ms; then pairs of searches with and without a hidden hit."""
    n_runs = min(5 * scale.n_page_runs, _MOST_RUNS)
    context = _world(folder / "ours.db", n_runs)
    other = replace(context, learner="other")
    change(other, "keep_texts", True)
    record_all(other, [msgspec.structs.replace(next(runs(1)), prompt=f"a {HIDDEN} of another learner")])
    rows = [
        _timed(context, words, n_runs, max(scale.n_page_pairs // 10, _LEAST_PAIRS)) for words in _QUESTIONS
    ]
    n_pairs = max(scale.n_page_pairs, _LEAST_PAIRS)
    rows.append(_apart("an operator, a text of another learner", context, n_pairs))
    record_all(context, [msgspec.structs.replace(next(runs(1, first=10**7)), prompt=f"a {HIDDEN} here")])
    viewer = replace(context, actor=Actor(name="v", role="viewer"))
    rows.append(_apart("a viewer, a text", viewer, n_pairs))
    add_queue(context, "Own items", QueueAsks(limit=20))
    reviewer = replace(context, actor=Actor(name="r", role="reviewer"))
    rows.append(_apart("a reviewer, a text beside the own items", reviewer, n_pairs))
    context.store.close()
    return rows


def _world(path: Path, n_runs: int) -> Context:
    """Return runs, of which one in fifty has texts of words that others have, too."""
    context = filled(path, n_runs)
    change(context, "keep_texts", True)
    random = Random(7)
    with_texts = [
        msgspec.structs.replace(
            run, prompt=" ".join(f"w{int(random.expovariate(0.01))}" for _ in range(_TEXT_WORDS))
        )
        for run in runs(max(n_runs // 50, 20), first=n_runs)
    ]
    record_all(context, with_texts)
    return context


def _timed(context: Context, words: str, n_runs: int, n: int) -> Row:
    queries.search(context, words)
    ms = statistics.median(_ms(context, words) for _ in range(n))
    return Row(
        name=f"search of {words!r} in {n_runs:,} runs",
        base="300 ms",
        figure=ms / _GOAL_MS,
        goal=1.0 if n_runs >= _MOST_RUNS else None,
        base_ms=_GOAL_MS,
        ours_ms=ms,
        n=n,
    )


def _ms(context: Context, words: str) -> float:
    began = time.perf_counter()
    queries.search(context, words)
    return 1_000 * (time.perf_counter() - began)


def _apart(name: str, reader: Context, n: int) -> Row:
    """Return how far two times are apart, as a part of the half width of the 95% interval of their difference."""
    for words in (HIDDEN, ABSENT):
        assert queries.search(reader, words).hits == ()
    with_hit, without = _pairs(lambda words: _ms(reader, words), n)
    differences = [one - other for one, other in zip(with_hit, without, strict=True)]
    half = _NORMAL_95 * statistics.stdev(differences) / n**0.5
    mean = statistics.fmean(differences)
    return Row(
        name=f"a hidden hit by its time: {name}",
        base="half of the 95% interval",
        figure=abs(mean) / half,
        goal=1.0 if n > _LEAST_PAIRS else None,
        base_ms=half,
        ours_ms=abs(mean),
        n=n,
        note=f"medians {statistics.median(with_hit):.2f} and {statistics.median(without):.2f} ms",
    )


def _pairs(timed: Callable[[str], float], n: int) -> tuple[Sequence[float], Sequence[float]]:
    """Return the times with and without the hit, of pairs in which the first changes."""
    times: dict[str, list[float]] = {HIDDEN: [], ABSENT: []}
    for number in range(n):
        for words in (HIDDEN, ABSENT)[:: 1 if number % 2 else -1]:
            times[words].append(timed(words))
    return times[HIDDEN], times[ABSENT]
