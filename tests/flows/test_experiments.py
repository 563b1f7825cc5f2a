"""Plans, starts, changes and stops of experiments, and the verdicts that their sessions show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from core.errors import ArmscopeError, Denied, NotApplicable, UnknownAct, UnknownArm
from core.explained import experiments as explained
from core.explained.table import time_words
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.experiments import (
    experiment_result,
    experiments,
    plan_experiment,
    share_experiment,
    start_experiment,
    stop_experiment,
)
from core.flows.importing.files import import_files
from core.flows.learn import record
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from core.records.experiment import AssignmentLine, ExperimentAct, ExperimentLine
from core.records.run import Inventory, Run, Usage
from core.records.selection import Selection
from core.records.times import DAY_MS, HOUR_MS, MINUTE_MS
from core.store.experiments import is_with, started
from tests.worlds import START_MS, acting, chosen_among, context_at, is_clean

ARM = "tool:web:search"
ARMS = tuple(Arm(key=key, token_cost=100) for key in (ARM, "tool:web:fetch", "skill:own:pdf"))
Solves = Callable[[Random, bool], bool]
"""Whether a run solves its task, given whether it had the arm."""


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def context(tmp_path: Path, clock: Clock) -> Iterator[Context]:
    built = replace(context_at(tmp_path / "a.db"), clock=clock)
    yield built
    built.store.close()


def always(chance_with: float, chance_without: float) -> Solves:
    return lambda dice, has_arm: dice.random() < (chance_with if has_arm else chance_without)


def live(context: Context, clock: Clock, n: int, solves: Solves, *, first: int = 0) -> list[Selection]:
    """Live through sessions of one run, ten minutes apart; return their selections."""
    dice, chosen = Random(first), []
    for number in range(first, first + n):
        clock.now_ms += 10 * MINUTE_MS
        selection = select(context, ARMS, session=f"s{number}")
        run = Run(
            uid=f"r{number}",
            session=f"s{number}",
            ended_at_ms=clock.now_ms,
            run_class=selection.run_class,
            selection=selection,
            inventory=Inventory(kind="declared", arms=tuple(Arm(key=one) for one in selection.included)),
            excluded=selection.excluded,
            achieved=float(solves(dice, ARM in selection.included)),
        )
        record(context, run)
        chosen.append(selection)
    return chosen


def test_an_experiment_goes_from_its_plan_to_a_verdict_and_a_decision(context: Context, clock: Clock) -> None:
    live(context, clock, 200, always(0.5, 0.5))
    planned = plan_experiment(context, ARM, smallest=30)
    assert planned.refused == ()
    assert planned.n_needed is not None
    assert planned.days is not None
    assert start_experiment(context, ARM, smallest=30, preview=True).id is None
    started = start_experiment(context, ARM, smallest=30)
    assert (started.id, started.plan.n_planned, started.plan.source) == (
        "experiment-1",
        planned.n_needed,
        "program",
    )
    chosen = live(context, clock, planned.n_needed, always(0.85, 0.35), first=1_000)
    assert {one.run_class for one in chosen} == {"selected"}
    (row,) = experiments(context)
    assert row.state == "running"
    assert row.figures.pending.with_arm > 0
    clock.now_ms += 9 * DAY_MS
    row = experiment_result(context, ARM)
    assert (row.figures.word, row.figures.metric.effect.limits is not None) == ("helps", True)
    assert explained.verdict(row).startswith(f"Offering {ARM}: helps. Success of a session: +")
    keeping = stop_experiment(context, "experiment-1", decision="keep")
    assert experiment_result(context, "1").decision == "keep"
    with pytest.raises(NotApplicable, match="has stopped"):
        stop_experiment(context, "1")
    out = stop_experiment(context, "1", decision="exclude")
    assert (out.excluded, ARM in context_settings(context)) == (True, True)
    undo(context, out.id)
    undo(context, keeping.id)
    assert (experiment_result(context, "1").decision, ARM in context_settings(context)) == (None, False)
    assert is_clean(context)


def context_settings(context: Context) -> tuple[str, ...]:
    with context.reading() as snapshot:
        return snapshot.settings.excluded_arms


def test_a_harm_stops_the_experiment_by_itself_with_an_alarm(context: Context, clock: Clock) -> None:
    live(context, clock, 150, always(0.5, 0.5))
    n = start_experiment(context, ARM, smallest=40, hours=1, days=0).plan.n_planned
    live(context, clock, 3 * n, always(0.05, 0.95), first=1_000)
    (row,) = experiments(context)
    assert (row.state, row.harms, row.figures.word) == ("stopped", "success", "harms")
    assert row.figures.assigned.with_arm + row.figures.assigned.without < 3 * n
    (alarm,) = (one for one in queries.alarms(context) if one.kind == "experiment_harms")
    assert (alarm.object, alarm.ids) == ("experiment-1", (ARM,))
    stop_experiment(context, "1", decision="exclude")
    assert not [one for one in queries.alarms(context) if one.kind == "experiment_harms"]
    (after,) = live(context, clock, 1, always(1, 1), first=9_000)
    assert {one.arm: one.reason for one in after.decisions}[ARM] == "excluded"


@hypothesis.given(
    delays=st.lists(st.sampled_from((0, HOUR_MS, DAY_MS, 26 * HOUR_MS, 30 * DAY_MS)), min_size=4, max_size=9),
    has_end=st.booleans(),
)
@hypothesis.settings(max_examples=8)
def test_a_run_that_becomes_known_too_late_changes_no_figure(delays: Sequence[int], *, has_end: bool) -> None:
    clock = Clock()
    with (
        TemporaryDirectory() as folder,
        closing((context := replace(context_at(Path(folder) / "a.db"), clock=clock)).store),
    ):
        live(context, clock, 30, always(0.5, 0.5))
        start_experiment(context, ARM, metric="tokens", hours=1, days=1)
        at_ms = clock.now_ms
        chosen = [select(context, ARMS, session=f"new{number}") for number in range(len(delays))]
        for number, delay in enumerate(sorted(delays)):
            clock.now_ms = at_ms + delay
            end, uid = at_ms if has_end else None, f"new{number}"
            record(
                context,
                chosen_among(uid, chosen[number], ARMS, session=uid, usage=Usage(input=9), ended_at_ms=end),
            )
        clock.now_ms = at_ms + 31 * DAY_MS
        (row,) = experiments(context)
        n_late = sum(delay > HOUR_MS + DAY_MS for delay in delays)
        lost = row.figures.without_run
        assert (row.figures.n_late, lost.with_arm + lost.without) == (n_late, n_late)


def test_what_can_not_be_tested_is_refused_with_its_reason(context: Context, clock: Clock) -> None:
    live(context, clock, 120, always(0.5, 0.5))
    with pytest.raises(UnknownArm):
        plan_experiment(context, "tool:web:nothing")
    with pytest.raises(ArmscopeError, match="metric must be one of"):
        plan_experiment(context, ARM, metric="luck")  # type: ignore[arg-type]  # a caller without types
    change(context, "seed_arms", [ARM])
    with pytest.raises(NotApplicable, match="it is a seed") as problem:
        start_experiment(context, ARM)
    assert "out of seed_arms" in str(problem.value.next_step)
    assert start_experiment(context, ARM, seed=True, preview=True).plan.is_seed
    change(context, "seed_arms", ["skill:own:pdf"])
    change(context, "k", 1)
    with pytest.raises(NotApplicable, match="exceed the limits"):
        start_experiment(context, ARM)
    change(context, "k", 0)
    change(context, "excluded_arms", [ARM])
    with pytest.raises(NotApplicable, match=r"a setting excludes it\. Take it out of excluded_arms"):
        start_experiment(context, ARM)
    change(context, "excluded_arms", [])
    change(context, "phase", "passive")
    with pytest.raises(NotApplicable, match="passive phase"):
        start_experiment(context, ARM)
    change(context, "phase", "active")
    with pytest.raises(Denied):
        start_experiment(acting(context, "reviewer"), ARM)
    start_experiment(context, ARM)
    with pytest.raises(NotApplicable, match="an experiment on it is running"):
        start_experiment(context, ARM)
    with pytest.raises(UnknownAct):
        experiment_result(context, "experiment-9")


def test_a_plan_names_a_short_past_and_an_effect_that_fits(context: Context, clock: Clock) -> None:
    live(context, clock, 20, always(0.5, 0.5))
    planned = plan_experiment(context, ARM, smallest=1)
    words = " ".join(explained.planned(planned))
    assert "20 recent sessions in" in words
    assert planned.feasible is not None
    assert f"effect of {planned.feasible:g} points fits" in words
    larger, smaller = (
        plan_experiment(context, ARM, smallest=planned.feasible - less).proposes_trial for less in (0, 1)
    )
    assert (larger, smaller) == (False, True)
    assert plan_experiment(context, ARM, smallest=planned.feasible).feasible is None
    with pytest.raises(ArmscopeError, match=r"from 1 to 100, got 0\.1\. Use one in this range"):
        plan_experiment(context, ARM, smallest=0.1)
    clock.now_ms += 3 * DAY_MS
    live(context, clock, 20, always(0.5, 0.5), first=100)
    assert "rests on" not in " ".join(explained.planned(plan_experiment(context, ARM)))


def test_an_experiment_without_a_counted_session_names_the_first(context: Context, clock: Clock) -> None:
    live(context, clock, 30, always(0.5, 0.5))
    start_experiment(context, ARM)
    assert "no session is assigned" in explained.words(experiment_result(context, ARM))
    live(context, clock, 3, always(0.5, 0.5), first=1_000)
    row = experiment_result(context, ARM)
    first = clock.now_ms - 20 * MINUTE_MS + DAY_MS
    assert explained.words(row).endswith(f"the first counts by {time_words(first)}")
    stop_experiment(context, ARM, decision="exclude")
    assert explained.state_word(experiment_result(context, ARM)) == "stopped, arm excluded"


def test_a_session_id_of_many_runs_names_no_session(context: Context, clock: Clock) -> None:
    for number in range(120):
        clock.now_ms += MINUTE_MS
        session = "main" if number % 5 == 0 else f"s{number}"
        prompt = Inventory(kind="declared", arms=ARMS)
        record(context, Run(uid=f"r{number}", session=session, ended_at_ms=clock.now_ms, inventory=prompt))
    assert any("one session id has 20%" in one for one in plan_experiment(context, ARM).refused)


def test_a_share_changes_for_new_sessions_and_an_undone_start_keeps_its_rows(
    context: Context, clock: Clock
) -> None:
    live(context, clock, 100, always(0.5, 0.5))
    start_experiment(context, ARM, metric="tokens")
    live(context, clock, 60, always(0.5, 0.5), first=1_000)
    share_experiment(context, ARM, 0.05)
    chosen = live(context, clock, 100, always(0.5, 0.5), first=2_000)
    assert sum(ARM in one.included for one in chosen) < 20
    row = experiment_result(context, ARM)
    assert (row.share, row.figures.assigned.with_arm + row.figures.assigned.without) == (0.05, 160)
    undo(context, "experiment-1")
    assert experiment_result(context, ARM).state == "undone"
    (after,) = live(context, clock, 1, always(0.5, 0.5), first=3_000)
    assert "assigned" not in {one.reason for one in after.decisions}
    redo(context, "experiment-1")
    assert experiment_result(context, ARM).state == "running"
    with pytest.raises(NotApplicable, match="follows from experiment-1"):
        undo(context, "assignment-1")
    start_experiment(context, "tool:web:fetch", metric="tokens")
    stop_experiment(context, "tool:web:fetch")
    assert start_experiment(context, "tool:web:fetch", metric="tokens").id is not None
    assert [one.nth for one in experiments(context, arm="tool:web:fetch")] == [2, 1]
    assert is_clean(context)


def test_an_undo_starts_no_more_experiments_than_may_run(context: Context, clock: Clock) -> None:
    live(context, clock, 30, always(0.5, 0.5))
    first = start_experiment(context, ARM).id
    undo(context, first)
    start_experiment(context, ARM)
    with pytest.raises(NotApplicable, match="each on an arm of its own"):
        redo(context, first)
    stop = stop_experiment(context, ARM).id
    redo(context, first)
    with pytest.raises(NotApplicable, match="At most 3 experiments may run"):
        undo(context, stop)


def test_harms_of_experiments_that_share_numbers_all_count(context: Context, clock: Clock) -> None:
    live(context, clock, 60, always(0.5, 0.5))
    for arm in (ARM, ARMS[1].key):
        start_experiment(context, arm, smallest=40, hours=1, days=0)
    live(context, clock, 240, always(0.02, 0.98), first=1_000)
    assert [row.harms for row in experiments(context) if row.plan.arm == ARM] == ["success"]


def test_an_import_changes_no_experiment_that_has_its_key_here(
    context: Context, clock: Clock, tmp_path: Path
) -> None:
    live(context, clock, 30, always(0.5, 0.5))
    start_experiment(context, ARM)
    with context.reading() as snapshot:
        of = started(snapshot)[0].fact.line_id
        sides = {
            f"new {one}": is_with(started(snapshot)[0].hashed(f"new {one}"), 500_000) for one in range(20)
        }
    act = ExperimentLine(id="x/experiment-1", form="share", of=of, act=ExperimentAct(share=0.95))
    rows = [
        AssignmentLine(id=f"x/{name}", of=of, session=name, side="with", chance_micro=500_000)
        for name in sides
    ]
    file = tmp_path / "forged.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in (act, *rows)))
    answer = import_files(context, [file])
    assert len(answer.rejected) == 1 + len(rows) - sum(sides.values())
    (row,) = experiments(context)
    assert (row.share, row.figures.assigned.with_arm) == (0.5, sum(sides.values()))
    assert is_clean(context)


def test_a_start_refuses_no_selection(context: Context, clock: Clock) -> None:
    live(context, clock, 30, always(0.5, 0.5))
    names = ("x" * 5_000, "a\0b", "\ud800")
    start_experiment(context, ARM)
    assert all(select(context, ARMS, session=name).experiment is msgspec.UNSET for name in names)
