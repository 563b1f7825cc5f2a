"""Work that is done again: a write whose commit was refused leaves nothing, in the file or in whoever wrote it.

The store here has every first commit refused by SQLite itself, and then does as one with a server has to: it calls
the same work again. So whatever a flow keeps outside of its transaction too early, or uses up, shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from core.demo.play import play
from core.demo.world import LEARNER
from core.errors import StoreError, StoreUnusable
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, redo, reset, undo
from core.flows.export import export_file
from core.flows.importing import ImportAnswer, import_files
from core.flows.learn import record, record_all, reward, reward_all
from core.flows.learners import create_learner
from core.flows.settings import change, change_all
from core.records.actor import Actor
from core.records.learner import Sticky
from core.records.observation import RewardOrder
from core.store.staging import Part, Stage
from core.store.store import Store
from core.store.transaction import Transaction
from tests.engine import kept_in
from tests.worlds import IN_PARTS, a_run, context_at, lines_file, paced, run_line
from tests.worlds.history import History
from tests.worlds.lively import lively_context

pytestmark = pytest.mark.of_file  # by a commit that SQLite refuses

A = "tool:other:a"
_T = TypeVar("_T")
_Txn = TypeVar("_Txn", bound=Transaction)


def refused(work: Callable[[_Txn], _T]) -> Callable[[_Txn], _T]:
    """The work, at the end of which something is left that SQLite lets no one commit: an arm of no learner."""

    def spoiled(txn: _Txn) -> _T:
        answer = work(txn)
        txn.connection.run("PRAGMA defer_foreign_keys = ON")
        txn.connection.run(
            "INSERT INTO arm (learner_id, arm_no, key, type, declared) VALUES (-1, 1, 'x', 'tool', 0)"
        )
        return answer

    return spoiled


class Again(Store):
    """A store that has the first commit of every write refused, and calls its work again."""

    n_refused = 0

    def write(
        self,
        learner: str,
        work: Callable[[Transaction], _T],
        *,
        actor: Actor,
        now_ms: int,
        origin: str | None = None,
        only: bool = False,
        sticky: Sticky = "run",
    ) -> _T:
        def attempt(work: Callable[[Transaction], _T]) -> _T:
            return super(Again, self).write(
                learner, work, actor=actor, now_ms=now_ms, origin=origin, only=only, sticky=sticky
            )

        with pytest.raises(StoreUnusable, match="FOREIGN KEY"):
            attempt(refused(work))
        self.n_refused += 1
        return attempt(work)

    def stage(
        self, learner: str, stage: Stage, work: Callable[[Part], _T], *, actor: Actor
    ) -> tuple[_T, Stage]:
        with pytest.raises(StoreUnusable, match="FOREIGN KEY"):
            super().stage(learner, stage, refused(work), actor=actor)
        self.n_refused += 1
        return super().stage(learner, stage, work, actor=actor)


def again_at(path: Path) -> Context:
    context = context_at(path)
    context.store.close()
    return replace(context, store=Again(path))


def n_refused(context: Context) -> int:
    assert isinstance(context.store, Again)
    return context.store.n_refused


def test_a_work_that_is_called_twice_leaves_one_act(context: Context) -> None:
    record(context, a_run("r"))
    before = queries.status(context).revision
    n_calls = 0

    def work(txn: Transaction) -> int:
        nonlocal n_calls
        n_calls += 1
        txn.audit("note", None, {"call": n_calls})
        return n_calls

    with pytest.raises(StoreError, match="FOREIGN KEY"):
        context.write("reward", refused(work))
    assert queries.status(context).revision == before
    assert context.write("reward", work) == 2
    assert queries.status(context).revision == before + 1
    assert [one.detail for one in queries.changes(context) if one.action == "note"] == [{"call": 2}]
    assert queries.verify(context).clean


def test_a_disk_that_takes_no_more_leaves_nothing_to_the_next_try(context: Context) -> None:
    """The run that could not be written made arms and epochs, which its writer must not take for known."""
    record(context, a_run("r", arms=["a"]))
    many = a_run("large", arms=[f"arm-{number}" for number in range(3_000)], calls=["arm-7"])
    n_pages = context.write("ingest", lambda txn: txn.connection.rows("PRAGMA page_count"))[0][0]
    context.write("ingest", lambda txn: txn.connection.rows(f"PRAGMA max_page_count = {n_pages + 2}"))
    with pytest.raises(StoreError, match="takes no more"):
        record(context, many)
    context.write("ingest", lambda txn: txn.connection.rows("PRAGMA max_page_count = 1000000"))
    assert record(context, many).told == "new"
    assert record(context, many).told == "duplicate"
    assert [one.pulls for one in queries.posteriors(context) if one.arm == "tool:other:arm-7"] == [1]
    assert queries.verify(context).clean


def verbs(context: Context, told: Path) -> list[object]:
    """Whatever writes, one after the other, and what each answered."""
    given = reward(context, A, 0.5, key="k", run="r1")
    return [
        record_all(context, [a_run("r3"), a_run("r1"), a_run("r4", arms=["new"], calls=["new"])]),
        given,
        reward(context, A, 0.5, key="k", run="r1"),
        reward_all(context, [RewardOrder(arm=A), RewardOrder(arm="tool:other:made", create=True, key="m")]),
        written := note(context, A, "slow", key="n"),
        undo(context, written.id),
        redo(context, written.id),
        begun := reset(context, types=["tool"], target="prior"),
        queries.preview_undo(context, begun.id),
        undo(context, begun.id),
        change(context, "mode", "openclaw"),
        change_all(context, {"k": 3, "min_pulls": 2}),
        queries.preview_settings(
            context, {"priors": {"tool": {"alpha_micro": 10**6, "beta_micro": 10**6}}}
        ).after,
        create_learner(context, "other"),
        told_in(context, told),
    ]


def told_in(context: Context, told: Path) -> list[ImportAnswer]:
    """Whatever an import can tell, some of it twice; one goes on, and is undone."""
    answers = [
        import_files(context, [told / f"{name}.jsonl"]) for name in ("first", "longer", "export", "first")
    ]
    answers.append(import_files(context, [told / "more.jsonl"], continuing=answers[0].id))
    undo(context, answers[0].id)
    return answers


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Files with runs in two units, lines of every kind, and what can't be read."""
    folder = tmp_path / "told"
    folder.mkdir()
    export_file(lively_context(folder), folder / "export.jsonl")
    runs = [
        run_line(f"n{number}", arms=[f"tool:other:{number % 3}", A], calls=["a", "none"], rank=1)
        for number in range(9)
    ]
    by_turn = run_line("x/turn/s/1", format="x", unit="turn", source="s")
    by_prompt = run_line("x/prompt/s/1", format="x", unit="prompt", source="s")
    lines_file(folder / "first.jsonl", *runs[:6], {"kind": "no such"}, *runs[4:], by_turn, by_prompt)
    lines_file(folder / "longer.jsonl", *[run | {"rank": 2, "calls": []} for run in runs])
    lines_file(folder / "more.jsonl", *[run_line(f"m{number}") for number in range(5)])
    return folder


def without_heads(export: Path) -> bytes:
    """An export but for the head of its chain, which has a key of its own."""
    return re.sub(rb',"head":"[0-9a-f:]+"', b"", export.read_bytes())


@pytest.mark.parametrize("in_parts", [False, True], ids=["at once", "in parts"])
def test_whatever_is_done_again_comes_to_what_it_comes_to_at_once(
    tmp_path: Path, told: Path, *, in_parts: bool
) -> None:
    found = []
    for make in (context_at, again_at):
        folder = tmp_path / make.__name__
        folder.mkdir()
        with paced(IN_PARTS if in_parts else context_at(folder / "pace.db").pace):
            context = make(folder / "a.db")
            for uid in ("r1", "r2"):
                record(context, a_run(uid))
            answers = verbs(context, told)
        export_file(context, folder / "export.jsonl")
        assert queries.verify(context).clean
        changes = [msgspec.structs.replace(one, mark=None) for one in queries.changes(context)]
        found.append((answers, changes, without_heads(folder / "export.jsonl")))
        if isinstance(context.store, Again):
            assert n_refused(context) > (40 if in_parts else 15)
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("in_parts", [False, True], ids=["at once", "in parts"])
def test_histories_that_are_done_again_fold_to_what_the_rules_say(
    tmp_path: Path, seed: int, *, in_parts: bool
) -> None:
    history = History(tmp_path, seed)
    pace = IN_PARTS if in_parts else history.context.pace
    history.context = replace(history.context, store=Again(kept_in(history.context.store)), pace=pace)
    history.play(25)
    history.check()


@pytest.mark.long
def test_the_demo_comes_to_the_same(tmp_path: Path) -> None:
    told = []
    for name, kind in (("once", Store), ("again", Again)):
        (tmp_path / name).mkdir()
        with closing(kind(tmp_path / name / "demo.db")) as store:
            play(store, seed=7, n_runs=12)
            context = Context(store=store, learner=LEARNER, actor=Actor(name="v", role="operator"))
            export_file(context, tmp_path / f"{name}.jsonl")
        told.append(without_heads(tmp_path / f"{name}.jsonl"))
    assert told[0] == told[1]


def test_runs_that_come_from_an_iterator_are_all_recorded(tmp_path: Path) -> None:
    """The type asks for a sequence; whoever passes a generator all the same loses nothing by it."""
    context = again_at(tmp_path / "a.db")
    runs: object = (a_run(uid) for uid in ("r1", "r2"))
    assert len(record_all(context, runs)) == 2  # type: ignore[arg-type]
    assert queries.status(context).runs == 2
