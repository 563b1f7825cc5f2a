"""Sentences about one arm: its belief, its changes, and its break-even."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from core import explained
from core.explained.arms import VERSIONS
from core.explained.table import Table
from core.flows.queries import ArmInRun, ArmObservation, ArmPath, HistoryMark
from core.records.arm import Band
from core.records.arm_summary import ArmVersion, ArmVersions
from core.records.judgement import Judgement, SourceSum
from core.records.observation import Kind, Source
from core.records.selection import Reason
from dashboard import wording
from dashboard.figures.path import Lettered
from dashboard.sentences.judgement import pulls
from dashboard.sentences.settings import setting_value
from dashboard.wording import Markdown, Words

_REASONS_OUT: Final[Mapping[Reason | None, str]] = {
    "k": "enough arms were in",
    "budget": "the budget had no room for it",
    "excluded": explained.EXCLUDED,
}
_VALUE_CHARS: Final = 40
_CELL_CHARS: Final = 48
_SOURCES: Final[dict[Kind, str]] = {
    "feedback": "by hand, lagged",
    "correction": "correction",
    "evaluation": "evaluation",
    "episode": "episode credit",
    "reported": "reported by an agent",
    "carried": "carried belief",
}

_PARTS: Final[Mapping[Source, str]] = {
    "prior": "its prior",
    "detector": "detector, in runs",
    "person": "people, by hand",
    "grader": "graders",
    "credit": "credit of episodes",
    "carried": "carried beliefs",
}


def arm_facts(one: Judgement, band: Band, path: ArmPath, *, year_of_ms: int | None) -> Markdown:
    """Return mean, interval, pulls, confidence and chance of inclusion on one line."""
    since = (
        "since it was first seen"
        if path.since_ms is None
        else f"since {wording.day(path.since_ms, year_of_ms=year_of_ms)}"
    )
    is_excluded = explained.is_excluded(one)
    chance = explained.EXCLUDED if is_excluded else explained.chance_words(one.chance)
    named, loaded = (
        wording.things(one.n_named, "run"),
        wording.count(one.n_loaded) if one.n_loaded else "none",
    )
    by_name = f" By name in {named}, found in {loaded}." if one.n_named else ""
    inclusion = f" Chance of inclusion{':' if one.chance is None or is_excluded else ''} {chance}."
    return (
        f"Mean {wording.mean(one.mean)}, 95% interval {wording.interval(one.interval.lower, one.interval.upper)}, "
        f"from {pulls(one)} {since}. "
        f"Confidence {wording.band(band)}.{inclusion}{by_name}"
    )


def marks_line(letters: Sequence[Lettered], n_more: int, *, year_of_ms: int) -> Markdown:
    """Return the legend of the letters over the path, as Markdown; foreign text is escaped."""
    if not letters:
        return Words("No reset, new model, new definition or change of its settings in these days.")
    parts = [
        f"**{one.letter}** {'; '.join(_mark(mark, year_of_ms=year_of_ms) for mark in one.marks)}"
        for one in letters
    ]
    more = f" · {wording.things(n_more, 'other change')} without a letter" if n_more else ""
    return Markdown(" · ".join(parts) + more)


def _mark(mark: HistoryMark, *, year_of_ms: int) -> Markdown:
    undone = ", undone" if mark.undone else ""
    return f"{wording.day(mark.at_ms, year_of_ms=year_of_ms)} {_happened(mark)}{undone}"


def _happened(mark: HistoryMark) -> Markdown:
    if mark.kind == "model":
        return f"first run of {wording.short(mark.name)}"
    if mark.kind == "definition":
        return f"new version {wording.short(mark.name)} of the definition"
    if mark.kind == "reset":
        target = "Beta\\(1, 1\\)" if mark.name == "uniform" else "its own prior"
        why = "" if mark.reason is None else f" ({wording.short(mark.reason)})"
        return f"reset to {target}{why}"
    name = wording.literal(mark.name.replace("_", " "))
    before, after = (setting_value(mark.name, value) for value in (mark.before, mark.after))
    return Markdown(
        f"{name} {before} → {after}" if len(before) + len(after) <= _VALUE_CHARS else f"{name} changed"
    )


def versions(answer: ArmVersions) -> Table[ArmVersion]:
    """Return the table of versions of a definition, each with its runs and the belief that they alone come to."""
    shown = VERSIONS.but(
        version=lambda one: wording.cut_middle(wording.plain(one.version), _VALUE_CHARS),
        mean=lambda one: wording.mean(one.mean),
        interval=lambda one: wording.interval(one.interval.lower, one.interval.upper),
    )
    named = ("named",) if any(one.named for one in answer.versions) else ()
    return shown.only("version", "first", "mean", "interval", "runs", "referenced", *named, "last")


def source_table(one: Judgement) -> dict[str, list[str]]:
    """Return the parts of a belief by source; the last row is their sum."""
    alpha, beta = (sum(getattr(part, name) for part in one.sources) for name in ("alpha_micro", "beta_micro"))
    parts = [(_PARTS[part.source], wording.count(part.n), part) for part in one.sources]
    total = SourceSum(source="prior", n=0, alpha_micro=alpha, beta_micro=beta)
    rows = [*parts, ("together", wording.count(sum(part.n for part in one.sources)), total)]
    return {
        "source": [name for name, _, _ in rows],
        "observations": [n for _, n, _ in rows],
        "adds to alpha": [wording.exact(part.alpha_micro) for _, _, part in rows],
        "adds to beta": [wording.exact(part.beta_micro) for _, _, part in rows],
        "mean": [wording.mean(part.mean) for _, _, part in rows],
    }


# The ledger: plain text, for cells


def source(one: ArmObservation) -> str:
    """Return the source of an observation; an undone one begins with that fact."""
    if one.entry is None:
        if one.taken_back_by is not None:
            return f"not judged: {one.taken_back_by}"
        return "automatic" if one.counts else "automatic, corrected"
    words = _SOURCES[one.entry.kind]
    return f"undone: {words}" if one.entry.undone else words


def learned_by(one: ArmObservation, key: str) -> str:
    """By what an arm was recognised, or who gave the reward and why."""
    if one.entry is None:
        words = explained.recognised(key, one.where if one.referenced else None, n_calls=one.n_calls)
        return f"{words}: “{_around(wording.plain(one.excerpt))}”" if one.excerpt else words
    entry = one.entry
    why = "" if entry.reason is None else f": “{entry.reason}”"
    state = "" if entry.counts or entry.undone else f" ({explained.replaced(entry) or 'does not count'})"
    return wording.plain(f"{entry.actor}{why}{state}")


def _around(excerpt: str) -> str:
    """Return the middle of an excerpt, where the place itself is, as long as a cell has room.

    >>> _around("a" * 40 + "review" + "b" * 40)
    '…aaaaaaaaaaaaaaaaaaaaareviewbbbbbbbbbbbbbbbbbbbbb…'
    """
    cut = (len(excerpt) - _CELL_CHARS) // 2
    return excerpt if cut <= 0 else f"…{excerpt[cut : cut + _CELL_CHARS].strip()}…"


def mean_moved(one: ArmObservation) -> str:
    """Return the distance of the mean from its value without this observation."""
    if not one.is_present_epoch:
        return "earlier epoch"
    return wording.small_change(one.mean_moved) if one.counts else "0"


# Runs


def lately(rows: Sequence[ArmInRun]) -> Words:
    """Return how often the arm was included lately, and the main reason against; "" where no run offered it."""
    if not rows:
        return Words("")
    n_in = sum(row.in_prompt for row in rows)
    words = f"In {wording.count(n_in)} of the latest {wording.things(len(rows), 'run')} that offered it"
    reasons = Counter(_REASONS_OUT[row.reason] for row in rows if row.reason in _REASONS_OUT)
    if not reasons:
        return f"{words}."
    (why, _n), *others = reasons.most_common()
    return f"{words}; out of the others {'mostly ' if others else ''}because {why}."


def in_or_out(rows: Sequence[ArmInRun]) -> Words:
    """Return how many of these runs included the arm."""
    n_in = sum(row.in_prompt for row in rows)
    return f"in {wording.count(n_in)} of these {wording.things(len(rows), 'run')}; a click on a run opens it"
