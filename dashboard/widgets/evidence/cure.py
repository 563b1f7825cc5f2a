"""The repair beside its evidence: the effect arm by arm, one button, and afterwards its state with the way back.

Below it the arms can be excluded until their detector is repaired.
"""

from __future__ import annotations

from typing import Final

import streamlit as st

from core.explained import EXCLUDED, NOT_OFFERED, chance_words
from core.flows.queries import ArmBelief, ChangeEvidence, RepairPreview
from core.records.repair import Repair
from core.records.times import iso
from dashboard import actions, pages, queries, sentences, wording
from dashboard.reading import reading
from dashboard.widgets import address
from dashboard.widgets.navigation import link
from dashboard.widgets.results import refusal, result
from dashboard.widgets.way_back import way_back
from dashboard.widgets.words import section, small, small_table
from dashboard.wording import Words

_ALL_ARMS: Final = 100


def cure(change: ChangeEvidence) -> None:
    """Draw the repair of this span: what it would do, or what it did."""
    arms = tuple(one.arm for one in change.arms)
    done = _done(arms, change.since_ms)
    section("Repair")
    with st.container(border=True, gap="small"):
        if done is not None and not done.undone:
            _state(done, arms)
        else:
            _offer(change, arms)
        refusal("repair")
    with st.container(border=True, gap="small"):
        _exclusion(arms)


def _exclusion(arms: tuple[str, ...]) -> None:
    """Draw the button that excludes the arms from prompts or lets them back in, with its effect and result."""
    here = reading()
    settings = here.frame.settings
    n_excluded = _n_excluded(arms)
    is_excluded = n_excluded == len(arms)
    these = "this arm" if len(arms) == 1 else "these arms"
    if is_excluded:
        st.markdown(f"✓ **{wording.capital(Words(EXCLUDED))}** until the detector is repaired")
    st.button(
        Words(f"Let {these} back in")
        if is_excluded
        else Words(f"Exclude {these} until the detector is repaired"),
        icon=":material/login:" if is_excluded else ":material/block:",
        disabled=not here.may("settings"),
        key="do exclusion",
        on_click=actions.send_exclusion,
        args=(arms,),
        kwargs={"excluded": not is_excluded, "before": settings},
    )
    st.markdown(small(sentences.exclusion_effect(settings, n_excluded=n_excluded, n_arms=len(arms))))
    result(actions.EXCLUSION)


def _n_excluded(arms: tuple[str, ...]) -> int:
    return len({*arms} & {*reading().frame.settings.excluded_arms})


def _done(arms: tuple[str, ...], since_ms: int) -> Repair | None:
    """Return the newest repair of these arms from this time on."""
    same = (one for one in queries.repairs() if one.since_ms == since_ms and {*one.arms} & {*arms})
    return next(same, None)


def _offer(change: ChangeEvidence, arms: tuple[str, ...]) -> None:
    since = iso(change.since_ms) or ""
    preview = queries.preview_repair(arms=arms, since=since)
    if not preview.n:
        st.markdown("No automatic observation since then counts, so there is nothing to take back.")
        return
    small_table(_effects(preview), alt="Effect of the repair by arm, now and after")
    words = f"Take back {wording.things(preview.n, 'observation')}"
    st.button(
        words,
        icon=":material/healing:",
        type="primary",
        disabled=not reading().may("reset"),
        key="do repair",
        on_click=actions.send_repair,
        args=(arms, since),
    )
    st.markdown(small(sentences.repair_effect(preview)))
    if reading().may("reset"):
        with st.container(gap=None):
            is_excluded = _n_excluded(arms) == len(arms)
            warning = sentences.reset_warning(change, reading().frame.settings, is_excluded=is_excluded)
            st.markdown(small(warning))
            link(pages.RESET, "Reset them instead", **address.reset(arms[:_ALL_ARMS]))


def _effects(preview: RepairPreview) -> dict[str, list[str]]:
    return {
        "arm": [wording.literal(wording.cut_middle(wording.short_name(one.arm), 22)) for one in preview.arms],
        "mean": [" → ".join(wording.means(one.now.mean, one.after.mean)) for one in preview.arms],
        "pulls": [
            f"{wording.count(one.now.pulls)} → {wording.count(one.after.pulls)}" for one in preview.arms
        ],
        "in prompts": [
            EXCLUDED if one.arm in reading().frame.settings.left_out else _chances(one.now, one.after)
            for one in preview.arms
        ],
    }


def _chances(now: ArmBelief, after: ArmBelief) -> str:
    if now.chance is None or after.chance is None:
        return NOT_OFFERED
    before, then = (chance_words(one.chance or 0.0, 0.0) for one in (now, after))
    return before if before == then else f"{before} → {then}"


def _state(done: Repair, arms: tuple[str, ...]) -> None:
    """Draw what the repair did, its undo, and the next step."""
    n = wording.things(done.n_observations, "observation")
    at = wording.minute(done.at_ms, year_of_ms=reading().frame.last_at_ms)
    st.markdown(f"✓ **{n} taken back**  \n{small(f'{at} by {wording.literal(done.actor)}')}")
    if done.n_changed:
        again = wording.things(done.n_changed, "observation")
        st.markdown(small(f"{again} count again: the runs came with another outcome."))
    with st.container(horizontal=True, vertical_alignment="center"):
        if way_back(done) == "Undo":
            st.button("Undo", key="undo repair", on_click=actions.take_back, args=(done.id,))
        link(pages.OVERVIEW, "Back to the overview")
    if _n_excluded(arms) == len(arms):
        st.markdown(small("Next: repair the detector, then let the arms back in."))
    else:
        st.markdown(small("Next: repair the detector, or the same observations come again with new runs."))
