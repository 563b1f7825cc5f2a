"""Imports: acts with ids, so that everything in one can be undone at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from core.store.compacted import compacted_sources
from core.store.engine.dialect import ACTIVE
from core.store.mapped import Mapped
from core.store.tables import insert_into
from core.store.transaction import Facts, Transaction

_KEEP: Final = (
    insert_into("machine", "learner_id", "actor", "name", "at_ms", "import_no", "content")
    + " ON CONFLICT (learner_id, actor, name) DO UPDATE SET at_ms = excluded.at_ms, content = excluded.content,"
    " import_no = CASE WHEN excluded.import_no = 0 THEN machine.import_no ELSE excluded.import_no END"
)


class MachineRow(NamedTuple):
    """Inventory of a machine as JSON; ``import_no`` 0: no import of that time had news."""

    actor: str
    name: str
    at_ms: int
    import_no: int
    content: str


_MACHINES: Final = Mapped(
    MachineRow,
    "machine",
    "machine t LEFT JOIN import i ON i.learner_id = t.learner_id AND i.import_no = t.import_no",
)


class Reopened(NamedTuple):
    """An import that goes on: its number, and what it answered so far, as JSON."""

    number: int
    summary: bytes


class RecordedSession(NamedTuple):
    """The runs of a session from one format."""

    session: str
    format: str
    n_runs: int
    n_calls: int


def recorded_sessions(facts: Facts, sessions: Sequence[str]) -> list[RecordedSession]:
    """Return the active runs of sessions by format, prompts without an answer left out."""
    rows = facts.rows_in(
        f"SELECT session, format, COUNT(*), SUM(n_calls) FROM run WHERE learner_id = ? AND {ACTIVE}"
        " AND outcome <> 'empty' AND session IN ({}) GROUP BY session, format",
        sessions,
    )
    return [RecordedSession(*row) for row in rows]


def runs_of_session(facts: Facts, session: str, format: str) -> list[str]:
    """Return the uids of a session's active runs from one format, in order of time."""
    return facts.column(
        f"SELECT uid FROM run WHERE learner_id = ? AND {ACTIVE} AND outcome <> 'empty' AND session = ?"
        " AND format = ? ORDER BY at_ms, run_no",
        [session, format],
    )


def begin_import(txn: Transaction, number: int | None = None) -> int:
    """Open an import, under a number it has already or the next; its number."""
    number = txn.number("import") if number is None else number
    txn.add_row(
        "import",
        import_no=number,
        actor=txn.actor.name,
        summary="{}",
        at_ms=txn.now_ms,
        revision=txn.revision,
        undone=0,
    )
    return number


def reopen_import(txn: Transaction, act: str) -> Reopened | None:
    """An import that goes on; None if there is none of that id, it was undone, or it lost runs to a compaction."""
    kind, _, number = act.partition("-")
    if kind != "import" or not number.isdecimal():
        return None
    row = txn.row(
        "SELECT i.import_no, i.summary FROM import i WHERE i.learner_id = ?1 AND i.import_no = ? AND i.undone = 0"
        " AND NOT EXISTS (SELECT 1 FROM compacted_import c WHERE c.learner_id = ?1 AND c.import_no = i.import_no)",
        [int(number)],
    )
    return None if row is None else Reopened(int(row[0]), row[1].encode())


def finish_import(txn: Transaction, number: int, summary: str) -> None:
    """Note what the import came to."""
    txn.set_row("import", "import_no = ?", [number], summary=summary)


def present(facts: Facts, sources: Sequence[str]) -> set[str]:
    """Return those sources (``format/unit/identity``) with an active or compacted run, in full or by turn."""
    sources_present = set()
    for source in sources:
        row = facts.row(
            "SELECT 1 FROM run WHERE learner_id = ? AND uid >= ? AND uid < ? AND (uid = ? OR uid > ?)"
            f" AND revision <= ? AND {ACTIVE} LIMIT 1",
            [source, f"{source}0", source, f"{source}/", facts.revision],
        )
        if row is not None:
            sources_present.add(source)
    return sources_present | compacted_sources(facts, sources)


# Machines


def keep_machine(txn: Transaction, name: str, import_no: int, content: str) -> None:
    """Store what the agents of the actor's machine carry, in place of what they carried before."""
    txn.run(_KEEP, [txn.actor.name, name, txn.now_ms, import_no, content])


def own_machine(txn: Transaction, name: str) -> MachineRow | None:
    """Return the stored inventory of the actor's machine; None if there is none."""
    return _MACHINES.row(txn, "AND t.actor = ? AND t.name = ?", [txn.actor.name, name])


def machine_rows(facts: Facts) -> tuple[MachineRow, ...]:
    """Return the machines whose import was not undone, the latest first."""
    return _MACHINES.rows(facts, "AND coalesce(i.undone, 0) = 0 ORDER BY t.at_ms DESC, t.actor, t.name")
