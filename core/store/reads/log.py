"""Log: learners, their audit entries, imports and changes of settings; and positions for lists that go on."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from core.errors import InvalidInput, NotApplicable
from core.records.audit import AuditEntry, AuditFilter, AuditPage
from core.records.limits import shown
from core.records.run_page import RunRow
from core.records.status import ServerState
from core.records.times import DAY_MS
from core.store.engine import Connection, Row
from core.store.engine.dialect import BY_RUN
from core.store.erased import Erased
from core.store.links import link_numbered, shown_head
from core.store.tables import ACTS
from core.store.transaction import TEXTS_OF_DETAILS, Detail, Snapshot

_EVERY: Final = 1 << 62
_REWARDS_IN: Final = (
    f"SELECT observation_no FROM observation {BY_RUN} WHERE learner_id = ? AND run_no <> 0"
    " AND run_no IN ({})"
)

_MARK: Final = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{16,64})(?:/([0-9]{1,18})(?:\.([0-9]{1,18}))?)?")
_SHOWN_DIGITS: Final = 16
END: Final = 1 << 62
"""Beyond the number of every row."""

_IMPORTS: Final = 500
"""Maximum number of imports that `import_days` reads."""


class LearnerStateKey(NamedTuple):
    """Key of one state of a learner, distinct from every other state and learner of the database."""

    number: int
    revision: int
    token: int


def learners(snapshot: Snapshot) -> tuple[str, ...]:
    """Names of all learners, sorted."""
    return names_of(snapshot.connection)


def heads(snapshot: Snapshot) -> dict[str, str]:
    """Return the heads of the chains of all learners that have one, by learner."""
    return {
        name: str(shown_head(link_no, head))
        for name, link_no, head in snapshot.connection.rows(
            "SELECT name, next_link_no - 1, chain_head FROM learner WHERE learner_id > 0 AND chain_head IS NOT NULL"
            " ORDER BY name"
        )
    }


def names_of(connection: Connection) -> tuple[str, ...]:
    """Return the names of all learners, sorted.

    On a cluster only the nearest server is asked, so that no reader waits for an absent one. There a learner whose
    first import is in progress is included.
    """
    return tuple(numbered(connection).values() if connection.is_shared_out else _moments(connection))


def numbered(connection: Connection) -> dict[int, str]:
    """Return the names of learners with their numbers, sorted by name."""
    rows = connection.rows("SELECT learner_id, name FROM learner_name WHERE learner_id > 0 ORDER BY name")
    return {int(number): str(name) for number, name in rows}


def learner_moments(snapshot: Snapshot) -> dict[str, LearnerStateKey]:
    """The moment of every learner, by name, sorted."""
    return _moments(snapshot.connection)


def _moments(connection: Connection) -> dict[str, LearnerStateKey]:
    rows = connection.rows(
        "SELECT name, learner_id, revision, token FROM learner WHERE revision > 0 AND learner_id > 0 ORDER BY name"
    )
    return {name: LearnerStateKey(*rest) for name, *rest in rows}


def servers(snapshot: Snapshot) -> tuple[str, ...]:
    """The servers the database is spread over, by address; none where one server or file holds all of it."""
    return snapshot.connection.servers()


def server_state(snapshot: Snapshot) -> ServerState | None:
    """Return the server's state among the servers of its database; None for a file."""
    return snapshot.connection.server_state()


def audit_page(
    snapshot: Snapshot,
    audit_filter: AuditFilter,
    *,
    before: int | None = None,
    limit: int | None,
    hidden: Collection[int] = (),
    after: Position | None = None,
) -> AuditPage:
    """Return the matching entries from ``before`` on, and the start of the next page; ``limit`` None: all of them.

    With ``after`` return those after a position, the earliest first.
    """
    rewards = snapshot.distinct_in(_REWARDS_IN, sorted(snapshot.blind))
    acts = sorted(f"evaluation-{number}" for number in hidden) + [f"reward-{number}" for number in rewards]
    chosen: list[tuple[str, str | int]] = [
        (sql, value)
        for sql, value in (
            (" AND actor = ?", audit_filter.actor),
            (" AND action = ?", audit_filter.action),
            (" AND at_ms >= ?", audit_filter.since_ms),
            (" AND at_ms < ?", audit_filter.until_ms),
            (" AND audit_no < ?", before),
            (" AND audit_no > ?", None if after is None else _number_at(snapshot, after)),
        )
        if value is not None
    ]
    unless = f" AND coalesce(act, '') NOT IN ({','.join('?' * len(acts))})" if acts else ""
    way = "DESC" if after is None else "ASC"
    entries = snapshot.rows(
        "SELECT at_ms, actor, action, act, detail, revision, audit_no FROM audit"
        f" WHERE learner_id = ?{''.join(sql for sql, _ in chosen)}{unless} ORDER BY audit_no {way} LIMIT ?",
        [*(value for _, value in chosen), *acts, _EVERY if limit is None else limit + 1],
    )
    rows = entries[:limit]
    is_more = limit is not None and len(entries) > limit
    return AuditPage(entries=_entries(snapshot, rows), next=entries[len(rows) - 1][-1] if is_more else None)


def _entries(snapshot: Snapshot, rows: Sequence[Row]) -> tuple[AuditEntry, ...]:
    undone = _undone(snapshot, [row[3] for row in rows if row[3] is not None])
    return tuple(
        AuditEntry(
            at_ms=at_ms,
            actor=actor,
            action=action,
            act=act,
            detail=_shown(snapshot, msgspec.json.decode(detail)),
            revision=revision,
            undone=act in undone,
            mark=mark_of(snapshot, Position(revision, number)),
        )
        for at_ms, actor, action, act, detail, revision, number in rows
    )


def _number_at(snapshot: Snapshot, after: Position) -> int:
    """Return the number of the last entry up to a position; numbers and revisions grow together."""
    if after.number != END:
        return after.number
    first, end = 0, snapshot.count_of("SELECT max(audit_no) FROM audit WHERE learner_id = ?")
    while first < end:
        middle = (first + end + 1) // 2
        row = snapshot.row(
            "SELECT audit_no, revision FROM audit WHERE learner_id = ? AND audit_no <= ?"
            " ORDER BY audit_no DESC LIMIT 1",
            [middle],
        )
        if row is None or row[1] <= after.revision:
            first = middle
        else:
            end = int(row[0]) - 1
    return first


def _shown(snapshot: Snapshot, detail: Detail) -> Detail:
    if snapshot.shows_words:
        return detail
    return {name: None if name in TEXTS_OF_DETAILS else value for name, value in detail.items()}


def _undone(snapshot: Snapshot, acts: Sequence[str]) -> set[str]:
    """Return the acts that are undone by now."""
    numbers: dict[str, list[int]] = {}
    for act in acts:
        kind, _, number = act.partition("-")
        if kind in ACTS:
            numbers.setdefault(kind, []).append(int(number))

    def undone(kind: str) -> list[str]:
        table = ACTS[kind]
        rows = snapshot.rows_in(
            f'SELECT {table}_no FROM "{table}" WHERE learner_id = ? AND undone = 1 AND {table}_no IN ({{}})',
            numbers[kind],
        )
        return [f"{kind}-{number}" for (number,) in rows]

    return {*chain.from_iterable(snapshot.together(*[partial(undone, kind) for kind in numbers]))}


# Imports and changes of settings


class ImportRow(NamedTuple):
    """An import; ``summary`` is its answer as JSON."""

    number: int
    at_ms: int
    actor: str
    summary: bytes
    undone: bool


class SettingRow(NamedTuple):
    """A change of a setting; ``undone`` also where its import is undone."""

    number: int
    at_ms: int
    actor: str
    name: str
    before: object
    value: object
    undone: bool


def import_rows(snapshot: Snapshot, limit: int) -> tuple[ImportRow, ...]:
    """Return the latest imports, newest first."""
    rows = snapshot.rows(
        "SELECT import_no, at_ms, actor, summary, undone FROM import WHERE learner_id = ?"
        " ORDER BY import_no DESC LIMIT ?",
        [limit],
    )
    return tuple(
        ImportRow(number, at_ms, actor, summary.encode(), bool(undone))
        for number, at_ms, actor, summary, undone in rows
    )


def import_days(snapshot: Snapshot, since_ms: int) -> list[tuple[int, str, str]]:
    """Return day, importer and source of the newest imports that brought runs, since a time."""
    rows = snapshot.rows(
        "SELECT at_ms, actor, summary FROM import WHERE learner_id = ? AND undone = 0 AND at_ms >= ?"
        " ORDER BY import_no DESC LIMIT ?",
        [since_ms, _IMPORTS],
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
    rows = snapshot.rows(
        "SELECT s.setting_no, s.at_ms, s.actor, s.name, s.before, s.value,"
        " s.undone = 1 OR coalesce(i.undone, 0) = 1 FROM setting s"
        " LEFT JOIN import i ON i.learner_id = s.learner_id AND i.revision = s.revision"
        " WHERE s.learner_id = ? ORDER BY s.setting_no DESC LIMIT ?",
        [limit],
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


class Position(NamedTuple):
    """The last change that the caller has seen: its revision, and the number of its row."""

    revision: int
    number: int


START: Final = Position(0, 0)


def mark_of(snapshot: Snapshot, position: Position) -> str | None:
    """Return a position as callers keep it; None while the learner has no chain."""
    if snapshot.head is None:
        return None
    link_no, _, head = snapshot.head.partition(":")
    return f"{link_no}:{head[:_SHOWN_DIGITS]}/{position.revision}.{position.number}"


def position_of(snapshot: Snapshot, since: object) -> Position:
    """Return the position that 0, a mark or a head names; raises `InvalidInput` for one of another database."""
    text = str(since)
    if text == "0":
        return START
    match = _MARK.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"since must be 0, a row's mark or a head that status shows, got {shown(since)}.",
            next_step=f"{_instead(snapshot, text)} For a time, use from, such as 2026-11-01.",
        )
    link = link_numbered(snapshot.connection, snapshot.learner_id, int(match[1]))
    revision = None if match[3] is None else int(match[3])
    if link is None or not link.head.hex().startswith(match[2]) or (revision or 0) > snapshot.revision:
        raise InvalidInput(
            f"since must be of this database and its history, got {shown(since)}, which learner"
            f" {shown(snapshot.name)} never had.",
            next_step="It is of another database, or of a state before a restore. Send 0 and load all rows again.",
        )
    if revision is None:
        return Position(link.revision, END)
    return Position(revision, END if match[4] is None else int(match[4]))


def after_of(snapshot: Snapshot, since: object, hidden: Collection[int]) -> Position | None:
    """Return the position of a list that may hide evaluations or runs; None without ``since``.

    A hidden evaluation opens without a change of its own, so that a list of changes could leave it out.
    """
    n_hidden = len(hidden) + len(snapshot.blind)
    if since is not None and n_hidden:
        raise NotApplicable(
            f"since lists changes only to callers who may see all of them; {n_hidden:,} rows are hidden.",
            next_step="Judge what is open to you in blind queues, or list without since.",
        )
    return None if since is None else position_of(snapshot, since)


def marked_runs(snapshot: Snapshot, rows: Sequence[RunRow]) -> tuple[RunRow, ...]:
    """Return rows with their marks, and whether their texts are erased."""
    erased = Erased.of(snapshot.connection, snapshot.learner_id)
    return tuple(
        row._replace(
            erased=erased.takes(row.uid, row.session),
            mark=mark_of(snapshot, Position(row.revision, row.run_no)),
        )
        for row in rows
    )


def _instead(snapshot: Snapshot, text: str) -> str:
    """Return the next step for a ``since`` that is no mark; of a plain revision, the mark to send."""
    if snapshot.head is None or not text.isdecimal() or not 0 < int(text) <= snapshot.revision:
        return "Send 0 for all rows."
    link_no, _, head = snapshot.head.partition(":")
    return f"If revision {text} is of this database, send {link_no}:{head[:_SHOWN_DIGITS]}/{text}."
