"""Run story: everything recorded of one run, active or not."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from core.columns import UNKNOWN
from core.records.bill import Bill
from core.records.evidence import Reference
from core.records.run_page import Cursor
from core.records.run_story import RunFacts, RunSource
from core.records.selection import LEFT_OUT, Selection
from core.store.engine import Row
from core.store.reads.ledger import taken_back
from core.store.reads.runs import named_run
from core.store.transaction import Snapshot
from core.store.version import (
    COLUMNS,
    Version,
    bill_in_force,
    bill_rows,
    read_version,
    recorded_selection,
)


class Part(NamedTuple):
    """One arm's part in a run; ``token_cost`` None = unknown."""

    arm: str
    flags: int
    token_cost: int | None


class RecordedRun(NamedTuple):
    """One run: facts, parts of its arms, stored references, and its selection.

    The reasons hold the decisions of the selection; None where there was no selection. ``repairs`` has the number of
    the repair that takes back what the run observed of an arm, by the arm's id.
    """

    facts: RunFacts
    parts: tuple[Part, ...]
    references: tuple[Reference, ...]
    selection: Selection | None
    repairs: dict[str, int]


def run_cursor(snapshot: Snapshot, name: str) -> Cursor | None:
    """Return the number and revision of a run by uid, or else by number; inactive ones included."""
    row = named_run(snapshot, name, "at_ms, run_no")
    return None if row is None else Cursor(*row)


def recorded_run(snapshot: Snapshot, run_no: int) -> RecordedRun:
    """Everything recorded of a run that exists."""
    version, repairs, head = snapshot.together(
        lambda: read_version(snapshot, run_no),
        lambda: taken_back(snapshot, [run_no]),
        lambda: snapshot.connection.rows(_HEAD, [snapshot.learner_id, run_no])[0],
    )
    keys = _keys(snapshot, version)
    chosen = {keys[row[0]] for row in version.decisions if row[1] not in LEFT_OUT}
    parts = zip(version.arm_nos, version.flags, version.costs, strict=True)
    return RecordedRun(
        facts=_facts(run_no, version, head, bill_in_force(version, snapshot.settings.prices)),
        parts=tuple(
            Part(keys[arm_no], flags, None if cost == UNKNOWN else cost) for arm_no, flags, cost in parts
        ),
        references=tuple(
            msgspec.convert(
                {
                    "arm": keys[arm_no],
                    "where": where,
                    "excerpt": excerpt if snapshot.shows_texts else None,
                },
                Reference,
            )
            for arm_no, where, excerpt in version.evidence
        ),
        selection=recorded_selection(version, keys, chosen),
        repairs={keys[arm_no]: number for (_, arm_no), (number, _) in repairs.items()},
    )


def _keys(snapshot: Snapshot, version: Version) -> dict[int, str]:
    """Ids of the arms that a version names, by number."""
    numbers = sorted({*version.arm_nos, *(row[0] for row in version.decisions)})
    return dict(
        snapshot.connection.rows_in(
            "SELECT arm_no, key FROM arm WHERE learner_id = ? AND arm_no IN ({})",
            [snapshot.learner_id],
            numbers,
        )
    )


_HEAD: Final = "SELECT uid, import_no, revision, standing FROM run WHERE learner_id = ? AND run_no = ?"


def _facts(run_no: int, version: Version, head: Row, bill: Bill) -> RunFacts:
    columns: dict[str, Any] = dict(zip(COLUMNS, version.columns, strict=True))
    del columns["choice"]
    uid, import_no, revision, standing = head
    missing = columns.pop("not_offered")
    return msgspec.convert(
        {
            **columns,
            "run_no": run_no,
            "uid": uid,
            "import_no": import_no,
            "revision": revision,
            "standing": bool(standing),
            "run_class": columns.pop("class"),
            "naive_time": bool(columns.pop("naive_time")),
            "not_offered": msgspec.json.decode(str(missing)) if missing else (),
            "bill": bill_rows(version),
            "cost_pico": bill.pico,
            "estimated": bill.is_estimated,
            "at_least": bill.is_at_least,
        },
        RunFacts,
    )


def tellings(snapshot: Snapshot, run_no: int) -> tuple[RunSource, ...]:
    """Return the sources of a run in order; only the first where no other source has it."""
    key = [snapshot.learner_id, run_no]
    rows = snapshot.connection.rows(
        "SELECT s.import_no, i.at_ms, s.digest = r.digest, coalesce(i.undone, 0) FROM provenance s"
        " JOIN run r ON r.learner_id = s.learner_id AND r.run_no = s.no"
        " LEFT JOIN import i ON i.learner_id = s.learner_id AND i.import_no = s.import_no"
        " WHERE s.learner_id = ? AND s.kind = 'run' AND s.no = ? AND s.revision <= ?"
        " ORDER BY s.revision, s.import_no",
        [*key, snapshot.revision],
    ) or snapshot.connection.rows(
        "SELECT r.import_no, i.at_ms, 1, coalesce(i.undone, 0) FROM run r"
        " LEFT JOIN import i ON i.learner_id = r.learner_id AND i.import_no = r.import_no"
        " WHERE r.learner_id = ? AND r.run_no = ?",
        key,
    )
    return tuple(
        RunSource(import_no, at_ms, bool(stands) and not undone, bool(undone))
        for import_no, at_ms, stands, undone in rows
    )
