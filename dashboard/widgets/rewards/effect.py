"""Effect of the reward, before it is sent and until the form changes."""

from __future__ import annotations

import streamlit as st

from core.flows.queries import RewardPreview
from dashboard import actions, queries, sentences, wording
from dashboard.figures.before_after import before_after
from dashboard.reading import reading
from dashboard.widgets.charts import chart
from dashboard.widgets.rewards.form import Filled, Submitted, submitted
from dashboard.widgets.way_back import way_back
from dashboard.widgets.words import both_ends, muted, section, small, small_table


def effect(filled: Filled) -> None:
    """Before and after: a picture, a table, and one sentence."""
    done = submitted()
    if done is not None and done.preview is not None:
        _what_it_changed(done, done.preview)
        return
    section("What it would change", "nothing is sent yet")
    if filled.preview is None:
        muted(
            "Correct the fields marked in red to see the effect."
            if filled.problems
            else "Choose an arm and an outcome to see the effect."
        )
        return
    _before_and_after(filled.preview, is_done=False)


def _what_it_changed(done: Submitted, preview: RewardPreview) -> None:
    """Draw the effect of what was sent, with its way back."""
    reward = next((one for one in queries.rewards(everyone=False) if one.id == done.act), None)
    state = "" if reward is None else "undone: its effect is gone" if reward.undone else "sent"
    about = "" if reward is None or reward.run_no is None else f", run {wording.count(reward.run_no)}"
    with both_ends():
        st.header(f"What it changed {small(f'{state}{about}')}", anchor=False, width="content")
        back = None if reward is None else way_back(reward)
        if reward is not None and back is not None:
            st.button(
                back,
                icon=":material/undo:" if back == "Undo" else ":material/redo:",
                key=f"take back sent {reward.id}",
                on_click=actions.take_back,
                args=(reward.id,),
                kwargs={"again": reward.undone},
            )
    _before_and_after(preview, is_done=True)


def _before_and_after(preview: RewardPreview, *, is_done: bool) -> None:
    look = reading().tokens
    before, after, arm = preview.before, preview.after, preview.arm
    figure = before_after(
        arm, wording.type_of(arm), (before.alpha, before.beta), (after.alpha, after.beta), look
    )
    chart(figure, key="effect")
    small_table(
        sentences.effect_table(before, after, n_arms=preview.n_arms),
        alt="Belief before and after the reward",
    )
    if preview.in_present_epoch:
        muted(sentences.effect(before.mean, after.mean, (before.rank, after.rank), is_done=is_done))
    else:
        words = "was kept" if is_done else "is kept"
        muted(
            f"That run belongs to an epoch that a reset has ended: the reward {words} there, not in this belief."
        )
