"""How many episodes of an environment are alike: what its averages and rates are told from.

Revision ID: 0018
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import Final

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_ALIKE: Final = ("split", "task", "variant", "model", "finished", "total_text", "final_text")


def upgrade() -> None:
    """Add the table, and count the episodes that stand."""
    table = op.create_table(
        "environment_task",
        sa.Column("learner_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("environment_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text()) for name in _ALIKE[:4]),
        sa.Column("finished", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text()) for name in _ALIKE[5:]),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("learner_id", "environment_no", "digest", name=op.f("pk_environment_task")),
        sqlite_with_rowid=False,
    )
    found = op.get_bind().execute(
        sa.text(f"SELECT learner_id, environment_no, {', '.join(_ALIKE)} FROM episode WHERE standing = 1")
    )
    counts = Counter(tuple(row) for row in found)
    if counts:
        op.bulk_insert(table, [_row(kind, n) for kind, n in counts.items()])


def _row(kind: tuple[object, ...], n: int) -> dict[str, object]:
    said = msgspec.json.encode(kind[2:])
    return {
        "learner_id": kind[0],
        "environment_no": kind[1],
        "digest": blake2b(said, digest_size=16).hexdigest(),
        **dict(zip(_ALIKE, kind[2:], strict=True)),
        "n": n,
    }
