"""Reading: what this rerun looks at, and how its answers are kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from threading import local
from typing import Final, cast

import streamlit as st

from core.flows import queries
from core.flows.context import Context, open_context
from core.permissions import Action
from core.records.view import View
from core.settings import Settings
from dashboard.cache import Answer, Cache
from dashboard.figures.theme import Tokens

_ANSWERS_BOUND: Final = 128
_DRAWINGS_BOUND: Final = 32
"""Fewer: a table of 10,000 arms weighs some megabytes, and each word searched for makes one."""
_PICTURES_BOUND: Final = 64
_CONTEXTS_BOUND: Final = 16
_SESSION: Final = "armscope reading"

# Ambient on purpose, though no signature says then what a page depends on: Streamlit starts pages, callbacks and
# fragments itself and gives them nothing of ours, and nearly every widget asks for some of it (context, view,
# colours, compact or not), so each function down to the last cell would have to hand it on. In return it is one
# frozen value, written in one place (`begin`), once in a rerun; and whatever is kept of its answers has its moment
# and its view in the key.
_rerun: Final = local()
_answers: Final = Cache(_ANSWERS_BOUND)
_drawings: Final = Cache(_DRAWINGS_BOUND)
_pictures: Final = Cache(_PICTURES_BOUND)
_contexts: Final = Cache(_CONTEXTS_BOUND)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the frame found out for the page it frames: whose data, which part of them, and how to draw."""

    context: Context
    frame: queries.Frame
    view: View
    tokens: Tokens
    compact: bool
    presenting: bool

    def may(self, action: Action) -> bool:
        """Whether the page should offer an action; the flow decides again when it is called."""
        return not self.presenting and self.context.may(action)


def context_of(learner: str | None = None) -> Context:
    """Where this session's person works at a learner (the environment's by default), over the one store that the
    process opened.
    """
    wanted = Settings.from_environment()
    opened = _contexts.kept((str(wanted.database), wanted.learner), lambda: open_context(wanted))
    mine = replace(opened, actor=wanted.actor)
    return mine if learner is None else mine.of(learner)


def begun_here() -> bool:
    """Whether the frame was read in this very rerun; not in a fragment that runs by itself."""
    return hasattr(_rerun, "reading")


def begin(reading: Reading) -> None:
    """Hand this rerun's reading to the page and to the fragments that outlive the rerun."""
    st.session_state[_SESSION] = _rerun.reading = reading


def reading() -> Reading:
    """The session's reading, as the frame left it.

    A rerun has a thread of its own and asks dozens of times; the session itself is asked by fragments alone.
    """
    known: Reading | None = getattr(_rerun, "reading", None)
    return cast("Reading", st.session_state[_SESSION]) if known is None else known


def belief_view(view: View) -> View:
    """Beliefs heed the end of the span and the types only; the rest would split the cache for nothing."""
    return View(until_ms=view.until_ms, types=view.types)


def drawn_once(question: Hashable, make: Callable[[], Answer]) -> Answer:
    """A table or figure made from this page's belief, kept like an answer: remaking it costs more than asking.

    ``question`` names everything else it depends on: places, order, method, theme.
    """
    here = reading()
    return _drawings.kept(_key((question, here.compact), belief_view(here.view)), make)


def pictured_once(question: Hashable, make: Callable[[], Answer]) -> Answer:
    """A figure of this page, made once for a revision, view, theme and width."""
    here = reading()
    return _pictures.kept(_key((question, here.tokens.name, here.compact), here.view), make)


def asked(question: Hashable, view: View | None, ask: Callable[[], Answer]) -> Answer:
    """An answer of the frame's moment; one that a write overtook meanwhile is shown, but not kept as if it were."""
    here = reading()
    return _answers.kept(
        _key(question, view), ask, still=lambda: queries.sight(here.context) == here.frame.sight
    )


def asked_anew(context: Context, question: Hashable, ask: Callable[[], Answer]) -> Answer:
    """An answer of a context's present moment, which is looked up each time: what the frame itself is made of."""
    return _answers.kept((str(context.store.path), context.learner, queries.sight(context), question), ask)


def _key(question: Hashable, view: View | None) -> Hashable:
    seen = reading().frame
    return (seen.database, seen.learner, seen.sight, question, view)
