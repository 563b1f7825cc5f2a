"""Sentences of the pages, one file per page: first sentences and the notes beside pictures.

A sentence is a tuple of parts. A `Phrase` is one of its one or two key phrases, which the page colours. Every part is
Markdown already: foreign text has passed `wording.literal`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.wording import Markdown


@dataclass(frozen=True)
class Phrase:
    """A key phrase of a sentence."""

    text: Markdown


Sentence = tuple[Markdown | Phrase, ...]


def composed(*parts: Markdown | Phrase) -> Sentence:
    """Return a sentence of its parts."""
    return parts
