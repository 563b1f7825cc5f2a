"""Sub-agents of a session: the tokens of their responses, and the run that each was started in.

A sub-agent's calls are not the agent's, so they make no arm and no run. Its tokens belong to the bill of the run
that started it. Its responses are found in three forms: among the session's own lines, in progress notices, and in a
file of its own. A response in several of them counts once. Where none is found, the total that its result reports
is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.formats.moments import utc_ms_of
from core.formats.sessions import Prompt
from core.records.bill import Spent

P = TypeVar("P", bound=Prompt)


@dataclass(slots=True)
class SubAgent(Generic[P]):
    """A sub-agent. ``open_run`` is the run that was open at its first line; ``asked`` is its task."""

    open_run: P | None = None
    asked: str | None = None
    began: str | None = None
    parent: str | None = None
    responses: dict[str, Spent] = field(default_factory=dict)


@dataclass
class SubAgents(Generic[P]):
    """The sub-agents of one session by their ids, with the calls that started them."""

    by_id: dict[str, SubAgent[P]] = field(default_factory=dict)
    _run_of_call: dict[str, P] = field(default_factory=dict)
    _calls_with: dict[str, list[str]] = field(default_factory=dict)
    _call_of: dict[str, str] = field(default_factory=dict)
    _totals: dict[str, int] = field(default_factory=dict)
    _chains: dict[str, str] = field(default_factory=dict)

    def add_call(self, call_id: str, run: P, task: str) -> None:
        """Record a call that starts a sub-agent on a task."""
        self._run_of_call[call_id] = run
        self._calls_with.setdefault(task, []).append(call_id)

    def link(self, agent: str, call_id: str) -> None:
        """Record that a call started this sub-agent."""
        self._call_of[agent] = call_id

    def add_result(self, agent: str | None, call_id: str | None, total: int | None) -> None:
        """Record the result of a call: the sub-agent's id and the total that it reports."""
        if agent is not None and call_id is not None:
            self.link(agent, call_id)
        key = call_id or agent
        if key is not None and total:
            self._totals[key] = max(total, self._totals.get(key, 0))

    def at(self, agent: str, open_run: P | None) -> SubAgent[P]:
        """Return a sub-agent, a new one at its first line."""
        known = self.by_id.get(agent)
        if known is None:
            known = self.by_id[agent] = SubAgent(open_run=open_run)
        return known

    def chain(self, uuid: str | None, parent: str | None) -> str:
        """Return the id of a line's sub-agent where lines name none: that of the first line it follows."""
        root = self._chains.get(parent or "") or uuid or parent or ""
        if uuid is not None:
            self._chains[uuid] = root
        return root

    @property
    def unread(self) -> list[str]:
        """Ids of sub-agents that a result or a notice names, and of which no response is known."""
        known = {agent for agent, one in self.by_id.items() if one.responses}
        return sorted(self._call_of.keys() - known)

    def charge(self, runs: Sequence[P], is_own: Callable[[str], bool]) -> None:
        """Give each run the tokens of its sub-agents; ``is_own``: the agent itself gave this response."""
        if not runs:
            return
        counted: set[str] = set()
        for agent in sorted(self.by_id, key=lambda one: (one not in self._call_of, one)):
            one = self.by_id[agent]
            call_id = self._started_by(agent)
            new = [key for key in one.responses if key not in counted and not is_own(key)]
            counted.update(new)
            if one.responses and call_id is not None:
                self._totals.pop(call_id, None)
            if one.responses:
                self._totals.pop(agent, None)
            run = self._run(agent, runs)
            run.by_sub_agents += [one.responses[key] for key in new]
        for key, total in self._totals.items():
            run = self._run_of_call.get(key) or self._run(key, runs)
            run.by_sub_agents.append(Spent(owner="sub-agent", total=total))

    def _started_by(self, agent: str) -> str | None:
        """Return the call that started a sub-agent: the linked one, else the next one with the same task."""
        linked = self._call_of.get(agent)
        if linked is None:
            taken = set(self._call_of.values())
            calls = [
                one for one in self._calls_with.get(self.by_id[agent].asked or "", ()) if one not in taken
            ]
            if calls:
                linked = self._call_of[agent] = calls[0]
        return linked

    def _run(self, agent: str, runs: Sequence[P], level: int = 0) -> P:
        """Return the run of a sub-agent: by its call, by its parent, by its first line, or by time."""
        run = self._run_of_call.get(self._call_of.get(agent, ""))
        if run is not None:
            return run
        one = self.by_id.get(agent)
        if one is None:
            return runs[-1]
        if one.parent is not None and one.parent != agent and level < len(self.by_id):
            return self._run(one.parent, runs, level + 1)
        return one.open_run or _at(runs, one.began)


def _at(runs: Sequence[P], time: str | None) -> P:
    """Return the first run that had not ended at a time; without one the last."""
    at_ms, _ = utc_ms_of(time)
    if at_ms is not None:
        for run in runs:
            ended_ms, _ = utc_ms_of(run.last_time)
            if ended_ms is not None and ended_ms >= at_ms:
                return run
    return runs[-1]
