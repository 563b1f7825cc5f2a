"""Judgement: what is said of an arm follows from its observations, what it breaks even at, and its prior's weight."""

from __future__ import annotations

import numpy as np
import pytest

from core.columns import ArmColumns, SessionSums
from core.maths.statistics.change import NOTHING_CHANGED, Changes, Poisoned, Shift
from core.maths.statistics.effective import effective
from core.maths.statistics.inclusion import Chance
from core.maths.statistics.judgement import judge
from core.maths.statistics.summary import summarise
from core.records.arm import MICRO
from core.records.judgement import Judgement, JudgementName
from tests.worlds.columns import arms

ARM = "tool:web:search"


def chance(break_even: float | None = 0.5, why: str | None = None) -> Chance:
    return Chance(
        chance=0.4,
        standard_error=0.01,
        break_even_mean=break_even,
        no_break_even=why,  # type: ignore[arg-type]  # told as a text by the table below
        n_offering=25,
    )


def judged(
    columns: ArmColumns,
    *,
    changes: Changes = NOTHING_CHANGED,
    seeds: frozenset[str] = frozenset(),
    stale: bool = False,
    offered: Chance | None = None,
    sums: SessionSums | None = None,
) -> Judgement:
    """The judgement of the first of some arms."""
    found = judge(
        columns,
        summarise(columns),
        seeds,
        changes=changes,
        stale=np.full(len(columns), stale),
        chances={key: offered or chance() for key in columns.keys},
        by_session=effective(columns, sums or apart(columns)),
    )
    return found[0]


def apart(columns: ArmColumns, *, inferred: bool = False) -> SessionSums:
    """Sums of runs that are each a session of its own."""
    good, n = columns.success_micro / MICRO, (columns.success_micro + columns.failure_micro) / MICRO
    known, zero = (0 * n, n) if inferred else (n, 0 * n), 0 * n
    moments = [zero] * 6 if inferred else [n, n, good, n, good, good]
    rows = [*moments, *known, known[0], known[0]]
    return SessionSums.of(len(columns), np.arange(len(columns)), np.stack(rows).T)


def alike(n_sessions: int, size: int, n_good: int) -> SessionSums:
    """Sums of sessions of one size, of which some always and the others never referenced the arm."""
    n, good = n_sessions * size, n_good * size
    row = [n_sessions, n, good, n * size, good * size, good * size, n, 0, n_sessions, n * size]
    return SessionSums.of(1, np.array([0]), np.array(row, dtype=np.float64))


def one(good: float, bad: float, *, key: str = ARM, prior: tuple[float, float] = (1.0, 1.0)) -> ArmColumns:
    return arms([key], successes=[good], failures=[bad], prior=prior)


def shift(arm: str = ARM, *, before: float = 0.8, after: float = 0.5, rivals: tuple[str, ...] = ()) -> Shift:
    return Shift(
        arm=arm,
        since_ms=0,
        mean_before=before,
        mean_after=after,
        n_before=200,
        n_after=90,
        prob=1e-5,
        rivals=rivals,
    )


@pytest.mark.parametrize(
    ("good", "bad", "offered", "name"),
    [
        (30, 30, chance(0.3), "worth"),
        (30, 30, chance(0.7), "not_worth"),
        (30, 30, chance(0.45), "open"),
        (90, 10, chance(0.95), "not_worth"),
        (6, 54, chance(0.02), "worth"),
        (30, 30, chance(None, "always_in"), "unopposed"),
        (45, 15, chance(None, "always_in"), "used_often"),
        (15, 45, chance(None, "always_in"), "used_seldom"),
        (30, 30, chance(None, "never_in"), "not_worth"),
        (30, 30, chance(None, "not_offered"), "open"),
        (45, 15, chance(None, "not_offered"), "used_often"),
        (15, 45, chance(None, "unknown_cost"), "used_seldom"),
        (15, 4, chance(0.1), "too_early"),
        (16, 4, chance(0.1), "worth"),
        (0, 19, chance(0.5), "too_early"),
        (0, 20, chance(0.5), "never_referenced"),
    ],
)
def test_worth_is_held_against_the_arms_own_break_even(
    good: int, bad: int, offered: Chance, name: JudgementName
) -> None:
    """Nine of ten may be too little for what an arm costs, one of ten enough for one that costs nothing."""
    assert judged(one(good, bad), offered=offered).name == name


@pytest.mark.parametrize(
    ("prior", "n", "missing"), [((3, 1), 5, 15), ((1, 1), 20, 0), ((30, 10), 25, 16), ((30, 10), 41, 0)]
)
def test_an_arm_waits_for_twenty_pulls_and_for_more_than_its_prior_weighs(
    prior: tuple[float, float], n: int, missing: int
) -> None:
    found = judged(one(n, 0, prior=prior), offered=chance(0.2))
    assert found.missing_pulls == missing
    assert found.name == ("too_early" if missing else "worth")
    assert found.prior_weight == sum(prior)


@pytest.mark.parametrize(
    ("sums", "good", "bad", "name"),
    [
        (alike(40, 10, 30), 300, 100, "worth"),
        (alike(19, 10, 14), 140, 50, "too_early"),
        (alike(9, 10, 7), 70, 20, "few_sessions"),
        (alike(12, 10, 0), 0, 120, "never_referenced"),
        (alike(10, 4, 0), 0, 40, "never_referenced"),
        (alike(10, 2, 0), 0, 20, "too_early"),
        (alike(9, 10, 0), 0, 90, "few_sessions"),
    ],
)
def test_judgements_count_sessions_and_not_pulls(
    sums: SessionSums, good: int, bad: int, name: JudgementName
) -> None:
    """Four hundred pulls in forty sessions that never differ inside are forty pulls."""
    found = judged(one(good, bad), sums=sums, offered=chance(0.45))
    assert found.name == name
    assert found.pulls == good + bad
    if name in {"worth", "too_early"} and good:
        assert found.effective_pulls is not None
        assert round(found.effective_pulls) in range(int(sums.n_sessions[0]) - 1, int(sums.n_sessions[0]) + 1)


def test_an_inferred_inventory_is_not_judged() -> None:
    """All known runs called the arm, because it is listed for its calls."""
    columns = one(60, 2)
    found = judged(columns, sums=apart(columns, inferred=True), offered=chance(0.2))
    assert (found.name, found.called_only, found.effective_pulls) == ("called_only", True, None)


def test_the_prior_moves_no_judgement() -> None:
    """The interval is of the observations: twenty of a hundred are below .3 whatever an arm starts with."""
    firm = judged(one(20, 80, prior=(15, 1)), offered=chance(0.3))
    loose = judged(one(20, 80), offered=chance(0.3))
    assert firm.judged_by == loose.judged_by
    assert firm.name == loose.name == "not_worth"
    assert firm.interval != loose.interval


def test_a_section_and_a_seed_are_not_judged_by_their_worth() -> None:
    assert judged(one(900, 0, key="section:system:Safety"), offered=chance(0.1)).name == "section"
    assert judged(one(900, 0), seeds=frozenset({ARM}), offered=chance(0.1)).name == "seed"


def test_what_needs_a_look_is_said_before_what_an_arm_is_worth() -> None:
    columns, seeds = one(240, 50), frozenset({ARM})
    assert judged(columns, stale=True).name == "stale"
    for changed, name in (
        (shift(), "drifting"),
        (shift(rivals=("tool:web:other",)), "rival"),
        (shift(before=0.5, after=0.8), "rising"),
    ):
        found = judged(columns, changes=Changes(shifts=(changed,)), stale=True, seeds=seeds)
        assert (found.name, found.others) == (name, changed.rivals)
        assert found.recent is not None
        assert (found.recent.mean, found.recent.n, found.since_ms) == (changed.mean_after, 90, 0)


def test_arms_that_fell_together_name_each_other() -> None:
    keys = ["file:workspace:a", "file:workspace:b"]
    fell = tuple(shift(key, after=0.0) for key in keys)
    group = Poisoned(type="file", shifts=fell, since_ms=0, n_after=180, reward=0.0)
    columns = arms(keys, successes=[200, 200], failures=[90, 90])
    found = judged(columns, changes=Changes(poisoned=(group,)))
    assert (found.name, found.others) == ("poisoned", ("file:workspace:b",))
    assert found.recent is not None
    assert found.recent.mean_before == 0.8


def test_near_the_ends_the_interval_holds_what_is_likeliest() -> None:
    """Equal tails leave out 0 where nothing was ever referenced."""
    never, middle = judged(one(0, 40)), judged(one(20, 20))
    assert (never.interval.lower, never.interval.method) == (0, "highest-density")
    assert middle.interval.method == "exact"
