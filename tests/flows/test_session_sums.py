"""Sums of arms over sessions: equal to a count by hand over runs, rewards, resets and times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.columns import SessionSums
from core.flows.context import Context
from core.flows.corrections import reset
from core.flows.learn import record_all, reward
from core.records.arm import Arm
from core.records.run import Call, Inventory, InventoryKind, Run
from core.records.times import HOUR_MS
from core.store import reads
from core.store.reads import session_moments
from tests.store.compacting import compact_until
from tests.worlds import START_MS, context_at

A, B = "tool:other:a", "tool:other:b"
FIRST_MS = START_MS - START_MS % HOUR_MS
Cluster = dict[tuple[str, object], list[float]]


def run_at(number: int, *, session: str | None, used: Iterable[str], kind: InventoryKind = "declared") -> Run:
    return Run(
        uid=f"r{number}",
        session=session,
        inventory=Inventory(kind=kind, arms=(Arm(key=A), Arm(key=B))),
        calls=(Call(name="Bash"), *(Call(name=name) for name in used)),
        ended_at_ms=FIRST_MS + number * HOUR_MS,
    )


def sums(
    context: Context, *, until_ms: int | None = None, wanted: str | None = None
) -> tuple[SessionSums, list[str]]:
    with context.reading() as snapshot:
        columns = (
            reads.arm_columns(snapshot) if until_ms is None else reads.arm_columns_until(snapshot, until_ms)
        )
        mask = np.array([wanted in {None, key} for key in columns.keys], dtype=np.bool_)
        return reads.session_sums(snapshot, columns, mask, until_ms=until_ms), list(columns.keys)


def row(found: tuple[SessionSums, list[str]], key: str) -> list[float]:
    table, keys = found
    return [float(getattr(table, name)[keys.index(key)]) for name in SessionSums.__dataclass_fields__]


def counted(clusters: Cluster) -> list[float]:
    """The moments of clusters of (n, good, runs of known inventory)."""
    each = np.array(list(clusters.values())).reshape(-1, 3)
    n, good, known = each.T
    return [
        len(n),
        n.sum(),
        good.sum(),
        n @ n,
        n @ good,
        good @ good,
        known.sum(),
        0,
        (known > 0).sum(),
        known @ known,
    ]


def planted(rng: np.random.Generator, n: int = 60) -> list[Run]:
    names = [None, "s1", "s2", "s3", "s4"]
    return [
        run_at(number, session=names[int(rng.integers(5))], used=[one for one in "ab" if rng.random() < 0.5])
        for number in range(n)
    ]


def clusters_of(runs: Iterable[Run], name: str) -> Cluster:
    found: Cluster = defaultdict(lambda: [0.0, 0.0, 0.0])
    for one in runs:
        cell = found["run", one.session or one.uid]
        cell[0] += 1
        cell[1] += any(call.name == name for call in one.calls)
        cell[2] += 1
    return found


def test_runs_of_a_session_are_one_and_runs_without_one_are_their_own(context: Context) -> None:
    runs = planted(np.random.default_rng(3))
    record_all(context, runs)
    found = sums(context)
    for key, name in ((A, "a"), (B, "b")):
        assert row(found, key) == counted(clusters_of(runs, name))
    assert row(sums(context, wanted=A), B) == [0] * 10


def test_what_was_given_about_a_run_belongs_to_its_session(context: Context) -> None:
    runs = planted(np.random.default_rng(4))
    record_all(context, runs)
    clusters = clusters_of(runs, "a")
    for one, value in ((runs[0], 1.0), (runs[1], 0.25)):
        reward(context, A, value, run=one.uid)
        cell = clusters["run", one.session or one.uid]
        cell[0], cell[1] = cell[0] + 1, cell[1] + value
    for _ in range(3):
        reward(context, A, 1.0)
    clusters["person", 0] = [3.0, 3.0, 0.0]
    assert row(sums(context), A) == pytest.approx(counted(clusters))


def test_a_reset_begins_new_sums_for_its_arms_only(context: Context) -> None:
    runs = planted(np.random.default_rng(5))
    record_all(context, runs[:40])
    reset(context, arms=[A])
    record_all(context, runs[40:])
    found = sums(context)
    assert row(found, A) == counted(clusters_of(runs[40:], "a"))
    assert row(found, B) == counted(clusters_of(runs, "b"))


def test_as_of_a_time_later_runs_are_left_out(context: Context) -> None:
    runs = planted(np.random.default_rng(6))
    record_all(context, runs)
    until_ms = FIRST_MS + 30 * HOUR_MS
    assert row(sums(context, until_ms=until_ms), A) == counted(clusters_of(runs[:30], "a"))


def test_an_inferred_inventory_counts_apart(context: Context) -> None:
    runs = planted(np.random.default_rng(7))
    record_all(context, runs)
    record_all(
        context, [run_at(100 + number, session="late", used="a", kind="inferred") for number in range(7)]
    )
    expected = counted(clusters_of(runs, "a"))
    expected[7] = 7
    assert row(sums(context), A) == expected
    with context.reading() as snapshot:
        assert reads.has_inferred(snapshot)


def test_an_arm_of_old_runs_is_read_from_them(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest runs are without the arm; what is read of it are its own newest."""
    runs = planted(np.random.default_rng(8))
    record_all(context, runs)
    others = [
        Run(
            uid=f"n{number}",
            inventory=Inventory(kind="declared", arms=(Arm(key=B),)),
            calls=(Call(name="b"),),
            ended_at_ms=FIRST_MS + (100 + number) * HOUR_MS,
        )
        for number in range(50)
    ]
    record_all(context, others)
    monkeypatch.setattr(session_moments, "RUNS_READ", 40)
    found = sums(context)
    assert row(found, A) == counted(clusters_of(runs[20:], "a"))
    assert row(found, B)[1] == 40


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32), until=st.integers(1, 80), n_before=st.integers(1, 60))
def test_a_compaction_changes_no_sums(seed: int, until: int, n_before: int) -> None:
    """Whatever the sessions, also those that it cuts in two, and whatever was reset or rewarded in between."""
    rng = np.random.default_rng(seed)
    with TemporaryDirectory() as folder:
        context = context_at(Path(folder) / "a.db")
        runs = planted(rng)
        kinds: tuple[InventoryKind, ...] = ("declared", "inferred")
        runs += [run_at(60 + at, session="late", used="a", kind=kinds[at % 2]) for at in range(6)]
        record_all(context, runs[:n_before])
        reset(context, arms=[A])
        record_all(context, runs[n_before:])
        for one in rng.choice(runs, 4).tolist():  # type: ignore[arg-type]
            reward(context, B, 0.25, run=one.uid)
        times = [None, FIRST_MS + 20 * HOUR_MS, FIRST_MS + 63 * HOUR_MS]
        before = [table_of(sums(context, until_ms=at)) for at in times]
        with context.reading() as snapshot:
            is_inferred = reads.has_inferred(snapshot)
        for part in (until // 2, until):
            compact_until(context, FIRST_MS + part * HOUR_MS)
        assert [table_of(sums(context, until_ms=at)) for at in times] == before
        with context.reading() as snapshot:
            assert reads.has_inferred(snapshot) == is_inferred


def table_of(found: tuple[SessionSums, list[str]]) -> dict[str, list[float]]:
    return {key: row(found, key) for key in found[1]}


def test_the_newest_runs_count_the_compacted_ones_among_them(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept and compacted runs together are as many as are read; an older compaction is left out."""
    runs = planted(np.random.default_rng(9))
    record_all(context, runs)
    for part in (20, 40):
        compact_until(context, FIRST_MS + part * HOUR_MS)
    monkeypatch.setattr(session_moments, "RUNS_READ", 45)
    assert row(sums(context), A) == counted(clusters_of(runs[20:], "a"))
