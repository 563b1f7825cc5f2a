"""Reset page: scope, target and reason, the typed confirmation, the effect on each arm, and earlier resets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import streamlit as st

from core.columns import Floats
from core.explained import EXCLUDED, NOT_OFFERED, chance_words
from core.explained.arms import CHANCE
from core.explained.table import Field, Table, count, mean, text, time
from core.flows.queries import ResetPreview
from core.records.arm import BANDS, ArmType
from core.records.corrections import REASONS, Reset, Target
from core.records.learner import LearnerSettings
from core.records.observation import MAX_REASON_CHARS
from dashboard import actions, queries, wording
from dashboard.reading import cached_figure, reading
from dashboard.sentences import Sentence
from dashboard.sentences import acts as sentences
from dashboard.widgets.address import NAMED_ARMS, RESET_ARMS, RESET_SCOPE
from dashboard.widgets.fields import choice, several_arms
from dashboard.widgets.parts import sign, small
from dashboard.widgets.results import record_history, refusal
from dashboard.widgets.tables import ACT_PX, ALL_AT_ONCE, by_head, config_of, frame_of, shown_table
from dashboard.wording import Words

ScopeName = Literal["all", "type", "named"]

_SCOPE_WORDS: Final[dict[ScopeName, str]] = {"all": "All arms", "type": "A type", "named": NAMED_ARMS}
_TARGET_WORDS: Final[dict[Target, str]] = {"uniform": "Beta(1, 1)", "prior": "Each arm’s prior"}
RESET_TYPE: Final = "reset_type"
TARGET: Final = "target"
REASON: Final = "reset reason"
TYPED: Final = "reset typed"

ARM_PX: Final = 280
_PHONE: Final = {"type": 48, "arm": 152, "now": 88, "after": 68}

_TABLE: Final = "earlier resets"
_PHONE_PAST: Final = {"act": ACT_PX, "scope": 190, "at": 104}


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The chosen scope; ``chosen`` is False while named arms are required and none is named."""

    arms: tuple[str, ...]
    types: tuple[ArmType, ...]
    target: Target
    reason: str | None
    chosen: bool


def fields() -> Scope:
    """Return scope, type or arms, target, reason."""
    first, second, third, fourth = st.columns([24, 16, 22, 38], gap="small")
    with first:
        scope: ScopeName = choice("Scope", _SCOPE_WORDS, "type", key=RESET_SCOPE, labelled=True)
    with second:
        types = _types(scope)
    with third:
        target: Target = choice("Target", _TARGET_WORDS, "uniform", key=TARGET, labelled=True)
    with fourth:
        reason = st.selectbox(
            "Reason, required",
            REASONS,
            index=None,
            key=REASON,
            accept_new_options=True,
            placeholder="choose or write one",
        )
    arms: tuple[str, ...] = ()
    if scope == "named":  # in a row of their own, or of three ids one would show, cut
        arms = tuple(several_arms(queries.everything().columns, key=RESET_ARMS, at_most=None))
    return Scope(
        arms=arms,
        types=types,
        target=target,
        reason=(reason or "")[:MAX_REASON_CHARS] or None,
        chosen=scope != "named" or bool(arms),
    )


def _types(scope: ScopeName) -> tuple[ArmType, ...]:
    """Draw the field of the type and return its choice; for another scope it is disabled and shows the scope."""
    if scope == "type":
        present = reading().frame.types
        return (st.selectbox("Type", present, key=RESET_TYPE, bind="query-params", filter_mode=None),)
    words = "all types" if scope == "all" else "as named below"
    st.text_input("Type", value=words, disabled=True, key=words)
    return ()


def preview(scope: Scope) -> ResetPreview | None:
    """Show the effect of the reset; None while no arm is named."""
    if not scope.chosen:
        return None
    return queries.preview_reset(arms=scope.arms, types=scope.types, target=scope.target)


def title(scope: Scope, shown: ResetPreview | None) -> Sentence:
    """Return the effect of the reset, or what to do first."""
    if shown is None:
        return (Words("Choose the arms to start again; nothing is deleted."),)
    return sentences.reset(shown.columns, uniform=scope.target == "uniform")


def done() -> Words | None:
    """Return what the last act of this form did; None where it did nothing."""
    last = actions.result()
    if last is None or last.at != "reset" or last.flash.failed:
        return None
    if last.flash.act is None:
        return Words("The reset is undone: each arm has its belief from before.")
    return Words("The reset is done: earlier pulls stay readable, and you can undo it.")


def note(shown: ResetPreview) -> Words:
    """Return how many arms would begin a new epoch."""
    return f"{wording.things(len(shown.columns), 'arm')}, 1 new epoch"


def confirmation(scope: Scope, shown: ResetPreview) -> None:
    """Show the consequence, the phrase, and a button that is disabled until the phrase was typed."""
    n_arms = len(shown.columns)
    phrase: Words = f"reset {n_arms} {'arm' if n_arms == 1 else 'arms'}"
    with st.container(border=True):
        st.markdown(f"{sign('warning')} {sentences.consequence(shown.columns, reading().frame.settings)}")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            typed = st.text_input(
                f"Type “{phrase}” to confirm", key=TYPED, live=True, width=320, autocomplete="off"
            )
            ready = (typed or "").strip() == phrase and scope.reason is not None
            st.button(
                f"Reset {wording.things(n_arms, 'arm')}",
                icon=":material/restart_alt:",
                type="primary" if ready else "secondary",
                disabled=not ready or not reading().may("reset"),
                key="do reset",
                on_click=_confirmed,
                args=(scope, phrase),
            )
            st.button("Cancel", type="tertiary", key="cancel reset", on_click=_begin_again)
        refusal("reset")
        if scope.reason is None:
            st.markdown(small("Choose a reason above, or write one. Others read it beside the reset."))


def _confirmed(scope: Scope, phrase: str) -> None:
    """Send the reset if phrase and reason are still there: a second click finds both fields empty."""
    if str(st.session_state.get(TYPED, "")).strip() != phrase or scope.reason is None:
        return
    actions.send_reset(
        arms=scope.arms, types=scope.types, target=scope.target, reason=scope.reason, after=_begin_again
    )


def _begin_again() -> None:
    st.session_state[TYPED] = ""
    st.session_state[REASON] = None


def changes(shown: ResetPreview) -> None:
    """Draw every arm that a reset would touch, now and after."""
    settings = reading().frame.settings
    n_arms = len(shown.columns)
    table = _preview(shown, settings)
    frame = cached_figure(
        ("reset table", shown.target, shown.columns.keys), lambda: frame_of(table, range(n_arms))
    )
    shown_table(
        frame,
        config_of(table),
        by_head(table, _PHONE),
        key="reset preview",
        alt=f"What a reset would change for {wording.things(n_arms, 'arm')}",
        lazy=True if n_arms > ALL_AT_ONCE else None,
    )


def _preview(shown: ResetPreview, settings: LearnerSettings) -> Table[int]:
    """Return the table of arms by place; no belief is certain, so none is shown as 0.00 or 1.00."""
    columns, now = shown.columns, shown.summary
    return Table(
        arm=Field("arm", lambda at: columns.keys[at], "arm", width=ARM_PX),
        now=mean("mean now", lambda at: min(max(float(now.mean[at]), 0.01), 0.99), ".2f", width=80),
        interval=_limits("95% interval", now.lower, now.upper, 104),
        pulls=count("pulls → 0", lambda at: int(columns.pulls[at]), width=76),
        band=text("confidence now", lambda at: wording.band(BANDS[int(now.band[at])]), width=132),
        after=mean("after", lambda at: float(shown.mean[at]), ".2f", width=58),
        after_interval=_limits("interval after", shown.lower, shown.upper, 108),
        chance=text(
            "chance of inclusion", lambda at: _chance_words(shown, at, settings), width=190, explained=CHANCE
        ),
    )


def _limits(head: str, lower: Floats, upper: Floats, width: int) -> Field[int]:
    return Field(head, lambda at: wording.interval(float(lower[at]), float(upper[at])), "number", width=width)


def _chance_words(shown: ResetPreview, at: int, settings: LearnerSettings) -> str:
    if shown.columns.keys[at] in settings.left_out:
        return EXCLUDED
    if shown.columns.keys[at] in settings.always_in:
        return "always in (seed)"
    if np.isnan(shown.chance_now[at]):
        return NOT_OFFERED
    now, after = (
        chance_words(float(chance[at]), float(error[at]))
        for chance, error in ((shown.chance_now, shown.error_now), (shown.chance_after, shown.error_after))
    )
    return after if now == after else f"{now} → {after}"


def past() -> None:
    """Draw the resets, newest first."""
    done = queries.resets()
    if not done:
        st.markdown(":gray[None yet.]")
        return
    record_history(RESETS, done, done, key=_TABLE, alt="Earlier resets", phone=_PHONE_PAST)


def _scope(one: Reset) -> str:
    """Return the scope, with its number where the words lack it, and the target."""
    words = wording.plain(one.scope)
    number = "" if words[:1].isdigit() else f" ({wording.count(one.n_arms)})"
    return f"{words}{number} → {'Beta(1, 1)' if one.target == 'uniform' else 'own prior'}"


RESETS: Final[Table[Reset]] = Table(
    at=time("when", lambda one: one.at_ms, width=112),
    scope=text("scope", _scope, width=220),
    by=text("by", lambda one: one.actor, width=96),
    why=text("why", lambda one: one.reason, width=540),
    state=text("state", lambda one: "undone" if one.undone else "active", width=76),
)
