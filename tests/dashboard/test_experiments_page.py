"""Experiments on the pages: plan, start, verdict, acts and their undo, and who may do what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.demo import LEARNER, build
from core.errors import NotApplicable
from core.explained import experiments as explained
from core.flows.context import Context, utc_now_ms
from core.flows.corrections import undo
from core.flows.experiments import experiment_path, experiment_result, experiments, start_experiment
from core.flows.queries import frame, run
from core.flows.settings import change
from core.records.estimate import Estimate
from core.records.times import DAY_MS
from dashboard.figures.theme import DARK, LIGHT
from dashboard.figures.trial import by_session
from tests.dashboard.conftest import Open, check, press, said
from tests.dashboard.signed_in import auth_file, claims, let_in
from tests.dashboard.test_signed_in import coming
from tests.dashboard.worlds import context_at
from tests.flows.test_experiments import ARM, Clock, Solves, always, live

EXPERIMENT = "experiment-1"
FORM = {"arm": ARM, "find_out": "Plan an experiment"}


@pytest.fixture
def past_clock() -> Clock:
    built = Clock()
    built.now_ms = utc_now_ms() - 20 * DAY_MS
    return built


@pytest.fixture
def context(database: Path, past_clock: Clock) -> Context:
    """A learner with recent sessions that offered the arm."""
    built = replace(context_at(database), clock=past_clock)
    live(built, past_clock, 60, always(0.5, 0.5))
    return built


def has(page: AppTest, words: str) -> bool:
    """Return whether the page has these words, without what escapes foreign text."""
    return words in said(page).replace("\\", "").replace("\u2060", "")


def finished(context: Context, past_clock: Clock, solves: Solves) -> None:
    """Live through an experiment whose sessions count after an hour, until its verdict."""
    n = start_experiment(context, ARM, smallest=40, hours=1, days=0).plan.n_planned
    live(context, past_clock, n, solves, first=1_000)


def test_a_plan_is_shown_first_and_a_start_is_undone(open_page: Open, context: Context) -> None:
    page = open_page("arm", **FORM)
    assert has(page, "show 10 points of")
    page.number_input(key="experiment smallest").set_value(30.0).run()
    assert has(page, "show 30 points of")
    assert experiments(context) == ()
    page.button(key="start experiment").click().run()
    check(page)
    (row,) = experiments(context)
    assert (row.state, row.plan.smallest) == ("running", 30.0)
    assert has(page, "**It runs.** 0 of")
    assert has(page, "an experiment on it")
    assert page.button(key="start experiment").disabled
    page.button(key=f"undo result {EXPERIMENT}").click().run()
    check(page)
    assert [one.state for one in experiments(context)] == ["undone"]
    assert not page.button(key="start experiment").disabled


@pytest.mark.parametrize("metric", ["failures", "tokens"])
def test_each_measure_is_planned_in_its_unit(open_page: Open, context: Context, metric: str) -> None:
    page = open_page("arm", **FORM)
    page.selectbox(key="experiment measure").set_value(metric).run()
    check(page)
    unit = {"failures": "points", "tokens": "per cent"}[metric]
    assert page.number_input(key="experiment smallest").label == f"Smallest effect, {unit}"
    page.button(key="start experiment").click().run()
    assert experiments(context)[0].plan.metric == metric


def test_the_form_says_why_it_cannot_start(open_page: Open, context: Context) -> None:
    change(context, "seed_arms", [ARM])
    page = open_page("arm", **FORM)
    assert page.button(key="start experiment").disabled
    assert has(page, "it is a seed")
    page.toggle(key="experiment seed").set_value(True).run()
    assert not page.button(key="start experiment").disabled
    change(context, "phase", "passive")
    assert has(open_page("arm", **FORM), "in the passive phase")


def test_a_verdict_has_its_picture_measures_and_sides(
    open_page: Open, context: Context, past_clock: Clock
) -> None:
    finished(context, past_clock, always(0.95, 0.05))
    page = open_page("trials", trial=EXPERIMENT)
    assert page.title[0].value.startswith("Offering ")
    assert has(page, "web:search :color[helps]{")
    assert "of a session: +" in page.title[0].value
    (chart,) = page.get("plotly_chart")
    assert "holds at every look" in chart.proto.alt
    assert 1 < len(json.loads(chart.proto.spec)["data"][2]["hovertext"]) <= 24
    measures, counts = (one.value for one in page.table)
    assert list(measures["measure"])[:2] == ["success", "failed runs"]
    assert list(measures["reads"])[:2] == ["helps", "open"]
    assert list(counts["sessions"])[:3] == ["assigned", "counted", "pending"]
    assert "may take the room" in said(page)
    page = open_page("arm", arm=ARM)
    assert has(page, "it **helps**. Success of")
    assert has(page, "experiment: Offering it **helps**")
    assert list(page.dataframe[0].value["by"]) == ["experiment"]
    assert has(open_page("trials"), "Offering web:search: :color[helps]")


def test_each_act_is_previewed_done_and_undone(open_page: Open, context: Context, past_clock: Clock) -> None:
    finished(context, past_clock, always(0.95, 0.05))
    page = open_page("trials", trial=EXPERIMENT)
    for act, effect in (("keep", "The arm stays"), ("exclude", "The arm is in no prompt")):
        _choose_act(page, act)
        assert has(page, effect)
        row = experiment_result(context, EXPERIMENT)
        assert (row.decision, row.is_excluded) == ((None, False) if act == "keep" else ("keep", False))
        page.button(key=f"do {act} {EXPERIMENT}").click().run()
        check(page)
    assert frame(context).settings.excluded_arms == (ARM,)
    assert has(page, "arm is excluded now")
    press(page, "Undo")
    assert frame(context).settings.excluded_arms == ()
    page.button(key="take back experiment-2").click().run()
    check(page)
    assert experiment_result(context, EXPERIMENT).decision is None


def _choose_act(page: AppTest, act: str) -> None:
    group = next(one for one in page.button_group if one.key and one.key.startswith("act on"))
    group.set_value(act).run()
    check(page)


def test_a_running_experiment_gets_another_chance_and_ends(open_page: Open, context: Context) -> None:
    start_experiment(replace(context, clock=utc_now_ms), ARM)
    page = open_page("arm", arm=ARM)
    _choose_act(page, "share")
    assert page.button(key=f"do share {EXPERIMENT}").disabled
    page.number_input(key=f"share of {EXPERIMENT}").set_value(0.2).run()
    page.button(key=f"do share {EXPERIMENT}").click().run()
    assert experiment_result(context, EXPERIMENT).share == 0.2
    assert has(page, "a chance of 0.2")
    _choose_act(page, "end")
    assert has(page, "No new session gets")
    page.button(key=f"do end {EXPERIMENT}").click().run()
    check(page)
    assert experiment_result(context, EXPERIMENT).state == "stopped"
    assert has(page, "ended experiment-1 on")


def test_a_harm_leads_to_the_experiment_and_its_decision(
    open_page: Open, context: Context, past_clock: Clock
) -> None:
    finished(context, past_clock, always(0.05, 0.95))
    assert has(open_page("overview"), "offering web:search")
    page = open_page("trials", trial=EXPERIMENT)
    assert ":color[harms]" in page.title[0].value
    assert has(page, "It stopped by itself")
    _choose_act(page, "keep")
    page.button(key=f"do keep {EXPERIMENT}").click().run()
    check(page)
    assert not has(open_page("overview"), "offering web:search")


def test_a_viewer_sees_all_of_it_and_why_nothing_can_be_changed(
    database: Path, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_experiment(replace(context, clock=utc_now_ms), ARM)
    monkeypatch.setenv("ARMSCOPE_AUTH", str(auth_file(tmp_path)))
    let_in(context_at(database), "vi", "viewer")
    page = coming(claims("u-vi"), **FORM)
    page.switch_page("app_pages/arm.py")
    for name, value in FORM.items():
        page.query_params[name] = value
    page.run()
    check(page)
    assert has(page, "show 10 points of")
    assert [
        one.key for one in page.button if one.key in {"start experiment", f"take back {EXPERIMENT}"}
    ] == []
    assert not [one for one in page.button_group if one.key and one.key.startswith("act on")]
    assert has(page, "need the right “settings”")


def test_a_run_names_the_side_of_its_session(open_page: Open, context: Context, past_clock: Clock) -> None:
    finished(context, past_clock, always(0.5, 0.5))
    story = run(context, "r1000")
    assert (story.experiment, story.assigned is not None) == (EXPERIMENT, True)
    assert story.assigned is not None
    side = f"In {EXPERIMENT} its session is on the side {story.assigned.side} {ARM}."
    page = open_page("run", run="r1000")
    assert has(page, side)
    assert not has(open_page("run", run="r1"), "is on the side")


def test_an_unknown_experiment_leads_to_the_list(open_page: Open, context: Context) -> None:
    page = open_page("trials", trial="experiment-9")
    assert "no such experiment" in page.title[0].value
    assert page.code[0].value.endswith("experiment list")


def test_before_any_session_counts_there_is_no_picture(open_page: Open, context: Context) -> None:
    start_experiment(replace(context, clock=utc_now_ms), ARM)
    page = open_page("trials", trial=EXPERIMENT)
    assert "still" not in page.title[0].value
    assert has(page, "both sides count")
    assert not page.get("plotly_chart")
    assert experiment_path(context, EXPERIMENT) == ()
    assert "no verdict in force" in open_page("trials").title[0].value


def test_a_path_without_an_interval_is_drawn_in_both_themes(context: Context, past_clock: Clock) -> None:
    plan = start_experiment(context, ARM, metric="tokens").plan
    wide = Estimate(value=None, lower=None, upper=None, missing="few_sessions")
    path = [(10, wide), (20, Estimate(value=-12.0, lower=-30.0, upper=4.0))]
    for look in (LIGHT, DARK):
        for compact in (False, True):
            shown = by_session(path, plan, "harms", look, compact=compact)
            assert list(shown.table["effect"]) == ["No known change", "−12% (−30 to +4)"]
            assert "20 sessions: −12% (−30" in shown.alt
    assert "None yet." in by_session([], plan, "open", LIGHT).alt


def test_an_earlier_verdict_holds_while_the_next_experiment_has_none(
    context: Context, past_clock: Clock
) -> None:
    finished(context, past_clock, always(0.95, 0.05))
    with pytest.raises(NotApplicable):
        start_experiment(context, ARM)
    past_clock.now_ms += 10 * DAY_MS
    start_experiment(context, ARM)
    rows = experiments(context)
    assert [row.nth for row in rows] == [2, 1]
    assert [row.experiment for row in explained.in_force(rows)] == [EXPERIMENT]
    undo(context, EXPERIMENT)
    assert explained.in_force(experiments(context)) == []


def test_a_demo_plays_on_from_its_overview_and_from_a_running_experiment(
    database: Path, open_page: Open
) -> None:
    build(database, n_runs=60)
    context = replace(context_at(database), learner=LEARNER)
    start_experiment(context, "tool:web:web_search")
    page = open_page("overview", learner=LEARNER)
    page.button(key="play on").click().run()
    assert frame(context).n_runs == 360
    assert has(page, "300 runs were played")
    page = open_page("trials", trial=experiments(context)[0].experiment, learner=LEARNER)
    assert not page.button(key="play on").disabled
