"""Page of the first steps: six things to try, each with a link to where it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import streamlit as st

from core.maths.statistics.overview import Overview
from dashboard import pages, queries, reviews, wording
from dashboard.pages import Page
from dashboard.reading import reading
from dashboard.sentences import Phrase
from dashboard.widgets import address, trials
from dashboard.widgets.parts import link, muted, no_arms, sentence
from dashboard.wording import Markdown, Words

_MOST_ARMS: Final = 12


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing to try; ``label`` is that of the link to ``page`` with ``more`` in its address."""

    words: Markdown
    page: Page
    label: Markdown
    more: dict[str, str | Sequence[str]] = field(default_factory=dict)


def page() -> None:
    here = reading()
    if here.frame.n_arms == 0:
        no_arms("The list of first steps")
        return
    steps = [step for step in _steps(queries.overview()) if here.context.may(step.page.needs)]
    sentence(("Try these ", Phrase(f"{wording.number_word(len(steps))} first steps"), "."), here.tokens)
    muted(Words("Each link opens the page where it is done. Back returns here."))
    with st.container(border=True, gap="small"):
        for number, step in enumerate(steps, 1):
            with st.container(
                horizontal=True, vertical_alignment="center", gap="small", key=f"step {number}"
            ):
                st.markdown(f":gray[{number}.] {step.words}", width="stretch")
                link(step.page, step.label, **step.more)


def _steps(overview: Overview) -> tuple[Step, ...]:
    """Return the steps over this learner's arms that need a look, else the least used one."""
    flagged = next((item.arms for item in overview.attention if item.arms), ())
    least = tuple(row.key for row in sorted(trials.worth_rows(), key=lambda row: row.uses)[:1])
    arms = (flagged or least or queries.everything().columns.keys)[:_MOST_ARMS]
    arm, name = arms[0], f"**{wording.literal(wording.short_name(arms[0]))}**"
    repaired = f"{wording.things(len(arms), 'arm')}" if len(arms) > 1 else name
    return (
        Step(
            words="Read the first sentence: what choosing arms saves, and whether that is sure.",
            page=pages.OVERVIEW,
            label="Overview",
        ),
        Step(
            words=f"Open {name}, which needs a look." if flagged else f"Open {name}.",
            page=pages.ARM,
            label="The arm",
            more={address.ARM: arm},
        ),
        Step(
            words=f"See what became of {name} in each run. Open one run to read why.",
            page=pages.RUNS,
            label="Its runs",
            more={address.RUNS_ARM: arm},
        ),
        _judging(arm),
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


def _judging(arm: str) -> Step:
    """Return the step to the newest queue that has something left for who is here, else to the reward form."""
    queues = reviews.all_queues() if reading().context.may(pages.REVIEW.needs) else ()
    queue = next((row.progress.queue for row in queues if row.progress.left_for_me), None)
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


page()
