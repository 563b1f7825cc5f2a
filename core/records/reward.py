"""Reward: what somebody asks to be recorded of an arm, and what they are answered."""

from __future__ import annotations

from typing import Literal

import msgspec

from core.errors import InvalidInput, InvalidReward, NotApplicable
from core.records.arm import check_key
from core.records.observation import (
    OUTCOME_REWARDS,
    RewardOutcome,
    check_reason,
    check_request_key,
    check_reward,
    reward_of,
)
from core.records.request import digest


class RewardAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded and where the posterior stands after it. ``rounded``: finer than a millionth."""

    id: str
    arm: str
    kind: Literal["feedback", "correction"]
    reward: float
    run: str | None
    lagged: bool
    alpha: float
    beta: float
    mean: float
    pulls: int
    rounded: bool = False


class RewardOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One manual reward as a caller asks for it; checked when made.

    An explicit ``value`` wins over the ``outcome``; neither means accepted. ``correct`` replaces the automatic
    observation of the arm in ``run``; else one more observation is added, in that run's epoch. ``seen`` is the
    newest reward by hand about the arm in that run that the caller knows of ("" = none): a newer one is a conflict.

    >>> RewardOrder(arm="tool:fs:Read", outcome="rejected").reward
    0.0
    """

    arm: str
    value: float | None = None
    outcome: RewardOutcome | None = None
    reason: str | None = None
    run: str | None = None
    correct: bool = False
    key: str | None = None
    create: bool = False
    seen: str | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_key(self.arm)
        if self.outcome is not None and self.outcome not in OUTCOME_REWARDS:
            raise InvalidReward(
                f"An outcome must be one of {', '.join(OUTCOME_REWARDS)}, got {str(self.outcome)[:40]!r}.",
                next_step="Correct it, or send a number from 0 to 1; nothing was recorded.",
            )
        reward_of(self.value, self.outcome)
        check_reason(self.reason)
        check_request_key(self.key)
        if self.correct and self.run is None:
            raise InvalidInput(
                "A correction must name the run it corrects, got none.",
                next_step="Add the run, or send it as feedback.",
            )

    @property
    def reward(self) -> float:
        return reward_of(self.value, self.outcome)

    def payload(self) -> int:
        """Digest of what the caller said, times and what it knew left out; 1 and 1.0 say the same."""
        value = None if self.value is None else check_reward(self.value)
        return digest(msgspec.structs.replace(self, key=None, value=value, seen=msgspec.UNSET))


def not_in_prompt(arm: str, run_no: int) -> NotApplicable:
    """The error for a reward of an arm that names a run which was without it."""
    return NotApplicable(
        f"{arm} was not in the prompt of run {run_no}, so that run says nothing about it.",
        next_step="Leave the run out to reward the arm by itself.",
    )
