"""Steps of a session in the terms of several agents: a prompt, a text, a call, tokens, an end → its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from core.formats.line_order import Line
from core.formats.sessions import Prompt, Session
from core.formats.sub_agents import SubAgents
from core.records.bill import Owner, Spent
from core.records.run import Call, Status, Usage

L = TypeVar("L", bound=Line)


@dataclass(slots=True)
class Turn(Prompt):
    """A prompt with the disjoint token counts of its replies."""

    rows: list[Spent] = field(default_factory=list)

    @property
    def spent(self) -> Iterable[Spent]:
        return self.rows

    @property
    def usage(self) -> Usage | None:
        return usage_of(self.rows)


@dataclass
class Steps(Session[Turn, L], Generic[L]):
    """A session whose format translates each line into these steps. A reply before the first prompt opens a run."""

    agents: SubAgents[Turn] = field(default_factory=SubAgents)
    _calls: dict[str, tuple[Turn, int]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.id or self.prompts[0].identity

    def open(self, identity: str, request: str, at: str | float | None) -> None:
        """Open a run with a prompt of the person."""
        self.n_facts += 1
        self.prompts.append(Turn(identity, request=request, last_time=at))

    def turn(self, at: str | float | None) -> Turn:
        """Return the open run, at a step of this time."""
        self.n_facts += 1
        if not self.prompts:
            self.prompts.append(Turn(f"{self.id or 'session'}/0"))
        self.prompts[-1].last_time = at or self.prompts[-1].last_time
        return self.prompts[-1]

    def say(self, text: str, at: str | float | None) -> None:
        """Add a text of the agent."""
        turn = self.turn(at)
        turn.n_replies += 1
        turn.status = "completed"
        if text:
            self.add_text(turn, text)

    def call(self, name: str, identity: str | None, arguments: msgspec.Raw, at: str | float | None) -> None:
        """Add a call; one whose id is known is the same, and the later name is the better one."""
        known = self._calls.get(identity or "")
        if known is not None:
            turn, place = known
            turn.calls[place] = Call(name=name, metadata=turn.calls[place].metadata)
            turn.talk.rename(name, identity)
            return
        turn = self.turn(at)
        turn.n_replies += 1
        turn.status = "completed"
        self.add_call(turn, name, arguments, identity)
        if identity:
            self._calls[identity] = (turn, len(turn.calls) - 1)

    def end(self, status: Status, at: str | float | None, duration_ms: float | None = None) -> None:
        """Add how the open run ended."""
        turn = self.turn(at)
        turn.status = status
        if duration_ms is not None:
            turn.duration_ms = round(duration_ms)


def usage_of(rows: Sequence[Spent]) -> Usage | None:
    """Return the sum of disjoint counts, None for nothing."""
    usage = Usage(
        input=sum(row.input for row in rows),
        output=sum(row.output for row in rows),
        cache_read=sum(row.cache_read for row in rows),
        cache_write=sum(row.cache_write_5m for row in rows),
        total=sum(row.tokens + row.total for row in rows) or None,
    )
    return None if usage.tokens is None else usage


def split(model: str | None, owner: Owner, counts: tuple[int, int, int, int]) -> Spent:
    """Return the disjoint counts of input that contains tokens read from a cache and written to one, and of output.

    >>> split("m", "agent", (100, 70, 10, 5)).input, split(None, "agent", (1, 2, 0, 5)).total
    (20, 6)
    """
    read, cached, written, output = counts
    if cached + written > read:
        return Spent(model=model, owner=owner, total=read + output)
    return Spent(
        model=model,
        owner=owner,
        input=read - cached - written,
        cache_read=cached,
        cache_write_5m=written,
        output=output,
        assumed=written > 0,
    )
