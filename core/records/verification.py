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


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Comparison of every cache with the fold of its facts, and the first ``differences``.

    ``servers``: those of a cluster with the tables, empty for one server. ``replayed`` and ``not_replayed`` count the
    stored selections whose draws could and could not be drawn again: with the same NumPy, from the same beliefs.
    ``heads`` are those of the learners' chains, by learner. A requested head that no chain has is a difference.
    """

    clean: bool
    learners: tuple[str, ...]
    n_differences: int
    differences: tuple[tuple[str, Difference], ...]
    servers: tuple[str, ...] = ()
    replayed: int = 0
    not_replayed: int = 0
    heads: dict[str, str] = field(default_factory=dict)
