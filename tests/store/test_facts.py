"""Every kind of act, by the table alone: a line comes in and goes out as it was, can be undone, and is checked."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.export import lines
from core.flows.importing import import_files
from core.formats.armscope import write
from core.records.ledger_lines import FactLine, LedgerLine
from core.store.facts import EXCHANGED, FACTS, Exchanged
from core.store.lines import take_line
from core.store.tables import ACTS, NUMBERED, metadata
from core.store.transaction import Transaction
from tests.worlds import context_at

kinds = pytest.mark.parametrize("fact", EXCHANGED.values(), ids=lambda fact: fact.name)
undoable = pytest.mark.parametrize(
    "fact", [one for one in EXCHANGED.values() if not one.belongs_to], ids=lambda fact: fact.name
)


def with_causes(fact: Exchanged) -> list[FactLine]:
    """The line of a kind, after those that it can't be without."""
    return [*(one.line for one in EXCHANGED.values() if one.table in fact.belongs_to), fact.line]


def file_with(folder: Path, *line: LedgerLine) -> Path:
    file = folder / "lines.jsonl"
    file.write_bytes(b"".join(write(line)))
    return file


def held(context: Context, fact: Exchanged) -> list[FactLine]:
    """The lines of a kind that an export of this moment holds, without when and by whom."""
    with context.reading() as snapshot:
        found = [line for line in lines(snapshot) if isinstance(line, FactLine)]
    return [
        msgspec.structs.replace(line, revision=None, at_ms=None)
        for line in found
        if EXCHANGED[type(line)] is fact
    ]


def test_the_table_is_the_schemas() -> None:
    assert {fact.name: fact.table for fact in FACTS.values()} == ACTS
    for fact in FACTS.values():
        assert fact.example.rpartition("-")[0] == fact.name
        assert fact.table in NUMBERED
        assert {"actor", "at_ms", "revision", "undone"} <= set(metadata.tables[fact.table].columns.keys())
        if isinstance(fact, Exchanged):
            assert {"uid", "import_no", "standing"} <= set(metadata.tables[fact.table].columns.keys())


@kinds
def test_a_line_comes_in_once_and_goes_out_as_it_was(
    context: Context, tmp_path: Path, fact: Exchanged
) -> None:
    file = file_with(tmp_path, *with_causes(fact))
    first = import_files(context, [file])
    (line,) = held(context, fact)
    assert line.id == fact.line.id
    again = import_files(context, [file])
    assert (first.id is None, again.id) == (False, None), "the second time nothing is new"
    other = context_at(tmp_path / "b.db")
    import_files(other, [file_with(tmp_path, *with_causes(fact)[:-1], line)])
    assert held(other, fact) == held(context, fact) == [line]
    assert queries.verify(context).clean
    assert queries.verify(other).clean


@undoable
def test_it_is_taken_back_and_stands_again(context: Context, tmp_path: Path, fact: Exchanged) -> None:
    act = import_files(context, [file_with(tmp_path, *with_causes(fact))]).id
    before = queries.posteriors(context)
    one = f"{fact.name}-1"
    taken = undo(context, one)
    assert (taken.kind, taken.undone) == (fact.name, one)
    assert [line.undone for line in held(context, fact)] == [True]
    assert queries.verify(context).clean
    redo(context, one)
    assert queries.posteriors(context) == before
    undo(context, act)
    assert held(context, fact) == [], "no import says it any more"
    assert queries.verify(context).clean
    redo(context, act)
    assert queries.posteriors(context) == before
    assert [line.undone for line in held(context, fact)] == [False]


@kinds
def test_of_two_imports_that_say_it_one_is_enough(context: Context, tmp_path: Path, fact: Exchanged) -> None:
    acts = [import_files(context, [file_with(tmp_path, *with_causes(fact))]).id]

    def again(txn: Transaction) -> None:
        number = txn.number("import")
        for line in with_causes(fact):
            take_line(txn, line, number)

    context.write("ingest", again)
    assert queries.verify(context).clean
    undo(context, acts[0])
    assert len(held(context, fact)) == 1
    assert queries.verify(context).clean


@undoable
def test_one_that_came_undone_is_undone_here_and_can_be_redone(
    context: Context, tmp_path: Path, fact: Exchanged
) -> None:
    import_files(context, [file_with(tmp_path, msgspec.structs.replace(fact.line, undone=True))])
    assert [line.undone for line in held(context, fact)] == [True]
    redo(context, f"{fact.name}-1")
    assert [line.undone for line in held(context, fact)] == [False]
    assert queries.verify(context).clean


@kinds
def test_a_mark_that_nobody_set_is_found(context: Context, tmp_path: Path, fact: Exchanged) -> None:
    import_files(context, [file_with(tmp_path, *with_causes(fact))])
    for column in ("undone", "standing"):
        flip = f"UPDATE {fact.table} SET {column} = 1 - {column}"
        context.store.database.write(lambda connection, sql=flip: connection.run(sql))  # type: ignore[misc]
        assert not queries.verify(context).clean
        context.store.database.write(lambda connection, sql=flip: connection.run(sql))  # type: ignore[misc]
        assert queries.verify(context).clean
