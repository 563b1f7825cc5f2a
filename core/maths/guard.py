"""(Run, Evidence) → Verdict: may anything be learned from this run?

Only a run in which the agent really called a tool says something about the arms. A small talk, an interrupted
or a failed request would otherwise count against every arm that was in its prompt.
"""

from __future__ import annotations

from typing import Final

from core.records.evidence import Evidence, Outcome, Verdict
from core.records.run import Phase, Run, Status

# One object per outcome: verdicts are made by the hundred thousand.
_VERDICTS: Final[dict[Outcome, Verdict]] = {
    outcome: Verdict(outcome=outcome)
    for outcome in ("observed", "conversational", "aborted", "error", "passive", "empty")
}
_SKIPPED: Final[dict[Status, Outcome]] = {
    "completed": "conversational",
    "aborted": "aborted",
    "error": "error",
}


def guard(run: Run, evidence: Evidence, phase: Phase = "active") -> Verdict:
    """Return ``observed``, or why nothing is learned.

    An empty run is no run in any phase. A run that failed after a real call is observed: the call was made.

    Examples
    --------
    >>> from core.records.run import Inventory
    >>> run = Run(uid="r1", inventory=Inventory(kind="declared", arms=()), status="error")
    >>> guard(run, Evidence(referenced=())).outcome
    'error'
    >>> guard(run, Evidence(referenced=(), n_calls=1, n_real_calls=1)).outcome
    'observed'
    """
    if run.empty and not run.tokens:  # what was billed was answered, though no reply is shown
        return _VERDICTS["empty"]
    if phase == "passive":
        return _VERDICTS["passive"]
    if evidence.n_real_calls > 0:
        return _VERDICTS["observed"]
    return _VERDICTS[_SKIPPED[run.status]]
