"""Reward form: arm, outcome, run, kind and reason, and the effect of the reward. It is sent once per form.

It is no `st.form`, so that its effect follows every change. The idempotency key belongs to the form on the page; a
new key begins when the reward is recorded. The button's identity holds the key, so a second click finds no button.
The next button stays disabled until the form changes. So a slow double click sends one reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st

from core import explained
from core.errors import ArmscopeError, Conflict, InvalidReward, NotApplicable, UnknownArm, UnknownRun
from core.flows.queries import RewardPreview, RunArm, RunStory
from core.records.observation import MAX_REASON_CHARS, OUTCOME_REWARDS
from dashboard import actions, pages, queries, wording
from dashboard.actions import RewardForm
from dashboard.figures.densities import before_after
from dashboard.reading import reading
from dashboard.sentences import acts as sentences
from dashboard.widgets.charts import chart
from dashboard.widgets.fields import options_of
from dashboard.widgets.keys import SEND, SEND_HERE
from dashboard.widgets.parts import both_ends, gray, muted, paragraphs, section, small, small_table
from dashboard.widgets.results import offered_undo, result, way_back
from dashboard.widgets.rewards import filled
from dashboard.widgets.rewards.filled import Fields
from dashboard.wording import Markdown, Words

Field = Literal["arm", "outcome", "run", "kind"]

REWARD_HERE: Final = "reward here"
"""Key of the form's container; the browser sends its content while the person types."""
_KEEPS: Final = (
    "What is begun is a draft, which this server keeps for this browser until it is sent or discarded."
)
"""Always there, so that nothing moves when a form becomes a draft."""
_SUBMITTED: Final = "reward form sent"
_REFUSED: Final = "reward form refused"
NEXT_STEP: Final = (pages.POSTERIORS, Words("See all beliefs"))
"""Next step after a reward, beside its result."""


@dataclass(frozen=True, kw_only=True)
class Filled:
    """The form's state: ``form`` is None while a field is missing, ``problems`` has the errors by field."""

    fields: Fields
    story: RunStory | None
    form: RewardForm | None
    preview: RewardPreview | None
    problems: Mapping[Field, str]

    @property
    def arm_in_run(self) -> RunArm | None:
        """The run's record of the arm."""
        arms = () if self.story is None else self.story.arms
        return next((arm for arm in arms if arm.arm == self.fields.arm and arm.in_prompt), None)


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A reward that was sent, with the effect it was shown to have, and the form as it left it."""

    act: str
    preview: RewardPreview | None
    left: Fields


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """The reason of a refused submission, with the form's content; "" = incomplete."""

    why: str
    fields: Fields


def fields() -> Filled:
    """Draw the form and its button."""
    filled.arrive()
    form = _filled()
    section("Give a reward", "a draft, not sent yet" if filled.is_draft() else "")
    with st.container(border=True, key=REWARD_HERE):
        _arm_field(form)
        _value_field(form)
        _run_fields(form)
        st.text_area(
            "Why",
            key=filled.WHY,
            height=80,
            max_chars=MAX_REASON_CHARS,
            placeholder="optional",
            on_change=filled.keep,  # at once, also where the user leaves with it
        )
        _send(form)
    filled.keep()
    return form


def submitted() -> Submitted | None:
    """Return the last submission while the form is unchanged since."""
    done: Submitted | None = st.session_state.get(_SUBMITTED)
    return done if done is not None and done.left == filled.now() else None


def _filled() -> Filled:
    """Return the form from its fields' own state.

    The button's callback asks again: a key may send the form in the moment in which it commits a field.
    """
    run = _run_of(filled.now().run)
    story, problem = _story(run)
    arm = filled.now().arm
    judged = story is not None and any(one.arm == arm and one.reward is not None for one in story.arms)
    filled.offer("Correction" if judged else "Feedback")
    fields = filled.now()
    form, preview = _form_of(fields, run, story), None
    problems: dict[Field, str] = {} if problem is None else {"run": str(problem)}
    if form is not None and problem is None:
        try:
            preview = queries.preview_reward(form.arm, form.value, run=form.run, correct=form.correct)
        except ArmscopeError as refusal:
            problems[_field_of(refusal, correct=form.correct)] = str(refusal)
    return Filled(fields=fields, story=story, form=form, preview=preview, problems=problems)


def _run_of(typed: str) -> str | None:
    """Return a run's number or id as typed; numbers may carry their thousands commas.

    >>> _run_of(" 2,871 "), _run_of("a,b"), _run_of("")
    ('2871', 'a,b', None)
    """
    text = typed.strip()
    bare = text.replace(",", "")
    return (bare if bare.isdecimal() else text) or None


def _story(run: str | None) -> tuple[RunStory | None, ArmscopeError | None]:
    if run is None:
        return None, None
    try:
        return queries.run(run), None
    except UnknownRun as problem:
        return None, problem


def _value(fields: Fields) -> float | None:
    """Return the reward of the chosen outcome; None while none is chosen, or its number is missing."""
    if fields.outcome is None:
        return None
    return fields.number if fields.outcome == "number" else OUTCOME_REWARDS[fields.outcome]


def _form_of(fields: Fields, run: str | None, story: RunStory | None) -> RewardForm | None:
    value = _value(fields)
    if fields.arm is None or value is None:
        return None
    newest = None if story is None else queries.newest_reward(story, fields.arm)
    return RewardForm(
        arm=fields.arm,
        value=value,
        reason=fields.why.strip() or None,
        run=run,
        correct=run is not None and fields.kind == "Correction",
        seen=filled.known_newest("" if newest is None else newest.id),
        key=filled.form_key(),
    )


def _field_of(problem: ArmscopeError, *, correct: bool) -> Field:
    """Return the field of an error: the run, the arm in it, or the kind."""
    match problem:
        case UnknownRun():
            return "run"
        case InvalidReward():
            return "outcome"
        case NotApplicable() if correct and "correct" in problem.problem:
            return "kind"
        case UnknownArm() | _:
            return "arm"


# The fields


def _arm_field(form: Filled) -> None:
    """Draw any arm; where a run is named the arms of its prompt, each with what is recorded of it there."""
    hint, records = "Choose an arm", dict[str, str]()
    if form.story is not None:
        records = {one.arm: explained.recorded(one, form.story) for one in form.story.arms if one.in_prompt}
        options = list(records)
        hint = f"Choose one of {wording.things(len(options), 'arm')} of the run"
    else:
        options, hint = options_of(queries.everything().columns.keys, filled.ARM)
    if form.fields.arm is not None and form.fields.arm not in options:
        options = [form.fields.arm, *options]
    # The browser knows the choice by its words alone, which change with what is recorded: so it is sent again.
    st.session_state[filled.ARM] = form.fields.arm
    st.selectbox(
        "Arm",
        options,
        index=None,
        key=filled.ARM,
        placeholder=hint or "Choose an arm",
        filter_mode="contains",
        format_func=lambda arm: f"{arm} · {records[arm]}" if arm in records else str(arm),
    )
    _problem(form, "arm")
    if form.arm_in_run is not None and form.story is not None:
        st.markdown(small(_recorded(form.arm_in_run, form.story)))


def _recorded(arm: RunArm, story: RunStory) -> Markdown:
    now_ms = reading().context.clock()
    counted = [row for row in reversed(arm.by_hand) if row.counts]
    parts = [wording.literal(explained.recorded(arm, story).partition(";")[0])]
    parts += [sentences.rewarded_by_hand(row, now_ms) for row in counted]
    return f"In run {wording.count(story.facts.run_no)}: {'. '.join(parts)}."


def _value_field(form: Filled) -> None:
    st.segmented_control(
        "Outcome" if reading().compact else "Outcome, keys 1 to 4",
        filled.OUTCOMES,
        required=True,
        format_func=lambda name: filled.OUTCOME_WORDS[name],
        key=filled.OUTCOME,
    )
    if form.fields.outcome == "number":
        st.number_input("Reward, 0 to 1", 0.0, 1.0, step=0.05, format="%.2f", key=filled.NUMBER)
    _problem(form, "outcome")


def _run_fields(form: Filled) -> None:
    left, right = st.columns(2)
    left.text_input("Run, optional", key=filled.RUN, placeholder="number or id")
    right.segmented_control(
        "This is",
        filled.KINDS,
        required=True,
        key=filled.KIND,
        disabled=not form.fields.run.strip(),
        help="Feedback adds an observation; a correction replaces the automatic one of that run.",
    )
    _problem(form, "run")
    _problem(form, "kind")


def _problem(filled: Filled, field: Field) -> None:
    """Show a field's error under it; a missing field only after a submission."""
    problem = filled.problems.get(field)
    if problem is None and _refused() is not None and filled.form is None:
        if field == "arm" and filled.fields.arm is None:
            problem = "Choose an arm."
        elif field == "outcome" and filled.fields.outcome is None:
            problem = "Choose an outcome."
        elif field == "outcome" and filled.fields.number is None:
            problem = "A reward must be a number from 0 to 1, got nothing."
    if problem is not None:
        st.markdown(f":red[:material/error: {wording.literal(problem)}]")


def _refused() -> _Refused | None:
    refused: _Refused | None = st.session_state.get(_REFUSED)
    return refused if refused is not None and refused.fields == filled.now() else None


# Sending


def _send(form: Filled) -> None:
    done = submitted() is not None
    with st.container(horizontal=True, vertical_alignment="center", key=SEND_HERE):
        st.button(
            "Send reward",
            type="primary",
            shortcut=SEND,
            key=f"send {filled.form_key()}",
            disabled=done or not reading().may("reward"),
            on_click=_tried,
            args=(filled.form_key(),),
        )
        st.button(
            "Discard",
            type="tertiary",
            key="discard reward",
            disabled=not filled.is_draft(),
            on_click=filled.discard,
        )
    result(actions.REWARD, onward=NEXT_STEP)
    words = "Sent; change anything to send another" if done else _beside(form)
    keys = "" if reading().compact else "Ctrl + Enter sends, from any field. "
    paragraphs(gray(f"{words}."), small(f"{keys}{_KEEPS}"))


def _tried(key: str) -> None:
    """Send the form, unless its key was used up: then this is a second click on a form that is gone."""
    if key != filled.form_key():
        return
    now = _filled()
    if now.form is None or now.problems:
        st.session_state[_REFUSED] = _Refused(why="", fields=now.fields)
        return

    def after(act: str) -> None:
        filled.begin_again()
        st.session_state[_SUBMITTED] = Submitted(act=act, preview=now.preview, left=filled.now())

    def is_at_field(problem: ArmscopeError) -> bool:
        if isinstance(problem, Conflict):
            filled.forget_known()
            st.session_state[_REFUSED] = _Refused(why=str(problem), fields=now.fields)
        return isinstance(problem, Conflict)

    actions.send_reward(now.form, after, reported_elsewhere=is_at_field)


def _beside(filled: Filled) -> Markdown:
    """Return the effect of sending, or why it would fail; without the run there is no promise."""
    refused = _refused()
    if filled.form is None:
        if filled.fields.arm is None:
            return Words("Choose an arm first")
        return Words("Choose an outcome first" if filled.fields.outcome is None else "Give a number first")
    if filled.problems:
        return Words("It can’t be sent: see above")
    if refused is not None:
        return _meanwhile(filled, refused)
    if filled.story is None:
        return Words("It counts in the arm’s present epoch")
    return f"It counts in the epoch of run {wording.count(filled.story.facts.run_no)}"


def _meanwhile(filled: Filled, refused: _Refused) -> Markdown:
    """Return who was quicker, and that another click is needed."""
    newest = None if filled.story is None else queries.newest_reward(filled.story, filled.fields.arm)
    if newest is None:
        return wording.literal(refused.why)
    words = sentences.rewarded_by_hand(newest, reading().context.clock())
    replaces = newest.kind == "correction" and filled.fields.kind == "Correction"
    return f"Not sent: **{words}**. Send again to {'replace it' if replaces else 'add yours'}"


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
    reward = next((one for one in queries.rewards(everyone=False) if one.id == done.act), None)
    state = "" if reward is None else "undone: its effect is gone" if reward.undone else "sent"
    about = "" if reward is None or reward.run_no is None else f", run {wording.count(reward.run_no)}"
    with both_ends():
        st.header(f"What it changed {small(f'{state}{about}')}", anchor=False, width="content")
        back = None if reward is None else offered_undo(reward)
        if reward is not None:
            way_back(back, reward.id, again=reward.undone, beside_result=True)
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
