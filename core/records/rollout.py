"""Messages of an agent with an environment, sent event by event."""

from __future__ import annotations

import msgspec

from core.records.times import Moment


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
