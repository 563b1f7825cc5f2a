"""Everything recorded of one run, active or not, and the part of arms in a few runs with manual rewards there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from core.columns import UNKNOWN, Ints, ints
from core.records.achieved import Achieved
from core.records.arm import ArmType
from core.records.evidence import INCLUDED, REFERENCED, Reference
from core.records.learner import LearnerSettings
from core.records.model_kinds import price_offers
from core.records.run_page import Cursor
from core.records.run_story import RunFacts, RunSource
from core.records.selection import LEFT_OUT, Selection
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE, BY_RUN
from core.store.reads.achieved import achieved_of
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
    unpriced_of,
)

_HEAD: Final = "SELECT uid, import_no, revision, standing FROM run WHERE learner_id = ? AND run_no = ?"


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
    """Return all recorded values of a run that exists."""
    version, repairs, head, achieved = snapshot.together(
        lambda: read_version(snapshot, run_no),
        lambda: taken_back(snapshot, [run_no]),
        lambda: snapshot.rows(_HEAD, [run_no])[0],
        lambda: achieved_of(snapshot, [run_no]).get(run_no),
    )
    keys = _keys(snapshot, version)
    chosen = {keys[row[0]] for row in version.decisions if row[1] not in LEFT_OUT}
    parts = zip(version.arm_nos, version.flags, version.costs, strict=True)
    return RecordedRun(
        facts=_facts(run_no, version, head, snapshot.settings, achieved),
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
    numbers = sorted({*version.arm_nos, *(number for number, *_ in version.decisions)})
    return dict(
        snapshot.rows_in("SELECT arm_no, key FROM arm WHERE learner_id = ? AND arm_no IN ({})", numbers)
    )


def _facts(
    run_no: int, version: Version, head: Row, settings: LearnerSettings, achieved: Achieved | None
) -> RunFacts:
    prices = settings.prices
    bill, unpriced = bill_in_force(version, prices), unpriced_of(version, prices)
    columns: dict[str, Any] = dict(zip(COLUMNS, version.columns, strict=True))
    del columns["choice"]
    uid, import_no, revision, is_active = head
    missing = columns.pop("not_offered")
    return msgspec.convert(
        {
            **columns,
            "run_no": run_no,
            "uid": uid,
            "import_no": import_no,
            "revision": revision,
            "standing": bool(is_active),
            "run_class": "trial" if is_active == 2 else columns["class"],
            "naive_time": bool(columns.pop("naive_time")),
            "not_offered": msgspec.json.decode(str(missing)) if missing else (),
            "bill": bill_rows(version),
            "cost_pico": bill.pico,
            "estimated": bill.is_estimated,
            "at_least": bill.is_at_least,
            "unpriced": unpriced,
            "price_offers": price_offers(unpriced, prices),
            "currency": settings.currency,
            "achieved": None if achieved is None else achieved.value,
            "achieved_by": None if achieved is None else achieved.source,
        },
        RunFacts,
    )


def run_sources(snapshot: Snapshot, run_no: int) -> tuple[RunSource, ...]:
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
        RunSource(import_no, at_ms, bool(is_active_version) and not undone, bool(undone))
        for import_no, at_ms, is_active_version, undone in rows
    )


class ArmsInRuns(NamedTuple):
    """Arms in some runs: prompts they were in, and the place of the last run that referenced them (-1: none)."""

    arm_nos: Ints
    keys: tuple[str, ...]
    types: tuple[ArmType, ...]
    n_in: Ints
    n_used: Ints
    last_used: Ints

    def at(self, places: Ints) -> ArmsInRuns:
        """Some of them, in this order."""
        keys, types = (tuple(one[index] for index in places.tolist()) for one in (self.keys, self.types))
        return ArmsInRuns(self.arm_nos[places], keys, types, *(one[places] for one in self[3:]))


class Parts(NamedTuple):
    """Flags of some arms in some runs, aligned: which run (place), which arm (number), what part."""

    run: Ints
    arm_no: Ints
    flags: Ints


class ManualRewards(NamedTuple):
    """Counted manual rewards in some runs, the latest last; ``reward_micro`` of each."""

    run: Ints
    arm_no: Ints
    reward_micro: Ints


def arms_in_runs(snapshot: Snapshot, run_nos: Sequence[int]) -> ArmsInRuns:
    """Return the arms with an outcome in a few dozen runs, sorted by id; positions count from the first run."""
    rows = snapshot.connection.rows(
        f"WITH listed (place, run_no) AS ({_values(run_nos)}), part AS ("
        f" SELECT o.arm_no, count(*) FILTER (WHERE o.flags & {INCLUDED} <> 0) AS n_in,"
        f" count(*) FILTER (WHERE o.flags & {REFERENCED} <> 0) AS n_used,"
        f" max(CASE WHEN o.flags & {REFERENCED} <> 0 THEN w.place ELSE -1 END) AS last_used"
        " FROM listed w CROSS JOIN outcome o WHERE o.learner_id = ? AND o.run_no = w.run_no GROUP BY o.arm_no)"
        " SELECT a.arm_no, a.key, a.type, p.n_in, p.n_used, p.last_used FROM part p"
        " CROSS JOIN arm a WHERE a.learner_id = ? AND a.arm_no = p.arm_no ORDER BY a.key",
        [*_numbered(run_nos), snapshot.learner_id, snapshot.learner_id],
    )
    arm_nos, keys, types, *counts = list(zip(*rows, strict=True)) or [()] * 6
    return ArmsInRuns(ints(arm_nos), keys, types, *map(ints, counts))


def parts(snapshot: Snapshot, run_nos: Sequence[int], arm_nos: Sequence[int]) -> Parts:
    """Return the part of these arms in these runs; pairs without one are missing."""
    rows = snapshot.connection.rows_in(
        f"WITH listed (place, run_no) AS ({_values(run_nos)})"
        " SELECT w.place, o.arm_no, o.flags FROM listed w CROSS JOIN outcome o"
        " WHERE o.learner_id = ? AND o.run_no = w.run_no AND o.arm_no IN ({})",
        [*_numbered(run_nos), snapshot.learner_id],
        arm_nos,
    )
    return Parts(*map(ints, list(zip(*rows, strict=True)) or [()] * 3))


def manual_rewards(snapshot: Snapshot, run_nos: Sequence[int]) -> ManualRewards:
    """Return active feedback and corrections about these runs."""
    rows = snapshot.connection.rows(
        f"WITH listed (place, run_no) AS ({_values(run_nos)})"
        f" SELECT w.place, b.arm_no, b.success_micro FROM listed w CROSS JOIN observation b {BY_RUN}"
        f" WHERE b.learner_id = ? AND b.run_no = w.run_no AND b.run_no <> 0 AND b.undone = 0 AND b.{ACTIVE}"
        " AND b.kind IN ('feedback', 'correction') ORDER BY b.observation_no",
        [*_numbered(run_nos), snapshot.learner_id],
    )
    return ManualRewards(*map(ints, list(zip(*rows, strict=True)) or [()] * 3))


def _values(run_nos: Sequence[int]) -> str:
    return f"VALUES {','.join(['(?, ?)'] * len(run_nos))}" if run_nos else "SELECT 0, 0 WHERE 1 = 0"


def _numbered(run_nos: Sequence[int]) -> list[int]:
    return [value for pair in enumerate(run_nos) for value in pair]
