"""Rollouts sent event by event, and traces sent span by span.

An event that OpenReward's client uploads is stored until its rollout is complete. A rollout holds the messages of an
agent with an environment. A trace is another program's record of a run.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from core.records.episode import StepNote
from core.records.times import Moment

SPLIT_MS: Final = 50
"""Blocks of one message are logged at most so far apart."""
Side = Literal["agent", "answer", "other"]
_SIDES: Final[dict[str, Side]] = {
    "reasoning": "agent",
    "assistant_message": "agent",
    "tool_call": "agent",
    "tool_result": "answer",
    "user_message": "answer",
}

TraceState = Literal["waiting", "rootless", "unread"]
"""Waits for its root; became a run without it; has content that no run can be made of."""


class RolloutRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout that is no episode yet. ``events`` have arrived, the last at ``last_at`` (ISO 8601, UTC).

    ``said`` is the reason that it can't become one; None = it waits for its start.
    """

    rollout: str
    events: int
    last_at: Moment
    said: str | None = None


class RefusedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is not kept: which of those that were sent, from 0, and why."""

    place: int
    error: str


class EventsTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Result of sent events: ``kept`` are new, ``known`` were stored before, ``unknown`` have another type.

    ``episodes`` are the uids of those that began or grew. ``waiting`` counts rollouts without a start. ``repeated``
    events repeat the reward of a message that was logged block by block; it counts once.
    """

    kept: int
    known: int
    unknown: int
    repeated: int
    refused: tuple[RefusedEvent, ...]
    episodes: tuple[str, ...]
    waiting: tuple[str, ...]


class Started(msgspec.Struct, frozen=True, tag_field="sent", tag="started", gc=False, omit_defaults=True):
    """The stored part of a start event; ``otherwise`` is the task's name if no update names one."""

    rollout: str
    at_ms: int
    environment: str
    split: str | None = None
    task: str | None = None
    otherwise: str | None = None
    variant: str | None = None
    model: str | None = None


class Updated(msgspec.Struct, frozen=True, tag_field="sent", tag="updated", gc=False):
    """The stored part of an update: its task; the latest counts."""

    rollout: str
    at_ms: int
    task: str | None


class Message(msgspec.Struct, frozen=True, tag_field="sent", tag="message", gc=False, omit_defaults=True):
    """The stored part of a message, until all have arrived; long-term storage leaves out ``content``."""

    rollout: str
    uid: str
    index: int
    at_ms: int
    type: str = ""
    name: str = ""
    call_id: str | None = None
    n_chars: int = 0
    content: str | None = None
    reward: float | None = None
    note: StepNote | None = None
    finished: bool = False
    meta_digest: str | None = None
    args_digest: str | None = None

    @property
    def side(self) -> Side:
        """The author's side."""
        return _SIDES.get(self.type, "other")

    def goes_on(self, before: Message) -> bool:
        """Return whether another block belongs to the same message."""
        return (
            self.reward is not None
            and self.index == before.index + 1
            and self.side == before.side != "other"
            and (self.reward, self.finished, self.meta_digest)
            == (before.reward, before.finished, before.meta_digest)
            and abs(self.at_ms - before.at_ms) <= SPLIT_MS
        )


RolloutEvent = Started | Updated | Message


def without_text(event: RolloutEvent) -> RolloutEvent:
    """The same without what it says; its length stays.

    >>> without_text(Message(rollout="r", uid="m", index=0, at_ms=5, n_chars=3, content="yes")).content is None
    True
    """
    return msgspec.structs.replace(event, content=None) if isinstance(event, Message) else event


# Traces


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that is no complete run. ``spans`` have arrived, the last at ``last_at`` (ISO 8601, UTC).

    ``run`` is the uid of its run, if there is one; ``said`` is the reason if not.
    """

    trace: str
    session: str | None
    state: TraceState
    spans: int
    last_at: Moment
    run: str | None = None
    said: str | None = None


class SpansTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Result of sent spans: ``runs`` were made or grew, ``refused`` spans are not stored, ``words`` give reasons and
    notes.
    """

    kept: int
    refused: int
    runs: int
    words: str = ""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """Traces that became runs, some of them without a root, and each reason against others once."""

    runs: int = 0
    rootless: int = 0
    unread: tuple[str, ...] = ()
