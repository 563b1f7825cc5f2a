"""Quotations of memories in a text: any 20 consecutive characters of their content, white space folded, any case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from core.detect.words import excerpt_of

MEMORY_WINDOW_CHARS: Final = 20
"""Number of consecutive characters of a memory's content that make a reference in a text."""

_GRAM: Final = 10
# Every window of 20 characters holds 11 consecutive starting places of a 10-gram. So it is enough to keep all
# 10-grams of the contents and to look up every 11th of a text, or the other way round.
_STRIDE: Final = MEMORY_WINDOW_CHARS - _GRAM + 1
_DENSE_CONTENT_CHARS: Final = 100_000  # above this, keep every 11th 10-gram: memory matters more than speed


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
