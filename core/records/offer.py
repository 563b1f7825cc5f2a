"""Selections for foreign clients, and the reports that clients send arm by arm."""

from __future__ import annotations

from typing import Final

import msgspec

from core.errors import InvalidInput
from core.records.limits import MAX_LABEL_CHARS, text, whole
from core.records.observation import RewardOutcome, check_reason, reward_of
from core.records.selection import Selection

MAX_COUNT: Final = 10**12
"""Upper bound of ``k``, ``min_pulls`` and a budget, above any real number of arms or tokens."""
MAX_BOOST: Final = 1e9


class SelectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one selection; None = the learner's setting. 0 is no limit for ``k`` and ``budget_tokens``.

    ``seed_arms`` replace the learner's seeds. ``seed_boost`` is the initial alpha of seeds that are new to the
    learner, beside a beta of 1. Without seeds it applies to every offered arm.
    """

    k: int | None = 1
    budget_tokens: int | None = None
    min_pulls: int | None = None
    seed_arms: tuple[str, ...] | None = None
    seed_boost: float | None = None

    def __post_init__(self) -> None:
        for name in ("k", "budget_tokens", "min_pulls"):
            value = getattr(self, name)
            if value is not None:
                whole(name, value, MAX_COUNT)
        if self.seed_boost is not None and not 0 < self.seed_boost <= MAX_BOOST:
            raise InvalidInput(
                f"seed_boost must be above 0 and at most 10^9, got {self.seed_boost:g}.",
                next_step="Use the alpha that seed arms are to start with, for example 2.",
            )


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A stored selection; ``number`` None = no arm was offered, so no report can follow."""

    number: int | None
    selection: Selection | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A client's report about an arm: a number from 0 to 1, which wins, or an outcome; neither means accepted.

    ``session`` names the session of the offer; None = any. ``is_lagged``: a person reported it later, so it is a
    reward of its own and not the outcome of a run.
    """

    arm: str
    value: float | None = None
    outcome: RewardOutcome | None = None
    reason: str | None = None
    session: str | None = None
    is_lagged: bool = False

    def __post_init__(self) -> None:
        reward_of(self.value, self.outcome)
        check_reason(self.reason)
        if self.session is not None:
            text("A session's key", self.session, MAX_LABEL_CHARS)

    @property
    def reward(self) -> float:
        return reward_of(self.value, self.outcome)


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a report: the arm's posterior.

    ``run`` is the run that it belongs to. ``id`` is the act that `undo` takes; None = it became the run's outcome.
    """

    arm: str
    run: str | None
    id: str | None
    alpha: float
    beta: float
    mean: float
    pulls: int


class ArmState(msgspec.Struct, frozen=True, kw_only=True):
    """An arm of which something is known beyond its type's prior; ``last_updated`` is ISO 8601, None: no pull."""

    arm: str
    alpha: float
    beta: float
    mean: float
    pulls: int
    total_reward: float
    last_updated: str | None


class States(msgspec.Struct, frozen=True, kw_only=True):
    """Beliefs of the arms by id, and the learner's chance of a baseline run."""

    arms: tuple[ArmState, ...]
    baseline_rate: float


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A client's session; times are ISO 8601, ``ended_at`` None: it goes on."""

    uid: str
    learner: str
    name: str
    started_at: str
    ended_at: str | None
