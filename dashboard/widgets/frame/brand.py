"""Brand: icon and logo as data addresses, read once; by file name, Streamlit reads them again in every rerun."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import Final, Literal

from dashboard.configuration import PACKAGE

_FOLDER: Final = PACKAGE / "brand"


@cache
def picture(name: Literal["icon", "logo-light", "logo-dark"]) -> str:
    """One of our pictures.

    >>> picture("icon")[:26]
    'data:image/svg+xml;base64,'
    """
    return f"data:image/svg+xml;base64,{b64encode((_FOLDER / f'{name}.svg').read_bytes()).decode('ascii')}"
