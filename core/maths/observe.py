"""(Run, Evidence) → Verdict → one narrow flag per arm, which is all that an automatic observation is.

Only a run in which the agent really called a tool says something about the arms. A small talk, an interrupted or a
failed request would otherwise count against every arm that was in its prompt. The arms in the prompt come first, in
the inventory's order, then those by name, then those left out. A flag says whether the arm was in (`INCLUDED`),
recognised (`REFERENCED`) and learned from (`OBSERVED`). An arm that was there by name (`NAMED`) is in from the call
that found it on, and nothing is learned: that it was used is why it is in.
"""

from __future__ import annotations

from typing import Final

from core.records.evidence import INCLUDED, NAMED, OBSERVED, REFERENCED, Evidence, Outcome, Verdict
from core.records.run import Phase, Run, Status

_LEARNED: Final = bytes.maketrans(b"\0\1", bytes([INCLUDED | OBSERVED, INCLUDED | REFERENCED | OBSERVED]))
_RECORDED: Final = bytes.maketrans(b"\0\1", bytes([INCLUDED, INCLUDED | REFERENCED]))
_BY_NAME: Final = bytes.maketrans(b"\0\1", bytes([NAMED, NAMED | INCLUDED | REFERENCED]))
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


def observe(run: Run, evidence: Evidence, verdict: Verdict) -> bytes:
    """Return the flags of `outcome_arms`, one byte each."""
    n_full = len(run.inventory.arms)
    referenced = bytes(evidence.referenced)
    included = referenced[:n_full].translate(_LEARNED if verdict.observed else _RECORDED)
    if run.unobserved and verdict.observed:
        unheard = frozenset(run.unobserved)
        included = bytes(
            flag & ~OBSERVED if arm.key in unheard else flag
            for arm, flag in zip(run.inventory.arms, included, strict=True)
        )
    return included + referenced[n_full:].translate(_BY_NAME) + bytes(len(run.excluded))


def outcome_arms(run: Run) -> tuple[str, ...]:
    """Return the ids aligned with `observe`: the arms in the prompt, those by name, and the excluded ones."""
    return (*[arm.key for arm in run.inventory.offered], *run.excluded)


def reward_of_flag(flag: int) -> float | None:
    """Return the automatic reward of one flag: 1 if used, 0 if not, None if nothing is learned.

    >>> reward_of_flag(INCLUDED | REFERENCED) is None
    True
    """
    if not flag & OBSERVED:
        return None
    return 1.0 if flag & REFERENCED else 0.0


def guard(run: Run, evidence: Evidence, phase: Phase = "active") -> Verdict:
    """Return ``observed``, or why nothing is learned.

    An empty run is no run in any phase. A run that failed after a real call is observed: the call was made.
    """
    if run.empty and not run.tokens:  # what was billed was answered, though no reply is shown
        return _VERDICTS["empty"]
    if phase == "passive":
        return _VERDICTS["passive"]
    if evidence.n_real_calls > 0:
        return _VERDICTS["observed"]
    return _VERDICTS[_SKIPPED[run.status]]
