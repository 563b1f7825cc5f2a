"""Sentences of the search: what was found, and what was searched."""

from __future__ import annotations

from collections import Counter
from typing import Final

from core.records.search import SearchAnswer, SearchHit
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_MIDDLE: Final = 46
"""Characters of the words in a sentence."""


def search(answer: SearchAnswer) -> Sentence:
    """Return how much was found, kind by kind."""
    words = wording.short(answer.words.strip(), _MIDDLE)
    if not answer.hits:
        return composed(Phrase("Nothing"), f" was found for “{words}”.")
    counts = Counter(one.kind for one in answer.hits)
    parts = [
        Words(f"{'more than ' if kind in answer.more else ''}{wording.things(n, kind)}")
        for kind, n in counts.items()
    ]
    return composed(
        Phrase(wording.listed(parts)), f" {'was' if len(answer.hits) == 1 else 'were'} found for “{words}”."
    )


def searched(answer: SearchAnswer) -> Markdown:
    """Return what was searched, and how words are compared."""
    kinds = wording.listed([Words(f"{kind}s") for kind in answer.searched])
    more = " Add a word to see the rest of a kind." if answer.more else ""
    if not answer.hits:
        return Markdown(f"Searched: {kinds}. Each word must occur, in any case.")
    return Markdown(f"Searched: {kinds}. Each word must occur, in any case. A click opens a hit.{more}")


def name(one: SearchHit) -> str:
    """Return the name of a hit as plain text, the middle left out where it is long."""
    return wording.cut_middle(wording.plain(one.title), _MIDDLE)
