"""The recorder: a session of an agent with an environment of the OpenReward Standard → an episode, step by step.

It stands around the session of a client (`ors-sdk`, `openreward`, or anything with `call_tool`) and imports none of
them. Every tool output is on disk before the agent gets it. A call that failed is a step without a reward, one that
came after the end is kept as refused; one that was never answered, because the environment is gone, is no step, the
episode stays unfinished, and the exception passes as it is.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from threading import Lock
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, Unpack, get_args
from uuid import uuid4

from core.doors.asynchronous import AsyncLearnerProtocol
from core.doors.running import RunUnderWay
from core.errors import InvalidInput
from core.formats.identity import plain
from core.formats.ors import FINISHED, NAME, answered, called
from core.formats.tool_output import task_of
from core.records.answers import EpisodeMarked, StepAnswer
from core.records.episode import EpisodeOptions, Step, StepOptions
from core.records.limits import one_of

OnError = Literal["warn", "raise"]

_LOG: Final = logging.getLogger("armscope")
_KEPT: Final = ("name", "reward", "finished", "refused", "note", "n_chars_in", "n_chars_out", "extra")
_DIGESTS: Final = ("args_digest", "meta_digest")
_TEXTS: Final = ("asked", "answered")
_GONE: Final = frozenset((404, 410))
_UNANSWERED: Final = frozenset(
    (
        "MaxRetriesError",
        "HeartbeatTimeoutError",
        "SessionTerminatedError",
        "TransportError",
        "ClientConnectionError",
    )
)
"""Exceptions of clients, by name, that say that no answer came."""


class TakesSteps(Protocol):
    """Where steps are recorded: a `Learner`, or a `Client`."""

    def record_step(self, episode: str, **said: Unpack[StepOptions]) -> StepAnswer:
        """Record one answer of an environment."""

    def mark_incomplete(self, episode: str, **said: Unpack[EpisodeOptions]) -> EpisodeMarked:
        """Say that not everything could be written."""


class RecordedSession:
    """A session whose tool outputs are recorded; all else of it is the session's own. `record_episodes` makes it.

    ``uid`` is the episode's, once the session has begun.
    """

    def __init__(
        self,
        session: Any,  # noqa: ANN401 - of any client
        learner: TakesSteps,
        *,
        head: EpisodeOptions,
        run: str | RunUnderWay[Any] | None,
        on_error: OnError,
    ) -> None:
        self.uid = ""
        self._session = session
        self._learner = learner
        self._said = head
        self._head: EpisodeOptions = {}
        self._run = run.uid if isinstance(run, RunUnderWay) else run
        self._on_error = on_error
        self._is_ours = False
        self._lock = Lock()
        self._next: int | None = None
        self._first: StepOptions | None = None
        self._is_lossy = False
        self._tasks: set[object] = set()
        if isinstance(run, RunUnderWay):
            run.afterwards(self._link)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the session has
        return getattr(self._session, name)

    # Begin and end

    def __enter__(self) -> Self:
        self._is_ours = getattr(self._session, "sid", None) is None and hasattr(self._session, "__enter__")
        if self._is_ours:
            self._session.__enter__()
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            self._end(problem)
        finally:
            is_taken = self._is_ours and self._session.__exit__(kind, problem, trace)
        return bool(is_taken)

    async def __aenter__(self) -> Self:
        self._is_ours = getattr(self._session, "sid", None) is None and hasattr(self._session, "__aenter__")
        if self._is_ours:
            await self._session.__aenter__()
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            await asyncio.shield(asyncio.to_thread(self._end, problem))
        finally:
            is_taken = self._is_ours and await self._session.__aexit__(kind, problem, trace)
        return bool(is_taken)

    def _begin(self) -> None:
        self._head = {**_described(self._session), **self._said}
        session = getattr(self._session, "sid", None)
        identity = plain(session) if isinstance(session, str) else None
        self.uid = f"{self._head.get('environment')}/{identity or uuid4()}"
        # A session that goes on may have been recorded before: then the database says which number comes next.
        self._next = 0 if self._is_ours else None

    def _end(self, problem: BaseException | None) -> None:
        """Say what could not be said before. The agent's own exception goes before ours."""
        try:
            self._mark()
            self._link()
        except Exception as own:
            if problem is None and self._on_error == "raise":
                raise
            self._warn(own)

    # Calls

    def call_tool(self, tool_name: str, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - as the session's own
        """Call a tool; what it answers is handed on when it is on disk."""
        given = named.get("input", args[0] if args else {})
        task = named.get("task_id")
        try:
            told = self._session.call_tool(tool_name, *args, **named)
        except Exception as problem:
            self._failed(tool_name, given, problem)
            raise
        if inspect.isawaitable(told):
            return self._awaited(told, tool_name, given, task)
        self._answered(tool_name, given, told, task)
        return told

    async def _awaited(self, told: Awaitable[Any], name: str, given: object, task: object) -> object:
        try:
            found = await told
        except Exception as problem:
            await asyncio.to_thread(self._failed, name, given, problem)
            raise
        await asyncio.to_thread(self._answered, name, given, found, task)
        return found

    def call_terminal_tool(self, message: str = "") -> Any:  # noqa: ANN401 - as the session's own
        """Call the tool that ends the session, if it has one, with the agent's last message."""
        found = self._session.terminal_tool()
        if inspect.isawaitable(found):
            return self._ended_by(found, message)
        if found is None:
            return self._session.call_terminal_tool(message)
        return self.call_tool(found.name, _terminal(found, message))

    async def _ended_by(self, found: Awaitable[Any], message: str) -> object:
        tool = await found
        if tool is None:
            return await self._session.call_terminal_tool(message)
        return await self.call_tool(tool.name, _terminal(tool, message))

    # Steps

    def _answered(self, name: str, given: object, told: object, task: object) -> None:
        self._keep(lambda: answered(called(name, _plain(given)), _output(told)), task)

    def _failed(self, name: str, given: object, problem: Exception) -> None:
        """Keep a call that was answered with an error; one without an answer leaves no step."""
        if _is_answer(problem):
            note = FINISHED if getattr(problem, "reason", None) == FINISHED else "error"
            self._keep(lambda: called(name, _plain(given), note), None)  # type: ignore[arg-type]  # a StepNote

    def _keep(self, step: Callable[[], Step], task: object) -> None:
        with self._lock:
            if task is not None and task in self._tasks:
                return
            try:
                self._write(step())
            except Exception as problem:
                self._is_lossy = True
                if self._on_error == "raise":
                    raise
                self._warn(problem)
            else:
                self._tasks |= {task} - {None}
            with suppress(Exception):  # at the end it is tried again, and said
                self._mark()

    def _write(self, step: Step) -> None:
        said: StepOptions = {**self._head, **_kept(step), "number": self._next}
        if self._run is not None:
            said["run"] = self._run
        told = self._learner.record_step(self.uid, **said)
        self._next = told.number + 1
        if self._first is None:
            self._first = {**said, "number": told.number}

    def _mark(self) -> None:
        """Mark the episode where a step is missing in it."""
        if self._is_lossy:
            self._learner.mark_incomplete(self.uid, **self._head)
            self._is_lossy = False

    def _link(self) -> None:
        """Name the run once more, for it may be recorded after the steps; a step that is known changes nothing."""
        if self._run is not None and self._first is not None:
            self._learner.record_step(self.uid, **self._first)

    def _warn(self, problem: Exception) -> None:
        _LOG.warning("Episode %s can't be recorded as it goes: %s", self.uid, problem)


def record_episodes(
    session: Any,  # noqa: ANN401 - of any client
    learner: TakesSteps | AsyncLearnerProtocol,
    *,
    environment: str | None = None,
    task: str | None = None,
    split: str | None = None,
    variant: str | None = None,
    model: str | None = None,
    run: str | RunUnderWay[Any] | None = None,
    on_error: OnError = "warn",
) -> RecordedSession:
    """Record what an environment pays in a session, as it goes.

    It stands around the session: ``with record_episodes(session, learner) as session:``. The session is begun and
    ended by it, unless it has begun already. ``async with`` is the same for a session whose ``call_tool`` is awaited.

    Parameters
    ----------
    session
        What `ORS(url).environments.get(name).session(split=, index=)` of `ors-sdk` gives, the same of `openreward`,
        or anything else with ``call_tool(name, input)`` that answers ``{blocks, reward, finished, metadata}``.
    learner
        A `Learner`, an `AsyncLearner`, or a `Client` of a server.
    environment, task, split, variant
        Instead of what the session says of itself.
    model, run
        Whose actions are paid for, and the run (its uid, or a `RunUnderWay`) in which they were taken.
    on_error
        Where a step can't be written: ``warn`` hands it on, says so in the log ``armscope`` and marks the episode as
        incomplete; ``raise`` raises, so that the agent does not get what is not recorded.

    Raises
    ------
    InvalidInput
        For what has no ``call_tool``, and another ``on_error``.

    >>> import tempfile
    >>> from core import open_learner
    >>> class Sums:
    ...     sid = "s-1"
    ...     def call_tool(self, name, input={}):
    ...         return {"blocks": [], "reward": 1.0, "finished": True}
    >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/a.db") as learner:
    ...     with record_episodes(Sums(), learner, environment="sums") as session:
    ...         paid = session.call_tool("submit", {"answer": 3})
    ...     [(seen.environment, seen.n, seen.average.value) for seen in learner.episodes()]
    [('sums', 1, 1.0)]
    """
    one_of("on_error", on_error, get_args(OnError))
    if not hasattr(session, "call_tool"):
        raise InvalidInput(
            f"A session must have call_tool, got {type(session).__name__}.",
            next_step="Give the session itself, as in ORS(url).environments.get(name).session(split=…, index=…).",
        )
    said = {"environment": environment, "task": task, "split": split, "variant": variant, "model": model}
    head: Any = {name: value for name, value in said.items() if value is not None}
    blocking: TakesSteps = getattr(learner, "learner", learner)  # an asynchronous one records in threads
    return RecordedSession(session, blocking, head=head, run=run, on_error=on_error)


def _described(session: object) -> EpisodeOptions:
    """What a session says of itself: the sessions that are not awaited keep it in one that is."""
    inner = getattr(session, "_async", session)
    environment, task = getattr(inner, "env", None), getattr(inner, "task", None)
    found: EpisodeOptions = {"environment": _environment(environment, task), "format": NAME}
    names = {
        "task": task_of(getattr(task, "task_spec", None), getattr(inner, "index", None)),
        "split": _text(getattr(inner, "split", None)),
        "variant": _text(getattr(environment, "variant", None)),
    }
    return {**found, **{name: value for name, value in names.items() if value is not None}}  # type: ignore[typeddict-item]


def _environment(environment: object, task: object) -> str:
    """Its name, with its owner's where it has one; else as it stands in paths."""
    whole = _text(getattr(environment, "deployment_name", None))
    if whole is not None and "/" in whole:
        return whole
    name = (
        _text(getattr(task, "environment_name", None)) or _text(getattr(environment, "name", None)) or whole
    )
    return (name or NAME).lower()


def _text(value: object) -> str | None:
    return plain(value) if isinstance(value, str) else None


def _kept(step: Step) -> StepOptions:
    """What is said of a step, without what is as usual."""
    usual = Step(number=0)
    found: Any = {
        name: value
        for name in (*_KEPT, *_DIGESTS, *_TEXTS)
        if (value := getattr(step, name)) != getattr(usual, name)
    }
    told: StepOptions = found
    return told


def _plain(value: object) -> object:
    """Arguments as they are sent; None for what can't be."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None


def _output(told: object) -> Mapping[str, Any]:
    """A tool output as it is sent, be it a mapping, a dataclass, or another object with these members."""
    found = _members(told)
    blocks = found.get("blocks")
    if isinstance(blocks, list | tuple):
        found["blocks"] = [{"text": _members(block).get("text")} for block in blocks]
    if found.get("metadata") is not None:
        found["metadata"] = _plain(found["metadata"])
    return found


def _members(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(name): one for name, one in value.items()}
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    own = getattr(value, "__dict__", {})
    return {**own, **(getattr(value, "model_extra", None) or {})}


def _terminal(tool: Any, message: str) -> dict[str, str]:  # noqa: ANN401 - of any client
    return {} if tool.arg is None else {tool.arg: message}


def _is_answer(problem: Exception) -> bool:
    """Whether an exception tells what an environment answered, rather than that it didn't."""
    causes: list[BaseException | None] = [problem, problem.__cause__, problem.__context__]
    return not any(
        isinstance(one, OSError | TimeoutError)
        or getattr(one, "status", None) in _GONE
        or any(kind.__name__ in _UNANSWERED for kind in type(one).__mro__)
        for one in causes
        if one is not None
    )
