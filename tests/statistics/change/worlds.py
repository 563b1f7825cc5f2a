"""Worlds whose observations come in sessions and on days that make them alike: arms that change, or don't."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import betaincinv, expit, logit

from core.columns import ArmColumns, ArmSessions, Ints, RecentDays
from core.maths.statistics.change import WINDOW_DAYS, Shift, shifts, splits
from core.records.arm import MICRO
from tests.worlds.columns import arms

FIRST_DAY: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a world is made.

    Every arm has ``per_day`` observations a day on average (Poisson), in sessions of so many (``session`` 1: each is
    its own), whose rates spread around the arm's with the intra-class correlation ``alike``. ``shock`` is the
    standard deviation of a normal number a day on the logits of all arms. ``rate`` is every arm's; without one they
    come from Beta(3, 2). The first arm goes from ``was`` to ``becomes`` on the day ``changes_on``, in steps of
    equal size over ``within`` days.
    """

    n_arms: int = 30
    n_days: int = 45
    per_day: float = 10.0
    session: int = 1
    alike: float = 0.0
    shock: float = 0.0
    rate: float | None = None
    was: float = 0.8
    becomes: float | None = None
    changes_on: int = 30
    within: int = 1


@dataclass(frozen=True, kw_only=True)
class World:
    """Every observation of every arm, in the order of time."""

    plan: Plan
    arm: Ints
    day: Ints
    session: Ints
    used: Ints

    def until(self, n_days: int) -> World:
        """What is known of it at the end of so many days."""
        known = self.day < n_days
        return World(
            plan=replace(self.plan, n_days=n_days),
            arm=self.arm[known],
            day=self.day[known],
            session=self.session[known],
            used=self.used[known],
        )


def world_of(plan: Plan, rng: np.random.Generator) -> World:
    """A world of this plan."""
    n_seen = rng.poisson(plan.per_day, (plan.n_arms, plan.n_days))
    arm = np.repeat(np.arange(plan.n_arms), n_seen.sum(axis=1))
    day = np.concatenate([np.repeat(np.arange(plan.n_days), n) for n in n_seen])
    place = np.concatenate([np.arange(n) for n in n_seen.sum(axis=1)])
    most = int(n_seen.sum(axis=1).max())
    session = (
        (arm * most + place) // plan.session if plan.session == 1 else arm * most + place // plan.session
    )
    truth = rng.beta(3, 2, plan.n_arms) if plan.rate is None else np.full(plan.n_arms, plan.rate)
    prob = truth[arm]
    if plan.becomes is not None:
        share = np.clip((day - plan.changes_on + 1) / plan.within, 0, 1)
        prob = np.where(arm == 0, plan.was + share * (plan.becomes - plan.was), prob)
    if plan.alike > 0:
        _, own = np.unique(session, return_inverse=True)
        quantile = rng.random(int(own.max()) + 1)[own]
        weight = (1 - plan.alike) / plan.alike
        prob = betaincinv(prob * weight, (1 - prob) * weight, quantile)
    if plan.shock > 0:
        shocks = rng.normal(0, plan.shock, plan.n_days)
        prob = expit(logit(np.clip(prob, 1e-9, 1 - 1e-9)) + shocks[day])
    used = (rng.random(len(prob)) < prob).astype(np.int64)
    return World(plan=plan, arm=arm, day=day, session=session, used=used)


def shifts_of(world: World) -> tuple[Shift, ...]:
    """What is found in a world at its end."""
    columns = columns_of(world)
    return shifts(columns, splits(columns, days_of(world)), sessions_of(world))


def columns_of(world: World) -> ArmColumns:
    n_arms = world.plan.n_arms
    n_seen = np.bincount(world.arm, minlength=n_arms)
    good = np.bincount(world.arm, world.used, n_arms)
    return arms(
        [f"tool:other:t{place:05d}" for place in range(n_arms)],
        successes=good.tolist(),
        failures=(n_seen - good).tolist(),
    )


def days_of(world: World) -> RecentDays:
    recent = world.day >= world.plan.n_days - WINDOW_DAYS
    place, day, n, good = _summed(world.arm[recent], world.day[recent], world.used[recent])
    return RecentDays(
        arm=place, day=FIRST_DAY + day, success_micro=good * MICRO, failure_micro=(n - good) * MICRO
    )


def sessions_of(world: World) -> ArmSessions:
    """All sessions of all arms; each counts where it began."""
    place, session, n, good = _summed(world.arm, world.session, world.used)
    _, first = np.unique(world.session, return_index=True)
    return ArmSessions(
        arm=place,
        day=FIRST_DAY + world.day[first][np.searchsorted(world.session[first], session)],
        stratum=np.zeros(len(place), dtype=np.int64),
        success_micro=good * MICRO,
        failure_micro=(n - good) * MICRO,
        since_day=None,
    )


def _summed(arm: Ints, part: Ints, used: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Number of observations and of used ones by arm and part."""
    pairs, row = np.unique(np.stack((arm, part)), axis=1, return_inverse=True)
    row = row.reshape(-1)
    n, good = (np.zeros(pairs.shape[1], dtype=np.int64) for _ in range(2))
    np.add.at(n, row, 1)
    np.add.at(good, row, used)
    return pairs[0], pairs[1], n, good


def looks(world: World, first: int, step: int = 1) -> Iterator[tuple[int, tuple[Shift, ...]]]:
    """What is found at the end of each day from the first on."""
    for n_days in range(first, world.plan.n_days + 1, step):
        yield n_days, shifts_of(world.until(n_days))
