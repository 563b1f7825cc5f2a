"""qortex's paths: whose learner is meant, what a reset takes, how numbers are told; what is wrong does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.doors.exchange import HttpCall
from core.doors.http.foreign import ROUTES
from core.doors.http.routes import Route
from core.doors.service import Service
from core.errors import Denied, InvalidInput, InvalidSetting
from core.flows import queries
from core.flows.context import learner_names
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


def test_a_reset_tells_both_shapes_and_arms_stay(service: Service) -> None:
    observed(service, A, 1)
    observed(service, B, 0)
    assert ask(service, "/reset", {"learner": "o", "arm_ids": [A]}) == {
        "learner": "o",
        "reset_count": 1,
        "arm_ids": [A],
        "deleted": 1,
        "status": "reset",
    }
    listed = ask(service, "/posteriors", learner="o")["posteriors"]
    assert (listed[A]["alpha"], listed[A]["pulls"], listed[B]["pulls"]) == (1.0, 0, 1)
    none = {"reset_count": 0, "deleted": 0, "arm_ids": []}
    for arms in ([], ["tool:other:nobody"]):
        assert ask(service, "/reset", {"learner": "o", "arm_ids": arms}).items() >= none.items()
    unknown = ask(service, "/reset", {"learner": "else"})
    assert unknown.items() >= none.items()
    assert "'else'" in unknown["warning"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/observe", {"arm_id": A, "outcome": "accepted"}),
        ("/observe", {"learner": "", "arm_id": A}),
        ("/observe", {"learner": None, "arm_id": A}),
        ("/select", {"candidates": [{"id": A}]}),
        ("/sessions/start", {"session_name": "s"}),
        ("/reset", {"arm_ids": [A]}),
        ("/observe", {"learner": "o"}),
        ("/observe", {"learner": "o", "arm_id": A, "reward": None}),
        ("/observe", {"learner": "o", "arm_id": A, "reward": "1"}),
        ("/observe", {"learner": "o", "arm_id": A, "reward": True}),
        ("/observe", {"learner": "o", "arm_id": A, "outcome": "good"}),
        ("/observe", {"learner": "o", "arm_id": A, "context": {"reason": "x" * 2_001}}),
        ("/observe", {"learner": "o\n", "arm_id": A}),
        ("/observe", {"learner": "o", "arm_id": f"{A}\0"}),
        ("/select", {"learner": "o"}),
        ("/select", {"learner": "o", "candidates": [{"id": "a"}]}),
        ("/select", {"learner": "o", "candidates": [{"id": A}], "k": 1.5}),
        ("/select", {"learner": "o", "candidates": [{"id": A}], "seed_boost": 0}),
        ("/select", {"learner": "o", "candidates": [{"id": A}], "seed_arms": ["a"]}),
        ("/sessions/start", {"learner": "o", "session_name": 3}),
        ("/sessions/end", {"session_id": None}),
    ],
)
def test_what_is_wrong_makes_no_learner(service: Service, path: str, body: object) -> None:
    with pytest.raises((InvalidInput, InvalidSetting)):
        ask(service, path, body)
    assert ask(service, "/metrics", learner="o")["arm_count"] == 0
    assert "o" not in _learners(service)


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


def test_numbers_have_four_decimals_on_the_wire_only(service: Service) -> None:
    for _ in range(3):
        told = observed(service, A, 0.123456)
    assert (told["alpha"], told["beta"], told["mean"]) == (1.3704, 3.6296, 0.2741)
    (kept,) = queries.posteriors(service.context(OPERATOR, "o"))
    assert (kept.alpha, kept.beta) == (1.370368, 3.629632)
    state = ask(service, "/posteriors", learner="o")["posteriors"][A]
    assert state["total_reward"] == 0.3704
    assert state["last_updated"].endswith("Z")


def test_what_a_context_says_stays_with_the_fact(service: Service) -> None:
    arms = [{"id": A}, {"id": B}]
    chosen = ask(service, "/select", {"learner": "o", "candidates": arms, "k": 0, "session_key": "chat"})
    assert {one["id"] for one in chosen["selected_arms"]} == {A, B}
    elsewhere = {"learner": "o", "arm_id": A, "reward": 1, "context": {"session_key": "another"}}
    ask(service, "/observe", elsewhere)
    ask(service, "/observe", {**elsewhere, "context": {"session_key": "chat"}})
    lagged = {"lagged": True, "reason": "seen later"}
    ask(service, "/observe", {"learner": "o", "arm_id": B, "outcome": "rejected", "context": lagged})
    context = service.context(OPERATOR, "o")
    (run,) = queries.runs(context)
    assert run.n_arms == 2
    assert [(row.arm, row.reward, row.reason, row.run) for row in queries.rewards(context)] == [
        (B, 0.0, "seen later", None),
        (A, 1.0, None, None),
    ]


def test_a_k_that_is_not_sent_is_one_and_a_budget_is_the_learners(service: Service) -> None:
    arms = [{"id": A, "token_cost": 5}, {"id": B, "token_cost": 5, "metadata": {"x": 1}}]
    one = ask(service, "/select", {"learner": "o", "candidates": arms})
    assert (len(one["selected_arms"]), one["used_tokens"], one["token_budget"]) == (1, 5, 0)
    fits = ask(service, "/select", {"learner": "o", "candidates": arms, "k": 0, "token_budget": 7})
    assert (len(fits["selected_arms"]), len(fits["excluded_arms"]), fits["token_budget"]) == (1, 1, 7)
    seeds = {"learner": "o", "candidates": arms, "seed_arms": [B], "seed_boost": 9}
    (seed,) = ask(service, "/select", seeds)["selected_arms"]
    assert seed == {"id": B, "token_cost": 5, "metadata": {"x": 1}}
    assert set(fits["scores"]) == {A, B}
