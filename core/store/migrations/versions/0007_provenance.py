"""One table of who said what of a fact, in the place of two: a prior, a cost and a label are rows of their own.

Revision ID: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_INTO = "INSERT INTO provenance (learner_id, kind, no, import_no, revision"


def upgrade() -> None:
    """Copy what was said, each with the meaning it had, and drop what it was in."""
    zero = sa.text("0")
    op.create_table(
        "provenance",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("import_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), server_default=zero, nullable=False),
        sa.Column("trace", sa.BigInteger(), server_default=zero, nullable=False),
        sa.Column("digest", sa.BigInteger(), server_default=zero, nullable=False),
        sa.Column("said", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["learner_id"], ["learner.learner_id"], name=op.f("fk_provenance_learner_id")
        ),
        sa.PrimaryKeyConstraint("learner_id", "kind", "no", "import_no", name=op.f("pk_provenance")),
        sqlite_with_rowid=False,
    )
    op.execute(
        f"{_INTO}, rank, trace, digest) SELECT learner_id, kind, no, import_no, revision, rank, trace, digest"
        " FROM sighting WHERE kind <> 'arm'"
    )
    # The import that says so is what lists an arm; 0 was there to keep a prior that the arm had by itself.
    op.execute(
        f"{_INTO}) SELECT learner_id, 'arm', no, import_no, revision FROM sighting"
        " WHERE kind = 'arm' AND import_no > 0"
    )
    op.execute(
        f"{_INTO}, said) SELECT learner_id, 'prior', no, import_no, revision,"
        " CAST(rank AS TEXT) || ' ' || CAST(trace AS TEXT) FROM sighting WHERE kind = 'arm' AND rank > 0"
    )
    op.execute(
        f"{_INTO}, said) SELECT learner_id, 'cost', arm_no, import_no, cost_revision, CAST(token_cost AS TEXT)"
        " FROM description WHERE token_cost IS NOT NULL"
    )
    op.execute(
        f"{_INTO}, said) SELECT learner_id, 'label', arm_no, import_no, label_revision, label"
        " FROM description WHERE label IS NOT NULL"
    )
    op.drop_table("sighting")
    op.drop_table("description")
    _rename_staged()


def _rename_staged() -> None:
    """What an importer left that is gone is still to be swept."""
    columns = ["learner_id", "run_no", "stretch", "rank", "trace", "digest", "counted"]
    op.create_table(
        "staged_provenance",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        *(
            sa.Column(name, sa.Text() if name == "counted" else sa.BigInteger(), nullable=False)
            for name in columns[1:]
        ),
        sa.ForeignKeyConstraint(
            ["learner_id"], ["learner.learner_id"], name=op.f("fk_staged_provenance_learner_id")
        ),
        sa.PrimaryKeyConstraint("learner_id", "run_no", name=op.f("pk_staged_provenance")),
        sqlite_with_rowid=False,
    )
    names = ", ".join(columns)
    op.execute(f"INSERT INTO staged_provenance ({names}) SELECT {names} FROM staged_claim")
    op.drop_table("staged_claim")
