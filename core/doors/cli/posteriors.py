"""Posteriors: what is believed of every arm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.arms import effective_cell, judgement_cell, say_arms
from core.doors.cli.program.app import Format, command, context_of, rows_or
from core.doors.cli.program.arguments import types_of
from core.doors.terminal import mean_words
from core.doors.verbs import verb
from core.records.view import View

if TYPE_CHECKING:
    from core.records.judgement import JudgedPosterior


@command(
    examples=["posteriors", "posteriors --type skill --type file", "posteriors --format csv > beliefs.csv"]
)
def posteriors(
    line: typer.Context,
    arm_type: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only arms of this type; repeatable.")
    ] = None,
    format_name: Format = None,
) -> None:
    from core import explained
    from core.flows import queries

    types = types_of(arm_type or [])
    context = context_of(line)
    judged = queries.judgements(context)
    result: list[JudgedPosterior] = verb("posteriors").call(context, view=View(types=types), judged=judged)
    rows = [
        (
            one.arm,
            mean_words(one.mean),
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
            f"{one.pulls:,}",
            effective_cell(one.effective_pulls),
            f"{one.inclusions:,}",
            one.confidence.replace("_", " "),
            explained.chance_words(one.chance, one.chance_error),
            judgement_cell(judged[one.arm]),
        )
        for one in sorted(result, key=lambda one: (-one.mean, one.arm))
    ]
    heads = (
        "arm",
        "mean",
        "95% interval, exact",
        "pulls",
        "effective",
        "in runs",
        "confidence",
        "chance",
        "judgement",
    )
    rows_or(line, format_name, result, lambda: say_arms(heads, rows, judged, numbers=(1, 2, 3, 4, 5, 7)))
