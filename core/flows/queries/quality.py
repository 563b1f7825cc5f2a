"""Quality: layers by what those who judged them made of them, and layers that are only named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.flows.context import Context
from core.records.layer_quality import BareLayer, JudgedLayer
from core.store.reads.layers import bare_layers, judged_layers, n_bare_layers, n_judged_layers

LAYERS_SHOWN: Final = 50


@dataclass(frozen=True, kw_only=True)
class LayersSeen:
    """Layers that were judged, the best first, and layers of which only the name is known, the most judged first.

    ``n_judged`` and ``n_bare`` are how many there are of each; the lists stop at a limit.
    """

    judged: tuple[JudgedLayer, ...]
    n_judged: int
    bare: tuple[BareLayer, ...]
    n_bare: int


def layers(context: Context, *, limit: int = LAYERS_SHOWN) -> LayersSeen:
    """Layers by quality with their heads, and bare ones."""
    with context.reading() as snapshot:
        return LayersSeen(
            judged=judged_layers(snapshot, limit=limit),
            n_judged=n_judged_layers(snapshot),
            bare=bare_layers(snapshot, limit=limit),
            n_bare=n_bare_layers(snapshot),
        )
