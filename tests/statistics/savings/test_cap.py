"""Cap: relative to each model, exact from sums, and no way to hide runaway runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import Floats, Ints, token_bucket
from core.maths.statistics.savings import Comparison, savings
from core.maths.statistics.savings.cap import capped, relative_caps
from tests.worlds.savings import World
from tests.worlds.savings import answers_by_ratio as estimates
from tests.worlds.usage import Counted, sessions_of, tossed, usage_of


def buckets(tokens: Ints) -> Ints:
    return np.array([token_bucket(one) for one in tokens.tolist()])


def counted(tokens: Ints, pair: Ints, n_pairs: int) -> tuple[Floats, int]:
    bucket = buckets(tokens)
    first = int(bucket.min())
    counts = np.zeros((n_pairs, int(bucket.max()) - first + 1))
    np.add.at(counts, (pair, bucket - first), 1)
    return counts, first


@given(st.integers(0, 1_000), st.floats(0.2, 1.7), st.floats(1, 200))
def test_the_cap_is_the_percentile_of_runs_over_the_median_of_their_model(
    seed: int, spread: float, dearer: float
) -> None:
    chance = np.random.default_rng(seed)
    pair = (chance.random(4_000) < 0.1).astype(np.int64)
    tokens = np.rint(chance.lognormal(9, spread, 4_000) * np.where(pair, dearer, 1)).astype(np.int64) + 1
    caps, medians = relative_caps(*counted(tokens, pair, 2))
    true = np.array([np.median(tokens[pair == place]) for place in (0, 1)])
    assert medians == pytest.approx(true, rel=0.125), "as wide as a size class is"
    # Within a size class runs count as spread evenly: the narrower they lie, the more of them share the cap's class.
    assert (tokens > caps[pair]).mean() == pytest.approx(0.05, abs=0.006 if spread > 0.25 else 0.01)
    assert caps[0] / caps[1] == pytest.approx(medians[0] / medians[1])


def test_worlds_lead_and_a_model_without_runs_has_no_cap() -> None:
    counts = np.array([[[0.0, 100.0, 0.0], [0.0, 0.0, 0.0]], [[50.0, 0.0, 50.0], [0.0, 9.0, 0.0]]])
    caps, medians = relative_caps(counts, 80)
    assert np.isnan(medians[0, 1])
    assert np.isinf(caps[0, 1])
    for place in range(2):
        alone = relative_caps(counts[place], 80)
        assert caps[place] == pytest.approx(alone[0])


@given(st.integers(0, 1_000), st.integers(1, 400))
def test_capped_sums_are_those_of_the_runs(seed: int, n_rows: int) -> None:
    """Exactly so for rows of one run and of two, and within a thousandth where a class is added up."""
    chance = np.random.default_rng(seed)
    tokens = np.rint(chance.lognormal(9, 0.8, 3_000)).astype(np.int64) + 1
    cap = float(np.quantile(tokens, 0.95))
    cut = np.minimum(tokens, cap)
    bucket, squares = buckets(tokens), tokens.astype(np.float64) ** 2
    single = capped(np.ones_like(tokens), tokens, squares, bucket, np.full(3_000, cap))
    assert single.total == pytest.approx(cut)
    assert single.squares == pytest.approx(cut**2)
    assert (single.n_above == (tokens > cap)).all()
    _, row = np.unique(bucket * n_rows + chance.integers(0, n_rows, 3_000), return_inverse=True)
    n = np.bincount(row)
    parts = [np.bincount(row, weights=part) for part in (tokens, squares)]
    first = np.unique(row, return_index=True)[1]
    squared = np.asarray(parts[1], dtype=np.float64)
    added = capped(n, parts[0].astype(np.int64), squared, bucket[first], np.full(len(n), cap))
    assert added.total.sum() == pytest.approx(cut.sum(), rel=1e-3)
    assert added.squares.sum() == pytest.approx((cut**2).sum(), rel=2e-3)
    below = bucket[first] < token_bucket(int(cap))
    assert (added.total[below] == parts[0][below]).all()


def world(cheap: float, dear: float) -> Comparison:
    """Two models, the second thirty times as dear and rarely asked, and what selecting makes of each one's tokens."""
    chance, runs = np.random.default_rng(9), list[Counted]()
    for at in range(8_000):
        is_dear, is_baseline = chance.random() < 0.04, at % 10 == 0
        tokens = 2_000 * (30 if is_dear else 1) * chance.lognormal(-0.18, 0.6)
        tokens *= 1.0 if is_baseline else dear if is_dear else cheap
        name = "baseline" if is_baseline else "selected"
        runs.append(Counted(run_class=name, tokens=round(tokens), model="dear" if is_dear else "cheap"))
    drawn = tossed(runs)
    return savings(usage_of(drawn), sessions_of(drawn), baseline_rate=0.1, n_arms=5).overall


def test_a_cap_fabricates_no_savings_from_a_dear_model() -> None:
    """Selecting makes runs of the cheap model cheaper, of the dear one dearer, in all dearer. One cap for both models
    would cut only the dear one, and find 17 per cent saved.
    """
    overall = world(0.8, 1.5)
    assert overall.saved_percent.value is not None
    assert overall.saved_percent.value < -10
    assert overall.capped_percent.value is not None
    assert overall.capped_percent.value < -5
    assert overall.verdict == "costs_more"


@pytest.mark.parametrize(("spread", "other"), [(0.3, 1.7), (0.9, 0.9), (1.7, 1.3)])
def test_a_saving_in_all_runs_keeps_its_size_under_the_caps(spread: float, other: float) -> None:
    """One cap for both groups made 18 to 22 of these 25 per cent, the less the farther runs lie apart."""
    chance, runs = np.random.default_rng(7), list[Counted]()
    for at in range(1_200):
        is_dear = at % 3 == 0
        tokens = (200_000 if is_dear else 20_000) * chance.lognormal(0, other if is_dear else spread)
        for name, ratio in (("baseline", 1.0), ("selected", 0.75)):
            runs.append(
                Counted(run_class=name, tokens=round(tokens * ratio), model="dear" if is_dear else "cheap")
            )
    result = savings(usage_of(runs), sessions_of(runs), baseline_rate=0.5, n_arms=5)
    for part in (result.overall, *result.by_model):
        assert part.capped_percent.value == pytest.approx(25, abs=1)


def test_above_the_cap_is_told_of_each_group() -> None:
    overall = world(0.8, 0.8)
    for group in (overall.baseline, overall.selected):
        assert group.share_above is not None
        assert group.tokens_above is not None
        assert group.capped_tokens is not None
        assert 0.02 < group.share_above < 0.15
        assert group.tokens_above > 0
    assert overall.typical_percent.value == pytest.approx(20, abs=4)


@pytest.mark.parametrize(
    "planted",
    [World(n_runs=1_000, rate=0.2, spread=1.3), World(n_runs=1_200, rate=0.2, spread=0.9, n_models=6)],
)
def test_the_variance_allows_for_the_estimated_cap(planted: World) -> None:
    """That of fixed caps is about half of the variance among worlds."""
    answers = [one[1.0].capped for one in estimates(planted, 400, ratios=(1.0,))]
    ratios = np.concatenate([one.log_ratio for one in answers])
    errors = np.concatenate([one.log_variance for one in answers])
    known = np.isfinite(errors)
    assert float(errors[known].mean() / ratios[known].var()) == pytest.approx(1, abs=0.25)
