"""What was saved in all, in tokens."""

from __future__ import annotations

import numpy as np
import pytest

from core.columns import UNKNOWN
from tests.worlds.usage import Counted, amounts, group, savings_of

TWO_MODELS = [
    *group("baseline", amounts(1, 40, 1_000), model="small"),
    *group("baseline", amounts(2, 15, 10_000), model="large"),
    *group("selected", amounts(3, 100, 700), model="small"),
    *group("selected", amounts(4, 300, 7_000), model="large"),
]


def test_one_stratum_saves_its_difference_in_every_selected_run() -> None:
    result = savings_of(group("baseline", amounts(1, 40, 9_000)) + group("selected", amounts(2, 200, 6_000)))
    per_run, in_all = result.overall.tokens_saved, result.tokens.saved
    assert (result.tokens.n_runs, result.tokens.n_uncounted) == (200, 0)
    for each, total in (
        (per_run.value, in_all.value),
        (per_run.lower, in_all.lower),
        (per_run.upper, in_all.upper),
    ):
        assert each is not None
        assert total == pytest.approx(200 * each, rel=1e-12)


def test_strata_count_with_their_own_selected_runs() -> None:
    result = savings_of(TWO_MODELS)
    by_hand = sum(
        row.selected.n_known * ((row.baseline.mean_tokens or 0) - (row.selected.mean_tokens or 0))
        for row in result.by_model
    )
    assert result.tokens.saved.value == pytest.approx(by_hand, rel=1e-12)
    assert result.tokens.n_runs == 400


def test_the_path_ends_at_the_total_and_names_what_has_no_day() -> None:
    runs = [
        Counted(run_class="baseline", tokens=one, hour=24 * 20_000 + 7 * at)
        for at, one in enumerate(amounts(1, 40, 9_000))
    ]
    runs += [Counted(tokens=one, hour=24 * 20_002 + 2 * at) for at, one in enumerate(amounts(2, 150, 6_000))]
    tokens = savings_of(runs).tokens
    assert np.isnan(tokens.path[:2]).all()
    assert (tokens.path[-1], tokens.lower[-1], tokens.upper[-1]) == pytest.approx(
        (tokens.saved.value, tokens.saved.lower, tokens.saved.upper)
    )
    undated = savings_of([*runs, Counted(hour=UNKNOWN)])
    assert undated.over_time.n_undated == 1
    assert undated.tokens.n_runs == 151


def test_a_stratum_without_baseline_runs_saves_nothing_anyone_could_defend() -> None:
    alone = savings_of([*TWO_MODELS, *group("selected", [5] * 9, model="new")]).tokens
    assert (alone.n_runs, alone.n_uncounted) == (400, 9)
    assert alone.saved == savings_of(TWO_MODELS).tokens.saved
    nothing = savings_of(group("selected", [5] * 9)).tokens
    assert (nothing.saved.missing, nothing.n_runs, nothing.n_uncounted) == ("no_baseline_runs", 0, 9)
    assert len(savings_of([]).tokens.path) == 0
