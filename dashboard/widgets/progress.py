"""Progress of an environment: success over time, and whether rewards rise or fall."""

from __future__ import annotations

from typing import Final

from core.flows.queries import EnvironmentStory
from core.records.estimate import Missing
from dashboard import wording
from dashboard.figures.rewards import progress
from dashboard.reading import pictured_once, reading
from dashboard.widgets.charts import chart
from dashboard.widgets.words import muted, section
from dashboard.wording import Markdown

_FEWEST: Final = 2
_NO_TREND: Final[dict[Missing | None, str]] = {
    "few_for_interval": "too few for a trend",
    "no_variation": "no trend: all rewards are alike",
    "tasks_in_order": "each task was attempted in its own span of time, so time and task can't be separated",
}


def success_over_time(story: EnvironmentStory) -> None:
    """Draw success over time, in segments of equal numbers of episodes; or a sentence where there are too few."""
    here, over_time = reading(), story.progress
    known = [one for one in over_time.stretches if one.success.value is not None]
    if len(known) < _FEWEST or story.summary.success is None:
        section("Success over time")
        timed = story.summary.n - over_time.untimed
        muted(
            "Success is shown once a scale is declared."
            if known and story.summary.success is None
            else f"A trend needs 20 episodes with a time; there are {wording.count(timed)}."
        )
        return
    figure = pictured_once(
        ("going on", story.summary.environment, story.summary.n, hash(over_time.stretches)),
        lambda: progress(story, here.tokens, compact=here.compact),
    )
    section("Success over time", _note(story), table=figure.table, key="going on")
    chart(figure, key="going on")


def _note(story: EnvironmentStory) -> Markdown:
    progress = story.progress
    way = {"rises": "rewards rise within tasks", "falls": "rewards fall within tasks"}.get(progress.way)
    if way is None:
        way = _NO_TREND.get(progress.trend.missing, "no trend can be distinguished from chance")
    note = f"equal segments, 95% interval; {way}"
    return Markdown(
        f"{note}; {wording.count(progress.untimed)} of unknown time left out" if progress.untimed else note
    )
