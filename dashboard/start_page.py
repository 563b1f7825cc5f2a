"""Start page: Streamlit's own, with our script before its scripts; what every address begins with."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import streamlit as st

from dashboard.configuration import PACKAGE
from dashboard.pages import PAGES

_STREAMLITS: Final = Path(st.__file__).parent / "static" / "index.html"
_SCRIPTS: Final = _STREAMLITS.parent / "static" / "js"
_OURS: Final = PACKAGE / "browser.js"
_HEAD: Final = b"<head>"


@dataclass(frozen=True, kw_only=True)
class StartPage:
    """The page as it is sent, what it is known by, and what a policy names its scripts by."""

    html: bytes
    tag: str
    scripts: tuple[str, ...]


@cache
def start_page(path: str = "") -> StartPage:
    """Return the start page below a base path, made once in a process. Its addresses begin at the root.

    >>> page = start_page("/armscope")
    >>> page.html.index(b"Back, once") < page.html.index(b"prerenderReady"), len(page.scripts)
    (True, 2)
    >>> page.html.count(b'"./'), page.html.count(b'"/armscope/static/css'), page.scripts == start_page().scripts
    (0, 1, True)
    """
    before, head, after = _STREAMLITS.read_bytes().partition(_HEAD)
    names = " ".join(page.name for page in PAGES)
    charts = " ".join(page.name for page in PAGES if page.has_chart)
    chart = next((file.name for file in _SCRIPTS.glob("PlotlyChart.*.js")), "")
    ours = f'<script data-path="{path}" data-pages="{names}" data-charts="{charts}" data-chart="{chart}">'
    html = b"".join((before, head, ours.encode(), _OURS.read_bytes(), b"</script>", after))
    html = html.replace(b'"./', f'"{path}/'.encode())
    return StartPage(html=html, tag=f'"{hashlib.sha256(html).hexdigest()[:32]}"', scripts=_digests(html))


def _digests(html: bytes) -> tuple[str, ...]:
    """Return the hashes of the scripts inside the page."""
    scripts = re.findall(rb"<script(?: data[^>]*)?>(.*?)</script>", html, re.DOTALL)
    return tuple(base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts)
