"""Contest: two models at a time on the same tasks; the choice is in the address."""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.errors import InvalidInput
from core.flows.queries import Compared, EnvironmentStory, ModelComparison
from dashboard import queries, wording
from dashboard.figures.rewards import pairs
from dashboard.reading import pictured_once, reading
from dashboard.sentences import rewards
from dashboard.widgets.charts import chart
from dashboard.widgets.words import muted, section

MODELS: Final = "compared"
BY: Final = "compared_by"
_MOST: Final = 6
_BY: Final[tuple[Compared, ...]] = ("reward", "success")


def contest(story: EnvironmentStory) -> None:
    """Draw the models to compare, and their differences on the tasks that both attempted."""
    models = story.summary.models
    if len(models) < 2:
        return
    head = st.container(gap="small")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = st.multiselect(
            "Models",
            models,
            default=list(models[:_MOST]),
            max_selections=_MOST,
            format_func=wording.plain,
            key=MODELS,
            bind="query-params",
        )
        by = st.segmented_control(
            "By",
            _BY,
            default="reward",
            required=True,
            format_func=lambda name: "Reward" if name == "reward" else "Success",
            key=BY,
            bind="query-params",
        )
    if len(chosen) < 2:
        with head:
            section("Models on the same tasks")
            muted("Choose two models or more.")
        return
    try:
        comparison = queries.compared(story.summary.environment, tuple(chosen), by)
    except InvalidInput as problem:
        with head:
            section("Models on the same tasks")
            muted(wording.literal(str(problem)))
        return
    _shown(comparison, head)


def _shown(comparison: ModelComparison, head: st.delta_generator.DeltaGenerator) -> None:
    here = reading()
    names = tuple(one.model for one in comparison.models)
    figure = pictured_once(
        ("contest", comparison.environment, names, comparison.compared),
        lambda: pairs(comparison, here.tokens, compact=here.compact),
    )
    note = "differences by task, 95% interval; filled: apart with all pairs at once (Holm, 5%)"
    with head:
        section("Models on the same tasks", note, table=figure.table, key="contest")
    for line in rewards.contest(comparison):
        st.markdown(line)
    chart(figure, key="contest")
