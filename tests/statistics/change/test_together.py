"""Falls of one type: a broken detector, or a change of work that moves other types, too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit, logit

from core.columns import ArmColumns, ArmHours, ArmSessions, Ints, RecentDays
from core.maths.statistics.change import WINDOW_DAYS, Poisoned, gone, shifts, splits, together
from core.records.arm import MICRO, arm_type
from core.records.times import DAY_HOURS
from tests.worlds.columns import arms

FIRST_DAY = 20_000
KEYS = sorted(
    [f"tool:other:t{at}" for at in range(5)]
    + [f"skill:s{at}:main" for at in range(4)]
    + [f"file:workspace:f{at}.md" for at in range(6)]
)


@dataclass(frozen=True, kw_only=True)
class Change:
    """Factors of each type's rates from a day on, the spread of each arm's own factor, and of all logits by day."""

    skill: float = 1.0
    file: float = 1.0
    tool: float = 1.0
    own: float = 0.0
    shock: float = 0.0
    day: int = 46
    n_days: int = 56
    per_day: float = 28 * 0.65


def counts_of(change: Change, seed: int) -> tuple[Ints, Ints]:
    """Return observations and uses by arm and day."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.25, 0.8, len(KEYS))
    factor = np.array([getattr(change, arm_type(key)) for key in KEYS])
    factor = factor * np.exp(rng.normal(0, change.own, len(KEYS)) * (factor != 1))
    late = np.arange(change.n_days) >= change.day
    by_day = np.where(late[None, :], np.clip(rates * factor, 0, 0.95)[:, None], rates[:, None])
    shocks = rng.normal(0, change.shock, change.n_days)
    by_day = np.where(by_day > 0, expit(logit(np.clip(by_day, 1e-9, 1 - 1e-9)) + shocks), 0.0)
    n = rng.poisson(change.per_day, by_day.shape)
    return n, rng.binomial(n, by_day)


def columns_of(n: Ints, good: Ints) -> ArmColumns:
    return arms(KEYS, successes=good.sum(axis=1).tolist(), failures=(n - good).sum(axis=1).tolist())


def poisoned(n: Ints, good: Ints) -> tuple[Poisoned, ...]:
    """Return the groups that look poisoned at the end of these days."""
    columns = columns_of(n, good)
    arm, day = (at.ravel() for at in np.indices(n.shape))
    recent = day >= n.shape[1] - WINDOW_DAYS
    amounts = good.ravel() * MICRO, (n - good).ravel() * MICRO
    days = RecentDays(
        arm=arm[recent],
        day=FIRST_DAY + day[recent],
        success_micro=amounts[0][recent],
        failure_micro=amounts[1][recent],
    )
    runs = np.concatenate(
        [np.repeat([1, 0], [g, m - g]) for g, m in zip(good.ravel(), n.ravel(), strict=True)]
    )
    sessions = ArmSessions(
        arm=np.repeat(arm, n.ravel()),
        day=FIRST_DAY + np.repeat(day, n.ravel()),
        stratum=np.zeros(len(runs), dtype=np.int64),
        success_micro=runs * MICRO,
        failure_micro=(1 - runs) * MICRO,
        since_day=None,
    )
    split = splits(columns, days)
    changed = shifts(columns, split, sessions)
    hours = ArmHours(
        arm=arm, hour=(FIRST_DAY + day) * DAY_HOURS, success_micro=amounts[0], failure_micro=amounts[1]
    )
    changed = tuple(gone(shift, hours.of(columns.places[shift.arm])) for shift in changed)
    tested = [KEYS[at] for at in split.arm[split.n_tested > 0].tolist()]
    return together(changed, columns, hours, tested, days)


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        (Change(skill=0.35, file=1.3), (49, 52, 56)),
        (Change(skill=0.35, file=1.3, shock=0.2), (56,)),
        (Change(skill=0.0, file=1.3), (49, 52, 56)),
        (Change(skill=0.3, file=1.2, own=0.2), (56,)),
        (Change(skill=0.4, file=0.85, tool=1.2), (56,)),
    ],
    ids=str,
)
def test_a_change_of_work_is_no_broken_detector(change: Change, ends: tuple[int, ...]) -> None:
    """At any of these looks; a smaller change takes longer to show."""
    hits = 0
    for seed in range(40):
        n, good = counts_of(change, seed)
        hits += any(poisoned(n[:, :end], good[:, :end]) for end in ends)
    assert hits / 40 <= 0.07


@pytest.mark.parametrize(
    "change",
    [
        Change(skill=0.2),
        Change(skill=0.0),
        Change(skill=0.35),
        Change(skill=0.0, shock=0.3),
        Change(skill=0.2, day=32),
        Change(tool=0.0, day=50),
    ],
    ids=str,
)
def test_a_broken_detector_is_still_named(change: Change) -> None:
    hits = [poisoned(*counts_of(change, seed)) for seed in range(30)]
    assert sum(map(bool, hits)) / 30 >= 0.9
    kind = "skill" if change.skill < 1 else "tool"
    assert {group.type for groups in hits for group in groups} == {kind}
