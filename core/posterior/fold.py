"""Observations → counts: whole numbers in millionths, so that any order gives the same sum, bit for bit.

Adding is commutative and associative, `revert` undoes `add`, and the merge of parts is the whole. A count
below zero is not refused while summing (an undo may be read before what it undoes); `check` refuses it then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from core.errors import InvalidInput
from core.records.arm import Prior
from core.records.observation import Amount


@dataclass(frozen=True, slots=True)
class Counts:
    """What was observed of one arm; the prior is not in it.

    >>> counts = Counts().add(Amount.of(1.0)).add(Amount.of(0.25))
    >>> counts
    Counts(success_micro=1250000, failure_micro=750000, pulls=2)
    >>> counts.revert(Amount.of(0.25)) == Counts().add(Amount.of(1.0))
    True
    """

    success_micro: int = 0
    failure_micro: int = 0
    pulls: int = 0

    def add(self, amount: Amount) -> Counts:
        """One more observation."""
        return Counts(
            self.success_micro + amount.success_micro,
            self.failure_micro + amount.failure_micro,
            self.pulls + 1,
        )

    def revert(self, amount: Amount) -> Counts:
        """One observation less."""
        return Counts(
            self.success_micro - amount.success_micro,
            self.failure_micro - amount.failure_micro,
            self.pulls - 1,
        )

    def correct(self, standing: Amount, amount: Amount) -> Counts:
        """An observation replaced by another one; the pulls stay."""
        return self.revert(standing).add(amount)

    def merge(self, other: Counts) -> Counts:
        """Counts of two disjoint sets of observations together."""
        return Counts(
            self.success_micro + other.success_micro,
            self.failure_micro + other.failure_micro,
            self.pulls + other.pulls,
        )

    def split(self, other: Counts) -> Counts:
        """What is left when ``other``, merged before, is taken out."""
        return Counts(
            self.success_micro - other.success_micro,
            self.failure_micro - other.failure_micro,
            self.pulls - other.pulls,
        )

    def check(self) -> Counts:
        """Return the counts if none is below zero, else raise `InvalidInput`."""
        if min(self.success_micro, self.failure_micro, self.pulls) < 0:
            raise InvalidInput(
                f"Counts must be 0 or more, got {self}.",
                next_step="Something was taken out that was never added; run armscope verify.",
            )
        return self

    def posterior(self, prior: Prior) -> Prior:
        """The belief these counts lead to, in millionths.

        >>> uniform = Prior(alpha_micro=1_000_000, beta_micro=1_000_000)
        >>> Counts(4_000_000, 1_000_000, 5).posterior(uniform).alpha
        5.0
        """
        return Prior(
            alpha_micro=prior.alpha_micro + self.success_micro,
            beta_micro=prior.beta_micro + self.failure_micro,
        )


NOTHING: Final = Counts()
"""The counts of no observation: merging it changes nothing."""


def fold(amounts: Iterable[Amount]) -> Counts:
    """Counts of all these observations, in any order.

    >>> fold([Amount.of(0.0), Amount.of(1.0)])
    Counts(success_micro=1000000, failure_micro=1000000, pulls=2)
    """
    counts = NOTHING
    for amount in amounts:
        counts = counts.add(amount)
    return counts
