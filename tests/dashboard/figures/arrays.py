"""Arms as arrays, for figures that need no store."""

from __future__ import annotations

import numpy as np

from core.columns import ArmColumns
from core.records.arm import MICRO, arm_type


def columns_of(keys: tuple[str, ...], pulls: list[int], successes: list[int]) -> ArmColumns:
    """Arms with a uniform prior and these counts, sorted by id as the store hands them out."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    names = tuple(keys[at] for at in order)
    n_pulls = np.array([pulls[at] for at in order], dtype=np.int64)
    success = np.array([successes[at] for at in order], dtype=np.int64) * MICRO
    one = np.full(len(keys), MICRO, dtype=np.int64)
    return ArmColumns(
        keys=names,
        types=tuple(arm_type(key) for key in names),
        prior_alpha_micro=one,
        prior_beta_micro=one,
        base_alpha_micro=one,
        base_beta_micro=one,
        success_micro=success,
        failure_micro=n_pulls * MICRO - success,
        pulls=n_pulls,
        part_micro=0 * n_pulls,
        inclusions=n_pulls,
        token_cost=np.full(len(keys), 100, dtype=np.int64),
        epoch=np.zeros(len(keys), dtype=np.int64),
        last_at_ms=np.full(len(keys), -1, dtype=np.int64),
    )
