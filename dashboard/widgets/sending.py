"""Sending forms: what their pages share with the browser."""

from __future__ import annotations

from typing import Final

SEND_HERE: Final = "send here"
"""Key of what holds the button that Ctrl + Enter presses from wherever the focus is; once on a page."""
JUDGE_BAR: Final = "judge-bar"
"""Key of the buttons of a judgement that stay in view in a narrow window."""
JUDGE_EFFECT: Final = "judge-effect"
"""Key of the button that shows the effect of a chosen level; the browser presses it after a pause."""
