"""Audit: who changed what, when; written in the same transaction as the change."""

from __future__ import annotations

import msgspec

from core.records.limits import Millis

ActionName = str
"""What was done: the name of a kind of fact that is an act (`core.store.facts`), or ``create`` of a learner."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """``act`` is the id that `undo` takes (None where nothing can be undone); ``detail`` holds short facts."""

    at_ms: int
    actor: str
    action: ActionName
    act: str | None
    detail: dict[str, str | int | float | bool | None]
    revision: int
    undone: bool = False


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is wanted of an audit: of one actor, of one action, from a moment on until another (UTC, in ms)."""

    actor: str | None = None
    action: str | None = None
    since_ms: Millis | None = None
    until_ms: Millis | None = None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, newest first; ``next`` is where the page after it begins, None where there is none."""

    entries: tuple[AuditEntry, ...]
    next: int | None = None


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """How often somebody ('': nobody knows who) was refused an action in the minute that began at ``at_ms``."""

    at_ms: int
    actor: str
    action: str
    n: int


class DenialPage(msgspec.Struct, frozen=True, kw_only=True):
    """Denials, newest first; the page after it comes after ``next``, None where there is none."""

    denials: tuple[Denial, ...]
    next: Denial | None = None
