"""Runs: what the pages of runs and of one run ask the flows."""

from __future__ import annotations

from core.flows import look
from core.records.run_page import Cursor, Direction
from core.records.view import RunFilter
from core.statistics.heatmap import RowChoice
from dashboard.loading.reading import asked, reading


def seen_runs(
    wanted: RunFilter, cursor: Cursor | None, direction: Direction, rows_by: RowChoice
) -> look.RunsSeen:
    """A page of runs with their heat map."""
    here = reading()
    question = ("runs", wanted, cursor, direction, rows_by)
    return asked(
        question,
        here.view,
        lambda: look.seen_runs(
            here.desk, wanted, here.view, cursor=cursor, direction=direction, rows_by=rows_by
        ),
    )


def run(name: str) -> look.RunStory:
    """Everything there is to say about one run; raises `UnknownRun`."""
    here = reading()
    return asked(("run", name), None, lambda: look.run(here.desk, name))
