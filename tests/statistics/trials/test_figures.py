"""Figures of trials: which cells count, what they show, and what keeps a verdict open."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from core.columns import Floats
from core.explained.trials import limits
from core.maths.statistics.trials import figures
from core.maths.statistics.trials.cells import grade_of
from core.records.times import DAY_MS
from core.records.trial import BySide, Cell, TrialFigures, TrialTask, TrialVerdict
from tests.statistics.trials.worlds import cells_of, grades_of, plan_of, with_sides_swapped

GRADES = st.integers(0, 2**32 - 1).map(lambda seed: grades_of(seed, 24, (seed % 3 - 1) * 0.3))


def only(cells: list[Cell], n_tasks: int | None = None, **rest: float) -> TrialFigures:
    plan = None if n_tasks is None else plan_of(n_tasks, **rest)  # type: ignore[arg-type]  # fields of a plan
    (one,) = figures(cells, plan)
    return one


def half_solved(n_tasks: int = 150) -> Floats:
    """Half of the runs succeed, on both sides of each task."""
    grades = np.zeros((2, n_tasks, 2))
    grades[:, :, 0] = 1
    return grades


@given(GRADES, st.randoms(use_true_random=False))
def test_the_order_of_cells_and_repeated_cells_change_nothing(grades: Floats, chance: object) -> None:
    cells = cells_of(grades)
    mixed = cells + cells[:7]
    chance.shuffle(mixed)  # type: ignore[attr-defined]  # a random.Random
    assert figures(mixed, plan_of(24)) == figures(cells, plan_of(24))
    assert figures(mixed) == figures(cells)


@given(GRADES)
def test_swapped_sides_give_the_negated_verdict(grades: Floats) -> None:
    one, other = (only(cells, 24) for cells in (cells_of(grades), with_sides_swapped(cells_of(grades))))
    words = {"helps": "harms", "harms": "helps"}
    assert other.word == words.get(one.word, one.word)
    assert other.like_these.limits == pytest.approx((-one.like_these.upper, -one.like_these.lower))  # type: ignore[operator]  # known
    assert other.p_value == pytest.approx(one.p_value)


@given(GRADES)
def test_figures_agree_with_a_plain_recount(grades: Floats) -> None:
    cells = cells_of(grades)
    shown = only(cells, 24)
    means = {
        (task, side): fmean(one.grade or 0.0 for one in cells if (one.task, one.side) == (task, side))
        for task in (f"t{place}" for place in range(24))
        for side in ("with", "without")
    }
    assert [(one.with_arm, one.without) for one in shown.tasks] == [
        (means[one.task, "with"], means[one.task, "without"]) for one in shown.tasks
    ]
    effects = [means[one.task, "with"] - means[one.task, "without"] for one in shown.tasks]
    assert shown.like_these.value == pytest.approx(100 * fmean(effects))
    assert shown.n_could_not_tell == sum(
        {means[one.task, "with"], means[one.task, "without"]} in ({0.0}, {1.0}) for one in shown.tasks
    )


@given(
    GRADES,
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 23), st.integers(0, 2)), min_size=1, max_size=8),
)
def test_missing_cells_widen_the_interval_to_all_that_they_could_be(
    grades: Floats, places: list[tuple[int, int, int]]
) -> None:
    known = only(cells_of(grades), 24)
    lost = grades.copy()
    for place in places:
        lost[place] = math.nan
    shown = only(cells_of(lost), 24)
    assert shown.missing.with_arm + shown.missing.without == len(set(places))
    lower, upper = shown.like_these.limits or (0, 0)
    for fill in ((0, 1), (1, 0)):
        filled = np.where(np.isnan(lost), np.array(fill)[:, None, None], lost)
        limits = only(cells_of(filled), 24).like_these.limits or (0, 0)
        assert lower <= limits[0] + 1e-6
        assert limits[1] - 1e-6 <= upper
    assert lower - 1e-6 <= (known.like_these.lower or 0) <= (known.like_these.upper or 0) <= upper + 1e-6


def test_the_first_whole_attempt_counts_and_the_others_are_counted_by_side() -> None:
    grades = grades_of(1, 24, 0.3)
    lost = grades.copy()
    lost[0, 3, 1] = math.nan
    again = [replace(one, attempt=2) for one in cells_of(grades) if one.task == "t3"]
    third = [replace(one, attempt=3, grade=0.0) for one in again]
    shown = only(cells_of(lost) + again + third, 24)
    assert shown.like_these == only(cells_of(grades), 24).like_these
    assert (shown.n_attempts_again, shown.missing) == (
        BySide(with_arm=6, without=6),
        BySide(with_arm=0, without=0),
    )


def test_failures_that_one_side_hides_in_faults_are_bounded_though_run_again() -> None:
    dice, grades = np.random.default_rng(2), grades_of(2, 120, repeats=2)
    lost = grades.copy()
    lost[0][(grades[0] == 0) & (dice.random(grades[0].shape) < 0.5)] = math.nan
    again = [
        replace(one, attempt=2, grade=1.0 if one.side == "with" else one.grade) for one in cells_of(grades)
    ]
    shown = only(cells_of(lost) + again, 120, repeats=2)
    assert (shown.word, shown.why) == ("open", "missing")
    assert shown.whole_only is not None
    assert shown.whole_only.lower is not None
    assert shown.whole_only.lower > 0


def test_a_limit_counts_as_a_failure() -> None:
    grades = np.ones((2, 40, 3))
    cells = cells_of(grades, lambda one: replace(one, grade=None, end="limit") if one.side == "with" else one)
    assert only(cells, 40).word == "harms"


def test_missing_runs_show_their_side_and_time() -> None:
    grades = grades_of(3, 30)
    grades[0, 5:9, 0] = math.nan
    cells = [replace(one, at_ms=int(one.task[1:])) for one in cells_of(grades)]
    shown = only(cells, 30)
    assert (shown.missing, shown.missing_ms) == (BySide(with_arm=4, without=0), (5, 8))
    one = TrialVerdict(trial="1", arm="", figures=shown, metric="success", smallest=15.0, planned=True)
    assert "are missing, from 1970-01-01" in " ".join(limits(one))


def test_a_fault_is_missing_though_it_has_a_grade() -> None:
    grades = grades_of(4, 60)
    faults = cells_of(
        grades, lambda one: replace(one, end="fault") if one.side == "with" and not one.grade else one
    )
    shown = only(faults, 60)
    assert shown.word != "harms"
    assert shown.missing.with_arm == int((grades[0] == 0).sum())


def test_clusters_count_when_they_are_whole() -> None:
    """A bet on part of a cluster would be made again with its other tasks."""
    plan = structs.replace(
        plan_of(60), tasks=tuple(TrialTask(name=f"t{n}", cluster=f"c{n % 20}") for n in range(60))
    )
    cells = cells_of(grades_of(5, 60))
    read = [one for one in cells if int(one.task[1:]) < 50]
    (early,), (late,) = figures(read, plan), figures(cells, plan)
    assert (len(early.tasks), len(late.tasks)) == (30, 60)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"graded_by": "lax"}, "another_grader"),
        ({"version": "2"}, "another_version"),
        ({"at_ms": 9 * DAY_MS}, "another_day"),
    ],
)
def test_later_repeats_of_one_side_that_differ_make_it_open(change: dict[str, object], why: str) -> None:
    """The first repeat is alike on both sides, and the others have another grader, version or day on one."""
    known = {"graded_by": "strict", "version": "1", "at_ms": 1}
    cells = [
        replace(one, **known | (change if one.side == "with" and one.repeat > 1 else {}))
        for one in cells_of(grades_of(6, 60, 0.4))
    ]
    assert (only(cells, 60).word, only(cells, 60).why) == ("open", why)


def test_a_check_that_one_side_alone_passes_is_left_out() -> None:
    dice = np.random.default_rng(7)

    def checked(one: Cell) -> Cell:
        checks = {
            "answer": float(one.grade or 0),
            "called": float(one.side == "with" and dice.random() < 0.9),
        }
        return replace(one, checks=checks, grade=sum(checks.values()) / 2, presence="unknown")

    shown = only(cells_of(grades_of(7, 60), checked), 60)
    assert shown.left_out_checks == ("called",)
    assert shown.word == "open"


def test_one_run_more_of_a_task_changes_nothing() -> None:
    cells = cells_of(grades_of(8, 60, 0.4))
    assert only([*cells, replace(cells[0], repeat=4)]).like_these == only(cells).like_these


def test_many_blocks_that_ran_again_are_counted_both_ways() -> None:
    """A harness that calls failures faults, on both sides as often, and runs them until they succeed."""
    dice, grades = np.random.default_rng(9), grades_of(9, 120, 0.2, repeats=1)
    lost = np.where((grades == 0) & (dice.random(grades.shape) < 0.7), math.nan, grades)
    again = [replace(one, attempt=2) for one in cells_of(np.ones_like(grades)) if one.side == "with"]
    shown = only(
        cells_of(lost) + again + [replace(one, attempt=2) for one in cells_of(grades)[120:]], 120, repeats=1
    )
    assert (shown.word, shown.why) == ("open", "missing")


def test_a_task_that_was_passed_over_is_missing() -> None:
    cells = [one for one in cells_of(grades_of(1, 24, 0.4)) if one.task != "t5"]
    shown = only(cells, 24)
    assert shown.missing == BySide(with_arm=3, without=3)
    assert len(shown.tasks) == 23


def test_tasks_of_one_prompt_count_as_one() -> None:
    plan = plan_of(24)
    grades = grades_of(1, 24, 0.4)
    copies = np.repeat(grades, 2, axis=1)
    tasks = tuple(TrialTask(name=f"t{place}", cluster=f"c{place // 2}") for place in range(48))
    one, other = figures(cells_of(grades), plan)[0], figures(cells_of(copies), replace(plan, tasks=tasks))[0]
    assert (one.like_these, one.p_value, one.n_planned) == (other.like_these, other.p_value, other.n_planned)
    assert len(other.tasks) == 48


@pytest.mark.parametrize("grade", [0.0, 1.0])
def test_tasks_that_are_too_easy_or_too_hard_stay_open(grade: float) -> None:
    shown = only(cells_of(np.full((2, 150, 2), grade)), 150, repeats=2)
    assert (shown.word, shown.why, shown.n_could_not_tell) == ("open", "could_not_tell", 150)
    assert shown.like_these.value == 0


def test_no_difference_needs_followed_sides_and_use() -> None:
    cells = cells_of(half_solved())
    assert only(cells, 150, repeats=2).word == "no_difference"
    for side, why in (("without", "not_followed"), ("with", "not_used")):
        listed = [replace(one, presence="listed") if one.side == side else one for one in cells]
        shown = only(listed, 150, repeats=2)
        assert (shown.word, shown.why) == ("open", why)
    unknown = [replace(one, presence="unknown") for one in cells]
    assert only(unknown, 150, repeats=2).why == "not_followed"
    by_calls = [replace(one, used=int(one.side == "with")) for one in unknown]
    assert only(by_calls, 150, repeats=2).word == "no_difference"


def test_runs_that_did_not_follow_stay_in_the_comparison() -> None:
    cells = cells_of(grades_of(1, 40, 0.4), lambda one: replace(one, presence="absent"))
    shown = only(cells, 40)
    assert (shown.word, shown.not_followed) == ("helps", BySide(with_arm=120, without=0))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model": "a"}, "another_model"),
        ({"version": "1"}, "another_version"),
        ({"at_ms": DAY_MS}, "another_day"),
    ],
)
def test_sides_that_differ_in_another_thing_stay_open(change: dict[str, object], why: str) -> None:
    others = {"model": "b", "version": "2", "at_ms": 3 * DAY_MS}
    cells = cells_of(
        grades_of(1, 40, 0.4),
        lambda one: replace(
            one, **(change if one.side == "with" else {name: others[name] for name in change})
        ),
    )
    shown = only(cells)
    assert (shown.word, shown.why) == ("open", why)
    assert only([replace(one, **change) for one in cells]).word == "helps"


def test_each_model_has_a_verdict_and_shares_the_error() -> None:
    helped, harmed = (
        cells_of(grades_of(1, 60, effect), lambda one, model=model: replace(one, model=model))  # type: ignore[misc]  # a default
        for model, effect in (("a", 0.3), ("b", -0.3))
    )
    shown = figures(helped + harmed, plan_of(60))
    assert [(one.model, one.word) for one in shown] == [("a", "helps"), ("b", "harms")]
    alone = only(helped, 60)
    assert alone.like_these.prob == pytest.approx(0.95)
    assert sorted(one.like_these.prob for one in shown) == pytest.approx([0.95, 0.975])


def test_arms_that_are_left_out_in_turn_share_the_full_side() -> None:
    plan = plan_of(60, n_arms=3)
    full = [one for one in cells_of(grades_of(1, 60, 0.3)) if one.side == "with"]
    sides = {"": full}
    for arm, effect in zip(plan.arms, (0.3, 0.0, 0.0), strict=True):
        own = cells_of(grades_of(1 if effect else 7, 60, 0.3))
        side = "without" if effect else "with"
        sides[arm] = [
            replace(one, arm=arm, side="without", presence="absent") for one in own if one.side == side
        ]
    shown = figures([one for side in sides.values() for one in side], plan)
    assert [one.arm for one in shown] == [*plan.arms]
    assert shown[0].word == "helps"
    values = [one.like_these.value or 0.0 for one in shown]
    assert max(one.shrunk or 0.0 for one in shown) < max(values)
    assert fmean(one.shrunk or 0.0 for one in shown) == pytest.approx(fmean(values))


def test_checks_of_one_side_and_checks_of_the_use_are_left_out_by_name() -> None:
    def change(one: Cell) -> Cell:
        is_with = float(one.side == "with")
        checks = {"answer": one.grade or 0.0, "called": is_with} | ({"style": 1.0} if is_with else {})
        return replace(one, checks=checks, grade=fmean(checks.values()))

    grades = grades_of(3, 24)
    shown = only(cells_of(grades, change), 24)
    assert shown.left_out_checks == ("called", "style")
    assert shown.like_these == only(cells_of(grades), 24).like_these


def test_a_grade_of_all_checks_stays_one_without_those_left_out() -> None:
    cell = Cell(task="t", repeat=1, side="without", grade=0.0, checks={"a": 1.0, "b": 1.0, "called": 0.0})
    assert grade_of(cell, frozenset({"called"})) == 1.0
    assert grade_of(replace(cell, grade=None, end="limit")) == 0.0
    assert grade_of(replace(cell, grade=None)) is None


def test_these_tasks_have_an_interval_at_the_planned_end_alone() -> None:
    grades = grades_of(1, 24)
    assert only(cells_of(grades), 24).these is not None
    assert only(cells_of(grades[:, :23]), 24).these is None
    assert only(cells_of(grades)).these is None
    assert only(cells_of(grades[..., :2]), 24, repeats=2).these is None


def test_tokens_and_money_are_compared_over_graded_runs() -> None:
    def change(one: Cell) -> Cell:
        spent = 1_500 if one.side == "with" else 1_000
        at = int(one.task[1:]) * 100 + (one.repeat * 10 + (one.side == "with")) * (-1) ** one.repeat + 50
        return replace(one, tokens=spent + int(one.task[1:]), money_pico=2 * spent, at_ms=at)

    cells = cells_of(grades_of(1, 24), change)
    shown = only(cells, 24)
    ratios = [(1_500 + task) / (1_000 + task) for task in range(24)]
    assert shown.tokens.value == pytest.approx(100 * (math.prod(ratios) ** (1 / 24) - 1))
    assert shown.n_costs == 24
    assert shown.money.missing == "unbalanced", "the side with the arm runs first in two of three repeats"
    even = [
        replace(one, at_ms=(one.at_ms or 0) if int(one.task[1:]) % 2 else 9_999 - (one.at_ms or 0))
        for one in cells
    ]
    assert only(even, 24).money.value == pytest.approx(50)
    assert only(cells_of(grades_of(1, 24)), 24).tokens.missing == "unknown_usage"


def test_a_trial_without_cells_is_open() -> None:
    shown = only([], 24)
    assert (shown.word, shown.why, shown.like_these.missing) == ("open", "one_side", "no_common_task")
    assert figures([]) == ()
    assert only([one for one in cells_of(grades_of(1, 24)) if one.side == "with"]).why == "one_side"
