"""Drafts of the form of rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dashboard.widgets.drafts import Drafts

Outcome = Literal["accepted", "partial", "rejected", "number"]
Kind = Literal["Feedback", "Correction"]


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Content of the form; ``run`` and ``why`` as typed."""

    arm: str | None = None
    outcome: Outcome | None = None
    number: float | None = 0.5
    run: str = ""
    kind: Kind = "Feedback"
    why: str = ""


DRAFTS: Final = Drafts[Fields](bound=500)
"""Those of this server. Of two thousand characters at most each, they weigh a megabyte."""
