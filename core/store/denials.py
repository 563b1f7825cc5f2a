"""Denials: refusals summed by actor, action and minute, so that a flood fills no disk.

A flood also blocks no writer: within a second of the last write refusals are only counted, and written later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Final, NamedTuple, Protocol

from core.records.actor import Actor
from core.records.audit import AuditFilter, Denial
from core.records.learner import INSTALLATION
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction

MINUTE_MS: Final = 60_000
_BETWEEN_MS: Final = 1_000
_EVER: Final = 1 << 62
_COUNT: Final = (
    insert_into("denial", "learner_id", "minute", "actor", "action", "n")
    + " ON CONFLICT (learner_id, minute, actor, action) DO UPDATE SET n = denial.n + excluded.n"
)


class _DenialKey(NamedTuple):
    minute: int
    actor: str
    action: str


class Writer(Protocol):
    """A store, for a write."""

    def write(
        self, learner: str, work: Callable[[Transaction], None], *, actor: Actor, now_ms: int
    ) -> None: ...


class Refusals:
    """Refusals of a process. They are written for the first of a minute, or after a second."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: Counter[_DenialKey] = Counter()
        self._written: set[_DenialKey] = set()
        self._written_ms = -_BETWEEN_MS

    def note(self, store: Writer, actor: str, action: str, now_ms: int) -> None:
        """Count one; raises what a write raises, and then it is still counted."""
        key = _DenialKey(now_ms // MINUTE_MS, actor, action)
        with self._lock:
            self._waiting[key] += 1
            if key in self._written and 0 <= now_ms - self._written_ms < _BETWEEN_MS:
                return
            taken, self._waiting = self._waiting, Counter()
            self._written = {one for one in self._written if one.minute == key.minute} | {key}
            self._written_ms = now_ms
        try:
            self._write(store, taken, now_ms)
        except BaseException:
            with self._lock:
                self._waiting.update(taken)
            raise

    def flush(self, store: Writer) -> None:
        """Write what is only counted."""
        with self._lock:
            taken, self._waiting = self._waiting, Counter()
        if taken:
            self._write(store, taken, self._written_ms)

    @staticmethod
    def _write(store: Writer, counted: Counter[_DenialKey], now_ms: int) -> None:
        no_user = Actor(name="nobody", role=None)
        store.write(INSTALLATION, lambda txn: _add(txn, counted), actor=no_user, now_ms=now_ms)


def _add(txn: Transaction, counted: Counter[_DenialKey]) -> None:
    rows = [(txn.learner_id, *key, n) for key, n in counted.items()]
    txn.connection.many(_COUNT, rows)


def count_denials(facts: Facts, since_ms: int, until_ms: int = _EVER) -> int:
    """Return the number of refusals from one time to another, in full minutes."""
    return facts.count_of(
        "SELECT sum(n) FROM denial WHERE learner_id = ? AND minute BETWEEN ? AND ?",
        [since_ms // MINUTE_MS, until_ms // MINUTE_MS],
    )


def denials(
    facts: Facts, audit_filter: AuditFilter, *, after: Denial | None = None, limit: int | None
) -> tuple[Denial, ...]:
    """Denials, newest first, from the one ``after`` on; ``limit`` None: all of them."""
    key = (_EVER, "", "") if after is None else (after.at_ms // MINUTE_MS, after.actor, after.action)
    rows = facts.rows(
        "SELECT minute, actor, action, n FROM denial WHERE learner_id = ?"
        " AND (minute < ? OR (minute = ? AND (actor > ? OR (actor = ? AND action > ?))))"
        " AND (minute + 1) * 60000 > ? AND (minute * 60000 < ? OR ? = 0)"
        " AND (actor = ? OR ? = 0) AND (action = ? OR ? = 0)"
        " ORDER BY minute DESC, actor, action LIMIT ?",
        [
            *(key[0], key[0], key[1], key[1], key[2]),
            -1 if audit_filter.since_ms is None else audit_filter.since_ms,
            *(audit_filter.until_ms or 0, int(audit_filter.until_ms is not None)),
            *(audit_filter.actor or "", int(audit_filter.actor is not None)),
            *(audit_filter.action or "", int(audit_filter.action is not None)),
            _EVER if limit is None else limit,
        ],
    )
    return tuple(
        Denial(at_ms=minute * MINUTE_MS, actor=who, action=what, n=n) for minute, who, what, n in rows
    )
