"""The promises of every adapter, to be checked with the real package and a model of its own that follows a script.

A question such as ``call read`` makes the model call that tool if it is shown, and then answer. ``insist read
write`` makes it call both in any case, ``twice read`` one in two steps, ``same read write`` two with one id, and
``garble read`` with arguments that are no JSON. ``fail`` makes it raise. The tool ``broken`` raises. Each answer has
130 tokens of input, 100 of them cached, and 7 of output.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from core import AsyncLearner, Client, Learner, open_learner
from core.errors import InvalidInput
from tests.waiting import until

NAMES: Final = ("search", "read", "write", "broken")
MODEL: Final = "large-2026-01-31"
VERBS: Final = ("call", "insist", "twice", "same", "garble")
INPUT, CACHED, OUTPUT = 130, 100, 7

Edit = Callable[[int, list[str]], dict[str, str]]
"""Of the number of a request and the names of its tools: names that are sent, each with that of its tool."""
EDITS: Final[dict[str, Edit]] = {
    "drop": lambda _, names: {name: name for name in names if name != "write"},
    "rename": lambda _, names: {"find" if name == "search" else name: name for name in names},
    "add": lambda _, names: {**{name: name for name in names}, "extra": names[0]},
    "by step": lambda at, names: {name: name for name in names if (name in NAMES[:2]) == (at == 0)},
}
Leave = Callable[[AsyncGenerator[Any]], Awaitable[None]]


@dataclass
class Shown:
    """Tools and system prompts of the calls of the model, and the tools that ran."""

    tools: list[list[str]] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    on_run: Callable[[], object] = bool

    def step(
        self, question: str, tools: list[str], system: str, results: Sequence[object]
    ) -> list[tuple[str, str, str]]:
        """Names, arguments and ids of the calls of the model now, after ``results``; [] = it answers."""
        self.tools.append(tools)
        self.results += map(str, results)
        self.systems.append(system)
        verb, *names = question.split()
        if verb == "fail":
            raise KeyError("model")
        if verb not in VERBS or (results and (verb != "twice" or len(self.results) > 1)):
            return []
        arguments = '{"q": ' if verb == "garble" else '{"q": "x"}'
        return [
            (name, arguments, "c" if verb == "same" else f"c{len(self.results)}{at}")
            for at, name in enumerate(names)
            if not name.isdigit() and (name in tools or verb != "call")
        ]

    def run(self, name: str, q: str) -> str:
        """Run a tool."""
        self.ran.append(name)
        self.on_run()
        if name == "broken":
            raise ZeroDivisionError(name)
        return f"{name} {q}"


@dataclass(frozen=True)
class Facts:
    """What is recorded of one run."""

    status: str
    session: str | None
    calls: int
    referenced: tuple[str, ...]
    model: str | None
    counts: tuple[int, int, int]
    tokens: int | None
    n_in: int


def facts_of(learner: Learner) -> list[Facts]:
    """The recorded runs, oldest first."""
    found = []
    for row in reversed(learner.runs()):
        story = learner.why(row.uid)
        run = story.facts
        rows = [one for one in run.bill if one.owner == "agent"]
        found.append(
            Facts(
                status=run.status,
                session=run.session,
                calls=run.n_calls,
                referenced=tuple(one.arm.split(":")[2] for one in story.arms if one.referenced),
                model=run.model,
                counts=(
                    sum(one.input for one in rows),
                    sum(one.cache_read for one in rows),
                    sum(one.output for one in rows),
                ),
                tokens=run.tokens,
                n_in=row.n_arms,
            )
        )
    return found


@contextmanager
def own_event_loop() -> Iterator[None]:
    """An event loop for what runs one itself and leaves it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def close(events: AsyncGenerator[Any]) -> None:
    await events.aclose()


async def interrupt(events: AsyncGenerator[Any]) -> None:
    """Throw what a loop is left by into it."""
    with suppress(asyncio.CancelledError):
        await events.athrow(asyncio.CancelledError())


async def forget(events: AsyncGenerator[Any]) -> None:
    """Leave it to the event loop, which closes what is collected or left at its end."""


LEAVING: Final[tuple[Leave, ...]] = (close, interrupt, forget)


class Contract:
    """Tests of an adapter; a subclass makes the agent.

    ``guides``: its package lets an adapter add to the prompt. ``last_is_end``: with its last event the run is over.
    ``of_tool``: what comes of a tool that raises, ``of_same_id`` may come of two calls with one id.
    """

    guides = True
    last_is_end = False
    of_tool: type[Exception] = ZeroDivisionError
    of_same_id: type[Exception] = NotImplementedError

    @abstractmethod
    async def ask(
        self, learner: Any, shown: Shown, questions: list[tuple[str, str]], **options: Any
    ) -> list[Any]:
        """Answer questions, each of a thread, all at once by the same agent with the tools `NAMES`."""

    @abstractmethod
    def events(self, learner: Any, shown: Shown, question: str) -> AsyncGenerator[Any]:
        """The events of one run, inside an event loop."""

    @abstractmethod
    async def edited(self, learner: Any, shown: Shown, edit: Edit, *, otherwise: bool) -> None:
        """Ask ``call read`` where other code changes the tools of each request, in one of two places."""

    @pytest.fixture
    def learner(self, tmp_path: Path) -> Iterator[Learner]:
        patient = {"select_s": 60.0, "record_s": 60.0, "spool": tmp_path / "spool"}
        with open_learner(tmp_path / "a.db", entropy=lambda: 7, **patient) as learner:  # type: ignore[arg-type]
            learner.change("baseline_rate", 0.0)
            yield learner

    def test_the_model_gets_the_chosen_tools(self, learner: Learner) -> None:
        shown = Shown()
        (answer,) = asyncio.run(self.ask(learner, shown, [("hello", "t")], k=2))
        assert answer == "done"
        (tools,) = shown.tools
        assert len(tools) == 2
        assert set(tools) < set(NAMES)
        left_out = set(NAMES) - set(tools)
        named = [f'"{name}"' in shown.systems[0] for name in left_out]
        assert named == [self.guides] * 2, "the guidance names them"
        assert shown.systems[0].startswith("Be kind."), "behind the agent's own instructions"
        (run,) = facts_of(learner)
        assert (run.status, run.calls, run.n_in) == ("completed", 0, 2)

    def test_a_run_has_calls_tokens_session_and_model(self, learner: Learner) -> None:
        shown = Shown()
        (answer,) = asyncio.run(self.ask(learner, shown, [("call read", "chat-7")]))
        assert (answer, shown.ran) == ("done", ["read"])
        assert shown.tools[0] == shown.tools[1], "one selection for the request"
        (run,) = facts_of(learner)
        assert (run.status, run.session, run.calls) == ("completed", "chat-7", 1)
        assert run.referenced == ("read",)
        assert run.model == MODEL
        assert (run.counts, run.tokens) == (
            (2 * (INPUT - CACHED), 2 * CACHED, 2 * OUTPUT),
            2 * (INPUT + OUTPUT),
        )
        learner.outcome(learner.runs(1, session="chat-7")[0].uid, 0)
        assert learner.runs(achieved="unsolved")[0].outcome_shown == (0, "program")
        assert learner.verify().clean

    def test_the_request_is_kept_where_texts_are(self, learner: Learner, tmp_path: Path) -> None:
        learner.change("keep_texts", True)
        asyncio.run(self.ask(learner, Shown(), [("call read", "t")]))
        learner.evaluate(learner.runs()[0].uid, "success", score=1.0, rubric="v1", rater="mara")
        learner.export_training(tmp_path / "sft.jsonl", "sft_jsonl")
        assert "call read" in (tmp_path / "sft.jsonl").read_text("utf-8")

    @pytest.mark.parametrize("awaited", [False, True])
    def test_requests_at_once_are_not_mixed(self, learner: Learner, *, awaited: bool) -> None:
        """Each asks for another tool in a thread of its own."""
        asked = [(f"call {NAMES[n % 3]} {n}", f"t{n}") for n in range(20)]
        source: Any = AsyncLearner(learner) if awaited else learner
        answers = asyncio.run(self.ask(source, Shown(), asked))
        assert answers == ["done"] * 20
        runs = facts_of(learner)
        assert {(run.session, run.referenced) for run in runs} == {
            (f"t{n}", (NAMES[n % 3],)) for n in range(20)
        }
        assert len(runs) == 20
        assert {(run.calls, run.tokens, run.status) for run in runs} == {
            (1, 2 * (INPUT + OUTPUT), "completed")
        }

    @pytest.mark.parametrize("name", NAMES[:3])
    @pytest.mark.parametrize(("verb", "n_calls"), [("insist", 1), ("twice", 2)])
    def test_a_left_out_tool_that_is_called_runs_and_stays(
        self, learner: Learner, name: str, verb: str, n_calls: int
    ) -> None:
        """It is an arm by name, of which nothing is learned; from the call on the model gets it."""
        shown = Shown()
        (answer,) = asyncio.run(self.ask(learner, shown, [(f"{verb} {name}", "t")], k=1))
        assert (answer, shown.ran) == ("done", [name] * n_calls)
        later = list(dict.fromkeys([*shown.tools[0], name]))
        assert sorted(shown.tools[-1]) == sorted(later)
        story = learner.why(learner.runs()[0].uid)
        arms = {one.arm.split(":")[2]: one for one in story.arms}
        is_left_out = name not in shown.tools[0]
        named = [f'"{name}"' in system for system in shown.systems]
        assert named == [is_left_out and self.guides] + [False] * (len(named) - 1)
        assert (arms[name].referenced, arms[name].loaded) == (True, is_left_out)
        assert {one: arm.reward for one, arm in arms.items()} == {
            one: None if one not in shown.tools[0] else float(one == name) for one in NAMES
        }
        assert (story.facts.status, story.facts.n_calls) == ("completed", n_calls)
        assert learner.verify().clean

    @pytest.mark.parametrize("otherwise", [False, True])
    @pytest.mark.parametrize("edit", EDITS)
    def test_what_other_code_changes_is_recorded_as_received(
        self, learner: Learner, edit: str, *, otherwise: bool
    ) -> None:
        shown = Shown()
        asyncio.run(self.edited(learner, shown, EDITS[edit], otherwise=otherwise))
        received = {name for tools in shown.tools for name in tools}
        assert received != set(NAMES) or edit == "by step"
        story = learner.why(learner.runs()[0].uid)
        assert {one.arm.split(":")[2] for one in story.arms if one.reward is not None} == received
        assert (story.facts.status, story.facts.n_calls) == ("completed", 1)

    def test_of_calls_at_once_only_the_excluded_one_is_not_offered(self, learner: Learner) -> None:
        learner.change("excluded_arms", ["tool:fs:read"])
        shown = Shown()
        (answer,) = asyncio.run(self.ask(learner, shown, [("insist search read write", "t")], k=1))
        assert (answer, sorted(shown.ran)) == ("done", ["search", "write"])
        assert ["not offered" in one for one in shown.results] == [False, True, False]
        (run,) = facts_of(learner)
        assert (run.calls, sorted(run.referenced)) == (3, ["search", "write"])

    def test_a_call_that_is_no_json_is_a_call(self, learner: Learner) -> None:
        asyncio.run(self.ask(learner, Shown(), [("garble read", "t")]))
        (run,) = facts_of(learner)
        assert (run.status, run.calls, run.referenced) == ("completed", 1, ("read",))

    def test_two_calls_of_one_id_are_two(self, learner: Learner) -> None:
        status = "error"
        with suppress(self.of_same_id):
            asyncio.run(self.ask(learner, Shown(), [("same read write", "t")]))
            status = "completed"
        (run,) = facts_of(learner)
        assert (run.status, run.calls, sorted(run.referenced)) == (status, 2, ["read", "write"])

    def test_an_agent_in_a_tool_has_a_run_of_its_own(self, learner: Learner) -> None:
        shown, inner = Shown(), Shown()

        def ask() -> None:
            """Ask in a thread and a loop of its own, in the same context."""
            asking = partial(asyncio.run, self.ask(learner, inner, [("call write", "inner")]))
            with ThreadPoolExecutor(1) as pool:
                pool.submit(copy_context().run, asking).result()

        shown.on_run = ask
        asyncio.run(self.ask(learner, shown, [("call read", "outer")]))
        assert [(run.session, run.referenced, run.calls, run.tokens) for run in facts_of(learner)] == [
            (session, (name,), 1, 2 * (INPUT + OUTPUT))
            for session, name in (("inner", "write"), ("outer", "read"))
        ]
        assert [len(tools) for tools in (*shown.tools, *inner.tools)] == [len(NAMES)] * 4

    @pytest.mark.parametrize("in_tool", [False, True])
    def test_a_locked_store_does_not_stop_the_agent(self, tmp_path: Path, *, in_tool: bool) -> None:
        """Locked before the choice, or from the call of a tool on; the run is recorded when it is free."""
        shown, limits = Shown(), {"select_s": 0.2, "record_s": 0.2, "spool": tmp_path / "spool"}
        with (
            open_learner(tmp_path / "a.db", **limits) as learner,  # type: ignore[arg-type]
            closing(sqlite3.connect(tmp_path / "a.db", check_same_thread=False)) as other,
        ):
            learner.change("baseline_rate", 0.0)
            lock = partial(other.execute, "BEGIN IMMEDIATE")
            if in_tool:
                shown.on_run = lock
            else:
                lock()
            (answer,) = asyncio.run(self.ask(learner, shown, [("call read", "t")], on_error="continue"))
            assert (answer, shown.ran) == ("done", ["read"])
            assert {frozenset(tools) for tools in shown.tools} == {frozenset(NAMES)}
            other.rollback()
            until(learner.runs)
            assert [run.calls for run in facts_of(learner)] == [1]

    def test_an_excluded_tool_that_is_called_is_not_offered(self, learner: Learner) -> None:
        learner.change("excluded_arms", ["tool:fs:read"])
        shown = Shown()
        (answer,) = asyncio.run(self.ask(learner, shown, [("insist read", "t")]))
        assert (answer, shown.ran) == ("done", [])
        assert ["not offered" in one for one in shown.results] == [True]
        assert all("read" not in tools for tools in shown.tools)
        (run,) = facts_of(learner)
        assert (run.status, run.calls, run.referenced, run.n_in) == ("completed", 1, (), 3)
        learner.change("excluded_arms", [])
        asyncio.run(self.ask(learner, shown, [("call read", "u")]))
        assert shown.ran == ["read"], "it runs in another session"

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.parametrize("leave", LEAVING)
    @pytest.mark.parametrize("question", ["call read", "hello"])
    def test_a_stream_is_aborted_wherever_it_is_left(
        self, learner: Learner, question: str, leave: Leave
    ) -> None:
        async def is_left_at(n: int) -> bool:
            events = self.events(learner, Shown(), question)
            n_seen = 0
            async for _ in events:
                n_seen += 1
                if n_seen == n:
                    await leave(events)
                    return True
            return False

        n = 1
        while asyncio.run(is_left_at(n)):
            n += 1
        gc.collect()  # what a package complains of belongs to this test
        assert n > 1
        left = ["aborted"] * (n - 1 - self.last_is_end) + ["completed"] * self.last_is_end
        assert [run.status for run in facts_of(learner)] == [*left, "completed"]

    def test_the_agents_own_exception_stays(self, learner: Learner) -> None:
        with pytest.raises(KeyError, match="model"):
            asyncio.run(self.ask(learner, Shown(), [("fail", "t")]))
        (run,) = facts_of(learner)
        assert (run.status, run.calls, run.n_in) == ("error", 0, 4)

    def test_a_tool_that_raises_fails_the_run(self, learner: Learner) -> None:
        with pytest.raises(self.of_tool):
            asyncio.run(self.ask(learner, Shown(), [("call broken", "t")]))
        (run,) = facts_of(learner)
        assert (run.status, run.calls) == ("error", 1)

    def test_without_a_server_the_agent_answers_with_all_tools(self, tmp_path: Path) -> None:
        with Client("http://127.0.0.1:9", spool=tmp_path) as client:
            shown = Shown()
            answers = asyncio.run(self.ask(client, shown, [(f"call read {n}", f"t{n}") for n in range(3)]))
            assert answers == ["done"] * 3
            assert {frozenset(tools) for tools in shown.tools} == {frozenset(NAMES)}
            assert client._attempts.counts().waiting == 3

    def test_wrong_options_raise_before_the_first_request(self, learner: Learner) -> None:
        for options in ({"budget_tokens": -1}, {"k": 1.5}, {"on_error": "never"}, {"uid": "always the same"}):
            with pytest.raises(InvalidInput):
                asyncio.run(self.ask(learner, Shown(), [], **options))
        assert learner.runs() == ()
