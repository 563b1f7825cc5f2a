"""Unread observations: rewards that no posterior includes, counted from the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.flows.context import Context
from core.store import reads

UnreadReason = Literal["no_arm", "no_run", "no_observation", "not_in_posterior"]


@dataclass(frozen=True, kw_only=True)
class UnreadArm:
    """Observations of one arm that no posterior includes, and the reason."""

    arm: str
    reason: UnreadReason
    n: int


@dataclass(frozen=True, kw_only=True)
class UnreadReport:
    """Check that every recorded observation is in a posterior.

    ``n_pulls`` are the pulls in the posteriors of the listed arms. Of the active rewards, ``n_present`` are in the
    present posteriors and ``n_earlier`` in those of closed epochs. ``n_replaced`` are superseded by a later
    correction. ``arms`` name the rest. ``query`` is the SQL that read the rewards.
    """

    n_pulls: int
    n_present: int
    n_earlier: int
    n_replaced: int
    arms: tuple[UnreadArm, ...]
    query: str

    @property
    def n_unread(self) -> int:
        return sum(one.n for one in self.arms)

    @property
    def n_rewards(self) -> int:
        """All active rewards. Those missing from a posterior are among the present ones."""
        missing = sum(one.n for one in self.arms if one.reason != "not_in_posterior")
        return self.n_present + self.n_earlier + self.n_replaced + missing


def unread(context: Context) -> UnreadReport:
    """Count the observations that no posterior includes."""
    with context.reading() as snapshot:
        rewards = reads.rewards_read(snapshot)
        present = {row.arm: row.pulls_micro for row in rewards if row.reader == "present"}
        held = reads.pulls_held(snapshot, present)
    counts = dict.fromkeys(("present", "earlier", "replaced"), 0)
    arms: list[UnreadArm] = []
    for row in rewards:
        match row.reader:
            case "present" | "earlier" | "replaced":
                counts[row.reader] += row.n
            case _:
                arms.append(UnreadArm(arm=row.arm, reason=row.reader, n=row.n))
    arms += [UnreadArm(arm=arm, reason="not_in_posterior", n=n) for arm, n in held.short]
    if held.hidden:
        arms.append(UnreadArm(arm="", reason="no_arm", n=held.hidden))
    return UnreadReport(
        n_pulls=held.listed,
        n_present=counts["present"],
        n_earlier=counts["earlier"],
        n_replaced=counts["replaced"],
        arms=tuple(arms),
        query=reads.REWARDS_READ,
    )
