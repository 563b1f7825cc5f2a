"""Judging: arms of a run accepted, partial or rejected next to their records; several at once, as one act.

Marks: a draft of rewards for arms of a run.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import msgspec
import streamlit as st

from core import explained
from core.errors import ArmscopeError, Conflict, InvalidBatch
from core.flows.queries import BatchPreview, RunArm, RunStory
from core.records.batch import MAX_BATCH, BatchLine
from core.records.observation import MAX_REASON_CHARS, OUTCOME_REWARDS, RewardOutcome
from dashboard import actions, queries, wording
from dashboard.reading import reading
from dashboard.sentences import acts as sentences
from dashboard.widgets import address
from dashboard.widgets.drafts import Draft, Drafts, here
from dashboard.widgets.keys import NEXT, SEND, SEND_HERE
from dashboard.widgets.parts import both_ends, chipped, coloured, gray, muted, small, small_table
from dashboard.widgets.results import offered_undo, result, way_back
from dashboard.wording import Markdown, Words

_WORDS: Final[Mapping[RewardOutcome, str]] = {one: one.capitalize() for one in OUTCOME_REWARDS}
_AT_ONCE: Final = 6
"""Rows that are drawn at first, more than can be seen without scrolling: each costs every rerun."""
_MORE: Final = 50
_SCROLLED_FROM: Final = 60
_LIST_PX: Final = 440
_EFFECTS: Final = 12
_FIND: Final = "find an arm of the run"
_SUBMITTED: Final = "judgements sent"
_REFUSED: Final = "judgements refused"
_JUDGED: Final = "run judgements"


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Draft of rewards for arms of one run: their outcomes by arm, with one reason.

    ``known_newest`` has the newest manual reward of each arm that the person has seen ("" = none).
    """

    run: str
    outcomes: Mapping[str, RewardOutcome] = field(default_factory=dict)
    known_newest: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


_DRAFTS: Final = Drafts[Marks](bound=500)


def marks_of(story: RunStory) -> Draft[Marks]:
    """Return the marks of a run's included arms; an empty draft has no key."""
    uid = story.facts.uid
    draft = _DRAFTS.newest(here(), lambda marks: marks.run == uid)
    if draft is None:
        return Draft(key="", fields=Marks(run=uid))
    known = {arm.arm for arm in judged(story)}
    outcomes = {arm: outcome for arm, outcome in draft.fields.outcomes.items() if arm in known}
    return replace(draft, fields=replace(draft.fields, outcomes=outcomes))


def mark(story: RunStory, outcomes: Mapping[str, RewardOutcome | None]) -> None:
    """Mark some arms, or (None) take their marks back; what was sent before is history."""
    st.session_state.pop(_SUBMITTED, None)
    draft = marks_of(story)
    known = draft.fields
    marks = {**known.outcomes, **outcomes}
    newest = {**{arm: newest_id(story, arm) for arm in outcomes}, **known.known_newest}
    _keep(
        draft,
        replace(
            known,
            outcomes={arm: outcome for arm, outcome in marks.items() if outcome is not None},
            known_newest={arm: newest[arm] for arm, outcome in marks.items() if outcome is not None},
        ),
    )


def see(story: RunStory, arms: Iterable[str]) -> None:
    """Record that the newest rewards of some arms were shown to the person."""
    draft = marks_of(story)
    newest = {arm: newest_id(story, arm) for arm in arms}
    _keep(draft, replace(draft.fields, known_newest={**draft.fields.known_newest, **newest}))


def drop(key: str) -> None:
    """Forget a draft, if it is there."""
    _DRAFTS.drop(here(), key)


def lines_of(story: RunStory, marks: Marks, *, checked: bool) -> tuple[BatchLine, ...]:
    """Return marks as lines of a batch, in the order of the run's arms; ``checked`` adds the newest known reward."""
    lines = [
        BatchLine(
            arm=arm.arm,
            outcome=marks.outcomes[arm.arm],
            run=story.facts.uid,
            reason=marks.why.strip() or None,
            kind="feedback" if arm.reward is None else "correction",
        )
        for arm in judged(story)
        if arm.arm in marks.outcomes
    ]
    if not checked:
        return tuple(lines)
    return tuple(msgspec.structs.replace(line, seen=marks.known_newest.get(line.arm, "")) for line in lines)


def judged(story: RunStory) -> list[RunArm]:
    """Return the arms that can be judged, those that were referenced first."""
    arms = [arm for arm in story.arms if arm.in_prompt]
    return [arm for arm in arms if arm.referenced] + [arm for arm in arms if not arm.referenced]


def newest_id(story: RunStory, arm: str) -> str:
    """Return the id of the latest active manual reward of an arm; "" without one."""
    row = queries.newest_reward(story, arm)
    return "" if row is None else row.id


def _keep(draft: Draft[Marks], marks: Marks) -> None:
    if marks.outcomes or marks.why:
        _DRAFTS.keep(here(), Draft(key=draft.key or uuid.uuid4().hex, fields=marks))
    else:
        drop(draft.key)


@dataclass(frozen=True, kw_only=True)
class _Submitted:
    """The latest submission about a run, with its previewed effect and the earlier rewards."""

    run: str
    act: str
    last: str
    preview: BatchPreview
    stood: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """Other people's rewards meanwhile, by arm, for the refused draft."""

    key: str
    arms: frozenset[str]


def may_judge(story: RunStory) -> bool:
    """Return whether this person may judge the run, and whether it has anything to judge."""
    return reading().may("reward") and story.facts.standing and 0 < story.n_in <= MAX_BATCH


def panel_of(story: RunStory) -> None:
    """Draw every arm of the prompt with its outcomes at the left, what it comes to at the right."""
    draft = marks_of(story)
    left, right = st.columns([7, 5], gap="large")
    with left:
        _arms(story, draft.fields)
    with right:
        _outcome(story, draft)


# The arms


def _arms(story: RunStory, marks: Marks) -> None:
    arms = judged(story)
    _for_all(story, arms, marks)
    matching = _matching(arms)
    shown = matching[: st.session_state.get(_rows_key(story), _AT_ONCE)]
    is_long = len(shown) >= _SCROLLED_FROM
    gap: Literal["medium", "xsmall"] = "medium" if reading().compact else "xsmall"
    with st.container(border=True, height=_LIST_PX if is_long else "content", gap=gap):
        for arm in shown:
            _row(story, arm, marks)
        if not shown:
            muted("No arm of this run has this name.")
    if len(matching) > len(shown):
        _more(story, len(shown), len(matching))


def _matching(arms: Sequence[RunArm]) -> Sequence[RunArm]:
    if len(arms) <= _AT_ONCE:
        return arms
    needle = st.text_input("Find an arm", key=_FIND, placeholder="Find an arm", label_visibility="collapsed")
    words = needle.casefold().split()
    return [arm for arm in arms if all(word in arm.arm.casefold() for word in words)] if words else arms


def _more(story: RunStory, n_shown: int, n_matching: int) -> None:
    n_next = min(n_matching - n_shown, _MORE)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            f"Show {wording.count(n_next)} more",
            key="judge more",
            type="tertiary",
            icon=":material/expand_more:",
            on_click=lambda: st.session_state.update({_rows_key(story): n_shown + n_next}),
        )
        if n_matching - n_shown > n_next:
            muted(f"of {wording.count(n_matching - n_shown)} not shown")


def _rows_key(story: RunStory) -> str:
    return f"judge rows {story.facts.run_no}"


def _for_all(story: RunStory, arms: Sequence[RunArm], marks: Marks) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(gray(f"Judge all {wording.things(len(arms), 'arm')}:"), width="content")
        for outcome, word in _WORDS.items():
            st.button(
                word,
                key=f"judge all {outcome}",
                type="tertiary",
                on_click=mark,
                args=(story, dict.fromkeys((arm.arm for arm in arms), outcome)),
            )
        st.button(
            "Clear",
            key="judge none",
            type="tertiary",
            disabled=not marks.outcomes,
            on_click=mark,
            args=(story, dict.fromkeys(marks.outcomes)),
        )


def _row(story: RunStory, arm: RunArm, marks: Marks) -> None:
    """Draw an arm with its record, and its outcomes; a mark is taken back by choosing it again."""
    key = f"judge {story.facts.run_no} {arm.arm}"
    if st.session_state.get(key) != marks.outcomes.get(arm.arm):
        st.session_state[key] = marks.outcomes.get(arm.arm)
    with st.container(horizontal=not reading().compact, vertical_alignment="center", gap="small"):
        st.markdown(f"{chipped(arm.arm)}  \n{_record(story, arm, marks)}", width="stretch")
        st.segmented_control(
            f"Judge {wording.spoken(arm.arm)}",
            list(_WORDS),
            key=key,
            format_func=_WORDS.__getitem__,
            label_visibility="collapsed",
            width="content",
            on_change=lambda: mark(story, {arm.arm: st.session_state[key]}),
        )


def _record(story: RunStory, arm: RunArm, marks: Marks) -> Markdown:
    """Return the record and the latest manual reward; marked if the person may not know it."""
    why = "" if arm.reason is None else f"in: {explained.why(arm)}; "
    words = wording.literal(why + explained.recorded(arm, story).partition(";")[0])
    row = queries.newest_reward(story, arm.arm)
    if row is None:
        return small(words)
    by_hand = sentences.rewarded_by_hand(row, reading().context.clock())
    if arm.arm in marks.outcomes and marks.known_newest.get(arm.arm) != row.id:
        return f"{small(words)}  \n:small[:yellow[:material/warning: {by_hand}]]"
    return small(f"{words}; {by_hand}")


# What it comes to


def _outcome(story: RunStory, draft: Draft[Marks]) -> None:
    marks = draft.fields
    preview = queries.preview_batch(lines_of(story, marks, checked=False)) if marks.outcomes else None
    done = _submitted(story)
    if preview is not None:
        st.markdown(f"{sentences.batch(preview)} {gray('Nothing is sent yet.')}")
        _effects(preview, _previous_rewards(story))
        for bad in list(preview.bad.values())[:_EFFECTS]:
            st.markdown(f":red[:material/error: {wording.literal(bad.problem)}]")
    elif done is not None:
        _what_it_changed(story, done)
    else:
        muted("Nothing is chosen yet.")
    _why(story, draft)
    _send(story, draft, preview)


def _effects(preview: BatchPreview, previous: Mapping[str, float | None]) -> None:
    lines = preview.lines[:_EFFECTS]
    means = [wording.means(*preview.arms[line.arm].mean) for line in lines]
    small_table(
        {
            "arm": [chipped(line.arm) for line in lines],
            "reward": [
                sentences.replaced_reward(
                    previous[line.arm] if line.kind == "correction" else None, line.reward
                )
                for line in lines
            ],
            "mean": [
                f"{before} → {after}" if line.in_present_epoch else "stays: a reset came after this run"
                for line, (before, after) in zip(lines, means, strict=True)
            ],
        },
        alt="Effect on each arm, and its mean before and after",
    )
    if len(preview.lines) > len(lines):
        muted(f"And {wording.things(len(preview.lines) - len(lines), 'more arm', 'more arms')}.")


def _previous_rewards(story: RunStory) -> dict[str, float | None]:
    """Return the reward that counts for each arm in the run, without feedback: automatic, or corrected."""
    corrected = {
        arm: row.reward for arm, row in reversed(story.by_hand) if row.kind == "correction" and row.counts
    }
    return {arm.arm: corrected.get(arm.arm, arm.reward) for arm in story.arms}


def _what_it_changed(story: RunStory, done: _Submitted) -> None:
    reward = next((row for _, row in story.by_hand if row.id == done.last), None)
    is_undone = reward is not None and reward.undone
    with both_ends():
        state = "Undone: the record stays, its effect is gone." if is_undone else "Sent."
        st.markdown(f"{sentences.batch(done.preview)} {gray(state)}", width="content")
        back = None if reward is None else offered_undo(reward)
        way_back(back, done.act, again=is_undone, beside_result=True)
    _effects(done.preview, done.stood)


def _submitted(story: RunStory) -> _Submitted | None:
    done: _Submitted | None = st.session_state.get(_SUBMITTED)
    return done if done is not None and done.run == story.facts.uid else None


# Sending


def _why(story: RunStory, draft: Draft[Marks]) -> None:
    key = _why_key(story)

    def changed() -> None:
        now = marks_of(story)
        _keep(now, replace(now.fields, why=st.session_state[key] or ""))

    if key not in st.session_state:  # never while the person types
        st.session_state[key] = draft.fields.why
    st.text_area(
        "Why",
        key=key,
        height=68,
        max_chars=MAX_REASON_CHARS,
        placeholder="optional, holds for all of them",
        on_change=changed,
    )


def _why_key(story: RunStory) -> str:
    return f"judge why {story.facts.run_no}"


def _send(story: RunStory, draft: Draft[Marks], preview: BatchPreview | None) -> None:
    n_marked = len(draft.fields.outcomes)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=SEND_HERE):
        st.button(
            f"Send {wording.things(n_marked, 'judgement')}" if n_marked else "Send",
            type="primary",
            shortcut=SEND,
            key=f"send judgements {draft.key}",
            disabled=preview is None or bool(preview.bad),
            on_click=_send_marks,
            args=(story, draft.key),
        )
        st.button(
            "Next run",
            icon=":material/chevron_right:",
            shortcut=NEXT,
            key="judge the next run",
            disabled=story.newer is None,
            on_click=st.query_params.update,
            args=({address.RUN: story.newer or ""},),
        )
    result(_JUDGED)
    words = _meanwhile(story, draft)
    keys = "" if reading().compact else "Ctrl + Enter sends, N goes on. "
    st.markdown(words or small(f"{keys}Marks are a draft."))


def _send_marks(story: RunStory, key: str) -> None:
    """Send what is marked, unless it was sent: then this is a second click on a draft that is gone."""
    draft = marks_of(story)
    if not key or draft.key != key or not draft.fields.outcomes:
        return
    lines = lines_of(story, draft.fields, checked=True)
    preview = queries.preview_batch(lines_of(story, draft.fields, checked=False))
    stood = _previous_rewards(story)

    def after(act: str, last: str) -> None:
        drop(key)
        st.session_state[_why_key(story)] = ""
        st.session_state[_SUBMITTED] = _Submitted(
            run=story.facts.uid, act=act, last=last, preview=preview, stood=stood
        )

    def note_conflicts(problem: ArmscopeError) -> bool:
        if not isinstance(problem, InvalidBatch):
            return False
        others = {line.arm for at, line in enumerate(lines, 1) if type(problem.lines.get(at)) is Conflict}
        if others:
            st.session_state[_REFUSED] = _Refused(key=key, arms=frozenset(others))
        return len(others) == len(problem.lines)

    actions.send_batch(lines, key, after, at=_JUDGED, reported_elsewhere=note_conflicts)


def _meanwhile(story: RunStory, draft: Draft[Marks]) -> Markdown:
    """Return who was quicker, and that another click is needed; from then on the person knows."""
    refused: _Refused | None = st.session_state.get(_REFUSED)
    if refused is None or refused.key != draft.key:
        return Words("")
    see(story, refused.arms)
    arms = [arm for arm in refused.arms if arm in draft.fields.outcomes]
    if not arms:
        return Words("")
    rows = [queries.newest_reward(story, arm) for arm in sorted(arms)]
    now_ms = reading().context.clock()
    lines = [
        f"{chipped(row.arm)}: {sentences.rewarded_by_hand(row, now_ms)}" for row in rows if row is not None
    ]
    more = f" and {wording.count(len(lines) - 3)} more" if len(lines) > 3 else ""
    words = coloured("Not sent", reading().tokens)
    return f"**{words}**: {'; '.join(lines[:3])}{more}. Send again if yours is still to count."
