"""The reading of this rerun: its learner, view and cache."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Lock, local
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

import msgspec
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.doors import logs
from core.errors import Denied, StoreError
from core.flows import queries
from core.flows.context import Context, default_learner, learner_names, open_context
from core.flows.queues import actor_of_browser
from core.records.actor import Action, Actor
from core.records.member import Session
from core.records.run_query import View
from core.settings import Settings
from dashboard import who
from dashboard.figures.theme import Tokens

Answer = TypeVar("Answer")
Parameters = ParamSpec("Parameters")

_ANSWERS_BOUND: Final = 128
_DRAWINGS_BOUND: Final = 32
"""Fewer: a table of 10,000 arms weighs some megabytes, and each word searched for makes one."""
_PICTURES_BOUND: Final = 64
_CONTEXTS_BOUND: Final = 16
_SESSION: Final = "armscope reading"
_LOGGED: Final = logs.acting("page")
_SURE_S: Final = 1.0
"""A rerun caches the actor for this long; each act checks again."""

# Ambient on purpose, though no signature says then what a page depends on: Streamlit starts pages, callbacks and
# fragments itself and gives them nothing of ours, and nearly every widget asks for some of it (context, view,
# colours, compact or not), so each function down to the last cell would have to hand it on. In return it is one
# frozen value, written in one place (`begin`), once in a rerun; and each cached answer has its revision
# and its view in the key.
_rerun: Final = local()


class Cache:
    """Answers by key, the least recently used dropped beyond the bound; safe for several sessions at once.

    >>> cache = Cache(bound=1)
    >>> cache.get("a", lambda: 1), cache.get("a", lambda: 2), cache.get("b", lambda: 3), len(cache)
    (1, 1, 3, 1)
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._answers: OrderedDict[Hashable, object] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def get(
        self, key: Hashable, ask: Callable[[], Answer], still: Callable[[], bool] = lambda: True
    ) -> Answer:
        """Return the answer under this key; it is computed outside the lock, so a slow query blocks no other.

        A new answer is stored only if ``still`` confirms the key afterwards.
        """
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return cast("Answer", self._answers[key])
        answer = ask()
        if not still():
            return answer
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            while len(self._answers) > self._bound:
                self._answers.popitem(last=False)
        return answer


_answers: Final = Cache(_ANSWERS_BOUND)
_drawings: Final = Cache(_DRAWINGS_BOUND)
_pictures: Final = Cache(_PICTURES_BOUND)
_contexts: Final = Cache(_CONTEXTS_BOUND)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The frame's results for its page: learner, view and theme.

    ``session`` belongs to the signed-in person; None = the user of this machine.
    """

    context: Context
    session: Session | None = None
    frame: queries.Frame
    view: View
    tokens: Tokens
    compact: bool

    @cached_property
    def pages(self) -> Context:
        """The context for reads, which may be slightly stale; acts use ``context``."""
        return self.context.for_pages()

    def may(self, action: Action) -> bool:
        """Return whether the page should offer an action; the flow decides again on the call."""
        return self.context.may(action)


def opened() -> Context:
    """Return the context of the process's store, at the learner of the environment.

    Its actor is the user of this machine, or no one where people sign in.
    """
    settings = Settings.from_environment()
    context, _ = _cached_context(settings)
    return replace(
        context, actor=who.NO_USER if who.people_sign_in() else _of_browser(settings.actor), on_act=_LOGGED
    )


def _of_browser(actor: Actor) -> Actor:
    """Return the user of this machine in this browser; each browser holds its own items of review."""
    if get_script_run_ctx(suppress_warning=True) is None:
        return actor
    return msgspec.structs.replace(actor, browser=who.label())


def _cached_context(settings: Settings) -> tuple[Context, bool]:
    places = (str(settings.database), str(settings.read_database), settings.learner)
    return _contexts.get(places, lambda: _opened(settings))


def _opened(settings: Settings) -> tuple[Context, bool]:
    """Return the context, and whether its learner is only the first of several, because none was named."""
    context = open_context(settings, whole=True)
    is_any = settings.learner is None and default_learner(context.store) is None
    return context.of(learner_names(context)[0]) if is_any else context, is_any


def unspoken(context: Context) -> str:
    """Return the learner that an address need not name; none (an empty name) where it could be any of several."""
    _, is_any = _cached_context(Settings.from_environment())
    return "" if is_any else context.learner


def meant_learner() -> str | None:
    """Return the learner that the server was started for; None: it is found for each request."""
    return Settings.from_environment().learner


def context_of(learner: str | None = None) -> Context:
    """Return the context of this session's person at a learner; by default the environment's, or one of their own.

    Where people sign in, raises `Unidentified` for an unknown person and `Denied` for one without a role.
    """
    mine = opened()
    if who.people_sign_in():
        mine = who.acting(mine, who.session_here())
        if learner is None and not mine.may("read"):
            mine = mine.of(_own_learner(mine))
    return mine if learner is None else mine.of(learner)


def under_own_name(context: Context) -> Context:
    """Return the context under the name of this browser, if an operator confirmed it in this learner."""
    return replace(context, actor=actor_of_browser(context, context.actor))


def _own_learner(context: Context) -> str:
    for name in learner_names(context):
        return name
    raise Denied(
        f"{context.actor.name} has no role in any learner that is here.", next_step="Ask an operator for one."
    )


def begun_here() -> bool:
    """Return whether this rerun read the frame; a fragment that runs by itself does not."""
    return hasattr(_rerun, "reading")


def begin(reading: Reading) -> None:
    """Hand this rerun's reading to the page and to the fragments that outlive the rerun."""
    st.session_state[_SESSION] = _rerun.reading = _rerun.sure = reading
    _rerun.checked_s = time.monotonic()


def reading() -> Reading:
    """Return the session's reading, as the frame left it; of who signed in, with what they may do now.

    A rerun has a thread of its own and asks dozens of times; the session itself is asked by fragments alone.
    """
    known: Reading | None = getattr(_rerun, "reading", None)
    current = cast("Reading", st.session_state[_SESSION]) if known is None else known
    return current if current.session is None else _surely(current)


def ask_again() -> None:
    """Forget the cached actor, so that the next act checks who acts."""
    _rerun.checked_s = -_SURE_S


def acting() -> Context:
    """Return the context for an act, with the actor as of now."""
    ask_again()
    return reading().context


def has_changed_hands() -> bool:
    """Return whether the person's roles have changed since the page was drawn."""
    shown: Reading = st.session_state[_SESSION]
    return reading().context.actor != shown.context.actor


def still(earlier: Reading) -> Reading:
    """Return an earlier reading with its person's present roles, for code that runs without a page."""
    if earlier.session is None:
        return earlier
    return _of_actor(earlier, who.actor_now(earlier.context, earlier.session))


def _surely(earlier: Reading) -> Reading:
    now_s = time.monotonic()
    if now_s - getattr(_rerun, "checked_s", now_s - _SURE_S) >= _SURE_S:
        _rerun.sure, _rerun.checked_s = still(earlier), now_s
    return cast("Reading", _rerun.sure)


def _of_actor(earlier: Reading, actor: Actor) -> Reading:
    """Return the same for who may do something else: none of what was kept for whom they were is for them."""
    if actor == earlier.context.actor:
        return earlier
    context = replace(earlier.context, actor=actor)
    visible = earlier.frame.visibility._replace(roles=actor.roles(context.learner))
    return replace(earlier, context=context, frame=replace(earlier.frame, visibility=visible))


def belief_view(view: View) -> View:
    """Return beliefs heed the end of the span and the types only; the rest would split the cache for nothing."""
    return View(until_ms=view.until_ms, types=view.types)


def cached_figure(question: Hashable, make: Callable[[], Answer]) -> Answer:
    """Return a table or figure made from this page's belief, kept like an answer: remaking it costs more than asking.

    ``question`` names everything else it depends on: places, order, method, theme.
    """
    here = reading()
    return _drawings.get(_key((question, here.compact), belief_view(here.view)), make)


def pictured_once(question: Hashable, make: Callable[[], Answer]) -> Answer:
    """Return a figure of this page, made once for a revision, view, theme and width."""
    here = reading()
    return _pictures.get(_key((question, here.tokens.name, here.compact), here.view), make)


def cached(question: Hashable, view: View | None, ask: Callable[[], Answer]) -> Answer:
    """Return an answer of the frame's revision; one that a later write changed is shown, but not cached."""
    here = reading()
    return _answers.get(
        _key(question, view),
        wherever(here.pages, ask),
        still=lambda: queries.visibility(here.pages) == here.frame.visibility,
    )


def cached_query(
    query: Callable[Concatenate[Context, Parameters], Answer],
    /,
    *arguments: Parameters.args,
    **options: Parameters.kwargs,
) -> Answer:
    """Return the answer of a query, cached by the query and all its arguments; they must be hashable."""
    return _cached_call(query, None, *arguments, **options)


def cached_for_actor(
    query: Callable[Concatenate[Context, Parameters], Answer],
    /,
    *arguments: Parameters.args,
    **options: Parameters.kwargs,
) -> Answer:
    """Return the answer of a query that depends on who asks, cached for this actor alone."""
    return _cached_call(query, reading().pages.actor, *arguments, **options)


def at_revision(
    query: Callable[Concatenate[Context, Parameters], Answer],
) -> Callable[Parameters, Answer]:
    """Return a query as pages ask it: about their learner, cached as by `cached_query`."""
    return partial(cached_query, query)


def at_revision_for_actor(
    query: Callable[Concatenate[Context, Parameters], Answer],
) -> Callable[Parameters, Answer]:
    """Return a query as pages ask it whose answer depends on who asks, cached for this actor alone."""
    return partial(cached_for_actor, query)


def uncached(query: Callable[Concatenate[Context, Parameters], Answer]) -> Callable[Parameters, Answer]:
    """Return a query as pages ask it: about their learner, never cached."""

    def ask(*arguments: Parameters.args, **options: Parameters.kwargs) -> Answer:
        return query(reading().context, *arguments, **options)

    return ask


def acted(act: Callable[Concatenate[Context, Parameters], Answer]) -> Callable[Parameters, Answer]:
    """Return an act as pages do it: on their learner, with the actor as of now."""

    def do(*arguments: Parameters.args, **options: Parameters.kwargs) -> Answer:
        return act(acting(), *arguments, **options)

    return do


def _cached_call(
    query: Callable[Concatenate[Context, Parameters], Answer],
    actor: Actor | None,
    /,
    *arguments: Parameters.args,
    **options: Parameters.kwargs,
) -> Answer:
    pages = reading().pages
    question = (query, actor, arguments, frozenset(options.items()))
    return cached(question, None, lambda: query(pages, *arguments, **options))


def cached_by_visibility(context: Context, question: Hashable, ask: Callable[[], Answer]) -> Answer:
    """Return an answer of a context's present revision, which is read each time, as for the frame itself."""
    visible = wherever(context, lambda: queries.visibility(context))()
    return _answers.get(
        (str(context.store.location), context.learner, visible, question), wherever(context, ask)
    )


def cached_of_all(
    context: Context, snapshot: Hashable, question: Hashable, ask: Callable[[], Answer]
) -> Answer:
    """Return an answer about all learners at a moment of all of them, which is looked up each time."""
    return _answers.get((str(context.store.location), snapshot, question), wherever(context, ask))


def wherever(context: Context, ask: Callable[[], Answer]) -> Callable[[], Answer]:
    """Run a query again if the standby failed that should have answered; the standby is then skipped."""
    standby = context.store.standby

    def retried() -> Answer:
        try:
            return ask()
        except StoreError:
            if standby is None or standby.problem is None:
                raise
            return ask()

    return retried


def _key(question: Hashable, view: View | None) -> Hashable:
    frame = reading().frame
    return (frame.database, frame.learner, frame.visibility, question, view)
