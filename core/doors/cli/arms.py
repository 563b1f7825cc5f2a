"""Arms: every arm with its cost and prior, and the words for what it is judged to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from core.doors.cli.program import Format, command, context_of, rows_or
from core.doors.terminal import said_time, say_table

if TYPE_CHECKING:
    from core.records.judgement import Judgement


@command(examples=["arms", "arms --format tsv | cut -f 1"])
def arms(line: typer.Context, format_name: Format = None) -> None:
    """Every arm with its cost and prior, and what is to be said of it."""
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    found = queries.judged_arms(context, judged=judged)
    rows = [
        (
            one.arm,
            "unknown" if one.token_cost is None else f"{one.token_cost:,}",
            f"{one.prior.alpha:g}, {one.prior.beta:g}",
            f"{one.pulls:,}",
            judgement_cell(judged[one.arm]),
        )
        for one in found
    ]
    heads = ("arm", "tokens", "prior", "pulls", "judgement")
    rows_or(line, format_name, found, lambda: say_table(heads, rows, numbers=(1, 3)))


def judgement_cell(judged: Judgement) -> str:
    """What an arm is judged to be, in a table's cell."""
    from core import explained

    return explained.judgement(judged, since=said_time(judged.since_ms))
