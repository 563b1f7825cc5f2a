"""Sessions: what is alike counts once; alone, a run is a session."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.columns import Floats, Ints
from core.maths.statistics.savings import Comparison, savings
from core.maths.statistics.savings.ratio import Compared, compare
from core.maths.statistics.savings.sessions import SessionEntries, SessionSums
from core.maths.statistics.savings.sums import StratumSums
from tests.worlds.usage import Counted, sessions_of, usage_of


def sums_of(cell: Ints, amount: Floats, shape: tuple[int, ...]) -> StratumSums:
    def added(part: Floats) -> Floats:
        found = np.bincount(cell, weights=part, minlength=int(np.prod(shape)))
        return np.asarray(found, dtype=np.float64).reshape(shape)

    return StratumSums(n=added(np.ones(len(cell))), total=added(amount), squares=added(amount**2))


def session_sums(cell: Ints, session: Ints, amount: Floats, *, complete: bool = True) -> SessionSums:
    """Add up runs, one entry each, by session and cell."""
    return SessionEntries(cell, session, complete=complete).sums(np.arange(len(cell)), amount)


def draw_runs(seed: int, n: int = 400, n_strata: int = 2, n_sessions: int = 60) -> tuple[Ints, Ints, Floats]:
    """Cells, sessions and amounts of runs in one go; sessions have a factor of their own."""
    chance = np.random.default_rng(seed)
    session = chance.integers(0, n_sessions, n)
    cell = chance.integers(0, 2 * n_strata, n)
    amount = chance.lognormal(3, 0.4, n) * chance.lognormal(0, 0.5, n_sessions)[session]
    return cell, session, amount


def same(one: Compared, other: Compared) -> None:
    for name in ("n", "n_sessions", "mean", "variance", "covariance", "df"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-12), name
    assert one.freedom == pytest.approx(other.freedom)


@given(st.integers(0, 500), st.booleans())
def test_runs_alone_are_what_sums_of_runs_say(seed: int, is_log: bool) -> None:
    cell, _, amount = draw_runs(seed)
    sums = sums_of(cell, amount, (2, 2))
    alone = session_sums(cell, np.arange(len(cell)), amount)
    same(compare(sums, alone, is_log=is_log), compare(sums, is_log=is_log))


@given(st.integers(0, 500))
def test_runs_told_ten_times_over_in_their_session_tell_no_more(seed: int) -> None:
    """Ten equal runs of one session are one run as far as the interval goes."""
    cell, _, amount = draw_runs(seed)
    once = compare(sums_of(cell, amount, (2, 2)))
    session = np.repeat(np.arange(len(cell)), 10)
    cell, amount = np.repeat(cell, 10), np.repeat(amount, 10)
    told = compare(sums_of(cell, amount, (2, 2)), session_sums(cell, session, amount))
    assert told.variance == pytest.approx(once.variance)
    assert told.df == pytest.approx(once.df)
    assert told.freedom == pytest.approx(once.freedom)
    assert (told.n == 10 * once.n).all()


@given(st.integers(0, 500))
def test_leading_places_are_computed_each_by_itself(seed: int) -> None:
    worlds = [draw_runs(seed + part) for part in range(3)]
    cell = np.concatenate([part[0] + 4 * place for place, part in enumerate(worlds)])
    session = np.concatenate([part[1] + 60 * place for place, part in enumerate(worlds)])
    amount = np.concatenate([part[2] for part in worlds])
    whole = compare(sums_of(cell, amount, (3, 2, 2)), session_sums(cell, session, amount))
    for place, (own_cell, own_session, own) in enumerate(worlds):
        alone = compare(sums_of(own_cell, own, (2, 2)), session_sums(own_cell, own_session, own))
        assert whole.log_variance[place] == pytest.approx(alone.log_variance)
        assert whole.freedom[place] == pytest.approx(alone.freedom)
        assert (whole.n_sessions[place] == alone.n_sessions).all()


def test_a_session_that_meets_both_groups_moves_both_means() -> None:
    """What a session has in common cancels where the coin is thrown for each run, and doubles nothing."""
    chance = np.random.default_rng(1)
    factor = chance.lognormal(0, 0.8, 200)
    session = np.repeat(np.arange(200), 2)
    cell = np.tile([0, 1], 200)
    amount = factor[session] * 100 * chance.lognormal(0, 0.05, 400)
    found = compare(sums_of(cell, amount, (1, 2)), session_sums(cell, session, amount))
    alone = compare(sums_of(cell, amount, (1, 2)))
    assert found.covariance > 0.9 * found.variance.max()
    assert found.log_variance < 0.02 * alone.log_variance


def test_the_variance_is_that_of_leaving_out_one_session_after_the_other() -> None:
    cell, session, amount = draw_runs(3, n_strata=1, n_sessions=12)
    found = compare(sums_of(cell, amount, (1, 2)), session_sums(cell, session, amount))
    kept = [session != one for one in range(12)]
    means = np.array([[amount[left & (cell == group)].mean() for group in (0, 1)] for left in kept])
    whole = np.array([amount[cell == group].mean() for group in (0, 1)])
    jackknife = 11 / 12 * ((means - whole) ** 2).sum(0)
    assert found.variance == pytest.approx(jackknife)


def test_sessions_drawn_at_random_stand_for_all() -> None:
    """The more that whole sessions vary than runs is taken from the sessions drawn; all runs say the rest."""
    cell, session, amount = draw_runs(5, n=60_000, n_sessions=6_000)
    sums, every = sums_of(cell, amount, (2, 2)), session_sums(cell, session, amount)
    some = np.isin(session, np.random.default_rng(0).choice(6_000, 900, replace=False))
    part = session_sums(cell[some], session[some], amount[some], complete=False)
    whole, estimated = compare(sums, every), compare(sums, part)
    assert (estimated.n == whole.n).all()
    assert estimated.mean == pytest.approx(whole.mean)
    assert estimated.log_variance == pytest.approx(whole.log_variance, rel=0.15)
    assert estimated.n_sessions == pytest.approx(whole.n_sessions, rel=0.05)
    assert estimated.df.max() < 900


def test_where_no_session_was_drawn_there_is_a_mean_and_no_interval() -> None:
    """The first days of a long time, say; the days after them are as they were."""
    cell, session, amount = draw_runs(5, n=600)
    late = session_sums(cell + 4, session, amount, complete=False)
    sums = sums_of(np.concatenate([cell, cell + 4]), np.tile(amount, 2), (2, 2, 2))
    told = compare(sums, late)
    assert told.has_interval.tolist() == [False, True]
    assert np.isfinite(told.mean).all()
    assert np.isnan(told.log_variance[0])
    assert (
        told.log_variance[1]
        == compare(sums_of(cell, amount, (2, 2)), replace(late, cell=late.cell - 4)).log_variance
    )


def test_a_subset_of_strata_keeps_its_own_entries() -> None:
    cell, session, amount = draw_runs(7, n_strata=3)
    every = session_sums(cell, session, amount)
    wanted = np.array([True, False, True])
    kept = np.isin(cell // 2, [0, 2])
    own = cell[kept] - 2 * (cell[kept] >= 4)
    there: SessionSums = every.strata(wanted)
    here = session_sums(own, session[kept], amount[kept])
    shape = (2, 2)
    assert (there.counts(shape) == here.counts(shape)).all()
    assert there.total.sum() == pytest.approx(here.total.sum())


def comparison_of(runs: list[Counted]) -> Comparison:
    return savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=5).overall


def sticky(n_sessions: int, n_runs: int) -> list[Counted]:
    """Sessions that keep their class, half of them baseline."""
    chance, runs = np.random.default_rng(2), list[Counted]()
    for session in range(n_sessions):
        factor = chance.lognormal(0, 0.3)
        for _ in range(n_runs):
            tokens = round(9_000 * factor * chance.lognormal(0, 0.2) * (1.0 if session % 2 else 0.5))
            name = "baseline" if session % 2 else "selected"
            own = f"s{session}"
            runs.append(Counted(run_class=name, tokens=tokens, session=own, draw=own, prob=0.5))
    return runs


def test_a_proof_takes_thirty_sessions_where_runs_come_in_sessions() -> None:
    few, many = comparison_of(sticky(58, 10)), comparison_of(sticky(62, 10))
    assert few.n_sessions == (29, 29)
    assert (few.verdict, few.reason) == ("not_proven", "few_sessions")
    assert (many.verdict, many.reason) == ("proven", "interval_above_zero")
    alone = comparison_of([replace(run, session=None) for run in sticky(58, 10)])
    assert alone.verdict == "proven"
    assert not alone.in_sessions


def test_three_sessions_have_no_interval_however_many_runs_they_have() -> None:
    overall = comparison_of(sticky(6, 200))
    assert overall.baseline.n_known == 600
    assert overall.saved_percent.value is not None
    assert overall.saved_percent.missing == "few_sessions"
    assert (overall.verdict, overall.reason) == ("no_interval", "few_sessions")


@pytest.mark.long
def test_strata_with_hardly_a_baseline_run_give_no_absurd_limits() -> None:
    """Six models, thirteen baseline runs: limits of −8,034 per cent once stood in a report."""
    chance, shares = np.random.default_rng(4), (0.4, 0.25, 0.15, 0.1, 0.06, 0.04)
    for world in range(60):
        runs = []
        for at in range(130):
            model = int(chance.choice(6, p=shares))
            scale = (1_000, 2_000, 4_000, 8_000, 20_000, 60_000)[model]
            name = "baseline" if at % 10 == 0 else "selected"
            tokens = round(scale * chance.lognormal(-0.18, 0.6))
            runs.append(Counted(run_class=name, tokens=tokens, model=f"m{model}", hour=24 * 20_000 + 3 * at))
        result = savings(usage_of(runs), sessions_of(runs), baseline_rate=0.1, n_arms=5)
        lower = [
            result.overall.saved_percent.lower or 0.0,
            *result.over_time.lower[np.isfinite(result.over_time.lower)],
        ]
        assert min(lower) > -400, world
