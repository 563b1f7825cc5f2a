"""Verdict of the guard about a run, with its reason."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

SkipReason = Literal["conversational", "aborted", "error", "passive"]
SKIP_REASONS: Final[tuple[SkipReason, ...]] = get_args(SkipReason)
Outcome = Literal["observed", "conversational", "aborted", "error", "passive", "empty"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """``observed``, or the reason why nothing is updated; ``empty`` runs are no runs at all.

    >>> Verdict(outcome="conversational").observed
    False
    """

    outcome: Outcome

    @property
    def observed(self) -> bool:
        return self.outcome == "observed"
