"""The table of tools: each names an action; what an agent may not, it is told; and takes back its own only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from core.doors.mcp.server import agent, allowances
from core.doors.mcp.tools import ALLOWABLE, BY_NAME, LISTS, call, callable_by, filters_of
from core.doors.service import Service
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import reward
from core.records.actor import Action, Actor, Grant, Role, Scope, may
from tests.doors.examples import ARM, LAYER, RUN, SESSION, example_world

ARGUMENTS: dict[str, dict[str, Any]] = {
    "qortex_learning_select": {"learner": "default", "candidates": [{"id": ARM}]},
    "qortex_learning_observe": {"learner": "default", "arm_id": ARM, "reward": 0},
    "qortex_learning_posteriors": {"learner": "default"},
    "qortex_learning_metrics": {"learner": "default", "window": 3},
    "qortex_learning_session_start": {"learner": "default", "session_name": "n"},
    "qortex_learning_session_end": {"session_id": "nobody's"},
    "qortex_learning_reset": {"learner": "default", "arm_ids": [ARM]},
    "repair": {"arms": [ARM], "since": "2026-01-31"},
    "reward": {"uri": LAYER, "outcome": "success"},
    "outcome": {"run": RUN, "value": 0},
    "experiment_plan": {"arm": ARM},
    "experiments": {},
    "experiment_start": {"arm": ARM, "metric": "tokens"},
    "experiment_stop": {"experiment": "experiment-1"},
    "trial_plan": {"arm": ARM, "tasks": [{"name": "sums"}]},
    "trial_read": {"results": {"source": "lines", "cells": [{"task": "sums", "repeat": 1, "side": "with"}]}},
    "export": {"all_adapters": True, "format": "trace_jsonl"},
    "why_in_prompt": {"run": RUN},
    "versions": {"arm": ARM},
    "session": {"session": SESSION, "limit": 5},
    "compare_sides": {"a": {"class": ["baseline", "selected"]}, "b": {"run": RUN}, "limit": 2},
    "carried": {},
    "search": {"words": "request-1"},
    "runs": {},
    "rows": {"list": "arms"},
    "undo": {"id": "note-1"},
}
NOTHING = frozenset[str]()


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    monkeypatch.chdir(tmp_path)
    made = example_world(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def service(context: Context) -> Service:
    return Service(store=context.store, learner=context.learner, clock=context.clock, entropy=lambda: 1)


def told(service: Service, actor: Actor, name: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401
    found: dict[str, Any] = json.loads(call(service, actor, name, given).text)
    return found


def test_every_tool_names_an_action_and_has_arguments_here() -> None:
    assert BY_NAME.keys() == ARGUMENTS.keys()
    for tool in BY_NAME.values():
        assert tool.action in get_args(Action)
        assert tool.schema["type"] == "object"
        assert tool.words.endswith(".")
    assert {tool.allowed_as for tool in BY_NAME.values()} == {None, *ALLOWABLE}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_token_may_call_what_its_scope_includes(service: Service, context: Context, name: str) -> None:
    scopes: tuple[Role, ...] = get_args(Scope)
    for scope in scopes:
        actor = Actor(name="bot", role=None, grants=(Grant(role=scope, learner=context.learner),))
        before = queries.revision(context)
        answer = call(service, actor, name, ARGUMENTS[name])
        is_denied = answer.document is None and b"denied" in answer.text.lower()
        assert is_denied is not may(actor, BY_NAME[name].action, context.learner) or name == "undo", scope
        assert (BY_NAME[name] in callable_by(actor)) is may(actor, BY_NAME[name].action, context.learner)
        if is_denied or BY_NAME[name].effect == "reads":
            assert queries.revision(context) == before


@pytest.mark.parametrize("names", [set(), {"reset"}, set(ALLOWABLE)])
def test_an_agent_sees_the_tools_that_the_server_allows(names: set[str]) -> None:
    seen = callable_by(agent("bot"), frozenset(names))
    assert {tool.allowed_as for tool in seen} == {None, *names}
    allowed = [one for one in BY_NAME.values() if one.allowed_as is None or one.allowed_as in names]
    assert len(seen) == len(allowed) < len(BY_NAME) + len(names)


@pytest.mark.parametrize("name", BY_NAME)
def test_an_unknown_argument_is_refused_by_name(service: Service, context: Context, name: str) -> None:
    tool = BY_NAME[name]
    if tool.schema.get("additionalProperties") is not False:
        return
    owner = Actor(name="mara", role="operator")
    answer = told(service, owner, name, **ARGUMENTS[name], limmit=3)
    assert "limmit" in answer.get("message", answer.get("error", ""))
    assert answer.get("code", "invalid_input") == "invalid_input"


def test_an_actor_without_a_role_sees_no_tool() -> None:
    assert callable_by(Actor(name="jo", role=None)) == []


def test_over_standard_input_reset_and_export_are_allowed_by_name(service: Service, context: Context) -> None:
    bot = agent("bot")
    for name, tool in BY_NAME.items():
        if tool.allowed_as is None:
            continue
        before = queries.revision(context)
        assert call(service, bot, name, ARGUMENTS[name], NOTHING).document is None
        other = frozenset(ALLOWABLE) - {tool.allowed_as}
        refused = call(service, bot, name, ARGUMENTS[name], other)
        assert f"--allow {tool.allowed_as}".encode() in refused.text
        assert queries.revision(context) == before
        assert call(service, bot, name, ARGUMENTS[name], frozenset({tool.allowed_as})).document is not None


@pytest.mark.parametrize("said", ["operate", "reset,", "reset export"])
def test_only_what_can_be_allowed_is(said: str) -> None:
    if said == "reset,":
        assert allowances(said) == {"reset"}
        return
    with pytest.raises(InvalidInput, match="reset, repair, export"):
        allowances(said)


def test_an_agent_takes_back_its_own_acts_only(service: Service, context: Context) -> None:
    theirs = reward(context, ARM, 0.5)
    operator = Actor(name="boss", role="operator")
    for actor in (agent("bot"), operator):
        assert told(service, actor, "undo", id=theirs.id)["code"] == "denied"
    observed = told(
        service, agent("bot"), "qortex_learning_observe", learner="default", arm_id=ARM, reward=0.5
    )
    own = queries.rewards(context)[0]
    assert own.actor == "bot"
    assert own.kind == "reported"
    assert told(service, agent("bot"), "undo", id=own.id)["undone"] == own.id
    assert told(service, agent("bot"), "qortex_learning_posteriors", learner="default")["posteriors"][ARM][
        "pulls"
    ] == (observed["pulls"] - 1)


@pytest.mark.parametrize("name", LISTS)
def test_rows_of_a_list_are_those_of_its_verb_and_go_on_from_a_mark(service: Service, name: str) -> None:
    operation, context = verb(LISTS[name]), service.context(agent("bot"))
    every = json.loads(json.dumps(operation.plain(context, operation.respond(context, operation.decode({})))))
    every = every["rows"] if isinstance(every, dict) else every
    assert told(service, agent("bot"), "rows", list=name, limit=1_000) == {"rows": every, "next": None}
    assert every
    if "since" not in filters_of(name):
        return
    every = told(service, agent("bot"), "rows", list=name, filters={"since": 0}, limit=1_000)["rows"]
    rows: list[Any] = []
    since: object = 0
    while part := told(service, agent("bot"), "rows", list=name, filters={"since": since}, limit=2):
        since = part["next"]
        if not part["rows"]:
            break
        rows += part["rows"]
    assert rows == every


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("qortex_learning_observe", {"learner": "default", "arm_id": ARM, "reward": "x"}),
        ("qortex_learning_observe", {"learner": "default", "arm_id": ARM, "reward": None}),
        ("qortex_learning_observe", {"learner": "default", "arm_id": ARM, "reward": 2}),
        ("qortex_learning_observe", {"learner": "default", "arm_id": ARM, "outcome": "good"}),
        ("qortex_learning_observe", {"learner": "default", "arm_id": ["a"]}),
        ("qortex_learning_select", {"learner": "default", "candidates": [{"token_cost": 1}]}),
        ("qortex_learning_select", {"learner": "default", "candidates": {"id": ARM}}),
        ("qortex_learning_select", {"learner": "default", "candidates": [{"id": ARM}], "k": -1}),
        ("qortex_learning_select", {"learner": "default", "candidates": [{"id": ARM, "token_cost": -1}]}),
        ("qortex_learning_reset", {"arm_ids": ARM}),
        ("qortex_learning_reset", {"arm_ids": [1]}),
        ("qortex_learning_posteriors", {"learner": "\0"}),
        ("runs", {"limit": 0}),
        ("runs", {"learner": 3}),
        ("rows", {"list": "tables"}),
        ("rows", {"list": "arms", "filters": {"model": "large"}}),
        ("rows", {"list": "arms", "filters": ["type"]}),
        ("rows", {"list": "runs", "filters": {"since": "r1"}}),
        ("rows", {"list": "environments", "filters": {"since": "0"}}),
        ("why_in_prompt", {"run": "nobody's"}),
        ("undo", {"id": "reward-999"}),
        ("undo", {}),
        ("reward", {"uri": LAYER}),
        ("export", {"format": "skill_zip"}),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_done(
    service: Service, context: Context, name: str, given: dict[str, Any]
) -> None:
    before = queries.revision(context)
    answer = call(service, Actor(name="mara", role="operator"), name, given)
    said = json.loads(answer.text)
    assert answer.document is None
    assert said["error"]
    assert queries.revision(context) == before
