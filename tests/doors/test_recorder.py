"""The recorder: what an environment answers is on disk before the agent has it, whoever answers and however."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import BaseModel

from core import AsyncLearner, Learner, record_episodes
from core.doors.recorder import RecordedSession
from core.errors import InvalidInput, StoreBusy
from core.formats.tool_output import digest_of_value
from core.records.answers import EpisodeMarked, StepAnswer
from core.records.episode import Episode, EpisodeOptions, Step, StepOptions
from tests.flows.test_episodes import held
from tests.worlds import context_at

Slotted = make_dataclass("Slotted", ["blocks", "reward", "finished", "cost"], slots=True)

HOSTILE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.just("\ud800") | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@dataclass
class Block:
    text: str
    type: str = "text"


@dataclass
class Output:
    """A tool output as the clients of environments have it."""

    blocks: list[Block] = field(default_factory=lambda: [Block("seen")])
    metadata: Mapping[str, Any] | None = None
    reward: object = None
    finished: object = False


class Session:
    """A session as `ors-sdk` shapes it, with answers that are known; an exception among them is raised."""

    def __init__(self, *answers: object, sid: str | None = None) -> None:
        self.answers = list(answers)
        self.sid = sid
        self.env = SimpleNamespace(name="Sums", variant=None)
        self.task = None
        self.split = "train"
        self.index = 3
        self.is_left = 0
        self.handed: list[object] = []

    def __enter__(self) -> Self:
        self.sid = "s-1"
        return self

    def __exit__(self, *problem: object) -> None:
        self.is_left += 1

    def list_tools(self) -> list[str]:
        return ["look"]

    def call_tool(self, tool_name: str, input: Mapping[str, object] = {}, **more: object) -> object:
        found = self.answers.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found


class Awaited(Session):
    """The same, awaited."""

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *problem: object) -> None:
        self.__exit__()

    async def call_tool(self, tool_name: str, input: Mapping[str, object] = {}, **more: object) -> object:
        await asyncio.sleep(0)
        return super().call_tool(tool_name, input)


def gone(name: str) -> Exception:
    """An exception of a client, which we do not import."""
    return type(name, (Exception,), {})("gone")  # type: ignore[no-any-return]  # made here


@pytest.fixture
def learner(tmp_path: Path) -> Learner:
    return Learner(context_at(tmp_path / "a.db"))


def episode(learner: Learner) -> Episode:
    (one,) = held(learner.context).values()
    assert learner.verify().clean
    return one


def rewards(learner: Learner) -> list[float | None]:
    return [step.reward for step in episode(learner).steps]


def test_two_lines_record_a_session(learner: Learner) -> None:
    asked = Session(Output(reward=0.1), Output([]), Output(reward=1.0, finished=True, metadata={"x": 1}))
    with record_episodes(asked, learner, model="m") as session:
        assert (session.sid, session.list_tools()) == ("s-1", ["look"])
        for number, name in enumerate(("look", "idle", "submit")):
            told = session.call_tool(name, {"answer": 3} if number == 2 else {})
            assert isinstance(told, Output)
            assert len(episode(learner).steps) == number + 1, "it is on disk before the agent has it"
    assert asked.is_left == 1
    one = episode(learner)
    assert (one.uid, one.environment, one.split, one.task, one.model) == (
        "sums/s-1",
        "sums",
        "train",
        "3",
        "m",
    )
    assert (one.format, one.status) == ("ors", "finished")
    assert [(step.name, step.reward, step.n_chars_in, step.n_chars_out) for step in one.steps] == [
        ("look", 0.1, 2, 4),
        ("idle", None, 2, 0),
        ("submit", 1.0, 13, 4),
    ]


def test_a_session_that_is_awaited_is_recorded_alike(tmp_path: Path) -> None:
    async def play(learner: Learner | AsyncLearner) -> None:
        asked = Awaited(*(Output(reward=0.1) for _ in range(20)), Output(reward=1.0, finished=True))
        async with record_episodes(asked, learner) as session:
            await asyncio.gather(*(session.call_tool("look") for _ in range(20)))
            await session.call_tool("submit", {"answer": 3})
        assert asked.is_left == 1

    for name in ("plain", "awaited"):
        learner = Learner(context_at(tmp_path / f"{name}.db"))
        asyncio.run(play(learner if name == "plain" else AsyncLearner(learner)))
        assert rewards(learner) == [0.1] * 20 + [1.0]


def play(recorded: RecordedSession) -> None:
    with recorded as session:
        for _ in range(2):
            session.call_tool("look")


# What is answered


class Model(BaseModel, extra="allow"):
    blocks: tuple[Block, ...] = ()
    reward: float | None = None
    finished: bool = False


@pytest.mark.parametrize(
    "told",
    [
        {"blocks": [{"text": "seen"}], "reward": 0.5, "finished": True, "cost": 1},
        Model(blocks=(Block("seen"),), reward=0.5, finished=True, cost=1),  # type: ignore[call-arg]  # more
        Slotted([Block("seen")], 0.5, True, 1),
        SimpleNamespace(blocks=[Block("seen")], reward=0.5, finished=True, cost=1),
    ],
    ids=lambda told: type(told).__name__,
)
def test_whatever_shape_an_output_has_it_is_one(learner: Learner, told: object) -> None:
    with record_episodes(Session(told), learner) as session:
        assert session.call_tool("look") is told
    (step,) = episode(learner).steps
    assert replace(step, at_ms=None) == Step(
        number=0,
        name="look",
        reward=0.5,
        finished=True,
        n_chars_in=2,
        n_chars_out=4,
        extra=("cost",),
    )


@given(name=HOSTILE, sent=HOSTILE, blocks=HOSTILE, metadata=HOSTILE, more=HOSTILE, reward=HOSTILE)
def test_whatever_is_answered_is_recorded(
    tmp_path_factory: pytest.TempPathFactory, **hostile: object
) -> None:
    learner = Learner(context_at(tmp_path_factory.mktemp("hostile") / "a.db"))
    told = {name: hostile[name] for name in ("blocks", "metadata", "reward")} | {"\ud800\0": hostile["more"]}
    name: Any = hostile["name"]
    with record_episodes(Session(told, told), learner, on_error="raise") as session:
        for _ in range(2):
            session.call_tool(name, hostile["sent"])
    steps = episode(learner).steps
    assert [step.number for step in steps] == [0, 1]
    assert steps[0].reward is None or steps[0].reward == float(hostile["reward"])  # type: ignore[arg-type]  # a number
    learner.close()


def test_equal_arguments_are_told_from_others_as_imports_tell_them(learner: Learner) -> None:
    deep: object = []
    for _ in range(5_000):
        deep = [deep]
    assert digest_of_value({"a": "\ud800"}) != digest_of_value({"a": "\ud801"})
    assert len(digest_of_value(deep)) == 32


# Where no answer comes


@pytest.mark.parametrize(
    "problem",
    [
        gone("MaxRetriesError"),
        gone("SessionTerminatedError"),
        gone("HeartbeatTimeoutError"),
        ConnectionResetError("gone"),
        TimeoutError("gone"),
        KeyboardInterrupt("gone"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_the_death_of_an_environment_leaves_what_was_answered(
    learner: Learner, problem: BaseException
) -> None:
    asked = Session(Output(reward=0.5), problem)
    with pytest.raises(type(problem)) as raised:
        play(record_episodes(asked, learner))
    assert raised.value is problem
    assert (rewards(learner), episode(learner).status, asked.is_left) == ([0.5], "unfinished", 1)


def test_a_session_of_which_nothing_was_asked_is_no_episode(learner: Learner) -> None:
    with record_episodes(Session(gone("MaxRetriesError")), learner), pytest.raises(ZeroDivisionError):
        raise ZeroDivisionError
    assert held(learner.context) == {}


def test_a_session_that_goes_on_is_one_episode(learner: Learner) -> None:
    """In another process, or by another recorder: it is not begun again, nor ended."""
    for part in range(3):
        asked = Session(Output(reward=0.1 * part), Output(), sid="s-7")
        with record_episodes(asked, learner) as session:
            session.call_tool("look")
            session.call_tool("look")
        assert asked.is_left == 0
    assert rewards(learner) == [0.0, None, 0.1, None, 0.2, None]


# Where it can't be written


class Full:
    """A learner whose disk is full for some of its writes."""

    def __init__(self, learner: Learner, *full: int) -> None:
        self._learner = learner
        self._full = set(full)
        self._n = 0

    def _write(self) -> None:
        self._n += 1
        if self._n in self._full:
            raise StoreBusy("The disk is full.", next_step="Make room.")

    def record_step(self, episode: str, **said: Unpack[StepOptions]) -> StepAnswer:
        self._write()
        return self._learner.record_step(episode, **said)

    def mark_incomplete(self, episode: str, **said: Unpack[EpisodeOptions]) -> EpisodeMarked:
        self._write()
        return self._learner.mark_incomplete(episode, **said)


@pytest.mark.parametrize(
    ("full", "kept"),
    [
        ((2,), [0.0, 2.0]),
        ((2, 3), [0.0, 2.0]),
        ((1, 2, 3, 4), [2.0]),
        ((3,), [0.0, 1.0]),
        ((3, 4), [0.0, 1.0]),
        ((1, 2, 3, 4, 5, 6), []),
    ],
)
def test_what_cannot_be_written_is_handed_on_and_said(
    learner: Learner, caplog: pytest.LogCaptureFixture, full: tuple[int, ...], kept: list[float]
) -> None:
    asked = Session(*(Output(reward=float(number)) for number in range(3)))
    with (
        caplog.at_level(logging.WARNING, "armscope"),
        record_episodes(asked, Full(learner, *full)) as session,
    ):
        told = [session.call_tool("look").reward for _ in range(3)]
    assert told == [0.0, 1.0, 2.0]
    assert (rewards(learner), episode(learner).status) == (kept, "incomplete")
    assert "The disk is full" in caplog.text


def test_whoever_wants_it_is_stopped(learner: Learner) -> None:
    asked = Session(Output(reward=0.1), Output(reward=0.2))
    with pytest.raises(StoreBusy):
        play(record_episodes(asked, Full(learner, 2), on_error="raise"))
    assert (rewards(learner), episode(learner).status, asked.is_left) == ([0.1], "incomplete", 1)


@pytest.mark.parametrize("wrong", [{"on_error": "ignore"}, {"session": object()}])
def test_what_makes_no_sense_is_refused(learner: Learner, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        record_episodes(**{"session": Session(), "learner": learner, **wrong})


# Runs, and the tool that ends a session


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_run_is_linked_whichever_ends_first(learner: Learner, is_inside: bool) -> None:
    asked = Session(Output(reward=1.0, finished=True))
    if is_inside:
        with (
            learner.run(["tool:web:search"], uid="r1") as run,
            record_episodes(asked, learner, run=run) as session,
        ):
            session.call_tool("submit")
    else:
        with record_episodes(asked, learner, run="r1") as session:
            with learner.run(["tool:web:search"], uid="r1") as run:
                run.called("search")
            session.call_tool("submit")
    assert episode(learner).runs == ("r1",)
    assert len(episode(learner).steps) == 1


def test_the_tool_that_ends_a_session_is_a_step(learner: Learner) -> None:
    class Ending(Session):
        def terminal_tool(self) -> object:
            return SimpleNamespace(name="answer", arg="text") if self.answers else None

        def call_terminal_tool(self, message: str = "") -> object:
            return "there is none"

    with record_episodes(Ending(Output(reward=1.0, finished=True)), learner) as session:
        assert session.call_terminal_tool("42").reward == 1.0
        assert session.call_terminal_tool("42") == "there is none"
    (step,) = episode(learner).steps
    assert (step.name, step.n_chars_in) == ("answer", len('{"text": "42"}'))


@pytest.mark.parametrize(
    ("environment", "task", "name", "said"),
    [
        (SimpleNamespace(name="sums", deployment_name="own/sums", variant="v1"), None, "own/sums", "3"),
        (SimpleNamespace(name="sums", deployment_name="sums"), None, "sums", "3"),
        (None, SimpleNamespace(environment_name="Other", task_spec={"id": "t9"}), "other", "t9"),
        (None, None, "ors", "3"),
    ],
)
def test_an_environment_has_its_owners_name_before_its_own(
    learner: Learner, environment: object, task: object, name: str, said: str
) -> None:
    asked = Session(Output())
    asked.env, asked.task = environment, task  # type: ignore[assignment]  # as other clients have them
    with record_episodes(asked, learner) as session:
        session.call_tool("look")
    one = episode(learner)
    assert (one.uid, one.environment, one.task) == (f"{name}/s-1", name, said)
    assert one.variant == getattr(environment, "variant", None)
