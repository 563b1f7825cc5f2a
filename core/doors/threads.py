"""Threads: work for callers who stop waiting at a limit. A thread that is given up goes on alone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar, cast

from core.errors import TimedOut

_T = TypeVar("_T")
_MOST: Final = 32


class Threads:
    """Threads of one learner. They are daemons, so that none keeps a process alive; idle ones end."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._n_jobs = 0
        self._n_threads = 0

    def call(self, work: Callable[[], _T], limit_s: float) -> _T:
        """Return the result of ``work``; raises `TimedOut` where it takes longer."""
        answers: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        deadline = time.monotonic() + limit_s

        def job() -> None:
            if time.monotonic() > deadline:  # the caller waits no more
                return
            try:
                answers.put((True, work()))
            except BaseException as problem:
                answers.put((False, problem))

        self.start(job)
        try:
            is_done, answer = answers.get(timeout=limit_s)
        except Empty:
            raise TimedOut(
                f"An answer must come within {limit_s:g} s, got none.",
                next_step="Check that the database or server answers, or allow more time.",
            ) from None
        if not is_done:
            raise answer
        return cast("_T", answer)

    def start(self, job: Callable[[], None]) -> None:
        """Start a job, at once or when a thread is free."""
        if self._process != os.getpid():  # in a child made by fork, which has none of the threads
            self._begin()
        with self._lock:
            self._n_jobs += 1
            self._jobs.put(job)
            if self._n_threads < min(self._n_jobs, _MOST):
                threading.Thread(target=self._work, name="armscope-attempt", daemon=True).start()
                self._n_threads += 1

    def _work(self) -> None:
        jobs, lock = self._jobs, self._lock
        while True:
            try:
                job = jobs.get(timeout=5.0)
            except Empty:
                with lock:
                    if not jobs.empty():
                        continue
                    self._n_threads -= 1
                return
            job()
            del job
            with lock:
                self._n_jobs -= 1
