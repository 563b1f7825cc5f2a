"""Design of a reward: its patterns and how sure each is, and what may be wrong, with the steps that show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from core.flows.queries import EnvironmentStory
from core.records.episode import Finding
from dashboard import pages, queries, wording
from dashboard.figures.theme import Severity
from dashboard.reading import reading
from dashboard.sentences import rewards
from dashboard.sentences.episode import short, step_name, step_request
from dashboard.widgets import address
from dashboard.widgets.navigation import link
from dashboard.widgets.words import muted, section, small, small_table
from dashboard.wording import Words

_LINKED: Final = 4
_NUMBERS: Final = 3
"""Episodes that a finding leads to at first, and numbers of the steps of each that are written."""
_SHOWN: Final = 5
"""Steps of one of them that are drawn below a critical finding."""
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
            "certainty": [rewards.certainty(one.certainty) for one in patterns],
        },
        alt="Patterns of the reward, and how many random samples of its episodes show each",
    )
    muted(rewards.PATTERN_CERTAINTY)


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
    order = rewards.by_gravity(one.kind for one in listed)
    for finding in sorted(listed, key=lambda one: order.index(one.kind)):
        _finding(finding)


def _finding(finding: Finding) -> None:
    severity = rewards.FINDING_SEVERITY[finding.kind]
    colour = reading().tokens.severities[severity]
    icon = f':color[:material/{_ICONS[severity]}:]{{foreground="{colour}"}}'
    name = rewards.FINDING_WORDS[finding.kind]
    with st.container(border=True, gap="xsmall"):
        sure = small(rewards.certainty_words(finding))
        st.markdown(
            f"{icon}&nbsp; **{name}.** {wording.literal(finding.seen)} {sure}"
            f"  \n:gray[{wording.literal(finding.advice)}]"
        )
        steps = _by_episode(finding.steps)
        _links(steps[:_LINKED])
        if len(steps) > _LINKED:
            with st.expander(f"{wording.count(len(steps) - _LINKED)} more episodes"):
                _links(steps[_LINKED:])
        if severity == "critical" and steps:
            uid, numbers = steps[0]
            _example(uid, numbers[0])


def _example(uid: str, named: int) -> None:
    """Draw the steps of an episode from a named one on, or from the earlier one that it repeats."""
    steps = queries.episode(uid).steps
    repeated = next((one.same_as for one in steps if one.number == named), None)
    first = named if repeated is None else repeated
    shown = [one for one in steps if one.number >= first][:_SHOWN]
    muted(f"{short(uid, 24)} from step {wording.count(first)} on:")
    small_table(
        {
            "step": [wording.count(one.number) for one in shown],
            "what": [wording.literal(step_name(one)) for one in shown],
            "asked": [wording.literal(step_request(one)) for one in shown],
            "reward": [Words("none") if one.reward is None else wording.paid(one.reward) for one in shown],
        },
        alt=f"{wording.things(len(shown), 'step')} of an episode with this finding",
    )


def _by_episode(steps: Sequence[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Return the numbers of the steps of each episode.

    >>> _by_episode([("a", 1), ("b", 0), ("a", 3)])
    [('a', [1, 3]), ('b', [0])]
    """
    numbers: dict[str, list[int]] = {}
    for uid, number in steps:
        numbers.setdefault(uid, []).append(number)
    return [*numbers.items()]


def _links(episodes: Sequence[tuple[str, list[int]]]) -> None:
    """Draw a link to the first of these steps in each episode."""
    with st.container(horizontal=True, gap="small"):
        for uid, numbers in episodes:
            named = ", ".join(wording.count(number) for number in numbers[:_NUMBERS])
            more = " …" if len(numbers) > _NUMBERS else ""
            parameters = {address.EPISODE: uid, address.STEP: str(numbers[0])}
            steps = "step" if len(numbers) == 1 else "steps"
            link(pages.EPISODE, f"{short(uid, 24)}, {steps} {named}{more}", **parameters)
