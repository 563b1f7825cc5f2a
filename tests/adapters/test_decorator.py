"""Functions that answer one request: of every kind, with their sessions, and what they raise."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core import AsyncLearner, Client, Learner, RunUnderWay, open_learner, with_run
from core.errors import InvalidInput
from tests.worlds import put_empty_database

TOOLS = ["tool:web:search", "tool:fs:Read"]
AnyRun = RunUnderWay[Any]


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    put_empty_database(tmp_path / "a.db")
    with open_learner(tmp_path / "a.db", entropy=lambda: 1, select_s=60, record_s=60) as learner:
        yield learner


def plain(question: str, *, run: AnyRun) -> str:
    """Answer."""
    run.called("search")
    run.achieved(0.25)
    if question == "fail":
        raise KeyError(question)
    return f"{question}!"


async def coroutine(question: str, *, run: AnyRun) -> str:
    return plain(question, run=run)


def generator(question: str, *, run: AnyRun) -> Iterator[str]:
    yield plain(question, run=run)
    yield ""


async def stream(question: str, *, run: AnyRun) -> AsyncIterator[str]:
    yield plain(question, run=run)
    yield ""


async def _all(parts: AsyncIterator[str]) -> str:
    return "".join([part async for part in parts])


WAYS: dict[str, tuple[Callable[..., Any], Callable[[Any], str]]] = {
    "plain": (plain, str),
    "coroutine": (coroutine, asyncio.run),
    "generator": (generator, "".join),
    "stream": (stream, lambda answer: asyncio.run(_all(answer))),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_function_is_recorded(way: str, learner: Learner) -> None:
    function, result = WAYS[way]
    answer = with_run(learner, TOOLS, k=1)(function)
    assert result(answer("Hi", session="s1")) == "Hi!"
    with pytest.raises(KeyError, match="fail"):
        result(answer("fail", session="s2"))
    failed, done = (learner.why(row.uid) for row in learner.runs())
    assert (done.facts.status, done.facts.session, done.n_in, done.facts.n_calls) == ("completed", "s1", 1, 1)
    assert (failed.facts.status, failed.facts.session) == ("error", "s2")
    assert {row.outcome_shown for row in learner.runs()} == {(0.25, "program")}


def test_the_function_stays_itself_but_for_the_run(learner: Learner) -> None:
    answer = with_run(learner, TOOLS)(plain)
    assert (answer.__name__, answer.__doc__) == ("plain", "Answer.")
    assert list(inspect.signature(answer).parameters) == ["question"]


def test_a_function_may_take_the_session_itself(learner: Learner) -> None:
    @with_run(learner, TOOLS)
    def answer(question: str, session: str, *, run: AnyRun) -> str:
        return session

    assert answer("Hi", "s1") == answer("Hi", session="s1") == "s1"  # type: ignore[call-arg]
    assert {learner.why(row.uid).facts.session for row in learner.runs()} == {"s1"}


def test_a_generator_that_is_left_is_aborted(learner: Learner) -> None:
    parts: Any = with_run(learner, TOOLS)(generator)("Hi")  # type: ignore[call-arg]
    assert next(parts) == "Hi!"
    parts.close()
    assert [row.status for row in learner.runs()] == ["aborted"]


def test_requests_at_once_are_not_mixed(learner: Learner) -> None:
    @with_run(AsyncLearner(learner), TOOLS)
    async def answer(name: str, *, run: AnyRun) -> None:
        await asyncio.sleep(0)
        run.called(name)

    async def all_at_once() -> None:
        calls: Any = answer
        await asyncio.gather(*(calls(("search", "Read")[n % 2], session=f"s{n}") for n in range(20)))

    asyncio.run(all_at_once())
    stories = [learner.why(row.uid) for row in learner.runs()]
    used = {(story.facts.session, *(one.arm for one in story.arms if one.referenced)) for story in stories}
    assert used == {(f"s{n}", TOOLS[n % 2]) for n in range(20)}


def test_without_a_server_the_function_answers(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:9", spool=tmp_path) as client:
        answer: Any = with_run(client, TOOLS)(plain)
        assert answer("Hi") == "Hi!"
        assert client._attempts.counts().waiting == 1


def test_wrong_use_raises_at_once(learner: Learner) -> None:
    with pytest.raises(InvalidInput, match="must have the parameter run"):
        with_run(learner, TOOLS)(lambda question: question)
    for options in ({"k": -1}, {"uid": "the same"}):
        with pytest.raises(InvalidInput):
            with_run(learner, TOOLS, **options)
    with pytest.raises(TypeError):
        with_run(learner, TOOLS, colour="red")  # type: ignore[call-arg]
