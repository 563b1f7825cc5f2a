"""Belief now, how it got there, and its break-even at its cost."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

import streamlit as st

from core import explained
from core.flows.queries import ArmPath, Belief
from core.records.arm_summary import ArmVersions
from core.records.judgement import Judgement, RecentMean
from core.records.times import DAY_MS, instant
from dashboard import queries, wording
from dashboard.figures.arms import ArmRow
from dashboard.figures.path import arm_path, lettered
from dashboard.figures.then_now import then_now
from dashboard.reading import pictured_once, reading
from dashboard.sentences import arm as sentences
from dashboard.sentences import inclusion as inclusion_sentences
from dashboard.sentences import trials
from dashboard.widgets import address
from dashboard.widgets.arm.head import none_by_day, token_cost
from dashboard.widgets.charts import chart, time_chart
from dashboard.widgets.fields import in_use, lazy_popover
from dashboard.widgets.parts import gray, muted, paragraphs, section, small, small_table
from dashboard.widgets.tables import frame_of
from dashboard.wording import Markdown, Words

THEN: Final = "then"
_BACK_DAYS: Final = 7
_PICKER: Final = "then popover"


def then_day(history: ArmPath) -> int | None:
    """Return the earlier moment as a day of the path: the one in the address, else a week before the end."""
    if len(history.path) < 2:
        return None
    is_held = THEN in st.session_state and not address.is_step_in_history()
    chosen = st.session_state[THEN] if is_held else _requested_day()
    first, last = int(history.path.day[0]), int(history.path.day[-1])
    if isinstance(chosen, date):
        day = int(datetime(chosen.year, chosen.month, chosen.day, tzinfo=UTC).timestamp() * 1000) // DAY_MS
        return min(max(day, first), last)
    return max(first, last - _BACK_DAYS)


def _requested_day() -> date | None:
    try:
        return date.fromisoformat(st.query_params.get(THEN, ""))
    except ValueError:
        return None


def now(row: ArmRow, history: ArmPath, then: int | None) -> None:
    """Draw density now over its interval, before, and the prior."""
    here = reading()
    index = None if then is None else history.path.index(then)
    earlier = None
    if index is not None and then is not None:
        called = _called(history, then)
        earlier = (float(history.path.alpha[index]), float(history.path.beta[index]), called)
    ghost = "prior" if history.since_ms is None else "reset to"
    figure = pictured_once(
        ("then now", row, earlier, ghost), lambda: then_now(row, earlier, here.tokens, ghost=ghost)
    )
    section("Belief now", table=figure.table, key="belief now")
    chart(figure, key="belief now")
    if then is not None:
        _picker(history, then)
    st.markdown(small("Runs of one session resemble each other, so the true interval may be wider."))


def sources(judged: Judgement) -> None:
    """Draw the parts of the belief by source."""
    section("Where the belief comes from", "the parts add up to alpha and beta exactly")
    small_table(sentences.source_table(judged), alt="Parts of the belief by source")


def versions(answer: ArmVersions) -> None:
    """Draw the versions of the arm's definition side by side; nothing while it never changed."""
    if len(answer.versions) < 2:
        return
    section(
        "Versions of its definition",
        f"{wording.literal(explained.versions(answer))} A mean is that of its own runs and the prior.",
    )
    small_table(
        frame_of(sentences.versions(answer), answer.versions, year_of_ms=reading().frame.last_at_ms),
        alt="Versions of the definition, with the runs and the belief of each",
    )


def _called(history: ArmPath, then: int) -> str:
    back = int(history.path.day[-1]) - then
    last = int(history.path.day[-1]) * DAY_MS
    return "7 days ago" if back == _BACK_DAYS else f"on {wording.day(then * DAY_MS, year_of_ms=last)}"


def _picker(history: ArmPath, then: int) -> None:
    """Draw the earlier moment; behind a button, which says which it is."""
    first, last = (instant(int(history.path.day[at]) * DAY_MS).date() for at in (0, -1))
    shown = wording.day(then * DAY_MS, year_of_ms=int(history.path.day[-1]) * DAY_MS)
    label = f"Dashed: end of {shown}"
    behind = lazy_popover(label, icon=":material/calendar_today:", key=_PICKER, used=in_use(THEN))
    if behind is None:
        return
    with behind:
        st.date_input(
            "Against the end of",
            value=None,
            min_value=first,
            max_value=last,
            key=THEN,
            bind="query-params",
            format="YYYY-MM-DD",
        )
        st.markdown(":small[:gray[None chosen: a week before the end. Days are UTC.]]")


def path(row: ArmRow, history: ArmPath, change: RecentMean | None) -> None:
    """Show mean and interval by day, with the legend of the letters."""
    here = reading()
    if not len(history.path):
        section("How it got there")
        none_by_day()
        return
    figure = pictured_once(
        ("arm path", row.key, change),
        lambda: arm_path(history, row.key, row.type, here.tokens, change=change, compact=here.compact),
    )
    section(
        "How it got there", "mean and 95% interval at the end of each day", table=figure.table, key="path"
    )
    time_chart(figure, key="arm path")
    letters, n_more = lettered(history)
    muted(sentences.marks_line(letters, n_more, year_of_ms=int(history.path.day[-1]) * DAY_MS))


def _effect(arm: str) -> Markdown:
    """Return the verdicts in force, or that nothing has shown what the arm does."""
    known = trials.verdicts(queries.trials(), queries.experiments())
    tried = [one.sourced for one in known if one.arm == arm]
    return Markdown(" ".join(tried)) if tried else Words(explained.EFFECT)


def worth(judged: Judgement, known: Belief, index: int) -> None:
    """Show cost, break-even and mean, with their method."""
    here, inclusion = reading(), queries.inclusion()
    section("Its break-even", "in the next run that offers it, under the limits in force")
    rank, n_arms = wording.count(int(known.summary.rank[index])), wording.count(len(known.columns))
    paragraphs(
        inclusion_sentences.worth(
            judged, token_cost(known, index), inclusion=inclusion, year_of_ms=here.frame.last_at_ms
        ),
        f"By its mean it is number **{rank}** of {n_arms} arms. {_effect(judged.arm)}",
        explained.NOT_USED,
        gray(inclusion_sentences.worth_note(inclusion.arms[judged.arm], inclusion)),
    )
