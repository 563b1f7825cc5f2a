"""An experiment in the browser: plan, start, verdict, exclusion and its undo, in every look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from core.flows.context import utc_now_ms
from core.flows.experiments import start_experiment
from core.records.times import DAY_MS
from tests.dashboard.worlds import context_at
from tests.flows.test_experiments import ARM, Clock, always, live
from tests.journeys.conftest import Come
from tests.journeys.server import Served, serving
from tests.journeys.test_everywhere import nothing_is_wrong

pytestmark = pytest.mark.browser

OTHER = "skill:own:pdf"
LOOKS = [
    (1280, False),
    pytest.param(1280, True, marks=pytest.mark.long),
    pytest.param(400, False, marks=pytest.mark.long),
    (400, True),
]


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard on a learner with a finished experiment."""
    folder: Path = tmp_path_factory.mktemp("tested")
    clock = Clock()
    clock.now_ms = utc_now_ms() - 20 * DAY_MS
    context = replace(context_at(folder / "journey.db"), clock=clock)
    live(context, clock, 60, always(0.5, 0.5))
    n = start_experiment(context, ARM, smallest=40, hours=1, days=0).plan.n_planned
    live(context, clock, n, always(0.95, 0.05), first=1_000)
    context.store.close()
    with serving(folder) as server:
        yield server


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_a_verdict_is_looked_at_decided_and_undone(
    come: Come, tested: Served, width: int, dark: bool
) -> None:
    visit = come(tested, width=width, dark=dark).open("trials", trial="experiment-1")
    expect(visit.title()).to_contain_text("search helps.")
    nothing_is_wrong(visit, "trials")
    visit.page.get_by_role("radio", name="Exclude").click()
    expect(visit.page.get_by_text("The arm is in no prompt from now on.")).to_be_visible()
    visit.settle()
    nothing_is_wrong(visit, "trials")
    visit.page.get_by_role("button", name="Exclude", exact=True).click()
    expect(visit.page.get_by_text("The arm is excluded now.")).to_be_visible()
    visit.settle()
    visit.page.get_by_role("button", name="Undo").first.click()
    expect(visit.page.get_by_text("The arm is excluded now.")).to_have_count(0)
    visit.settle().check()
    assert tested.is_sound()


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_a_plan_is_shown_started_and_undone(come: Come, tested: Served, width: int, dark: bool) -> None:
    visit = come(tested, width=width, dark=dark)
    visit.open("arm", arm=OTHER, find_out="Plan an experiment")
    expect(visit.page.get_by_text("show 10 points of success")).to_be_visible()
    visit.settle()
    nothing_is_wrong(visit, "arm")
    visit.page.get_by_role("button", name="Start the experiment").click()
    expect(visit.page.get_by_text("It runs.")).to_be_visible()
    visit.page.reload()  # a toast is Streamlit's own
    expect(visit.page.get_by_text("It runs.")).to_be_visible()
    visit.settle()
    nothing_is_wrong(visit, "arm")
    visit.page.get_by_role("button", name="Undo").first.click()
    expect(visit.page.get_by_text("It runs.")).to_have_count(0)
    visit.settle().check()
