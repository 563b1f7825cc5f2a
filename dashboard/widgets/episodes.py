"""Widgets of the episodes page: filters, paging, and tables of environments and episodes whose rows open a page.

The filters are environment, split, task, model and outcome; the address holds them. Buttons write the position
(``episodes_before`` or ``episodes_after`` one), and a change of a filter removes it. Cells are text cells, which
Streamlit shows as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import streamlit as st

from core.demo import World
from core.explained.episodes import EPISODES
from core.explained.table import Table
from core.flows.queries import EnvironmentSummary
from core.records.episode_page import EPISODE_OUTCOMES, EpisodeCursor, EpisodeFilter, EpisodePage, EpisodeRow
from core.records.run_page import Direction
from dashboard import pages, queries, wording
from dashboard.reading import cached_figure, reading
from dashboard.sentences import rewards
from dashboard.sentences.rewards import OUTCOME_WORDS
from dashboard.widgets import address
from dashboard.widgets.fields import filters, one_of, typed
from dashboard.widgets.opening import open_one, opening_records, opening_table
from dashboard.widgets.paging import both_ways, place_of
from dashboard.widgets.parts import command, empty, link, muted
from dashboard.widgets.tables import by_head, config_of, cut, frame_of, heads
from dashboard.wording import Markdown, Words

SPLIT: Final = "split"
TASK: Final = "task"
MODEL: Final = "paid_model"
OUTCOME: Final = "came_to"
TRUTH: Final = "planted"
BEFORE: Final = "episodes_before"
AFTER: Final = "episodes_after"
_NAMES: Final = (address.EPISODES_OF, SPLIT, TASK, MODEL, OUTCOME)

# Tables
_PHONE_ENVIRONMENT: Final = {"state": 92, "environment": 150, "success": 70, "findings": 74}
_PHONE: Final = {"at": 100, "total": 68, "outcome": 92, "running total": 100}
_LINE_PX: Final = 132


def episode_filter(known: Sequence[EnvironmentSummary]) -> EpisodeFilter:
    """Draw the popover of filters, and return the chosen ones. ``known`` are the learner's environments."""
    return filters(
        _label(),
        _NAMES,
        EpisodeFilter(),
        lambda: _requested(known),
        key="episode filter",
        places=(BEFORE, AFTER),
    )


def _requested(known: Sequence[EnvironmentSummary]) -> EpisodeFilter:
    models = sorted({model for one in known for model in one.models})
    environments = [one.environment for one in known]
    return EpisodeFilter(
        environment=one_of("Environment", environments, address.EPISODES_OF, filter_mode="contains"),
        split=typed("Split", SPLIT),
        task=typed("Task", TASK),
        model=one_of("Model", models, MODEL, filter_mode="contains"),
        outcome=one_of("Outcome", EPISODE_OUTCOMES, OUTCOME, OUTCOME_WORDS),
    )


def truth() -> Mapping[str, World]:
    """Return the planted truth of a demo's environments on request; otherwise none."""
    planted = queries.planted_environments()
    return planted if planted and st.toggle("Show truth", key=TRUTH, bind="query-params") else {}


def page_start() -> tuple[EpisodeCursor | None, Direction]:
    """Return the start of the page from the address; anything invalid starts at the newest."""
    place, direction = place_of(BEFORE, AFTER)
    return None if place is None else EpisodeCursor(*place), direction


def paging(page: EpisodePage, cursor: EpisodeCursor | None, direction: Direction) -> None:
    """Draw the links to newer, older and newest rows; nothing where all rows fit on the page."""
    if cursor is not None or page.onward is not None:
        rows = [row.place for row in page.rows]
        both_ways(
            BEFORE,
            AFTER,
            rows=rows,
            onward=page.onward,
            place=cursor,
            direction=direction,
            what=Words("episodes"),
        )


def _label() -> Markdown:
    chosen = []
    for key in _NAMES:
        value = address.held(key) or st.query_params.get(key)
        if isinstance(value, str) and value:
            words = OUTCOME_WORDS.get(value, value) if key == OUTCOME else value  # type: ignore[call-overload]
            chosen.append(wording.short(words, wording.NAME_CHARS))
    return Markdown(wording.listed(chosen) if chosen else "All episodes")


def environments(summaries: Sequence[EnvironmentSummary], planted: Mapping[str, World]) -> None:
    """Draw a row for each, the gravest findings first; a click opens one."""
    summaries = sorted(summaries, key=rewards.gravity)
    one = opening_records(
        rewards.environments_table(planted),
        summaries,
        _PHONE_ENVIRONMENT,
        name="environments",
        rest="state",
        alt=f"{wording.things(len(summaries), 'environment')}: rewards and success of each",
        cache_key=(tuple(summaries), bool(planted)),
    )
    if one is not None:
        open_one(pages.ENVIRONMENT, one.environment)


def episodes(rows: Sequence[EpisodeRow]) -> None:
    """Draw episodes newest first, each with its running total; a click opens one."""
    numbers = tuple(row.place.episode_no for row in rows)
    table = cut(EPISODES, "uid", "environment", "task", "model", "split").but(total=_total)
    frame = cached_figure(("episodes", numbers), lambda: _to_arrow(table.filled(rows), rows))
    config = config_of(table)
    config["running total"] = st.column_config.LineChartColumn(
        "running total",
        width=_LINE_PX,
        y_min=-1.0 if any(value < 0 for line in _lines(rows) for value in line) else 0.0,
        y_max=1.0,
        help="Each line on the range of its environment among these episodes: those of one can be compared.",
        color=reading().tokens.chart_accent,
    )
    index = opening_table(
        frame,
        config,
        by_head(table, _PHONE),
        name="episodes",
        rest=heads(table)["at"],
        alt=f"{wording.things(len(rows), 'episode')}, newest first: reward and success of each",
        hidden="",
    )
    if index is not None:
        open_one(pages.EPISODE, rows[index].uid)


def _to_arrow(table: Table[EpisodeRow], rows: Sequence[EpisodeRow]) -> pa.Table:
    frame = frame_of(table, rows, year_of_ms=reading().frame.last_at_ms)
    lines = _lines(rows)
    if not any(lines):
        return frame
    at = list(table.fields).index("outcome") + 1
    return frame.add_column(at, "running total", pa.array(lines, type=pa.list_(pa.float64())))


def _total(row: EpisodeRow) -> str:
    return "none paid" if row.total is None else wording.paid(row.total)


def _lines(rows: Sequence[EpisodeRow]) -> list[list[float]]:
    """Return running totals as shares of the largest of their environment, so that small ones aren't flat.

    One step has no line: a line of one point would be flat in every row.
    """
    most: dict[str, float] = {}
    for row in rows:
        for value in row.running or ():
            most[row.environment] = max(most.get(row.environment, 0.0), abs(value or 0.0))
    return [
        [(value or 0.0) / (most[row.environment] or 1.0) for value in row.running or ()]
        if len(row.running or ()) > 1
        else []
        for row in rows
    ]


def no_episodes() -> None:
    """Draw the empty state of the page: nothing that an environment paid is here."""
    missing = queries.without_episode().n
    runs = wording.things(missing, "run")
    empty(
        ("No episode is recorded yet.",),
        "What environments paid appears here as soon as one is recorded or imported.",
        rows={
            "needed": ["episodes"],
            "now": ["0"],
            "which is": [":yellow[:material/warning:] none yet"],
        },
        to_do=(
            f"**Read the sources of {runs} again**: they have rewards, and were imported before episodes were "
            "kept."
            if missing
            else "**Import rewards of environments**: records of tau-bench, tau2, verifiers, Inspect or SWE-agent, "
            "recorded exchanges or rollout events; or record steps as they come."
        ),
        shell=command("import FILE"),
        elsewhere=(pages.DATA, Words("Drop files here instead")) if reading().may("ingest") else None,
    )


def runs_without_episode() -> None:
    """Show how many runs have a reward of their source and no episode, with the command that reads them again."""
    missing = queries.without_episode()
    if not missing.n:
        return
    runs = wording.things(missing.n, "run")
    with st.container(border=True):
        muted(
            f"{runs} brought a reward of their source, but no episode names them: read their files again "
            f"({wording.literal(', '.join(missing.formats))})."
        )
        st.code(command(missing.command.removeprefix("armscope ")), language=None, wrap_lines=True)
        if reading().may("ingest"):
            link(pages.DATA, Words("Drop files here instead"))
