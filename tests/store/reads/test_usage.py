"""Usage as it is read: days where a span holds whole ones, hours at its edges, and nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import UNKNOWN, UsageColumns
from core.flows.learn import record_all
from core.store import reads
from core.store.transaction import Snapshot
from tests.worlds import HOUR_MS, START_MS, a_run, context_at

N_HOURS = 100
FIRST = START_MS // HOUR_MS
Kinds = Counter[tuple[int, str, str]]

hours = st.none() | st.integers(FIRST - 30, FIRST + N_HOURS + 30)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    """One to three runs an hour for four days, and two of unknown time."""
    context = context_at(tmp_path_factory.mktemp("busy") / "a.db")
    times = [START_MS + hour * HOUR_MS for hour in range(N_HOURS) for _ in range(hour % 3 + 1)]
    record_all(
        context,
        [
            a_run(f"run-{number}", at_ms=at_ms, tokens=100 + number, model=("large", "small")[number % 2])
            for number, at_ms in enumerate([*times, None, None])
        ],
    )
    with context.reading() as snapshot:
        yield snapshot


def by_day(usage: UsageColumns) -> tuple[Kinds, Kinds]:
    """Runs and tokens by day and kind."""
    runs, tokens = Kinds(), Kinds()
    places = zip((usage.hour // 24).tolist(), usage.model, usage.run_class, strict=True)
    for place, n, amount in zip(places, usage.n.tolist(), usage.tokens.tolist(), strict=True):
        runs[place] += n
        tokens[place] += amount
    return runs, tokens


@given(since=hours, until=hours)
def test_days_and_the_hours_at_the_edges_are_the_hours(
    busy: Snapshot, since: int | None, until: int | None
) -> None:
    usage = reads.usage_columns(
        busy,
        since_ms=None if since is None else since * HOUR_MS + 5,
        until_ms=None if until is None else until * HOUR_MS,
    )
    runs, tokens = Kinds(), Kinds()
    for hour, model, run_class, n, amount in busy.connection.rows(
        "SELECT hour, model, class, n, tokens FROM usage_hour WHERE learner_id = 1"
    ):
        if (since is None or hour >= since) and (until is None or hour < until):
            runs[hour // 24, model, run_class] += n
            tokens[hour // 24, model, run_class] += amount
    assert by_day(usage) == (runs, tokens)


def test_the_newest_hour_is_known_exactly_and_squares_are_those_of_the_runs(busy: Snapshot) -> None:
    usage = reads.usage_columns(busy)
    assert usage.hour.max() == FIRST + N_HOURS - 1
    assert usage.n[usage.hour == UNKNOWN].sum() == 2
    assert usage.n.sum() == reads.totals(busy).runs
    expected = sum(
        tokens**2 for (tokens,) in busy.connection.rows("SELECT tokens FROM run WHERE learner_id = 1")
    )
    assert usage.tokens_squared.sum() == expected


def test_nothing_recorded_is_no_rows(tmp_path_factory: pytest.TempPathFactory) -> None:
    with context_at(tmp_path_factory.mktemp("empty") / "a.db").reading() as snapshot:
        assert len(reads.usage_columns(snapshot)) == 0
        assert len(reads.usage_columns(snapshot, since_ms=START_MS, until_ms=START_MS)) == 0
        assert len(reads.arm_columns(snapshot, types=["tool"])) == 0
