"""Credit of an episode: which is in force, another with its effect before it is given, and its way back."""

from __future__ import annotations

from typing import Final, NamedTuple

import streamlit as st

from core.errors import NotApplicable
from core.flows.queries import CreditPreview, CreditView, EpisodeView
from core.records.arm import MICRO
from core.records.episode_credit import CREDIT_RULES, CreditRule, CreditShare
from dashboard import actions, queries, wording
from dashboard.reading import reading
from dashboard.widgets.results import result
from dashboard.widgets.undo_button import offered_undo
from dashboard.widgets.words import chipped, muted, section, small, small_table

_SHOWN: Final = 12
_RULE: Final = "credit rule"
_WORDS: Final[dict[CreditRule, str]] = {
    "off": "No arm",
    "equal": "All",
    "step": "By payment",
    "referenced": "Referenced",
}
_MEANS: Final[dict[CreditRule, str]] = {
    "off": "no arm is credited",
    "equal": "all arms in the prompts of its runs share alike",
    "step": "the tools called in paid steps share, each by the size of its payments",
    "referenced": "the arms that its runs referenced share alike",
}


def credit(episode: EpisodeView) -> None:
    """Show the credit in force, and the preview of another; the button sends it."""
    if not episode.runs:
        return
    standing = episode.credit
    section("Credit", "what this episode was worth, to arms of its runs; off by default")
    _in_force(standing)
    if not reading().may("credit"):
        return
    left, right = st.columns([5, 7], gap="large")
    with left, st.container(border=True):
        rule = _chosen(standing)
        try:
            preview = queries.preview_credit(episode.uid, rule)
        except NotApplicable as problem:
            preview = None
            st.markdown(f":yellow[:material/warning:] {wording.literal(str(problem))}")
        if preview is not None and preview.answer.why:
            st.markdown(f":yellow[:material/warning:] {wording.literal(preview.answer.why)}")
        _send(episode, rule, preview)
    with right:
        if preview is not None:
            _effect(preview)


def _in_force(standing: CreditView | None) -> None:
    if standing is None or standing.rule == "off":
        muted("No arm is credited.")
        return
    by, at = wording.literal(standing.by), wording.written_minute(standing.at)
    worth = "" if standing.reward is None else f", worth {standing.reward:.3f} of 1"
    words = f"In force: {wording.literal(standing.id)}, {_MEANS[standing.rule]}{worth}; by {by}, {at} UTC."
    if not standing.fits:
        words += (
            " **The same rule would give another credit now**: the episode, its runs or its scale changed."
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(words, width="stretch")
        back = offered_undo(_Act(standing.id, standing.by, undone=False))
        if back is not None:
            st.button(
                back,
                type="tertiary",
                icon=":material/undo:",
                key=f"take back {standing.id}",
                on_click=actions.take_back,
                args=(standing.id,),
                kwargs={"at": "credit"},
            )


class _Act(NamedTuple):
    """The act that gave a credit."""

    id: str
    actor: str
    undone: bool


def _chosen(standing: CreditView | None) -> CreditRule:
    begin: CreditRule = "referenced" if standing is None else standing.rule
    rule = st.segmented_control(
        "Who shares",
        CREDIT_RULES,
        default=begin,
        required=True,
        format_func=lambda name: _WORDS[name],
        key=_RULE,
    )
    muted(wording.capital(_MEANS[rule]) + ".")
    return rule


def _send(episode: EpisodeView, rule: CreditRule, preview: CreditPreview | None) -> None:
    would = preview is not None and preview.answer.id is not None and not preview.answer.repeated
    st.button(
        "Credit it" if rule != "off" else "Credit no arm",
        type="primary",
        icon=":material/check:",
        key="credit episode",
        disabled=not would,
        on_click=actions.credit,
        args=(episode.uid, rule),
    )
    st.markdown(small("Nothing is sent yet. It counts as one lagged observation in all. It can be undone."))
    result("credit")


def _effect(preview: CreditPreview) -> None:
    """Draw each arm's share, and how far its mean would move."""
    answer = preview.answer
    if not answer.shares and not preview.effects:
        muted("It would move no arm.")
        return
    worth = "" if answer.reward is None else f"; the episode is worth {answer.reward:.3f} of 1"
    moved = f"{wording.count(preview.n_moved)} of {wording.things(preview.n_arms, 'arm')} would move"
    st.markdown(f"**What it would change.** {moved}{worth}.")
    shares = _shares(answer.shares)
    effects = {one.arm: one for one in preview.effects}
    names = list(dict.fromkeys([*effects, *sorted(shares, key=lambda arm: -shares[arm])]))
    small_table(
        {
            "arm": [chipped(arm) for arm in names[:_SHOWN]],
            "share": [f"{shares.get(arm, 0) / MICRO:.3f}" for arm in names[:_SHOWN]],
            "mean now": [
                wording.mean(effects[arm].before.mean, 3) if arm in effects else wording.MISSING
                for arm in names[:_SHOWN]
            ],
            "after": [
                f"**{wording.mean(effects[arm].after.mean, 3)}**" if arm in effects else wording.MISSING
                for arm in names[:_SHOWN]
            ],
        },
        alt="Arms that would be credited, with their means now and after",
    )
    if len(names) > _SHOWN:
        muted(f"and {wording.things(len(names) - _SHOWN, 'other arm')}.")


def _shares(shares: tuple[CreditShare, ...]) -> dict[str, int]:
    """Return each arm's share over all runs, in millionths."""
    totals: dict[str, int] = {}
    for share in shares:
        totals[share.arm] = totals.get(share.arm, 0) + share.weight_micro
    return totals
