"""Traces: sent spans, until their trace is a run that no longer grows.

Spans are stored for a day after the last of their trace, so that a late root still meets the others. Under a lack of
room, those of traces that already are runs go first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from core.errors import StoreBusy
from core.records.times import DAY_MS
from core.store.compacted import compacted_runs
from core.store.mapped import Mapped, StoredAs
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction
from core.store.version import source_rank

TRACES: Final = "otlp/prompt/"
"""Prefix of the uids of runs from traces; the trace's own id follows."""
MAX_SPANS: Final = 10_000
"""Limit per trace."""
MAX_STORED_BYTES: Final = 256 << 20
"""Limit per learner, compressed."""
LIFETIME_MS: Final = DAY_MS
LISTED_MS: Final = 7 * DAY_MS
"""So long a trace is listed that became a run without its root, or none."""
_ROW_BYTES: Final = 200
_LONGEST: Final = 1 << 62
_ADD: Final = (
    insert_into(
        "trace",
        *("learner_id", "uid", "session", "said", "is_rooted", "n_spans", "n_bytes", "n_told", "last_ms"),
    )
    + " ON CONFLICT (learner_id, uid) DO UPDATE SET n_spans = trace.n_spans + excluded.n_spans,"
    " n_bytes = trace.n_bytes + excluded.n_bytes, last_ms = excluded.last_ms,"
    " is_rooted = CASE WHEN excluded.is_rooted > 0 THEN 1 ELSE trace.is_rooted END,"
    " session = CASE WHEN trace.session = '' THEN excluded.session ELSE trace.session END"
)
_SPAN: Final = insert_into("span", "learner_id", "trace", "uid", "content")


class Packed(NamedTuple):
    """A span that was sent."""

    uid: str
    content: bytes
    is_root: bool
    session: str


class StoredTrace(NamedTuple):
    """A trace as it is kept; its spans may be gone already."""

    uid: str
    session: str
    problem: str
    is_rooted: int
    n_spans: int
    n_settled: int
    last_ms: int


_TRACES: Final = Mapped(StoredTrace, "trace", problem=StoredAs("said"), n_settled=StoredAs("n_told"))


def keep_spans(
    txn: Transaction, spans_by_trace: Mapping[str, Sequence[Packed]], *, at_most_bytes: int = MAX_STORED_BYTES
) -> int:
    """Store new spans by trace; return how many exceed the limit of a trace.

    Raises `StoreBusy` for a temporary lack of room.
    """
    known = _known(txn, list(spans_by_trace))
    rows, spans, n_refused = [], [], 0
    for uid, batch in sorted(spans_by_trace.items()):
        fresh = {one.uid: one for one in batch if one.uid not in known.get(uid, ())}
        stored = list(fresh.values())[: max(0, MAX_SPANS - len(known.get(uid, ())))]
        n_refused += len(fresh) - len(stored)
        if stored:
            n_bytes = sum(len(one.content) + _ROW_BYTES for one in stored)
            session = next((txn.erased.session(one.session) or "" for one in stored if one.session), "")
            is_rooted = int(any(one.is_root for one in stored))
            rows.append((txn.learner_id, uid, session, "", is_rooted, len(stored), n_bytes, 0, txn.now_ms))
            spans += [(txn.learner_id, uid, one.uid, one.content) for one in stored]
    _make_room(txn, sum(row[6] for row in rows), at_most_bytes)
    txn.connection.many(_ADD, rows)
    txn.connection.many(_SPAN, spans)
    return n_refused


def _known(txn: Transaction, uids: Sequence[str]) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for trace, uid in txn.rows_in("SELECT trace, uid FROM span WHERE learner_id = ? AND trace IN ({})", uids):
        known.setdefault(trace, set()).add(uid)
    return known


def _make_room(txn: Transaction, n_bytes: int, at_most: int) -> None:
    over = n_bytes + txn.count_of("SELECT sum(n_bytes) FROM trace WHERE learner_id = ?") - at_most
    if over <= 0:
        return
    gone = []
    for uid, held in txn.rows(
        "SELECT uid, n_bytes FROM trace WHERE learner_id = ? AND n_told >= n_spans AND n_bytes > 0"
        " ORDER BY last_ms"
    ):
        gone.append(uid)
        over -= held
        if over <= 0:
            break
    if over > 0:
        raise StoreBusy(
            f"Spans that wait to become runs must have at most {at_most:,} bytes, got more.",
            next_step="Send them again later: traces without a root become runs after an hour, and make room.",
        )
    _empty(txn, gone)


def _empty(txn: Transaction, uids: Sequence[str]) -> None:
    txn.run_in("DELETE FROM span WHERE learner_id = ? AND trace IN ({})", uids)
    txn.run_in("UPDATE trace SET n_bytes = 0 WHERE learner_id = ? AND uid IN ({})", uids)


def has_old(facts: Facts, now_ms: int) -> bool:
    """Return whether `forget_old` would delete anything."""
    return facts.has_row(
        "SELECT 1 FROM trace WHERE learner_id = ? AND n_told >= n_spans"
        " AND (last_ms <= CASE WHEN n_bytes > 0 THEN ? ELSE ? END OR last_ms > ?) LIMIT 1",
        [now_ms - LIFETIME_MS, now_ms - LISTED_MS, now_ms + LISTED_MS],
    )


def forget_old(txn: Transaction) -> None:
    """Delete the spans of traces that no longer grow, and later the traces."""
    rows = txn.column(
        "SELECT uid FROM trace WHERE learner_id = ? AND (last_ms <= ? OR last_ms > ?) AND n_told >= n_spans"
        " AND n_bytes > 0",
        [txn.now_ms - LIFETIME_MS, txn.now_ms + LISTED_MS],
    )
    _empty(txn, rows)
    txn.run(
        "DELETE FROM trace WHERE learner_id = ? AND n_bytes = 0"
        " AND (last_ms <= ? OR last_ms > ? OR (is_rooted = 1 AND said = ''))",
        [txn.now_ms - LISTED_MS, txn.now_ms + LISTED_MS],
    )


def due_traces(facts: Facts, now_ms: int, silent_ms: int, at_most: int) -> tuple[StoredTrace, ...]:
    """Return traces to turn into runs: those with a root, and those without a new span for a while."""
    return _TRACES.rows(
        facts,
        "AND n_told < n_spans AND (is_rooted = 1 OR last_ms <= ? OR last_ms > ?) ORDER BY last_ms, uid LIMIT ?",
        [now_ms - silent_ms, now_ms + silent_ms, at_most],
    )


def spans_of(facts: Facts, uid: str) -> list[bytes]:
    """The spans of a trace, packed."""
    contents = facts.column("SELECT content FROM span WHERE learner_id = ? AND trace = ?", [uid])
    return [bytes(content) for content in contents]


def known_ranks(facts: Facts, uids: Sequence[str]) -> dict[str, int]:
    """Return the ranks of known runs; a compacted one is as long as can be, because it grows no more."""
    rows = facts.rows_in("SELECT uid, rank FROM run WHERE learner_id = ? AND uid IN ({})", uids)
    ranks = {uid: source_rank(rank) for uid, rank in rows}
    return ranks | dict.fromkeys(compacted_runs(facts, [uid for uid in uids if uid not in ranks]), _LONGEST)


def note_settled(txn: Transaction, settled: Sequence[tuple[str, int, str]]) -> None:
    """Record the number of spans of traces that became runs, and reasons why others could not ('')."""
    txn.connection.many(
        "UPDATE trace SET said = ?, n_told = CASE WHEN n_told < ? THEN ? ELSE n_told END"
        " WHERE learner_id = ? AND uid = ?",
        [(problem, n_spans, n_spans, txn.learner_id, uid) for uid, n_spans, problem in settled],
    )


def listed_traces(facts: Facts, at_most: int) -> tuple[StoredTrace, ...]:
    """Return traces that wait for their root, became runs without it, or can't become one; the latest first."""
    where = "AND (is_rooted = 0 OR said <> '' OR n_told < n_spans) ORDER BY last_ms DESC, uid LIMIT ?"
    return _TRACES.rows(facts, where, [at_most])


def drop_traces(txn: Transaction, uids: Sequence[str], sessions: Sequence[str]) -> int:
    """Erase what is kept of traces, and of those of sessions; how many there were."""
    of_sessions = txn.distinct_in("SELECT uid FROM trace WHERE learner_id = ? AND session IN ({})", sessions)
    here = txn.distinct_in("SELECT uid FROM trace WHERE learner_id = ? AND uid IN ({})", uids)
    dropped = sorted(of_sessions | here)
    txn.run_in("DELETE FROM span WHERE learner_id = ? AND trace IN ({})", dropped)
    txn.run_in("DELETE FROM trace WHERE learner_id = ? AND uid IN ({})", dropped)
    return len(dropped)
