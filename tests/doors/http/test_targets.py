"""Targets of requests: the learner that is meant, and destructive requests that are not exactly right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import open_learner
from core.doors import qortex
from core.doors.exchange import HttpCall
from core.doors.http.openclaw import PREFIX, handle
from core.doors.mcp.tools import call as call_tool
from core.doors.service import OPENCLAW, Service
from core.errors import ArmscopeError, InvalidInput
from core.flows import queries
from core.flows.context import Context
from core.flows.reward import reward
from core.records.actor import Actor, Grant
from core.records.arm import Arm
from tests.doors.examples import ARM, example_world
from tests.doors.http.asking import Asking
from tests.flows.world import context_at

OPERATOR = Actor(name="mara", role="operator")


@pytest.mark.parametrize(
    ("there", "meant"),
    [
        ((), "default"),
        (("a",), "a"),
        (("a", "default"), "default"),
        (("a", "openclaw"), "openclaw"),
        (("a", "default", "openclaw"), "openclaw"),
        (("a", "b"), None),
    ],
)
def test_the_learner_of_openclaw_is_found_per_request(
    there: tuple[str, ...], meant: str | None, tmp_path: Path
) -> None:
    """The server starts on an empty file. Learners come later."""
    path = tmp_path / "a.db"
    context = context_at(path)
    service = Service(store=context.store)
    operator = Actor(name="mara", role="operator")
    assert service.context(operator, preferred=OPENCLAW).learner == "default"
    for name in there:
        with open_learner(path, name) as learner:
            learner.record("r1", arms=[Arm(key=ARM)], calls=[])
    asked = HttpCall(method="GET", path=f"{PREFIX}/posteriors", headers={}, query={}, body=b"")
    if meant is None:
        with pytest.raises(InvalidInput, match="'a', 'b'"):
            handle(service, operator, asked)
        return
    assert service.context(operator, preferred=OPENCLAW).learner == meant
    answer = handle(service, operator, asked)
    assert (answer.status, len(json.loads(answer.body))) == (200, len(there) > 0)
    one = Actor(name="bot", role=None, grants=(Grant(role="read", learner="a"),))
    if "a" in there:
        assert service.context(one, preferred=OPENCLAW).learner == "a", "its only one"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("targets")
        patch.chdir(folder)
        made = example_world(folder)
        reward(made, ARM, 0.5)
        yield made
        made.store.close()


def openclaw(service: Service, body: bytes) -> None:
    handle(service, OPERATOR, HttpCall("POST", f"{PREFIX}/reset", headers=JSON, body=body))


def qortex_reset(service: Service, body: bytes) -> None:
    qortex.call(service, OPERATOR, "reset", json.loads(body))


def by_mcp(service: Service, body: bytes) -> None:
    call_tool(service, OPERATOR, "qortex_learning_reset", json.loads(body))


JSON = {"content-type": "application/json"}
NAMES = st.sampled_from(
    ["arm_id", "armIds", "arms", "arm-ids", "armz", "learnr", "all", "id", "ids", "Arm_ids"]
)
VALUES: st.SearchStrategy[object] = st.sampled_from([ARM, [ARM], "default", None, True, 0, {}, [], [7]])
RIGHT: list[tuple[Callable[[Service, bytes], None], dict[str, Any]]] = [
    (openclaw, {"arm_ids": [ARM]}),
    (qortex_reset, {"learner": "default", "arm_ids": [ARM]}),
    (by_mcp, {"learner": "default", "arm_ids": [ARM]}),
]


@pytest.mark.parametrize("door", RIGHT, ids=lambda door: door[0].__name__)
@given(name=NAMES, value=VALUES, kept=st.sampled_from(["all", "none", "first"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_reset_with_a_strange_member_resets_nothing(
    place: Context,
    door: tuple[Callable[[Service, bytes], None], dict[str, Any]],
    name: str,
    value: object,
    kept: str,
) -> None:
    send, right = door
    body = {"all": right, "none": {}, "first": dict([*right.items()][:1])}[kept] | {name: value}
    before = queries.revision(place), queries.posteriors(place)
    with suppress(ArmscopeError):
        send(Service(store=place.store, learner="default"), json.dumps(body).encode())
    assert (queries.revision(place), queries.posteriors(place)) == before


DESTRUCTIVE: list[tuple[str, dict[str, Any]]] = [
    ("resets", {"arms": [ARM]}),
    ("undo", {"act_id": "reward-1"}),
    ("redo", {"act_id": "reward-1"}),
]
"""Acts of our own interface that take something away, each with a right body."""


@pytest.mark.parametrize(("path", "right"), DESTRUCTIVE, ids=[path for path, _ in DESTRUCTIVE])
def test_an_act_with_a_strange_member_does_nothing(asking: Asking, path: str, right: dict[str, Any]) -> None:
    for name in ("armz", "arm_ids", "ids", "ID", "learner", "all"):
        for body in ({name: ARM}, {**right, name: [ARM]}, {**right, name: None}):
            answer = asking.post(f"/api/v1/learners/default/{path}", body)
            assert answer.status == 400, (name, body)
            assert name in json.dumps(answer.document)
