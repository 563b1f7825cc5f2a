"""Reads: what a page asks the flows, once per revision.

Each rerun reads the learner's frame (and with it the revision) first. Every answer is then kept under database,
learner, revision, question and view, so thirty people on one page cost one read; a write makes a new revision
and with it new keys. The shelf is bounded, the oldest answers go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Final, TypeVar, cast

import msgspec
import streamlit as st

from core import demo
from core.flows import look
from core.flows.desk import Desk, open_desk
from core.permissions import Action, may
from core.records.arm import ArmType
from core.records.audit import AuditEntry
from core.records.observation import Observation
from core.records.reset import Reset, Target
from core.records.view import View
from core.settings import Settings
from core.statistics.confidence import Confidence
from core.statistics.overview import Overview
from core.statistics.savings import Savings
from dashboard.figures.theme import Tokens

Answer = TypeVar("Answer")

_SHELF_BOUND: Final = 128
_DRAWINGS_BOUND: Final = 32
"""Fewer: a table of 10,000 arms weighs some megabytes, and each word searched for makes one."""
_PICTURES_BOUND: Final = 64
_DESKS_BOUND: Final = 16
_SESSION: Final = "armscope reading"


class Shelf:
    """Answers by key, the least recently used dropped beyond the bound; safe for several sessions at once.

    >>> shelf = Shelf(bound=1)
    >>> shelf.kept("a", lambda: 1), shelf.kept("a", lambda: 2), shelf.kept("b", lambda: 3), len(shelf)
    (1, 1, 3, 1)
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._answers: OrderedDict[Hashable, object] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def kept(self, key: Hashable, ask: Callable[[], Answer]) -> Answer:
        """The answer under this key; asked for outside the lock, so a slow question holds up nobody else."""
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return cast("Answer", self._answers[key])
        answer = ask()
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            while len(self._answers) > self._bound:
                self._answers.popitem(last=False)
        return answer


_answers: Final = Shelf(_SHELF_BOUND)
_drawings: Final = Shelf(_DRAWINGS_BOUND)
_pictures: Final = Shelf(_PICTURES_BOUND)
_desks: Final = Shelf(_DESKS_BOUND)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the frame found out for the page it frames: whose data, which part of them, and how to draw."""

    desk: Desk
    frame: look.Frame
    view: View
    tokens: Tokens
    compact: bool
    presenting: bool

    def may(self, action: Action) -> bool:
        """Whether the page should offer an action; the flow decides again when it is called."""
        return not self.presenting and may(self.desk.actor, action)


def settings() -> Settings:
    """Where the data are, as the environment says."""
    return Settings.from_environment()


def desk_of(learner: str | None = None) -> Desk:
    """The desk of a learner (the environment's by default), opened once per process."""
    wanted = settings()
    if learner is not None:
        wanted = msgspec.structs.replace(wanted, learner=learner)
    return _desks.kept((str(wanted.database), wanted.learner, wanted.actor), lambda: open_desk(wanted))


def frame_of(desk: Desk) -> look.Frame:
    """What there is to look at: learners, time span, filters, revision. Whether it still is so is asked anew
    in every rerun.
    """
    now = look.moment(desk)
    return _answers.kept((str(desk.store.path), desk.learner, now, "frame"), lambda: look.frame(desk))


def begin(reading: Reading) -> None:
    """Hand this rerun's reading to the page and to the fragments that outlive the rerun."""
    st.session_state[_SESSION] = reading


def reading() -> Reading:
    """The session's reading, as the frame left it."""
    return cast("Reading", st.session_state[_SESSION])


def pulse() -> look.Pulse:
    """The learner's present revision and number of runs; whether they still are so is asked anew."""
    desk = reading().desk
    now = look.moment(desk)
    return _answers.kept((str(desk.store.path), desk.learner, now, "pulse"), lambda: look.pulse(desk))


def belief() -> look.Belief:
    """Every arm in view with what is believed of it."""
    here = reading()
    return _asked("belief", _belief_view(here.view), lambda: look.belief(here.desk, _belief_view(here.view)))


def everything() -> look.Belief:
    """Every arm as it stands now, whatever the filters say: what an act works on."""
    here = reading()
    return _asked("belief", View(), lambda: look.belief(here.desk, View()))


def overview() -> Overview:
    """The first page in numbers."""
    here = reading()
    return _asked("overview", here.view, lambda: look.overview(here.desk, here.view))


def confidence() -> Confidence:
    """How much is known of the arms."""
    here = reading()
    return _asked("confidence", here.view, lambda: look.confidence(here.desk, here.view))


def savings() -> Savings:
    """What the selection saves."""
    here = reading()
    return _asked("savings", here.view, lambda: look.savings(here.desk, here.view))


def chances() -> dict[str, float]:
    """Chance of inclusion in the next run, by arm."""
    here = reading()
    return _asked("chances", None, lambda: look.chances(here.desk))


def truth() -> dict[str, float]:
    """Planted values of a demo world, by arm; nothing elsewhere."""
    seed = demo.seed_of(reading().frame.origin)
    return {} if seed is None else demo.truth(seed)


def rewards(limit: int = 20, *, everyone: bool) -> tuple[Observation, ...]:
    """The last rewards that this person or anybody gave, newest first."""
    here = reading()
    actor = None if everyone else here.desk.actor.name
    return _asked(("rewards", limit, actor), None, lambda: look.rewards(here.desk, limit=limit, actor=actor))


def resets() -> tuple[Reset, ...]:
    """Every reset, newest first."""
    here = reading()
    return _asked("resets", None, lambda: look.resets(here.desk))


def changes(limit: int = 5) -> tuple[AuditEntry, ...]:
    """The last entries of the audit log."""
    here = reading()
    return _asked(("changes", limit), None, lambda: look.changes(here.desk, limit=limit))


def preview_reward(arm: str, value: float, *, run: str | None, correct: bool) -> look.RewardPreview:
    """What a reward would change; nothing is written."""
    here = reading()
    question = ("preview reward", arm, value, run, correct)
    return _asked(
        question, None, lambda: look.preview_reward(here.desk, arm, value, run=run, correct=correct)
    )


def preview_reset(*, arms: tuple[str, ...], types: tuple[ArmType, ...], target: Target) -> look.ResetPreview:
    """What a reset would change; nothing is written."""
    here = reading()
    question = ("preview reset", arms, types, target)
    return _asked(
        question, None, lambda: look.preview_reset(here.desk, arms=arms, types=types, target=target)
    )


def _belief_view(view: View) -> View:
    """Beliefs heed the end of the span and the types only; the rest would split the shelf for nothing."""
    return View(until_ms=view.until_ms, types=view.types)


def drawn_once(question: Hashable, make: Callable[[], Answer]) -> Answer:
    """A table or figure made from this page's belief, kept like an answer: remaking it costs more than asking.

    ``question`` names everything else it depends on: places, order, method, theme.
    """
    return _drawings.kept(_key(question, _belief_view(reading().view)), make)


def pictured_once(question: Hashable, make: Callable[[], Answer]) -> Answer:
    """A figure of this page, made once for a revision, view, theme and width."""
    here = reading()
    return _pictures.kept(_key((question, here.tokens.name, here.compact), here.view), make)


def _asked(question: Hashable, view: View | None, ask: Callable[[], Answer]) -> Answer:
    return _answers.kept(_key(question, view), ask)


def _key(question: Hashable, view: View | None) -> Hashable:
    seen = reading().frame
    return (seen.database, seen.origin, seen.learner, seen.revision, question, view)
