"""What goes into a queue and in which order; batches; two answers side by side; rubrics."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
import pytest
import scipy
from msgspec.structs import replace as with_fields

from core.errors import (
    Conflict,
    InvalidEvaluation,
    InvalidInput,
    NotApplicable,
    UnknownExecution,
    UnknownLayer,
)
from core.flows import queries
from core.flows.choose import choose, next_pair
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.evaluate import evaluate, evaluate_all
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward
from core.flows.queues import add_queue, add_rubric, levels_of, propose_queue, queues, rubrics
from core.flows.review import judge_batch, propose_batch, take_back, view_item
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from core.records.evaluation import EvaluationOrder
from core.records.review import LEVELS, About, Criterion, Draft, Level, QueueAsks, Rubric
from core.records.run import Run
from core.records.run_query import RunFilter, View
from tests.engine import named
from tests.worlds import START_MS, a_run, context_at
from tests.worlds.reviewers import LAYER, MINUTE_MS, QUEUE, Desk, desk_at, executed, judge_all, n_done, thirty
from tests.worlds.training import executed as imported_executions
from tests.worlds.training import execution_line, execution_uid, layer_line

A, B, C = (f"tool:other:{name}" for name in "abc")


def uris(context: Context, asks: QueueAsks) -> list[str]:
    """What a queue of this would hold, in the order it is given out."""
    made = add_queue(context, "asked", asks)
    found = [view_item(context, made.id, number).uri for number in range(1, made.n_items + 1)]
    undo(context, made.id)
    return found


def n_proposed(context: Context, asks: QueueAsks) -> int:
    return propose_queue(context, asks).n


# Sources


def test_unjudged_is_what_no_person_has_judged_whatever_models_say(desk: Desk) -> None:
    evaluate(desk.of("kim"), "r0", "success")
    evaluate(desk.of("kim"), "r1", "success", model="judge-1")
    taken_back = evaluate(desk.of("kim"), "r2", "success")
    assert n_proposed(desk.context, QueueAsks()) == 28
    undo(desk.context, taken_back.id)
    assert uris(desk.context, QueueAsks(limit=2)) == ["run:r1", "run:r2"]


def test_low_is_what_got_little_from_whomever(desk: Desk) -> None:
    record_all(desk.context, [paid("paid", 0.3), paid("more", 0.9)])
    evaluate(desk.of("kim"), "r4", "success", score=0.2)
    evaluate(desk.of("kim"), "r5", "failure", score=1.0)
    evaluate(desk.of("kim"), "r6", "success")
    low = QueueAsks(source="low", order="lowest", below=0.3)
    assert uris(desk.context, low) == ["run:r5", "run:r4", "run:paid"]
    reward(desk.context, A, 0.2, run="r7", correct=True)
    evaluate(desk.of("kim"), "r8", "failure", arm=A)
    arms = QueueAsks(source="low", about="arm", order="lowest")
    assert uris(desk.context, arms) == [f"run:r8#{A}", f"run:r7#{A}"]


def paid(uid: str, reward: float) -> Run:
    return msgspec.structs.replace(a_run(uid), reward=reward)


def test_raters_disagree_where_outcomes_differ_and_the_most_divided_comes_first(desk: Desk) -> None:
    for run, outcomes in {"r1": "sssf", "r2": "sf", "r3": "ss", "r4": "f"}.items():
        for rater, letter in zip("wxyz", outcomes, strict=False):
            evaluate(desk.of(rater), run, "success" if letter == "s" else "failure")
    asks = QueueAsks(source="disagree", order="disagreement")
    assert uris(desk.context, asks) == ["run:r2", "run:r1"]


def test_a_filter_chooses_among_the_runs_and_by_arm_that_arm_referenced_or_not(desk: Desk) -> None:
    view = View(since_ms=START_MS, until_ms=START_MS + 60 * MINUTE_MS)
    assert n_proposed(desk.context, QueueAsks(source="filter", view=view)) == 30
    assert n_proposed(desk.context, QueueAsks(source="filter", wanted=RunFilter(classes=("baseline",)))) == 0
    every = QueueAsks(source="filter", about="arm", limit=10_000)
    assert n_proposed(desk.context, every) == 30, "each run called one of its three"
    of_b = QueueAsks(source="filter", about="arm", wanted=RunFilter(arm=B), limit=2)
    assert uris(desk.context, of_b) == [f"run:r0#{B}", f"run:r1#{B}"]


def test_runs_picked_by_hand_come_by_uid_or_number_once_each(desk: Desk) -> None:
    assert uris(desk.context, QueueAsks(source="runs", runs=("r9", "3", "r9"))) == ["run:r2", "run:r9"]
    with pytest.raises(LookupError, match="'nobody'"):
        n_proposed(desk.context, QueueAsks(source="runs", runs=("nobody",)))


def test_executions_and_their_layers_are_judged_as_such(desk: Desk, tmp_path: Path) -> None:
    first, second = executed(desk, tmp_path, "y", "z")
    assert uris(desk.context, QueueAsks(about="execution")) == [f"execution:{first}", f"execution:{second}"]
    layers = QueueAsks(about="layer")
    assert uris(desk.context, layers) == [
        f"kairos://layer/{LAYER}?execution_id={uid}" for uid in (first, second)
    ]
    add_queue(desk.context, "W", layers)
    (text,) = view_item(desk.context, "W", 1).texts
    assert (text.layer, text.instruction, text.response) == (LAYER, '{"ask": "x"}', '{"say": "y"}')
    assert judge_all(desk.of("ann"), view_item(desk.context, "W", 1).queue) == [1, 2]
    assert n_proposed(desk.context, QueueAsks(source="filter", about="layer")) == 2
    with pytest.raises(InvalidInput, match="none of the source unjudged"):
        add_queue(desk.context, "V", layers)


@pytest.mark.parametrize("about", ["execution", "layer"])
def test_the_oldest_executions_come_first_however_they_were_imported(tmp_path: Path, about: About) -> None:
    lines = (execution_line(9), execution_line(2), execution_line(5))
    context = imported_executions(tmp_path, layer_line(1), *lines)
    items = uris(context, QueueAsks(about=about, limit=2))
    assert [execution_uid(number) in one for number, one in zip((2, 5), items, strict=True)] == [True, True]


def test_the_oldest_of_named_runs_come_first(desk: Desk) -> None:
    assert uris(desk.context, QueueAsks(source="runs", runs=("r9", "r2", "r5"), limit=2)) == [
        "run:r2",
        "run:r5",
    ]


def test_an_execution_that_came_to_be_a_runs_is_still_the_item_it_was(desk: Desk, tmp_path: Path) -> None:
    uid = "33333333-1111-4222-8333-444444444444"
    evaluate(desk.of("kim"), f"kairos://layer/{LAYER}?execution_id={uid}", "success", create=True)
    add_queue(desk.context, "W", QueueAsks(source="filter", about="execution"))
    line = f'{{"kind": "execution", "uid": "{uid}", "run": "r3"}}\n'
    (tmp_path / "told.jsonl").write_text(line)
    import_files(desk.context, [tmp_path / "told.jsonl"])
    assert judge_all(desk.of("ann")) == [1]
    assert n_done(desk.context) == 1


# Orders


def test_the_oldest_comes_first_and_what_has_no_time_last(desk: Desk) -> None:
    record_all(desk.context, [a_run("timeless", at_ms=None), a_run("old", at_ms=START_MS - 1)])
    found = uris(desk.context, QueueAsks())
    assert (found[0], found[1], found[-1]) == ("run:old", "run:r0", "run:timeless")


# Frozen before it is confirmed


def test_what_was_counted_is_made_or_nothing(desk: Desk) -> None:
    counted = propose_queue(desk.context)
    assert (counted.n, len(counted.first), counted.first[0].run) == (30, 20, "r0")
    evaluate(desk.of("kim"), "r3", "success")
    with pytest.raises(Conflict, match="29 items"):
        add_queue(desk.context, "W", token=counted.token)
    assert add_queue(desk.context, "W", token=propose_queue(desk.context).token).n_items == 29


def test_a_batch_is_judged_as_it_was_counted_and_taken_back_as_one(desk: Desk) -> None:
    asks = QueueAsks(source="filter", about="arm", limit=10_000)
    before = queries.posteriors(desk.context)
    counted = propose_batch(desk.context, asks)
    record_all(desk.context, [a_run("one more")])
    with pytest.raises(Conflict, match="31 items"):
        judge_batch(desk.context, asks, counted.token, outcome="failure", score=1.0)
    undo_runs = queries.posteriors(desk.context)
    assert undo_runs != before
    counted = propose_batch(desk.context, asks)
    made = judge_batch(desk.context, asks, counted.token, outcome="failure", score=1.0, rubric="v1")
    assert made.n == len(made.acts) == 31
    assert queries.posteriors(desk.context) != undo_runs
    assert take_back(desk.context, made.acts).count == 31
    assert queries.posteriors(desk.context) == undo_runs
    assert queries.verify(desk.context).clean


def test_a_batch_is_what_its_evaluations_would_be_one_by_one(desk: Desk, tmp_path: Path) -> None:
    other = desk_at(tmp_path / "b.db")
    token = propose_batch(desk.context, QueueAsks()).token
    judge_batch(desk.context, QueueAsks(), token, outcome="success", score=0.7, rubric="v1")
    orders = [
        EvaluationOrder(run=f"r{number}", outcome="success", score=0.7, rubric="v1", rater="mara")
        for number in range(30)
    ]
    evaluate_all(other.context, orders)
    for one in (desk, other):
        export_file(one.context, tmp_path / f"{named(one.context.store).stem}.jsonl")
    told = [
        [line.replace(b"test:a.db", b"test:b.db") for line in file.read_bytes().splitlines()]
        for file in (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    ]
    # Each learner has a chain of its own: many at once are one link.
    for lines in told:
        lines[0] = re.sub(rb'"head":"[^"]*",?', b"", lines[0])
    assert told[0] == told[1]


# Two answers side by side


def test_two_answers_to_one_instruction_are_compared_once(desk: Desk, tmp_path: Path) -> None:
    first, second, third = executed(desk, tmp_path, "y", "z", "y")
    executed(desk, tmp_path, "elsewhere", ask="other", first=9)
    ann = desk.of("ann")
    pair = next_pair(ann)
    assert pair is not None
    assert ({pair.first, pair.second}, pair.n_left) == ({first, second}, 2), "equal answers are no pair"
    assert pair.instruction == '{"ask": "x"}'
    assert {pair.first_response, pair.second_response} == {'{"say": "y"}', '{"say": "z"}'}
    made = choose(ann, pair.layer, pair.first, pair.second, "second", rubric="v1", feedback="shorter")
    following = next_pair(ann, layer=f"kairos://layer/{LAYER}")
    assert following is not None
    assert ({following.first, following.second}, following.n_left) == ({second, third}, 1)
    assert undo(ann, made.id).kind == "choice"
    again = next_pair(ann)
    assert again is not None
    assert again.n_left == 2
    redo(ann, made.id)
    choose(ann, following.layer, following.first, following.second, "equal")
    assert next_pair(ann) is None
    assert next_pair(desk.of("bob")) is not None
    orders = {(one.first, one.second) for one in (next_pair(desk.of("bob")) for _ in range(20)) if one}
    assert orders == {(first, second), (second, first)}, "the order is counts"
    export_file(desk.context, tmp_path / "all.jsonl")
    kept = [line for line in (tmp_path / "all.jsonl").read_text().splitlines() if '"kind":"choice"' in line]
    assert f'"first":"{pair.first}","second":"{pair.second}","chosen":"second"' in kept[0]


def test_what_does_not_answer_the_same_is_not_compared(desk: Desk, tmp_path: Path) -> None:
    first, second = executed(desk, tmp_path, "y", "z")
    (other,) = executed(desk, tmp_path, "y", ask="other", first=9)
    with pytest.raises(NotApplicable, match="same instruction"):
        choose(desk.context, LAYER, first, other, "first")
    with pytest.raises(UnknownExecution):
        choose(desk.context, LAYER, first, "nobody", "first")
    with pytest.raises(UnknownLayer):
        next_pair(desk.context, layer="nobody")
    with pytest.raises(InvalidInput, match="twice"):
        choose(desk.context, LAYER, first, first.upper(), "first")
    with pytest.raises(InvalidInput, match="first, second or equal"):
        choose(desk.context, LAYER, first, second, "both")  # type: ignore[arg-type]
    with pytest.raises(InvalidEvaluation, match="feedback"):
        choose(desk.context, LAYER, first, second, "first", feedback="")
    assert queries.verify(desk.context).clean


# Rubrics


def test_a_version_is_defined_once_counted_and_taken_back(desk: Desk) -> None:
    rubric = Rubric(
        version="v2",
        title="Answers",
        criteria=(Criterion(name="Correct", words="It says what is so.", example="2 + 2 is 4"),),
        levels=(
            Level(words="No", outcome="failure", score=1),
            Level(words="Yes", outcome="success", score=1),
        ),
    )
    first = add_rubric(desk.context, rubric)
    assert add_rubric(desk.context, rubric) == first
    with pytest.raises(Conflict, match="never changes"):
        add_rubric(desk.context, Rubric(version="v2"))
    evaluate(desk.of("ann"), "r0", "success", rubric="v2")
    (row,) = rubrics(desk.context)
    assert (row.id, row.rubric, row.by, row.n_judged) == ("rubric-1", rubric, "mara", 1)
    with desk.context.reading() as snapshot:
        assert levels_of(snapshot, "v2") == rubric.levels
        assert levels_of(snapshot, "v9") == LEVELS
    undo(desk.context, first.id)
    assert rubrics(desk.context) == ()
    redo(desk.context, first.id)
    assert len(rubrics(desk.context)) == 1


# A random sample


def sessions_by_coin(file: Path, n: int = 60) -> Context:
    """Return a learner with sessions of two runs, each selected by its own coin."""
    seeds = count(1)
    context = replace(context_at(file), entropy=lambda: next(seeds))
    change(context, "baseline_rate", 0.5)
    arms = [Arm(key=A, token_cost=100), Arm(key=B, token_cost=100)]
    for number in range(2 * n):
        session = f"s{number // 2}"
        chosen = select(context, arms, session=session)
        record(
            context,
            with_fields(a_run(f"r{number}"), selection=chosen, run_class=chosen.run_class, session=session),
        )
    return context


def test_a_random_queue_draws_full_sessions_and_its_outcomes_are_those_of_all(tmp_path: Path) -> None:
    context = sessions_by_coin(tmp_path / "a.db")
    asks = QueueAsks(source="filter", order="random", limit=30)
    proposal = propose_queue(context, asks)
    queue = add_queue(context, "sample", asks, token=proposal.token)
    (row,) = queues(context)
    assert (queue.n_items, row.asks.chance) == (30, 0.25)
    subjects = {view_item(context, queue.id, number).uri for number in range(1, 31)}
    numbers = {int(one.rpartition(":r")[2]) for one in subjects}
    assert {number ^ 1 for number in numbers} == numbers, "both runs of each session"
    assert subjects != set(uris(context, with_fields(asks, seed="other")))
    before = queries.savings(context).outcome
    assert (before.word, before.sampled) == ("unknown", (False, False))
    for number in numbers:
        evaluate(context, f"r{number}", "success")
    outcome = queries.savings(context).outcome
    assert (outcome.sampled, sum(outcome.known), outcome.of_judged) == ((True, True), 30, False)
    undo(context, queue.id)
    outcome = queries.savings(context).outcome
    assert (outcome.sampled, sum(outcome.n_runs), outcome.of_judged) == ((False, False), 120, True)


def test_each_session_has_the_chance_that_is_stored(tmp_path: Path) -> None:
    context = sessions_by_coin(tmp_path / "a.db", 20)
    counts = Counter[str]()
    for seed in range(200):
        counts.update(uris(context, QueueAsks(source="filter", order="random", limit=10, seed=str(seed))))
    assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-4
    assert (len(counts), counts.total()) == (40, 2_000)


# What can't be


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            {"source": "x"},
            "source must be one of unjudged, low, disagree, filter, runs, unused, experiment, got 'x'",
        ),
        ({"about": "session"}, "about must be one of"),
        ({"order": "newest"}, "order must be one of"),
        ({"order": "random"}, "The source of a random order must be filter, got unjudged"),
        ({"chance": 0.5}, "chance must be left out of the order oldest, got 0.5"),
        ({"limit": 0}, "limit must be a whole number from 1 to 10,000, got 0"),
        ({"limit": 10_001}, "got 10001"),
        ({"below": 1.5}, "below must be a number from 0 to 1, got 1.5"),
        ({"source": "runs"}, "runs must be named for the source runs"),
        ({"runs": ("r1",)}, "runs must be named for the source runs"),
    ],
)
def test_what_cannot_be_asked_for_is_said(said: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        QueueAsks(**said)  # type: ignore[arg-type]
    assert problem in str(refused.value)


def test_a_draft_holds_what_could_be_sent() -> None:
    with pytest.raises(InvalidInput):
        Draft(level=0)
    with pytest.raises(InvalidInput):
        Draft(score=1.2)
    with pytest.raises(InvalidInput):
        Draft(feedback="x" * 5_001)
    assert Draft(feedback="").feedback == ""


def test_reviewers_of_another_learner_see_none_of_it(desk: Desk) -> None:
    add_queue(desk.context, "W")
    other = replace(desk.context, learner="second", is_named=True)
    record_all(other, thirty()[:1])
    with pytest.raises(LookupError):
        view_item(other, QUEUE, 1)
