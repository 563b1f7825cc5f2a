"""Savings without assigned sessions: the same bits as without an assignment, except the sentence about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.doors.verbs import Methods
from core.flows import queries
from core.flows.compact import compact
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, record_all
from core.flows.offers import offer
from core.flows.select import select
from core.flows.settings import change
from core.maths.statistics.savings import Savings
from core.records.arm import Arm
from core.records.experiment import ExperimentLine, ExperimentPlan
from core.records.offer import SelectionOptions
from core.records.run import Usage
from core.records.selection import Selection
from core.store.experiments import add_experiment
from tests.worlds import IN_PARTS, START_MS, a_run, chosen_among, context_at

ARMS: Final = [Arm(key=f"tool:other:{name}", token_cost=10) for name in "abc"]
A: Final = ARMS[0].key
HOUR_MS: Final = 3_600_000
Kind = Literal["run", "offer", "follow-up", "fallback", "late", "lost"]
KINDS: Final[tuple[Kind, ...]] = ("run", "offer", "follow-up", "fallback", "late", "lost")
MODELS: Final = ("large", "small")
replace_run: Final = msgspec.structs.replace
ACTS: Final = st.lists(
    st.tuples(st.booleans(), st.sampled_from(KINDS), st.integers(0, 3)), min_size=20, max_size=60
)
_OWN: Final = frozenset({"assigned_runs", "assigned_share"})


@dataclass
class World:
    """A learner whose clock and dice each act sets by its own number."""

    context: Context
    now_ms: int = START_MS
    seed: int = 1

    @classmethod
    def at(cls, path: Path, *, holds: bool = False) -> World:
        world = cls(context_at(path))
        world.context = replace(world.context, clock=lambda: world.now_ms, entropy=lambda: world.seed)
        change(world.context, "baseline_rate", 0.4)
        change(world.context, "sticky", "session" if holds else "run")
        change(world.context, "prices", {name: {"input": 3, "output": 15} for name in MODELS})
        return world

    def act(self, number: int, kind: Kind, session: str) -> None:
        """Do one thing in a session: what an experiment assigned, and what it did not, look alike."""
        self.now_ms, self.seed = START_MS + number * HOUR_MS // 2, number + 1
        if kind == "late":
            self.now_ms += 30 * HOUR_MS
        if kind == "offer":
            offer(self.context, ARMS, SelectionOptions(k=2), session=session)
            return
        chosen = select(self.context, ARMS, session=session)
        if kind != "lost":
            self.record(number, kind, session, chosen)

    def record(self, number: int, kind: Kind, session: str, chosen: Selection) -> None:
        dice = np.random.default_rng(number)
        usage = Usage(input=int(dice.integers(100, 9_000)), output=int(dice.integers(1, 900)))
        run = replace_run(
            chosen_among(f"run-{number}", chosen, ARMS),
            session=session,
            ended_at_ms=self.now_ms,
            usage=None if number % 11 == 0 else usage,
            model=MODELS[number % 2],
            status="error" if number % 7 == 0 else "completed",
            duration_ms=int(dice.integers(1, 9_000)),
            achieved=float(dice.random() < 0.7),
        )
        if kind in {"follow-up", "fallback"}:
            of = "imported" if kind == "follow-up" else "fallback"
            run = replace_run(run, selection=None, run_class=of)
        record(self.context, run)

    def start(self, share: float = 0.5) -> None:
        plan = ExperimentPlan(
            arm=A, metric="tokens", n_planned=100, ends_ms=START_MS + 10_000 * HOUR_MS, share=share
        )
        line = ExperimentLine(id="own", form="start", plan=plan)
        self.context.write("settings", lambda txn: add_experiment(txn, line, txn.own, secret="ab" * 32))


def exact(value: object) -> object:
    """Return a value as plain data to twelve digits, without the figures about assigned runs.

    Sums over strata of which some have only assigned runs are added up in other steps, so their last bits differ.
    """
    if isinstance(value, np.ndarray):
        return [exact(one) for one in value.tolist()]
    if isinstance(value, float):
        return f"{value:.12g}"
    if is_dataclass(value):
        return {one.name: exact(getattr(value, one.name)) for one in fields(value) if one.name not in _OWN}
    if isinstance(value, msgspec.Struct):
        return exact(msgspec.structs.asdict(value))
    if isinstance(value, Mapping):
        return {str(name): exact(one) for name, one in value.items() if name not in _OWN}
    return [exact(one) for one in value] if isinstance(value, (tuple, list)) else value


def of_saving(context: Context) -> dict[str, object]:
    """Return all that doors say of savings."""
    saved: Savings = queries.savings(context)
    first = queries.overview(context)
    compared = (first.savings, first.money)
    day = saved.over_time.saved_percent
    return {
        "savings": exact(saved),
        "overview": exact(compared),
        "days": dict.fromkeys(f"{one:.12g}" for one in day[~np.isnan(day)].tolist()),
        "status": exact(queries.status(context).baseline),
        "document": exact(Methods.savings.plain(context, saved)),
        "facts": [one for one in saved.facts if one[0] != "experiments"],
    }


@given(acts=ACTS, share=st.sampled_from((0.1, 0.5, 0.9)), holds=st.booleans(), compacts=st.booleans())
@settings(max_examples=25, deadline=None)
def test_savings_are_those_of_the_learner_without_assigned_sessions(
    tmp_path_factory: pytest.TempPathFactory,
    acts: list[tuple[bool, Kind, int]],
    share: float,
    holds: bool,
    compacts: bool,
) -> None:
    folder = tmp_path_factory.mktemp("assigned")
    mixed, plain = (World.at(folder / f"{name}.db", holds=holds) for name in ("mixed", "plain"))
    for world in (mixed, plain):
        for number in range(4):
            world.act(number, "run", f"own-{number}")  # known before the start: no experiment assigns them
    mixed.start(share)
    begun = set[int]()
    for number, (is_assigned, kind, session) in enumerate(acts, 4):
        first = kind if not is_assigned or session in begun else "run"  # which assigns it
        mixed.act(number, first, f"{'assigned' if is_assigned else 'own'}-{session}")
        begun |= {session} if is_assigned else set()
        if not is_assigned:
            plain.act(number, kind, f"own-{session}")
    assert of_saving(mixed.context) == of_saving(plain.context)
    if compacts:
        for world in (mixed, plain):
            world.now_ms = START_MS + 10_000 * HOUR_MS
            compact(world.context, keep_days=30)
        assert of_saving(mixed.context) == of_saving(plain.context)
    assert queries.verify(mixed.context).clean


def mixed_at(path: Path) -> World:
    """Return a world with assigned sessions: each has all kinds of acts, follow-up runs and a late one."""
    world = World.at(path)
    for number in range(12):
        world.act(number, "run", f"own-{number % 6}")
    world.start()
    for number in range(12, 60):
        kind = KINDS[number % len(KINDS)] if number >= 18 else "run"
        world.act(number, kind, f"assigned-{number % 6}")
    return world


@pytest.mark.parametrize("pace", [None, IN_PARTS])
def test_a_file_of_another_learner_leaves_its_assigned_sessions_out(tmp_path: Path, pace: Any) -> None:  # noqa: ANN401
    world = mixed_at(tmp_path / "a.db")
    n_assigned = queries.savings(world.context).assigned_runs
    assert n_assigned == 48 - 14, "two of six kinds of acts make no run"
    export_file(world.context, tmp_path / "all.jsonl")
    other = context_at(tmp_path / "b.db")
    other = other if pace is None else replace(other, pace=pace)
    answer = import_files(other, [tmp_path / "all.jsonl"])
    for step in (lambda: None, lambda: undo(other, answer.id or ""), lambda: redo(other, answer.id or "")):
        step()
        assert queries.verify(other).clean
    assert queries.savings(other).assigned_runs == n_assigned


def test_runs_that_came_before_their_assignment_are_left_out_and_come_back(tmp_path: Path) -> None:
    world = mixed_at(tmp_path / "a.db")
    export_file(world.context, tmp_path / "all.jsonl")
    lines = (tmp_path / "all.jsonl").read_text().splitlines(keepends=True)
    facts = [one for one in lines if '"kind":"experiment"' in one or '"kind":"assignment"' in one]
    (tmp_path / "facts.jsonl").write_text("".join(facts))
    other = World.at(tmp_path / "b.db")
    other.now_ms = world.now_ms
    runs = [replace_run(a_run(f"r{number}"), session=f"assigned-{number % 3}") for number in range(9)]
    record_all(other.context, [*runs, replace_run(a_run("mine"), session="mine")])
    answer = import_files(other.context, [tmp_path / "facts.jsonl"])
    left = queries.savings(other.context)
    assert (left.assigned_runs, left.assigned_share, left.left_out.imported) == (9, 0.9, 1)
    record(other.context, replace_run(a_run("later", run_class="selected"), session="assigned-1"))
    assert queries.savings(other.context).assigned_runs == 10
    erase(other.context, session="assigned-1")
    assert queries.savings(other.context).assigned_runs == 10
    assert queries.verify(other.context).clean
    undo(other.context, answer.id or "")
    assert queries.savings(other.context).assigned_runs == 0
    assert queries.verify(other.context).clean
    assert queries.savings(other.context).left_out.imported == 10
