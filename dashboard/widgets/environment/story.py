"""Environment story: which one is meant, what it pays in figures, how that spreads, and by split, model and task."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import streamlit as st

from core.errors import NotFound
from core.flows.queries import EnvironmentStory, GroupKind
from dashboard import pages, queries, sentences, wording
from dashboard.figures.rewards import distribution
from dashboard.reading import pictured_once, reading
from dashboard.sentences import rewards
from dashboard.widgets import address
from dashboard.widgets.charts import chart
from dashboard.widgets.empty import not_named, quoted
from dashboard.widgets.navigation import link
from dashboard.widgets.words import as_table, muted, section

TRUTH: Final = "planted_here"
_GROUPS: Final[dict[GroupKind, str]] = {"model": "By model", "split": "By split", "task": "By task"}


def requested() -> EnvironmentStory | None:
    """Return the environment of the address; without one, or with an unknown one, draw what to do instead."""
    name = st.query_params.get(address.ENVIRONMENT, "")
    if name:
        with suppress(NotFound):
            return queries.environment(name)
    not_named(
        "environment",
        name,
        unnamed="This page shows how one environment pays.",
        unknown=f"No record names {quoted(name)}.",
        needed="the name of an environment",
        to_do="**Choose an environment** on the page of episodes, or list them.",
        listed_by="episodes",
    )
    link(pages.EPISODES, "All episodes")
    return None


def links(environment: EnvironmentStory) -> None:
    """Show links to its episodes and to all; in a demo also the planted truth on request."""
    planted = queries.planted_environments().get(environment.summary.environment)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        link(pages.EPISODES, "Its episodes", **{address.EPISODES_OF: environment.summary.environment})
        link(pages.EPISODES, "All episodes")
        if planted is not None and st.toggle("Show truth", key=TRUTH, bind="query-params"):
            muted(f"Planted: {rewards.planted_words(planted)}.")


def figures(environment: EnvironmentStory) -> None:
    """Draw average, success and what was left out."""
    one = environment.summary
    rate = one.success
    with st.container(horizontal=True, gap="medium"):
        st.metric("Success", "unknown" if rate is None else wording.percent(rate.rate, 0))
        st.metric("95% interval", rewards.share_limits(rate) or "none")
        st.metric("Average", "none paid" if one.average.value is None else rewards.average(one.average))
        st.metric("95% of average", rewards.amount_limits(one.average) or "none")
        st.metric("Episodes", wording.count(one.n))
        if one.without_reward:
            st.metric("Unpaid", wording.count(one.without_reward))
        if one.broken:
            st.metric("Broken", wording.count(one.broken))
    if environment.attempts and rate is not None:
        facts = [
            f"of {attempt.k} attempts at a task any succeeds in {wording.percent(attempt.any_succeeds, 0)} of tasks "
            f"(pass@{attempt.k}), all in {wording.percent(attempt.all_succeed, 0)} (pass^{attempt.k})"
            for attempt in environment.attempts
            if attempt.k > 1
        ]
        if facts:
            muted(f"{wording.capital('; '.join(facts[:6]))}.")


def spread(environment: EnvironmentStory) -> None:
    """Show how often each total occurred, raw and on the scale."""
    here = reading()
    if not environment.distribution:
        section("Totals of the episodes")
        muted("No episode was paid, so there are no totals to show.")
        return
    figure = pictured_once(
        ("spread", environment.summary.environment, environment.summary.scale),
        lambda: distribution(environment, here.tokens, compact=here.compact),
    )
    off = environment.left_out.off_scale
    note = f"scale {rewards.scale_words(environment.summary.scale, declared=environment.summary.declared)}"
    if off:
        note += f"; grey: {wording.things(off, 'episode')} outside it"
    section("Totals of the episodes", note, table=figure.table, key="spread")
    chart(figure, key="spread")


def groups(environment: EnvironmentStory) -> None:
    """Draw the same by model, split and task; of many tasks those that are paid least."""
    kinds = [kind for kind in _GROUPS if environment.n_groups.get(kind, 0) > 1]
    if not kinds:
        return
    for kind in kinds:
        rows = [one for one in environment.groups if one.kind == kind]
        n = environment.n_groups[kind]
        note = wording.things(n, kind)
        if n > len(rows):
            note += f"; the {wording.count(len(rows))} that are paid least"
        section(_GROUPS[kind], note)
        as_table(
            {
                kind: [wording.MISSING if one.name is None else wording.plain(one.name) for one in rows],
                "episodes": [wording.count(one.n) for one in rows],
                "success": [
                    wording.MISSING if one.success is None else wording.percent(one.success.rate, 0)
                    for one in rows
                ],
                "95% interval": [rewards.share_limits(one.success) or wording.MISSING for one in rows],
                "average": [rewards.average(one.average) for one in rows],
                "95% of average": [rewards.amount_limits(one.average) or wording.MISSING for one in rows],
                "none paid": [wording.count(one.without_reward) for one in rows],
            },
            alt=f"What {sentences.short(environment.summary.environment)} paid {_GROUPS[kind].lower()}",
        )
