"""Imports and changes of settings as recorded: actor, time, content and state."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from core.store.transaction import Snapshot


class ImportRow(NamedTuple):
    """``summary`` is what the import answered, as JSON."""

    number: int
    at_ms: int
    actor: str
    summary: bytes
    undone: bool


class SettingRow(NamedTuple):
    number: int
    at_ms: int
    actor: str
    name: str
    before: object
    value: object
    undone: bool


def import_rows(snapshot: Snapshot, limit: int) -> tuple[ImportRow, ...]:
    """The latest imports, newest first."""
    rows = snapshot.connection.rows(
        "SELECT import_no, at_ms, actor, summary, undone FROM import WHERE learner_id = ?"
        " ORDER BY import_no DESC LIMIT ?",
        [snapshot.learner_id, limit],
    )
    return tuple(
        ImportRow(number, at_ms, actor, summary.encode(), bool(undone))
        for number, at_ms, actor, summary, undone in rows
    )


def setting_rows(snapshot: Snapshot, limit: int) -> tuple[SettingRow, ...]:
    """Return the latest changes of settings, newest first; an imported one is undone with its import."""
    rows = snapshot.connection.rows(
        "SELECT s.setting_no, s.at_ms, s.actor, s.name, s.before, s.value,"
        " s.undone = 1 OR coalesce(i.undone, 0) = 1 FROM setting s"
        " LEFT JOIN import i ON i.learner_id = s.learner_id AND i.revision = s.revision"
        " WHERE s.learner_id = ? ORDER BY s.setting_no DESC LIMIT ?",
        [snapshot.learner_id, limit],
    )
    return tuple(
        SettingRow(
            number,
            at_ms,
            actor,
            name,
            msgspec.json.decode(before),
            msgspec.json.decode(value),
            bool(undone),
        )
        for number, at_ms, actor, name, before, value, undone in rows
    )
