"""Since: loads of what changed, under any acts, add up to all there is; and never to a part of another database."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.errors import ArmscopeError, InvalidInput
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, repair, reset, undo
from core.flows.episode import record_step
from core.flows.erase import erase
from core.flows.evaluate import evaluate
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.settings import change
from core.records.arm import Arm, Posterior
from core.records.arm_summary import ArmSummary, JudgedArm
from core.records.audit import AuditEntry
from core.records.episode_page import EpisodeFilter
from core.records.evaluation_page import Evaluation, EvaluationFilter
from core.records.judgement import JudgedPosterior
from core.records.observation import Observation
from core.records.run import Call, Inventory, Run
from core.records.run_page import RunRow
from core.records.run_query import View
from core.records.times import iso
from tests.worlds import START_MS, context_at, lines_file, run_line

KEYS = ("tool:other:a", "tool:other:b")
MANY = 10_000
Row = TypeVar("Row", Observation, Evaluation, AuditEntry)
UIDS = [f"r{number}" for number in range(5)]

KINDS = ("record", "import", "reward", "undo", "redo", "erase a run", "erase a session", "load")

LEDGER_KINDS = (
    "record",
    "import",
    "reward",
    "correct",
    "evaluate",
    "undo",
    "redo",
    "erase a run",
    "erase mara",
)

ARM_KINDS = (*LEDGER_KINDS, "import arms", "reset", "repair", "prior", "undo the latest")


def run_of(uid: str, *, rank: int, model: str) -> Run:
    return Run(
        uid=uid,
        inventory=Inventory(kind="declared", arms=tuple(Arm(key=key) for key in KEYS)),
        ended_at_ms=START_MS + int(uid[1:]) * 9_000_000,
        session=f"s{int(uid[1:]) % 2}",
        model=model,
        calls=tuple(Call(name="a") for _ in range(1 + rank)),
        rank=rank,
    )


class Loads:
    """A copy of a list of runs that is kept up by what changed."""

    def __init__(self, context: Context, **query: str) -> None:
        self._context = context
        self._query = query
        self._since: str | None = "0"
        self.rows: dict[str, RunRow] = {}

    def load(self, limit: int) -> None:
        while True:
            page = queries.runs(self._context, limit, since=self._since, **self._query)  # type: ignore[arg-type]
            for row in page:
                self._since = row.mark
                if row.state == "active":
                    self.rows[row.uid] = row
                else:
                    self.rows.pop(row.uid, None)
            if len(page) < limit:
                return

    @property
    def held(self) -> set[RunRow]:
        return {row._replace(mark=None) for row in self.rows.values()}

    @property
    def every(self) -> set[RunRow]:
        page = queries.runs(self._context, MANY, **self._query)  # type: ignore[arg-type]
        return {row._replace(mark=None) for row in page}


class World:
    """Acts on one learner; a refused one, such as an undo of nothing, changes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.context, self.numbers = folder, context_at(folder / "a.db"), count()
        self.acts: list[str | None] = []

    def do(self, kind: str, at: int) -> None:
        uid, act = UIDS[at % len(UIDS)], self.acts[at % len(self.acts)] if self.acts else None
        doing: dict[str, Callable[[], object]] = {
            "record": lambda: record(
                self.context, run_of(uid, rank=at % 3, model=("large", "small")[at % 2])
            ),
            "import": lambda: self.acts.append(self._import(at)),
            "reward": lambda: self.acts.append(reward(self.context, KEYS[at % 2], 0.5, run=uid).id),
            "undo": lambda: undo(self.context, act),
            "redo": lambda: redo(self.context, act),
            "erase a run": lambda: erase(self.context, run=uid),
            "erase a session": lambda: erase(self.context, session=f"s{at % 2}"),
        }
        with suppress(ArmscopeError):
            doing[kind]()

    def _import(self, at: int) -> str | None:
        lines = [
            run_line(one, ended_at_ms=START_MS, model=("large", "small")[at // 2 % 2], session="s1")
            for one in UIDS[at % 4 : at % 4 + 2]
        ]
        path = lines_file(self.folder / f"{next(self.numbers)}.jsonl", *lines)
        return import_files(self.context, [path]).id


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 99)), min_size=4, max_size=24))
def test_loads_of_what_changed_add_up_to_all_there_is(acts: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        copies = [
            Loads(world.context),
            Loads(world.context, model="large"),
            Loads(world.context, session="s1", class_="imported"),
        ]
        for kind, at in acts:
            if kind == "load":
                for one in copies:
                    one.load(1 + at % 3)
            else:
                world.do(kind, at)
        for one in copies:
            one.load(2)
            assert one.held == one.every
        world.context.store.close()


def recorded(folder: Path, n: int, *, model: str = "large") -> Context:
    context = context_at(folder / "a.db")
    for number in range(n):
        record(context, run_of(f"r{number}", rank=0, model=model))
    return context


def since(context: Context, place: object) -> list[str]:
    return [row.uid for row in queries.runs(context, MANY, since=place)]  # type: ignore[arg-type]


@pytest.mark.of_file
def test_a_mark_of_a_state_before_a_restore_is_refused(tmp_path: Path) -> None:
    context = recorded(tmp_path, 2)
    before = queries.runs(context, since=0)[-1].mark
    context.store.close()
    shutil.copytree(tmp_path, tmp_path / "backup")
    context = recorded(tmp_path, 4)
    lost = queries.runs(context, since=0)[-1].mark
    context.store.close()
    restored = context_at(tmp_path / "backup" / "a.db")
    for number in range(5, 9):
        record(restored, run_of(f"r{number}", rank=0, model="small"))
    assert since(restored, before) == ["r5", "r6", "r7", "r8"]
    with pytest.raises(InvalidInput, match="before a restore"):
        since(restored, lost)
    restored.store.close()


def test_a_place_is_a_head_too_and_a_number_alone_is_refused_with_what_to_send(tmp_path: Path) -> None:
    context = recorded(tmp_path, 2)
    head = queries.status(context).head
    revision = queries.status(context).revision
    record(context, run_of("r3", rank=0, model="large"))
    assert since(context, head) == ["r3"]
    with pytest.raises(InvalidInput) as refused:
        since(context, revision)
    (place,) = [word.rstrip(".") for word in refused.value.next_step.split() if ":" in word]
    assert since(context, place) == ["r3"]
    for wrong in (-1, "r3", "9:0", f"{head}/999", str(revision + 99)):
        with pytest.raises(InvalidInput):
            since(context, wrong)
    context.store.close()


def test_of_another_database_nothing_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = recorded(tmp_path, 2), recorded(tmp_path / "other", 4)
    for row in queries.runs(one, since=0):
        with pytest.raises(InvalidInput, match="another database"):
            since(other, row.mark)
    one.store.close()
    other.store.close()


class Judging(World):
    """The same with rewards and evaluations, by one person about few runs."""

    def do(self, kind: str, at: int) -> None:
        uid, arm, value = UIDS[at % len(UIDS)], KEYS[at // 5 % 2], at % 4 / 4
        doing: dict[str, Callable[[], object]] = {
            "correct": lambda: reward(self.context, arm, value, run=uid, correct=True).id,
            "evaluate": lambda: (
                evaluate(
                    self.context, uid, ("success", "failure")[at % 2], rater=("mara", "jo")[at // 3 % 2]
                ).id
            ),
        }
        if kind in doing:
            with suppress(ArmscopeError):
                self.acts.append(str(doing[kind]()))
        elif kind == "erase mara":
            with suppress(ArmscopeError):
                erase(self.context, rater="mara")
        else:
            super().do(kind, at)


def all_of(
    page: Callable[..., tuple[Row, ...]], since: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """Return what a list has from a mark on, and the mark of the last row."""
    rows: list[Row] = []
    while True:
        part = page(limit=limit, since=since)
        rows += part
        since = part[-1].mark if part else since
        if len(part) < limit:
            return rows, since


def plain_reward(row: Observation) -> Observation:
    return replace(row, mean_moved=0, epoch=0, mark=None)


def plain_evaluation(row: Evaluation) -> Evaluation:
    return replace(row, arms=0, mark=None)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.sampled_from((*LEDGER_KINDS, "load")), st.integers(0, 99)), min_size=6, max_size=24)
)
def test_loads_of_rewards_evaluations_and_changes_add_up_too(acts: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        world = Judging(Path(folder))
        context = world.context
        rewards: dict[int, Observation] = {}
        evaluations: dict[str, Evaluation] = {}
        changes: list[tuple[int, str]] = []
        marks: list[str | None] = ["0", "0", "0"]
        for kind, at in (*acts, ("load", 1)):
            if kind != "load":
                world.do(kind, at)
                continue
            more, marks[0] = all_of(partial(queries.rewards, context), marks[0], 1 + at % 3)
            rewards |= {row.row_no: row for row in more}
            judged, marks[1] = all_of(partial(queries.evaluations, context), marks[1], 1 + at % 3)
            evaluations |= {row.id: row for row in judged}
            entries, marks[2] = all_of(partial(queries.changes, context), marks[2], 1 + at % 3)
            changes += [(entry.revision, entry.action) for entry in entries]
        every = {row.row_no: plain_reward(row) for row in queries.rewards(context, limit=MANY)}
        assert {number: plain_reward(row) for number, row in rewards.items()} == every
        listed = queries.evaluations(context, EvaluationFilter(counting=False), limit=MANY)
        assert {row.id: plain_evaluation(row) for row in listed}.items() <= {
            number: plain_evaluation(row) for number, row in evaluations.items()
        }.items()
        left = evaluations.keys() - {row.id for row in listed}
        assert {evaluations[one].state for one in left} <= {"undone"}
        assert changes == [(one.revision, one.action) for one in reversed(queries.changes(context, MANY))]
        context.store.close()


def test_an_undone_import_takes_its_episodes_out_of_a_copy(context: Context, tmp_path: Path) -> None:
    record_step(context, "sums/1", environment="sums", reward=0.5, number=0)
    line: dict[str, object] = {
        "kind": "episode",
        "uid": "sums/2",
        "environment": "sums",
        "steps": [{"number": 0, "reward": 1.0}],
    }
    imported = import_files(context, [lines_file(tmp_path / "episodes.jsonl", line)])
    (first, second) = queries.episode_list(context, since=0).rows
    assert (first.uid, second.uid, second.state) == ("sums/1", "sums/2", "active")
    undo(context, imported.id)
    record_step(context, "sums/1", environment="sums", reward=0.5, number=1)
    after = queries.episode_list(context, since=second.mark).rows
    assert [(row.uid, row.state, row.n_steps) for row in after] == [
        ("sums/2", "undone", 1),
        ("sums/1", "active", 2),
    ]
    assert (
        queries.episode_list(context, EpisodeFilter(model="large"), since=second.mark).rows[0].uid == "sums/2"
    )
    with pytest.raises(InvalidInput, match="outcome"):
        queries.episode_list(context, EpisodeFilter(outcome="success"), since=0)
    context.store.close()


class Believing(Judging):
    """The same with everything that moves an arm: its belief, its prior, its cost, or whether it is listed."""

    def do(self, kind: str, at: int) -> None:
        arm = KEYS[at % 2]
        doing: dict[str, Callable[[], str | None]] = {
            "import arms": lambda: self._import_arms(at),
            "reset": lambda: reset(self.context, arms=[arm], target=("uniform", "prior")[at // 2 % 2]).id,
            "repair": lambda: repair(self.context, arms=[arm], since=str(iso(START_MS))).id,
            "prior": lambda: (
                change(
                    self.context,
                    "priors",
                    {"tool": {"alpha_micro": (1 + at % 3) * 1_000_000, "beta_micro": 2_000_000}},
                ).id
            ),
        }
        if kind == "undo the latest":
            with suppress(ArmscopeError):
                undo(self.context, self.acts[-1] if self.acts else None)
        elif kind in doing:
            with suppress(ArmscopeError):
                self.acts.append(doing[kind]())
        else:
            super().do(kind, at)

    def _import_arms(self, at: int) -> str | None:
        line: dict[str, object] = {"kind": "arm", "key": (*KEYS, "tool:other:c", "skill:pdf:main")[at % 4]}
        if at // 4 % 2:
            line["token_cost"] = 10 + at % 3
        if at // 8 % 2:
            line["prior"] = {"alpha_micro": (2 + at % 3) * 1_000_000, "beta_micro": 1_000_000}
        return import_files(self.context, [lines_file(self.folder / f"{next(self.numbers)}.jsonl", line)]).id


def belief(row: JudgedPosterior) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in Posterior.__struct_fields__)


def summary(row: JudgedArm) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in ArmSummary.__struct_fields__)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(ARM_KINDS), st.integers(0, 99), st.booleans()), min_size=6, max_size=16
    )
)
def test_loads_of_arms_and_beliefs_add_up_too(acts: list[tuple[str, int, bool]]) -> None:
    with TemporaryDirectory() as folder:
        world = Believing(Path(folder))
        context = world.context
        beliefs: dict[str, tuple[object, ...]] = {}
        arms: dict[str, tuple[object, ...]] = {}
        marks: list[str | None] = ["0", "0"]
        for kind, at, loads in (("record", 1, True), *acts, ("import arms", 5, True)):
            world.do(kind, at)
            if not loads:
                continue
            for one in queries.judged_posteriors(context, since=marks[0]):
                marks[0] = one.mark
                beliefs.pop(one.arm, None)
                if one.state == "listed":
                    beliefs[one.arm] = belief(one)
            for arm in queries.judged_arms(context, since=marks[1]):
                marks[1] = arm.mark
                arms.pop(arm.arm, None)
                if arm.state == "listed":
                    arms[arm.arm] = summary(arm)
        assert beliefs == {one.arm: belief(one) for one in queries.judged_posteriors(context)}
        assert arms == {one.arm: summary(one) for one in queries.judged_arms(context)}
        if marks[0] != "0":
            assert not queries.judged_posteriors(context, since=marks[0])
            assert not queries.judged_arms(context, since=marks[1])
        context.store.close()


def test_beliefs_that_changed_are_those_of_the_act_and_arms_of_an_undone_import_leave(
    context: Context, tmp_path: Path
) -> None:
    record(context, run_of("r0", rank=0, model="large"))
    line: dict[str, object] = {"kind": "arm", "key": "skill:pdf:main"}
    imported = import_files(context, [lines_file(tmp_path / "arms.jsonl", line)])
    every = queries.judged_posteriors(context, since=0)
    assert [(one.arm, one.state) for one in every] == [(key, "listed") for key in (*KEYS, "skill:pdf:main")]
    reward(context, KEYS[1], 1.0)
    (moved,) = queries.judged_posteriors(context, since=every[-1].mark)
    assert (moved.arm, moved.pulls) == (KEYS[1], 2)
    assert [one.arm for one in queries.judged_posteriors(context, type="skill", since=0)] == [
        "skill:pdf:main"
    ]
    undo(context, imported.id)
    (left,) = queries.judged_posteriors(context, since=moved.mark)
    assert (left.arm, left.state, left.pulls, left.judgement) == (
        "skill:pdf:main",
        "unlisted",
        0,
        "too_early",
    )
    assert [one.arm for one in queries.judged_arms(context, since=moved.mark)] == ["skill:pdf:main"]
    assert not queries.judged_arms(context, type="tool", since=moved.mark)
    head = queries.status(context).head
    assert not queries.judged_posteriors(context, since=head)
    with pytest.raises(InvalidInput, match="until_ms"):
        queries.judged_posteriors(context, View(until_ms=START_MS), since=0)
    assert {one.mark for one in queries.judged_posteriors(context, View(until_ms=START_MS))} <= {None}
    with pytest.raises(InvalidInput, match="type"):
        queries.judged_arms(context, type="tools")  # type: ignore[arg-type]
    context.store.close()
