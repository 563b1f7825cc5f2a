"""Who may do what: every flow with every role, and nothing changed where it is denied."""

from __future__ import annotations

import importlib
import inspect
import io
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

import core.flows
from core.errors import Denied
from core.flows import export, importing, keep, learn, look, names
from core.flows.desk import Desk
from core.flows.drop import Dropped, import_dropped
from core.flows.learners import create_learner, learners
from core.flows.note import note
from core.flows.passport import export_package
from core.flows.reset import reset
from core.flows.reward import reward, reward_all
from core.flows.select import select
from core.flows.settings import change, change_all
from core.flows.undo import redo, undo
from core.flows.watch import watch
from core.permissions import Action, authorise, may
from core.records.actor import Actor, Role
from core.records.reward import RewardOrder
from tests.flows.world import desk_at, run_of
from tests.formats.builders import lines

ROLES: tuple[Role, ...] = get_args(Role)
ACTIONS: tuple[Action, ...] = get_args(Action)
A = "tool:other:a"

TABLE: dict[Action, set[Role]] = {
    "read": {"viewer", "reviewer", "operator", "read"},
    "reward": {"reviewer", "operator"},
    "undo_own": {"reviewer", "operator"},
    "undo": {"operator"},
    "reset": {"operator"},
    "settings": {"operator"},
    "ingest": {"operator", "ingest"},
    "select": {"operator", "ingest"},
}
"""Which roles include an action, written a second time by hand, so that a change of `core.permissions` is meant."""

Flow = Callable[[Desk, Path], object]


def dropped(desk: Desk, file: Path) -> object:
    """A file as a browser would bring it."""
    content = file.read_bytes()
    one = Dropped(name=file.name, size_bytes=len(content), content=io.BytesIO(content))
    return import_dropped(desk, [one], at_most_bytes=1_000_000)


FLOWS: dict[str, tuple[Action, Flow]] = {
    "look.pulse": ("read", lambda desk, _: look.pulse(desk)),
    "look.frame": ("read", lambda desk, _: look.frame(desk)),
    "look.belief": ("read", lambda desk, _: look.belief(desk)),
    "look.arms": ("read", lambda desk, _: look.arms(desk)),
    "look.posteriors": ("read", lambda desk, _: look.posteriors(desk)),
    "look.status": ("read", lambda desk, _: look.status(desk)),
    "look.overview": ("read", lambda desk, _: look.overview(desk)),
    "look.confidence": ("read", lambda desk, _: look.confidence(desk)),
    "look.savings": ("read", lambda desk, _: look.savings(desk)),
    "look.judgements": ("read", lambda desk, _: look.judgements(desk)),
    "look.judged_arms": ("read", lambda desk, _: look.judged_arms(desk)),
    "look.judged_posteriors": ("read", lambda desk, _: look.judged_posteriors(desk)),
    "look.inclusion": ("read", lambda desk, _: look.inclusion(desk)),
    "look.rewards": ("read", lambda desk, _: look.rewards(desk)),
    "look.resets": ("read", lambda desk, _: look.resets(desk)),
    "look.changes": ("read", lambda desk, _: look.changes(desk)),
    "look.runs": ("read", lambda desk, _: look.runs(desk)),
    "look.seen_runs": ("read", lambda desk, _: look.seen_runs(desk)),
    "look.run": ("read", lambda desk, _: look.run(desk, "r")),
    "look.moment": ("read", lambda desk, _: look.moment(desk)),
    "look.imports": ("read", lambda desk, _: look.imports(desk)),
    "look.setting_changes": ("read", lambda desk, _: look.setting_changes(desk)),
    "look.preview_settings": ("settings", lambda desk, _: look.preview_settings(desk, {"k": 3})),
    "look.preview_undo": ("undo", lambda desk, _: look.preview_undo(desk, "reward-1")),
    "look.preview_reward": ("read", lambda desk, _: look.preview_reward(desk, A, 0.5)),
    "look.preview_reset": ("read", lambda desk, _: look.preview_reset(desk)),
    "look.pulls_needed": ("read", lambda desk, _: look.pulls_needed(desk, width=0.2)),
    "look.unread": ("read", lambda desk, _: look.unread(desk)),
    "look.verify": ("read", lambda desk, _: look.verify(desk)),
    "export.export_file": ("read", lambda desk, folder: export.export_file(desk, folder / "out.jsonl")),
    "export.export_into": ("read", lambda desk, _: export.export_into(desk, io.BytesIO(), "-")),
    "passport.export_package": ("read", lambda desk, folder: export_package(desk, folder / "out.zip")),
    "learners.learners": ("read", lambda desk, _: learners(desk)),
    "learners.create_learner": ("settings", lambda desk, _: create_learner(desk, "new")),
    "names.arm_ids": ("read", lambda desk, _: names.arm_ids(desk)),
    "names.learner_names": ("read", lambda desk, _: names.learner_names(desk)),
    "keep.place": ("read", lambda desk, _: keep.place(desk)),
    "keep.backup": ("settings", lambda desk, folder: keep.backup(desk, folder / "copy.db")),
    "learn.record": ("ingest", lambda desk, _: learn.record(desk, run_of("x"))),
    "learn.record_all": ("ingest", lambda desk, _: learn.record_all(desk, [run_of("x")])),
    "importing.import_files": (
        "ingest",
        lambda desk, folder: importing.import_files(desk, [folder / "runs"]),
    ),
    "drop.import_dropped": ("ingest", lambda desk, folder: dropped(desk, folder / "runs")),
    "watch.watch": ("ingest", lambda desk, folder: next(watch(desk, [folder / "runs"], lambda: None))),
    "look.arm_path": ("read", lambda desk, _: look.arm_path(desk, A)),
    "look.arm_ledger": ("read", lambda desk, _: look.arm_ledger(desk, A)),
    "look.arm_runs": ("read", lambda desk, _: look.arm_runs(desk, A)),
    "look.near_arms": ("read", lambda desk, _: look.near_arms(desk, A)),
    "look.notes": ("read", lambda desk, _: look.notes(desk, A)),
    "note.note": ("reward", lambda desk, _: note(desk, A, "slow")),
    "reward.reward": ("reward", lambda desk, _: reward(desk, A, 0.5)),
    "reward.reward_all": ("reward", lambda desk, _: reward_all(desk, [RewardOrder(arm=A)])),
    "reset.reset": ("reset", lambda desk, _: reset(desk)),
    "select.select": ("select", lambda desk, _: select(desk)),
    "settings.change": ("settings", lambda desk, _: change(desk, "k", 3)),
    "settings.change_all": ("settings", lambda desk, _: change_all(desk, {"k": 3})),
    "undo.undo": ("undo", lambda desk, _: undo(desk, "reward-1")),
    "undo.redo": ("undo", lambda desk, _: redo(desk, "reward-2")),
}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A reward that stands and one that is undone, both an operator's."""
    desk = desk_at(tmp_path / "a.db")
    learn.record(desk, run_of("r"))
    reward(desk, A, 0.5)
    undo(desk, reward(desk, A, 0.5).id)
    run = {"kind": "run", "uid": "q", "arms": [A], "calls": ["a"]}
    (tmp_path / "runs").write_bytes(lines([run]))
    return desk


def acting(desk: Desk, role: Role, name: str = "jo") -> Desk:
    return replace(desk, actor=Actor(name=name, role=role))


def test_every_flow_that_takes_a_desk_is_in_the_table() -> None:
    found = set()
    for info in pkgutil.iter_modules(core.flows.__path__):
        module = importlib.import_module(f"core.flows.{info.name}")
        for name, value in vars(module).items():
            ours = inspect.isfunction(value) and f"{value.__module__}.".startswith(f"{module.__name__}.")
            if ours and not name.startswith("_") and "desk" in inspect.signature(value).parameters:
                found.add(f"{info.name}.{name}")
    assert found == FLOWS.keys()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", FLOWS)
def test_each_role_may_do_what_the_table_says(desk: Desk, tmp_path: Path, name: str, role: Role) -> None:
    action, flow = FLOWS[name]
    before = look.changes(desk), look.pulse(desk), sorted(tmp_path.iterdir())
    if role in TABLE[action]:
        flow(acting(desk, role), tmp_path)
        return
    with pytest.raises(Denied) as denied:
        flow(acting(desk, role), tmp_path)
    assert denied.value.code == "denied"
    assert role in denied.value.problem
    assert (look.changes(desk), look.pulse(desk), sorted(tmp_path.iterdir())) == before


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("action", ACTIONS)
def test_the_table_is_the_designs(action: Action, role: Role) -> None:
    actor = Actor(name="jo", role=role)
    assert may(actor, action) == (role in TABLE[action])
    if role in TABLE[action]:
        authorise(actor, action)
    else:
        with pytest.raises(Denied):
            authorise(actor, action)


def test_a_reviewer_takes_back_their_own_and_nobody_elses(desk: Desk) -> None:
    jo, kim = acting(desk, "reviewer"), acting(desk, "reviewer", "kim")
    own = reward(jo, A, 1.0)
    with pytest.raises(Denied):
        undo(kim, own.id)
    taken = undo(jo, own.id)
    with pytest.raises(Denied):
        undo(kim, taken.id)
    assert undo(jo, taken.id).kind == "undo"
    assert undo(desk, own.id).undone == own.id, "an operator takes back anybody's"
    with pytest.raises(Denied):
        redo(jo, own.id)
    assert redo(desk, own.id).kind == "undo"


def test_nobody_but_an_operator_takes_back_what_moves_everything(desk: Desk) -> None:
    acts = [reset(desk).id, change(desk, "k", 2).id, "reward-1"]
    for act in acts:
        assert act is not None
        with pytest.raises(Denied):
            undo(acting(desk, "reviewer"), act)
        undo(desk, act)


def test_everybody_sees_who_did_what(desk: Desk) -> None:
    reward(acting(desk, "reviewer"), A, 1.0, reason="good")
    newest = look.changes(acting(desk, "viewer"), 1)[0]
    assert (newest.actor, newest.action, newest.detail["reason"]) == ("jo", "reward", "good")
