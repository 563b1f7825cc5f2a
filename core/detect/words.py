"""Names in sentences: whole words, and the texts that are searched for them.

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

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from core.records.arm import Arm
from core.records.evidence import EXCERPT_CHARS
from core.records.limits import NUL

# Between texts: no arm id can hold it and it belongs to no word.
_SEPARATOR: Final = "\0"

_SPACELESS_STARTS: Final = (0x0E00, 0x1000, 0x1100, 0x1780, 0x2E80, 0xA960, 0xAC00, 0xF900, 0xFF66, 0x20000)
_SPACELESS_ENDS: Final = (0x0F00, 0x10A0, 0x1200, 0x1800, 0xA000, 0xA980, 0xD800, 0xFB00, 0xFFDD, 0x40000)

Fold = Callable[[str], str]
"""Function that removes case: `str.casefold` or `str.lower`. Neither makes a text shorter."""

_MCP: Final = "mcp__"
_SEPARATORS: Final = "./"


def find_word(text: str, name: str, ties: str = "-") -> int:
    """Return the position of ``name`` in ``text`` outside any longer word, or -1.

    ``ties`` are the characters that join two words into one when both sides are letters or digits.

    >>> find_word("recoding, then coding.", "coding"), find_word("pdf-forms", "pdf")
    (15, -1)
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
