"""The same reward calls at the path that KAIROS's clients know: what its schema lets in is answered alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.doors.http.app import Api
from core.doors.http.guard import Listener
from core.doors.http.kairos import ROUTES
from core.doors.service import Service
from core.errors import ArmscopeError
from core.flows import queries
from core.flows.context import Context
from core.flows.kairos import record_reward
from core.flows.settings import change
from core.formats.kairos import read_reward
from tests.conformance.rewarding import Json, Rewarded, hold
from tests.conformance.test_kairos_execute_reward_stored import describe, given, rewarded
from tests.conformance.vectors import Vector, compare, exactly, load
from tests.doors.http.asking import Answered, Asking
from tests.engine import kept_in
from tests.flows.world import context_at


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = context_at(tmp_path / "a.db")
    change(made, "keep_texts", True)
    yield made
    assert queries.verify(made).clean
    made.store.close()


@contextmanager
def asking(context: Context) -> Iterator[Asking]:
    service = Service(store=context.store, learner="default", clock=context.clock, entropy=context.entropy)
    made = Asking(app=Api(service, ROUTES, listener=Listener(local=context.actor)))
    try:
        yield made
    finally:
        made.close()


def posted(context: Context, call: Json) -> Answered:
    with asking(context) as made:
        return made.post("/api/reward", call)


def is_let_in(call: Json) -> bool:
    """Whether the published schema lets a call in: an execution of KAIROS's own may say what its clients can't."""
    try:
        read_reward(json.dumps(call).encode())
    except ArmscopeError:
        return False
    return True


def asked(context: Context, call: Json) -> bytes:
    """A call's answer over HTTP; one that can't come in is told so, changes nothing, and is done from within."""
    before = queries.revision(context).revision
    found = posted(context, call)
    if is_let_in(call):
        assert found.status == 200
        return found.body
    refused(found)
    assert queries.revision(context).revision == before
    return record_reward(context, given(call))


def refused(found: Answered) -> None:
    assert (found.status, found.document["error"]) == (400, "INVALID_INPUT")
    assert set(found.document) == {"error", "message"}


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.sequence"))
def test_reward_calls_are_answered_and_stored_over_http(
    vector: Vector, context: Context, tmp_path: Path
) -> None:
    def called(payload: Json | None, calls: Sequence[Json]) -> list[Rewarded]:
        if payload is not None:
            describe(context, tmp_path, calls[0], payload)
        return [
            rewarded(context, tmp_path / f"{place}", payload, calls[: place + 1], asked)
            for place in range(len(calls))
        ]

    hold(vector, called)


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.uri"))
def test_only_a_layer_is_rewarded_over_http(vector: Vector, context: Context) -> None:
    found = posted(context, vector.input)
    if vector.error or not is_let_in(vector.input):
        refused(found)
        return
    answer = found.document
    answer["results"][0]["rated_at"] = "<ts>"
    compare(vector, answer, vector.output, (), exactly)


@pytest.mark.parametrize("vector", load("kairos_execute_reward", "executeReward.store_down"))
def test_a_store_that_is_down_is_said_over_http(vector: Vector, context: Context) -> None:
    place = kept_in(context.store)
    context.store.close()
    moved = place.rename(place.with_suffix(".away"))
    place.mkdir()
    found = posted(context, vector.input)
    assert (found.document["error"], found.status) == (vector.code, vector.status)
    context.store.close()
    place.rmdir()
    moved.rename(place)


def test_what_every_reader_would_read_otherwise_is_no_call(context: Context) -> None:
    uri = b'"uri": "kairos://layer/aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"'
    with asking(context) as made:
        for body in (
            b"{" + uri + b', "outcome": "success", "outcome": "failure"}',
            b"{" + uri + b', "outcome": "success", "score": NaN}',
            b"[]",
            b"",
        ):
            refused(made.post("/api/reward", body))
            refused(made.post("/api/export", body))
        exported = made.post("/api/export", {"all_adapters": True, "format": "trace_jsonl"})
        assert exported.status == 200
        refused(made.post("/api/export", {"all_adapters": True, "format": "skill_zip"}))
