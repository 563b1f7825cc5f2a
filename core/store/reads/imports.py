"""Imports and changes of settings as recorded: actor, time, content and state."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from core.records.times import DAY_MS
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


_IMPORTS: Final = 500


def import_days(snapshot: Snapshot, since_ms: int) -> list[tuple[int, str, str]]:
    """Return day, importer and source of the newest imports that brought runs, since a time."""
    rows = snapshot.connection.rows(
        "SELECT at_ms, actor, summary FROM import WHERE learner_id = ? AND undone = 0 AND at_ms >= ?"
        " ORDER BY import_no DESC LIMIT ?",
        [snapshot.learner_id, since_ms, _IMPORTS],
    )
    answers = [(at_ms, actor, _BROUGHT.decode(summary)) for at_ms, actor, summary in rows]
    return [
        (at_ms // DAY_MS, actor, answer.format)
        for at_ms, actor, answer in answers
        if answer.runs > answer.duplicates
    ]


class _Brought(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    runs: int
    duplicates: int


_BROUGHT: Final = msgspec.json.Decoder(_Brought)


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
