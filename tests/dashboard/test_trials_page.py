"""Page of trials, and what the page of an arm shows of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from core.flows.trials.plan import plan_trial, read_trial
from tests.dashboard.conftest import Open, texts
from tests.dashboard.worlds import context_at
from tests.flows.test_trials import ARM, TASKS, results_of


def test_the_first_page_has_the_command_to_copy(open_page: Open) -> None:
    page = open_page("trials")
    assert page.code[0].value.split()[-5:] == ["trial", "plan", "ARM", "--tasks", "FOLDER"]


def test_a_harm_leads_the_list(open_page: Open, database: Path) -> None:
    context = context_at(database)
    read_trial(context, results_of())
    harming = msgspec.structs.replace(results_of(solves="without"), arm="tool:web:fetch")
    read_trial(context, harming)
    plan_trial(context, ARM, TASKS)
    page = open_page("trials")
    title = page.title[0].value
    assert title.index("harms") < title.index("helps")
    table = page.dataframe[0].value
    assert list(table["verdict"]) == ["no results", "harms", "helps"]
    assert table["effect, with less without"][1].startswith("−100 points")


def test_one_trial_shows_its_verdict_tasks_and_counts(open_page: Open, database: Path) -> None:
    context = context_at(database)
    plan_trial(context, ARM, TASKS)
    results = results_of(repeats=3)
    read_trial(context, results, plan="trial-1")
    page = open_page("trials", trial="trial-1")
    assert "helps" in page.title[0].value
    assert "+100" in page.title[0].value
    (chart,) = page.get("plotly_chart")
    bars = json.loads(chart.proto.spec)["data"][0]
    assert len(bars["hovertext"]) == len(TASKS)
    assert any(f"{len(TASKS)} of {len(TASKS)}" in text for text in texts(page))
