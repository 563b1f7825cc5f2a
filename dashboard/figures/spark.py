"""Values by day → a line without axes under a key figure, as an image that says in words what it shows.

Streamlit's own, in `st.metric`, has no text for those who can't see it and fills the console with warnings.
"""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from dashboard.figures.theme import Tokens

_WIDE: Final = 100.0
_HIGH: Final = 30.0
_EDGE: Final = 2.0
_HEIGHT_PX: Final = 52


def spark(values: Sequence[float], look: Tokens, *, alt: str) -> str:
    """Return the line as HTML; ``alt`` is its text. It fills the width it is given.

    >>> from dashboard.figures.theme import LIGHT
    >>> spark([1.0, 2.0], LIGHT, alt="Runs")[:43]
    '<img alt="Runs" style="display:block;width:'
    """
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE:g} {_HIGH:g}" preserveAspectRatio="none">'
        f'<polyline points="{_points(values)}" fill="none" stroke="{look.gray}" stroke-width="1.8" '
        'stroke-linejoin="round" vector-effect="non-scaling-stroke"/></svg>'
    )
    address = f"data:image/svg+xml;base64,{b64encode(picture.encode()).decode('ascii')}"
    style = f"display:block;width:100%;height:{_HEIGHT_PX}px"
    return f'<img alt="{html.escape(alt)}" style="{style}" src="{address}">'


def _points(values: Sequence[float]) -> str:
    """Return the line from the left edge to the right, lowest value at the bottom; a constant one is centred.

    >>> _points([1.0, 3.0, 2.0])
    '0,28 50,2 100,15'
    """
    low, span = min(values), max(values) - min(values)
    step = _WIDE / max(len(values) - 1, 1)
    share = [(value - low) / span if span else 0.5 for value in values]
    return " ".join(
        f"{at * step:.4g},{_HIGH - _EDGE - (_HIGH - 2 * _EDGE) * part:.4g}" for at, part in enumerate(share)
    )
