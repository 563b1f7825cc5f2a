"""Sub-agents of a session: the tokens of their responses, and the run during which each was given.

A sub-agent's calls are not the agent's, so they make no arm and no run. Its tokens belong to the bill of the run
during which they were spent: the latest that had begun, and none before the run that started the sub-agent. Without a
time it is that run. Its responses are found in three forms: among the session's own lines, in progress notices, and
in a file of its own. A response in several of them counts once. Where none is found, the total that its result
reports is a lower bound, at the run that was open when the result came.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar

from core.formats.entries import Skipped
from core.formats.prompts import Prompt
from core.formats.strict import utc_ms_of
from core.formats.unknown import Unknown
from core.records.bill import Spent

T = TypeVar("T")

_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)


def alone(file: str) -> Skipped:
    """Return why the file of a sub-agent is not read by itself."""
    return Skipped(
        file=file,
        reason="A sub-agent's session holds no runs: its prompts and calls are not the agent's.",
        next_step="Import the session that started it.",
    )


def counted(row: Spent) -> Callable[[Unknown], Iterable[Spent]]:
    """Return the maker of a row whose counts are known already."""
    return lambda _: (row,)


def parted(steps: Iterable[T], is_sub_agents: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """Return the agent's own steps and those of its sub-agents."""
    own: list[T] = []
    others: list[T] = []
    for step in steps:
        (others if is_sub_agents(step) else own).append(step)
    return own, others


class Response(NamedTuple):
    """A sub-agent's response. ``open_run`` is the run that was open at its line.

    ``spent`` makes its counts when the run is made, because counts out of range are that run's matter. Of two forms
    of one response the one with more ``written`` tokens is the later one.
    """

    spent: Callable[[Unknown], Iterable[Spent]]
    written: int
    at: str | float | None
    open_run: Prompt | None


@dataclass(slots=True)
class SubAgent:
    """A sub-agent: its task, its first time, the run that was open then, and the sub-agent that started it."""

    open_run: Prompt | None = None
    asked: str | None = None
    began: str | None = None
    parent: str | None = None
    responses: dict[str, Response] = field(default_factory=dict)

    def add(self, key: str, response: Response) -> None:
        """Add a response, or a later form of it."""
        known = self.responses.get(key)
        if known is None or response.written >= known.written:
            self.responses[key] = response


@dataclass
class SubAgents:
    """The sub-agents of one session by their ids, with the calls that started them."""

    by_id: dict[str, SubAgent] = field(default_factory=dict)
    _run_of_call: dict[str, Prompt] = field(default_factory=dict)
    _calls_with: dict[str, list[str]] = field(default_factory=dict)
    _calls_of: dict[str, list[str]] = field(default_factory=dict)
    _totals: dict[str, list[Response]] = field(default_factory=dict)
    _before: dict[str, str | None] = field(default_factory=dict)

    def add_call(self, call_id: str, run: Prompt, task: str) -> None:
        """Record a call that starts a sub-agent on a task."""
        self._run_of_call[call_id] = run
        self._calls_with.setdefault(_normalized_task(task), []).append(call_id)

    def link(self, agent: str, call_id: str) -> None:
        """Record that a call started this sub-agent, or went on with it."""
        calls = self._calls_of.setdefault(agent, [])
        if call_id not in calls:
            calls.append(call_id)

    def add_result(self, key: str, total: int | None, at: str | None, open_run: Prompt | None) -> None:
        """Record the total that a result reports at a time, by the id of the call or of the sub-agent."""
        if not total:
            return
        known = self._totals.setdefault(key, [])
        if known and known[-1].open_run is open_run:  # the same work, reported again
            total = max(total, known.pop().written)
        known.append(Response(counted(Spent(owner="sub-agent", total=total)), total, at, open_run))

    def add_nested(self, agent: str, parent: str) -> None:
        """Record that a sub-agent started another one."""
        if agent != parent:
            self.at(agent, None).parent = parent

    def at(self, agent: str, open_run: Prompt | None) -> SubAgent:
        """Return a sub-agent, a new one at its first line."""
        known = self.by_id.get(agent)
        if known is None:
            known = self.by_id[agent] = SubAgent(open_run=open_run)
        return known

    def line_of(self, uuid: str | None, parent: str | None, open_run: Prompt | None) -> SubAgent:
        """Return the sub-agent of a line that names none: the lines that follow each other are one sub-agent."""
        key = uuid or parent or ""
        self._before.setdefault(key, parent)
        return self.at(key, open_run)

    @property
    def unread(self) -> list[str]:
        """Ids of sub-agents that a result or a notice names, and of which no response is known."""
        known = {agent for agent, one in self.by_id.items() if one.responses}
        return sorted(self._calls_of.keys() - known)

    def charge(self, runs: Sequence[Prompt], is_own: Callable[[str], bool]) -> None:
        """Give each run the tokens of its sub-agents; ``is_own``: the agent itself gave this response."""
        if not runs or not (self.by_id or self._totals):
            return
        timeline = _Timeline(runs)
        self._join_lines()
        agents_in_order = sorted(
            self.by_id, key=lambda agent: (agent not in self._calls_of, self.by_id[agent].began or "")
        )
        self._link_by_task(agents_in_order, timeline)
        counted: set[str] = set()
        for agent in agents_in_order:
            own = self._runs_of(agent)
            for key, response in self.by_id[agent].responses.items():
                if key in counted or is_own(key):
                    continue
                counted.add(key)
                run = _run_of(response, own, timeline)
                run.by_sub_agents.append(response.spent)
                self._drop_totals(agent, run, timeline)
            if self.by_id[agent].responses:
                self._totals.pop(agent, None)
        for key, totals in self._totals.items():
            call = self._run_of_call.get(key)
            own = self._runs_of(key) if call is None else [call]
            for one in totals:
                _run_of(one, own, timeline).by_sub_agents.append(one.spent)

    def _drop_totals(self, agent: str, run: Prompt, timeline: _Timeline) -> None:
        """Drop the totals of the latest call that the sub-agent worked for in this run: its responses are known."""
        before = timeline.place(run)
        places = {
            call: timeline.place(known)
            for call in self._calls_of.get(agent, ())
            if (known := self._run_of_call.get(call)) is not None and timeline.place(known) <= before
        }
        for call, place in places.items():
            if place == max(places.values()):
                self._totals.pop(call, None)

    def _join_lines(self) -> None:
        """Make one sub-agent of the lines that follow each other, in any order."""
        for key in self._before:
            root = self._root(key)
            if root == key:
                continue
            one, whole = self.by_id.pop(key), self.at(root, None)
            whole.open_run = whole.open_run or one.open_run
            whole.asked = whole.asked or one.asked
            whole.began = min((time for time in (whole.began, one.began) if time is not None), default=None)
            for name, response in one.responses.items():
                whole.add(name, response)
        self._before.clear()

    def _root(self, key: str) -> str:
        """Return the first line before a line; in a circle the smallest id."""
        seen: dict[str, None] = {}
        while key not in seen:
            seen[key] = None
            before = self._before.get(key)
            if before is None or before not in self._before:
                return key
            key = before
        return min(seen)

    def _link_by_task(self, agents: Iterable[str], timeline: _Timeline) -> None:
        """Link each sub-agent without a known call to a free call on its task, one of the run at its time if any."""
        taken = {call for calls in self._calls_of.values() for call in calls}
        free: dict[str, dict[int, list[str]]] = {}
        for task, calls in self._calls_with.items():
            for call in reversed(calls):
                if call not in taken:
                    free.setdefault(task, {}).setdefault(id(self._run_of_call[call]), []).append(call)
        for agent in agents:
            one = self.by_id[agent]
            by_run = free.get(_normalized_task(one.asked or ""))
            if not by_run or agent in self._calls_of or one.parent is not None:
                continue
            near = id(timeline.at(one.began) or one.open_run)
            at = near if near in by_run else next(reversed(by_run))
            self.link(agent, by_run[at].pop())
            if not by_run[at]:
                del by_run[at]

    def _runs_of(self, agent: str) -> list[Prompt]:
        """Return the runs that started a sub-agent, in order: by its calls, or by those of its parents."""
        seen: set[str] = set()
        at: str | None = agent
        while at is not None and at not in seen:
            seen.add(at)
            calls = self._calls_of.get(at, ())
            found = {id(run): run for call in calls if (run := self._run_of_call.get(call)) is not None}
            if found:
                return list(found.values())
            at = self.by_id[at].parent if at in self.by_id else None
        return []


class _Timeline:
    """Runs of a session in order, with the latest beginning up to each."""

    def __init__(self, runs: Sequence[Prompt]) -> None:
        self.runs = runs
        starts = (utc_ms_of(run.began)[0] for run in runs)
        self._latest_ms = list(accumulate((-1 if start is None else start for start in starts), max))
        self._places = {id(run): place for place, run in enumerate(runs)}

    def place(self, run: Prompt) -> int:
        """Return the place of a run, 0 for one of another session."""
        return self._places.get(id(run), 0)

    def at(self, time: str | float | None) -> Prompt | None:
        """Return the latest run that had begun at a time; None without a time, or where none had."""
        at_ms, _ = utc_ms_of(time)
        place = 0 if at_ms is None else bisect_right(self._latest_ms, at_ms)
        return self.runs[place - 1] if place and self._latest_ms[place - 1] >= 0 else None


def _run_of(response: Response, own: Sequence[Prompt], timeline: _Timeline) -> Prompt:
    """Return the run of a response: by its time or its line, and none before the run that started its sub-agent."""
    run = timeline.at(response.at) or response.open_run
    if not own:
        return run or timeline.runs[-1]
    return max(own[0], run or own[0], key=timeline.place)


def _normalized_task(text: str) -> str:
    """Return a task without system reminders, with each run of white space as one space."""
    return " ".join(_REMINDER.sub(" ", text).split())
