"""Progress of an environment: success over time, and whether rewards rise or fall."""

from __future__ import annotations

from typing import Final

from core.flows.queries import EnvironmentStory
from dashboard import wording
from dashboard.figures.rewards import progress
from dashboard.reading import pictured_once, reading
from dashboard.widgets.charts import chart
from dashboard.widgets.words import muted, section

_FEWEST: Final = 2


def going_on(seen: EnvironmentStory) -> None:
    """Show segments with equal numbers of episodes in order of time; too few are reported."""
    here, found = reading(), seen.progress
    told = [one for one in found.stretches if one.success.value is not None]
    if len(told) < _FEWEST or seen.summary.success is None:
        section("Success over time")
        timed = seen.summary.n - found.untimed
        muted(
            "Success is told once a scale is declared."
            if told and seen.summary.success is None
            else f"It takes 20 episodes with a time to tell how it goes on; there are {wording.count(timed)}."
        )
        return
    drawn = pictured_once(
        ("going on", seen.summary.environment, seen.summary.n, hash(found.stretches)),
        lambda: progress(seen, here.tokens, compact=here.compact),
    )
    section("Success over time", _note(seen), table=drawn.table, key="going on")
    chart(drawn, key="going on")


def _note(seen: EnvironmentStory) -> str:
    found = seen.progress
    way = {"rises": "rewards rise", "falls": "rewards fall"}.get(found.way, "no trend can be told")
    note = f"equal stretches, 95% interval; {way}"
    return f"{note}; {wording.count(found.untimed)} of unknown time left out" if found.untimed else note
