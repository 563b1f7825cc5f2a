"""Comparing of the beliefs that a file states with the result of its own runs and this learner's priors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from core.formats import Stated
from core.observe import outcome_arms, reward_of_flag
from core.records.arm import MICRO, arm_type
from core.records.import_answer import BeliefDifference
from core.records.judged import Judged
from core.records.learner import LearnerSettings

_SAME: Final = 1e-6
"""Maximum difference in pseudo-counts of two equal beliefs: exports round."""


class StatedBeliefs:
    """Beliefs that one file states, and the counts of its runs for the same arms."""

    def __init__(self) -> None:
        self._stated: dict[str, Stated] = {}
        self._folded: Counter[tuple[str, bool]] = Counter()

    @property
    def has_stated(self) -> bool:
        """True if the file states a belief."""
        return bool(self._stated)

    def state(self, belief: Stated) -> None:
        """Add a stated belief. Beliefs come before the runs."""
        self._stated[belief.arm] = belief

    def fold(self, judged: Judged) -> None:
        """Count a run for the arms with a stated belief."""
        if not self._stated:
            return
        for arm, flag in zip(outcome_arms(judged.run), judged.flags, strict=True):
            reward = reward_of_flag(flag)
            if reward is not None and arm in self._stated:
                self._folded[arm, reward > 0] += 1

    def differences(self, settings: LearnerSettings) -> Iterator[BeliefDifference]:
        """Yield stated beliefs that differ from the result of the runs."""
        for stated in self._stated.values():
            difference = self._difference(stated, settings)
            if difference is not None:
                yield difference

    def _difference(self, stated: Stated, settings: LearnerSettings) -> BeliefDifference | None:
        prior = settings.priors.of(arm_type(stated.arm))
        used, unused = self._folded[stated.arm, True], self._folded[stated.arm, False]
        alpha = prior.alpha_micro / MICRO + used
        beta = prior.beta_micro / MICRO + unused
        is_same = abs(alpha - stated.alpha) <= _SAME and abs(beta - stated.beta) <= _SAME
        if is_same and stated.pulls == used + unused:
            return None
        return BeliefDifference(
            arm=stated.arm,
            stated_alpha=stated.alpha,
            stated_beta=stated.beta,
            stated_pulls=stated.pulls,
            alpha=alpha,
            beta=beta,
            pulls=used + unused,
        )
