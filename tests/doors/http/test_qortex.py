"""qortex's paths: whose learner is meant, what a reset takes, how numbers are told; what is wrong does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.doors.exchange import HttpCall
from core.doors.http.qortex import ROUTES
from core.doors.http.routes import Route
from core.doors.service import Service
from core.errors import Denied, InvalidInput
from core.flows.listed_names import learner_names
from core.flows.settings import change
from core.records.actor import Actor, Grant
from tests.conformance.qortex_calls import OPERATOR, desk_at

A, B = "tool:other:a", "tool:other:b"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with desk_at(tmp_path) as made:
        yield made


def route(path: str) -> Route:
    (found,) = (one for one in ROUTES if one.path.endswith(path))
    return found


def ask(service: Service, path: str, body: object = None, *, actor: Actor = OPERATOR, **values: str) -> Any:  # noqa: ANN401
    sent = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    one = route(path)
    answer = one.handler(service, actor, HttpCall(one.methods[0], one.path, body=sent, path_values=values))
    assert answer.status == 200
    return orjson.loads(answer.body)


def observed(service: Service, arm: str, reward: float) -> Any:  # noqa: ANN401
    return ask(service, "/observe", {"learner": "o", "arm_id": arm, "reward": reward})


def test_health_is_anybodys(service: Service) -> None:
    assert route("/health").public
    assert ask(service, "/health")["status"] == "ok"
    assert [one.path for one in ROUTES if one.public] == ["/v1/health"]


def _learners(service: Service) -> tuple[str, ...]:
    return learner_names(service.context(OPERATOR, "default"))


def test_asking_makes_no_learner(service: Service) -> None:
    assert ask(service, "/posteriors", learner="a b/c") == {"learner": "a b/c", "posteriors": {}}
    assert _learners(service) == ()


def test_a_token_writes_to_the_learners_that_it_names(service: Service) -> None:
    bot = Actor(name="bot", role=None, grants=(Grant(role="ingest", learner="mine"),))
    ask(service, "/observe", {"learner": "mine", "arm_id": A, "reward": 1}, actor=bot)
    assert _learners(service) == ("mine",)
    with pytest.raises(Denied):
        ask(service, "/observe", {"learner": "other", "arm_id": A}, actor=bot)
    everywhere = Actor(name="bot", role=None, grants=(Grant(role="ingest"),))
    assert service.context(everywhere).learner == "mine", "the only one"
    ask(service, "/observe", {"learner": "new", "arm_id": A}, actor=everywhere)
    with pytest.raises(InvalidInput, match="are required"):
        ask(service, "/observe", {"arm_id": A}, actor=everywhere)
    assert _learners(service) == ("mine", "new")


def test_an_arm_that_a_setting_excludes_is_not_offered(service: Service) -> None:
    observed(service, A, 1)
    change(service.context(OPERATOR, "o"), "excluded_arms", [A])
    asked = {"learner": "o", "candidates": [{"id": A}, {"id": B}], "k": 2, "seed_arms": [A]}
    chosen = ask(service, "/select", asked)
    assert [one["id"] for one in chosen["selected_arms"]] == [B]
    assert [one["id"] for one in chosen["excluded_arms"]] == [A]
