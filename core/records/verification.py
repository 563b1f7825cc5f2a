"""Verification: whether every cache equals the fold of its facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Difference(NamedTuple):
    """One thing that is not as the facts, or the file's own rules, say."""

    table: str
    key: str
    stored: str
    recomputed: str


def unprovable_words(until: int) -> str:
    """Return the words about a learner of which a person accepted a difference that nothing explains.

    >>> unprovable_words(12)
    'not provable up to act 12'
    """
    return f"not provable up to act {until:,}"


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Comparison of every cache with the fold of its facts, and the first ``differences``.

    ``servers``: those of a cluster with the tables, empty for one server. ``replayed`` and ``not_replayed`` count the
    stored selections whose draws could and could not be drawn again: with the same NumPy, from the same beliefs.
    ``heads`` are those of the learners' chains, by learner. A requested head that no chain has is a difference.
    ``unprovable`` holds, by learner, the last act up to which nothing proves the facts.
    """

    clean: bool
    learners: tuple[str, ...]
    n_differences: int
    differences: tuple[tuple[str, Difference], ...]
    servers: tuple[str, ...] = ()
    replayed: int = 0
    not_replayed: int = 0
    heads: dict[str, str] = field(default_factory=dict)
    unprovable: dict[str, int] = field(default_factory=dict)
