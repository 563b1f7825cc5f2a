"""Tour: six first steps, one line at a time, above any page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import streamlit as st

from core.statistics.overview import Overview
from dashboard import pages, queries, reviews, wording
from dashboard.pages import Page
from dashboard.reading import reading
from dashboard.widgets import address
from dashboard.widgets.navigation import link
from dashboard.wording import Markdown

_AT: Final = "armscope tour"
_MOST_ARMS: Final = 12
_N_STEPS: Final = 6
_JUDGING: Final = 4


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing to try; ``label`` is that of the link to ``page`` with ``more`` in its address."""

    words: Markdown
    page: Page
    label: Markdown
    more: dict[str, str | Sequence[str]] = field(default_factory=dict)


def is_on() -> bool:
    """Return whether the first steps are shown: in a demo until closed, elsewhere on request."""
    return int(st.session_state.get(_AT, 1 if reading().frame.is_demo else 0)) > 0


def begin() -> None:
    """Show the first of them."""
    st.session_state[_AT] = 1


def tour(page: str) -> None:
    """Draw the present step with its link (unless one is there already), and the way on.

    Nothing while presenting or without arms.
    """
    here = reading()
    if here.presenting or not is_on() or here.frame.n_arms == 0:
        return
    at = min(int(st.session_state.get(_AT, 1)), _N_STEPS)
    steps = _steps(queries.overview(), judges=at == _JUDGING)
    step = steps[at - 1]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="first steps"):
        st.markdown(f":gray[First steps, {at} of {len(steps)}.] {step.words}", width="content")
        if page != step.page.name:
            link(step.page, step.label, **step.more)
        st.space("stretch")
        if at > 1:
            st.button("Back", type="tertiary", key="tour back", on_click=_go, args=(at - 1,))
        last = at == len(steps)
        st.button(
            "Done" if last else "Next",
            type="tertiary",
            key="tour on",
            on_click=_go,
            args=(0 if last else at + 1,),
        )
        if not last:
            st.button("Close", type="tertiary", key="tour close", on_click=_go, args=(0,))


def _go(at: int) -> None:
    st.session_state[_AT] = at


def _steps(overview: Overview, *, judges: bool) -> tuple[Step, ...]:
    """Return the steps over this learner's arms that need a look, else the least useful one. ``judges``: the
    step of judging is shown, so it is asked whether there is anything to judge.
    """
    flagged = next((item.arms for item in overview.attention if item.arms), ())
    worst = tuple(arm.key for arm in overview.bottom[-1:] or overview.top[-1:])
    arms = (flagged or worst or queries.everything().columns.keys)[:_MOST_ARMS]
    arm, name = arms[0], f"**{wording.literal(wording.short_name(arms[0]))}**"
    repaired = f"{wording.things(len(arms), 'arm')}" if len(arms) > 1 else name
    return (
        Step(
            words="Read the sentence: what the agent gains, and how sure that is.",
            page=pages.OVERVIEW,
            label="Overview",
        ),
        Step(
            words=f"Open {name}, which needs a look.",
            page=pages.ARM,
            label="The arm",
            more={address.ARM: arm},
        ),
        Step(
            words=f"See what became of {name} in each run, and open one to read why.",
            page=pages.RUNS,
            label="Its runs",
            more={address.RUNS_ARM: arm},
        ),
        _judging(arm, _open_queue() if judges else None),
        Step(
            words=f"Start {repaired} again: the table shows what would change.",
            page=pages.RESET,
            label="Reset",
            more={**address.reset(arms)},
        ),
        Step(
            words="Take it back: **Undo** is next to every act, and at the top of the page.",
            page=pages.OVERVIEW,
            label="What changed",
        ),
    )


def _open_queue() -> str | None:
    """Return the newest queue that has something left for who is here."""
    if not reading().context.may(pages.REVIEW.needs):
        return None
    return next((row.progress.queue for row in reviews.all_queues() if row.progress.left_for_me), None)


def _judging(arm: str, queue: str | None) -> Step:
    """Judge what waits in a queue, else the arm."""
    if queue is not None:
        return Step(
            words="Judge three items by keyboard: a digit chooses, Ctrl + Enter sends and goes on.",
            page=pages.REVIEW,
            label="Review",
            more={address.REVIEW_QUEUE: queue},
        )
    return Step(
        words="Judge it: choose an outcome and watch the effect before you send it.",
        page=pages.REWARDS,
        label="Give a reward",
        more={address.REWARDS_ARM: arm},
    )
