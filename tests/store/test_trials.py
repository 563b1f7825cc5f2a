"""Runs of a trial teach nothing and count nowhere, however the facts come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace as with_fields

from core.errors import NotApplicable
from core.flows import queries
from core.flows.context import USUAL_PACE, Context, ImportPace
from core.flows.corrections import redo, reset, undo
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.queries import METRICS
from core.flows.trials.plan import trials
from core.flows.trials.program import Slot, session_of
from core.records.run import Run, RunClass
from core.records.trial import TrialPlan, TrialTask, session_prefix
from core.store.reads import usage_columns
from core.store.trials import trial_facts
from tests.store.compacting import compact_until
from tests.worlds import HOUR_MS, IN_PARTS, START_MS, a_run, context_at, is_clean, lines_file, run_line

A = "tool:other:a"
PLAN = TrialPlan(arms=(A,), digests=("",), tasks=(TrialTask(name="sums"),), seed="7")
PREFIX = session_prefix(PLAN)
PLANNED = tuple(
    session_of(PREFIX, Slot("sums", repeat, side)) for repeat in (1, 2) for side in ("with", "without")
)
READ = tuple(f"read-{number}" for number in range(4))


def read_cell(session: str, number: int) -> dict[str, object]:
    side = "with" if number % 2 else "without"
    return {"task": "sums", "repeat": 1 + number // 2, "side": side, "grade": number % 2, "session": session}


def reading_line(*sessions: str, name: str = "t1", of: str = "") -> dict[str, object]:
    cells = [read_cell(session, number) for number, session in enumerate(sessions)]
    return {
        "kind": "trial",
        "id": f"elsewhere/{name}",
        "of": of,
        "results": {"source": "lines", "arm": A, "cells": cells},
    }


def plan_line(name: str = "p1") -> dict[str, object]:
    plan = {"arms": [A], "digests": [""], "tasks": [{"name": "sums"}], "seed": "7"}
    return {"kind": "trial", "id": f"elsewhere/{name}", "plan": plan}


def at_one_time(path: Path) -> Context:
    return replace(context_at(path), clock=lambda: START_MS + 900 * HOUR_MS)


def figures_of(context: Context) -> dict[str, object]:
    """Everything that is derived from runs, without numbers of rows."""
    with context.reading() as snapshot:
        usage = usage_columns(snapshot)
        used = zip(usage.hour.tolist(), usage.run_class, usage.n.tolist(), strict=True)
    return {
        "posteriors": {one.arm: (one.alpha, one.beta, one.pulls) for one in queries.posteriors(context)},
        "arms": sorted(map(repr, queries.arms(context))),
        "judgements": repr(queries.judgements(context)),
        "savings": repr(queries.savings(context)),
        "sessions": queries.sessions(context),
        "usage": sorted(one for one in used if one[-1]),
        "series": [queries.timeseries(context, metric) for metric in METRICS],
        "overview": repr(queries.overview(context)),
        "alarms": queries.alarms(context),
        "runs": [row.uid for row in queries.runs(context, limit=200)],
    }


def random_run(random: Random, uid: str, session: str | None) -> Run:
    calls = random.sample("abc", random.randrange(4))
    one = a_run(uid, calls=calls, at_ms=START_MS + random.randrange(800) * HOUR_MS, model="m")
    return with_fields(one, session=session, run_class=random.choice(("imported", "fallback")))


@dataclass
class Twins:
    """Two learners of one history: with the trial's runs and facts, and without them."""

    folder: Path
    random: Random
    pace: ImportPace
    n: int = 0
    acts: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        contexts = [at_one_time(self.folder / f"{name}.db") for name in ("with", "without")]
        self.both = [replace(one, pace=self.pace) for one in contexts]
        self.full, self.plain = self.both

    def file(self, *lines: dict[str, object]) -> Path:
        self.n += 1
        return lines_file(self.folder / f"{self.n}.jsonl", *lines)

    def line(self, session: str | None) -> dict[str, object]:
        self.n += 1
        at_ms = START_MS + self.random.randrange(800) * HOUR_MS
        calls = self.random.sample("abc", self.random.randrange(4))
        own = {} if session is None else {"session": session}
        return run_line(f"run-{self.n}", calls, ended_at_ms=at_ms, usage={"total": 100 + self.n}, **own)

    def usual_run(self) -> None:
        self.n += 1
        run = random_run(self.random, f"run-{self.n}", self.random.choice((None, "mine", "yours")))
        for context in self.both:
            record(context, run)

    def usual_import(self) -> None:
        lines = [self.line(self.random.choice((None, "mine"))) for _ in range(3)]
        ours = [self.line(self.random.choice((*PLANNED, *READ))) for _ in range(2)]
        mixed = sorted([*lines, *ours], key=lambda _: self.random.random())
        self.acts.append(
            [
                str(import_files(self.full, [self.file(*mixed)]).id),
                str(import_files(self.plain, [self.file(*lines)]).id),
            ]
        )

    def run_of_trial(self) -> None:
        self.n += 1
        session = self.random.choice((*PLANNED, *READ))
        record(self.full, random_run(self.random, f"run-{self.n}", session))

    def run_of_class(self) -> None:
        self.n += 1
        record(self.full, with_fields(random_run(self.random, f"run-{self.n}", None), run_class="trial"))

    def undo_one(self) -> None:
        for context, act in zip(self.both, self.random.choice(self.acts or [[]]), strict=False):
            undo(context, act)

    def redo_one(self) -> None:
        for context, act in zip(self.both, self.random.choice(self.acts or [[]]), strict=False):
            redo(context, act)

    def set_back(self) -> None:
        if any(one.arm == A for one in queries.posteriors(self.plain)):
            self.acts.append([reset(context, arms=[A]).id or "" for context in self.both])

    def read(self) -> None:
        lines = [reading_line(*READ), plan_line()]
        import_files(self.full, [self.file(*lines[: self.random.randrange(1, 3)])])

    def forget(self) -> None:
        for act in ("trial-1", "trial-2"):
            if self.n_trials() >= int(act[-1]):
                self.random.choice((undo, redo))(self.full, act)

    def n_trials(self) -> int:
        with self.full.reading() as snapshot:
            return snapshot.count_of("SELECT count(*) FROM trial WHERE learner_id = ?")

    def moves(self) -> list[Callable[[], None]]:
        return [
            *(self.usual_run, self.usual_run, self.usual_import, self.usual_import),
            *(self.run_of_trial, self.run_of_trial, self.run_of_class),
            *(self.undo_one, self.redo_one, self.set_back, self.read, self.forget),
        ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("pace", [USUAL_PACE, IN_PARTS])
def test_with_and_without_the_runs_of_a_trial_every_figure_is_equal(
    tmp_path: Path, seed: int, pace: ImportPace
) -> None:
    twins = Twins(tmp_path, Random(seed), pace)
    for _ in range(25):
        twins.random.choice(twins.moves())()
    import_files(twins.full, [twins.file(reading_line(*READ, name="t9"), plan_line("p9"))])
    ours, others = figures_of(twins.full), figures_of(twins.plain)
    assert {name: (one, others[name]) for name, one in ours.items() if one != others[name]} == {}
    assert is_clean(twins.full)


def taught_world(folder: Path, *, before: bool = True) -> Context:
    """Six runs of which four are in sessions of a trial, and a correction of one of them."""
    context = at_one_time(folder / "imported.db")
    runs = [
        run_line(f"r{at}", "ab", ended_at_ms=START_MS + at * HOUR_MS, session=session)
        for at, session in enumerate((*READ[:2], *PLANNED[:2], "mine", "yours"))
    ]
    lines = [reading_line(*READ), plan_line()]
    import_files(context, [lines_file(folder / "runs.jsonl", *(runs if before else lines))])
    import_files(context, [lines_file(folder / "trial.jsonl", *(lines if before else runs))])
    return context


def rows_of_class(context: Context, *classes: RunClass) -> list[tuple[str, str]]:
    return [(row.uid, row.run_class) for row in queries.runs(context, class_=classes or None)]


def test_an_undo_gives_back_what_runs_observed_and_a_redo_takes_it_again(tmp_path: Path) -> None:
    context = taught_world(tmp_path)
    taught = figures_of(context)
    assert belief_in_a(context) == (5, 1, 2)
    undo(context, "trial-1")
    undo(context, "trial-2")
    assert belief_in_a(context) == (9, 1, 6)
    plain = at_one_time(tmp_path / "plain.db")
    import_files(plain, [tmp_path / "runs.jsonl"])
    plain_figures, again = figures_of(plain), figures_of(context)
    assert {name for name, one in again.items() if one != plain_figures[name]} <= {"overview"}
    redo(context, "trial-2")
    redo(context, "trial-1")
    assert figures_of(context) == taught
    assert is_clean(context)


def belief_in_a(context: Context) -> tuple[float, float, int]:
    one = next(one for one in queries.posteriors(context) if one.arm == A)
    return one.alpha, one.beta, one.pulls


@pytest.mark.parametrize("before", [True, False])
def test_lists_show_runs_of_trials_by_their_class_alone(tmp_path: Path, before: bool) -> None:
    context = taught_world(tmp_path, before=before)
    usual = [("r5", "imported"), ("r4", "imported")]
    ours = [(f"r{at}", "trial") for at in (3, 2, 1, 0)]
    assert rows_of_class(context) == rows_of_class(context, "imported") == usual
    assert rows_of_class(context, "trial") == ours
    assert rows_of_class(context, "imported", "trial") == usual + ours
    page = queries.listed_runs(context, class_=("trial", "imported"), limit=3)
    assert [row.uid for row in page.rows] == ["r5", "r4", "r3"]
    assert queries.run(context, "r0").facts.run_class == "trial"
    with pytest.raises(NotApplicable, match="of a trial: it teaches nothing"):
        reward(context, A, 1, run="r0")


def test_facts_and_runs_survive_an_export_an_erasure_and_a_compaction(tmp_path: Path) -> None:
    context = taught_world(tmp_path)
    before = figures_of(context)
    erase(context, session=READ[0])
    erase(context, session=PLANNED[0])
    assert figures_of(context) == before
    assert READ[0] not in str(stored_trials(context))
    compact_until(context, START_MS + 100 * HOUR_MS)
    assert rows_of_class(context, "trial") == [(f"r{at}", "trial") for at in (3, 2, 1, 0)]
    assert is_clean(context)
    export_file(context, tmp_path / "all.jsonl")
    copy = at_one_time(tmp_path / "copy.db")
    import_files(copy, [tmp_path / "all.jsonl"])
    assert stored_trials(copy) == stored_trials(context)
    assert len(rows_of_class(copy, "trial")) == 3, "a plan finds no run whose session was erased"
    undo(copy, "import-1")
    assert stored_trials(copy) == []
    assert is_clean(copy)


@pytest.mark.parametrize("is_plan_first", [True, False])
def test_a_reading_is_of_its_plan_in_any_order_and_without_one_of_none(
    tmp_path: Path, is_plan_first: bool
) -> None:
    context = at_one_time(tmp_path / "a.db")
    both = [plan_line(), reading_line(*READ, of="elsewhere/p1")]
    for number, line in enumerate(both if is_plan_first else both[::-1]):
        import_files(context, [lines_file(tmp_path / f"{number}.jsonl", line)])
        alone = [one.planned for one in trials(context)]
        assert alone == [is_plan_first or number == 1]
    assert [(one.trial, one.n_cells) for one in trials(context)] == [(f"trial-{2 - is_plan_first}", 4)]
    undo(context, f"import-{2 - is_plan_first}")
    assert trials(context) == ()


def stored_trials(context: Context) -> list[object]:
    with context.reading() as snapshot:
        return [one.content for one in trial_facts(snapshot)]
