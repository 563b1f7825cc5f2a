"""Selection: arms chosen under the budget, with draws and reasons; replayable from its seed."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

Reason = Literal["seed", "under_explored", "draw", "baseline", "passive", "budget", "k"]
"""Why an arm is in (first five) or out (``budget``: did not fit; ``k``: enough arms were in)."""

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
LEFT_OUT: Final[frozenset[Reason]] = frozenset({"budget", "k"})


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One arm of a selection.

    ``draw`` is the number drawn from its posterior (None where none was drawn), ``rank`` its place in the
    order the budget was filled, from 1; ``budget_left`` what was left when its turn came (None = unlimited).
    """

    arm: str
    included: bool
    reason: Reason
    rank: int
    token_cost: int
    draw: float | None = None
    budget_left: int | None = None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into the next prompt, and why; enough to replay it.

    ``seed`` is the generator's, as text because it may exceed 64 bits. ``over_budget``: seed arms alone
    exceed it. ``truncated``: a baseline run left arms out for lack of budget.
    """

    run_class: Literal["baseline", "selected", "passive", "fallback"]
    decisions: tuple[Decision, ...]
    seed: str
    baseline_prob: float
    settings_hash: str
    revision: int
    budget_tokens: int = 0
    over_budget: bool = False
    truncated: bool = False
    guidance: str | None = None

    @property
    def included(self) -> tuple[str, ...]:
        return tuple(decision.arm for decision in self.decisions if decision.included)

    @property
    def excluded(self) -> tuple[str, ...]:
        return tuple(decision.arm for decision in self.decisions if not decision.included)

    @property
    def tokens(self) -> int:
        return sum(decision.token_cost for decision in self.decisions if decision.included)
