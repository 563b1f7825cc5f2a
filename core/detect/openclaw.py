"""Mode ``openclaw``: skills, files and memories as OpenClaw finds them, by substring.

A name counts wherever its letters occur, also inside another word (``go`` in ``category``). Case is taken away
by lower-casing, which keeps ``ß`` and ``ss`` apart. A memory's label is its content; without one, as in
OpenClaw's own ids, it is the arm's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from core.detect.words import Haystack, excerpt_of
from core.records.arm import Arm, ArmType, skill_name
from core.records.evidence import Where
from core.records.javascript import first_units, units
from core.records.run import Run

SHORT_UNITS: Final = 20
"""A memory of fewer UTF-16 units is searched whole, in its own case."""

PREFIX_UNITS: Final = 60
"""Number of units of a longer memory that are searched."""

_CODES_PER_HIGH: Final = 0x400


class OpenclawMentions:
    """Searcher of the texts and metadata of the runs of one inventory."""

    def __init__(self) -> None:
        self._skills: dict[str, list[int]] = {}
        self._files: dict[str, list[int]] = {}
        self._short: dict[str, list[int]] = {}
        self._prefixes: dict[re.Pattern[str], list[int]] = {}

    def want(self, index: int, arm: Arm) -> None:
        """Add an arm to look for; ``index`` is its index in the inventory."""
        _WANTS[arm.type](self, index, arm)

    def ready(self) -> None:
        """Do nothing: this mode needs no preparation."""

    def search(self, run: Run) -> Iterator[tuple[int, Where, str]]:
        """Yield index, kind and surroundings of each mention; an arm may come more than once."""
        if self._skills or self._files:
            text = Haystack.of(run.texts, str.lower)
            yield from _substrings(self._files, text, "text")
            yield from _substrings(self._skills, text, "text")
        if self._skills:
            metadata = Haystack.of([call.metadata for call in run.calls], str.lower)
            yield from _substrings(self._skills, metadata, "metadata")
        for one in run.texts if self._short or self._prefixes else ():
            yield from self._quotations(one)

    def _quotations(self, text: str) -> Iterator[tuple[int, Where, str]]:
        for label, places in self._short.items():
            start = text.find(label)
            if start >= 0:
                excerpt = excerpt_of(text, start, start + len(label))
                yield from ((index, "text", excerpt) for index in places)
        hay = Haystack.of([text], str.lower)
        for prefix, places in self._prefixes.items():
            match = prefix.search(hay.folded)
            if match is not None:
                excerpt = hay.excerpt(*match.span())
                yield from ((index, "text", excerpt) for index in places)

    def _skill(self, index: int, arm: Arm) -> None:
        self._skills.setdefault(skill_name(arm.key).lower(), []).append(index)

    def _file(self, index: int, arm: Arm) -> None:
        self._files.setdefault(arm.name.lower(), []).append(index)

    def _memory(self, index: int, arm: Arm) -> None:
        label = arm.name if arm.content is None else arm.content
        if units(label) < SHORT_UNITS:
            self._short.setdefault(label, []).append(index)
        else:
            self._prefixes.setdefault(_pattern(first_units(label, PREFIX_UNITS).lower()), []).append(index)


_WANTS: Final[dict[ArmType, Callable[[OpenclawMentions, int, Arm], None]]] = {
    "skill": OpenclawMentions._skill,
    "file": OpenclawMentions._file,
    "memory": OpenclawMentions._memory,
}


def _substrings(names: dict[str, list[int]], hay: Haystack, where: Where) -> Iterator[tuple[int, Where, str]]:
    for name, places in names.items():
        start = hay.folded.find(name)
        if start >= 0:
            excerpt = hay.excerpt(start, start + len(name))
            yield from ((index, where, excerpt) for index in places)


def _pattern(prefix: str) -> re.Pattern[str]:
    """Return the prefix as a literal pattern; if the cut left half a character, any character with that half
    matches.
    """
    last = ord(prefix[-1])
    if not 0xD800 <= last < 0xDC00:
        return re.compile(re.escape(prefix))
    first = 0x10000 + (last - 0xD800) * _CODES_PER_HIGH
    halves = f"[{prefix[-1]}{chr(first)}-{chr(first + _CODES_PER_HIGH - 1)}]"
    return re.compile(re.escape(prefix[:-1]) + halves)
