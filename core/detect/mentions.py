"""Skills, files and memories in texts, by mode.

``standard`` finds skills and files as whole words, and memories by any 20 characters of their content, white space
folded, any case. ``openclaw`` finds them by substring, as OpenClaw does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from core.detect.words import Haystack, excerpt_of, find_word
from core.records.arm import Arm, ArmType, skill_name
from core.records.evidence import Where
from core.records.javascript import first_units, units
from core.records.run import Run

MEMORY_WINDOW_CHARS: Final = 20
"""Number of consecutive characters of a memory's content that make a reference in a text."""
_GRAM: Final = 10
_DENSE_CONTENT_CHARS: Final = 100_000  # above this, keep every 11th 10-gram: memory matters more than speed
_SKILL_TIES: Final = "-"
_FILE_TIES: Final = ".-"
SHORT_UNITS: Final = 20
"""A memory of fewer UTF-16 units is searched whole, in its own case."""
PREFIX_UNITS: Final = 60
"""Number of units of a longer memory that are searched."""
_CODES_PER_HIGH: Final = 0x400


# Every window of 20 characters holds 11 consecutive starting places of a 10-gram. So it is enough to keep all
# 10-grams of the contents and to look up every 11th of a text, or the other way round.
_STRIDE: Final = MEMORY_WINDOW_CHARS - _GRAM + 1


def spaced(text: str) -> str:
    """Return the text case-folded, with white space folded."""
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class Grams:
    """Memories' contents by their 10-grams; contents under 20 characters are searched whole."""

    contents: dict[str, list[int]]
    short: tuple[str, ...]
    index: dict[str, tuple[str, ...]]
    text_step: int

    @classmethod
    def of(cls, contents: dict[str, list[int]]) -> Grams:
        long = [content for content in contents if len(content) >= MEMORY_WINDOW_CHARS]
        short = tuple(content for content in contents if len(content) < MEMORY_WINDOW_CHARS)
        is_dense = sum(map(len, long)) <= _DENSE_CONTENT_CHARS
        content_step, text_step = (1, _STRIDE) if is_dense else (_STRIDE, 1)
        index: dict[str, tuple[str, ...]] = {}
        for content in long:
            for gram in {content[at : at + _GRAM] for at in range(0, len(content) - _GRAM + 1, content_step)}:
                index[gram] = (*index.get(gram, ()), content)
        return cls(contents, short, index, text_step)

    def search(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield the arm index of each memory that a text quotes, with the surroundings of its first quotation."""
        quoted: set[str] = set()
        for text in texts:
            folded = spaced(text)
            offsets: Sequence[int] = ()
            for content, start, end in self._quotations(folded, quoted):
                quoted.add(content)
                offsets = offsets or _spaced_offsets(text, folded)
                excerpt = excerpt_of(text, offsets[start], offsets[end - 1] + 1)
                for arm in self.contents[content]:
                    yield arm, excerpt

    def _quotations(self, text: str, quoted: set[str]) -> Iterator[tuple[str, int, int]]:
        for content in self.short:
            start = -1 if content in quoted else text.find(content)
            if start >= 0:
                yield content, start, start + len(content)
        refused: set[tuple[str, str]] = set()
        for at in range(0, len(text) - _GRAM + 1, self.text_step):
            for content in self.index.get(text[at : at + _GRAM], ()):
                start = -1 if content in quoted else _window(text, at, content, refused)
                if start >= 0:
                    yield content, start, start + MEMORY_WINDOW_CHARS


def _window(text: str, at: int, content: str, refused: set[tuple[str, str]]) -> int:
    """Return the first window of 20 characters around the 10-gram at ``at`` that ``content`` holds, or -1."""
    last = min(at, len(text) - MEMORY_WINDOW_CHARS)
    for start in range(max(0, at - _STRIDE + 1), last + 1):
        window = text[start : start + MEMORY_WINDOW_CHARS]
        if (window, content) in refused:
            continue
        if window in content:
            return start
        refused.add((window, content))
    return -1


def _spaced_offsets(text: str, folded: str) -> Sequence[int]:
    """Return the position in ``text`` of each character of ``folded``, which is `spaced`.

    Worked out once per text, and only where something was found: it costs more than the search.
    """
    if text.isascii() and len(folded) == len(text):
        return range(len(text))
    offsets: list[int] = []
    is_gap = False
    for position, char in enumerate(text):
        if char.isspace():
            is_gap = bool(offsets)
            continue
        if is_gap:
            offsets.append(position - 1)
            is_gap = False
        offsets.extend([position] * len(char.casefold()))
    return offsets


class StandardMentions:
    """Searcher of the texts and metadata of the runs of one inventory, any case."""

    def __init__(self) -> None:
        self._skills: dict[str, list[int]] = {}
        self._files: dict[str, list[int]] = {}
        self._memories: dict[str, list[int]] = {}
        self._grams: Grams | None = None

    def want(self, index: int, arm: Arm) -> None:
        """Add an arm to look for; ``index`` is its index in the inventory."""
        _STANDARD_WANTS[arm.type](self, index, arm)

    def ready(self) -> None:
        """Build the index of memories once all arms are added."""
        if self._memories:
            self._grams = Grams.of(self._memories)

    def search(self, run: Run) -> Iterator[tuple[int, Where, str]]:
        """Yield index, kind and surroundings of each mention; an arm may come more than once."""
        if self._skills or self._files:
            text = Haystack.of(run.texts, str.casefold)
            yield from _words(self._files, text, "text", _FILE_TIES)
            yield from _words(self._skills, text, "text", _SKILL_TIES)
        if self._skills:
            metadata = Haystack.of([call.metadata for call in run.calls], str.casefold)
            yield from _words(self._skills, metadata, "metadata", _SKILL_TIES)
        if self._grams is not None:
            for index, excerpt in self._grams.search(run.texts):
                yield index, "text", excerpt

    def _skill(self, index: int, arm: Arm) -> None:
        _add(self._skills, skill_name(arm.key).casefold(), index)

    def _file(self, index: int, arm: Arm) -> None:
        # A path has the file name at its end, after a slash, which starts a word:
        # looking for the file name alone finds both.
        path = arm.name.replace("\\", "/").rstrip("/")
        _add(self._files, path.rsplit("/", 1)[-1].casefold(), index)

    def _memory(self, index: int, arm: Arm) -> None:
        if arm.content is not None:
            _add(self._memories, spaced(arm.content), index)


_STANDARD_WANTS: Final[dict[ArmType, Callable[[StandardMentions, int, Arm], None]]] = {
    "skill": StandardMentions._skill,
    "file": StandardMentions._file,
    "memory": StandardMentions._memory,
}


def _words(
    names: dict[str, list[int]], hay: Haystack, where: Where, ties: str
) -> Iterator[tuple[int, Where, str]]:
    for name, places in names.items():
        start = find_word(hay.folded, name, ties)
        if start >= 0:
            excerpt = hay.excerpt(start, start + len(name))
            for index in places:
                yield index, where, excerpt


def _add(names: dict[str, list[int]], name: str, index: int) -> None:
    if name.strip():  # a blank name would be found everywhere
        names.setdefault(name, []).append(index)


class OpenclawMentions:
    """Searcher of the texts and metadata of the runs of one inventory.

    A name counts wherever its letters occur, also inside another word (``go`` in ``category``). Case is taken away
    by lower-casing, which keeps ``ß`` and ``ss`` apart. A memory's label is its content; without one, as in
    OpenClaw's own ids, it is the arm's name.
    """

    def __init__(self) -> None:
        self._skills: dict[str, list[int]] = {}
        self._files: dict[str, list[int]] = {}
        self._short: dict[str, list[int]] = {}
        self._prefixes: dict[re.Pattern[str], list[int]] = {}

    def want(self, index: int, arm: Arm) -> None:
        """Add an arm to look for; ``index`` is its index in the inventory."""
        _OPENCLAW_WANTS[arm.type](self, index, arm)

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


_OPENCLAW_WANTS: Final[dict[ArmType, Callable[[OpenclawMentions, int, Arm], None]]] = {
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
