"""Reset form: scope, target and reason in one row, named arms below it, and the typed confirmation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import streamlit as st

from core.flows.queries import ResetPreview
from core.records.arm import ArmType
from core.records.observation import MAX_REASON_CHARS
from core.records.reset import REASONS, Target
from dashboard import actions, queries, sentences, wording
from dashboard.reading import reading
from dashboard.sentences import Sentence
from dashboard.widgets.address import NAMED_ARMS, RESET_ARMS, RESET_SCOPE
from dashboard.widgets.picker import several_arms
from dashboard.widgets.results import refusal
from dashboard.widgets.words import small
from dashboard.wording import Words

ScopeName = Literal["all", "type", "named"]

_SCOPES: Final[tuple[ScopeName, ...]] = ("all", "type", "named")
_SCOPE_WORDS: Final[dict[ScopeName, str]] = {"all": "All arms", "type": "A type", "named": NAMED_ARMS}
_TARGETS: Final[tuple[Target, ...]] = ("uniform", "prior")
_TARGET_WORDS: Final[dict[Target, str]] = {"uniform": "Beta(1, 1)", "prior": "Each arm’s prior"}
RESET_TYPE: Final = "reset_type"
TARGET: Final = "target"
REASON: Final = "reset reason"
TYPED: Final = "reset typed"


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
        scope = st.segmented_control(
            "Scope",
            _SCOPES,
            default="type",
            required=True,
            format_func=lambda name: _SCOPE_WORDS[name],
            key=RESET_SCOPE,
            bind="query-params",
        )
    with second:
        types = _types(scope)
    with third:
        target = st.segmented_control(
            "Target",
            _TARGETS,
            default="uniform",
            required=True,
            format_func=lambda name: _TARGET_WORDS[name],
            key=TARGET,
            bind="query-params",
        )
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


def phrase_for(n_arms: int) -> Words:
    """Return the phrase to type."""
    return f"reset {n_arms} {'arm' if n_arms == 1 else 'arms'}"


def confirmation(scope: Scope, shown: ResetPreview) -> None:
    """Show the consequence, the phrase, and a button that is disabled until the phrase was typed."""
    n_arms = len(shown.columns)
    phrase = phrase_for(n_arms)
    warning = reading().tokens.severities["warning"]
    with st.container(border=True):
        icon = f':color[:material/warning:]{{foreground="{warning}"}}'
        st.markdown(f"{icon} {sentences.consequence(shown.columns, reading().frame.settings)}")
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
