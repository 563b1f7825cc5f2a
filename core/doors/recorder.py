"""Recorder: a session with an environment of the OpenReward Standard, recorded as an episode, step by step.

It wraps the session of a client (`ors-sdk`, `openreward`, or any object with `call_tool`) and imports none of them.
Every tool output is on disk before the agent gets it. A failed call is a step without a reward. A call after the end
is stored as refused. A call without an answer, because the environment is gone, is no step: the episode stays
unfinished, and the exception propagates.
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
from typing import Any, Final, Literal, Protocol, Self, Unpack, cast, get_args
from uuid import uuid4

from core.doors.asynchronous import AsyncLearnerProtocol
from core.doors.running import RunUnderWay
from core.errors import InvalidInput
from core.formats.ors import FINISHED, NAME, answered, called
from core.formats.strict import plain
from core.formats.tool_output import task_of
from core.records.answers import EpisodeMarked, StepAnswer
from core.records.episode import EpisodeOptions, Step, StepOptions
from core.records.limits import one_of

OnError = Literal["warn", "raise"]

_LOG: Final = logging.getLogger("armscope")
_GONE_STATUSES: Final = frozenset((404, 410))
_NO_ANSWER: Final = frozenset(
    (
        "MaxRetriesError",
        "HeartbeatTimeoutError",
        "SessionTerminatedError",
        "TransportError",
        "ClientConnectionError",
    )
)
"""Exceptions of clients, by name, for a call without an answer."""


class StepRecorder(Protocol):
    """Recorder of steps: a `Learner` or a `Client`."""

    def record_step(self, episode: str, **options: Unpack[StepOptions]) -> StepAnswer:
        """Record one answer of an environment."""

    def mark_incomplete(self, episode: str, **options: Unpack[EpisodeOptions]) -> EpisodeMarked:
        """Mark an episode as incomplete."""


class RecordedSession:
    """A session whose tool outputs are recorded; all other members are the session's own.

    `record_episodes` makes it. ``uid`` is the episode's, once the session has begun.
    """

    def __init__(
        self,
        session: Any,  # noqa: ANN401 - of any client
        learner: StepRecorder,
        *,
        head: EpisodeOptions,
        run: str | RunUnderWay[Any] | None,
        on_error: OnError,
    ) -> None:
        self.uid = ""
        self._session = session
        self._learner = learner
        self._options = head
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

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any member of the session
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
        self._head = {**_described(self._session), **self._options}
        session = getattr(self._session, "sid", None)
        identity = plain(session) if isinstance(session, str) else None
        self.uid = f"{self._head.get('environment')}/{identity or uuid4()}"
        # A session that continues may have been recorded before: then the database has the next number.
        self._next = 0 if self._is_ours else None

    def _end(self, problem: BaseException | None) -> None:
        """Mark and link the episode if that failed before; the agent's own exception takes precedence."""
        try:
            self._mark()
            self._link()
        except Exception as own:
            if problem is None and self._on_error == "raise":
                raise
            self._warn(own)

    # Calls

    def call_tool(self, tool_name: str, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - as the session's own
        """Call a tool and return its answer once it is on disk."""
        arguments = named.get("input", args[0] if args else {})
        task = named.get("task_id")
        try:
            answer = self._session.call_tool(tool_name, *args, **named)
        except Exception as problem:
            self._failed(tool_name, arguments, problem)
            raise
        if inspect.isawaitable(answer):
            return self._awaited(answer, tool_name, arguments, task)
        self._answered(tool_name, arguments, answer, task)
        return answer

    async def _awaited(self, answer: Awaitable[Any], name: str, arguments: object, task: object) -> object:
        try:
            output = await answer
        except Exception as problem:
            await asyncio.to_thread(self._failed, name, arguments, problem)
            raise
        await asyncio.to_thread(self._answered, name, arguments, output, task)
        return output

    def call_terminal_tool(self, message: str = "") -> Any:  # noqa: ANN401 - as the session's own
        """Call the tool that ends the session, if it has one, with the agent's last message."""
        tool = self._session.terminal_tool()
        if inspect.isawaitable(tool):
            return self._ended_by(tool, message)
        if tool is None:
            return self._session.call_terminal_tool(message)
        return self.call_tool(tool.name, _terminal(tool, message))

    async def _ended_by(self, terminal: Awaitable[Any], message: str) -> object:
        tool = await terminal
        if tool is None:
            return await self._session.call_terminal_tool(message)
        return await self.call_tool(tool.name, _terminal(tool, message))

    # Steps

    def _answered(self, name: str, arguments: object, output: object, task: object) -> None:
        self._record(lambda: answered(called(name, _plain(arguments)), _output(output)), task)

    def _failed(self, name: str, arguments: object, problem: Exception) -> None:
        """Record a call that was answered with an error; a call without an answer is no step."""
        if _is_answer(problem):
            note = FINISHED if getattr(problem, "reason", None) == FINISHED else "error"
            self._record(lambda: called(name, _plain(arguments), note), None)  # type: ignore[arg-type]  # a StepNote

    def _record(self, step: Callable[[], Step], task: object) -> None:
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
            with suppress(Exception):  # the end tries again, and reports it
                self._mark()

    def _write(self, step: Step) -> None:
        options: StepOptions = {**self._head, **_step_options(step), "number": self._next}
        if self._run is not None:
            options["run"] = self._run
        answer = self._learner.record_step(self.uid, **options)
        self._next = answer.number + 1
        if self._first is None:
            self._first = {**options, "number": answer.number}

    def _mark(self) -> None:
        """Mark the episode as incomplete if a step is missing."""
        if self._is_lossy:
            self._learner.mark_incomplete(self.uid, **self._head)
            self._is_lossy = False

    def _link(self) -> None:
        """Send the first step again with its run, which may be recorded after the steps; a repeat changes nothing."""
        if self._run is not None and self._first is not None:
            self._learner.record_step(self.uid, **self._first)

    def _warn(self, problem: Exception) -> None:
        _LOG.warning("Episode %s can't be recorded as it goes: %s", self.uid, problem)


def record_episodes(
    session: Any,  # noqa: ANN401 - of any client
    learner: StepRecorder | AsyncLearnerProtocol,
    *,
    environment: str | None = None,
    task: str | None = None,
    split: str | None = None,
    variant: str | None = None,
    model: str | None = None,
    run: str | RunUnderWay[Any] | None = None,
    on_error: OnError = "warn",
) -> RecordedSession:
    """Record the rewards of an environment in a session, step by step.

    It wraps the session: ``with record_episodes(session, learner) as session:``. It begins and ends the session,
    unless that has begun already. ``async with`` is for a session whose ``call_tool`` is awaited.

    Parameters
    ----------
    session
        The result of `ORS(url).environments.get(name).session(split=, index=)` of `ors-sdk` or `openreward`, or any
        object with ``call_tool(name, input)`` that returns ``{blocks, reward, finished, metadata}``.
    learner
        A `Learner` or a `Client`, called or awaited.
    environment, task, split, variant
        Values that replace those of the session.
    model, run
        The model that acts, and the run of its actions (a uid or a `RunUnderWay`).
    on_error
        For a step that cannot be written: ``warn`` returns it, warns in the log ``armscope`` and marks the episode as
        incomplete; ``raise`` raises, so that the agent gets recorded answers only.

    Raises
    ------
    InvalidInput
        The session has no ``call_tool``, or ``on_error`` is another word.

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
            next_step="Pass the session itself, as in ORS(url).environments.get(name).session(split=…, index=…).",
        )
    values = {"environment": environment, "task": task, "split": split, "variant": variant, "model": model}
    head: Any = {name: value for name, value in values.items() if value is not None}
    blocking = cast("StepRecorder", getattr(learner, "learner", learner))
    return RecordedSession(session, blocking, head=head, run=run, on_error=on_error)


def _described(session: object) -> EpisodeOptions:
    """Return the description of a session; one that is not awaited holds it in an awaited one."""
    inner = getattr(session, "_async", session)
    environment, task = getattr(inner, "env", None), getattr(inner, "task", None)
    options: EpisodeOptions = {"environment": _environment(environment, task), "format": NAME}
    names = {
        "task": task_of(getattr(task, "task_spec", None), getattr(inner, "index", None)),
        "split": _text(getattr(inner, "split", None)),
        "variant": _text(getattr(environment, "variant", None)),
    }
    return {**options, **{name: value for name, value in names.items() if value is not None}}  # type: ignore[typeddict-item]


def _environment(environment: object, task: object) -> str:
    """Return the name of an environment, with its owner's name if it has one; else as in paths."""
    deployment = _text(getattr(environment, "deployment_name", None))
    if deployment is not None and "/" in deployment:
        return deployment
    name = (
        _text(getattr(task, "environment_name", None))
        or _text(getattr(environment, "name", None))
        or deployment
    )
    return (name or NAME).lower()


def _text(value: object) -> str | None:
    return plain(value) if isinstance(value, str) else None


def _step_options(step: Step) -> StepOptions:
    usual = Step(number=0)
    values: Any = {
        name: value
        for name in StepOptions.__annotations__.keys() & {*Step.__struct_fields__}
        if (value := getattr(step, name)) != getattr(usual, name)
    }
    options: StepOptions = values
    return options


def _plain(value: object) -> object:
    """Return arguments as JSON values; None for other ones."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None


def _output(answer: object) -> Mapping[str, Any]:
    """Return a tool output as a mapping; it may be a dataclass or another object with these members."""
    members = _members(answer)
    blocks = members.get("blocks")
    if isinstance(blocks, list | tuple):
        members["blocks"] = [{"text": _members(block).get("text")} for block in blocks]
    if members.get("metadata") is not None:
        members["metadata"] = _plain(members["metadata"])
    return members


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
    """Return whether an exception is an answer of the environment, and no failure to reach it."""
    causes: list[BaseException | None] = [problem, problem.__cause__, problem.__context__]
    return not any(
        isinstance(one, OSError | TimeoutError)
        or getattr(one, "status", None) in _GONE_STATUSES
        or any(kind.__name__ in _NO_ANSWER for kind in type(one).__mro__)
        for one in causes
        if one is not None
    )
