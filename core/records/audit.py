"""Audit: who changed what, when; written in the same transaction as the change."""

from __future__ import annotations

import msgspec

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
