"""How often a look names an arm that did not change, and how soon one that did: the table that the words stand on.

``pytest -m long tests/statistics/change`` prints it. A look is what a person sees at the end of a day; 30 arms with
rates from Beta(3, 2) and ten observations a day each, where nothing else is said. The first rows look on each of 31
days, in 60 worlds; the other ones on every sixth of them, in 360, since one false name stands for days: 60 worlds of
40 observations a day gave .0204, .0022, .0075, .0011, .0000 and .0022 under six seeds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pytest
from scipy.stats import binom

from core.maths.statistics.change import FALSE_ALARM
from tests.statistics.change.worlds import Plan, looks, world_of

SEED: Final = 20_261_120

ALIKE: Final = (0.0, 0.1, 0.3)
"""Intra-class correlations of sessions."""

W10: Final = Plan(session=10)

OTHERS: Final = {
    "sessions of 3": replace(W10, session=3, alike=0.3),
    "sessions of 30": replace(W10, session=30, alike=0.3),
    "sessions of 30, nearly all alike": replace(W10, session=30, alike=0.5),
    "3 a day": replace(W10, per_day=3, alike=0.3),
    "40 a day": replace(W10, per_day=40, alike=0.3),
    "5 arms": replace(W10, n_arms=5, alike=0.3),
    "200 arms": replace(W10, n_arms=200, alike=0.3),
    "all used in 93 of 100": replace(W10, rate=0.93, alike=0.3),
    "all used in 5 of 100": replace(W10, rate=0.05, alike=0.3),
    "all used in 93 of 100, nearly all alike": replace(W10, rate=0.93, alike=0.5),
}

SHOCKS: Final = {f"a shock a day to all arms, {size}": Plan(shock=size) for size in (0.3, 0.6)}
"""What days share is no session's: reported, not promised."""

STEP: Final = Plan(n_days=60, becomes=0.5)

CHANGES: Final = {
    ".8 to .5": STEP,
    ".8 to .5, sessions of 10": replace(STEP, session=10),
    ".8 to .5, sessions of 10, intra-class .1": replace(STEP, session=10, alike=0.1),
    ".8 to .5, sessions of 10, intra-class .3": replace(STEP, session=10, alike=0.3),
    ".8 to .65": replace(STEP, becomes=0.65),
    ".8 to nothing": replace(STEP, becomes=0.0),
    ".5 to .9": replace(STEP, was=0.5, becomes=0.9),
    ".8 to .4 within 90 days": Plan(n_days=120, becomes=0.4, within=90),
}


@dataclass(frozen=True)
class Falsely:
    """In each world the share of looks that named an unchanged arm; looks of one world are not independent."""

    by_world: tuple[float, ...]
    n_looks: int

    @property
    def share(self) -> float:
        return float(np.mean(self.by_world))

    @property
    def error(self) -> float:
        """Standard error of the share."""
        return float(np.std(self.by_world, ddof=1) / np.sqrt(len(self.by_world)))

    @property
    def share_of_worlds(self) -> float:
        """Worlds in which any look did."""
        return float(np.mean(np.array(self.by_world) > 0))

    @property
    def is_kept(self) -> bool:
        """Whether so many are no more than luck makes of the promise, were each look a draw of its own."""
        n_false = round(self.share * self.n_looks)
        return self.share <= FALSE_ALARM or bool(binom.sf(n_false - 1, self.n_looks, FALSE_ALARM) > 1e-3)


def falsely(plan: Plan, *, n_worlds: int, step: int = 1, first: int = 15) -> Falsely:
    """Looks at worlds without a change."""
    rng = np.random.default_rng(SEED)
    worlds = [[bool(found) for _, found in looks(world_of(plan, rng), first, step)] for _ in range(n_worlds)]
    return Falsely(tuple(float(np.mean(named)) for named in worlds), sum(map(len, worlds)))


@dataclass(frozen=True)
class Found:
    """In how many worlds the change was found, after how many days at the median, and others named beside it."""

    share: float
    days: float
    share_others: float


def alarms_of(plan: Plan, *, n_worlds: int) -> Found:
    """Looks at worlds in which the first arm changes, day by day until it is named."""
    rng = np.random.default_rng(SEED)
    days: list[int] = []
    n_looks = n_others = 0
    for _ in range(n_worlds):
        for n_days, shifts in looks(world_of(plan, rng), plan.changes_on + 1):
            names = [shift.arm for shift in shifts]
            n_looks, n_others = n_looks + 1, n_others + any(not name.endswith(":t00000") for name in names)
            if any(name.endswith(":t00000") for name in names):
                days.append(n_days - plan.changes_on)
                break
    return Found(len(days) / n_worlds, float(np.median(days)) if days else np.inf, n_others / n_looks)


@pytest.mark.parametrize("alike", ALIKE)
def test_hardly_a_look_names_an_arm_that_did_not_change(alike: float) -> None:
    """With observations counted as independent it is one look in six at .1, four in five at .3."""
    assert falsely(replace(W10, alike=alike), n_worlds=16, step=6).is_kept


def test_a_change_is_found_within_the_month() -> None:
    fell, rose = alarms_of(STEP, n_worlds=12), alarms_of(CHANGES[".5 to .9"], n_worlds=12)
    assert (fell.share, rose.share) == (1, 1)
    assert fell.days <= 10
    assert rose.days <= 7


@pytest.mark.long
def test_the_table_of_alarms(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints every figure; fails where the promise is broken or power is lost."""
    nulls = {f"sessions of 10, intra-class {alike:g}": replace(W10, alike=alike) for alike in ALIKE}
    table = {name: falsely(plan, n_worlds=60) for name, plan in nulls.items()}
    table |= {name: falsely(plan, n_worlds=360, step=6) for name, plan in OTHERS.items()}
    shocks = {name: falsely(plan, n_worlds=60) for name, plan in SHOCKS.items()}
    power = {name: alarms_of(plan, n_worlds=100) for name, plan in CHANGES.items()}
    lines = [f"{'nothing changes':45} {'looks':>6} {'falsely':>8} {'error':>7} {'in any of a world':>18}"]
    lines += [
        f"{name:45} {one.n_looks:6} {one.share:8.4f} {one.error:7.4f} {one.share_of_worlds:18.3f}"
        for name, one in (table | shocks).items()
    ]
    lines += [f"{'one arm changes on day 30':45} {'found':>6} {'days':>5} {'others':>8}"]
    lines += [
        f"{name:45} {it.share:6.2f} {it.days:5.1f} {it.share_others:8.4f}" for name, it in power.items()
    ]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert [name for name, one in table.items() if one.share > FALSE_ALARM] == []
    assert power[".8 to .5"].share >= 0.95
    assert power[".8 to .5, sessions of 10"].share >= 0.95
    assert power[".5 to .9"].share >= 0.95
    assert power[".8 to .4 within 90 days"].share >= 0.95
    assert max(it.share_others for it in power.values()) <= FALSE_ALARM
