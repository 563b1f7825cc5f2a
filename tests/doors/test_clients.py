"""Clients: a file and a server, called and awaited: the same operations, parameters, answers and errors."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

import core
from core import AsyncClient, AsyncLearner, Client, Learner
from core.doors.asynchronous import AsyncLearnerProtocol
from core.doors.protocol import LearnerProtocol
from core.errors import (
    ArmscopeError,
    Closed,
    Conflict,
    InvalidBatch,
    InvalidInput,
    NotFound,
    UnknownAct,
    UnknownArm,
    UnknownRun,
    UnreadableSource,
)
from core.records.arm import Arm
from core.records.run import Inventory, Run
from core.records.view import View
from core.statistics.savings import Savings
from tests.conftest import ROOT
from tests.doors.examples import ARM, FILE, RUN, example_world
from tests.doors.http.test_served import served
from tests.engine import kept_in
from tests.flows.world import context_at

CLIENTS = ("Learner", "Client", "AsyncLearner", "AsyncClient")
OWN = {"context", "learner", "in_thread", "open"}
"""Public names of one kind of client: where its operations happen."""

Operation = Callable[[Any], Any]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - OWN


OPERATIONS = sorted(public(LearnerProtocol) - {"name", "close"})


def new_run(uid: str) -> Run:
    return Run(uid=uid, inventory=Inventory(kind="declared", arms=(Arm(key=ARM),)))


ANSWERS: dict[str, Operation] = {
    "settings": lambda one: one.settings if isinstance(one, LearnerProtocol.__mro__[0]) else one.settings(),
    "select": lambda one: one.select([ARM, {"name": "fetch", "input_schema": {}}], budget_tokens=50),
    "record": lambda one: one.record("c1", arms=[Arm(key=ARM, token_cost=3)], calls=["search"]),
    "record_runs": lambda one: one.record_runs([new_run("c2"), new_run("c3")]),
    "record_step": lambda one: one.record_step("sums/9", environment="sums", number=0, reward=0.5, run=RUN),
    "mark_incomplete": lambda one: one.mark_incomplete("sums/9"),
    "declare": lambda one: one.declare("sums", hi=2),
    "credit_episode": lambda one: one.credit_episode("sums/9", "equal"),
    "reward": lambda one: one.reward(ARM, 0.5, key="one", reason="late"),
    "reward_batch": lambda one: one.reward_batch([{"arm": ARM, "value": 0.25, "run": RUN}]),
    "reward_run": lambda one: one.reward_run(RUN, outcome="partial"),
    "evaluate": lambda one: one.evaluate(RUN, "success", rater="zoe", rubric="v2", score=0.5),
    "note": lambda one: one.note(ARM, "slow"),
    "reset": lambda one: one.reset(arms=[ARM], reason="detector repaired"),
    "undo": lambda one: one.undo("reset-1"),
    "redo": lambda one: one.redo("reset-1"),
    "change": lambda one: one.change("k", 2),
    "import_files": lambda one: one.import_files(
        FILE, format="armscope", max_inflated_bytes=1 << 20, max_rejected=10, each_event=True
    ),
    "run": lambda one: one.run(RUN),
    "why": lambda one: one.why("c1"),
    "runs": lambda one: one.runs(3),
    "posteriors": lambda one: one.posteriors(View(types=("tool",))),
    "judgements": lambda one: one.judgements(),
    "arms": lambda one: one.arms(),
    "evaluations": lambda one: one.evaluations(limit=2),
    "agreement": lambda one: one.agreement(),
    "acts": lambda one: one.acts(5),
    "ledger": lambda one: one.ledger(50),
    "savings": lambda one: one.savings(),
    "status": lambda one: one.status(),
    "episodes": lambda one: one.episodes(environment="sums", split=None, task="t", model="large"),
    "episode": lambda one: one.episode("sums/1"),
    "lint": lambda one: one.lint("sums"),
    "compare": lambda one: one.compare("sums", "large", "small", compared="success", paired=False),
    "verify": lambda one: one.verify(),
    "export": lambda one: one.export("out.csv", "csv"),
    "export_training": lambda one: one.export_training("train.jsonl", "reward_jsonl", raters=("mara",)),
    "backup": lambda one: one.backup("copy.db"),
    "erase": lambda one: one.erase(rater="zoe"),
}
"""One call of each operation, in the order in which they are done on one world."""

ERRORS: tuple[tuple[type[ArmscopeError], Operation], ...] = (
    (UnknownArm, lambda one: one.reward("tool:web:saerch", 1)),
    (UnknownRun, lambda one: one.why("nothing")),
    (NotFound, lambda one: one.episode("sums/none")),
    (NotFound, lambda one: one.lint("other")),
    (InvalidInput, lambda one: one.compare("sums", "large")),
    (InvalidInput, lambda one: one.reset(arms=[])),
    (InvalidInput, lambda one: one.reward_batch([{"arm": ARM, "loud": True}])),
    (InvalidBatch, lambda one: one.reward_batch([{"arm": "tool:no:arm", "value": 1}])),
    (InvalidBatch, lambda one: one.record_runs([new_run("c4"), new_run(RUN)])),
    (Conflict, lambda one: one.record(RUN, arms=["tool:no:other"])),
    (InvalidInput, lambda one: one.record("c5")),
    (UnknownAct, lambda one: one.undo("reward-99")),
    (UnreadableSource, lambda one: one.import_files("none.jsonl")),
    (InvalidInput, lambda one: one.import_files(FILE, format="pickle")),
    (InvalidInput, lambda one: one.export(FILE)),
    (NotFound, lambda one: one.erase(rater="nobody-here")),
)


def test_the_suite_calls_every_operation() -> None:
    assert sorted(ANSWERS) == OPERATIONS


@pytest.mark.parametrize("kind", [Learner, Client, AsyncLearner, AsyncClient], ids=lambda kind: kind.__name__)
def test_every_client_has_every_operation_with_its_parameters_and_its_answer(kind: type) -> None:
    assert public(kind) == public(LearnerProtocol)
    for name in OPERATIONS:
        declared = getattr(LearnerProtocol, name)
        own = getattr(kind, name)
        if isinstance(declared, property):  # an awaited one is a method
            assert isinstance(own, property) or inspect.iscoroutinefunction(own)
            continue
        assert inspect.signature(own) == inspect.signature(declared) or name == "run", name
        if kind in {AsyncLearner, AsyncClient} and name != "run":
            assert inspect.iscoroutinefunction(own), name
        if name not in {"run", "savings"}:  # of overloads, and of a type with arrays
            assert get_type_hints(own)["return"] == get_type_hints(declared)["return"], name


def test_all_clients_follow_a_protocol() -> None:
    assert LearnerProtocol in Learner.__mro__
    assert LearnerProtocol in Client.__mro__
    assert AsyncLearnerProtocol in AsyncLearner.__mro__
    assert AsyncLearnerProtocol in AsyncClient.__mro__


def test_answers_of_operations_are_public() -> None:
    hints = [
        hint
        for name in OPERATIONS
        if name not in {"run", "savings", "settings"}
        for hint in [get_type_hints(getattr(LearnerProtocol, name))["return"]]
    ]
    kinds = {
        part for hint in hints for part in (*getattr(hint, "__args__", ()), hint) if isinstance(part, type)
    }
    ours = {kind.__name__ for kind in kinds if kind.__module__.startswith("core.")} | {Savings.__name__}
    assert ours - set(core.__all__) == set()


# One world


@contextmanager
def world(folder: Path) -> Iterator[Any]:
    context = example_world(folder)
    try:
        yield context
    finally:
        context.store.close()


def plain(answer: object) -> object:
    """Return an answer as comparable values: arrays as lists, and NaN as itself."""
    document = msgspec.to_builtins(answer, enc_hook=lambda value: value.tolist())
    return re.sub(r"\bnan\b", "NaN", repr(document))


def results(name: str, folder: Path, operations: list[Operation]) -> list[object]:
    """Call operations of one kind of client on a world of its own; an error is a result, too."""
    with world(folder) as context, ExitStack() as opened:
        opened.enter_context(pytest.MonkeyPatch.context()).chdir(folder)
        if name in {"Learner", "AsyncLearner"}:
            learner = Learner(context_at(kept_in(context.store)))
        else:
            url = opened.enter_context(served(context))
        if name.startswith("Async"):
            client = AsyncLearner(learner) if name == "AsyncLearner" else AsyncClient(url)
            return asyncio.run(_awaited(client, operations))
        blocking = learner if name == "Learner" else opened.enter_context(Client(url))
        if name == "Learner":
            opened.callback(learner.close)
        return [_result(lambda one=one: one(blocking)) for one in operations]


def _result(call: Callable[[], object]) -> object:
    try:
        return call()
    except ArmscopeError as problem:
        return problem


async def _awaited(client: AsyncLearnerProtocol, operations: list[Operation]) -> list[object]:
    found: list[object] = []
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(client)
        for one in operations:
            try:
                found.append(await _one(one(client)))
            except ArmscopeError as problem:
                found.append(problem)
    return found


async def _one(answer: Coroutine[Any, Any, object]) -> object:
    return await answer
