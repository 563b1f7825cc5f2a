"""Outcomes of runs: after any history they are what a plain fold of its acts gives, and exports have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace as with_fields

from core.errors import Conflict, InvalidBatch, InvalidInput, InvalidSetting, UnknownRun
from core.flows import queries
from core.flows.batch import reward_run
from core.flows.compact import compact
from core.flows.context import Context, ImportPace
from core.flows.corrections import redo, undo
from core.flows.episode import declare, record_step
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward
from core.flows.outcome import outcome, outcomes
from core.flows.settings import change
from core.formats.reward_table import read_outcomes
from core.records.achieved import OUTCOME_SOURCES, OutcomeOrder, OutcomeSource
from core.records.episode import Scale
from core.records.evaluation import EVALUATION_OUTCOMES, EvaluationOutcome
from core.settings import Located
from tests.store.test_every_engine import context_of
from tests.worlds import (
    HOUR_MS,
    IN_PARTS,
    START_MS,
    a_run,
    acting,
    context_at,
    is_clean,
    lines_file,
    run_line,
)

A = "tool:other:a"
RUNS = ("r0", "r1", "r2")
VALUES = (0, 0.25, 0.9, 0.95, 1)
DAYS_LATER_MS = START_MS + 400 * 24 * HOUR_MS


@dataclass
class Act:
    """An act of a history, by its id: a source of outcomes, the run, who acted, and the value."""

    id: str
    source: OutcomeSource | str
    run: str = ""
    who: str = ""
    value: float | str | Scale = 0.0
    undone: bool = False


class Fold:
    """All acts of a history; each answer folds them from the beginning."""

    def __init__(self) -> None:
        self.acts: list[Act] = []
        self.order: Sequence[OutcomeSource] = OUTCOME_SOURCES
        self.stated: dict[str, float] = {}

    def of(self, run: str) -> tuple[float | None, OutcomeSource | None]:
        known: Mapping[OutcomeSource, list[float]] = {
            "program": self._active("program", run)[-1:],
            "environment": self._paid(run),
            "person": self._latest("person", run),
            "grader": self._latest("grader", run),
            "thumb": self._latest("thumb", run),
        }
        for source in self.order:
            if known[source]:
                return math.fsum(known[source]) / len(known[source]), source
        return None, None

    def _active(self, source: str, run: str) -> list[float]:
        return [
            float(str(one.value))
            for one in self.acts
            if one.source == source and one.run == run and not one.undone
        ]

    def _latest(self, source: str, run: str) -> list[float]:
        active = [one for one in self.acts if one.source == source and one.run == run and not one.undone]
        return list({one.who: float(str(one.value)) for one in active}.values())

    def _paid(self, run: str) -> list[float]:
        scales = [one.value for one in self.acts if one.source == "scale" and not one.undone]
        payments = [one.value for one in self.acts if one.source == "step" and one.run == run]
        if not payments:
            return [float(self.stated[run] > 0.9)] if run in self.stated else []
        total = sum(map(Decimal, map(str, payments)))
        scale = scales[-1] if scales else None
        if not isinstance(scale, Scale):
            return [float(total > Decimal("0.9"))]
        if not scale.lo <= float(total) <= scale.hi:
            return [float(self.stated[run] > 0.9)] if run in self.stated else []
        return [(float(total) - scale.lo) / (scale.hi - scale.lo)]


class History:
    """A history that is drawn, act by act, in a learner and in the fold."""

    def __init__(self, context: Context, seed: int) -> None:
        self.context, self.dice, self.fold = context, Random(seed), Fold()
        self.n_steps = dict.fromkeys(RUNS, 0)
        for uid in RUNS:
            stated = self.dice.choice([None, 0.5, 1.0])
            value = self.dice.choice([None, *VALUES])
            record(context, with_fields(a_run(uid), reward=stated, achieved=value))
            if stated is not None:
                self.fold.stated[uid] = stated
            if value is not None:
                self._note(f"outcome-{len(self.fold.acts) + 1}", "program", uid, value=float(value))

    def _note(self, act: str | None, source: str, run: str, who: str = "", value: object = 0.0) -> None:
        assert act is not None
        self.fold.acts.append(Act(id=act, source=source, run=run, who=who, value=value))  # type: ignore[arg-type]

    def step(self) -> None:
        """Do one act of any kind."""
        acts: tuple[Callable[[str, float], None], ...] = (
            self._state,
            self._state_many,
            self._judge,
            self._thumb,
            self._pay,
            self._declare,
            self._undo_or_redo,
            self._reorder,
            self._disturb,
        )
        self.dice.choice(acts)(self.dice.choice(RUNS), float(self.dice.choice(VALUES)))

    def _state(self, run: str, value: float) -> None:
        assert outcome(self.context, run, value, preview=True).id is None
        self._note(outcome(self.context, run, value).id, "program", run, value=value)

    def _state_many(self, run: str, value: float) -> None:
        rows = [OutcomeOrder(run=run, value=value), OutcomeOrder(run="r0", value=1 - value)]
        for row, one in zip(rows, outcomes(self.context, rows).outcomes, strict=True):
            self._note(one.id, "program", row.run, value=row.value)

    def _judge(self, run: str, value: float) -> None:
        word: EvaluationOutcome = self.dice.choice(EVALUATION_OUTCOMES)
        who = self.dice.choice(("mara", "kim", "judge"))
        model = who if who == "judge" else None
        answer = evaluate(
            self.context,
            run,
            word,
            score=value,
            model=model,
            rater=None if model else who,
        )
        source = "grader" if model else "person"
        self._note(answer.id, source, run, who, value if word == "success" else 0.0)

    def _thumb(self, run: str, value: float) -> None:
        who = self.dice.choice(("jo", "ann"))
        answer = reward_run(
            acting(self.context, name=who), run, value, rule=self.dice.choice(("equal", "referenced"))
        )
        self._note(answer.id, "thumb", run, who, value)

    def _pay(self, run: str, value: float) -> None:
        self.n_steps[run] += 1
        record_step(self.context, f"sums/{run}", environment="sums", name="a", reward=value, run=run)
        self._note("", "step", run, value=value)

    def _declare(self, run: str, value: float) -> None:
        if not any(self.n_steps.values()):
            return
        scale = Scale(lo=-value, hi=1 + 2 * value)
        act = declare(self.context, "sums", lo=scale.lo, hi=scale.hi).id
        if act is not None:  # another scale than the one in force
            self._note(act, "scale", run, value=scale)

    def _undo_or_redo(self, run: str, value: float) -> None:
        acts = [one for one in self.fold.acts if one.id]
        if acts:
            act = self.dice.choice(acts)
            (redo if act.undone else undo)(self.context, act.id)
            act.undone = not act.undone

    def _reorder(self, run: str, value: float) -> None:
        order = self.dice.sample(OUTCOME_SOURCES, self.dice.randint(1, 5))
        change(self.context, "outcome_from", order)
        self.fold.order = order

    def _disturb(self, run: str, value: float) -> None:
        """Do what says nothing of the full run."""
        reward(self.context, A, value, run=run)
        evaluate(self.context, run, "success", score=value, arm=A, rater="mara")


def shown(context: Context) -> dict[str, tuple[float | None, OutcomeSource | None]]:
    return {row.uid: (row.achieved, row.achieved_by) for row in queries.runs(context)}


def exported(context: Context, file: Path) -> list[dict[str, object]]:
    """The lines of an export without what counts in one database alone: revisions, and the learner's own line."""
    export_file(context, file)
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    return [{**line, "revision": 0} for line in lines if line["kind"] not in {"learner"}]


@pytest.mark.parametrize("seed", range(6))
def test_outcomes_are_the_fold_of_their_facts(context: Context, tmp_path: Path, seed: int) -> None:
    history = History(context, seed)
    copy, mark = dict[str, tuple[float | None, OutcomeSource | None]](), "0"
    for _ in range(40):
        history.step()
        expected = {run: history.fold.of(run) for run in RUNS}
        assert shown(context) == expected
        for row in queries.runs(context, since=mark):
            copy[row.uid], mark = (row.achieved, row.achieved_by), str(row.mark)
        assert copy == expected, "a list of what changed has every changed outcome"
    for run, (value, source) in expected.items():
        facts = queries.run(context, run).facts
        assert (facts.achieved, facts.achieved_by) == (value, source)
    assert is_clean(context)
    lines = exported(context, tmp_path / "a.jsonl")
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "a.jsonl"])
    assert shown(other) == expected
    again = exported(other, tmp_path / "b.jsonl")
    assert sorted(again, key=repr) == sorted(lines, key=repr)
    third = context_at(tmp_path / "c.db")
    import_files(third, [tmp_path / "b.jsonl"])
    assert exported(third, tmp_path / "c.jsonl") == again
    assert is_clean(other)
    late = replace(other, clock=lambda: DAYS_LATER_MS)
    left = {
        run for run, (value, _) in expected.items() if value is not None and run not in history.fold.stated
    }
    compact(late, keep_days=1)
    assert {run: one for run, one in shown(late).items() if run in left} == {
        run: expected[run] for run in left
    }
    assert is_clean(other)


@pytest.mark.own_engines
def test_each_source_is_shown_in_its_turn_and_goes_with_its_act(place: Located, tmp_path: Path) -> None:
    """Five sources differ about one run, on each engine; a file brings its episode and the scale."""
    context = context_of(place)
    record_all(context, [a_run("r"), a_run("other")])
    paid = [{"number": 0, "reward": 1}]
    file = lines_file(
        tmp_path / "late.jsonl",
        {"kind": "episode", "uid": "e", "environment": "sums", "runs": ["r"], "steps": paid},
        {"kind": "environment", "id": "s", "environment": "sums", "scale": {"lo": 0, "hi": 4}},
    )
    acts: dict[OutcomeSource, tuple[float, str | None]] = {
        "program": (0, outcome(context, "r", 0).id),
        "environment": (0.25, import_files(context, [file]).id),
        "person": (0.75, evaluate(context, "r", "success", score=0.75, rater="mara").id),
        "grader": (0.5, evaluate(context, "r", "success", score=0.5, model="judge", rubric="v1").id),
        "thumb": (1, reward_run(context, "r", 1, rule="equal").id),
    }
    for source, (value, _) in acts.items():
        act = change(context, "outcome_from", [source]).id
        assert shown(context) == {"r": (value, source), "other": (None, None)}
        undo(context, act)
    for source, (value, act) in acts.items():
        assert shown(context)["r"] == (value, source)
        undo(context, act)
    assert shown(context)["r"] == (None, None)
    assert is_clean(context)
    for source, (value, act) in reversed(acts.items()):
        redo(context, act)
        assert shown(context)["r"] == (value, source)
    assert is_clean(context)
    context.store.close()


def test_a_filter_by_outcome_gives_the_runs_with_its_words(context: Context) -> None:
    for number in range(30):
        value = (None, 0.0, 0.9, 0.95, 1.0)[number % 5]
        record(context, with_fields(a_run(f"r{number}", at_ms=START_MS + number * HOUR_MS), achieved=value))
    words: dict[str, set[float | None]] = {"unknown": {None}, "unsolved": {0.0, 0.9}, "solved": {0.95, 1.0}}
    for word, values in words.items():
        rows = queries.runs(context, achieved=word)  # type: ignore[arg-type]
        assert len(rows) == 6 * len(values)
        assert {row.achieved for row in rows} == values
        page = queries.listed_runs(context, limit=2, achieved=word)  # type: ignore[arg-type]
        assert page.onward is not None
        more = queries.listed_runs(context, cursor=page.onward, limit=100, achieved=word)  # type: ignore[arg-type]
        assert [*page.rows, *more.rows] == list(rows)
    assert len(queries.runs(context, achieved=["solved", "unknown"])) == 18
    with pytest.raises(InvalidInput, match="achieved must be one of solved, unsolved, unknown"):
        queries.runs(context, achieved="done")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.01, 1.01, True, "1", None])
def test_what_is_no_number_from_0_to_1_is_refused_by_every_way(context: Context, value: object) -> None:
    record(context, a_run("r"))
    ways: list[Callable[[], object]] = [
        lambda: outcome(context, "r", value),  # type: ignore[arg-type]
        lambda: OutcomeOrder(run="r", value=value),  # type: ignore[arg-type]
    ]
    if value is not None:
        ways.append(lambda: with_fields(a_run("r"), achieved=value))
    for way in ways:
        with pytest.raises(InvalidInput, match="An outcome must be a number from 0 to 1, got"):
            way()
    assert shown(context) == {"r": (None, None)}


def test_a_repeat_of_a_run_states_its_outcome_once_and_another_is_a_conflict(context: Context) -> None:
    run = with_fields(a_run("r"), achieved=0.5)
    record(context, run)
    outcome(context, "r", 1)
    record(context, run)
    assert shown(context) == {"r": (1.0, "program")}
    with pytest.raises(Conflict, match="recorded with another outcome than 0"):
        record(context, with_fields(run, achieved=0))
    record(context, with_fields(run, achieved=0, rank=1, calls=(*run.calls, *run.calls)))
    assert shown(context) == {"r": (0.0, "program")}


def test_a_key_counts_once_and_a_batch_is_one_act(context: Context, tmp_path: Path) -> None:
    for uid in RUNS:
        record(context, a_run(uid))
    first = outcome(context, "r0", 0.5, key="k")
    assert outcome(context, "r0", 0.5, key="k") == first
    with pytest.raises(Conflict, match="'k' already belongs to outcome-1"):
        outcome(context, "r0", 1, key="k")
    other = context_at(tmp_path / "other.db")
    export_file(context, tmp_path / "a.jsonl")
    import_files(other, [tmp_path / "a.jsonl"])
    assert outcome(other, "r0", 0.5, key="k") == first, "its act can be undone there, too"
    rows = read_outcomes(b"run,value\nr0,1\nr1,0\n")
    batch = outcomes(context, rows, key="table")
    assert outcomes(context, rows, key="table") == batch
    assert [one.before for one in batch.outcomes] == [0.5, None]
    assert shown(context) == {"r0": (1.0, "program"), "r1": (0.0, "program"), "r2": (None, None)}
    undo(context, batch.id)
    assert shown(context) == {"r0": (0.5, "program"), "r1": (None, None), "r2": (None, None)}
    with pytest.raises(InvalidBatch, match="line 2: There is no run 'r9'"):
        outcomes(context, [OutcomeOrder(run="r0", value=1), OutcomeOrder(run="r9", value=1)])
    with pytest.raises(UnknownRun):
        outcome(context, "r9", 1)
    record(context, a_run("old"))
    compact(replace(context, clock=lambda: DAYS_LATER_MS), keep_days=1)
    with pytest.raises(UnknownRun, match="'old' was deleted by compact"):
        outcome(context, "old", 1)
    assert shown(context) == {"r0": (0.5, "program"), "r1": (None, None)}, "runs with outcomes stay"
    with pytest.raises(InvalidBatch, match="line 2: An outcome must be a number from 0 to 1, got nan"):
        read_outcomes(b"r0;1\nr1;nan\n")
    with pytest.raises(InvalidSetting, match="outcome_from must name one or more of program"):
        change(context, "outcome_from", ["person", "person"])


@pytest.mark.parametrize("pace", [ImportPace(), IN_PARTS])
def test_a_file_states_outcomes_with_its_runs_and_before_them(tmp_path: Path, pace: ImportPace) -> None:
    context = replace(context_at(tmp_path / "a.db"), pace=pace)
    early = lines_file(
        tmp_path / "early.jsonl", {"kind": "outcome", "id": "o1", "run": "late", "value": 0.25}
    )
    import_files(context, [early])
    file = lines_file(tmp_path / "runs.jsonl", run_line("late"), run_line("own", achieved=1))
    act = import_files(context, [file]).id
    assert import_files(context, [file]).id is None
    assert shown(context) == {"late": (0.25, "program"), "own": (1.0, "program")}
    undo(context, act)
    redo(context, act)
    assert shown(context) == {"late": (0.25, "program"), "own": (1.0, "program")}
    assert is_clean(context)
