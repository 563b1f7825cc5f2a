"""Page of evidence: a finding of the overview with its numbers, its rows, and the act that fits."""

from __future__ import annotations

from dashboard.widgets import findings

known = findings.requested()
if known is not None:
    findings.draw(known)
