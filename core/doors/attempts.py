"""Attempts to select and to record, each with a time limit. An agent goes on without the database or server.

A request of an agent begins with a selection and ends with a record. An attempt that reaches its limit opens the
breaker. While the breaker is open, later requests make no attempt. A background thread closes it when the database or
server answers again. A request without a selection gets all arms that fit, as a baseline does. A run without a record
waits in the spool.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from random import Random
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeVar, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from core.doors.threads import Threads
from core.doors.verbs import Verb, Verbs
from core.errors import (
    ArmscopeError,
    Closed,
    Conflict,
    Denied,
    InvalidBatch,
    InvalidInput,
    NotFound,
    StoreBusy,
    Unidentified,
)
from core.guidance import guidance
from core.records.answers import RecordAnswer
from core.records.arm import Arm
from core.records.evidence import Evidence
from core.records.experiment import Assigned
from core.records.learner import LearnerSettings
from core.records.limits import MAX_COUNT, keepable, one_of, shown, whole
from core.records.run import Call, Inventory, Run
from core.records.selection import Decision, Reason, Selection
from core.records.status import SpoolCounts
from core.settings import seconds
from core.spool import Spool

_P = ParamSpec("_P")
_T = TypeVar("_T")
OnError = Literal["continue", "raise"]
RunOutcome = Literal["recorded", "spooled", "rejected", "dropped"]

_LOG: Final = logging.getLogger("armscope")
_REJECTIONS: Final = (InvalidInput, NotFound, Conflict, Denied, Unidentified)
"""Errors that a repeat of the same request would get again."""
_TOO_LARGE: Final = "too_large"
"""Code of a server that answers, and takes no body of this size."""
_SPOOLED_CHARS: Final = 200_000
"""Characters of a prompt or reply that are spooled: more than are stored, and few enough for a body."""
_FIRST_PROBE_S: Final = 0.05
_LAST_PROBE_S: Final = 5.0
_SEND_S: Final = 10.0
_SYNC_S: Final = 0.02
_FIRST_SYNC_S: Final = 0.08
"""Wait for the disk in a request that first waited for an answer."""
_FLUSH_S: Final = 0.5
_LAST_FLUSH_S: Final = 2.0
_KNOWN_S: Final = 60.0
_MAX_OFFERS: Final = 64
_MAX_SIDES: Final = 4_096
"""Sessions whose side in an experiment is kept for a fallback."""
_DETECT: Final = "core.detect:detect"


class Offers:
    """Offered arms by selection. Only the latest selections are kept: most are recorded soon, or never."""

    def __init__(self) -> None:
        self._arms: dict[tuple[str, int], dict[str, Arm]] = {}

    def add(self, selection: Selection, offered: Sequence[Arm]) -> None:
        """Remember the offered arms that a selection includes."""
        included = set(selection.included)
        self._arms[selection.seed, selection.revision] = {
            arm.key: arm for arm in offered if arm.key in included
        }
        for oldest in list(self._arms)[:-_MAX_OFFERS]:
            self._arms.pop(oldest, None)

    def included(self, selection: Selection, arms: Sequence[Arm]) -> tuple[Arm, ...]:
        """Return the arms of a selection's prompt, with their offered content where it is known."""
        known = self._arms.get((selection.seed, selection.revision), {}) | {arm.key: arm for arm in arms}
        return tuple(
            # A cost of 0 may be an unknown one.
            known.get(one.arm) or Arm(key=one.arm, token_cost=one.token_cost or None)
            for one in selection.decisions
            if one.included
        )


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits in seconds: for a connection, a selection and a record."""

    connect_s: float
    select_s: float
    record_s: float

    @classmethod
    def of(
        cls, *, connect_s: float | None = None, select_s: float | None = None, record_s: float | None = None
    ) -> Limits:
        """Return the limits of a caller; None is that of the environment, else the usual one.

        >>> Limits.of(connect_s=0.1, select_s=2, record_s=1)
        Limits(connect_s=0.1, select_s=2.0, record_s=1.0)
        """
        return cls(
            connect_s=seconds("ARMSCOPE_CONNECT_S", connect_s, 0.3),
            select_s=seconds("ARMSCOPE_SELECT_S", select_s, 1.0),
            record_s=seconds("ARMSCOPE_RECORD_S", record_s, 0.5),
        )


@dataclass
class Request:
    """Checked options of one request of an agent, and whether it has waited for an answer that did not come."""

    uid: str
    options: Mapping[str, Any]
    limits: Limits
    raises: bool
    has_waited: bool = False

    @classmethod
    def of(cls, uid: str, options: Mapping[str, Any], limits: Limits, named: tuple[Arm, ...] = ()) -> Request:
        """Return the request; raises `InvalidInput` for values that no run may have."""
        for name in ("budget_tokens", "k"):
            if options.get(name) is not None:
                whole(name, options[name], MAX_COUNT)
        labels: dict[str, Any] = {name: options.get(name) for name in ("session", "model", "channel")}
        Run(uid=uid, inventory=Inventory(kind="declared", arms=(), named=named), **labels)
        for name, value in {"uid": uid, **labels}.items():
            if value is not None and keepable(value) != value:
                raise InvalidInput(
                    f"{name} must be of whole characters, got {shown(value)}.", next_step="Write it as UTF-8."
                )
        return cls(
            uid=uid,
            options=options,
            limits=Limits.of(
                connect_s=limits.connect_s,
                select_s=limits.select_s if options.get("select_s") is None else options["select_s"],
                record_s=limits.record_s if options.get("record_s") is None else options["record_s"],
            ),
            raises=one_of("on_error", options.get("on_error", "continue"), get_args(OnError)) == "raise",
        )


class RequestingLearner(Protocol):
    """The members of a learner that the requests of its agent use."""

    _offers: Offers
    _is_closed: bool

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> LearnerSettings: ...
    @property
    def select(self) -> Callable[..., Selection]: ...
    def record_runs(self, runs: Iterable[Run], /) -> object: ...
    def _call(self, operation: Verb[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
    def _send(self, body: bytes, /) -> RecordAnswer: ...
    def _now_ms(self) -> int: ...
    def _entropy(self) -> int: ...
    def _within(self, connect_s: float, answer_s: float, /) -> AbstractContextManager[object]: ...


class Attempts:
    """The requests of one learner's agent, with what is known of the learner if it is away."""

    def __init__(self, learner: RequestingLearner, limits: Limits, spool: Spool) -> None:
        self.limits = limits
        self.spool = spool
        self._learner = learner
        self._threads = Threads()
        self._disk_threads = Threads()
        self._is_closing = threading.Event()
        self._known = _Known()
        self._is_registered = False
        self._reset()

    def _reset(self) -> None:
        """Begin with closed breakers and no threads; also in a child made by fork."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_open = {"select": False, "record": False}
        self._recovery: threading.Thread | None = None
        self._flusher: threading.Thread | None = None
        self._queue: list[Run] = []
        self._afterwards: dict[str, list[Callable[[], None]]] = {}
        self._logged: set[str] = set()
        self._has_looked = False
        self._problem: Exception | None = None

    @property
    def may_keep_texts(self) -> bool:
        """False once the learner is known to keep no texts."""
        return self._known.settings is None or self._known.settings.keep_texts

    # Select

    def select(self, arms: Sequence[Arm] | None, request: Request) -> Selection:
        """Return a selection in time, or a fallback; wrong arguments raise."""
        self._same_process()
        self._send_what_waits()
        names = ("session", "budget_tokens", "k")
        options = {name: request.options.get(name) for name in names}
        if request.raises or self._learner._is_closed or not self._is_open["select"]:
            try:
                selection = self._threads.call(
                    lambda: self._selected(arms, options, request.limits), request.limits.select_s
                )
            except Exception as problem:
                if request.raises or self._is_of_caller(problem):
                    raise
                if isinstance(problem, (*_REJECTIONS, UnicodeEncodeError)):
                    self._log_once("A selection was refused, so all tools that fit are in: %s", problem)
                else:
                    request.has_waited = True
                    self._failed(problem)
            else:
                self._known.add(
                    selection, is_all=arms is None, has_own_limits=options["budget_tokens"] is not None
                )
                self.add_side(options["session"], selection)
                if self._known.is_due(time.monotonic()):
                    self._threads.start(self._read_settings)
                return selection
        selection = fallback(
            self._known.offered(arms),
            self._known.limits(options["budget_tokens"], options["k"]),
            seed=self._learner._entropy(),
            assigned=self._known.sides.get(options["session"] or ""),
        )
        self._learner._offers.add(selection, arms or ())
        return selection

    def add_side(self, session: str | None, selection: Selection) -> None:
        """Remember the side of a session in an experiment, for a fallback; only the latest sessions are kept."""
        if not session or selection.experiment is UNSET:
            return
        sides = self._known.sides
        sides[session] = selection.experiment
        for oldest in list(sides)[: -_MAX_SIDES // 2] if len(sides) > _MAX_SIDES else ():
            sides.pop(oldest, None)

    def _is_of_caller(self, problem: Exception) -> bool:
        """Return whether a problem was found here, in the caller's arguments, and not in a server's answer."""
        if isinstance(problem, Closed):
            return self._learner._is_closed
        return isinstance(problem, (InvalidInput, NotFound)) and not problem.is_answer

    def _selected(self, arms: Sequence[Arm] | None, options: Mapping[str, Any], limits: Limits) -> Selection:
        with self._learner._within(limits.connect_s, limits.select_s):
            selection = self._learner.select(arms, **options)
        try:
            selection.keep(arms or ())
        except InvalidInput as problem:  # it leaves offered arms undecided
            problem.is_answer = True
            raise
        return selection

    def _read_settings(self) -> None:
        with suppress(Exception), self._learner._within(self.limits.connect_s, _SEND_S):
            self._known.settings = self._learner.settings

    # Record

    def ignore(self, request: Request, where: str, problem: Exception) -> None:
        """Log a bad value that was left out of a run, once for each method; raise where the request does."""
        if request.raises:
            raise problem
        self._log_once(f"A value of {where} is left out of run %r: %s", request.uid, problem)

    def record(
        self, run: Callable[[], Run], request: Request, afterwards: list[Callable[[], None]]
    ) -> tuple[RecordAnswer | None, RunOutcome]:
        """Record a run in time, or keep it in the spool. Only a request that ``raises`` raises."""
        self._same_process()
        if request.raises:
            answer = self._recorded(run(), request.limits)
            for work in afterwards:
                work()
            return answer, "recorded"
        try:
            return self._record(run, request, afterwards)
        except Exception as problem:  # a fault of our own
            self._log_once("Run %r can't be recorded: %r", request.uid, problem)
            self.spool.count_dropped(1)
            return None, "dropped"

    def _record(
        self, run: Callable[[], Run], request: Request, afterwards: list[Callable[[], None]]
    ) -> tuple[RecordAnswer | None, RunOutcome]:
        answer: RecordAnswer | None = None
        try:
            made = _encodable(run())
        except Exception as problem:
            return None, self._reject(request.uid, b"{}", problem)
        if not self._is_open["record"]:
            try:
                answer = self._recorded(made, request.limits)
            except _REJECTIONS as problem:
                return None, self._reject(request.uid, self._final(made), problem, made.session)
            except Exception as problem:
                if getattr(problem, "code", None) != _TOO_LARGE:  # what waits holds fewer texts
                    request.has_waited = True
                    self._failed(problem)
        if answer is None:
            return None, self._keep(made, _FIRST_SYNC_S if request.has_waited else _SYNC_S, afterwards)
        self._do(afterwards)
        return answer, "recorded"

    def _do(self, afterwards: Iterable[Callable[[], None]]) -> None:
        for work in afterwards:
            try:
                work()
            except Exception as problem:
                self._log_once("Work after a run failed: %r", problem)

    def _recorded(self, run: Run, limits: Limits) -> RecordAnswer:
        def work() -> RecordAnswer:
            with self._learner._within(limits.connect_s, limits.record_s):
                return self._learner._call(Verbs.record, run=run, ended_now=run.ended_at_ms is None)

        return self._threads.call(work, limits.record_s)

    def _keep(self, run: Run, sync_s: float, afterwards: Sequence[Callable[[], None]] = ()) -> RunOutcome:
        """Store a run in the spool; wait at most ``sync_s`` for its disk."""
        if not self._add(run.uid, self._final(run), run.session, sync_s):
            self._log_once("Run %r is lost: the spool %s can't be written.", run.uid, self.spool.folder)
            return "dropped"
        if afterwards:
            self._afterwards[run.uid] = list(afterwards)
        self._recover()
        return "spooled"

    def _add(
        self, uid: str, body: bytes, session: str | None, sync_s: float, why: ArmscopeError | None = None
    ) -> bool:
        return self.spool.add(
            uid,
            body,
            now_ms=self._learner._now_ms(),
            session=session,
            why=why,
            start=self._disk_threads.start,
            wait_s=sync_s,
        )

    def _final(self, run: Run) -> bytes:
        """Return the request that records a run later. What its texts refer to is found now; they are left out."""
        known = self._known.settings or LearnerSettings()
        found: Evidence = resolve_name(_DETECT)(run, known.mode, known.meta_tools)
        arms, named = run.inventory.arms, run.inventory.named
        reply = run.texts[-1] if run.reply is None and run.texts else run.reply
        final = replace(
            run,
            inventory=replace(
                run.inventory,
                arms=tuple(replace(arm, content=None) for arm in arms),
                named=tuple(replace(arm, content=None) for arm in named),
            ),
            ended_at_ms=self._learner._now_ms() if run.ended_at_ms is None else run.ended_at_ms,
            referenced=tuple(
                arm.key for arm, is_used in zip((*arms, *named), found.referenced, strict=True) if is_used
            ),
            calls=tuple(Call(name=call.name) for call in run.calls),
            texts=(),
            prompt=run.prompt and run.prompt[:_SPOOLED_CHARS] if known.keep_texts else None,
            reply=reply and reply[:_SPOOLED_CHARS] if known.keep_texts else "",
            messages=resolve_name("core.secrecy:masked_messages")(run.transcript) if known.keep_texts else (),
        )
        return msgspec.json.encode({"run": final, "ended_now": True, "references": found.references})

    def _reject(
        self, uid: str, body: bytes, problem: Exception, session: str | None = None
    ) -> Literal["rejected", "dropped"]:
        """Keep a run as rejected; it is dropped where the disk is full or away."""
        why = problem
        if not isinstance(why, ArmscopeError):
            why = ArmscopeError(
                f"A run must be recordable, got {type(problem).__name__}: {problem}.",
                next_step="Check what was passed to it.",
            )
        self._log_once("Run %r was rejected: %s", uid, why)
        return "rejected" if self._add(uid, body, session, _SYNC_S, why) else "dropped"

    # Record later

    def later(self, run: Run) -> None:
        """Record a run within a second, or at the end of the process."""
        self._same_process()
        if self._is_closing.is_set():
            raise Closed(
                f"Learner {self._learner.name!r} is closed; nothing was recorded.",
                next_step="Open it again, or do this inside its with block.",
            )
        if run.ended_at_ms is None:
            run = replace(run, ended_at_ms=self._learner._now_ms())
        with self._lock:
            self._queue.append(run)
            if self._flusher is None:
                self._flusher = self._thread(self._flush_in_time)
            if not self._is_registered:
                self._is_registered = True
                _flush_at_exit(weakref.WeakMethod(self.flush))

    def _flush_in_time(self) -> None:
        self._is_closing.wait(_FLUSH_S)
        with self._lock:
            self._flusher = None
        self.flush(_SEND_S)

    def flush(self, limit_s: float) -> None:
        """Record all runs that were to be recorded later; a run that can't be is kept in the spool."""
        self._same_process()
        with self._lock:
            runs, self._queue = self._queue, []
        if not runs:
            return
        problems: Mapping[int, ArmscopeError] = {}
        try:
            if not self._is_open["record"]:
                self._threads.call(lambda: self._record_all(runs, limit_s), limit_s)
                return
        except InvalidBatch as problem:
            problems = problem.lines
            runs = [run for number, run in enumerate(runs, 1) if number in problems]
        except Exception as problem:
            self._failed(problem)
        for run, known in zip(runs, problems.values() or [None] * len(runs), strict=True):
            if isinstance(known, _REJECTIONS):
                self._reject(run.uid, self._final(run), known, run.session)
            else:
                self._keep(run, _FIRST_SYNC_S)

    def _record_all(self, runs: Sequence[Run], limit_s: float) -> None:
        with self._learner._within(self.limits.connect_s, limit_s):
            self._learner.record_runs(runs)

    # Recover

    def _failed(self, problem: Exception) -> None:
        with self._lock:
            was_open = any(self._is_open.values())
            self._is_open = dict.fromkeys(self._is_open, True)
        if not was_open:
            resolve_name(_DETECT)  # imported by the request that failed, and by none that comes later
            _LOG.warning(
                "armscope does not answer, so requests continue without it; their runs are kept in %s. %s",
                self.spool.folder,
                problem,
            )
        self._recover()

    def _send_what_waits(self) -> None:
        """Send what earlier processes left in the spool."""
        if not self._has_looked:
            self._has_looked = True
            if self.spool.waiting():
                self._recover()

    def _recover(self) -> None:
        """Find out in the background when there are answers again, and send what waits."""
        with self._lock:
            if self._recovery is None and not self._is_closing.is_set():
                self._recovery = self._thread(self._recover_in_time)

    def _recover_in_time(self) -> None:
        pause_s = _FIRST_PROBE_S
        while not self._is_closing.wait(pause_s):
            pause_s = min(2 * pause_s, _LAST_PROBE_S)
            with suppress(Exception):
                if self._is_well():
                    break
        with self._lock:
            self._recovery = None
        if self._is_closing.is_set():
            return
        if self.spool.waiting():  # added meanwhile
            self._recover()

    def _is_well(self) -> bool:
        """Try to read and to send; close the breaker of what works in time. Return whether nothing is left to do."""
        if self._is_open["select"]:
            self._threads.call(self._probe, self.limits.select_s)
            self._is_open["select"] = False
        is_empty = self.send()
        if is_empty and self._is_open["record"]:
            self._is_open["record"] = False
            _LOG.info("armscope answers again.")
        return is_empty and not any(self._is_open.values())

    def _probe(self) -> None:
        with self._learner._within(self.limits.connect_s, self.limits.select_s):
            try:
                self._known.settings = self._learner.settings
            except _REJECTIONS:
                return  # an answer all the same

    def send(self) -> bool:
        """Send what waits in the spool, one run after the other. Return whether all is sent."""
        if not self.spool.waiting():
            return True  # a lock would make a folder
        with self.spool.sending() as is_alone:
            if not is_alone:
                return False
            while waiting := self.spool.waiting():
                for path in waiting:
                    if self._is_closing.is_set() or not self._sent(path):
                        return False
        return True

    def send_all(self, *, rejected: bool) -> int:
        """Send what waits, and on request what was ``rejected``; return how many runs. Raises without an answer."""
        for path in self.spool.rejected() if rejected else ():
            if (item := self.spool.read(path)) is not None:
                self.spool.retry(item)
        before = self.counts()
        is_empty = self.send()
        after = self.counts()
        if not is_empty:
            raise self._problem or StoreBusy(
                "One process sends at a time, got another one that is sending.",
                next_step="Wait for it to end.",
            )
        return before.waiting - after.waiting - (after.rejected - before.rejected)

    def _sent(self, path: Path) -> bool:
        """Send one run of the spool. Return False if there was no answer."""
        item = self.spool.read(path)
        if item is None:
            return True
        began = time.monotonic()
        try:
            self._threads.call(lambda: self._send(item.body), _SEND_S)
        except Exception as problem:
            if not isinstance(problem, ArmscopeError) or not (
                isinstance(problem, _REJECTIONS) or problem.code == _TOO_LARGE
            ):
                self._problem = problem
                return False
            self._log_once("Run %r was rejected: %s", item.header.uid, problem)
            self.spool.reject(item, problem)
        else:
            self.spool.remove(item)
            self._do(self._afterwards.pop(item.header.uid, ()))
        if time.monotonic() - began <= self.limits.record_s:
            self._is_open["record"] = False
        return True

    def _send(self, body: bytes) -> RecordAnswer:
        with self._learner._within(self.limits.connect_s, _SEND_S):
            return self._learner._send(body)

    # End

    def close(self) -> None:
        """Record what was to be recorded later, and stop."""
        self.flush(_LAST_FLUSH_S)
        self._is_closing.set()

    def release(self, release: Callable[[], None]) -> None:
        """Release the learner; in limited time if it is away."""
        if any(self._is_open.values()):
            with suppress(Exception):
                self._threads.call(release, self.limits.record_s)
        else:
            release()

    def counts(self) -> SpoolCounts:
        return self.spool.counts()

    def _same_process(self) -> None:
        if self._process != os.getpid():
            self._reset()

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name="armscope-recovery", daemon=True)
        with suppress(RuntimeError):  # at the end of the process
            thread.start()
        return thread

    def _log_once(self, message: str, *values: object) -> None:
        """Log the first problem of a kind; all are counted."""
        if message not in self._logged:
            self._logged.add(message)
            _LOG.warning(message, *values)


class _Known:
    """The learner as its latest answers show it."""

    def __init__(self) -> None:
        self.settings: LearnerSettings | None = None
        self.sides: dict[str, Assigned] = {}
        self._asked_s: float | None = None
        self._costs: dict[str, int] = {}
        self._seeds: set[str] = set()
        self._excluded: set[str] = set()
        self._budget_tokens = 0

    def is_due(self, now_s: float) -> bool:
        if self._asked_s is not None and (self.settings is None or now_s - self._asked_s < _KNOWN_S):
            return False
        self._asked_s = now_s
        return True

    def add(self, selection: Selection, *, is_all: bool, has_own_limits: bool) -> None:
        """Remember the arms of a selection, all of them where it offered all; and its budget."""
        costs = {one.arm: one.token_cost for one in selection.decisions}
        self._costs = costs if is_all else self._costs | costs
        self._seeds |= {one.arm for one in selection.decisions if one.reason == "seed"}
        self._excluded -= costs.keys()
        self._excluded |= {one.arm for one in selection.decisions if one.reason == "excluded"}
        if not has_own_limits:
            self._budget_tokens = selection.budget_tokens

    def offered(self, arms: Sequence[Arm] | None) -> dict[str, int]:
        """Return the arms on offer with their costs; None = the known ones."""
        if arms is None:
            return dict(self._costs)
        return {
            arm.key: self._costs.get(arm.key, 0) if arm.token_cost is None else arm.token_cost for arm in arms
        }

    def limits(self, budget_tokens: int | None, k: int | None) -> LearnerSettings:
        """Return the last known settings, or the defaults, with the limits of a request."""
        settings = self.settings
        if settings is None:  # it can select, and not read settings
            usual = LearnerSettings(budget_tokens=self._budget_tokens)
            settings = replace(usual, seed_arms=tuple(self._seeds | set(usual.seed_arms)))
        if settings.phase == "passive":  # then all are in
            return replace(settings, budget_tokens=0, k=0)
        return replace(
            settings,
            excluded_arms=tuple({*settings.excluded_arms, *self._excluded}),
            budget_tokens=settings.budget_tokens if budget_tokens is None else budget_tokens,
            k=settings.k if k is None else k,
        )


def fallback(
    costs: Mapping[str, int], settings: LearnerSettings, *, seed: int, assigned: Assigned | None = None
) -> Selection:
    """Choose without posteriors: seeds by id, then all others in random order, up to the budget and ``k``.

    Excluded arms stay out. The arm of an ``assigned`` session goes in behind the seeds, or stays out.

    >>> chosen = fallback({"tool:a:a": 5, "tool:fs:Read": 900}, LearnerSettings(budget_tokens=901), seed=0)
    >>> chosen.run_class, [(one.arm, one.included, one.reason) for one in chosen.decisions]
    ('fallback', [('tool:fs:Read', True, 'seed'), ('tool:a:a', False, 'budget')])
    """
    assigned = None if settings.phase == "passive" else assigned
    own = {assigned.arm} - settings.left_out if assigned is not None and assigned.in_force else set[str]()
    held_out = own if assigned is not None and assigned.side == "without" else set[str]()
    seeds = sorted(costs.keys() & settings.always_in - held_out)
    excluded = sorted(costs.keys() & (settings.left_out | held_out))
    first = sorted(costs.keys() & own - {*seeds, *excluded})
    others = sorted(costs.keys() - {*seeds, *excluded, *first})
    Random(seed).shuffle(others)  # noqa: S311 - no secret
    others = [*first, *others]
    budget, left = settings.budget_tokens, settings.budget_tokens
    room = settings.k or len(costs)
    decisions = []
    for rank, arm in enumerate((*seeds, *others, *excluded), 1):
        cost, is_seed, is_excluded = costs[arm], rank <= len(seeds), rank > len(seeds) + len(others)
        has_room = room > 0 and (budget == 0 or (left >= 0 and cost <= left))
        fits = is_seed or (has_room and not is_excluded)
        reason: Reason = "seed" if is_seed else "k" if room <= 0 else "budget"
        if is_excluded:
            reason = "held_out" if arm in held_out else "excluded"
        elif fits and not is_seed:
            reason = "assigned" if arm in first else "baseline"
        decisions.append(
            Decision(
                arm=arm,
                included=fits,
                reason=reason,
                rank=rank,
                token_cost=cost,
                budget_left=left if budget else None,
            )
        )
        if fits:
            room -= 1
            left -= cost
    selection = Selection(
        run_class="fallback",
        decisions=tuple(decisions),
        seed=str(seed),
        baseline_prob=0.0,
        settings_hash="",
        revision=0,
        budget_tokens=budget,
        k=settings.k,
        min_pulls=settings.min_pulls,
        over_budget=0 < budget < sum(costs[arm] for arm in seeds),
        experiment=assigned or UNSET,
    )
    return replace(selection, guidance=guidance(selection.nameable))


def _flush_at_exit(method: weakref.WeakMethod[Callable[[float], None]]) -> None:
    def ended() -> None:
        if (flush := method()) is not None:
            flush(_LAST_FLUSH_S)

    atexit.register(ended)


def _encodable(run: Run) -> Run:
    """Return a run with a mark for each lone surrogate in its texts; raises `InvalidInput` for one in an id."""
    try:
        msgspec.json.encode(run)
    except UnicodeEncodeError as problem:
        whole_run = msgspec.convert(_marked(msgspec.to_builtins(run)), Run)
        if (run.uid, run.session, run.inventory) != (whole_run.uid, whole_run.session, whole_run.inventory):
            raise InvalidInput(
                "An id must be Unicode text, got one with a lone surrogate.",
                next_step="Check the ids of the run, its session and its arms.",
            ) from problem
        return whole_run
    return run


def _marked(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_marked(key): _marked(one) for key, one in value.items()}
    return [_marked(one) for one in value] if isinstance(value, (list, tuple)) else value
