"""Posteriors: what is believed of every arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from core.doors.cli.arms import SINCE, effective_cell, judgement_cell, say_arms
from core.doors.cli.program.app import Fields, Format, command, context_of, rows_or
from core.doors.terminal import mean_words
from core.doors.verbs import verb

if TYPE_CHECKING:
    from core.records.judgement import JudgedPosterior


@command(
    examples=[
        "posteriors",
        "posteriors --type skill --type file",
        "posteriors --format csv > beliefs.csv",
        "posteriors --since 0 --format nl",
    ],
    words=verb("posteriors").words,
    takes="arms",
    options={"since": SINCE},
)
def posteriors(line: typer.Context, filters: Fields, format_name: Format = None) -> None:
    from core import explained
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    result: list[JudgedPosterior] = verb("posteriors").call(context, judged=judged, **filters)
    rows = [
        (
            one.arm,
            mean_words(one.mean),
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
            f"{one.pulls:,}",
            effective_cell(one.effective_pulls),
            f"{one.inclusions:,}",
            one.confidence.replace("_", " "),
            explained.chance_of(one),
            judgement_cell(judged.get(one.arm)),
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
