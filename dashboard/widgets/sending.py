"""Sending forms: what their pages share with the browser."""

from __future__ import annotations

from typing import Final

SEND_HERE: Final = "send here"
"""Key of what holds the button that Ctrl + Enter presses from wherever the focus is; once on a page."""
