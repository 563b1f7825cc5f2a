"""Arm: what is believed of one arm, what moved it, and what it would have to be worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from core import explained
from core.flows.look import ArmInRun, ArmPath, Learned, Mark
from core.records.observation import Kind
from core.records.posterior import Band
from core.records.selection import Reason
from core.records.times import DAY_MS
from core.statistics.inclusion import Chance
from dashboard import wording
from dashboard.figures.arms import ArmRow
from dashboard.figures.path import Lettered
from dashboard.sentences.inclusion import chance_words
from dashboard.sentences.phrase import EARNS, ENOUGH_PULLS, Phrase, Sentence
from dashboard.sentences.settings import setting_value

_MOVED: Final = 0.05
"""A mean that moved by less is not worth a word in the title."""
_KEPT_OUT: Final[Mapping[Reason | None, str]] = MappingProxyType(
    {"k": "enough arms were in", "budget": "the budget had no room for it"}
)
_VALUE_CHARS: Final = 40
_CELL_CHARS: Final = 48
_SOURCES: Final[dict[Kind, str]] = {
    "feedback": "by hand, lagged",
    "correction": "correction",
    "evaluation": "evaluation",
    "episode": "episode credit",
    "carried": "carried belief",
}


def arm(row: ArmRow, seen: ArmPath, then_day: int | None) -> Sentence:
    """How often the arm is useful, against the earlier moment, and whether that earns its place."""
    share = Phrase(f"{_of_hundred(row.mean)} of 100")
    if row.pulls == 0:
        return ("Nothing is observed of it yet: ", share, " runs is its prior, not a finding.")
    return ("Useful in ", share, " runs", f"{_since(row, seen, then_day)}. ", _standing(row))


def _of_hundred(mean: float) -> str:
    """A mean as so many of 100; never quite none or all."""
    number = round(mean * 100)
    return "fewer than 1" if number < 1 else "more than 99" if number > 99 else str(number)


def _since(row: ArmRow, seen: ArmPath, then_day: int | None) -> str:
    """Where the mean was at the earlier moment, if that was elsewhere."""
    place = None if then_day is None else seen.path.place(then_day)
    if place is None:
        return ""
    was = float(seen.path.mean[place])
    last = int(seen.path.day[-1]) * DAY_MS
    when = wording.day(int(seen.path.day[place]) * DAY_MS, year_of_ms=last)
    if seen.path.epoch[place] != seen.path.epoch[-1]:
        began = wording.day(seen.since_ms, year_of_ms=last)
        return f" since it started again on {began}; before that, on {when}, it was {_of_hundred(was)}"
    if int(seen.path.pulls[place]) == 0 or abs(was - row.mean) < _MOVED:
        return ""
    return f", {'down' if row.mean < was else 'up'} from {_of_hundred(was)} on {when}"


def _standing(row: ArmRow) -> str:
    if row.lower > EARNS:
        return "It earns its place."
    if row.upper < EARNS:
        return "It almost never helps." if row.mean < 0.2 else "It rarely helps."
    if row.pulls < ENOUGH_PULLS:
        return f"Little is known: {wording.things(row.pulls, 'pull')}."
    return "Whether it earns its place is still open."


def arm_facts(
    row: ArmRow, inclusions: int, seen: ArmPath, chance: Chance | None, *, year_of_ms: int | None
) -> str:
    """Mean, interval, pulls, confidence and chance of inclusion on one line."""
    low, high = wording.interval(row.lower, row.upper).split("–")
    since = (
        "since it was first seen"
        if seen.since_ms is None
        else f"since the reset of {wording.day(seen.since_ms, year_of_ms=year_of_ms)}"
    )
    has_none = chance is None or chance.chance is None
    told = wording.NOT_OFFERED if chance is None else chance_words(chance.chance, chance.standard_error)
    inclusion = f" Chance of inclusion{':' if has_none else ''} {told}."
    return (
        f"Mean {wording.mean(row.mean)}, 95% interval {low} to {high} (exact, equal tails), "
        f"{wording.things(row.pulls, 'pull')} in {wording.things(inclusions, 'inclusion')} {since}. "
        f"Confidence {_band(row.band)}.{inclusion}"
    )


def _band(band: Band) -> str:
    return wording.band(band)


def marks_line(letters: Sequence[Lettered], n_more: int, *, year_of_ms: int) -> str:
    """What the letters over the path stand for, in Markdown; foreign text is escaped."""
    if not letters:
        return "No reset, setting or new model in these days."
    parts = [
        f"**{one.letter}** {'; '.join(_mark(mark, year_of_ms=year_of_ms) for mark in one.marks)}"
        for one in letters
    ]
    more = f" · {wording.things(n_more, 'other change')} without a letter" if n_more else ""
    return " · ".join(parts) + more


def _mark(mark: Mark, *, year_of_ms: int) -> str:
    undone = ", undone" if mark.undone else ""
    return f"{wording.day(mark.at_ms, year_of_ms=year_of_ms)} {_happened(mark)}{undone}"


def _happened(mark: Mark) -> str:
    if mark.kind == "model":
        return f"first run of {_literal(mark.name)}"
    if mark.kind == "reset":
        target = "Beta\\(1, 1\\)" if mark.name == "uniform" else "its own prior"
        why = "" if mark.reason is None else f" ({_literal(mark.reason)})"
        return f"reset to {target}{why}"
    name = wording.literal(mark.name.replace("_", " "))
    before, after = (setting_value(mark.name, value) for value in (mark.before, mark.after))
    return f"{name} {before} → {after}" if len(before) + len(after) <= _VALUE_CHARS else f"{name} changed"


def _literal(text: str) -> str:
    return wording.literal(wording.cut_middle(wording.plain(text), _VALUE_CHARS))


# The ledger: plain text, for cells


def source(one: Learned) -> str:
    """Where an observation comes from; an undone one says so first."""
    if one.given is None:
        return "automatic" if one.counts else "automatic, corrected"
    words = _SOURCES[one.given.kind]
    return f"undone: {words}" if one.given.undone else words


def learned_by(one: Learned, key: str) -> str:
    """By what an arm was recognised, or who gave the reward and why."""
    if one.given is None:
        said = explained.recognised(key, one.where if one.referenced else None, n_calls=one.n_calls)
        return f"{said}: “{_around(wording.plain(one.excerpt))}”" if one.excerpt else said
    given = one.given
    why = "" if given.reason is None else f": “{given.reason}”"
    state = "" if given.counts or given.undone else f" ({explained.replaced(given) or 'does not count'})"
    return wording.plain(f"{given.actor}{why}{state}")


def _around(excerpt: str) -> str:
    """The middle of an excerpt, where the place itself is, as long as a cell has room.

    >>> _around("a" * 40 + "review" + "b" * 40)
    '…aaaaaaaaaaaaaaaaaaaaareviewbbbbbbbbbbbbbbbbbbbbb…'
    """
    cut = (len(excerpt) - _CELL_CHARS) // 2
    return excerpt if cut <= 0 else f"…{excerpt[cut : cut + _CELL_CHARS].strip()}…"


def mean_moved(one: Learned) -> str:
    """How far the present mean lies from what it were without this observation."""
    if not one.is_present_epoch:
        return "earlier epoch"
    return wording.small_change(one.mean_moved) if one.counts else "0"


# Runs


def lately(rows: Sequence[ArmInRun]) -> str:
    """How often the arm was in the prompt lately, and what mostly kept it out; "" where no run offered it."""
    if not rows:
        return ""
    n_in = sum(row.in_prompt for row in rows)
    said = f"In {wording.count(n_in)} of the latest {wording.things(len(rows), 'run')} that offered it"
    kept_out = Counter(_KEPT_OUT[row.reason] for row in rows if row.reason in _KEPT_OUT)
    if not kept_out:
        return f"{said}."
    (why, _n), *others = kept_out.most_common()
    return f"{said}; out of the others {'mostly ' if others else ''}because {why}."


def in_or_out(rows: Sequence[ArmInRun]) -> str:
    """How many of these runs had the arm in their prompt."""
    n_in = sum(row.in_prompt for row in rows)
    return f"in {wording.count(n_in)} of these {wording.things(len(rows), 'run')}; a click on a run opens it"
