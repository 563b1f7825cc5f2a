"""Usage and sessions as they are read: whole days, hours at edges, samples of sessions, and nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import UNKNOWN, UsageColumns
from core.flows.corrections import undo
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.records.run import RunClass
from core.store import reads
from core.store.reads.sessions import SAMPLED
from core.store.transaction import Snapshot
from tests.worlds import HOUR_MS, START_MS, a_run, context_at, lines_file, run_line

N_HOURS = 100
FIRST = START_MS // HOUR_MS
Kinds = Counter[tuple[int, str, str]]

hours = st.none() | st.integers(FIRST - 30, FIRST + N_HOURS + 30)
N_RUNS = 3_000
SPANS: tuple[dict[str, int | None], ...] = (
    {},
    {"since_ms": START_MS + 20 * HOUR_MS + 5, "until_ms": START_MS + 90 * HOUR_MS},
    {"since_ms": START_MS + 20 * HOUR_MS},
    {"until_ms": START_MS + 90 * HOUR_MS + 7},
)


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


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    """Sessions of ten, every fourth run in none, ten an hour; each third run was decided by no one."""
    context = context_at(tmp_path_factory.mktemp("sessions") / "a.db")
    classes: tuple[RunClass, ...] = ("baseline", "selected", "imported")
    runs = [
        msgspec.structs.replace(
            a_run(
                f"run-{at}",
                at_ms=None if at % 100 == 99 else START_MS + at // 10 * HOUR_MS,
                tokens=None if at % 50 == 0 else 100 + at,
                run_class=classes[at % 3],
                model="large" if at % 2 else None,
            ),
            session=None if at % 4 == 0 else f"session {at // 10}",
        )
        for at in range(N_RUNS)
    ]
    record_all(context, runs)
    with context.reading() as snapshot:
        yield snapshot


def decided(snapshot: Snapshot, **span: int | None) -> int:
    usage = reads.usage_columns(snapshot, **span)
    return int(usage.n[np.isin(np.array(usage.run_class), ("baseline", "selected"))].sum())


@pytest.mark.parametrize("span", SPANS)
def test_few_runs_are_read_all_and_add_up_to_the_usage(
    sessions: Snapshot, span: dict[str, int | None]
) -> None:
    usage = reads.usage_columns(sessions, **span)
    runs = reads.session_runs(sessions, decided(sessions, **span), **span)
    assert runs.is_all
    kinds, tokens = Counter[tuple[str, str, int]](), Counter[tuple[str, str, int]]()
    for place in range(len(usage)):
        if usage.run_class[place] in {"baseline", "selected"}:
            kind = (usage.run_class[place], usage.model[place], int(usage.hour[place]) // 24)
            kinds[kind] += int(usage.n[place])
            tokens[kind] += int(usage.tokens[place])
    for place in range(len(runs)):
        kind = (runs.run_class[place], runs.model[place], int(runs.hour[place]) // 24)
        kinds[kind] -= 1
        tokens[kind] -= max(int(runs.tokens[place]), 0)
    assert not any(kinds.values())
    assert not any(tokens.values())
    assert (runs.tokens == UNKNOWN).sum() > 0


def test_runs_of_a_session_have_its_number_and_runs_of_none_one_of_their_own(sessions: Snapshot) -> None:
    rows = sessions.connection.rows(
        "SELECT session, count(*), count(DISTINCT session_key) FROM run WHERE learner_id = 1"
        " AND class <> 'imported' GROUP BY session"
    )
    alone = [row for row in rows if row[0] is None]
    assert [n_keys for _, n_runs, n_keys in alone] == [n_runs for _, n_runs, n_keys in alone]
    assert {n_keys for session, _, n_keys in rows if session is not None} == {1}
    (keys,) = sessions.connection.rows("SELECT count(session_key) FROM run WHERE class = 'imported'")
    assert keys == (0,)


def test_of_many_runs_whole_sessions_are_drawn(sessions: Snapshot) -> None:
    """As if there were four times as many as are read: about a quarter of the sessions, each with all its runs."""
    whole = Counter(reads.session_runs(sessions, decided(sessions)).session.tolist())
    runs = reads.session_runs(sessions, 4 * SAMPLED)
    drawn = Counter(runs.session.tolist())
    assert not runs.is_all
    assert all(whole[session] == n for session, n in drawn.items())
    assert 0.2 * len(whole) < len(drawn) < 0.3 * len(whole)


def test_what_stands_no_more_is_not_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("undone")
    context = context_at(folder / "a.db")
    lines = [run_line(f"r{at}", **{"class": "selected", "session": "s"}) for at in range(3)]
    told = import_files(context, [lines_file(folder / "runs.jsonl", *lines)])
    with context.reading() as snapshot:
        assert len(reads.session_runs(snapshot, 3)) == 3
    undo(context, told.id)
    with context.reading() as snapshot:
        assert len(reads.session_runs(snapshot, 3)) == 0
