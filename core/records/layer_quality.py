"""Layer quality: what evaluations made of a layer, as it is read back."""

from __future__ import annotations

import msgspec


class JudgedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that was judged, or the head of an adapter one of whose layers was.

    ``quality`` is what evaluations added up to (`core.quality`), ``n_judged`` from how many; a head's are those of
    all layers of its adapter. ``index`` 0 = unknown, 1 = it is the head; ``head`` None where its adapter has none.
    ``rated_ms`` (UTC milliseconds) and ``rater`` are of the last one.
    """

    uid: str
    adapter: str | None
    adapter_name: str | None
    index: int
    label: str | None
    bare: bool
    head: str | None
    n_judged: int
    successes: int
    failures: int
    quality: float
    rated_ms: int | None
    rater: str | None

    @property
    def is_head(self) -> bool:
        return self.head == self.uid


class BareLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer of which only the name is known, and its number of evaluations."""

    uid: str
    n_judged: int
