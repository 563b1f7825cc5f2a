"""Plans of trials, their results, and the verdicts that come of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from core.doors.cli import main
from core.errors import InvalidInput, UnknownAct
from core.explained import trials as explained
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.episode import record_step
from core.flows.learn import record
from core.flows.trials.plan import plan_trial, read_trial, tasks_in, trial_result, trials
from core.flows.trials.program import Slot, session_of
from core.formats.trial_files import TrialHeader
from core.records.run import Usage
from core.records.trial import (
    TRIAL_SIDES,
    Cell,
    Open,
    TrialOptions,
    TrialResults,
    TrialSide,
    TrialTask,
    session_prefix,
)
from tests.worlds import START_MS, a_run, context_at, is_clean

ARM = "skill:own:pdf"
TASKS = tuple(TrialTask(name=f"t{number}") for number in range(20))


def results_of(
    tasks: Sequence[TrialTask] = TASKS, *, solves: TrialSide = "with", repeats: int = 1, **fields: object
) -> TrialResults:
    """Results in which one side solves every task."""
    cells = [
        Cell(task=one.name, repeat=n, side=side, grade=float(side == solves), session=f"{one.name}-{side}")
        for one in tasks
        for n in range(1, repeats + 1)
        for side in TRIAL_SIDES
    ]
    return replace(TrialResults(source="lines", cells=tuple(cells), arm=ARM), **fields)


def regraded(results: TrialResults, *sides: TrialSide, by: str = "") -> TrialResults:
    cells = [replace(one, grade=0.5, graded_by=by) if one.side in sides else one for one in results.cells]
    return replace(results, cells=tuple(cells))


def grades_by_side(context: Context, trial: str) -> set[tuple[str, float]]:
    (one,) = trial_result(context, trial).row.verdicts
    return {
        (side, grade)
        for task in one.figures.tasks
        for side, grade in (("with", task.with_arm), ("without", task.without))
    }


def test_a_retest_takes_flipped_tasks_first_and_never_shows_no_difference(tmp_path: Path) -> None:
    """Tasks whose sides differed are more than half luck, so only a new comparison with 0 counts."""
    context, flipped = context_at(tmp_path / "a.db"), {one.name for one in TASKS[:12]}
    first = results_of()
    same = [replace(one, grade=1.0) if one.task not in flipped else one for one in first.cells]
    earlier = read_trial(context, replace(first, cells=tuple(same))).trial
    again = plan_trial(context, ARM, retest=earlier, repeats=1)
    assert {one.name for one in again.plan.tasks[:12]} == flipped
    assert again.plan.retest == "helps"
    helps = read_trial(context, first, plan=again.id).row
    assert explained.verdicts(helps)[0].startswith(f"{ARM}: still helps on")
    ways: TrialOptions = {"model": "large", "grader": "strict", "grader_digest": "d1", "harness": "claude"}
    planned = plan_trial(context, ARM, TASKS, repeats=1, smallest=30, metric="cost", **ways).id
    own = [replace(one, model="large") for one in same]
    like_it = plan_trial(
        context, ARM, retest=read_trial(context, replace(first, cells=tuple(own)), plan=planned).trial
    )
    assert {name: getattr(like_it.plan, name) for name in ways} == ways
    assert (like_it.plan.repeats, like_it.plan.smallest, like_it.plan.metric) == (1, 30, "cost")
    other = plan_trial(context, ARM, retest=planned, grader="mild", repeats=2).plan
    assert (other.grader, other.grader_digest, other.repeats, other.metric) == ("mild", "", 2, "cost")
    assert "helps on these tasks" in explained.planned(like_it)[1]
    halves = plan_trial(context, ARM, TASKS, each=["skill:own:b"], halves=True)
    assert explained.planned(halves)[1].startswith("Random halves")
    many = [TrialTask(name=f"t{n}") for n in range(400)]
    equal = plan_trial(context, ARM, many, retest=earlier, smallest=50)
    assert equal.plan.tasks[0].name in flipped
    places = {"with": "called", "without": "absent"}
    cells = results_of(many, repeats=3).cells
    alike = [replace(one, grade=float(one.repeat > 1), presence=places[one.side]) for one in cells]
    (shown,) = read_trial(context, results_of(cells=tuple(alike)), plan=equal.id).row.verdicts
    assert (shown.figures.word, shown.figures.like_these.value) == ("open", 0.0)
    with pytest.raises(InvalidInput, match="earlier trial of skill:own:csv"):
        plan_trial(context, "skill:own:csv", retest=earlier)


def test_a_plan_names_its_tasks_in_an_order_of_its_seed(context: Context) -> None:
    first, second = (plan_trial(context, ARM, TASKS, repeats=2, model="large") for _ in range(2))
    assert {one.name for one in first.plan.tasks} == {one.name for one in TASKS}
    assert first.plan.tasks != second.plan.tasks != TASKS
    assert (first.id, first.price.n_cells, first.price.money) == ("trial-1", 80, None)
    assert [one.trial for one in trials(context)] == ["trial-2", "trial-1"]
    assert [one.base_rate for one in first.needed] == [0.2, 0.6, 0.9]
    (cost,) = plan_trial(context, ARM, TASKS, metric="cost", preview=True).needed
    assert (cost.base_rate, first.spread_tasks) == (None, 0)
    assert plan_trial(context, ARM, TASKS, preview=True).id is None
    assert len(trials(context)) == 2
    with pytest.raises(InvalidInput):
        plan_trial(context, ARM, [])


def test_tasks_come_from_a_folder_a_file_or_an_environment(context: Context, tmp_path: Path) -> None:
    for name, prompt in (("b", "count"), ("a", "count"), ("c", "add")):
        (tmp_path / "tasks" / name).mkdir(parents=True)
        (tmp_path / "tasks" / name / "prompt.md").write_text(prompt, encoding="utf-8")
    folder = tasks_in(tmp_path / "tasks")
    assert [one.name for one in folder] == ["a", "b", "c"]
    assert folder[0].cluster == folder[1].cluster != folder[2].cluster
    changed = tmp_path / "tasks" / "a" / "data.csv"
    changed.write_text("1", encoding="utf-8")
    assert tasks_in(tmp_path / "tasks")[0].digest != folder[0].digest
    file = tmp_path / "tasks.jsonl"
    file.write_text(
        'plain\n{"name": "j", "prompt": "one"}\n\n{"name": "j", "prompt": "two"}\n', encoding="utf-8"
    )
    planned = plan_trial(context, ARM, [*tasks_in(file), *folder])
    assert sum(one.name.startswith("j") for one in planned.plan.tasks) == 2
    assert len(planned.notes) == 2
    record_step(context, "sums/1", environment="sums", name="add", reward=1, finished=True, task="one")
    assert plan_trial(context, ARM, environment="sums").plan.tasks == (TrialTask(name="one"),)
    with pytest.raises(InvalidInput):
        plan_trial(context, ARM, environment="other")


def test_the_spread_of_difficulty_is_that_of_recorded_episodes_of_the_model(context: Context) -> None:
    for task in range(12):
        for attempt in range(3):
            record_step(
                context,
                f"{task}/{attempt}",
                environment="sums",
                task=f"t{task}",
                model="large",
                name="add",
                reward=task % 2,
                finished=True,
            )
    easy_or_hard = plan_trial(context, ARM, environment="sums", model="large")
    assert (len(easy_or_hard.plan.tasks), easy_or_hard.spread_tasks) == (12, 12)
    usual = plan_trial(context, ARM, environment="sums", model="small")
    assert usual.spread_tasks == 0
    assert usual.needed != easy_or_hard.needed


def test_a_price_is_that_of_recorded_runs_of_the_model(context: Context) -> None:
    for number in range(3):
        record(context, replace(a_run(f"r{number}", model="large"), usage=Usage(total=100 * (1 + number))))
    price = plan_trial(context, ARM, TASKS, repeats=1, model="large").price
    assert (price.n_cells, price.n_runs, price.tokens) == (40, 3, 8_000)
    assert plan_trial(context, ARM, TASKS, model="small").price.tokens is None


def test_a_file_that_is_read_again_changes_nothing_and_one_that_grew_adds_its_cells(context: Context) -> None:
    plan = plan_trial(context, ARM, TASKS, repeats=2)
    half = read_trial(context, results_of(TASKS[:10], repeats=2, plan=1))
    assert (half.id, half.trial, half.n_new) == ("trial-2", "trial-1", 40)
    assert read_trial(context, results_of(TASKS[:10], repeats=2), plan="trial-1").id is None
    whole = read_trial(context, results_of(repeats=2), plan=plan.id)
    assert (whole.id, whole.n_new, whole.n_regraded) == ("trial-3", 40, 0)
    assert trial_result(context, "1").readings == ("trial-2", "trial-3")
    undo(context, whole.id)
    assert trial_result(context, "trial-1").row.n_cells == 40
    undo(context, half.id)
    redo(context, whole.id)
    assert trial_result(context, "trial-1").row.n_cells == 80
    undo(context, plan.id)
    assert trials(context) == ()
    for act, words in (("trial-1", "is undone"), ("2", "is undone"), ("3", "is undone with its plan")):
        with pytest.raises(UnknownAct, match=f"Trial {act[-1]} {words}\\."):
            trial_result(context, act)
    redo(context, plan.id)
    assert (trial_result(context, "3").row.n_cells, len(trials(context))) == (80, 1)
    assert is_clean(context)


def test_without_a_plan_the_same_results_are_one_trial_and_others_another(context: Context) -> None:
    first = read_trial(context, results_of(TASKS[:5]))
    assert read_trial(context, results_of(TASKS[:5])).id is None
    grown = read_trial(context, results_of(TASKS[:8]))
    other = read_trial(context, results_of(TASKS[:8], solves="without"))
    assert read_trial(context, results_of(TASKS[:3], solves="without")).id is None
    later = [replace(one, session=f"again-{one.session}") for one in results_of(TASKS[:8]).cells]
    again = read_trial(context, results_of(cells=tuple(later)))
    assert [one.trial for one in (first, grown, other, again)] == ["trial-1", "trial-1", "trial-1", "trial-3"]


def test_a_grade_changes_only_where_both_sides_were_graded_again(context: Context) -> None:
    read_trial(context, results_of())
    before = grades_by_side(context, "trial-1")
    one_more = [
        *regraded(results_of(), "with", by="b").cells[:39],
        *regraded(results_of(), *TRIAL_SIDES).cells[39:],
    ]
    for one in (regraded(results_of(), "with", by="b"), results_of(cells=tuple(one_more))):
        left = read_trial(context, one)
        assert (left.id, left.notes[-1][-59:]) == (
            None,
            "left out: grades change where both sides were graded again.",
        )
    assert grades_by_side(context, "trial-1") == before
    assert read_trial(context, regraded(results_of(), *TRIAL_SIDES, by="b")).n_regraded == 40
    assert {grade for _, grade in grades_by_side(context, "trial-1")} == {0.5}
    named = replace(regraded(results_of(), "with"), rescored=TRIAL_SIDES)
    assert read_trial(context, replace(named, cells=results_of().cells)).n_regraded == 40
    assert grades_by_side(context, "trial-1") == before


@pytest.mark.parametrize("named", [{"session": "second"}, {"at_ms": 5}, {"tokens": 7}, {"money_pico": 9}, {}])
def test_the_first_run_of_a_cell_counts_as_a_whole(context: Context, named: dict[str, object]) -> None:
    """A plan that is run until it shows an effect would show one without any."""
    plan = plan_trial(context, ARM, TASKS, repeats=1).id
    first = [replace(one, session="") for one in results_of().cells]
    before = read_trial(context, results_of(cells=tuple(first)), plan=plan).row
    second = [replace(one, grade=1 - (one.grade or 0), presence="called", **named) for one in first]
    again = read_trial(context, results_of(cells=tuple(second)), plan=plan)
    assert (again.id, again.n_regraded, again.row) == (None, 0, before)
    assert [one.split(" of")[0] for one in again.notes] == ["40 runs"]


def test_a_first_grade_may_come_later_and_a_limit_is_a_grade(context: Context) -> None:
    plan, cells = plan_trial(context, ARM, TASKS, repeats=1).id, results_of().cells
    waiting = [replace(one, grade=None, end="limit" if one.side == "with" else "ended") for one in cells]
    read_trial(context, results_of(cells=tuple(waiting)), plan=plan)
    later = [replace(one, end=old.end) for one, old in zip(cells, waiting, strict=True)]
    assert read_trial(context, results_of(cells=tuple(later)), plan=plan).n_regraded == 20
    assert grades_by_side(context, "trial-1") == {("with", 0.0), ("without", 0.0)}


def test_results_are_of_an_arm_of_their_plan(context: Context) -> None:
    plan_trial(context, ARM, TASKS)
    with pytest.raises(InvalidInput):
        read_trial(context, results_of(arm="skill:own:other"), plan="trial-1")
    with pytest.raises(UnknownAct):
        read_trial(context, results_of(), plan="trial-9")
    strict = plan_trial(context, ARM, TASKS, repeats=1, grader="strict", model="large").id
    cells = [replace(one, model="small") for one in regraded(results_of(), *TRIAL_SIDES, by="lenient").cells]
    with pytest.raises(InvalidInput, match="graded by strict, as trial-2 plans, got 'lenient'"):
        read_trial(context, results_of(cells=tuple(cells)), plan=strict)
    own = tuple(replace(one, graded_by="strict") for one in cells)
    assert read_trial(context, results_of(cells=own), plan=strict).notes[-1].endswith(" of small.")


def test_runs_of_a_plan_teach_nothing_whenever_they_come(context: Context) -> None:
    plan = plan_trial(context, ARM, TASKS).plan
    session = session_of(session_prefix(plan), Slot("t1", 1, "with"))
    record(context, replace(a_run("planned"), session=session))
    record(context, replace(a_run("read"), session="t1-with"))
    assert [row.uid for row in queries.runs(context)] == ["read"]
    assert read_trial(context, results_of(), plan="trial-1").n_runs == 1
    assert queries.runs(context) == ()
    assert trial_result(context, "trial-1").n_runs == 2


def test_a_verdict_is_of_the_past_after_a_new_text_or_model(context: Context) -> None:
    cells = [replace(one, model="large") for one in results_of().cells]
    record(context, replace(a_run("r1", model="large"), ended_at_ms=START_MS))
    read_trial(context, results_of(cells=tuple(cells)))
    assert past_of(context) is None
    record(context, replace(a_run("r2", model="larger"), ended_at_ms=START_MS + 40 * 86_400_000))
    assert past_of(context) == "model"
    record(context, replace(a_run("r3", model="large"), ended_at_ms=START_MS + 50 * 86_400_000))
    assert past_of(context) is None


def past_of(context: Context) -> str | None:
    return trials(context)[0].verdicts[0].past


@pytest.mark.parametrize(
    ("solves", "fail_on", "code"),
    [("without", "harms", 3), ("without", "open,missing", 0), ("with", "harms,open", 0), ("with", "", 0)],
)
def test_a_command_ends_with_three_where_a_verdict_is_one_to_fail_on(
    tmp_path: Path, solves: TrialSide, fail_on: str, code: int
) -> None:
    header = TrialHeader(armscope_trial=1, arm=ARM)
    file = tmp_path / "cells.jsonl"
    file.write_bytes(msgspec.json.Encoder().encode_lines([header, *results_of(solves=solves).cells]))
    words = ["trial", "read", str(file), "--database", str(tmp_path / "a.db"), "--json"]
    with pytest.raises(SystemExit) as ended:
        main([*words, *(["--fail-on", fail_on] if fail_on else [])])
    assert ended.value.code == code


def test_every_reason_has_words_and_a_verdict_states_what_limits_it(context: Context) -> None:
    row = read_trial(context, results_of(alone=True)).row
    (words,) = explained.verdicts(row)
    assert words.startswith(f"{ARM}: {row.verdicts[0].figures.word}. +100")
    assert words.endswith(" ".join([explained.UNPLANNED, explained.ALONE]))
    assert {*get_args(Open)} == explained.WHY.keys()


@pytest.mark.parametrize(
    ("dear", "words"), [(2.2, "costs more"), (0.4, "costs less"), (1.0, "no change of cost above 60%")]
)
def test_a_plan_of_cost_says_what_it_costs_and_never_helps(context: Context, dear: float, words: str) -> None:
    """Every task is solved with the arm alone, and its runs cost more, less, or the same."""
    plan = plan_trial(context, ARM, TASKS, metric="cost", smallest=60)
    cells = [
        replace(one, tokens=round(1_000 * dear) if one.side == "with" else 1_000, session="")
        for one in results_of().cells
    ]
    (cost,) = read_trial(context, results_of(cells=tuple(cells)), plan=plan.id).row.verdicts
    assert explained.words(cost) == words
    assert explained.effect(cost).startswith(f"{100 * (dear - 1):+.0f}% tokens")
