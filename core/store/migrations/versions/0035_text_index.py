"""Index of kept texts, for the search.

Revision ID: 0035
"""

from __future__ import annotations

from alembic import op

revision = "0035"
down_revision = "0034"
_DEFINITIONS = {
    "sqlite": (
        "CREATE VIRTUAL TABLE text_index USING fts5(learner_id UNINDEXED, kind UNINDEXED, no UNINDEXED, words,"
        " tokenize='ascii', detail='none', columnsize=0)",
    ),
    "postgresql": (
        "CREATE TABLE text_index (learner_id integer NOT NULL, kind text NOT NULL, no bigint NOT NULL,"
        " words tsvector NOT NULL)",
        "CREATE INDEX ix_text_index_words ON text_index USING gin (words)",
        "CREATE INDEX ix_text_index_no ON text_index (learner_id, kind, no)",
    ),
}


def upgrade() -> None:
    """Add the index, empty. `core.store.text_index` fills it with the texts so far, some at a time."""
    for statement in _DEFINITIONS[op.get_bind().dialect.name]:
        op.execute(statement)
