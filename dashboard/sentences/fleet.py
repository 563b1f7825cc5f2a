"""Sentences about many learners: how many need attention, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from core.records.alert import ALERT_KINDS, AlertKind
from core.records.learner import LearnerState, LearnerSummary
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words, short

STATES: Final[dict[LearnerState, str]] = {
    "unreadable": "✕ can’t be read",
    "alarmed": "▲ needs attention",
    "empty": "○ no runs yet",
    "passive": "◇ only watches",
    "selecting": "● selects",
}
"""A state as a shape and its words."""
_ALARMS: Final[dict[AlertKind, tuple[str, str, str]]] = {
    "poisoned": ("arms look poisoned", "has arms that look poisoned", "have arms that look poisoned"),
    "costs_more": ("costs more than it saves", "costs more than it saves", "cost more than they save"),
    "experiment_harms": ("an arm harms", "has an arm that harms", "have arms that harm"),
    "queue_overdue": ("a queue is overdue", "has a queue that is overdue", "have a queue that is overdue"),
    "silent": ("no run comes", "gets no runs", "get no runs"),
    "feed_silent": ("a feed stopped", "has a feed that stopped", "have a feed that stopped"),
    "denials": ("many refusals", "was refused often", "were refused often"),
}
"""An alarm in a cell, and what a learner and several learners do in a sentence."""


def fleet(rows: Sequence[LearnerSummary]) -> Sentence:
    """Return how many of the learners need attention, and why."""
    needing = [one for one in rows if one.needs_attention]
    if len(rows) == 1:
        need = "needs attention" if needing else "has no alarm"
        return composed(f"The only learner, {short(rows[0].name)}, ", Phrase(need), f"{_reasons(needing)}.")
    of = f"Of {wording.things(len(rows), 'learner')} "
    if not needing:
        return composed(of, Phrase("none has an alarm"), ".")
    need = "needs" if len(needing) == 1 else "need"
    return composed(
        of, Phrase(f"{wording.number_word(len(needing))} {need} attention"), f"{_reasons(needing)}."
    )


def _reasons(needing: Sequence[LearnerSummary]) -> Words:
    counts = Counter(kind for one in needing for kind in one.alarms)
    parts = [
        f"{wording.number_word(counts[kind])} {_ALARMS[kind][2 if counts[kind] > 1 else 1]}"
        for kind in ALERT_KINDS
        if counts[kind]
    ]
    n_unreadable = sum(one.state == "unreadable" for one in needing)
    if n_unreadable:
        parts.append(f"{wording.number_word(n_unreadable)} can’t be read")
    return Words(f": {wording.listed(parts)}" if parts else "")


def alarms(one: LearnerSummary) -> str:
    """Return a learner's alarms as plain text."""
    return ", ".join(_ALARMS[kind][0] for kind in one.alarms) or wording.MISSING


def unreadable(rows: Sequence[LearnerSummary], *, at_most: int = 10) -> Markdown:
    """Return the unreadable learners, and why; Markdown."""
    names = [short(one.name) for one in rows[:at_most]]
    if len(rows) > at_most:
        names.append(f"{wording.count(len(rows) - at_most)} more")
    why = " ".join(dict.fromkeys(one.problem or "" for one in rows[:at_most]))
    return (
        f"**{wording.things(len(rows), 'learner')} can’t be read**: {wording.listed(names)}. "
        f"{wording.literal(why)} The others are shown."
    )


def counted(n_shown: int, n_all: int, first: int, last: int) -> Words:
    """Return which of how many rows are on the page."""
    of = wording.things(n_shown, "learner")
    narrowed = "" if n_shown == n_all else f" of {wording.count(n_all)}"
    if first == 1 and last == n_shown:
        return f"{of}{narrowed}"
    return f"{wording.count(first)} to {wording.count(last)} of {of}{narrowed}"
