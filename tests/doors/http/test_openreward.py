"""``/v1/rollouts`` and ``/v1/environments``: what OpenReward's client sends and asks, and who may."""

from __future__ import annotations

import json

import pytest

from core.doors.http.guard import Listener
from core.flows import queries
from core.flows.context import Context
from core.records.actor import Actor, Grant
from tests.doors.http.asking import Answered, Asking
from tests.doors.http.conftest import Asked
from tests.worlds.events import EVERY, PLAYED, START

AT = "/v1/environments/own/sums"
BOT = Actor(name="token:bot", role=None, grants=(Grant(role="ingest", learner="default"),), token=3)


def send(asking: Asking, events: object, **headers: str) -> Answered:
    return asking.post("/v1/rollouts", {"events": events}, **headers)


def test_events_come_in_and_are_asked_of(context: Context, asking: Asking) -> None:
    asking.post("/api/v1/learners/default/steps", {"episode": "x", "environment": "other"})
    found = send(asking, PLAYED)
    assert (found.status, found.document["kept"], found.document["waiting"]) == (200, 5, ["r1"])
    at = "/api/v1/learners/default/rollouts"
    assert [row["rollout"] for row in asking.get(at).document["items"]] == ["r1"]
    assert asking.get(AT).status == 404
    found = send(asking, [{**START, "variant": "v1", "task_spec": {"id": "3"}}, *PLAYED])
    assert (found.document["known"], found.document["episodes"]) == (5, ["own/sums/r1"])
    assert asking.get(at).document["items"] == []
    identity = asking.get(AT).document["id"]
    assert asking.get(f"{AT}/variants").document == [{"name": "v1", "id": f"{identity}/v1"}]
    (task,) = asking.get(f"{AT}/task-difficulty?split=train&variant=v1").document["tasks"]
    assert task == {
        "task_index": 3,
        "avg_reward": 1.75,
        "min_reward": 1.75,
        "max_reward": 1.75,
        "num_rollouts": 1,
        # A call that was itself paid is a step beside its answer.
        "response_chars": dict.fromkeys(("mean", *(f"p{n}" for n in (1, 10, 25, 50, 75, 90, 99))), 18.0),
        "split": "train",
        "variant": "v1",
    }
    assert asking.get(f"{AT}/task-difficulty?split=test").document == {"tasks": []}
    assert asking.get(f"{AT}/task-difficulty?training_stage=rl").status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"events": {}}',
        b'{"events": [], "more": 1}',
        b"\xff",
        b"[" * 100_000,
        b'{"events": [7]}',
    ],
)
def test_what_is_no_upload_is_told(context: Context, asking: Asking, body: bytes) -> None:
    before = queries.revision(context).revision
    found = asking.ask("POST", "/v1/rollouts", [body], {"content-type": "application/json"})
    assert (found.status, found.document["code"]) == (400, "invalid_input")
    assert queries.revision(context).revision == before


def test_a_key_is_a_token_and_none_is_none(context: Context, ask_as: Asked) -> None:
    asking = ask_as(Listener(local=None), bot=BOT)
    assert [send(asking, EVERY, x_api_key=key).status for key in ("", "nonsense", "bot")] == [401, 401, 200]
    assert asking.get(AT, x_api_key="bot").status == 403
    assert queries.episode(context, "own/sums/r1").total == 1.75
    here = ask_as()
    assert send(here, EVERY, x_api_key="").document["known"] == len(EVERY)


def test_what_is_no_number_keeps_nothing_back(context: Context, asking: Asking) -> None:
    """As Python's JSON writes it."""
    sent = json.dumps({"events": [START, {**PLAYED[2], "reward": float("nan")}, *PLAYED[3:]]}).encode()
    found = asking.ask("POST", "/v1/rollouts", [sent], {"content-type": "application/json"})
    assert (found.status, found.document["refused"]) == (200, [])
    steps = queries.episode(context, "own/sums/r1").steps
    assert [(step.reward, step.note) for step in steps] == [(None, "nan"), (1.0, None)]
