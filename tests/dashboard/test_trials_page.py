"""Page of trials, and what the page of an arm shows of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from msgspec.structs import replace

from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.queries import frame, judgements
from core.flows.trials.plan import plan_trial, read_trial, trials
from dashboard.sentences import trials as sentences
from tests.dashboard.conftest import Open, check, texts
from tests.dashboard.worlds import context_at, keys, world
from tests.flows.test_trials import ARM, TASKS, results_of


def test_the_first_page_has_the_command_to_copy(open_page: Open) -> None:
    page = open_page("trials")
    assert page.code[0].value.split()[-5:] == ["trial", "plan", "ARM", "--tasks", "FOLDER"]


def test_a_harm_leads_the_list(open_page: Open, context: Context) -> None:
    read_trial(context, results_of())
    read_trial(context, results_of(solves="without", arm="tool:web:fetch"))
    plan_trial(context, ARM, TASKS)
    page = open_page("trials")
    title = page.title[0].value
    assert title.index("harms") < title.index("helps")
    table = page.dataframe[0].value
    assert list(table["verdict"]) == ["no results", "harms", "helps"]
    assert str(table.iloc[1, 4]).startswith("−100")


def test_one_trial_shows_its_verdict_tasks_and_counts(open_page: Open, context: Context) -> None:
    plan_trial(context, ARM, TASKS)
    read_trial(context, results_of(repeats=3), plan="trial-1")
    page = open_page("trials", trial="trial-1")
    assert "helps" in page.title[0].value
    assert any("+100" in text for text in texts(page))
    assert [one.label for one in page.metric if one.label.startswith("Success of these")]
    (chart,) = page.get("plotly_chart")
    bars = json.loads(chart.proto.spec)["data"][0]
    assert len(bars["hovertext"]) == len(TASKS)
    assert any(f"{len(TASKS)} of {len(TASKS)}" in text for text in texts(page))


def test_a_screen_names_candidates_and_gives_no_verdict(open_page: Open, context: Context) -> None:
    planned = plan_trial(context, ARM, TASKS, each=["tool:web:fetch"], halves=True, repeats=1)
    out = {task.name: digits for task, digits in zip(planned.plan.tasks, planned.plan.halves, strict=True)}
    results = results_of()
    solved = [
        replace(one, grade=float((out[one.task][0] == "1") == (one.side == "without")))
        for one in results.cells
    ]
    read_trial(context, replace(results, arm="", cells=tuple(solved)), plan=planned.id)
    title = open_page("trials", trial="trial-1").title[0].value
    assert "andidates" in title
    assert "pdf" in title
    assert "helps" not in title


def test_an_arm_that_harms_is_named_on_its_page_and_excluded(open_page: Open, database: Path) -> None:
    world(database, keys(5), 40)
    arm = keys(5)[0]
    context = context_at(database)
    read_trial(context, results_of(solves="without", arm=arm))
    page = open_page("arm", arm=arm)
    assert any(text.startswith("**Harms**") for text in texts(page))
    page.button(key="do exclusion").click().run()
    check(page)
    assert frame(context).settings.excluded_arms == (arm,)
    undo(context, "trial-1")
    page.run()
    assert not any(text.startswith("**Harms**") for text in texts(page))


def test_the_overview_names_an_arm_that_is_used_often_and_harms(open_page: Open, database: Path) -> None:
    world(database, keys(5), 60)
    context = context_at(database)
    means = {arm: one.mean for arm, one in judgements(context).items()}
    often, rarely = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
    for arm in (often, rarely):
        read_trial(context, results_of(solves="without", arm=arm))
    assert [
        one.arm for one, _ in sentences.used(sentences.verdicts(trials(context), ()), judgements(context))
    ] == [often, rarely]
    expected = [arm for arm in (often, rarely) if means[arm] >= sentences.OFTEN]
    for name in ("overview", "posteriors"):
        claims = [text for text in texts(open_page(name)) if "used often" in text]
        assert len(claims) == len(expected)
    page = open_page("overview")
    assert ("harmful arm" in page.title[0].value) == bool(expected)
    (health,) = [text for text in texts(page) if text.startswith("Health: ")]
    assert (f"{len(expected)} harmful arm" in health) == bool(expected)
    assert "Nothing needs" not in "\n".join(texts(page))


def test_each_left_out_arm_is_chosen_by_its_own_effect(open_page: Open, context: Context) -> None:
    plan_trial(context, ARM, TASKS, each=["skill:own:text"], repeats=1)
    cells = [replace(one, arm=ARM * (one.side == "without")) for one in results_of().cells]
    alike = [replace(one, arm="skill:own:text", grade=1.0) for one in cells if one.arm]
    read_trial(context, results_of(arm="", cells=(*cells, *alike)), plan="1")
    ours, theirs = open_page("trials", trial="trial-1").selectbox(key="verdict of").options
    assert ("+100" in ours, "+100" in theirs) == (True, False)


def test_a_file_that_names_no_arm_is_of_the_arm_of_its_page(open_page: Open, database: Path) -> None:
    world(database, keys(5), 40)
    arm = keys(5)[0]
    lines = [b'{"armscope_trial": 1}', *map(msgspec.json.encode, results_of().cells)]
    page = open_page("arm", arm=arm)
    for content in (b"{}", b"\n".join(lines)):
        assert trials(context_at(database)) == ()
        page.file_uploader[0].set_value(("a.jsonl", content, "text/plain")).run()
    page.button(key="do read trial").click().run()
    check(page)
    assert [one.arms for one in trials(context_at(database))] == [(arm,)]
