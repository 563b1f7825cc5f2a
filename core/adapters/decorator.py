"""Decorator: a function that answers one request of an agent, with its run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar, Unpack, cast

from core.adapters.request import AnyLearner, Requests
from core.doors.protocol import RunOptions
from core.errors import InvalidInput
from core.records.limits import listed

_F = TypeVar("_F", bound=Callable[..., Any])


def with_run(
    learner: AnyLearner, tools: Iterable[object] | None = None, **options: Unpack[RunOptions]
) -> Callable[[_F], _F]:
    """Decorate a function that answers one request: it gets its run as ``run``. A failure is recorded as one.

    The caller passes ``session``; the function gets it only if it has this parameter. The function may be a coroutine
    function or a generator.

    >>> import tempfile
    >>> from core import open_learner
    >>> with tempfile.TemporaryDirectory() as folder, open_learner(folder + "/runs.db") as learner:
    ...     @with_run(learner, ["tool:web:search"])
    ...     def answer(question, *, run):
    ...         run.called("search", question)
    ...         return run.arms
    ...     answer("What is new?", session="chat-7"), learner.runs()[0].n_calls
    (('tool:web:search',), 1)
    """
    offered, requests = None if tools is None else listed("tools", tools), Requests(learner, options)
    blocking, awaited = requests.blocking, requests.awaited

    def decorate(function: _F) -> _F:
        signature = inspect.signature(function)
        usual = [one for name, one in signature.parameters.items() if name != "run"]
        if len(usual) == len(signature.parameters):
            raise InvalidInput(
                f"A function with a run must have the parameter run, got {function.__qualname__}{signature}.",
                next_step="Write it like def answer(question, *, run): …",
            )

        def option(args: tuple[Any, ...], values: dict[str, Any]) -> RunOptions:
            takes = "session" in signature.parameters
            named = signature.bind_partial(*args, **values).arguments if takes else values
            session = named.get("session") if takes else values.pop("session", None)
            return cast("RunOptions", {**options} if session is None else {**options, "session": session})

        async def coroutine(*args: Any, **values: Any) -> Any:
            async with awaited.run(offered, **option(args, values)) as run:
                return await function(*args, run=run, **values)

        async def stream(*args: Any, **values: Any) -> Any:
            async with awaited.run(offered, **option(args, values)) as run:
                async for part in function(*args, run=run, **values):
                    yield part

        def generator(*args: Any, **values: Any) -> Any:
            with blocking.run(offered, **option(args, values)) as run:
                return (yield from function(*args, run=run, **values))

        def plain(*args: Any, **values: Any) -> Any:
            with blocking.run(offered, **option(args, values)) as run:
                return function(*args, run=run, **values)

        kinds = ((inspect.iscoroutinefunction, coroutine), (inspect.isasyncgenfunction, stream))
        others = ((inspect.isgeneratorfunction, generator), (callable, plain))
        answer: Any = next(one for is_kind, one in (*kinds, *others) if is_kind(function))
        answer = wraps(function)(answer)
        answer.__signature__ = signature.replace(parameters=usual)
        return cast("_F", answer)

    return decorate
