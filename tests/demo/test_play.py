"""The whole world as an acceptance test: what was planted comes back out, through the real flows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from core.columns import ArmColumns, Bools
from core.demo import END_MS, LEARNER, N_RUNS, Played, play, play_on, truth
from core.demo.answers import DRAFT, UNKNOWN_LAYER
from core.demo.environments import DESK, ENVIRONMENTS, N_EPISODES, PATTERNS, WRONG, episodes
from core.demo.people import JON, MARA, PRIYA
from core.demo.play import FIRST_RUBRIC, MODEL, N_OPEN, SECOND_RUBRIC
from core.demo.world import (
    ACTIVE_FROM_MS,
    DRIFT_MS,
    FILES_POISONED_MS,
    OUTAGE_MS,
    TESTED,
    TOOLS_POISONED_MS,
    TOOLS_RESET_MS,
    planted,
)
from core.errors import NotApplicable
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.experiments import experiment_result, experiments, start_experiment, stop_experiment
from core.flows.queues import queues, rubrics
from core.flows.review import view_item
from core.flows.training import export_training
from core.maths.statistics.rewards import lint, paid, pattern
from core.records.actor import Actor
from core.records.episode import FINDING_KINDS, Pattern
from core.records.episode_credit import CREDIT_RULES
from core.records.evaluation import BLOCKERS
from core.records.evaluation_page import EvaluationFilter
from core.records.run_query import View
from core.records.training import TRAINING_FORMATS, TrainingFormat
from core.store.environments import environment_no_of
from core.store.episodes import read_episodes
from core.store.store import Store
from tests.statistics.rewards.test_pattern import SAMPLED

SEED, N_SMALL = 7, 120


@dataclass(frozen=True, kw_only=True)
class World:
    context: Context
    played: Played
    progress: list[tuple[int, int]]


def context_of(store: Store) -> Context:
    return Context(store=store, learner=LEARNER, actor=Actor(name="visitor", role="viewer"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    progress: list[tuple[int, int]] = []
    with closing(Store(tmp_path_factory.mktemp("demo") / "demo.db")) as store:
        played = play(
            store, seed=SEED, progress=lambda done, all_of_them: progress.append((done, all_of_them))
        )
        yield World(context=context_of(store), played=played, progress=progress)


def means_at(context: Context, at_ms: int | None) -> dict[str, float]:
    seen = queries.belief(context, View(until_ms=at_ms))
    return dict(zip(seen.columns.keys, seen.summary.mean.tolist(), strict=True))


def test_most_intervals_hold_the_planted_truth(world: World) -> None:
    """Of the arms that the story leaves alone, with 20 pulls or more; about 95 % of them should."""
    seen = queries.belief(world.context)
    values = truth(SEED)
    left_alone = {
        arm.key
        for arm in planted(SEED)
        if not arm.is_poisoned and arm.drifts_to is None and arm.type != "section"
    }
    wanted: Bools = (seen.columns.pulls >= 20) & np.isin(seen.columns.keys, sorted(left_alone))
    true = np.array([values[key] for key in seen.columns.keys])
    inside = (seen.summary.lower <= true) & (true <= seen.summary.upper)
    assert wanted.sum() >= 25
    assert inside[wanted].mean() >= 0.85


def test_sections_are_believed_in(world: World) -> None:
    means = means_at(world.context, None)
    sections = [means[key] for key in truth(SEED) if key.startswith("section:")]
    assert sum(mean > 0.99 for mean in sections) == 5
    assert sections.count(0.5) == 1, "one section is too new for any pull"


def test_savings_failures_and_the_baseline_share_come_out_as_planted(world: World) -> None:
    found = queries.savings(world.context)
    saved, plan = found.overall.saved_percent, world.played.saved_percent
    assert found.overall.verdict == "proven"
    assert 25 < plan < 40
    assert saved.lower is not None
    assert saved.upper is not None
    assert saved.lower <= plan <= saved.upper
    difference = queries.savings(world.context).overall.error_difference
    assert difference.lower is not None
    assert difference.upper is not None
    assert difference.lower <= 0 <= difference.upper
    share = queries.savings(world.context).share
    assert not share.off
    assert share.expected == pytest.approx(0.09, abs=0.01)


def test_the_frame_knows_a_demo_whose_caches_equal_its_facts(world: World) -> None:
    frame = queries.frame(world.context)
    assert frame.is_demo
    assert frame.origin == f"demo:{SEED}"
    assert (frame.n_runs, frame.n_arms) == (N_RUNS, 46) == (world.played.runs, len(truth(SEED)))
    assert frame.last_at_ms is not None
    assert END_MS - 10 * 60_000 < frame.last_at_ms < END_MS
    assert (len(frame.models), len(frame.channels), len(frame.types)) == (2, 3, 5)
    assert queries.verify(world.context).clean
    done = [made for made, _ in world.progress]
    assert done == sorted(done)
    assert world.progress[-1] == (N_RUNS, N_RUNS)


def test_environments_pay_as_planted(world: World) -> None:
    """One of each pattern and one of each finding that no good environment could show. Where nothing wrong is planted
    nothing is found, but that what only the last step pays comes late.
    """
    assert {world.wrong for world in WRONG} == set(FINDING_KINDS) - {"length", "constant"} - SAMPLED
    assert {one for world in PATTERNS for one in world.patterns} == set(get_args(Pattern))
    seen = {one.environment: one for one in queries.episodes(world.context)}
    assert seen.keys() == ENVIRONMENTS.keys()
    with world.context.reading() as snapshot:
        for name, planted_world in ENVIRONMENTS.items():
            rows = snapshot.connection.rows(
                "SELECT episode_no FROM episode WHERE learner_id = ? AND environment_no = ?",
                [snapshot.learner_id, environment_no_of(snapshot, name)],
            )
            told = paid.columns_of(
                [*read_episodes(snapshot, [number for (number,) in rows])], seen[name].scale
            )
            found = {one.kind for one in lint.findings_in(told)}
            if planted_world.wrong is None:
                assert {one.pattern for one in pattern.patterns(told)} == planted_world.patterns, name
                assert found <= ({"delayed"} if "sparse" in planted_world.patterns else set()), name
            else:
                assert found == {planted_world.wrong}, name
            assert seen[name].scale == planted_world.scale
            assert seen[name].n == (len(rows) if planted_world is DESK else N_EPISODES)


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS.keys() - {"reports/weekly", "trading/simulator"}))
def test_a_demo_scale_is_as_wide_as_what_is_paid(name: str) -> None:
    world = ENVIRONMENTS[name]
    finals = [
        [step.reward for step in one.steps if step.reward is not None and not step.refused][-1]
        for one in episodes(world, 4 * N_EPISODES, SEED)
    ]
    assert world.scale.base == "final"
    assert (world.scale.lo, world.scale.hi) == (math.floor(min(finals)), math.ceil(max(finals)))


def test_tickets_are_paid_for_by_runs_that_can_be_credited(world: World) -> None:
    with world.context.reading() as snapshot:
        (uid, run) = snapshot.connection.rows(
            "SELECT e.uid, r.uid FROM episode e JOIN episode_run l ON l.learner_id = e.learner_id"
            " AND l.episode_no = e.episode_no JOIN run r ON r.learner_id = l.learner_id AND r.run_no = l.run_no"
            " WHERE e.learner_id = ? ORDER BY e.episode_no DESC LIMIT 1",
            [snapshot.learner_id],
        )[0]
    assert uid == f"{DESK.name}/{run}"
    operator = replace(world.context, actor=MARA)
    for rule in CREDIT_RULES:
        preview = queries.preview_credit(operator, uid, rule)
        assert bool(preview.answer.shares) == (rule != "off"), rule


def test_all_kinds_of_runs_occur_and_the_outage_alone_has_no_selector(world: World) -> None:
    status = queries.status(world.context)
    assert all(status.skipped.values()), status.skipped
    assert status.observed > 2_000
    classes = Counter(run.run_class for run in queries.runs(world.context, N_RUNS))
    assert set(classes) == {"passive", "baseline", "selected", "fallback"}
    assert queries.savings(world.context).left_out.unknown_usage > 20
    for run in queries.runs(world.context, N_RUNS):
        in_outage = OUTAGE_MS[0] <= (run.at_ms or 0) < OUTAGE_MS[1]
        assert (run.run_class == "fallback") == in_outage


def test_nothing_is_learned_before_the_active_phase(world: World) -> None:
    until = (ACTIVE_FROM_MS // 3_600_000) * 3_600_000
    seen = queries.belief(world.context, View(until_ms=until))
    rewarded_by_hand = sum(one.at_ms < until for one in queries.rewards(world.context, limit=10_000))
    assert seen.columns.pulls.sum() == rewarded_by_hand
    runs = [run for run in queries.runs(world.context, N_RUNS) if (run.at_ms or 0) < ACTIVE_FROM_MS]
    assert {run.run_class for run in runs} == {"passive"}


def test_beliefs_follow_the_story(world: World) -> None:
    before = means_at(world.context, TOOLS_POISONED_MS[0])
    fallen = means_at(world.context, TOOLS_RESET_MS)
    after = means_at(world.context, TOOLS_RESET_MS + 3 * 86_400_000)
    for name in ("Read", "Bash", "Grep", "Edit"):
        key = "tool:exec:Bash" if name == "Bash" else f"tool:fs:{name}"
        assert fallen[key] < before[key] - 0.1
        assert after[key] == pytest.approx(truth(SEED)[key], abs=0.06)
    healthy, now = means_at(world.context, FILES_POISONED_MS[0]), means_at(world.context, None)
    for arm in planted(SEED):
        if arm.is_poisoned:
            assert healthy[arm.key] == pytest.approx(arm.prob, abs=0.05)
            assert now[arm.key] < healthy[arm.key] - 0.05
    before, now = means_at(world.context, DRIFT_MS), means_at(world.context, None)
    assert before["tool:web:web_search"] == pytest.approx(0.77, abs=0.06)
    assert now["tool:web:web_search"] < 0.65


def test_arms_stand_in_every_band_some_are_stale_and_some_left_out(world: World) -> None:
    overview = queries.overview(world.context)
    attention = {item.kind: item for item in overview.attention}
    assert all(overview.bands)
    assert attention["stale_arms"].count == sum(arm.idle_from_day is not None for arm in planted(SEED))
    assert "section:system:Time and place" in attention["under_explored"].arms
    chances = queries.inclusion(world.context).chances
    assert sum(chance < 0.5 for chance in chances.values()) >= 15


def test_three_raters_judge_late_and_one_reward_is_undone(world: World) -> None:
    rewards = queries.rewards(world.context, limit=10_000)
    ended = {run.run_no: run.at_ms for run in queries.runs(world.context, N_RUNS)}
    assert {one.actor for one in rewards} == {MARA.name, JON.name, PRIYA.name}
    assert {one.kind for one in rewards} - {"evaluation"} == {"feedback", "correction"}
    assert {one.reward for one in rewards if one.kind != "evaluation"} == {0.0, 0.5, 1.0}
    assert sum(one.undone for one in rewards) == 1
    for one in rewards:
        if one.run_no is not None:
            at_ms = ended[one.run_no]
            assert at_ms is not None
            assert at_ms < one.at_ms <= END_MS


def test_the_change_log_tells_the_story(world: World) -> None:
    changes = queries.changes(world.context, 10_000)
    settings = [
        (one.detail["name"], one.detail["value"])
        for one in changes
        if one.action == "setting" and one.detail["name"] != "prices"
    ]
    assert sum(one.detail.get("name") == "prices" for one in changes) == 1
    resets = queries.resets(world.context)
    assert settings[::-1] == [
        ("phase", "passive"),
        ("baseline_rate", "0.05"),
        ("budget_tokens", "21000"),
        ("k", "20"),
        ("phase", "active"),
        ("baseline_rate", "0.1"),
        ("keep_texts", "true"),
        ("evaluation_credit", "referenced"),
    ]
    assert [(one.actor, one.scope, one.target) for one in resets] == [
        ("Mara", "tools", "uniform"),
        ("Jon", "all arms", "prior"),
    ]
    assert resets[0].n_arms == 14
    assert [one.act for one in changes if one.undone] == [
        one.detail["undone"] for one in changes if one.action == "undo"
    ]


def test_three_people_and_a_model_judge_and_the_careless_one_parts_from_them(world: World) -> None:
    watch = queries.bias_watch(world.context)
    assert {(one.grader.kind, one.grader.name) for one in watch.by_grader} == {
        ("human", MARA.name),
        ("human", PRIYA.name),
        ("human", JON.name),
        ("model", MODEL),
        ("unknown", ""),
    }
    assert {one.rubric for one in watch.by_rubric} == {"", FIRST_RUBRIC.version, SECOND_RUBRIC.version}
    readiness = watch.readiness
    blocking = {one.name for one in (*readiness.sft_blockers, *readiness.preference_blockers) if one.n}
    assert blocking == set(BLOCKERS)
    assert [(one.rubric.version, one.n_judged > 0) for one in rubrics(world.context)] == [
        (SECOND_RUBRIC.version, True),
        (FIRST_RUBRIC.version, True),
    ]
    parting = queries.bias_watch(world.context).parting
    assert [(one.grader.name, one.parting.divided) for one in parting] == [(JON.name, False)]


def test_agreement_can_be_measured_and_is_that_of_two_who_look_and_one_who_does_not(world: World) -> None:
    seen = queries.agreement(world.context)
    assert seen.n_items >= 60
    weights = {one.grader.name: one.weight for one in seen.graders}
    assert weights[JON.name] == 0
    assert all((weights[name] or 0) > 0.3 for name in (MARA.name, PRIYA.name, MODEL))
    of_two = {frozenset((one.grader.name, one.other.name)): one.agreement.alpha for one in seen.pairs}
    assert (of_two[frozenset((MARA.name, PRIYA.name))] or 0) > 0.7
    assert (of_two[frozenset((MARA.name, JON.name))] or 0) < 0.3
    (model,) = seen.models
    assert model.result.agreement.n_items >= 50


def test_layers_have_quality_and_their_head_gains_with_them(world: World) -> None:
    seen = queries.layers(world.context)
    labels = {one.label: one for one in seen.judged}
    assert labels.keys() >= {"Answer a ticket", "Sort the ticket", "Draft the reply"}
    assert labels["Answer a ticket"].n_judged > labels["Draft the reply"].n_judged
    assert [one.uid for one in seen.bare] == [UNKNOWN_LAYER]


def test_evaluations_are_revised_and_one_revision_is_taken_back(world: World) -> None:
    rows = queries.evaluations(world.context, EvaluationFilter(counting=False), limit=1_000)
    assert sum(one.undone for one in rows) == 1
    assert sum(one.supersedes is not None for one in rows) >= 4
    again = [one for one in rows if one.supersedes is not None]
    assert {one.id for one in rows if one.undone} < {one.id for one in again}


def test_arms_are_judged_after_the_last_run_so_that_no_selection_depends_on_it(world: World) -> None:
    moving = [one for one in queries.rewards(world.context, limit=10_000) if one.kind == "evaluation"]
    last_ms = max(one.at_ms or 0 for one in queries.runs(world.context, 10))
    assert len({one.arm for one in moving}) >= 6
    assert all(one.at_ms > last_ms for one in moving)


def test_thirty_replies_wait_for_two_reviewers_each(world: World) -> None:
    (queue,) = queues(world.context)
    assert (queue.progress.total, queue.progress.open, queue.overdue) == (N_OPEN, N_OPEN, False)
    reviewer = replace(world.context, actor=Actor(name="visitor", role="reviewer"))
    for number in range(1, N_OPEN + 1):
        item = view_item(reviewer, queue.progress.queue, number)
        assert item.rubric == SECOND_RUBRIC
        assert [text.layer for text in item.texts] == [DRAFT.uid]
        assert all(text.instruction and text.response for text in item.texts)


@pytest.mark.parametrize("format", TRAINING_FORMATS)
def test_every_training_export_has_rows(world: World, format: TrainingFormat, tmp_path: Path) -> None:
    operator = replace(world.context, actor=Actor(name="visitor"))
    answer = export_training(operator, tmp_path / "export", format)
    assert answer.rows >= 10
    assert (tmp_path / "export").stat().st_size > 1_000
    assert not answer.manifest.suspicions_count


def test_one_seed_gives_the_same_posteriors_bit_for_bit(ended: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(ended)
    columns = []
    for name, seed in (("a.db", None), ("b.db", 1), ("c.db", 2)):
        with closing(Store(tmp_path / name)) as store:
            if seed is not None:
                play(store, seed=seed, n_runs=N_SMALL)
            columns.append(queries.belief(context_of(store)).columns)
    here, there, other = columns
    for field in fields(ArmColumns):
        assert np.array_equal(getattr(here, field.name), getattr(there, field.name)), field.name
    assert not np.array_equal(here.success_micro, other.success_micro)


@pytest.mark.parametrize("n_runs", [2, 25])
def test_a_tiny_world_is_whole_too(n_runs: int, tmp_path: Path) -> None:
    with closing(Store(tmp_path / "demo.db")) as store:
        assert play(store, seed=1, n_runs=n_runs).runs == n_runs
        assert queries.verify(context_of(store)).clean


# Experiments


def test_one_experiment_is_finished_and_helps(world: World) -> None:
    """It was decided a day before the end, so its verdict is the same at any time of the machine."""
    (row,) = experiments(world.context)
    assert (row.plan.arm, row.state, row.decision, row.actor) == (TESTED, "stopped", "keep", MARA.name)
    figures = row.figures
    assert (figures.word, figures.why) == ("helps", None)
    assert 80 <= figures.assigned.with_arm + figures.assigned.without <= 200
    none = (figures.pending, figures.without_run, figures.not_followed, figures.unknown, figures.n_late)
    assert not any(one if isinstance(one, int) else one.with_arm + one.without for one in none)
    effect = figures.metric.effect
    assert effect.lower is not None
    assert effect.upper is not None
    assert 15 < effect.lower < 45 < effect.upper
    assert "experiment_harms" not in {item.kind for item in queries.overview(world.context).attention}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small world at its end, closed."""
    path = tmp_path_factory.mktemp("ended") / "demo.db"
    with closing(Store(path)) as store:
        play(store, seed=1, n_runs=N_SMALL)
    return path.read_bytes()


@pytest.fixture
def small_demo(ended: bytes, tmp_path: Path) -> Iterator[Context]:
    """A small world, whose visitor has the clock of the machine."""
    (tmp_path / "demo.db").write_bytes(ended)
    with closing(Store(tmp_path / "demo.db")) as store:
        yield replace(context_of(store), actor=Actor(name="visitor"))


def inclusions(context: Context, arm: str) -> int:
    columns = queries.belief(context).columns
    return int(columns.inclusions[columns.keys.index(arm)])


def test_a_demo_plays_on_from_where_it_ended_the_same_each_time(
    small_demo: Context, ended: bytes, tmp_path: Path
) -> None:
    progress: list[tuple[int, int]] = []
    for n_runs in (40, 20):
        before = queries.frame(small_demo).last_at_ms
        play_on(small_demo, n_runs, progress=lambda *at: progress.append(at))
        assert progress[-1] == (n_runs, n_runs)
        later = queries.runs(small_demo, n_runs)
        assert all((run.at_ms or 0) > (before or 0) for run in later)
        assert len({run.session for run in later}) < n_runs
        assert {run.run_class for run in later} <= {"baseline", "selected"}
    runs = [one._replace(mark="") for one in queries.runs(small_demo, 1_000)]
    assert len({run.uid for run in runs}) == 180
    assert queries.verify(small_demo).clean
    (tmp_path / "again.db").write_bytes(ended)
    with closing(Store(tmp_path / "again.db")) as store:
        again = replace(small_demo, store=store)
        for n_runs in (40, 20):
            play_on(again, n_runs)
        assert [one._replace(mark="") for one in queries.runs(again, 1_000)] == runs
        for field in fields(ArmColumns):
            here, there = (queries.belief(one).columns for one in (small_demo, again))
            assert np.array_equal(getattr(here, field.name), getattr(there, field.name)), field.name


@pytest.mark.parametrize(
    ("arm", "word"), [("tool:memory:memory_search", "harms"), ("tool:web:web_search", "helps")]
)
def test_an_experiment_by_hand_gets_its_verdict_from_the_runs_played_on(
    small_demo: Context, arm: str, word: str
) -> None:
    id = start_experiment(small_demo, arm, smallest=25.0).id
    assert id is not None
    assert experiment_result(small_demo, id).at_ms == queries.frame(small_demo).last_at_ms
    rows = []
    for _ in range(2):
        play_on(small_demo, 180)
        rows.append(experiment_result(small_demo, id))
    assert rows[0].figures.assigned.with_arm > 20 < rows[0].figures.assigned.without
    assert rows[-1].figures.word == word
    assert (rows[-1].harms, rows[-1].state) == (
        ("success", "stopped") if word == "harms" else (None, "running")
    )
    stopped = stop_experiment(small_demo, id, decision="exclude")
    assert stopped.id is not None
    before = inclusions(small_demo, arm)
    play_on(small_demo, 30)
    assert inclusions(small_demo, arm) == before
    undo(small_demo, stopped.id)
    assert experiment_result(small_demo, id).figures.word == word
    assert queries.verify(small_demo).clean


def test_only_a_demo_plays_on(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "real.db")) as store:
        context = Context(store=store, actor=Actor(name="op"))
        with pytest.raises(NotApplicable, match="Only a demo"):
            play_on(context, 5)
