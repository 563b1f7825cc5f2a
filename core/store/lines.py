"""Lines: facts, runs and arms → lines of an export, and lines of an import → facts, known by id or by request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from core.columns import UNKNOWN
from core.records.arm import Arm, Prior
from core.records.evidence import INCLUDED, NAMED, OBSERVED, REFERENCED
from core.records.ledger_lines import ArmLine, FactLine, PlacedLine, RunLine
from core.records.run import History, Inventory, Run, Usage
from core.store.engine.dialect import PRESENT
from core.store.erased import redacted
from core.store.facts import EXCHANGED, Exchanged
from core.store.provenance import attribute
from core.store.reads import arm_columns
from core.store.replies import keep_reply, known_by_request
from core.store.transaction import Snapshot, Transaction
from core.store.undoing import add_undo, recompute
from core.store.version import (
    COLUMNS,
    Version,
    apart_of,
    read_versions,
    recorded_selection,
    source_rank,
    spent_of,
)

Columns = dict[str, Any]
"""Columns of a run, by name."""

_AT_ONCE: Final = 100
"""Runs that are read together."""
_PLAIN: Final = (
    "format",
    "unit",
    "session",
    "provider",
    "model",
    "channel",
    "status",
    "duration_ms",
    "prompt_chars",
    "reward",
)


def fact_lines(snapshot: Snapshot) -> list[Iterator[PlacedLine]]:
    """Return a stream of lines for each kind of fact, in the order of one revision."""
    return [fact.lines(snapshot) for fact in EXCHANGED.values()]


def take_line(txn: Transaction, line: FactLine, import_no: int) -> bool:
    """Import a line; return whether it was new.

    Raises `Conflict` where its key belongs to another request, and the errors of its kind.
    """
    fact = EXCHANGED[type(line)]
    if not fact.is_boundary:
        return _take(txn, fact, line, import_no)
    # A known one too: the lines before and after it keep their order if this import alone is active.
    txn.advance()
    is_new = _take(txn, fact, line, import_no)
    txn.advance()
    return is_new


def _take(txn: Transaction, fact: Exchanged, line: FactLine, import_no: int) -> bool:
    known = _known(txn, fact, line, import_no)
    allowed = redacted(txn.erased, line)
    number = fact.read(txn, allowed, import_no) if known is None else known
    key = _key(line)
    if fact.request is not None and key is not None:
        reply = fact.request.reply(txn, allowed, number)
        if reply is not None:
            keep_reply(txn, key, reply._replace(payload=fact.request.payload(line)))
    if known is None and line.undone:  # only now: its request was answered while it stood
        add_undo(txn, fact, number)
    return known is None


def _key(line: FactLine) -> str | None:
    key: str | None = getattr(line, "key", None)
    return key


def _known(txn: Transaction, fact: Exchanged, line: FactLine, import_no: int) -> int | None:
    """Return the known fact with this id, or of the same request."""
    number = txn.scalar(
        int,
        f"SELECT {fact.column} FROM {fact.table} WHERE learner_id = ? AND uid = ? AND uid <> ''",
        [line.id],
    )
    key = _key(line)
    if number is None and fact.request is not None and key is not None:
        number = known_by_request(txn, fact.name, key, fact.request.payload(line))
    if number is None and fact.alike is not None:
        number = fact.alike(txn, line)
    if number is not None:
        fact.again(txn, number, import_no)
        own = f"SELECT import_no FROM {fact.table} WHERE learner_id = ? AND {fact.column} = ?"
        if txn.row(own, [number]) != (import_no,):  # it is active while any of its imports is
            attribute(txn, fact.table, number, import_no)
            recompute(txn, fact, number)
    return number


def arm_lines(snapshot: Snapshot) -> Iterator[ArmLine]:
    """Listed arms, sorted by id; the prior only where it is the arm's own."""
    listed = set(arm_columns(snapshot).keys)
    for key, label, cost, alpha, beta in snapshot.each(
        "SELECT key, label, token_cost, prior_alpha_micro, prior_beta_micro FROM arm WHERE learner_id = ?"
        " ORDER BY key"
    ):
        if key in listed:
            prior = None if alpha is None else Prior(alpha_micro=alpha, beta_micro=beta)
            yield ArmLine(key=key, label=label, token_cost=cost, prior=prior)


def run_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Return active runs, those of trials too, with all their records as lines."""
    tell = _Runs(snapshot)
    rows = snapshot.each(
        f"SELECT run_no, uid, rank, revision FROM run WHERE learner_id = ? AND revision <= ? AND {PRESENT}"
        " ORDER BY revision, run_no",
        [snapshot.revision],
    )
    while chunk := list(islice(rows, _AT_ONCE)):
        versions = read_versions(snapshot, [row[0] for row in chunk])
        for run_no, uid, rank, revision in chunk:
            yield revision, tell.line(versions[run_no], uid, rank, revision)


def lines_of(snapshot: Snapshot, run_nos: Sequence[int]) -> Iterator[RunLine]:
    """Return the records of some active runs as lines, in the order of their numbers."""
    tell = _Runs(snapshot)
    rows = snapshot.rows_in(
        "SELECT run_no, uid, rank, revision FROM run WHERE learner_id = ? AND run_no IN ({})", run_nos
    )
    by_number, versions = {row[0]: row[1:] for row in rows}, read_versions(snapshot, run_nos)
    return (tell.line(versions[run_no], *by_number[run_no]) for run_no in run_nos)


class _Runs:
    """Rows of runs → run lines; runs with the same arms share one inventory."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._keys: dict[int, str] = dict(snapshot.rows("SELECT arm_no, key FROM arm WHERE learner_id = ?"))

    def line(self, version: Version, uid: str, rank: int, revision: int) -> RunLine:
        columns = dict(zip(COLUMNS, version.columns, strict=True))
        return msgspec.convert(
            {
                "run": self._run(uid, rank, version, columns),
                "outcome": columns["outcome"],
                "phase": columns["phase"],
                "references": [
                    {"arm": self._keys[arm_no], "where": where, "excerpt": excerpt}
                    for arm_no, where, excerpt in version.evidence
                ],
                "n_calls": columns["n_calls"],
                "n_real_calls": columns["n_real_calls"],
                "revision": revision,
            },
            RunLine,
        )

    def _run(self, uid: str, rank: int, version: Version, columns: Columns) -> Run:
        keys = [self._keys[arm_no] for arm_no in version.arm_nos]
        outcomes = list(zip(keys, version.flags, version.costs, strict=True))
        versions = {self._keys[arm_no]: one for arm_no, one in version.definitions}
        plain = {name: columns[name] for name in _PLAIN}
        arms, named = _arms(outcomes, INCLUDED, versions), _arms(outcomes, NAMED, versions)
        inventory = {"kind": columns["inventory"], "arms": arms, "named": named}
        included = {arm.key for arm in (*arms, *named)}
        return msgspec.convert(
            {
                **plain,
                "uid": uid,
                "rank": source_rank(rank),
                "inventory": msgspec.convert(inventory, Inventory),
                "ended_at_ms": columns["at_ms"],
                "naive_time": bool(columns["naive_time"]),
                "run_class": columns["class"],
                "usage": _usage(columns),
                "excluded": [key for key, flags, _ in outcomes if not flags & (INCLUDED | NAMED)],
                "referenced": [key for key, flags, _ in outcomes if flags & REFERENCED],
                "not_offered": msgspec.json.decode(str(columns["not_offered"] or "[]")),
                "unobserved": _unobserved(columns, outcomes),
                "empty": columns["outcome"] == "empty",
                "selection": recorded_selection(version, self._keys, included),
                "bill": spent_of(version.spent) + apart_of(version.apart),
                "history": next((History(key=key, marks=marks) for key, marks in version.history), None),
            },
            Run,
        )


def _arms(
    outcomes: Sequence[tuple[str, int, int]], state: int, versions: Mapping[str, str]
) -> tuple[Arm, ...]:
    """Return the arms that were in full (`INCLUDED`) or by name (`NAMED`) when the run began."""
    return tuple(
        Arm(key=key, token_cost=None if cost == UNKNOWN else cost, version=versions.get(key))
        for key, flags, cost in outcomes
        if flags & NAMED == state & NAMED and flags & state
    )


def _unobserved(columns: Columns, outcomes: Sequence[tuple[str, int, int]]) -> list[str]:
    """Return included arms of an observed run without a report of their use."""
    if columns["outcome"] != "observed":
        return []
    return [key for key, flags, _ in outcomes if flags & (INCLUDED | NAMED | OBSERVED) == INCLUDED]


def _usage(columns: Columns) -> Usage | None:
    if columns["tokens"] is None:
        return None
    parts = {name: columns[f"{name}_tokens"] for name in ("input", "output", "cache_read", "cache_write")}
    return msgspec.convert({**parts, "total": columns["tokens"]}, Usage)
