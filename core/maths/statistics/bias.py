"""Bias watch: evaluations → who judges, how each group of them judges, and what blocks an export.

A group is a value of any attribute: a rater, a version of the rubric, a kind of grader. What differs
between groups may differ because they judged different things; that raters part on the same things is another
question (`core.maths.statistics.parting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from core.columns import Bools, Floats, Ints
from core.errors import InvalidInput
from core.maths.statistics.savings.shares import share
from core.maths.statistics.savings.sums import MIN_FOR_FIGURE, MIN_FOR_INTERVAL, no_estimate
from core.records.estimate import Estimate

N_BINS: Final = 10
"""Classes of scores: [0, .1), [.1, .2), …, [.9, 1]."""


@dataclass(frozen=True, kw_only=True)
class GroupShares:
    """Number of evaluations of each group, and its share of all; ``shares`` are None without evaluations."""

    n: int
    counts: tuple[int, ...]
    shares: tuple[float, ...] | None


@dataclass(frozen=True, kw_only=True)
class GroupSpread:
    """Spread of the evaluations of one group.

    ``success`` is the share of successes with Wilson's interval. ``score`` is the mean of the ``n_scored`` scores
    that were given, with Student's interval; a score of 0 counts, an absent one doesn't. ``labels`` counts each
    label, ``bins`` the scores by tenths.
    """

    group: int
    n: int
    n_scored: int
    success: Estimate
    score: Estimate
    labels: tuple[int, ...]
    bins: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BlockerCount:
    """Number of evaluations that one blocker holds back, and of those that only it holds back."""

    name: str
    n: int
    n_alone: int


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Share of ``n`` evaluations that an export takes.

    ``sft`` and ``preference`` are shares of all with Wilson's interval; of the ``n_preference`` ready ones
    ``n_chosen`` are successes and ``n_rejected`` failures, and a pair needs one of each. Blockers in the order of
    their names as given, those that hold nothing back included.
    """

    n: int
    n_sft: int
    sft: Estimate
    n_chosen: int
    n_rejected: int
    preference: Estimate
    sft_blockers: tuple[BlockerCount, ...]
    preference_blockers: tuple[BlockerCount, ...]

    @property
    def n_preference(self) -> int:
        return self.n_chosen + self.n_rejected


def group_shares(group: Ints, n_groups: int) -> GroupShares:
    """Count the evaluations of each group, for example of each kind of grader.

    Parameters
    ----------
    group : array of int, shape (n_rows,)
        Of each evaluation, 0 to ``n_groups - 1``.
    n_groups : int
        Groups, 0 or more.

    Returns
    -------
    GroupShares
        Counts and shares in [0, 1]; all evaluations are known, so there is no interval.

    Raises
    ------
    InvalidInput
        Where a group is outside 0 to ``n_groups - 1``.

    Examples
    --------
    >>> group_shares(np.array([0, 1, 1, 1]), 3)
    GroupShares(n=4, counts=(1, 3, 0), shares=(0.25, 0.75, 0.0))
    """
    _check_codes(group, n_groups, "group")
    counts = np.bincount(group, minlength=n_groups)
    shares = tuple((counts / len(group)).tolist()) if len(group) else None
    return GroupShares(n=len(group), counts=tuple(counts.tolist()), shares=shares)


def spread_by_group(
    group: Ints,
    is_success: Bools,
    score: Floats,
    label: Ints,
    *,
    n_groups: int,
    n_labels: int,
    prob: float = 0.95,
) -> tuple[GroupSpread, ...]:
    """Return the spread of outcomes, scores and labels of each group.

    Fewer than 2 evaluations give no figure, fewer than 10 no interval; where all scores are the same there is no
    interval either (``no_variation``), because Student's would have no width however few they are.

    Parameters
    ----------
    group : array of int, shape (n_rows,)
        Of each evaluation, 0 to ``n_groups - 1``.
    is_success : array of bool, shape (n_rows,)
        Its outcome.
    score : array of float, shape (n_rows,)
        In [0, 1], NaN where none was given.
    label : array of int, shape (n_rows,)
        0 to ``n_labels - 1``.
    n_groups : int
        Groups, 0 or more.
    n_labels : int
        Labels, 0 or more.
    prob : float, optional
        Probability that each interval holds, in (0, 1).

    Returns
    -------
    tuple of GroupSpread, n_groups long
        By group; those without evaluations included.

    Raises
    ------
    InvalidInput
        Where a group, label or score is outside its range.

    References
    ----------
    * Student, *Biometrika* 6, 1908, 1 (doi:10.1093/biomet/6.1.1): the interval of a mean score.
    * E. B. Wilson, *J. Am. Stat. Assoc.* 22, 1927, 209 (doi:10.1080/01621459.1927.10502953): that of a share.

    Examples
    --------
    >>> group, label = np.array([0, 0, 1]), np.array([1, 0, 1])
    >>> good, score = np.array([True, False, True]), np.array([0.9, 0.7, np.nan])
    >>> first, second = spread_by_group(group, good, score, label, n_groups=2, n_labels=2)
    >>> first.success.value, round(first.score.value, 3), first.labels, second.score.missing
    (0.5, 0.8, (1, 1), 'few_runs')
    """
    _check_codes(group, n_groups, "group")
    _check_codes(label, n_labels, "label")
    has_score = ~np.isnan(score)
    outside = score[has_score & ~((score >= 0) & (score <= 1))]
    if len(outside):
        raise InvalidInput(
            f"score must be within 0..1, got {outside[0]}.", next_step="Leave it out, or send it in range."
        )
    n = np.bincount(group, minlength=n_groups)
    n_good = np.bincount(group[is_success], minlength=n_groups)
    labels = np.bincount(group * n_labels + label, minlength=n_groups * n_labels).reshape(n_groups, n_labels)
    bin_index = np.minimum((score[has_score] * N_BINS).astype(np.int64), N_BINS - 1)
    bins = np.bincount(group[has_score] * N_BINS + bin_index, minlength=n_groups * N_BINS)
    bins = bins.reshape(n_groups, N_BINS)
    return tuple(
        GroupSpread(
            group=one,
            n=int(n[one]),
            n_scored=int(bins[one].sum()),
            success=share(int(n_good[one]), int(n[one]), prob=prob),
            score=mean_score(score[has_score & (group == one)], prob=prob),
            labels=tuple(labels[one].tolist()),
            bins=tuple(bins[one].tolist()),
        )
        for one in range(n_groups)
    )


def mean_score(score: Floats, *, prob: float = 0.95) -> Estimate:
    """Return a mean score with Student's interval, kept within [0, 1].

    Student, *Biometrika* 6, 1908, 1 (doi:10.1093/biomet/6.1.1).
    """
    n = len(score)
    if n < MIN_FOR_FIGURE:
        return no_estimate("few_runs", prob)
    value = float(score.mean())
    if n < MIN_FOR_INTERVAL:
        return no_estimate("few_for_interval", prob, value)
    if score.min() == score.max():
        return no_estimate("no_variation", prob, value)
    half = float(scipy.special.stdtrit(n - 1, (1 + prob) / 2) * score.std(ddof=1) / np.sqrt(n))
    return Estimate(value=value, lower=max(value - half, 0.0), upper=min(value + half, 1.0), prob=prob)


def readiness(
    is_success: Bools,
    sft_blocked: Bools,
    preference_blocked: Bools,
    *,
    sft_names: Sequence[str],
    preference_names: Sequence[str],
    prob: float = 0.95,
) -> Readiness:
    """Return the share of evaluations that an export takes, and what blocks the others.

    Parameters
    ----------
    is_success : array of bool, shape (n_rows,)
        Outcome of each evaluation.
    sft_blocked : array of bool, shape (n_rows, n_sft_names)
        Which blockers hold it back from SFT rows.
    preference_blocked : array of bool, shape (n_rows, n_preference_names)
        Which hold it back from preference pairs.
    sft_names : sequence of str
        Names of these blockers.
    preference_names : sequence of str
        Names of those.
    prob : float, optional
        Probability that each interval holds, in (0, 1).

    Returns
    -------
    Readiness
        Counts, and shares in [0, 1].

    Raises
    ------
    InvalidInput
        Where a table has not a row an evaluation and a column a name.

    References
    ----------
    E. B. Wilson, *J. Am. Stat. Assoc.* 22, 1927, 209 (doi:10.1080/01621459.1927.10502953).
    """
    n = len(is_success)
    for table, names in ((sft_blocked, sft_names), (preference_blocked, preference_names)):
        if table.shape != (n, len(names)):
            raise InvalidInput(
                f"blockers must be a table of {n} evaluations by {len(names)} names, got {table.shape}.",
                next_step="Give one row an evaluation, one column a blocker.",
            )
    n_sft = int((~sft_blocked.any(axis=1)).sum())
    ready = ~preference_blocked.any(axis=1)
    n_chosen, n_rejected = int((ready & is_success).sum()), int((ready & ~is_success).sum())
    return Readiness(
        n=n,
        n_sft=n_sft,
        sft=share(n_sft, n, prob=prob),
        n_chosen=n_chosen,
        n_rejected=n_rejected,
        preference=share(n_chosen + n_rejected, n, prob=prob),
        sft_blockers=_counted(sft_blocked, sft_names),
        preference_blockers=_counted(preference_blocked, preference_names),
    )


def _counted(blocked: Bools, names: Sequence[str]) -> tuple[BlockerCount, ...]:
    alone = (blocked & (blocked.sum(axis=1) == 1)[:, None]).sum(axis=0).tolist()
    counts = zip(names, blocked.sum(axis=0).tolist(), alone, strict=True)
    return tuple(BlockerCount(name=name, n=n, n_alone=n_alone) for name, n, n_alone in counts)


def _check_codes(code: Ints, n: int, what: str) -> None:
    if len(code) and not 0 <= int(code.min()) <= int(code.max()) < n:
        wrong = int(code.min()) if int(code.min()) < 0 else int(code.max())
        raise InvalidInput(
            f"{what} must be 0 to {n - 1}, got {wrong}.", next_step=f"Number each {what} from 0."
        )
