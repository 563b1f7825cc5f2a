"""Evidence of arms that changed: the picture, the runs concerned, other changes, examples, and the act that fits.

What a broken detector gave is taken back from then on. A change that may be real starts the belief at its time. Each
repair has its effect arm by arm, one button, and afterwards its state with Undo.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import streamlit as st

from core.errors import ArmscopeError
from core.explained import EXCLUDED, NOT_OFFERED, chance_words
from core.flows.queries import MAX_EVIDENCE_ARMS, ArmBelief, ChangeEvidence, RepairPreview, Share
from core.maths.statistics.overview import AttentionKind
from core.records.corrections import Repair
from core.records.times import DAY_MS, iso
from dashboard import actions, pages, queries, wording
from dashboard.figures.path import evidence_rows
from dashboard.reading import pictured_once, reading
from dashboard.sentences import changes as changes_sentences
from dashboard.sentences import evidence as sentences
from dashboard.sentences import trials
from dashboard.sentences.review import SAY_BETTER
from dashboard.widgets import address
from dashboard.widgets.charts import time_chart
from dashboard.widgets.parts import compacted, link, muted, panel, section, sentence, small, small_table
from dashboard.widgets.results import offered_undo, refusal, result
from dashboard.wording import Markdown, Words

_MOST_ROWS: Final = 10
_VERSION_CHARS: Final = 12

_MAY_BE_REAL: Final[frozenset[AttentionKind]] = frozenset(
    ("drifting", "rising", "fell_together", "new_model")
)
CHANGES: Final[frozenset[AttentionKind]] = _MAY_BE_REAL | {"poisoned", "rival", "mix_changed"}
"""Kinds of arms that changed at a time."""


def draw(
    arms: tuple[str, ...], since_ms: int, kind: AttentionKind, claimed: tuple[Markdown, Markdown]
) -> None:
    """Draw what changed for some arms at a time, and the act that fits; ``claimed`` by the overview."""
    here = reading()
    change = queries.evidence(arms[:MAX_EVIDENCE_ARMS], since_ms)
    sentence(sentences.evidence(change, year_of_ms=here.frame.last_at_ms), here.tokens)
    if claimed[0]:
        muted(f"{claimed[0]}: {claimed[1]}.")
    compacted(here.frame.compacted)
    left, right = st.columns([64, 36], gap="large")
    with left, panel("Used, by day"):
        picture(change)
    with right, panel("What to do", still="nothing was taken back"):
        cure(change, arms, kind)
    left, right = st.columns([7, 5], gap="large")
    with left, panel("Runs concerned"):
        hits(change)
    with right:
        with panel("What else changed"):
            changed_too(change)
        with panel("Examples"):
            examples(change)


def picture(change: ChangeEvidence) -> None:
    """Draw the daily shares of each arm."""
    here = reading()
    drawing = pictured_once(
        ("evidence", tuple(one.arm for one in change.arms), change.since_ms),
        lambda: evidence_rows(change, here.tokens, compact=here.compact),
    )
    section("Used, by day", "share of observations, with 95% intervals", table=drawing.table, key="evidence")
    time_chart(drawing, key="evidence picture")


def hits(change: ChangeEvidence) -> None:
    """Draw the runs concerned by model, channel, format and source, the largest share first."""
    section("Runs concerned", "observations used, before → since")
    rows = [(part, one) for part, listed in change.hits.items() for one in listed][:_MOST_ROWS]
    small_table(
        {
            "by": [part for part, _ in rows],
            "name": [wording.literal(one.name or "unknown") for _, one in rows],
            "before": [_of(one.before) for _, one in rows],
            "since": [_of(one.after) for _, one in rows],
        },
        alt="Observations by model, channel, format and source, before and since",
    )


def _of(share: Share) -> str:
    return f"{wording.count(share.n_used)} of {wording.count(share.n)}" if share.n else wording.MISSING


def changed_too(change: ChangeEvidence) -> None:
    """Draw other changes near this time: acts, first runs of models, and new versions of the arms' definitions."""
    section("What else changed", "within 2 days")
    frame = reading().frame
    when = partial(wording.minute, year_of_ms=frame.last_at_ms)
    lines: list[Markdown] = [
        f"{when(one.at_ms)} {wording.literal(one.actor)} "
        f"{changes_sentences.change(one, frame.settings.currency)}"
        for one in change.changes[:_MOST_ROWS]
    ]
    lines += [f"{when(at_ms)} first run of {wording.literal(name)}" for name, at_ms in change.new_models]
    lines += [
        f"{when(one.first_ms)} first of {wording.things(one.n_runs, 'run')} with version "
        f"{wording.literal(one.version[:_VERSION_CHARS])} of {wording.literal(one.arm)}"
        for one in change.new_versions
    ]
    if not lines:
        lines = [Words("No setting, import, reset, model or definition changed then.")]
    st.markdown("\n".join(f"- {one}" for one in lines))


def examples(change: ChangeEvidence) -> None:
    """Draw the last runs that used an arm, and the first ones since, each with its link."""
    section("Examples", "the last runs that used them, and the first since")
    shown = {one.run_no: one for one in reversed(change.examples)}
    for one in sorted(shown.values(), key=lambda one: one.run_no):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
            used = "● used" if one.used else "× not used"
            where = " · ".join(wording.literal(text) for text in (one.model, one.channel) if text)
            at = wording.minute(one.at_ms, year_of_ms=reading().frame.last_at_ms)
            st.markdown(f"{at} {used} :gray[{where}]", width="stretch")
            link(pages.RUN, f"Run {wording.count(one.run_no)}", **{address.RUN: str(one.run_no)})


def cure(change: ChangeEvidence, arms: tuple[str, ...], kind: AttentionKind) -> None:
    """Draw the act that fits a kind of change: what it would do, or what it did."""
    done, broken = _done(arms, change.since_ms), Words(" until the detector is repaired")
    section("What to do")
    with st.container(border=True, gap="small"):
        st.markdown(sentences.WHY[kind])
        if done is not None:
            _state(done, arms)
        elif kind in _MAY_BE_REAL:
            _offer(arms, change.since_ms, first_ms=_first_ms(change, arms))
        elif kind == "poisoned":
            _offer(arms, change.since_ms)
        refusal("repair")
    if kind == "rival":
        exclusion(arms, until=Words(""))
    elif kind == "poisoned":
        with st.container(border=True, gap="small"):
            exclusion(arms, until=broken)
    elif kind in _MAY_BE_REAL and done is None:
        with st.expander("If the detector is at fault"):
            _offer(arms, change.since_ms, key="do other repair")
            exclusion(arms, until=broken)


def exclusion(arms: tuple[str, ...], *, until: Words) -> None:
    """Draw the button that excludes the arms from prompts or lets them back in, with its effect and result.

    An arm that is missed often is never offered for exclusion.
    """
    here = reading()
    settings = here.frame.settings
    missed = {arm for arm, one in queries.missed_use().items() if one.is_frequent} - {*settings.excluded_arms}
    for arm in filter(missed.__contains__, arms):
        st.markdown(f"{trials.name_of(arm)} was needed and not used. **{SAY_BETTER}.**")
    arms = tuple(arm for arm in arms if arm not in missed)
    if not arms:
        return
    n_excluded = _n_excluded(arms)
    is_excluded = n_excluded == len(arms)
    these = "this arm" if len(arms) == 1 else "these arms"
    if is_excluded:
        st.markdown(f"✓ **{wording.capital(Words(EXCLUDED))}**{until}")
    st.button(
        Words(f"Let {these} back in" if is_excluded else f"Exclude {these}{until}"),
        icon=":material/login:" if is_excluded else ":material/block:",
        disabled=not here.may("settings"),
        key="do exclusion",
        on_click=actions.send_exclusion,
        args=(arms,),
        kwargs={"excluded": not is_excluded, "before": settings},
    )
    st.markdown(small(sentences.exclusion_effect(settings, n_excluded=n_excluded, n_arms=len(arms))))
    for one in trials.verdicts(queries.trials(), queries.experiments()):
        if one.arm in arms:
            st.markdown(small(f"{trials.name_of(one.arm)}: {one.sourced}"))
    result(actions.EXCLUSION)


def _n_excluded(arms: tuple[str, ...]) -> int:
    return len({*arms} & {*reading().frame.settings.excluded_arms})


def _done(arms: tuple[str, ...], at_ms: int) -> Repair | None:
    """Return the newest repair in force of these arms from this time on, or up to it."""
    same = (
        one for one in queries.repairs() if at_ms in {one.since_ms, one.until_ms} and {*one.arms} & {*arms}
    )
    return next((one for one in same if not one.undone), None)


def _first_ms(change: ChangeEvidence, arms: Sequence[str]) -> int:
    """Return the start of the first day in the present epoch of these arms; 0 where some are not in the evidence."""
    days = [day.day for one in change.arms for day in one.days[:1]]
    return min(days, default=0) * DAY_MS if len(change.arms) == len(arms) else 0


def _offer(arms: tuple[str, ...], at_ms: int, *, first_ms: int | None = None, key: str = "do repair") -> None:
    """Draw a repair from a time on, or (``first_ms``) of all from then until that time."""
    at, first = iso(at_ms) or "", None if first_ms is None else iso(first_ms)
    since, until = (at, None) if first is None else (first, at)
    try:
        preview = queries.preview_repair(arms, since, until)
    except ArmscopeError as problem:  # compacted runs
        muted(wording.literal(str(problem)))
        return
    if not preview.n:
        st.markdown("No automatic observation in this span counts, so there is nothing to take back.")
        return
    small_table(_effects(preview), alt="Effect of the repair by arm, now and after")
    day = wording.since(at_ms, year_of_ms=reading().frame.last_at_ms)
    beliefs = "this belief" if len(arms) == 1 else "these beliefs"
    words = f"Start {beliefs} at {day}" if until else f"Take back {wording.things(preview.n, 'observation')}"
    st.button(
        words,
        icon=":material/healing:",
        type="secondary" if key != "do repair" else "primary",
        disabled=not reading().may("reset"),
        key=key,
        on_click=actions.send_repair,
        args=(arms, since, until),
    )
    st.markdown(small(sentences.repair_effect(preview, starts_then=until is not None)))


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
    n = wording.things(done.n_observations, "observation")
    at = wording.minute(done.at_ms, year_of_ms=reading().frame.last_at_ms)
    st.markdown(f"✓ **{n} taken back**  \n{small(f'{at} by {wording.literal(done.actor)}')}")
    if done.n_changed:
        again = wording.things(done.n_changed, "observation")
        st.markdown(small(f"{again} count again: the runs came with another outcome."))
    with st.container(horizontal=True, vertical_alignment="center"):
        if offered_undo(done) == "Undo":
            st.button("Undo", key="undo repair", on_click=actions.take_back, args=(done.id,))
        link(pages.OVERVIEW, "Back to the overview")
    st.markdown(small(sentences.after_repair(done, is_excluded=_n_excluded(arms) == len(arms))))
