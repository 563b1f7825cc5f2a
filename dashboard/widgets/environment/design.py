"""Design of a reward: its patterns and how sure each is, and what may be wrong, with the steps that show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.flows.queries import EnvironmentStory
from core.records.episode import Finding
from dashboard import pages, wording
from dashboard.figures.theme import Severity
from dashboard.reading import reading
from dashboard.sentences import rewards
from dashboard.sentences.episode import short
from dashboard.widgets import address
from dashboard.widgets.navigation import link
from dashboard.widgets.words import muted, section, small, small_table
from dashboard.wording import Words

_LINKED: Final = 4
"""Steps that a finding leads to; each is an element, and so many show what it is about."""
_FEWEST: Final = 10
_ICONS: Final[dict[Severity, str]] = {
    "critical": "error",
    "warning": "warning",
    "notice": "info",
    "info": "check_circle",
}


def pattern(story: EnvironmentStory) -> None:
    """Show each pattern in words with its certainty; too few episodes show none."""
    section("Pattern", rewards.pattern_note(story))
    patterns = story.design.patterns
    if not patterns:
        paid = story.summary.n - story.summary.without_reward
        muted(
            f"A pattern needs {_FEWEST} episodes with a reward on; there are {wording.count(paid)}."
            if paid < _FEWEST
            else "None of the six patterns fits."
        )
        return
    small_table(
        {
            "the reward is": [f"**{rewards.PATTERN_WORDS[one.pattern]}**" for one in patterns],
            "which means": [rewards.PATTERN_MEANS[one.pattern] for one in patterns],
            "shown by": [f"{wording.count(one.n_showing)} of {wording.count(one.n)}" for one in patterns],
            "certainty": [_certainty(one.certainty) for one in patterns],
        },
        alt="Patterns of the reward, and how many bootstrap samples agree",
    )


def findings(story: EnvironmentStory) -> None:
    """Show findings with certainty, remedy, and links to the steps; the gravest first."""
    listed = story.design.findings
    section("What may be wrong", wording.things(len(listed), "finding") if listed else "")
    if not listed:
        muted(
            "Nothing was found."
            if story.summary.n >= _FEWEST
            else f"Most patterns need {_FEWEST} episodes on; nothing was found in {wording.count(story.summary.n)}."
        )
        return
    order: tuple[Severity, ...] = ("critical", "warning", "notice", "info")
    for finding in sorted(listed, key=lambda one: order.index(rewards.FINDING_SEVERITY[one.kind])):
        _finding(finding)


def _finding(finding: Finding) -> None:
    severity = rewards.FINDING_SEVERITY[finding.kind]
    colour = reading().tokens.severities[severity]
    icon = f':color[:material/{_ICONS[severity]}:]{{foreground="{colour}"}}'
    name = rewards.FINDING_WORDS[finding.kind]
    with st.container(border=True, gap="xsmall"):
        sure = small(f"certainty {_certainty(finding.certainty)}")
        st.markdown(
            f"{icon}&nbsp; **{name}.** {wording.literal(finding.seen)} {sure}"
            f"  \n:gray[{wording.literal(finding.advice)}]"
        )
        with st.container(horizontal=True, gap="small"):
            for uid, number in _first_of_each(finding.steps)[:_LINKED]:
                parameters = {address.EPISODE: uid, address.STEP: str(number)}
                link(pages.EPISODE, f"{short(uid, 24)}, step {wording.count(number)}", **parameters)
            if len(finding.steps) > _LINKED:
                st.markdown(
                    small(f"and {wording.count(len(finding.steps) - _LINKED)} more steps"), width="content"
                )


def _first_of_each(steps: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the first step of each episode, then the others: more episodes show more than more steps of one."""
    firsts = {uid: (uid, number) for uid, number in reversed(steps)}
    ahead = [one for one in steps if firsts[one[0]] == one]
    return [*ahead, *(one for one in steps if firsts[one[0]] != one)]


def _certainty(share: float) -> Words:
    return Words("over 99%" if 0.99 < share < 1 else wording.percent(share, 0))
