"""Skills, files and memories in texts, by mode, and the whole words and other spellings by which names are found.

``standard`` finds skills and files as whole words, and memories by any 20 characters of their content, white space
folded, any case. ``openclaw`` finds them by substring, as OpenClaw does.

A letter, digit or underscore next to a name makes it part of a longer word;
so does a hyphen (for files also a dot) that ties it to one: ``pdf`` is not in ``pdf-forms``, ``app.py``
neither in ``my-app.py`` nor in ``app.py.bak``, but both may end a sentence. Scripts that put no spaces
between words (Chinese, Japanese, Thai, ...) or glue particles to them (Korean) never lengthen a word, else a
file name in such a sentence could not be recognised at all.

Spellings of a tool that a server offers. Clients write ``mcp__S__T``, ``S.T`` or ``S/T`` for the tool T of the
server S, which is the arm ``tool:S:T``. All four are one tool. A bare ``T`` names no server, so only the arm of that
name matches it.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from core.records.arm import Arm, skill_name
from core.records.evidence import EXCERPT_CHARS, Where
from core.records.javascript import first_units, units
from core.records.limits import NUL
from core.records.run import Run

MEMORY_WINDOW_CHARS: Final = 20
"""Number of consecutive characters of a memory's content that make a reference in a text."""
_GRAM: Final = 10
_DENSE_CONTENT_CHARS: Final = 100_000  # above this, keep every 11th 10-gram: memory matters more than speed
_SKILL_TIES: Final = "-"
SHORT_UNITS: Final = 20
"""A memory of fewer UTF-16 units is searched whole, in its own case."""
PREFIX_UNITS: Final = 60
"""Number of units of a longer memory that are searched."""
_CODES_PER_HIGH: Final = 0x400


# Every window of 20 characters holds 11 consecutive starting places of a 10-gram. So it is enough to keep all
# 10-grams of the contents and to look up every 11th of a text, or the other way round.
_STRIDE: Final = MEMORY_WINDOW_CHARS - _GRAM + 1

# Between texts: no arm id can hold it and it belongs to no word.
_SEPARATOR: Final = "\0"

_SPACELESS_STARTS: Final = (0x0E00, 0x1000, 0x1100, 0x1780, 0x2E80, 0xA960, 0xAC00, 0xF900, 0xFF66, 0x20000)
_SPACELESS_ENDS: Final = (0x0F00, 0x10A0, 0x1200, 0x1800, 0xA000, 0xA980, 0xD800, 0xFB00, 0xFFDD, 0x40000)

Fold = Callable[[str], str]
"""Function that removes case: `str.casefold` or `str.lower`. Neither makes a text shorter."""

_MCP: Final = "mcp__"
_SEPARATORS: Final = "./"


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


class Mentions(ABC):
    """Searcher of the texts and metadata of runs of one inventory: arms are added first, then runs are searched."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._skills: dict[str, list[int]] = {}
        self._files: dict[str, list[int]] = {}

    def want(self, index: int, arm: Arm) -> None:
        """Add an arm to look for; ``index`` is its index in the inventory."""
        if arm.type == "skill":
            self._skills.setdefault(self._fold(skill_name(arm.key)), []).append(index)
        elif arm.type == "file":
            self._files.setdefault(self._fold(self._file_name(arm)), []).append(index)
        else:
            self._want_memory(index, arm)

    def search(self, run: Run) -> Iterator[tuple[int, Where, str]]:
        """Yield index, kind and surroundings of each mention; an arm may come more than once."""
        if self._skills or self._files:
            text = Haystack.of(run.texts, self._fold)
            yield from self._named(self._files, text, "text", ".-")
            yield from self._named(self._skills, text, "text", _SKILL_TIES)
        if self._skills:
            metadata = Haystack.of([call.metadata for call in run.calls], self._fold)
            yield from self._named(self._skills, metadata, "metadata", _SKILL_TIES)
        for index, excerpt in self._quotations(run.texts):
            yield index, "text", excerpt

    def _named(
        self, names: dict[str, list[int]], hay: Haystack, where: Where, ties: str
    ) -> Iterator[tuple[int, Where, str]]:
        for name, places in names.items():
            start = self._find(hay.folded, name, ties)
            if start >= 0:
                excerpt = hay.excerpt(start, start + len(name))
                yield from ((index, where, excerpt) for index in places)

    @abstractmethod
    def _file_name(self, arm: Arm) -> str: ...

    @abstractmethod
    def _want_memory(self, index: int, arm: Arm) -> None: ...

    @abstractmethod
    def _find(self, text: str, name: str, ties: str) -> int:
        """Return the position of a name in a text, or -1."""

    @abstractmethod
    def _quotations(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield the arm index of each memory in the texts, with its surroundings."""


class StandardMentions(Mentions):
    """The mode ``standard``: whole words, any case."""

    def __init__(self) -> None:
        super().__init__(str.casefold)
        self._memories: dict[str, list[int]] = {}

    @cached_property
    def _grams(self) -> Grams:
        """The index of memories, once all arms are added."""
        return Grams.of(self._memories)

    def _file_name(self, arm: Arm) -> str:
        # A path has the file name at its end, after a slash, which starts a word:
        # looking for the file name alone finds both.
        return arm.name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]

    def _want_memory(self, index: int, arm: Arm) -> None:
        if arm.content is not None and arm.content.strip():
            self._memories.setdefault(spaced(arm.content), []).append(index)

    def _find(self, text: str, name: str, ties: str) -> int:
        return find_word(text, name, ties) if name.strip() else -1  # a blank name would be found everywhere

    def _quotations(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        return self._grams.search(texts) if self._memories else iter(())


class OpenclawMentions(Mentions):
    """The mode ``openclaw``.

    A name counts wherever its letters occur, also inside another word (``go`` in ``category``). Case is taken away
    by lower-casing, which keeps ``ß`` and ``ss`` apart. A memory's label is its content; without one, as in
    OpenClaw's own ids, it is the arm's name.
    """

    def __init__(self) -> None:
        super().__init__(str.lower)
        self._short: dict[str, list[int]] = {}
        self._prefixes: dict[re.Pattern[str], list[int]] = {}

    def _file_name(self, arm: Arm) -> str:
        return arm.name

    def _want_memory(self, index: int, arm: Arm) -> None:
        label = arm.name if arm.content is None else arm.content
        if units(label) < SHORT_UNITS:
            self._short.setdefault(label, []).append(index)
        else:
            self._prefixes.setdefault(_pattern(first_units(label, PREFIX_UNITS).lower()), []).append(index)

    def _find(self, text: str, name: str, ties: str) -> int:  # noqa: ARG002 - no word is a whole one
        return text.find(name)

    def _quotations(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        for text in texts if self._short or self._prefixes else ():
            for label, places in self._short.items():
                start = text.find(label)
                if start >= 0:
                    excerpt = excerpt_of(text, start, start + len(label))
                    yield from ((index, excerpt) for index in places)
            hay = Haystack.of([text], str.lower)
            for prefix, places in self._prefixes.items():
                match = prefix.search(hay.folded)
                if match is not None:
                    excerpt = hay.excerpt(*match.span())
                    yield from ((index, excerpt) for index in places)


def _pattern(prefix: str) -> re.Pattern[str]:
    """Return the prefix as a literal pattern, in which half a character matches all that begin with that half."""
    last = ord(prefix[-1])
    if not 0xD800 <= last < 0xDC00:
        return re.compile(re.escape(prefix))
    first = 0x10000 + (last - 0xD800) * _CODES_PER_HIGH
    halves = f"[{prefix[-1]}{chr(first)}-{chr(first + _CODES_PER_HIGH - 1)}]"
    return re.compile(re.escape(prefix[:-1]) + halves)


# Words


def find_word(text: str, name: str, ties: str = "-") -> int:
    """Return the position of ``name`` in ``text`` outside any longer word, or -1.

    ``ties`` are the characters that join two words into one when both sides are letters or digits.
    """
    start = text.find(name)
    while start >= 0:
        if not _lengthened(text, start - 1, -1, ties) and not _lengthened(text, start + len(name), 1, ties):
            return start
        start = text.find(name, start + 1)
    return -1


def _lengthened(text: str, position: int, step: int, ties: str) -> bool:
    """Return whether the character at ``position``, just outside a name, continues the word in direction ``step``."""
    if not 0 <= position < len(text):
        return False
    if _in_word(text[position]):
        return True
    beyond = position + step
    return text[position] in ties and 0 <= beyond < len(text) and _in_word(text[beyond])


def _in_word(char: str) -> bool:
    if char.isascii():
        return char.isalnum() or char == "_"
    if not (char.isalnum() or unicodedata.category(char)[0] == "M"):
        return False
    span = bisect_right(_SPACELESS_STARTS, ord(char)) - 1
    return span < 0 or ord(char) >= _SPACELESS_ENDS[span]


@dataclass(frozen=True)
class Haystack:
    """Texts of a run, searched in one piece, any case."""

    text: str
    folded: str
    fold: Fold

    @classmethod
    def of(cls, texts: Iterable[str], fold: Fold) -> Haystack:
        text = _SEPARATOR.join(texts)
        return cls(text, fold(text), fold)

    def excerpt(self, start: int, end: int) -> str:
        """Return the surroundings, within one text, of the part of ``folded`` from ``start`` to ``end``."""
        if len(self.folded) != len(self.text):  # a letter such as ß or İ folds into two
            offsets = [position for position, char in enumerate(self.text) for _ in self.fold(char)]
            start, end = offsets[start], offsets[end - 1] + 1
        lowest = self.text.rfind(_SEPARATOR, 0, start) + 1
        highest = self.text.find(_SEPARATOR, end)
        return excerpt_of(self.text[lowest : highest if highest >= 0 else None], start - lowest, end - lowest)


def excerpt_of(text: str, start: int, end: int) -> str:
    """Return at most 160 characters of ``text`` with the part from ``start`` to ``end`` in the middle. NUL becomes
    the replacement character.

    >>> excerpt_of("see README.md for more", 4, 13)
    'see README.md for more'
    """
    spare = max(EXCERPT_CHARS - (end - start), 0)
    lowest = max(0, min(start - spare // 2, len(text) - EXCERPT_CHARS))
    return text[lowest : lowest + EXCERPT_CHARS].replace(NUL, "\ufffd")


def spellings(arm: Arm) -> Iterator[str]:
    """Yield other names of calls that mean a tool arm; one may come twice.

    >>> list(spellings(Arm(key="tool:github:create_issue")))
    ['mcp__github__create_issue', 'github.create_issue', 'github/create_issue']
    >>> list(spellings(Arm(key="tool:other:github.create_issue")))[3:]
    ['mcp__github__create_issue', 'github.create_issue', 'github/create_issue']
    """
    yield from _written(arm.category, arm.name)
    yield from (name for server, tool in _read(arm.name) for name in _written(server, tool))


def names_a_server(name: str) -> bool:
    """Return whether a call's name may be such a spelling.

    >>> names_a_server("mcp__github__create_issue"), names_a_server("github.create_issue"), names_a_server("Read")
    (True, True, False)
    """
    return any(_read(name))


def _written(server: str, tool: str) -> Iterator[str]:
    yield f"{_MCP}{server}__{tool}"
    yield from (f"{server}{separator}{tool}" for separator in _SEPARATORS)


def _read(name: str) -> Iterator[tuple[str, str]]:
    """Yield the server and tool that a name contains, if any."""
    if name.startswith(_MCP):
        server, _, tool = name.removeprefix(_MCP).partition("__")
        if server and tool:
            yield server, tool
    for separator in _SEPARATORS:
        server, _, tool = name.partition(separator)
        if server and tool:
            yield server, tool
