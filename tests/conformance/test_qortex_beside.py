"""qortex itself, from its package, beside ours: the same calls to both over MCP and HTTP, and the same answers.

What may differ is what the recorded vectors may differ in, by the same rules. The calls are drawn from a seed: arms
offered and observed, beliefs and figures read, sessions, resets, and what our rules decide otherwise.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from mcp.client.stdio import StdioServerParameters

from tests.bench.servers import free_port, wait_for
from tests.conformance.environments import python_with
from tests.conformance.mcp_client import Agent, agent_at, agent_of
from tests.conformance.qortex_calls import (
    Answer,
    Ask,
    Refused,
    Sequence,
    as_recorded,
    hold,
    print_tally,
    scrubbed,
)
from tests.doors.http.slow import server

pytestmark = pytest.mark.long

QORTEX: Final = "qortex==0.8.1"
_PATIENCE_S: Final = 300
_SEEDS: Final = range(2)
_N_CALLS: Final = 30
_ARMS: Final = tuple(
    f"tool:{category}:{name}" for category in ("web", "fs") for name in ("a", "b", "ß c", "d'e")
)
_ODD: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"outcome": "splendid"},
    {"outcome": "accepted", "reward": 0},
    {"reward": 1, "context": {"task": "t"}},
    {"reward": -0.5},
    {"reward": 5},
    {"reward": -3},
)
_PATHS: Final = {"session_start": "sessions/start", "session_end": "sessions/end"}


@pytest.fixture(scope="module")
def qortex(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Mapping[str, str]]:
    """Its command, in an environment and a home of its own (130 MB)."""
    folder = tmp_path_factory.mktemp("qortex")
    python = python_with(folder, QORTEX)
    home = folder / "home"
    home.mkdir()
    return str(python.with_name("qortex")), {"PATH": os.environ["PATH"], "HOME": str(home)}


def drawn(seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls by their names, without their learner; "the last" session is the one that began last.

    First what both take alike, then what our rules decide otherwise, and what comes of it.
    """
    dice = random.Random(seed)
    usual = ("observe", "select", "posteriors", "metrics", "session_start", "session_end")
    for number in range(_N_CALLS):
        name = dice.choices(usual, (16, 6, 4, 3, 2, 2))[0]
        yield name, _ARGUMENTS[name](dice, number)
    for arm, said in zip(_ARMS, _ODD, strict=False):
        yield "observe", {"arm_id": arm, **said}
        yield "posteriors", {}
    yield "session_start", {"session_name": "before"}
    for name in ("select", "reset", "posteriors", "session_end", "observe", "metrics"):
        yield name, _ARGUMENTS[name](dice, _N_CALLS)


def _observed(dice: random.Random, number: int) -> dict[str, Any]:
    said: tuple[dict[str, Any], ...] = (
        {"reward": dice.choice((0, 0.0, 1, 0.25, 0.1234, 0.5))},
        {"outcome": dice.choice(("accepted", "partial", "rejected"))},
        {"outcome": dice.choice(("accepted", "rejected")), "reward": dice.choice((0.75, 1))},
    )
    return {"arm_id": dice.choice(_ARMS), **dice.choice(said)}


def _selected(dice: random.Random, number: int) -> dict[str, Any]:
    cost = dice.choice((0, 5, 40))
    arms = dice.sample(_ARMS, dice.randrange(len(_ARMS) + 1))
    return {
        "candidates": [{"id": arm, "token_cost": cost, "metadata": {"at": number}} for arm in arms],
        **dice.choice(({}, {"k": dice.randrange(5)}, {"k": 3, "token_budget": 60}, {"token_budget": 0})),
        **dice.choice(({}, {"context": {"task": "t"}})),
        **dice.choice(
            ({}, {}, {"seed_arms": dice.sample(_ARMS, 2), **dice.choice(({}, {"seed_boost": 3.0}))})
        ),
    }


def _believed(dice: random.Random, number: int) -> dict[str, Any]:
    return dice.choice(({}, {"arm_ids": dice.sample(_ARMS, 3)}))


def _figures(dice: random.Random, number: int) -> dict[str, Any]:
    return dice.choice(({}, {"window": 5}))


def _begun(dice: random.Random, number: int) -> dict[str, Any]:
    return {"session_name": f"session {number}"}


def _ended(dice: random.Random, number: int) -> dict[str, Any]:
    return {"session_id": dice.choice(("the last", "nope"))}


def _reset(dice: random.Random, number: int) -> dict[str, Any]:
    return dice.choice(({}, {"arm_ids": dice.sample(_ARMS, 2)}))


_ARGUMENTS: Final[Mapping[str, Callable[[random.Random, int], dict[str, Any]]]] = {
    "observe": _observed,
    "select": _selected,
    "posteriors": _believed,
    "metrics": _figures,
    "session_start": _begun,
    "session_end": _ended,
    "reset": _reset,
}


def beside(ours: Ask, theirs: Ask, seed: int, *, names_arms: bool) -> Counter[str]:
    """Play a sequence to both; how many answers differ, by rule. ``names_arms``: beliefs can be asked of some."""
    sequence, tally, last = Sequence(), Counter[str](), ("nope", "nope")
    for number, (name, given) in enumerate(drawn(seed)):
        args = given if name == "session_end" else {"learner": f"learner-{seed}", **given}
        if name == "posteriors" and not names_arms:
            args = {"learner": args["learner"]}
        asked = [
            {**args, "session_id": mine} if args.get("session_id") == "the last" else args for mine in last
        ]
        answers = [door(name, one) for door, one in zip((ours, theirs), asked, strict=True)]
        assert not isinstance(answers[0], Refused) or answers[0].status < 500, (
            seed,
            number,
            name,
            args,
            answers,
        )
        if name == "session_start" and isinstance(answers[0], dict) and isinstance(answers[1], dict):
            last = (str(answers[0]["session_id"]), str(answers[1]["session_id"]))
        must, reason = sequence.expect(name, args)
        told = [_comparable(name, one) for one in answers]
        if name == "select" and any(isinstance(one, dict) and one["is_baseline"] for one in answers):
            reason = "baseline"
        tally[hold(told[0], must, told[1], reason, f"{seed} {number} {name} {args}") or "as qortex"] += 1
    return tally


def _comparable(name: str, answer: Answer) -> Answer:
    if isinstance(answer, Refused):
        return answer
    return as_recorded(answer) if name == "select" else scrubbed(answer)


# Over MCP


def _by_mcp(agent: Agent, name: str, args: Mapping[str, Any]) -> Answer:
    said, is_refused = agent.call(f"qortex_learning_{name}", args)
    return Refused() if is_refused else said


def test_over_mcp_both_answer_alike(qortex: tuple[str, Mapping[str, str]], tmp_path: Path) -> None:
    command, environment = qortex
    theirs = StdioServerParameters(command=command, args=["mcp-serve"], env=dict(environment))
    tally = Counter[str]()
    with agent_of(theirs) as at_theirs, agent_at(tmp_path / "runs.db", "--allow", "reset") as at_ours:
        for seed in _SEEDS:
            tally += beside(partial(_by_mcp, at_ours), partial(_by_mcp, at_theirs), seed, names_arms=True)
    _hold_tally(tally, "MCP, both live")


# Over HTTP


def _by_http(place: str, name: str, args: Mapping[str, Any]) -> Answer:
    at = f"{place}/v1/learning"
    if name in {"posteriors", "metrics"}:
        query = f"?window={args['window']}" if "window" in args else ""
        asked = Request(f"{at}/{quote(args['learner'], safe='')}/{name}{query}")
    else:
        body = json.dumps(args).encode()
        asked = Request(f"{at}/{_PATHS.get(name, name)}", body, {"Content-Type": "application/json"})
    try:
        with urlopen(asked, timeout=_PATIENCE_S) as answer:
            return dict(json.load(answer))
    except HTTPError as problem:
        with problem:
            return Refused(problem.code)


@contextmanager
def qortex_serving(qortex: tuple[str, Mapping[str, str]], folder: Path) -> Iterator[str]:
    """``qortex serve`` as a process, once it answers; its address."""
    command, environment = qortex
    port = free_port()
    with (folder / "qortex.log").open("wb") as log:
        process = subprocess.Popen(
            [command, "serve", "--port", str(port)], env=dict(environment), stdout=log, stderr=log
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/health")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)


def test_over_http_both_answer_alike(qortex: tuple[str, Mapping[str, str]], tmp_path: Path) -> None:
    port = free_port()
    tally = Counter[str]()
    with qortex_serving(qortex, tmp_path) as theirs, server(tmp_path, port):
        ours = f"http://127.0.0.1:{port}"
        for seed in _SEEDS:
            tally += beside(partial(_by_http, ours), partial(_by_http, theirs), 100 + seed, names_arms=False)
    _hold_tally(tally, "HTTP, both live")


def _hold_tally(tally: Counter[str], what: str) -> None:
    """Many answers are the same, and each kind of deviation was met, so that none is listed in vain."""
    assert tally["as qortex"] > sum(tally.values()) / 3
    del tally["as qortex"]
    assert {"contexts", "zero", "neither", "range", "outcome", "shape"} <= tally.keys()
    print_tally(tally, what)
