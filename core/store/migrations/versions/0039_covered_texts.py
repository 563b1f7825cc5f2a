"""Covered texts: transcripts come under the chain, and the index of texts has a primary key on PostgreSQL.

`core.store.links.build` then adds the transcripts so far to the chains.

Revision ID: 0039
"""

from __future__ import annotations

from alembic import op

from core.store.migrations import add_int

revision = "0039"
down_revision = "0038"

_KEYED = (
    "ALTER TABLE text_index ADD COLUMN row_id uuid NOT NULL DEFAULT gen_random_uuid()",
    "ALTER TABLE text_index ADD CONSTRAINT pk_text_index PRIMARY KEY (learner_id, kind, no, row_id)",
    "DROP INDEX ix_text_index_no",
)
_UNSETTLED = (
    "DELETE FROM run_text WHERE EXISTS (SELECT 1 FROM learner l WHERE l.learner_id = run_text.learner_id"
    " AND l.staged_import_no > 0) AND NOT EXISTS (SELECT 1 FROM run r JOIN learner l ON l.learner_id = r.learner_id"
    " WHERE r.learner_id = run_text.learner_id AND r.run_no = run_text.run_no AND r.trace = run_text.trace"
    " AND r.revision <= l.revision) AND NOT EXISTS (SELECT 1 FROM provenance s JOIN learner l"
    " ON l.learner_id = s.learner_id WHERE s.learner_id = run_text.learner_id AND s.kind = 'run'"
    " AND s.no = run_text.run_no AND s.trace = run_text.trace AND s.revision <= l.revision)"
)


def upgrade() -> None:
    """Add the columns. An import in progress is void, and its transcripts go."""
    if op.get_bind().dialect.name == "postgresql":
        for statement in _KEYED:
            op.execute(statement)
    add_int("run_text", "revision")
    op.execute(_UNSETTLED)
    op.execute("UPDATE learner SET staged_parts = -1 WHERE staged_import_no > 0")
    op.execute(
        "UPDATE learner SET chain_at = 'transcripts' WHERE chain_at = ''"
        " AND EXISTS (SELECT 1 FROM run_text t WHERE t.learner_id = learner.learner_id)"
    )
