"""Mark the coins that only a file declares in the rollups of usage.

Our own selection did not draw the class of an imported run. Its baseline probability is stored larger by a constant,
so that no claim rests on it.

Revision ID: 0021
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from alembic import op
from sqlalchemy import Connection, text

from core.columns import DECLARED_COIN
from core.store.caches import run_facts
from core.store.engine.dialect import ACTIVE
from core.store.rollup import USAGE_KIND, USAGE_SUMS, Rollup, UsageHour

revision = "0021"
down_revision = "0020"

_RUNS = text(
    "SELECT learner_id, at_ms, class, model, channel, status, outcome, tokens, duration_ms, choice FROM run"
    f" WHERE import_no > 0 AND choice IS NOT NULL AND {ACTIVE}"
)


def upgrade() -> None:
    """Move the sums of these runs to rows of their own."""
    bind = op.get_bind()
    rollups: dict[int, Rollup] = defaultdict(Rollup)
    for learner_id, *facts in bind.execute(_RUNS):
        rollups[learner_id].add_run(run_facts((*facts, 0)))
    for learner_id, rollup in sorted(rollups.items()):
        _move(bind, learner_id, "usage_hour", "hour", rollup.usage)
        _move(bind, learner_id, "usage_day", "day", rollup.usage_days())


def _move(
    bind: Connection, learner_id: int, table: str, unit: str, usage: Mapping[UsageHour, Sequence[int]]
) -> None:
    key = ("learner_id", unit, *USAGE_KIND)
    same = " AND ".join(f"{name} = :{name}" for name in key)
    less = ", ".join(f"{name} = {name} - :{name}" for name in USAGE_SUMS)
    names = (*key, *USAGE_SUMS)
    values = ", ".join(f":{name}" for name in names)
    taken: list[dict[str, Any]] = [
        dict(zip(names, (learner_id, *kind, *sums), strict=True)) for kind, sums in usage.items()
    ]
    if not taken:
        return
    bind.execute(text(f"UPDATE {table} SET {less} WHERE {same}"), taken)
    bind.execute(text(f"DELETE FROM {table} WHERE learner_id = :learner_id AND n = 0"), taken[:1])
    added = [{**row, "prob_micro": row["prob_micro"] + DECLARED_COIN} for row in taken]
    bind.execute(text(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"), added)
