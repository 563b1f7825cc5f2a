"""Planted worlds: the interval of alpha leaves the truth out as rarely as it says, at either end."""

from __future__ import annotations

import numpy as np
import pytest

from core.maths.statistics.agreement import agreement
from tests.statistics.agreement.worlds import Panel, outcomes, scores

N_WORLDS = 240
MOST_MISSED = 13
"""Of 240 ends that leave out 2.5 %, 6 are expected and more than 13 come by chance in one of 300."""


def check(truth: float, panels: list[Panel], metric: str, least: int = N_WORLDS) -> None:
    """Check how often the truth lies below the interval or above it, and how often there is an interval."""
    below = above = n = 0
    for number, panel in enumerate(panels):
        found = agreement(
            panel.item,
            panel.value,
            "interval" if metric == "interval" else "nominal",
            seed=number,
            n_resamples=400,
        )
        if found.lower is not None and found.upper is not None:
            assert found.alpha is not None
            assert -1 <= found.lower <= found.alpha <= found.upper <= 1
            n += 1
            below += truth < found.lower
            above += truth > found.upper
    assert n >= least
    assert below <= MOST_MISSED
    assert above <= MOST_MISSED


@pytest.mark.parametrize("n_items", [12, 50])
@pytest.mark.parametrize("share", [0.5, 0.85, 0.95])
@pytest.mark.parametrize("know", [0.0, 0.6, 0.97])
def test_of_outcomes(know: float, share: float, n_items: int) -> None:
    rng = np.random.default_rng([31, n_items, int(100 * share), int(100 * know)])
    panels = [outcomes(rng, n_items, share=share, know=know) for _ in range(N_WORLDS)]
    check(know**2, panels, "nominal", N_WORLDS // 3 + 1)


@pytest.mark.parametrize("n_items", [12, 50])
@pytest.mark.parametrize("truth", [0.0, 0.5, 0.9])
def test_of_scores(truth: float, n_items: int) -> None:
    rng = np.random.default_rng([32, n_items, int(100 * truth)])
    panels = [scores(rng, n_items, alpha=truth) for _ in range(N_WORLDS)]
    check(truth, panels, "interval")


def test_of_gaps() -> None:
    rng = np.random.default_rng(33)
    panels = []
    for _ in range(N_WORLDS):
        whole = outcomes(rng, 60, share=0.7, know=0.8, n_raters=4)
        panels.append(whole.where(rng.random(len(whole.item)) < 0.6))
    check(0.64, panels, "nominal")


def test_it_is_not_needlessly_wide() -> None:
    """With many items it is what the plain standard error says."""
    rng = np.random.default_rng(34)
    found = [
        agreement(panel.item, panel.value, "nominal", seed=1)
        for panel in (outcomes(rng, 800, share=0.5, know=0.9) for _ in range(60))
    ]
    alphas = np.array([one.alpha for one in found], dtype=np.float64)
    width = np.array([(one.upper or 0) - (one.lower or 0) for one in found])
    assert width.mean() == pytest.approx(2 * 1.96 * alphas.std(ddof=1), rel=0.25)


def test_few_items_that_agree_are_not_called_reliable() -> None:
    for n_items, word in ((9, None), (10, "too uncertain to judge"), (14, "tentative"), (40, "reliable")):
        item = np.repeat(np.arange(n_items), 3)
        found = agreement(item, (item % 2).astype(np.int64), "nominal", seed=1)
        assert (found.alpha, found.word) == (1.0, word)
    assert found.upper == 1


def test_four_ways_of_not_being_reliable_have_four_words() -> None:
    """Raters who guess, who contradict each other, who know little, and who judged too few items together."""
    rng = np.random.default_rng(41)
    guessing = outcomes(rng, 400, share=0.5, know=0.0)
    opposed = np.repeat(np.arange(40), 2), np.tile(np.array([0, 1], dtype=np.int64), 40)
    knowing_little = outcomes(rng, 400, share=0.5, know=0.6)
    few = outcomes(np.random.default_rng(41), 20, share=0.5, know=0.8)
    for (item, value), word in (
        ((guessing.item, guessing.value), "possibly by chance"),
        (opposed, "worse than chance"),
        ((knowing_little.item, knowing_little.value), "low"),
        ((few.item, few.value), "too uncertain to judge"),
    ):
        found = agreement(item, value, "nominal", seed=1)
        assert found.word == word, (found.lower, found.upper)


def test_the_same_seed_gives_the_same_interval() -> None:
    panel = outcomes(np.random.default_rng(35), 40, share=0.6, know=0.7)
    first, again, other = (agreement(panel.item, panel.value, "nominal", seed=seed) for seed in (4, 4, 5))
    assert first == again
    assert first.lower != other.lower
