"""Pages of runs: every run once, in order, whatever the filters and the direction; and never more than a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.records.arm import Arm
from core.records.evidence import Outcome
from core.records.run import RUN_CLASSES, Call, Inventory, Run, Status
from core.records.run_page import Cursor, Direction, RunRow
from core.records.run_query import RunFilter, View
from core.records.times import HOUR_MS
from core.store.reads import run_pages
from core.store.reads.run_pages import run_page, runs_counted
from tests.worlds import START_MS, context_at, lines_file, run_line

KEYS = ("tool:other:a", "tool:other:b", "skill:c:main")
MODELS = ("large", "mini", None)
STATUSES: tuple[Status, ...] = ("completed", "aborted", "error")
OUTCOMES: tuple[Outcome, ...] = ("observed", "conversational", "aborted", "error")


def run_at(number: int) -> Run:
    """Runs that differ in everything one can ask for; every ninth has no time, some share one."""
    times = (number * 7 % 90) // 2 * HOUR_MS // 3
    inside = [key for at, key in enumerate(KEYS) if (number + at) % 3]
    return Run(
        uid=f"r{number}",
        inventory=Inventory(kind="declared", arms=tuple(Arm(key=key) for key in inside)),
        excluded=tuple(key for at, key in enumerate(KEYS) if (number + at) % 3 == 0 and number % 2),
        ended_at_ms=None if number % 9 == 0 else START_MS + times,
        model=MODELS[number % 3],
        channel=("chat", "cron")[number // 5 % 2],
        run_class=RUN_CLASSES[number % 5],
        status=STATUSES[number % 7 % 3],
        calls=() if number % 4 == 0 else (Call(name="a"),),
        empty=number % 31 == 0,
    )


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("pages")
    context = context_at(folder / "a.db")
    record_all(context, [run_at(number) for number in range(120)])
    lines = [run_line(f"gone-{number}", ended_at_ms=START_MS + number * HOUR_MS) for number in range(9)]
    undo(context, import_files(context, [lines_file(folder / "gone.jsonl", *lines)]).id)
    return context


def in_order(rows: list[RunRow]) -> list[RunRow]:
    """Newest first, those without a time last, ties by number."""
    return sorted(rows, key=lambda row: (row.at_ms is not None, row.at_ms or 0, row.run_no), reverse=True)


def passing(every: list[RunRow], wanted: RunFilter, view: View) -> list[RunRow]:
    """What should be found, one run after the other."""

    def passes(row: RunRow) -> bool:
        run = run_at(int(row.uid[1:]))
        inside = {arm.key for arm in run.inventory.arms}
        part = {"in": wanted.arm in inside, "out": wanted.arm in run.excluded}
        hour = -1 if row.at_ms is None else row.at_ms // HOUR_MS
        return (
            (not wanted.classes or row.run_class in wanted.classes)
            and (not wanted.statuses or row.status in wanted.statuses)
            and (not wanted.outcomes or row.outcome in wanted.outcomes)
            and (not view.models or row.model in view.models)
            and (not view.channels or row.channel in view.channels)
            and (view.since_ms is None or hour >= view.since_ms // HOUR_MS)
            and (view.until_ms is None or hour < view.until_ms // HOUR_MS)
            and (wanted.arm is None or (any(part.values()) if wanted.part is None else part[wanted.part]))
        )

    return in_order([row for row in every if passes(row)])


def everything(context: Context) -> list[RunRow]:
    with context.reading() as snapshot:
        rows = list(run_page(snapshot, RunFilter(), View(), limit=1_000).rows)
    assert len(rows) == 116, "four of 120 were empty, nine were taken back"
    return rows


def walked(
    context: Context,
    wanted: RunFilter,
    view: View,
    limit: int,
    direction: Direction,
    *,
    session: str | None = None,
) -> list[RunRow]:
    """All pages of a direction, from its very beginning."""
    rows: list[RunRow] = []
    cursor: Cursor | None = None
    while True:
        with context.reading() as snapshot:
            page = run_page(
                snapshot, wanted, view, cursor=cursor, direction=direction, limit=limit, session=session
            )
        assert len(page.rows) <= limit
        assert len(rows) <= 1_000, "pages come to an end"
        assert page.n_looked_at <= run_pages.LOOKED_AT_MOST
        rows = [*rows, *page.rows] if direction == "older" else [*page.rows, *rows]
        if page.onward is None:
            return rows
        cursor = page.onward


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


FILTERS = st.builds(
    RunFilter,
    arm=st.sampled_from([None, None, *KEYS]),
    part=st.sampled_from([None, "in", "out"]),
    outcomes=some(OUTCOMES),
    classes=some(RUN_CLASSES),
    statuses=some(STATUSES),
)
VIEWS = st.builds(
    View,
    models=some(("large", "mini")),
    channels=some(("chat", "cron")),
    since_ms=st.sampled_from([None, None, START_MS + 3 * HOUR_MS]),
    until_ms=st.sampled_from([None, None, START_MS + 9 * HOUR_MS]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILTERS, VIEWS, st.integers(1, 60), st.sampled_from(["older", "newer"]))
def test_pages_hold_every_run_that_passes_once_and_in_order(
    context: Context, wanted: RunFilter, view: View, limit: int, direction: Literal["older", "newer"]
) -> None:
    expected = passing(everything(context), wanted, view)
    assert walked(context, wanted, view, limit, direction) == expected
    with context.reading() as snapshot:
        counted = runs_counted(snapshot, wanted, view)
    assert counted == (None if wanted.arm is not None or "trial" in wanted.classes else len(expected))


@pytest.mark.parametrize("direction", ["older", "newer"])
@pytest.mark.parametrize("limit", [1, 4])
def test_pages_of_a_session_hold_each_of_its_runs_once(
    tmp_path: Path, limit: int, direction: Literal["older", "newer"]
) -> None:
    context = context_at(tmp_path / "a.db")
    runs = [replace(run_at(number), session=f"s{number % 2}") for number in range(1, 31)]
    record_all(context, runs)
    whole = walked(context, RunFilter(), View(), 1_000, "older", session="s1")
    assert len(whole) == 15
    assert walked(context, RunFilter(), View(), limit, direction, session="s1") == whole


def test_back_from_the_second_page_is_the_first(context: Context) -> None:
    with context.reading() as snapshot:
        first = run_page(snapshot, RunFilter(), View(), limit=20)
        second = run_page(snapshot, RunFilter(), View(), cursor=first.onward, limit=20)
        at = second.rows[0]
        back = run_page(
            snapshot, RunFilter(), View(), cursor=Cursor(at.at_ms, at.run_no), direction="newer", limit=20
        )
    assert back.rows == first.rows
    assert back.onward is None


def test_what_matches_nothing_is_looked_for_within_a_bound(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_pages, "LOOKED_AT_MOST", 10)
    wanted = RunFilter(arm=KEYS[2], part="out", classes=("selected",))
    expected = passing(walked(context, RunFilter(), View(), 1_000, "older"), wanted, View())
    with context.reading() as snapshot:
        page = run_page(snapshot, wanted, View())
    assert page.cut_short
    assert page.n_looked_at == 10
    assert len(page.rows) < len(expected)
    assert walked(context, wanted, View(), 50, "older") == expected, "looking on from there finds the rest"


def test_kinds_arms_and_learners_that_are_not_there_have_no_runs(context: Context, tmp_path: Path) -> None:
    with context.reading() as snapshot:
        page = run_page(snapshot, RunFilter(outcomes=("passive",)), View())
    assert (page.rows, page.n_looked_at, page.onward) == ((), 0, None)
    with context.reading() as snapshot:
        assert run_page(snapshot, RunFilter(arm="tool:x:nobody"), View()).rows == ()
    with context_at(tmp_path / "b.db").reading() as snapshot:
        page = run_page(snapshot, RunFilter(), View())
        assert (page.rows, page.onward) == ((), None)
        assert runs_counted(snapshot, RunFilter(), View()) == 0
