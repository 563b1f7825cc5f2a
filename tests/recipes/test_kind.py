"""The recipe "A kind of fact", followed: a line, a table and a record; then it is undone, exported and checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from core.store.schema import HEAD
from tests.conftest import ROOT
from tests.recipes.copy import Copy, recipe

_MOST_CHANGED: Final = 4
_MOST_NEW: Final = 4
_NEXT: Final = f"{int(HEAD) + 1:04}"

_LINE: Final = '''

class FlagLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
    tag="flag",
):
    """That somebody wants an arm to be looked at.

    >>> FlagLine(id="f1", arm="tool:fs:Read").undone
    False
    """

    id: str
    arm: str
    by: str | None = None
    at_ms: Millis | None = None
    revision: Count | None = None
    undone: bool = False

    def __post_init__(self) -> None:
        check_key(self.arm)
        check_storable(by=self.by)
        check_id(self.id)
'''
_OF_NOTES: Final = """            check_text(self.text)
        check_storable(by=self.by)
        check_id(self.id)
        check_request_key(self.key)
"""
_TABLE: Final = """
flag = _acts(
    "flag",  # which arms somebody wants to be looked at
    _text("uid"),  # '' = ours; else where an import had it from
    _int("arm_no"),
    _text("actor"),
    _int("at_ms"),
    _int("import_no"),
    _int("revision"),
    _int("standing"),
    act="flag",
)
"""
_RECORD: Final = """    Exchanged(
        table="flag",
        example="flag-1",
        line=FlagLine(id="elsewhere/flag-1", arm=_ARM),
        lines=flag_lines,
        read=read_flag,
    ),
"""
_ROWS: Final = '''"""Flags: which arms somebody wants to be looked at; as rows, and as the lines of an export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.records.ledger_lines import FlagLine, PlacedLine
from core.store.tables import insert_into
from core.store.transaction import Snapshot, Transaction

_ADD: Final = insert_into(
    "flag",
    "learner_id",
    "flag_no",
    "uid",
    "arm_no",
    "actor",
    "at_ms",
    "import_no",
    "revision",
    "standing",
    "undone",
)


def add_flag(txn: Transaction, arm_no: int, *, actor: str, at_ms: int, uid: str = "", import_no: int = 0) -> int:
    """Append a flag; its number."""
    txn.note_news()
    number = txn.number("flag")
    txn.connection.run(_ADD, [txn.learner_id, number, uid, arm_no, actor, at_ms, import_no, txn.revision, 1, 0])
    return number


def flag_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Flags that stand or are undone."""
    for number, uid, revision, arm, actor, at_ms, undone in snapshot.connection.rows(
        "SELECT f.flag_no, f.uid, f.revision, a.key, f.actor, f.at_ms, f.undone FROM flag f"
        " JOIN arm a ON a.learner_id = f.learner_id AND a.arm_no = f.arm_no"
        " WHERE f.learner_id = ? AND f.standing = 1 ORDER BY f.revision, f.flag_no",
        [snapshot.learner_id],
    ):
        yield (
            revision,
            FlagLine(
                id=uid or f"{snapshot.origin}/flag-{number}",
                arm=arm,
                by=actor,
                at_ms=at_ms,
                revision=revision,
                undone=bool(undone),
            ),
        )


def read_flag(txn: Transaction, line: FlagLine, import_no: int) -> int:
    """Append a flag that a file tells; its number."""
    return add_flag(
        txn,
        txn.arm_no_of(line.arm),
        actor=line.by or txn.actor.name,
        at_ms=txn.now_ms if line.at_ms is None else line.at_ms,
        uid=line.id,
        import_no=import_no,
    )
'''
_MIGRATION: Final = f'''"""Flags.

Revision ID: {_NEXT}
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "{_NEXT}"
down_revision = "{HEAD}"


def upgrade() -> None:
    """Add the table, and the number of its next row."""
    op.add_column("learner", sa.Column("next_flag_no", sa.BigInteger(), server_default="1", nullable=False))
    columns = ["uid", "arm_no", "actor", "at_ms", "import_no", "revision", "standing", "undone"]
    op.create_table(
        "flag",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("flag_no", sa.BigInteger(), autoincrement=False, nullable=False),
        *(
            sa.Column(name, sa.Text() if name in ("uid", "actor") else sa.BigInteger(), nullable=False)
            for name in columns
        ),
        sa.ForeignKeyConstraint(["learner_id"], ["learner.learner_id"], name=op.f("fk_flag_learner_id")),
        sa.PrimaryKeyConstraint("learner_id", "flag_no", name=op.f("pk_flag")),
        sqlite_with_rowid=False,
    )
'''
_TESTS: Final = '''"""Flags: what one does that the laws of every kind don't say."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UnknownAct
from core.flows import queries
from core.flows.corrections import undo
from core.store.flags import add_flag
from tests.worlds import context_at


def test_a_flag_moves_no_number_and_is_taken_back_by_its_id(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")

    def flag() -> int:
        return context.write(
            "reward", lambda txn: add_flag(txn, txn.arm_no_of("tool:fs:Read"), actor="mara", at_ms=txn.now_ms)
        )

    assert (flag(), flag()) == (1, 2)
    before = queries.posteriors(context)
    assert undo(context, "flag-2").kind == "flag"
    assert queries.posteriors(context) == before
    assert [entry.act for entry in queries.changes(context)] == ["undo-1"]
    with pytest.raises(UnknownAct, match="flag-1"):
        undo(context, "flags-2")
    assert queries.verify(context).clean
'''


@pytest.mark.long
@pytest.mark.parametrize("on_both", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_kind_is_a_line_a_table_and_a_record(tmp_path: Path, *, on_both: bool) -> None:
    copy, read = Copy(tmp_path), recipe("A kind of fact")
    kept = f"tests/store/schemas/{HEAD}.db.gz"
    subprocess.run(
        [sys.executable, "-m", "tests.store.schemas.make"],
        cwd=copy.root,
        env=copy.environment(),
        check=True,
    )
    lines, tables, facts = "core/records/ledger_lines.py", "core/store/tables.py", "core/store/facts.py"
    copy.insert(lines, _LINE, after=_OF_NOTES)
    copy.insert(lines, "FlagLine | ", after="FactLine = (\n    ")
    copy.insert(tables, '    "flag",\n', after='    "review_aside",\n')
    copy.insert(tables, _TABLE, after="undo = _acts(" + _rest_of("core/store/tables.py", "undo = _acts("))
    imported = "from core.store.flags import flag_lines, read_flag\n"
    copy.insert(facts, imported, after="from core.store import tables\n")
    copy.insert(facts, ", FlagLine", after="from core.records.ledger_lines import FactLine")
    copy.insert(facts, _RECORD, after='    Fact(table="undo", example="undo-4"),\n')
    copy.add("core/store/flags.py", _ROWS)
    copy.add(f"core/store/migrations/versions/{_NEXT}_flags.py", _MIGRATION)
    copy.add("tests/store/test_flags.py", _TESTS)

    assert copy.changed() == {lines, tables, facts}
    assert len(copy.changed()) <= _MOST_CHANGED
    assert copy.new() == {
        "core/store/flags.py",
        f"core/store/migrations/versions/{_NEXT}_flags.py",
        kept,
        "tests/store/test_flags.py",
    }
    assert len(copy.new()) <= _MOST_NEW
    assert all(f"`{named}`" in read for named in (lines, tables, facts, "python -m tests.store.schemas.make"))

    # Its own, the laws of every kind as they hold for this one, the schema and the upgrade of the database before it,
    # and who may import whom; among the long both engines, too.
    own = ("tests/store/test_flags.py", "tests/store/test_facts.py", "tests/store/test_schema.py")
    of_it = f"flag or {HEAD} or the_table_is_the_schemas or migrations_end or head_is or reach_the_file"
    engines = ("tests/store/test_two_engines.py",) if on_both else ()
    copy.passes(
        *own, *engines, "tests/test_architecture.py", "-k", f"{of_it} or two_engines or imports_point_inwards"
    )


def _rest_of(path: str, begin: str) -> str:
    """What of a table in the sources follows its beginning."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return text.partition(begin)[2].partition("\n)\n")[0] + "\n)\n"
