"""Rollout: an agent's messages with an environment as they are sent, event by event: what came of it, what waits."""

from __future__ import annotations

import msgspec


class RolloutRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout that is no episode: ``events`` have come, the last at ``last_at`` (ISO 8601, UTC); ``said`` is why it
    can't be one, None where it waits for its start.
    """

    rollout: str
    events: int
    last_at: str
    said: str | None = None


class RefusedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is not kept: which of those that were sent, from 0, and why."""

    place: int
    error: str


class EventsTaken(msgspec.Struct, frozen=True, kw_only=True):
    """What came of events that were sent: ``kept`` are new, ``known`` were there, ``unknown`` are of another type.

    ``episodes`` are the uids of those that began or went on, ``waiting`` rollouts that have not started.
    ``repeated`` events repeat the reward of a message that was logged block by block, which counts once.
    """

    kept: int
    known: int
    unknown: int
    repeated: int
    refused: tuple[RefusedEvent, ...]
    episodes: tuple[str, ...]
    waiting: tuple[str, ...]
