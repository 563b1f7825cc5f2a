"""Runs: what the pages of runs and of one run ask the flows."""

from __future__ import annotations

from core.flows import queries
from core.records.run_page import Cursor, Direction
from core.records.view import RunFilter
from core.statistics.heatmap import RowChoice
from dashboard.loading.reading import asked, reading


def seen_runs(
    wanted: RunFilter, cursor: Cursor | None, direction: Direction, rows_by: RowChoice
) -> queries.RunsSeen:
    """A page of runs with their heat map."""
    here = reading()
    question = ("runs", wanted, cursor, direction, rows_by)
    return asked(
        question,
        here.view,
        lambda: queries.seen_runs(
            here.context, wanted, here.view, cursor=cursor, direction=direction, rows_by=rows_by
        ),
    )


def run(name: str) -> queries.RunStory:
    """Everything there is to say about one run; raises `UnknownRun`."""
    here = reading()
    return asked(("run", name), None, lambda: queries.run(here.context, name))
