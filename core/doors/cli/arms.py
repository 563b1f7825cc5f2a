"""Arms: every arm with its cost and prior, and the words for what it is judged to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from core.doors.cli.program.app import Format, command, context_of, rows_or
from core.doors.terminal import say_table, time_words
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.records.judgement import Judgement


@command(examples=["arms", "arms --format tsv | cut -f 1"])
def arms(line: typer.Context, format_name: Format = None) -> None:
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    result: list[queries.JudgedArm] = verb("arms").call(context, judged=judged)
    rows = [
        (
            one.arm,
            "unknown" if one.token_cost is None else f"{one.token_cost:,}",
            f"{one.prior.alpha:g}, {one.prior.beta:g}",
            f"{one.pulls:,}",
            judgement_cell(judged[one.arm]),
        )
        for one in result
    ]
    heads = ("arm", "tokens", "prior", "pulls", "judgement")
    rows_or(line, format_name, result, lambda: say_table(heads, rows, numbers=(1, 3)))


def judgement_cell(judged: Judgement) -> str:
    """Return the judgement of an arm as the text of a table's cell."""
    from core import explained

    return explained.judgement(judged, since=time_words(judged.since_ms))
