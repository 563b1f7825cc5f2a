"""Priors as arrays: what an arm's belief starts from, in millionths and in pseudo-counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.columns import Floats, Ints
from core.records.arm import MICRO, ArmType, Prior
from core.records.learner import Priors


def prior_micro(types: Sequence[ArmType], priors: Priors) -> tuple[Ints, Ints]:
    """Alpha and beta of the learner's prior for each arm, in millionths.

    >>> alpha, beta = prior_micro(["tool", "file"], Priors())
    >>> alpha.tolist(), beta.tolist()
    ([3000000, 1000000], [1000000, 1000000])
    """
    return columns_of([priors.of(arm_type) for arm_type in types])


def columns_of(priors: Sequence[Prior]) -> tuple[Ints, Ints]:
    """Alpha and beta of each prior, in millionths.

    >>> columns_of([Prior(alpha_micro=5, beta_micro=7)])
    (array([5]), array([7]))
    """
    alpha = np.fromiter((prior.alpha_micro for prior in priors), dtype=np.int64, count=len(priors))
    beta = np.fromiter((prior.beta_micro for prior in priors), dtype=np.int64, count=len(priors))
    return alpha, beta


def pseudo_counts(alpha_micro: Ints, beta_micro: Ints) -> Floats:
    """Weight of a prior: as many whole observations as it is worth.

    >>> pseudo_counts(np.array([3_000_000]), np.array([1_000_000])).tolist()
    [4.0]
    """
    return np.asarray((alpha_micro + beta_micro) / MICRO)


def pseudo_count(prior: Prior) -> float:
    """Weight of one prior.

    >>> pseudo_count(Prior(alpha_micro=500_000, beta_micro=250_000))
    0.75
    """
    return (prior.alpha_micro + prior.beta_micro) / MICRO
