"""Asynchronous: the Python door for an event loop, which must not wait for a disk: each verb runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from core.doors.answering import RunOptions
from core.doors.python import Learner, open_learner
from core.doors.running import RunUnderWay
from core.records.learner import LearnerSettings
from core.settings import DEFAULT_LEARNER

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")

_THREADS: Final = 8
"""More would only wait for each other: one writer at a time."""


def _threaded(
    verb: Callable[Concatenate[Learner, _P], _R],
) -> Callable[Concatenate[AsyncLearner, _P], Coroutine[Any, Any, _R]]:
    """The same verb, awaited."""

    @wraps(verb)
    async def awaited(self: AsyncLearner, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self.in_thread(partial(verb, self.learner, *args, **kwargs))

    return awaited


class AsyncLearner:
    """`Learner` with every verb awaited; what it does, takes and answers is the same.

    >>> import tempfile
    >>> async def agent(folder):
    ...     async with AsyncLearner.open(folder + "/runs.db") as learner:
    ...         async with learner.run(["tool:web:search"], uid="r1") as run:
    ...             run.called("search")
    ...         return await learner.posteriors()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [(arm.arm, arm.alpha) for arm in asyncio.run(agent(folder))]
    [('tool:web:search', 4.0)]
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="armscope")

    @classmethod
    def open(cls, database: str | Path | None = None, name: str = DEFAULT_LEARNER) -> Self:
        """`open_learner`; opening reads a few pages and is not awaited."""
        return cls(open_learner(database, name))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def in_thread(self, work: Callable[[], _R]) -> _R:
        """Do it in a thread of this learner's own."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def close(self) -> None:
        """Close the database; closed means closed."""
        await self.in_thread(self.learner.close)
        self._threads.shutdown(wait=False)

    @property
    def name(self) -> str:
        """Which learner it is."""
        return self.learner.name

    async def settings(self) -> LearnerSettings:
        """Settings in force."""
        return await self.in_thread(lambda: self.learner.settings)

    @overload
    def run(self, arms: None = None, /, **options: Unpack[RunOptions]) -> AsyncRun[str]: ...

    @overload
    def run(self, arms: Iterable[_T], /, **options: Unpack[RunOptions]) -> AsyncRun[_T]: ...

    def run(
        self, arms: Iterable[_T] | None = None, /, **options: Unpack[RunOptions]
    ) -> AsyncRun[_T] | AsyncRun[str]:
        """Answer one request, as `Learner.run`: ``async with learner.run(tools) as run``."""
        if arms is None:
            return AsyncRun(self, self.learner.run(**options))
        return AsyncRun(self, self.learner.run(arms, **options))

    select = _threaded(Learner.select)
    record = _threaded(Learner.record)
    record_runs = _threaded(Learner.record_runs)
    record_step = _threaded(Learner.record_step)
    mark_incomplete = _threaded(Learner.mark_incomplete)
    declare = _threaded(Learner.declare)
    episodes = _threaded(Learner.episodes)
    credit_episode = _threaded(Learner.credit_episode)
    episode = _threaded(Learner.episode)
    lint = _threaded(Learner.lint)
    compare = _threaded(Learner.compare)
    import_files = _threaded(Learner.import_files)
    export = _threaded(Learner.export)
    export_training = _threaded(Learner.export_training)
    backup = _threaded(Learner.backup)
    reward = _threaded(Learner.reward)
    reward_batch = _threaded(Learner.reward_batch)
    reward_run = _threaded(Learner.reward_run)
    evaluate = _threaded(Learner.evaluate)
    evaluations = _threaded(Learner.evaluations)
    agreement = _threaded(Learner.agreement)
    note = _threaded(Learner.note)
    erase = _threaded(Learner.erase)
    reset = _threaded(Learner.reset)
    undo = _threaded(Learner.undo)
    redo = _threaded(Learner.redo)
    change = _threaded(Learner.change)
    posteriors = _threaded(Learner.posteriors)
    judgements = _threaded(Learner.judgements)
    arms = _threaded(Learner.arms)
    runs = _threaded(Learner.runs)
    why = _threaded(Learner.why)
    savings = _threaded(Learner.savings)
    ledger = _threaded(Learner.ledger)
    status = _threaded(Learner.status)
    verify = _threaded(Learner.verify)


class AsyncRun(Generic[_T]):
    """A `RunUnderWay` that is begun and recorded in a thread."""

    def __init__(self, learner: AsyncLearner, run: RunUnderWay[_T]) -> None:
        self._learner = learner
        self._run = run

    async def __aenter__(self) -> RunUnderWay[_T]:
        return await self._learner.in_thread(self._run.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        # A task that is cancelled once more while this is written down does not stop the thread.
        await asyncio.shield(self._learner.in_thread(lambda: self._run.__exit__(kind, problem, trace)))
        return False
