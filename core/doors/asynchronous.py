"""Asynchronous: the operations of a learner for an event loop; each one runs in a thread, off the loop."""

# mypy: disable-error-code="misc"
# The types of the members of the protocol follow from those of `LearnerProtocol`.

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from types import TracebackType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from core.doors.protocol import LearnerProtocol, RunOptions, run_uid
from core.doors.running import RunUnderWay
from core.doors.verbs import Awaited, Methods, Verb
from core.records.learner import LearnerSettings
from core.records.run_story import RunStory

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")

_THREADS: Final = 8
"""More would only wait for each other: a database has one writer at a time."""
_RUN_THREADS: Final = 32
"""Requests of agents have threads of their own, so that none waits for an import."""


def _awaited(
    operation: Callable[Concatenate[LearnerProtocol, _P], _R],
) -> Callable[Concatenate[AsyncLearnerProtocol, _P], Coroutine[Any, Any, _R]]:
    @wraps(operation)
    async def awaited(self: AsyncLearnerProtocol, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self.in_thread(partial(operation, self.learner, *args, **kwargs))

    return awaited


class AsyncLearnerProtocol(Methods, Awaited):
    """`LearnerProtocol` with every operation awaited: the same parameters, answers and errors."""

    def __init__(self, learner: LearnerProtocol) -> None:
        self.learner = learner
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="armscope")
        self._run_threads = ThreadPoolExecutor(_RUN_THREADS, thread_name_prefix="armscope-run")

    @classmethod
    def _method(cls, operation: Verb[..., Any]) -> Callable[..., Any]:
        return _awaited(LearnerProtocol._method(operation))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, {self.learner._location()}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def in_thread(self, work: Callable[[], _R], *, of_run: bool = False) -> _R:
        """Run a function in one of the learner's threads; a step of a request in one that waits for nothing else."""
        if self.learner._is_closed:
            return work()  # it raises `Closed`
        threads = self._run_threads if of_run else self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    async def close(self) -> None:
        """Close the database or the connections; every later call raises `Closed`."""
        await self.in_thread(self.learner.close)
        self._threads.shutdown(wait=False)
        self._run_threads.shutdown(wait=False)

    @property
    def name(self) -> str:
        """The name of the learner."""
        return self.learner.name

    async def settings(self) -> LearnerSettings:
        """Return the active settings."""
        return await self.in_thread(lambda: self.learner.settings)

    @overload
    def run(self, arms: str, /) -> Coroutine[Any, Any, RunStory]: ...

    @overload
    def run(self, arms: None = None, /, **options: Unpack[RunOptions]) -> AsyncRun[str]: ...

    @overload
    def run(self, arms: Iterable[_T], /, **options: Unpack[RunOptions]) -> AsyncRun[_T]: ...

    def run(
        self, arms: Iterable[_T] | str | None = None, /, **options: Unpack[RunOptions]
    ) -> AsyncRun[_T] | AsyncRun[str] | Coroutine[Any, Any, RunStory]:
        """Answer one request, as `LearnerProtocol.run`: ``async with learner.run(tools) as run``."""
        if isinstance(arms, str):
            return self.why(run_uid(arms))
        if arms is None:
            return AsyncRun(self, self.learner.run(**options))
        return AsyncRun(self, self.learner.run(arms, **options))

    select = _awaited(LearnerProtocol.select)
    record = _awaited(LearnerProtocol.record)
    record_runs = _awaited(LearnerProtocol.record_runs)
    trial = _awaited(LearnerProtocol.trial)
    compare = _awaited(LearnerProtocol.compare)
    import_files = _awaited(LearnerProtocol.import_files)
    export = _awaited(LearnerProtocol.export)
    export_training = _awaited(LearnerProtocol.export_training)
    backup = _awaited(LearnerProtocol.backup)
    reward_batch = _awaited(LearnerProtocol.reward_batch)
    outcomes = _awaited(LearnerProtocol.outcomes)
    erase = _awaited(LearnerProtocol.erase)
    reset = _awaited(LearnerProtocol.reset)
    why = _awaited(LearnerProtocol.why)
    status = _awaited(LearnerProtocol.status)


class AsyncRun(Generic[_T]):
    """A `RunUnderWay` that begins and is recorded in a thread."""

    def __init__(self, learner: AsyncLearnerProtocol, run: RunUnderWay[_T]) -> None:
        self._learner = learner
        self._run = run

    async def __aenter__(self) -> RunUnderWay[_T]:
        return await self._learner.in_thread(self._run.__enter__, of_run=True)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        # A task that is cancelled once more during this write does not stop the thread.
        end = partial(self._run.__exit__, kind, problem, trace)
        await asyncio.shield(self._learner.in_thread(end, of_run=True))
        return False
