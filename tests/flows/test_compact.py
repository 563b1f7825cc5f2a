"""``compact``: who may, how long runs are kept, what the preview counts, and what a stop leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from core.errors import InvalidInput, StoreBusy
from core.flows import queries
from core.flows.compact import compact, preview_compact
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record_all, reward
from core.flows.settings import change
from core.records.times import DAY_MS, iso
from core.store import compacting
from core.store.store import Store
from tests.worlds import HOUR_MS, START_MS, a_run, lines_file, run_line

DAYS = 10
NOW_MS = START_MS + DAYS * DAY_MS


@pytest.fixture
def context(context: Context, tmp_path: Path) -> Context:
    """Two imported runs, and one for each of ten days; that of the second day has a reward."""
    context = replace(context, clock=lambda: NOW_MS)
    import_files(context, [lines_file(tmp_path / "1.jsonl", run_line("i1"), run_line("i2"))])
    record_all(context, [a_run(f"r{day}", at_ms=START_MS + day * DAY_MS) for day in range(DAYS)])
    reward(context, "tool:other:a", 0.5, run="r1")
    return context


def beliefs(context: Context) -> object:
    return queries.posteriors(context), queries.status(context).runs


def test_the_preview_counts_what_is_deleted(context: Context) -> None:
    before, revision = beliefs(context), queries.revision(context)
    preview = preview_compact(context, keep_days=5)
    assert (preview.runs, preview.left, preview.imports, preview.is_preview) == (6, 1, 1, True)
    assert preview.lost
    assert preview.until == iso((START_MS + 5 * DAY_MS) // HOUR_MS * HOUR_MS)
    assert queries.revision(context) == revision
    answer = compact(context, keep_days=5)
    assert (answer.runs, answer.left, answer.imports) == (preview.runs, preview.left, preview.imports)
    assert (answer.is_preview, answer.until) == (False, preview.until)
    assert beliefs(context) == before
    assert sorted(one.uid for one in queries.runs(context)) == ["r1", "r5", "r6", "r7", "r8", "r9"]
    assert queries.verify(context).clean
    revision = queries.revision(context)
    again = compact(context, keep_days=5)
    assert queries.revision(context) == revision
    assert (again.runs, again.left, again.imports, again.lost) == (0, 1, 0, ())
    newest = queries.changes(context, 1)[0]
    assert (newest.action, newest.act, newest.detail["runs"]) == ("compact", None, 6)


def test_the_setting_says_how_long_runs_are_kept(context: Context) -> None:
    for attempt in (compact, preview_compact):
        with pytest.raises(InvalidInput, match="keep_runs_days is 0") as refused:
            attempt(context)
        assert "--keep-days 365" in refused.value.next_step
    change(context, "keep_runs_days", 5)
    assert preview_compact(context).runs == 6
    assert preview_compact(context, keep_days=20).runs == 0
    assert compact(context).runs == 6


class Stop(Exception):
    """A process that ends between two pieces."""


def with_clock(context: Context, at_call: int, act: Callable[[], object]) -> Context:
    """The same context, whose clock does something at a call: each piece begins with one."""
    calls = count(1)

    def clock() -> int:
        if next(calls) == at_call:
            act()
        return NOW_MS

    return replace(context, clock=clock)


def stop() -> None:
    raise Stop


def test_a_stop_between_pieces_leaves_what_is_done(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "PIECE", 2)
    before = beliefs(context)
    with pytest.raises(Stop):
        compact(with_clock(context, 3, stop), keep_days=5)
    assert beliefs(context) == before
    assert preview_compact(context, keep_days=5).runs == 4
    assert queries.verify(context).clean
    assert compact(context, keep_days=5).runs == 4
    assert beliefs(context) == before
    assert queries.verify(context).clean


def test_writers_write_between_two_pieces(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reward for a run that a later piece would delete keeps it."""
    monkeypatch.setattr(compacting, "PIECE", 2)
    rewarding = with_clock(context, 3, lambda: reward(context, "tool:other:a", 0.25, run="r4"))
    answer = compact(rewarding, keep_days=5)
    assert (answer.runs, answer.left) == (5, 2)
    assert {one.run for one in queries.rewards(context)} == {"r1", "r4"}
    assert queries.verify(context).clean


@pytest.mark.of_file
def test_the_file_shrinks_on_request(context: Context, tmp_path: Path) -> None:
    arms = [f"a{number}" for number in range(30)]
    record_all(context, [a_run(f"old {number}", arms, at_ms=START_MS) for number in range(1_500)])
    context.store.database.scour()
    path = tmp_path / "a.db"
    full = path.stat().st_size
    assert compact(context, keep_days=5).runs == 1_506
    assert path.stat().st_size >= full
    impatient = replace(context, store=Store(path, lock_timeout_s=0.2))
    with context.reading(), pytest.raises(StoreBusy) as refused:
        compact(impatient, keep_days=5, shrink=True)
    assert "armscope compact --shrink" in refused.value.next_step
    compact(context, keep_days=5, shrink=True)
    assert path.stat().st_size < 0.5 * full
