"""Python: a learner of a database as an object, each verb a method.

Flows are imported at their first call: an agent that selects and records needs few of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, ParamSpec, Self, TypeVar

import msgspec

from core.doors.asynchronous import AsyncLearnerProtocol
from core.doors.attempts import Limits
from core.doors.protocol import ImportOptions, LearnerProtocol, recorded
from core.doors.threads import Threads
from core.doors.verbs import Methods, Verb, Verbs
from core.errors import ArmscopeError, Closed, Denied, StoreError
from core.flows.context import Context, open_context
from core.flows.learn import record_all
from core.frames import RowList
from core.records.answers import RecordAnswer, RestoreAnswer
from core.records.batch import answers_of
from core.records.counts import number_of
from core.records.import_answer import ImportAnswer
from core.records.learner import LearnerSummary
from core.records.run import Run
from core.settings import DEFAULT_LEARNER, Settings
from core.spool import Spool

_P = ParamSpec("_P")
_T = TypeVar("_T")
_SIZE_S: Final = 0.3
"""Longest wait for the numbers in a learner's repr."""


def open_learner(
    database: str | Path | None = None,
    name: str = DEFAULT_LEARNER,
    *,
    clock: Callable[[], int] | None = None,
    entropy: Callable[[], int] | None = None,
    select_s: float | None = None,
    record_s: float | None = None,
    spool: str | Path | None = None,
) -> Learner:
    """Open a learner in a database file (None = the default one).

    A missing file is created now, a missing learner with its first write. ``clock`` returns UTC milliseconds, and
    ``entropy`` a seed for each selection; the defaults are the machine's own. A request of `LearnerProtocol.run`
    waits at most ``select_s`` (default 1) and ``record_s`` (.5) seconds for the database. A run that can't be
    recorded waits in the folder ``spool``. Raises a `StoreError` for an unusable file.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open_learner(folder.name + "/runs.db") as learner:
    ...     chosen = learner.select(["tool:fs:Read", "tool:web:search"])
    ...     recorded = learner.record("run-1", selection=chosen, calls=["Read"])
    ...     reward = learner.reward("tool:web:search", 0.5, reason="half an answer")
    ...     undo = learner.undo(reward.id)
    ...     [(arm.arm, arm.alpha, arm.beta) for arm in learner.posteriors()]
    [('tool:fs:Read', 4.0, 1.0), ('tool:web:search', 3.0, 2.0)]
    >>> folder.cleanup()
    """
    settings = Settings.from_environment(database=None if database is None else str(database), learner=name)
    context = open_context(settings)
    return Learner(
        replace(
            context,
            clock=context.clock if clock is None else clock,
            entropy=context.entropy if entropy is None else entropy,
        ),
        Limits.of(select_s=select_s, record_s=record_s),
        spool=None if spool is None else Path(spool),
    )


def learners(database: str | Path | None = None) -> RowList[LearnerSummary]:
    """Return every learner of a database file (None = the default one), by name; raises `NoDatabase` without one."""
    settings = Settings.from_environment(database=None if database is None else str(database))
    context = open_context(settings, create=False, whole=True)
    with closing(context.store):
        return RowList(Methods.learners.call(context), LearnerSummary)


def restore(file: str | Path, database: str | Path | None = None) -> RestoreAnswer:
    """Replace a database (None = the default one) by a backup, in use or not, and keep the replaced one.

    Open learners continue with the restored data. Raises `StoreDamaged`, `InvalidInput` or `SchemaMismatch` for an
    invalid backup; then nothing was changed.
    """
    settings = Settings.from_environment(database=None if database is None else str(database))
    answer: RestoreAnswer = resolve_name("core.flows.restore:restore")(settings.database, Path(file))
    return answer


class Learner(LearnerProtocol):
    """A learner of a database, with the operations of `LearnerProtocol`; once closed, they raise `Closed`."""

    def __init__(self, context: Context, limits: Limits | None = None, *, spool: Path | None = None) -> None:
        self._context = context
        kept = Spool.of_database(context.store.location, context.learner, parent=spool)
        super().__init__(context.learner, Limits.of() if limits is None else limits, kept)
        _ = Verbs.select.function, Verbs.record.function  # read before any time is limited

    @property
    def context(self) -> Context:
        if self._is_closed:
            raise Closed(
                f"Learner {self._name!r} is closed; nothing was done.",
                next_step="Open it again with open_learner, or do this inside its with block.",
            )
        return self._context

    def _release(self) -> None:
        self._context.store.close()

    def _location(self) -> str:
        location = self._context.store.location
        return location.name if isinstance(location, Path) else str(location)

    def _counts(self) -> tuple[str, ...]:
        frame = resolve_name("core.flows.queries.frame:frame")
        try:
            known = Threads().call(lambda: frame(self.context), _SIZE_S)
        except Exception:  # a database that is away has a name all the same
            return ()
        return number_of(known.n_runs, "run"), number_of(known.n_arms, "arm")

    def _call(self, operation: Verb[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return operation.call(self.context, *args, **kwargs)

    def _record_runs(self, runs: Sequence[Run]) -> list[RecordAnswer]:
        answers = answers_of(runs, partial(record_all, self.context))
        bad = {number: one for number, one in enumerate(answers, 1) if isinstance(one, ArmscopeError)}
        for problem in bad.values():
            if isinstance(problem, Closed | Denied | StoreError):
                raise problem
        return recorded(answers, bad)

    def _send(self, body: bytes) -> RecordAnswer:
        return Verbs.record.respond(self.context, Verbs.record.decode(msgspec.json.decode(body)))

    def _now_ms(self) -> int:
        return self._context.clock()

    def _entropy(self) -> int:
        return self._context.entropy()

    def _import(self, paths: Sequence[Path], options: ImportOptions) -> ImportAnswer:
        rest: dict[str, Any] = {**options}
        limits = resolve_name("core.formats:Limits").of(
            inflated_bytes=rest.pop("max_inflated_bytes"), rejected_lines=rest.pop("max_rejected")
        )
        context = self.context.for_rehearsal() if rest.pop("preview") else self.context
        return Verbs.import_.call(context, paths=paths, limits=limits, **rest)


class LateLearner(Learner):
    """A `Learner` whose database is opened by its first request, since it may be away, locked or slow."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._is_open = False
        self._opening = threading.Lock()
        name = settings.learner or DEFAULT_LEARNER
        LearnerProtocol.__init__(self, name, Limits.of(), Spool.of_database(settings.database, name))
        _ = Verbs.select.function, Verbs.record.function

    @property
    def context(self) -> Context:
        with self._opening:
            if not self._is_open and not self._is_closed:
                self._context = open_context(self._settings)
                self._is_open = True
        return super().context

    def _release(self) -> None:
        if self._is_open:
            super()._release()

    _now_ms, _entropy = LearnerProtocol._now_ms, LearnerProtocol._entropy


class AsyncLearner(AsyncLearnerProtocol):
    """`Learner` with every operation awaited: the same parameters, answers and errors.

    >>> import asyncio, tempfile
    >>> async def agent(folder):
    ...     async with AsyncLearner.open(folder + "/runs.db") as learner:
    ...         async with learner.run(["tool:web:search"], uid="r1") as run:
    ...             run.called("search")
    ...         return await learner.posteriors()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [(arm.arm, arm.alpha) for arm in asyncio.run(agent(folder))]
    [('tool:web:search', 4.0)]
    """

    @classmethod
    def open(
        cls,
        database: str | Path | None = None,
        name: str = DEFAULT_LEARNER,
        *,
        select_s: float | None = None,
        record_s: float | None = None,
        spool: str | Path | None = None,
    ) -> Self:
        """Open a learner, as `open_learner`; this reads a few pages and is not awaited."""
        return cls(open_learner(database, name, select_s=select_s, record_s=record_s, spool=spool))
