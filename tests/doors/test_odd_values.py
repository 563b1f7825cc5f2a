"""Odd values: nothing that an agent passes to its run inside the block raises, or costs the run its record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import AsyncLearner, Client, Learner, LearnerProtocol, RunUnderWay, open_learner
from core.adapters.request import Request, Requests
from core.doors.attempts import OnError
from core.errors import InvalidInput
from core.records.bill import Owner
from tests.doors.http.test_served import served
from tests.waiting import until
from tests.worlds import context_at

TOOLS: list[Any] = [{"name": "search", "input_schema": {}}, "skill:review:main"]
NAMED = ["tool:web:fetch", "skill:pdf:main"]
PATIENT: dict[str, Any] = {"select_s": 60, "record_s": 60}
VERBS = ("said", "asked", "used", "called", "loaded", "from_messages", "afterwards")

names = st.sampled_from(
    [
        *("role", "type", "content", "tool_calls", "function", "id", "call_id", "output", "kind", "parts"),
        *("text", "choices", "message", "name", "arguments", "input", "usage", "usage_metadata", "model"),
        *("part_kind", "input_tokens", "output_tokens", "total_tokens", "prompt_tokens_details"),
        *("cached_tokens", "cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"),
        *("tool_name", "args"),
    ]
)
words = st.sampled_from(
    [
        *("assistant", "user", "tool", "ai", "tool_use", "tool_result", "text", "x_call", "x_call_output"),
        "response",
    ]
)


class Broken:
    """A value whose members, text and truth can't be read."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)

    def __bool__(self) -> bool:
        raise RuntimeError("bool")

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    __hash__ = None  # type: ignore[assignment]


def circle() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.binary(max_size=3),
    st.text(st.characters(exclude_categories=()), max_size=5),
    st.sampled_from(
        ["", " ", "\0", "\ud83d", "x" * 5_000, "search", "tool:web:fetch", "tool:fs:Read", -1, 10**12]
    ),
    st.builds(Broken),
    st.builds(object),
    st.builds(circle),
    st.just(print),
    st.builds(lambda: 10**5_000),
)
odd = st.recursive(
    plain | words,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(names, inner, max_size=5),
        st.dictionaries(names, inner, max_size=5).map(lambda members: SimpleNamespace(**members)),
        st.dictionaries(st.tuples(st.integers(0, 1)), inner, max_size=1),
    ),
    max_leaves=8,
)
parts = st.dictionaries(
    st.sampled_from(["input", "output", "total", "cache_read", "model", "foo"]), odd, max_size=3
)
uses = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(VERBS), st.tuples(odd), st.just({})),
        st.tuples(st.just("called"), st.tuples(odd, odd), st.just({})),
        st.tuples(st.just("used"), st.tuples(), parts),
        st.tuples(st.sampled_from(VERBS), st.lists(odd, max_size=3).map(tuple), st.just({})),
    ),
    max_size=6,
)


def agent(run: RunUnderWay[Any], drawn: list[tuple[str, tuple[object, ...], dict[str, object]]]) -> None:
    run.called("search")
    for verb, args, named in drawn:
        getattr(run, verb)(*args, **named)


@pytest.fixture(scope="module", params=["file", "server", "dead server"])
def learner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LearnerProtocol]:
    folder = tmp_path_factory.mktemp("odd")
    if request.param == "dead server":
        with Client("http://127.0.0.1:1", spool=folder) as client:
            yield client
        return
    context = context_at(folder / "a.db")
    with closing(Learner(context)) as inside:
        inside.change("keep_texts", True)
        if request.param == "file":
            with open_learner(folder / "a.db", spool=folder, **PATIENT) as learner:
                yield learner
        else:
            with served(context) as url, Client(url, spool=folder, **PATIENT) as client:
                yield client
        assert inside.verify().clean


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(drawn=uses)
def test_no_value_raises_in_the_block_or_costs_the_run(
    learner: LearnerProtocol, drawn: list[tuple[str, tuple[object, ...], dict[str, object]]]
) -> None:
    with learner.run(TOOLS, named=NAMED) as run:
        agent(run, drawn)
    is_away = learner._location().endswith(":1")
    assert run.outcome == ("spooled" if is_away else "recorded"), caught(learner)
    assert [call.name for call in run.calls][:1] == ["search"]


def caught(learner: LearnerProtocol) -> list[str | None]:
    spool = learner._attempts.spool
    return [item.header.reason for item in map(spool.read, spool.rejected()) if item is not None]


@given(drawn=uses)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_none_raises_in_an_awaited_block(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, tuple[object, ...], dict[str, object]]]
) -> None:
    async def awaited() -> str | None:
        path = tmp_path_factory.getbasetemp() / "odd-awaited.db"
        async with (
            AsyncLearner.open(path, spool=path.parent / "odd-spool", **PATIENT) as learner,
            learner.run(TOOLS, named=NAMED) as run,
        ):
            agent(run, drawn)
        return run.outcome

    assert asyncio.run(awaited()) == "recorded"


def test_none_adds_nothing_and_is_no_mistake(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An OpenAI message with calls has no content."""
    with open_learner(tmp_path / "a.db", **PATIENT) as learner:
        words: tuple[OnError, ...] = ("continue", "raise")
        for on_error in words:
            with learner.run(TOOLS, on_error=on_error) as run:
                for verb in VERBS:
                    getattr(run, verb)(None)
                run.used(input=None, output=None)
                run.called("search", None)
            assert (run.texts, run.prompt, run.usage, run.loads, run.later) == ([], None, None, [], [])
            assert [(call.name, call.metadata) for call in run.calls] == [("search", "")]
            assert (run.ignored, run.outcome) == (0, "recorded")
    assert caplog.messages == []


WRONG: list[tuple[str, Callable[[RunUnderWay[Any]], None]]] = [
    ("said", lambda run: run.said(b"bytes")),  # type: ignore[arg-type]
    ("asked", lambda run: run.asked(7)),  # type: ignore[arg-type]
    ("used", lambda run: run.used(input=-1)),
    ("used", lambda run: run.used(input=10**12, output=1)),
    ("used", lambda run: run.used({"tokens": 3})),
    ("called", lambda run: run.called("n" * 5_000)),
    ("called", lambda run: run.called(["search"])),  # type: ignore[arg-type]
    ("loaded", lambda run: run.loaded("skill:never:named")),
    ("afterwards", lambda run: run.afterwards(7)),  # type: ignore[arg-type]
    ("from_messages", lambda run: run.from_messages([Broken()])),
]


@pytest.mark.parametrize(("verb", "wrong"), WRONG)
def test_a_bad_value_is_left_out_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, verb: str, wrong: Callable[[RunUnderWay[Any]], None]
) -> None:
    caplog.set_level(logging.WARNING, "armscope")
    with open_learner(tmp_path / "a.db", **PATIENT) as learner:
        for uid in ("a", "b"):
            with learner.run(TOOLS, uid=uid, named=NAMED) as run:
                run.called("search")
                run.used(input=900, output=120)
                wrong(run)
                run.said("done")
            assert (run.outcome, run.ignored, run.texts) == ("recorded", 1, ["done"])
            assert [call.name for call in run.calls] == ["search"]
            assert learner.why(uid).facts.tokens == 1020
        with learner.run(TOOLS, named=NAMED, on_error="raise") as run:
            run.called("search")
            with pytest.raises((InvalidInput, RuntimeError)):
                wrong(run)
        assert len(learner.runs()) == 3
    assert len([one for one in caplog.messages if f"run.{verb}" in one]) == 1


def test_what_is_readable_of_messages_is_read(tmp_path: Path) -> None:
    """Each bad part is left out alone."""
    reply = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me see \ud83d"},
            {"type": "tool_use", "name": "n" * 5_000, "input": {}},
            {"type": "tool_use", "name": "search", "input": circle()},
        ],
        "usage": {"input_tokens": -1},
    }
    with open_learner(tmp_path / "a.db", **PATIENT) as learner:
        learner.change("keep_texts", True)
        with learner.run(TOOLS) as run:
            run.from_messages([{"role": "user", "content": "News\0?"}, Broken(), reply])
        assert (run.prompt, run.texts, run.ignored) == ("News\ufffd?", ["Let me see ?"], 3)
        assert [(call.name, call.metadata) for call in run.calls] == [("search", "")]
        assert run.outcome == "recorded"


def test_arms_by_name_are_checked_before_the_block(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_learner(tmp_path / "a.db", **PATIENT) as learner:
        with pytest.raises(InvalidInput, match="once"):
            learner.run(TOOLS, named=["skill:pdf:main", "skill:pdf:main"])
        learner.change("seed_arms", [])
        learner.change("baseline_rate", 0)
        with learner.run(["tool:a:a", "tool:b:b"], k=1, named=["tool:a:a", "tool:b:b"]) as run:
            run.called("a")
        assert (run.outcome, run.ignored) == ("recorded", 0)
    assert any("learner.run" in one for one in caplog.messages)


@settings(deadline=None)
@given(session=odd, messages=st.lists(st.tuples(odd, st.sampled_from(["agent", "sub-agent"])), max_size=4))
def test_a_frameworks_odd_values_cost_no_run(
    learner: LearnerProtocol, session: object, messages: list[tuple[object, Owner]]
) -> None:
    counts = learner._attempts.counts()
    request = Request(Requests(learner, {}), session=session)
    assert request.tools(TOOLS[:1])
    for message, owner in messages:
        request.read(message, owner=owner)
    run = request._run
    request.end()
    assert run is not None
    assert run.outcome in {"recorded", "spooled"}
    assert learner._attempts.counts().rejected == counts.rejected


def test_texts_beyond_a_body_are_recorded_and_stop_no_other_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The detectors read them here then; the server never seems to be away."""
    context = context_at(tmp_path / "a.db")
    with closing(Learner(context)) as inside:
        inside.change("keep_texts", True)
        with served(context) as url, Client(url, spool=tmp_path / "spool", **PATIENT) as client:
            client._attempts._read_settings()
            with client.run(TOOLS, uid="large") as run:
                run.called("search")
                run.asked("\n" * 5_000_000 + "x" * 5_000_000)
                run.said("x y " * 2_000_000 + "review")
            assert run.outcome == "spooled"
            until(lambda: client._attempts.counts().waiting == 0)
            with client.run(TOOLS) as run:
                run.called("search")
            assert (run.outcome, client._attempts.counts().rejected) == ("recorded", 0)
            client._attempts.spool.add("huge", b" " * (5 << 20), now_ms=0)
            client._attempts.send()
            assert msgspec.structs.astuple(client._attempts.counts()) == (0, 1, 0)
        used = {one.arm: one.referenced for one in inside.why("large").arms}
        assert used == {"tool:web:search": True, "skill:review:main": True}
        assert inside.verify().clean
    assert not any("does not answer" in one for one in caplog.messages)
