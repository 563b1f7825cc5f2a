"""Sentences of the pages, one file per page: first sentences and the notes beside pictures.

A sentence is a tuple of parts. A `Phrase` is one of its one or two key phrases, which the page colours. Every part is
Markdown already: foreign text has passed `wording.literal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from core.records.arm import Band
from dashboard.wording import Markdown


@dataclass(frozen=True)
class Phrase:
    """A key phrase of a sentence."""

    text: Markdown


Sentence = tuple[Markdown | Phrase, ...]


def composed(*parts: Markdown | Phrase) -> Sentence:
    """Return a sentence of its parts."""
    return parts


class Belief(Protocol):
    """One arm's belief before or after an act, as a preview hands it out."""

    @property
    def mean(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def pulls(self) -> int: ...
    @property
    def band(self) -> Band: ...
    @property
    def rank(self) -> int: ...
    @property
    def chance(self) -> float | None: ...
    @property
    def chance_error(self) -> float | None: ...
