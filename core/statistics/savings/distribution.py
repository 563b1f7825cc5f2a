"""Usage and the runs compared → how the tokens of each group are spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.columns import Floats, Ints, UsageColumns, bucket_bounds
from core.statistics.savings.runs import ComparedRuns
from core.statistics.savings.sums import BASELINE, SELECTED


@dataclass(frozen=True, kw_only=True)
class TokenDistribution:
    """Runs by size class of their tokens, from ``lower`` (inclusive) to ``upper`` (exclusive).

    One row per class from the smallest to the largest that occurs, empty ones in between included.
    ``density_*`` is the share of the group's runs per doubling of tokens (it adds up to 1 over log2), NaN for
    a group without runs.
    """

    lower: Floats
    upper: Floats
    n_baseline: Ints
    n_selected: Ints
    density_baseline: Floats
    density_selected: Floats


def distribution(usage: UsageColumns, runs: ComparedRuns) -> TokenDistribution:
    """Return the runs of both groups by size class."""
    bucket, n, group = usage.bucket[runs.is_known], usage.n[runs.is_known], runs.group[runs.is_known]
    first = int(bucket.min()) if len(bucket) else 0
    n_classes = int(bucket.max()) - first + 1 if len(bucket) else 0
    bounds = np.array([bucket_bounds(first + step) for step in range(n_classes)]).reshape(-1, 2)
    counts = [
        np.bincount(bucket[group == one] - first, weights=n[group == one], minlength=n_classes).astype(
            np.int64
        )
        for one in (BASELINE, SELECTED)
    ]
    doublings = np.log2(bounds[:, 1] / bounds[:, 0])
    densities = [
        count / count.sum() / doublings if count.sum() else np.full(n_classes, np.nan) for count in counts
    ]
    return TokenDistribution(
        lower=bounds[:, 0],
        upper=bounds[:, 1],
        n_baseline=counts[BASELINE],
        n_selected=counts[SELECTED],
        density_baseline=densities[BASELINE],
        density_selected=densities[SELECTED],
    )
