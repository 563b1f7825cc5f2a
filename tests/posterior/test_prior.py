from __future__ import annotations

import numpy as np

from core.posterior.prior import columns_of, prior_micro, pseudo_count, pseudo_counts
from core.records.arm import ARM_TYPES, CURATED, UNIFORM, Prior
from core.records.learner import Priors


def test_each_type_has_its_prior() -> None:
    alpha, beta = prior_micro(ARM_TYPES, Priors(memory=Prior(alpha_micro=1, beta_micro=2)))
    expected = {"tool": CURATED, "skill": CURATED, "file": UNIFORM, "section": UNIFORM}
    for place, one in enumerate(ARM_TYPES):
        prior = expected.get(one, Prior(alpha_micro=1, beta_micro=2))
        assert (alpha[place], beta[place]) == (prior.alpha_micro, prior.beta_micro)


def test_weight_in_pseudo_counts() -> None:
    alpha, beta = columns_of([CURATED, UNIFORM])
    assert pseudo_counts(alpha, beta).tolist() == [pseudo_count(CURATED), pseudo_count(UNIFORM)] == [4.0, 2.0]
    assert columns_of([])[0].dtype == np.int64
