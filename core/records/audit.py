"""Audit entries: who changed what, and when. An entry is written in the transaction of its change."""

from __future__ import annotations

import msgspec

from core.records.limits import Millis

ActionName = str
"""Name of the kind of fact that the act is (`core.store.facts`), or ``create`` of a learner."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """``act`` is the id that `undo` takes (None where nothing can be undone); ``detail`` holds short facts.

    ``mark`` is its position: a list with ``since`` has only newer entries. The entry of an undo or an erasure names
    this one.
    """

    at_ms: int
    actor: str
    action: ActionName
    act: str | None
    detail: dict[str, str | int | float | bool | None]
    revision: int
    undone: bool = False
    mark: str | None = None


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Filter of audit entries by actor, action, and time (UTC milliseconds, end exclusive)."""

    actor: str | None = None
    action: str | None = None
    since_ms: Millis | None = None
    until_ms: Millis | None = None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, newest first; ``next`` is where the page after it begins, None where there is none."""

    entries: tuple[AuditEntry, ...]
    next: int | None = None


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """Number of refusals of an action to an actor ('' = unknown) in the minute that begins at ``at_ms``."""

    at_ms: int
    actor: str
    action: str
    n: int


class DenialPage(msgspec.Struct, frozen=True, kw_only=True):
    """Denials, newest first; the page after it comes after ``next``, None where there is none."""

    denials: tuple[Denial, ...]
    next: Denial | None = None
