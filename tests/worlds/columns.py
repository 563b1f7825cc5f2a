"""Arm columns for tests, from a few plain lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.columns import UNKNOWN, ArmColumns
from core.records.arm import MICRO, arm_type


def arms(
    keys: Sequence[str],
    *,
    successes: Sequence[float] | None = None,
    failures: Sequence[float] | None = None,
    pulls: Sequence[int] | None = None,
    costs: Sequence[int] | None = None,
    inclusions: Sequence[int] | None = None,
    last_at_ms: Sequence[int] | None = None,
    prior: tuple[float, float] = (1.0, 1.0),
) -> ArmColumns:
    """Columns of ``keys`` (sorted already), each with the same prior; what is left out is 0 or unknown."""
    n_arms = len(keys)
    good = np.zeros(n_arms) if successes is None else np.array(successes, dtype=np.float64)
    bad = np.zeros(n_arms) if failures is None else np.array(failures, dtype=np.float64)
    n_pulls = (good + bad).astype(np.int64) if pulls is None else np.array(pulls, dtype=np.int64)
    alpha = np.full(n_arms, round(prior[0] * MICRO), dtype=np.int64)
    beta = np.full(n_arms, round(prior[1] * MICRO), dtype=np.int64)
    return ArmColumns(
        keys=tuple(keys),
        types=tuple(arm_type(key) for key in keys),
        prior_alpha_micro=alpha,
        prior_beta_micro=beta,
        base_alpha_micro=alpha,
        base_beta_micro=beta,
        success_micro=np.round(good * MICRO).astype(np.int64),
        failure_micro=np.round(bad * MICRO).astype(np.int64),
        pulls=n_pulls,
        part_micro=0 * n_pulls,
        inclusions=n_pulls if inclusions is None else np.array(inclusions, dtype=np.int64),
        token_cost=np.full(n_arms, UNKNOWN) if costs is None else np.array(costs, dtype=np.int64),
        epoch=np.zeros(n_arms, dtype=np.int64),
        last_at_ms=np.full(n_arms, UNKNOWN) if last_at_ms is None else np.array(last_at_ms, dtype=np.int64),
    )
