"""Path of the belief in one arm: its state at the end of each day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.columns import UNKNOWN, ArmDays, Floats, Ints
from core.maths.posterior.beta import interval
from core.maths.statistics.summary import PROB
from core.records.arm import MICRO
from core.records.times import DAY_MS


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Start of an arm's epoch: ``epoch`` is the reset's revision, ``alpha_micro`` and ``beta_micro`` the counts it
    starts from. The first is epoch 0, since ever.
    """

    since_ms: int
    epoch: int
    alpha_micro: int
    beta_micro: int


@dataclass(frozen=True, kw_only=True)
class Path:
    """Belief at the end of each day, aligned arrays; ``day`` counts days since 1970 UTC and leaves none out.

    ``pulls`` (whole) and ``inclusions`` are those of the epoch up to that day. An arm without any day known has none.
    """

    day: Ints
    epoch: Ints
    alpha: Floats
    beta: Floats
    mean: Floats
    lower: Floats
    upper: Floats
    pulls: Ints
    inclusions: Ints
    prob: float

    def __len__(self) -> int:
        return len(self.day)

    def index(self, day: int) -> int | None:
        """Return the index of a day in the path: the last one for later days, None before the first."""
        if not len(self.day) or day < int(self.day[0]):
            return None
        return min(day - int(self.day[0]), len(self.day) - 1)


def path(
    gathered: ArmDays,
    *,
    boundaries: Sequence[Boundary],
    first_day: int,
    last_day: int,
    prob: float = PROB,
) -> Path:
    """Return the belief at the end of each day from ``first_day`` to ``last_day``, epoch by epoch.

    Of a day counts the epoch of the latest boundary (by revision) before its end; in it everything up to that
    day, and what has no day, which may be earlier. So a day's belief equals the store's "as of" the
    day's end. Means come from whole numbers of millionths; the interval is the exact equal-tailed one.

    Parameters
    ----------
    gathered : ArmDays
        What one arm's observations add up to by epoch and day.
    boundaries : sequence of Boundary
        Active resets of the arm, and its beginning, with their priors.
    first_day : int
        First day, counted since 1970 UTC.
    last_day : int
        Last one.
    prob : float, optional
        Probability that the interval holds, in (0, 1).

    Returns
    -------
    Path
        A row for each day.

    Raises
    ------
    InvalidInput
        Unless ``prob`` lies strictly between 0 and 1.
    """
    days = np.arange(first_day, max(last_day, first_day - 1) + 1, dtype=np.int64)
    epochs, base_alpha, base_beta = _epochs(days, boundaries)
    amounts = np.stack(
        [
            gathered.inclusions,
            gathered.pulls,
            gathered.part_micro,
            gathered.success_micro,
            gathered.failure_micro,
        ]
    )
    totals = np.zeros((len(amounts), len(days)), dtype=np.int64)
    for epoch in np.unique(epochs):
        within, own = epochs == epoch, gathered.epoch == epoch
        sums = np.concatenate(
            [np.zeros((len(amounts), 1), dtype=np.int64), np.cumsum(amounts[:, own], axis=1)],
            axis=1,
            dtype=np.int64,
        )
        totals[:, within] = sums[:, np.searchsorted(gathered.day[own], days[within], side="right")]
    inclusions, pulls, part, success, failure = totals
    alpha_micro, beta_micro = base_alpha + success, base_beta + failure
    alpha, beta = alpha_micro / MICRO, beta_micro / MICRO
    lower, upper = interval(alpha, beta, prob)
    return Path(
        day=days,
        epoch=epochs,
        alpha=alpha,
        beta=beta,
        mean=alpha_micro / (alpha_micro + beta_micro),
        lower=lower,
        upper=upper,
        pulls=pulls + part // MICRO,
        inclusions=inclusions,
        prob=prob,
    )


def _epochs(days: Ints, boundaries: Sequence[Boundary]) -> tuple[Ints, Ints, Ints]:
    """Return the epoch in force at the end of each day, and the counts it started from."""
    epoch, alpha, beta = (np.zeros(len(days), dtype=np.int64) for _ in range(3))
    for boundary in sorted(boundaries, key=lambda one: one.epoch):
        after = days >= (boundary.since_ms // DAY_MS if boundary.epoch else UNKNOWN)
        epoch[after], alpha[after], beta[after] = boundary.epoch, boundary.alpha_micro, boundary.beta_micro
    return epoch, alpha, beta
