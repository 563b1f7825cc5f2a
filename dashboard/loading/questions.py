"""Questions: what pages ask the flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from core import demo
from core.flows import queries
from core.records.arm import ArmType
from core.records.audit import AuditEntry
from core.records.judgement import Judgement
from core.records.observation import Observation
from core.records.reset import Reset, Target
from core.records.times import DAY_MS
from core.records.view import View
from core.statistics.confidence import Confidence
from core.statistics.overview import Overview
from core.statistics.savings import Savings
from dashboard.loading.reading import asked, belief_view, reading

_UNDOS_READ: Final = 1_000
"""Longer ago, the page offers no redo to who may undo their own only; the command line does."""


def belief() -> queries.Belief:
    """Every arm in view with what is believed of it."""
    here = reading()
    return asked(
        "belief", belief_view(here.view), lambda: queries.belief(here.context, belief_view(here.view))
    )


def everything() -> queries.Belief:
    """Every arm as it stands now, whatever the filters say: what an act works on."""
    here = reading()
    return asked("belief", View(), lambda: queries.belief(here.context, View()))


def overview() -> Overview:
    """The first page in numbers."""
    here = reading()
    today = here.context.clock() // DAY_MS  # how long no run has come is told anew each day
    return asked(("overview", today), here.view, lambda: queries.overview(here.context, here.view))


def confidence() -> Confidence:
    """How much is known of the arms."""
    here = reading()
    return asked("confidence", here.view, lambda: queries.confidence(here.context, here.view))


def savings() -> Savings:
    """What the selection saves."""
    here = reading()
    return asked("savings", here.view, lambda: queries.savings(here.context, here.view))


def inclusion() -> queries.Inclusion:
    """Chance of inclusion in the next run, by arm, and among whose candidates."""
    here = reading()
    return asked("inclusion", None, lambda: queries.inclusion(here.context))


def judgements() -> Mapping[str, Judgement]:
    """What is to be said of every arm by the end of the span, by id, whatever the types chosen."""
    here = reading()
    view = View(until_ms=here.view.until_ms)
    return asked("judgements", view, lambda: queries.judgements(here.context, view, inclusion=inclusion()))


def truth() -> dict[str, float]:
    """Planted values of a demo world, by arm; nothing elsewhere."""
    seed = demo.seed_of(reading().frame.origin)
    return {} if seed is None else demo.truth(seed)


def rewards(limit: int = 20, *, everyone: bool) -> tuple[Observation, ...]:
    """The last rewards that this person or anybody gave, newest first."""
    here = reading()
    actor = None if everyone else here.context.actor.name
    return asked(
        ("rewards", limit, actor), None, lambda: queries.rewards(here.context, limit=limit, actor=actor)
    )


def resets() -> tuple[Reset, ...]:
    """Every reset, newest first."""
    here = reading()
    return asked("resets", None, lambda: queries.resets(here.context))


def changes(limit: int = 5) -> tuple[AuditEntry, ...]:
    """The last entries of the audit log."""
    here = reading()
    return asked(("changes", limit), None, lambda: queries.changes(here.context, limit=limit))


def undoers() -> dict[str, frozenset[str]]:
    """Who undid what is undone, by the act's id, among the last changes: they may let it stand again."""
    here = reading()
    return asked("undoers", None, lambda: _undoers(queries.changes(here.context, limit=_UNDOS_READ)))


def _undoers(entries: Sequence[AuditEntry]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for entry in entries:
        act = entry.detail.get("undone")
        if entry.action == "undo" and not entry.undone and isinstance(act, str):
            found[act] = found.get(act, frozenset()) | {entry.actor}
    return found


def preview_reward(arm: str, value: float, *, run: str | None, correct: bool) -> queries.RewardPreview:
    """What a reward would change; nothing is written."""
    here = reading()
    question = ("preview reward", arm, value, run, correct)
    return asked(
        question, None, lambda: queries.preview_reward(here.context, arm, value, run=run, correct=correct)
    )


def preview_reset(
    *, arms: tuple[str, ...], types: tuple[ArmType, ...], target: Target
) -> queries.ResetPreview:
    """What a reset would change; nothing is written."""
    here = reading()
    question = ("preview reset", arms, types, target)
    return asked(
        question, None, lambda: queries.preview_reset(here.context, arms=arms, types=types, target=target)
    )
