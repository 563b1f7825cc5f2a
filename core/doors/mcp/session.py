"""Session: the runs of one client of the proxy, with the tools that were on offer and the calls."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from secrets import randbits
from time import monotonic
from typing import Any, Final

from msgspec.structs import replace

from core.doors.attempts import Limits, Request, fallback
from core.doors.protocol import LearnerProtocol
from core.doors.terminal import say_on_stderr
from core.doors.threads import Threads
from core.errors import TimedOut
from core.records.arm import Arm
from core.records.learner import LearnerSettings
from core.records.run import METADATA_CHARS, Call, Inventory, Run, Status
from core.records.selection import Selection

_TURN: Final = "armscope/turn"
_CODEX: Final = "x-codex-turn-metadata"
"""Members of ``_meta`` by which a client names the turn of its user."""
_CLOSE_S: Final = 1.0


@dataclass
class OpenRun:
    """A run while its client works."""

    uid: str
    offered: Mapping[str, Arm] = field(default_factory=dict)
    selection: Selection | None = None
    turn: str | None = None
    model: str | None = None
    calls: list[Call] = field(default_factory=list)
    called: dict[str, None] = field(default_factory=dict)
    n_open: int = 0
    n_done: int = 0
    n_failed: int = 0
    busy_s: float = 0.0
    busy_since_s: float = 0.0
    is_over: bool = False

    def record(self, session: str, channel: str) -> Run:
        """Return the run. A tool that was left out and called was there by name."""
        status: Status = "aborted" if self.n_open else "completed"
        if self.n_failed and not self.n_done:
            status = "error"
        inventory, excluded = self._arms()
        return Run(
            uid=self.uid,
            inventory=inventory,
            excluded=excluded,
            selection=self.selection,
            run_class="imported" if self.selection is None else self.selection.run_class,
            calls=tuple(self.calls),
            status=status,
            duration_ms=round(1000 * self.busy_s) if self.calls else None,
            session=session,
            channel=channel,
            model=self.model,
        )

    def _arms(self) -> tuple[Inventory, tuple[str, ...]]:
        if self.selection is None:  # its client knew the tools from an earlier session
            return Inventory(kind="inferred", arms=tuple(Arm(key=key) for key in self.called)), ()
        refused = {one.arm for one in self.selection.decisions if one.reason == "excluded"}
        excluded = set(self.selection.excluded)
        by_name = excluded.intersection(self.called) - refused
        arms = [arm for arm in self.offered.values() if arm.key not in excluded]
        named = [replace(arm, token_cost=None) for arm in self.offered.values() if arm.key in by_name]
        out = tuple(key for key in self.selection.excluded if key not in by_name)
        return Inventory(kind="declared", arms=tuple(arms), named=tuple(named)), out


class ProxySession:
    """The session of one client. Nothing of it raises, or waits longer than the limits of an attempt.

    A run is the session, or one turn of its user where the client names turns. Another set of tools begins another
    run, too.
    """

    def __init__(self, open_learner: Callable[[], LearnerProtocol]) -> None:
        self.client = "mcp"
        self._opening = asyncio.ensure_future(asyncio.to_thread(open_learner))
        self._limits = Limits.of()
        self._id = f"mcp-{uuid.uuid4()}"
        self._numbers = count(1)
        self._lock = asyncio.Lock()
        self._recording: set[asyncio.Task[None]] = set()
        self._reported: set[str] = set()
        self._run = self._new()

    async def choose(self, offered: Mapping[str, Arm]) -> frozenset[str]:
        """Return which of the offered tools are hidden, by their names; the same ones until the offer changes."""
        async with self._lock:
            known, is_same = self._run.selection, self._run.offered == offered
            if known is None or known.run_class == "fallback" or not is_same:
                selection = await self._selected(offered, known)
                if known is None or not is_same or selection.run_class != "fallback":
                    if known is not None:
                        self._next(self._new())
                    self._run.offered, self._run.selection = offered, selection
                    known = selection
            excluded = set(known.excluded)
            return frozenset(name for name, arm in offered.items() if arm.key in excluded)

    def called(self, name: str, arm: Arm | None, arguments: str, meta: Mapping[str, Any]) -> OpenRun:
        """Note a call of a tool with its arm, and return the run that it belongs to."""
        codex = meta.get(_CODEX)
        turn, model = meta.get(_TURN), None
        if isinstance(codex, Mapping):
            turn, model = codex.get("turn_id", turn), codex.get("model")
        if isinstance(turn, str) and turn != self._run.turn:
            if self._run.turn is not None:
                self._next(self._new(self._run))
            self._run.turn = turn
        run = self._run
        if isinstance(model, str):
            run.model = _label(model)
        run.called.setdefault(f"tool:mcp:{name}" if arm is None else arm.key)
        # A name of several servers is recorded with its server, as clients write it.
        recorded = name if arm is None or arm.name == name else f"mcp__{arm.category}__{arm.name}"
        run.calls.append(Call(name=_label(recorded), metadata=arguments[:METADATA_CHARS]))
        if run.n_open == 0:
            run.busy_since_s = monotonic()
        run.n_open += 1
        return run

    def refuses(self, key: str) -> bool:
        selection = self._run.selection
        decisions = () if selection is None else selection.decisions
        return any(one.arm == key and one.reason == "excluded" for one in decisions)

    def ended(self, run: OpenRun, *, failed: bool) -> None:
        run.n_open -= 1
        run.n_failed += failed
        run.n_done += not failed
        if run.n_open == 0:
            run.busy_s += monotonic() - run.busy_since_s
            if run.is_over:
                self._record(run)

    async def end(self) -> None:
        """Record the last run, and close the learner. Of runs without calls only a whole session is recorded."""
        if self._run.calls or (self._run.uid == self._id and self._run.selection is not None):
            self._record(self._run)
        if self._recording:
            await asyncio.wait(self._recording, timeout=2 * self._limits.record_s)
            if not self._opening.done():
                self.report("A run is lost, because the learner can't be opened in time.")
        if (learner := await self._learner(0)) is not None:
            with suppress(TimedOut):  # the process ends with its threads
                await asyncio.to_thread(Threads().call, learner.close, _CLOSE_S)

    def report(self, problem: object) -> None:
        """Write a problem of armscope to standard error, once."""
        if (text := str(problem)) not in self._reported:
            self._reported.add(text)
            say_on_stderr(f"armscope: {text}")

    def _new(self, like: OpenRun | None = None) -> OpenRun:
        number = next(self._numbers)
        uid = self._id if number == 1 else f"{self._id}-{number}"
        return OpenRun(uid) if like is None else OpenRun(uid, offered=like.offered, selection=like.selection)

    def _next(self, run: OpenRun) -> None:
        """Begin another run; one without calls was never used."""
        before, self._run = self._run, run
        before.is_over = True
        if before.calls and before.n_open == 0:
            self._record(before)

    async def _selected(self, offered: Mapping[str, Arm], before: Selection | None) -> Selection:
        """Return a selection in time; without one, all tools but the excluded, by the side of the one before."""
        deadline_s, excluded = monotonic() + self._limits.select_s, set[str]()
        learner = await self._learner(self._limits.select_s)
        left_s = deadline_s - monotonic()
        if learner is not None and left_s > 0:
            try:
                request = self._request(self._id, select_s=left_s)
                selection = await asyncio.to_thread(learner._attempts.select, [*offered.values()], request)
            except Exception as problem:
                self.report(problem)
            else:
                if selection.run_class != "fallback":
                    return selection
                excluded = {one.arm for one in selection.decisions if one.reason == "excluded"}
        costs = {arm.key: arm.token_cost or 0 for arm in offered.values()}
        settings = LearnerSettings(seed_arms=(), excluded_arms=tuple(excluded))
        assigned = None if before is None else before.experiment or None
        return fallback(costs, settings, seed=randbits(64), assigned=assigned)

    async def _learner(self, limit_s: float | None) -> LearnerProtocol | None:
        done, _ = await asyncio.wait({self._opening}, timeout=limit_s)
        if not done:
            return None
        if (problem := self._opening.exception()) is not None:
            self.report(problem)
            return None
        return self._opening.result()

    def _request(self, uid: str, **options: Any) -> Request:  # noqa: ANN401 - those of a run
        return Request.of(uid, {"session": self._id, **options}, self._limits)

    def _record(self, run: OpenRun) -> None:
        task = asyncio.create_task(self._recorded(run))
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def _recorded(self, run: OpenRun) -> None:
        learner = await self._learner(None)  # no call waits for this
        if learner is None:
            self.report("A run is lost, because the learner can't be opened.")
            return
        try:
            record = run.record(self._id, _label(self.client))
            await asyncio.to_thread(learner._attempts.record, lambda: record, self._request(run.uid), [])
        except Exception as problem:
            self.report(problem)


def _label(text: str) -> str:
    return text[:200].replace("\0", " ")
