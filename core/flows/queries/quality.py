"""Quality of layers: those with evaluations, and those of which only the id is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.flows.context import Context
from core.records.layer_quality import BareLayer, JudgedLayer
from core.store.reads.layers import bare_layers, judged_layers, n_bare_layers, n_judged_layers

LAYERS_SHOWN: Final = 50


@dataclass(frozen=True, kw_only=True)
class LayersView:
    """Judged layers, the best first, and bare layers, the most judged first.

    ``n_judged`` and ``n_bare`` count all of them. The lists stop at a limit.
    """

    judged: tuple[JudgedLayer, ...]
    n_judged: int
    bare: tuple[BareLayer, ...]
    n_bare: int


def layers(context: Context, *, limit: int = LAYERS_SHOWN) -> LayersView:
    """List layers by quality with their heads, and bare layers."""
    with context.reading() as snapshot:
        return LayersView(
            judged=judged_layers(snapshot, limit=limit),
            n_judged=n_judged_layers(snapshot),
            bare=bare_layers(snapshot, limit=limit),
            n_bare=n_bare_layers(snapshot),
        )
