"""Bills: tokens of runs by model and owner, and the cost of each run.

Revision ID: 0023
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from core.store.migrations import add_int, add_table, ints, key

revision = "0023"
down_revision = "0022"

_COUNTS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")

_RUNS = sa.text(
    "SELECT run_no, tokens, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens FROM run"
    " WHERE learner_id = :learner AND model = :model AND tokens IS NOT NULL"
)
_WRITE = sa.text(
    "UPDATE run SET bill_pico = :pico, bill_marks = :marks WHERE learner_id = :learner AND run_no = :run"
)


def upgrade() -> None:
    """Add the table and the columns; a run so far has the cost of its usage at the learner's one price a model."""
    add_table(
        "spent",
        key("run_no"),
        key("by_sub_agent"),
        key("model", is_text=True),
        *ints(*(f"{name}_tokens" for name in _COUNTS)),
        *ints("unsplit_tokens", "assumed"),
    )
    op.add_column("run", sa.Column("bill_pico", sa.BigInteger(), nullable=True))
    add_int("run", "bill_marks")
    bind = op.get_bind()
    for learner_id, settings in bind.execute(sa.text("SELECT learner_id, settings FROM learner")).all():
        for model, price in json.loads(settings).get("prices", {}).items():
            of = {"learner": learner_id, "model": model}
            bills = [_bill(round(price * 1_000_000), row) for row in bind.execute(_RUNS, of)]
            known = [{**of, **bill} for bill in bills if bill is not None]
            if known:
                bind.execute(_WRITE, known)


def _bill(price: int, run: Sequence[int]) -> dict[str, int] | None:
    """Return a run's cost by the ratios 0.1, 1.25 and 5 of the input price, added up in twentieths."""
    run_no, total, read, written, cached, stored = run
    if total != read + written + cached + stored:
        if total != read + written or cached + stored > read:
            return None
        read -= cached + stored
    whole, rest = divmod(price * (20 * read + 2 * cached + 25 * stored + 100 * written), 20)
    pico = whole + (rest > 10 or (rest == 10 and whole % 2 == 1))
    marks = 1 if written or cached or stored else 0
    return {"run": run_no, "pico": pico, "marks": marks} if pico < 1 << 63 else None
