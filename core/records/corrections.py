"""Corrections by people: resets, repairs and notes, as they are answered and digested."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from core.errors import InvalidInput
from core.records.limits import storable
from core.records.observation import digest

Target = Literal["uniform", "prior"]
REASONS: Final = (
    "Major changes to the tool inventory",
    "A bug gave wrong rewards for a while",
    "Switched to another model family",
    "A new project phase uses tools differently",
)
MAX_NOTE_CHARS: Final = 2_000


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """One reset as it is read back; ``revision`` names the epoch it opened."""

    id: str
    revision: int
    at_ms: int
    actor: str
    target: Target
    scope: str
    reason: str | None
    n_arms: int
    undone: bool


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One repair as it is read back.

    It took back ``n_observations`` that counted then. Of them ``n_changed`` count again, because a later import
    brought the run with another outcome.
    """

    id: str
    since_ms: int
    until_ms: int
    at_ms: int
    actor: str
    reason: str | None
    arms: tuple[str, ...]
    n_observations: int
    n_changed: int
    undone: bool


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note as it is read back; ``at_ms`` is when it was written, in UTC milliseconds. ``text`` "" = it is hidden
    from who asked, or erased.
    """

    id: str
    arm: str
    text: str
    actor: str
    at_ms: int
    undone: bool = False


class NoteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The written note; ``id`` is what `undo` takes."""

    id: str
    arm: str
    text: str


def note_payload(arm: str, text: str) -> int:
    """Return the digest of the request, distinct from that of other verbs."""
    return digest(("note", arm, text))


def check_text(text: str) -> str:
    """Return the text without white space around it, if that leaves 1 to 2,000 characters.

    >>> check_text(" helps with old invoices ")
    'helps with old invoices'
    """
    stripped = text.strip()
    if not 1 <= len(stripped) <= MAX_NOTE_CHARS:
        raise InvalidInput(
            f"A note must have 1 to {MAX_NOTE_CHARS:,} characters, got {len(stripped):,}.",
            next_step="Write something." if not stripped else "Shorten it, or write two.",
        )
    return storable("A note", stripped)
