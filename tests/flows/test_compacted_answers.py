"""Answers before and after a compaction: which are the same, which change, and that those name the deleted runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from core.flows import queries
from core.flows.compact import compact
from core.flows.context import Context
from core.flows.corrections import note, redo, reset, undo
from core.flows.evaluate import evaluate
from core.flows.learn import record, record_all, reward
from core.flows.select import select
from core.records.run_query import RunSide, View
from core.records.times import DAY_MS
from tests.worlds import HOUR_MS, START_MS, a_run, context_at, tools

ARMS = ("a", "b", "c", "d")
NOW_MS = START_MS + 20 * DAY_MS
N_RUNS = 200

Ask = Callable[[Context], object]


@pytest.fixture
def context(context: Context) -> Context:
    """Half of the runs before a reset; some have a reward, an evaluation and a note."""
    runs = [
        msgspec.structs.replace(
            a_run(
                f"r{number}",
                ARMS,
                ARMS[: number % 3],
                at_ms=START_MS + number * 20 * DAY_MS // N_RUNS,
                tokens=1_000 + 37 * (number * number % 91) + (400 if number // 4 % 2 else 0),
                run_class="baseline" if number // 4 % 2 else "selected",
                model=("large", "small")[number // 4 % 3 % 2],
            ),
            session=f"s{number // 4}",
        )
        for number in range(N_RUNS)
    ]
    record_all(context, runs[:50])
    reset(context, arms=["tool:other:a"], target="prior")
    record_all(context, runs[50:])
    for number in (3, 40, 180):
        reward(context, "tool:other:b", 0.5, run=f"r{number}")
    evaluate(context, "r7", "success", score=0.9, arm="tool:other:c")
    note(context, "tool:other:a", "half right")
    return replace(context, clock=lambda: NOW_MS)


def believed(context: Context, view: View) -> object:
    columns = queries.belief(context, view).columns
    return columns.keys, columns.alpha.tolist(), columns.beta.tolist(), columns.pulls.tolist()


def rounded(value: object) -> str:
    """What a value says, in floats of ten digits: sums in another order differ in the last ones."""
    return re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.10g}", repr(value))


SAME: Mapping[str, Ask] = {
    "posteriors": queries.posteriors,
    **{
        f"beliefs as of day {day}": lambda one, day=day: believed(  # type: ignore[misc]
            one, View(until_ms=(START_MS + day * DAY_MS) // HOUR_MS * HOUR_MS)
        )
        for day in (2, 9, 15, 19)
    },
    "arms": queries.arms,
    "judgements": queries.judgements,
    "confidence": queries.confidence,
    "chances": queries.inclusion,
    "series": lambda one: [queries.timeseries(one, name, "1d") for name in queries.METRICS],
    "savings": lambda one: rounded(queries.savings(one)),
    "savings of a model": lambda one: rounded(queries.savings(one, View(models=("large",)))),
    "savings of a span": lambda one: rounded(queries.savings(one, View(since_ms=START_MS + 7 * DAY_MS))),
    "counts": lambda one: (
        queries.status(one).runs,
        queries.status(one).observed,
        queries.status(one).tokens,
    ),
    "span": lambda one: (queries.status(one).first_run, queries.status(one).last_run),
    "ledger": lambda one: [replaced(row) for row in queries.rewards(one)],
    "evaluations": lambda one: [replaced(row) for row in queries.evaluations(one)],
    "resets": queries.resets,
    "notes": lambda one: queries.notes(one, "tool:other:a"),
    "path of an arm": lambda one: repr(queries.arm_path(one, "tool:other:a")),
    "history": lambda one: [row.act for row in queries.changes(one, 1_000) if row.action != "compact"],
    "alarms": queries.alarms,
}
"""Answers from sums, from the ledger, and from acts."""
OF_RUNS: Mapping[str, Ask] = {
    "runs": lambda one: [row.uid for row in queries.runs(one, limit=1_000)],
    "sessions": lambda one: [row.session for row in queries.sessions(one, limit=1_000)],
    "sides": lambda one: queries.compare_sides(one, RunSide(), RunSide(model=("small",))).a.n_runs,
    "runs of an arm": lambda one: len(queries.arm_runs(one, "tool:other:d", limit=1_000).rows),
}
"""Answers from single runs: they count those that are left."""


def replaced(row: msgspec.Struct) -> object:
    """A row without its position in the chain."""
    return msgspec.structs.replace(row, mark=None)


def answers_to(context: Context, wanted: Mapping[str, Ask]) -> dict[str, object]:
    return {name: ask(context) for name, ask in wanted.items()}


def test_answers_from_sums_are_the_same_and_others_count_what_is_left(context: Context) -> None:
    same, of_runs = answers_to(context, SAME), answers_to(context, OF_RUNS)
    assert queries.status(context).compacted is None
    answer = compact(context, keep_days=10)
    assert (answer.runs, answer.left) == (97, 3)
    assert {
        name: one for name, one in answers_to(context, SAME).items() if repr(one) != repr(same[name])
    } == {}
    after = answers_to(context, OF_RUNS)
    assert {name for name in after if after[name] == of_runs[name]} == set()
    assert len(queries.runs(context, limit=1_000)) == N_RUNS - 97
    deleted = queries.status(context).compacted
    assert deleted is not None
    assert (deleted.runs, deleted) == (97, queries.frame(context).compacted)
    assert deleted.words.startswith("compact deleted 97 old")
    assert queries.verify(context).clean


def test_selections_after_the_deleted_runs_are_replayed(tmp_path: Path) -> None:
    """Also those that were made before the compaction, and across a reset that is undone."""
    context = context_at(tmp_path / "a.db")
    for number in range(30):
        if number == 12:
            again = reset(context, arms=["tool:other:a"], target="prior")
        chosen = select(context, tools(*ARMS).arms)
        made = a_run(f"r{number}", ARMS, "ab"[: number % 3], at_ms=START_MS + number * DAY_MS)
        record(context, msgspec.structs.replace(made, selection=chosen, run_class=chosen.run_class))
    assert queries.verify(context).replayed == 30
    later = replace(context, clock=lambda: START_MS + 30 * DAY_MS)
    assert compact(later, keep_days=10).runs == 20
    found = queries.verify(context)
    assert (found.clean, found.replayed, found.not_replayed) == (True, 10, 0)
    undo(context, again.id)
    assert queries.verify(context).replayed == 0
    redo(context, again.id)
    assert queries.verify(context).replayed == 10
