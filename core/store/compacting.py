"""Compacting: rows of old runs are deleted; their sums and digests of their uids stay (`core.store.compacted`).

It is the one act that deletes facts. Each piece is one transaction, so writers wait for one piece at most. The caches
do not change, because they equal the sums. The chain loses the deleted facts and gets the compaction, which has their
digest. So an older backup proves which runs were compacted.

A run's texts go with it, and so does its own execution, which holds them. A run stays whole if anything else is about
it: a reward, outcome, evaluation, choice, another execution, episode, repair, item of a queue, an assignment of its
session, or an offer that waits. So do runs of an undone import, and runs of unknown time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from core.columns import UNKNOWN
from core.maths.achieved import stated
from core.records.arm import MICRO
from core.records.evidence import OBSERVED, REFERENCED
from core.records.selection import LEFT_OUT
from core.records.times import HOUR_MS, iso
from core.store.caches import coin_draw_of, rollup_facts
from core.store.compacted import DecidedArm, DecidedRun, ObservedRow, Segments, Sums, sources_of, uid_key
from core.store.covered import Row
from core.store.engine.dialect import (
    ACTIVE,
    BY_RUN,
    BY_TIME,
    EVALUATIONS_BY_RUN,
    EXECUTIONS_BY_RUN,
    OUTCOMES_BY_RUN,
)
from core.store.provenance import run_sources
from core.store.staging import spoil
from core.store.tables import insert_into
from core.store.texts import delete_texts, own_executions
from core.store.transaction import Facts, Transaction
from core.store.version import BESIDE, named_key

PIECE: Final = 1_000
"""Runs of one transaction."""
_DIGEST_BYTES: Final = 32
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_OLD: Final = (
    f"SELECT at_ms, run_no FROM run {BY_TIME} WHERE learner_id = ? AND revision <= ? AND at_ms < ?"
    f" AND {ACTIVE} AND (at_ms, run_no) > (?, ?) ORDER BY at_ms, run_no LIMIT ?"
)
_ABOUT: Final = (
    f"SELECT run_no FROM observation {BY_RUN} WHERE learner_id = ? AND run_no <> 0 AND run_no IN ({{}})",
    f"SELECT run_no FROM evaluation {EVALUATIONS_BY_RUN} WHERE learner_id = ? AND run_no <> 0 AND run_no IN ({{}})",
    f"SELECT r.run_no FROM run r CROSS JOIN achieved a {OUTCOMES_BY_RUN}"
    " WHERE r.learner_id = ? AND r.run_no IN ({}) AND a.learner_id = r.learner_id AND a.run = r.uid",
    "SELECT run_no FROM episode_run WHERE learner_id = ? AND run_no IN ({})",
    "SELECT run_no FROM retraction WHERE learner_id = ? AND run_no IN ({})",
    "SELECT run_no FROM review_item WHERE learner_id = ? AND run_no IN ({})",
    "SELECT run_no FROM offer WHERE learner_id = ? AND choice <> '' AND run_no IN ({})",
    "SELECT run_no FROM staged_provenance WHERE learner_id = ? AND run_no IN ({})",
    *(
        f"SELECT r.run_no FROM run r CROSS JOIN assignment a WHERE r.learner_id = ? AND r.run_no IN ({{}})"
        f" AND a.learner_id = r.learner_id AND a.{unit} = r.{name} AND a.{unit} <> ''"
        for unit, name in (("session", "session"), ("run", "uid"))
    ),
)
"""Queries of the runs that rows of other tables are about."""
_EXECUTIONS: Final = (
    f"SELECT execution_no, run_no FROM execution {EXECUTIONS_BY_RUN} WHERE learner_id = ? AND run_no <> 0"
    " AND run_no IN ({})"
)
_ABOUT_EXECUTIONS: Final = (
    "SELECT execution_no FROM evaluation WHERE learner_id = ? AND execution_no IN ({})",
    "SELECT first_no FROM choice WHERE learner_id = ? AND first_no IN ({})",
    "SELECT second_no FROM choice WHERE learner_id = ? AND second_no IN ({})",
    "SELECT execution_no FROM review_item WHERE learner_id = ? AND execution_no IN ({})",
)
"""Queries of the executions that feedback, or an item of a queue, is about."""
_USED: Final = "SELECT outcome, at_ms, revision, uid, trace FROM run WHERE learner_id = ? AND run_no IN ({})"
_DECIDED: Final = (
    "SELECT run_no, session_key, at_ms, choice, import_no, class, coalesce(model, ''), coalesce(channel, ''), status,"
    f" outcome, coalesce(tokens, {UNKNOWN}), coalesce(duration_ms, {UNKNOWN}), coalesce(bill_pico, {UNKNOWN}),"
    " bill_marks, reward FROM run WHERE learner_id = ? AND session_key >= 0 AND outcome <> 'empty'"
    " AND run_no IN ({})"
)
_CHANCES: Final = (
    "SELECT r.session, r.at_ms, d.arm_no, d.chance, d.reason FROM run r"
    " JOIN decision d ON d.learner_id = r.learner_id AND d.run_no = r.run_no"
    " WHERE r.learner_id = ? AND d.chance IS NOT NULL AND r.run_no IN ({})"
)
_OBSERVED: Final = (
    "SELECT r.session, r.at_ms, r.revision, r.inventory, o.arm_no, o.flags FROM run r"
    " JOIN outcome o ON o.learner_id = r.learner_id AND o.run_no = r.run_no WHERE r.learner_id = ?"
    f" AND r.outcome = 'observed' AND (o.flags & {OBSERVED}) <> 0 AND r.run_no IN ({{}})"
)
_IMPORTS: Final = (
    "SELECT DISTINCT import_no FROM run WHERE learner_id = ? AND run_no IN ({})",
    "SELECT DISTINCT import_no FROM provenance WHERE learner_id = ? AND kind = 'run' AND no IN ({})",
)
_IMPORT: Final = insert_into("compacted_import", "learner_id", "import_no", "compaction_no", "n_runs")
_UID: Final = ("uid_high", "uid_low", "compaction_no", "trace")

Position = tuple[int, int]
"""End and number of a run: runs are compacted in this order."""
BEGIN: Final[Position] = (-(1 << 62), 0)


class Piece(NamedTuple):
    """One step: the last run that was looked at (None: there is no more), and numbers of deleted and other runs.

    ``imports`` are those that lost runs.
    """

    after: Position | None
    n_compacted: int
    n_referenced: int
    imports: frozenset[int] = frozenset()


class OldRuns(NamedTuple):
    """Numbers of runs before a time: those to compact, those that other facts keep, and imports of the first."""

    n_free: int
    n_referenced: int
    n_imports: int


def old_runs(facts: Facts, until_ms: int) -> OldRuns:
    """Return how many runs `compact_piece` would delete, and how many it would keep."""
    n_free, n_referenced, after = 0, 0, BEGIN
    imports: set[int] = set()
    while page := _page(facts, until_ms, after):
        free = _free(facts, page)
        n_free, n_referenced, after = n_free + len(free), n_referenced + len(page) - len(free), page[-1]
        for query in _IMPORTS:
            imports |= facts.distinct_in(query, free)
    return OldRuns(n_free, n_referenced, len(imports - {0}))


def compact_piece(txn: Transaction, until_ms: int, after: Position) -> Piece:
    """Delete the next runs that ended before a time, and keep their sums; the caller goes on from ``after``."""
    end, free, n_referenced = _next(txn, until_ms, after)
    if not free:
        return Piece(None, 0, n_referenced)
    spoil(txn)
    return Piece(end, len(free), n_referenced, _compact(txn, free, until_ms))


def left_of_none(facts: Facts, until_ms: int) -> int | None:
    """Return how many old runs stay, where `compact_piece` would delete none; else None."""
    _, free, n_referenced = _next(facts, until_ms, BEGIN)
    return None if free else n_referenced


def _next(facts: Facts, until_ms: int, after: Position) -> tuple[Position | None, list[int], int]:
    """Return the end of the next page with runs to delete (None: it is the last), these, and the number of others."""
    n_referenced = 0
    while page := _page(facts, until_ms, after):
        after, free = page[-1], _free(facts, page)
        n_referenced += len(page) - len(free)
        if free:
            return after if len(page) == PIECE else None, free, n_referenced
    return None, [], n_referenced


def _page(facts: Facts, until_ms: int, after: Position) -> list[Position]:
    rows = facts.rows(_OLD, [facts.revision, until_ms, *after, PIECE])
    return [(at_ms, run_no) for at_ms, run_no in rows]


def _free(facts: Facts, page: Sequence[Position]) -> list[int]:
    """Return those runs that no row of another table is about, except their own executions."""
    run_nos = sorted(run_no for _, run_no in page)
    about = {run_no for query in _ABOUT for run_no in facts.distinct_in(query, run_nos)}
    own = own_executions(facts, run_nos)
    about |= {run_no for number, run_no in facts.rows_in(_EXECUTIONS, run_nos) if number not in own}
    about |= {own[number] for query in _ABOUT_EXECUTIONS for number in facts.distinct_in(query, list(own))}
    return [run_no for run_no in run_nos if run_no not in about]


def _compact(txn: Transaction, run_nos: Sequence[int], until_ms: int) -> frozenset[int]:
    """Compact runs, and return the imports that lost some of them."""
    number = txn.number("compaction")
    deleted = sorted(run_sources(txn, run_nos, 0))
    used = txn.rows_in(_USED, run_nos)
    sums = _sums(txn, run_nos, used)
    ended = [at_ms for outcome, at_ms, *_ in used if outcome != "empty"]
    txn.add_row(
        "compaction",
        compaction_no=number,
        revision=txn.revision,
        at_ms=txn.now_ms,
        until_ms=until_ms,
        first_ms=min(ended, default=None),
        last_ms=max(ended, default=None),
        n_runs=len(run_nos),
        digest=digest_of(deleted),
        sums=sums.packed(),
    )
    _note_uids(txn, {uid: trace for *_, uid, trace in used}, number)
    n_runs = Counter(import_no for _, _, import_no, *_ in deleted if import_no)
    txn.connection.many(_IMPORT, [(txn.learner_id, one, number, n) for one, n in sorted(n_runs.items())])
    _delete(txn, run_nos, deleted)
    txn.audit("compact", None, {"runs": len(run_nos), "until": iso(until_ms)})
    return frozenset(n_runs)


def digest_of(deleted: Sequence[Row]) -> bytes:
    """Return the digest of the facts of deleted runs, as the chain has them: one per run and source, sorted."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for fact in deleted:
        digest.update(_ENCODE(fact))
    return digest.digest()


def _sums(txn: Transaction, run_nos: Sequence[int], used: Sequence[Row]) -> Sums:
    epochs, txn.epochs = txn.epochs, Segments(txn.connection, txn.learner_id)
    try:
        rollup = rollup_facts(txn, run_nos)
        observed = _observed(txn, run_nos)
    finally:
        txn.epochs = epochs
    last_revision = max(revision for _, _, revision, *_ in used)
    return Sums.of(rollup, observed, _decided(txn, run_nos), last_revision, _chances(txn, run_nos))


def _observed(txn: Transaction, run_nos: Sequence[int]) -> list[ObservedRow]:
    sums: dict[tuple[int, int, int, int], list[int]] = defaultdict(lambda: [0] * 3)
    rows = txn.rows_in(_OBSERVED, run_nos)
    for session, at_ms, revision, inventory, arm_no, flags in rows:
        key = 0 if session is None else named_key(session)
        row = sums[key, at_ms // HOUR_MS, txn.epochs.of(arm_no, revision), arm_no]
        if inventory == "inferred":
            row[2] += 1
        else:
            row[0] += 1
            row[1] += flags & REFERENCED != 0
    return [ObservedRow(*key, *row) for key, row in sums.items()]


def _decided(txn: Transaction, run_nos: Sequence[int]) -> Iterator[DecidedRun]:
    rows = txn.rows_in(_DECIDED, run_nos)
    for (
        run_no,
        session_key,
        at_ms,
        choice,
        import_no,
        *kind,
        tokens,
        duration_ms,
        bill_pico,
        bill_marks,
        reward,
    ) in rows:
        draw, prob, *_ = coin_draw_of(choice, import_no, run_no)
        yield DecidedRun(
            session_key,
            at_ms // HOUR_MS,
            draw,
            (*kind, prob),
            *(tokens, duration_ms, bill_pico, bill_marks),
            stated=stated(reward),
        )


def _chances(txn: Transaction, run_nos: Sequence[int]) -> list[DecidedArm]:
    return [
        DecidedArm(
            0 if session is None else named_key(session),
            at_ms // HOUR_MS,
            arm_no,
            2 * round(chance * MICRO) + (reason not in LEFT_OUT),
        )
        for session, at_ms, arm_no, chance, reason in txn.rows_in(_CHANCES, run_nos)
    ]


def _note_uids(txn: Transaction, traces: dict[str, int], number: int) -> None:
    """Store the digests of uids and of their sources; some of the sources may be known."""
    sources = {uid_key(one, is_source=True) for uid in traces for one in sources_of(uid)}
    known = {
        (high, low)
        for high, low in txn.rows_in(
            "SELECT uid_high, uid_low FROM compacted WHERE learner_id = ? AND uid_high IN ({})",
            sorted({high for high, _ in sources}),
        )
    }
    rows = dict.fromkeys(sources - known, (number, 0)) | {
        uid_key(uid): (number, trace) for uid, trace in traces.items()
    }
    flat = chain.from_iterable((*key, *rows[key]) for key in sorted(rows))
    txn.connection.insert("compacted", _UID, txn.learner_id, flat)


def _delete(txn: Transaction, run_nos: Sequence[int], deleted: Sequence[Row]) -> None:
    delete_texts(txn, run_nos)
    txn.run_in("DELETE FROM provenance WHERE learner_id = ? AND kind = 'run' AND no IN ({})", run_nos)
    for table in (*BESIDE, "version", "run"):
        txn.run_in(f"DELETE FROM {table} WHERE learner_id = ? AND run_no IN ({{}})", run_nos)
    txn.chain.change("run", deleted, [])
