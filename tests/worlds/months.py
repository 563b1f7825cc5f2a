"""Months of an agent's runs with a known truth, played day by day into a learner: quiet ones, and planted changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy.special import expit, logit

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.maths.statistics.overview import Attention
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, Usage
from core.records.times import DAY_MS

FIRST_DAY: Final = 20_453
"""A Thursday."""
FIRST_MS: Final = FIRST_DAY * DAY_MS
WEEKEND: Final = (2, 3)
"""Days of a week that starts with the first day."""

ARMS: Final = tuple(
    Arm(key=key)
    for key in (
        *(f"file:workspace:f{n}.md" for n in range(5)),
        *(f"skill:s{n}:main" for n in range(5)),
        *(f"tool:other:t{n}" for n in range(6)),
    )
)
_IS_SKILL: Final = np.array([arm.key.startswith("skill:") for arm in ARMS])

Factor = Callable[[int, str, str], float | np.ndarray[tuple[int], np.dtype[np.float64]]]
Mix = Callable[[int], Mapping[str, float]]

_FOUR: Final = np.where(np.arange(len(ARMS)) < 4, 0.4, 1.0)


def _same(day: int, channel: str, model: str) -> float:
    return 1.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the days are made.

    Each day has a Poisson number of runs with the mean ``per_day``, in sessions of 1 + a geometric number with
    ``more``. Channel and model of a session are drawn by their shares of the day. Each of the 16 arms has a rate from
    Beta(3, 2), clipped to .15–.9, times ``factor`` (one number, or one per arm), and is in a prompt with ``inside``.
    ``steps``: model m2 moves the first eight rates by .3 towards the other side of .5. Arms of ``absent`` are in no
    prompt of a day, runs of ``dropped`` do not arrive. ``shock`` and ``session_shock`` are standard deviations on the
    logit by day and by session.
    """

    per_day: Callable[[int], float] = lambda day: 40.0
    more: float = 0.35
    inside: float = 0.6
    channels: Mix = lambda day: {"web": 1.0}
    models: Mix = lambda day: {"m1": 1.0}
    factor: Factor = _same
    steps: bool = False
    shock: float = 0.0
    session_shock: float = 0.0
    absent: Callable[[int], tuple[int, ...]] = lambda day: ()
    dropped: Callable[[int, str], bool] = lambda day, channel: False


def _skills(factor: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.where(_IS_SKILL, factor, 1.0)


def _weekend(day: int) -> bool:
    return day % 7 in WEEKEND


_CHAT: Final = Plan(factor=lambda day, channel, model: 0.35 if channel == "chat" else 1.0)


def _shares(chat: float) -> Mapping[str, float]:
    return {"chat": chat, "web": 1 - chat}


PLANTED: Final[Mapping[str, Plan]] = {
    "mixabrupt": replace(_CHAT, channels=lambda day: _shares(0.1 if day < 45 else 0.6)),
    "mix": replace(_CHAT, channels=lambda day: _shares(0.1 + 0.5 * min(max(day - 40, 0) / 20, 1))),
    "modelswitch": Plan(models=lambda day: {"m1" if day < 45 else "m2": 1.0}, steps=True),
    "poisonpart": Plan(factor=lambda day, channel, model: _skills(0.2) if day >= 52 else 1.0),
    "feedstop": Plan(
        channels=lambda day: {"slack": 0.4, "web": 0.6},
        dropped=lambda day, channel: day >= 48 and channel == "slack",
    ),
    "monthend": Plan(factor=lambda day, channel, model: 0.5 if day % 30 >= 26 else 1.0),
    "two left out": Plan(absent=lambda day: (5, 6) if day >= 52 else ()),
    "allskills": Plan(factor=lambda day, channel, model: _skills(0.0) if day >= 52 else 1.0),
}
"""Worlds in which something happens."""

QUIET: Final[Mapping[str, Plan]] = {
    "plain": Plan(),
    "weekend rates": Plan(factor=lambda day, channel, model: 0.55 if _weekend(day) else 1.0),
    "weekend rates of four arms": Plan(factor=lambda day, channel, model: _FOUR if _weekend(day) else 1.0),
    "weekend volume": Plan(per_day=lambda day: 10.0 if _weekend(day) else 40.0),
    "no weekend": Plan(per_day=lambda day: 0.0 if _weekend(day) else 40.0),
    "traffic doubled": Plan(per_day=lambda day: 40.0 if day < 45 else 80.0),
    "sessions alike": Plan(session_shock=0.5),
    "long sessions": Plan(more=0.08, session_shock=0.5),
    "days alike": Plan(shock=0.5),
    "two channels": replace(_CHAT, channels=lambda day: _shares(0.4)),
    "three channels, one rare": Plan(channels=lambda day: {"web": 0.7, "api": 0.28, "mail": 0.02}),
    "two models": Plan(models=lambda day: {"m1": 0.5, "m2": 0.5}),
    "channel by weekday": replace(_CHAT, channels=lambda day: _shares(0.1 if _weekend(day) else 0.4)),
    "few runs": Plan(per_day=lambda day: 6.0),
}
"""Worlds in which nothing changes that needs a look."""


@dataclass
class Played:
    """Runs by day, made one day after the other from one seed."""

    plan: Plan
    seed: int
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.rates = np.clip(self.rng.beta(3, 2, len(ARMS)), 0.15, 0.9)
        self.stepped = np.where(self.rates > 0.5, self.rates - 0.3, self.rates + 0.3)
        self.n_sessions = 0

    def days(self, n_days: int) -> Iterator[list[Run]]:
        for day in range(n_days):
            yield self._day(day)

    def _day(self, day: int) -> list[Run]:
        rng, plan = self.rng, self.plan
        n_runs = int(rng.poisson(plan.per_day(day)))
        shock = rng.normal(0, plan.shock) if plan.shock else 0.0
        at = np.sort(rng.integers(0, DAY_MS, n_runs))
        runs: list[Run] = []
        left = 0
        session, channel, model, rates = "", "", "", self.rates
        for number in range(n_runs):
            if left == 0:
                left = int(rng.geometric(plan.more))
                self.n_sessions += 1
                session = f"s{self.n_sessions}"
                channel, model = (
                    str(rng.choice(list(mix), p=list(mix.values())))
                    for mix in (plan.channels(day), plan.models(day))
                )
                rates = self._rates(day, channel, model)
                own = shock + (rng.normal(0, plan.session_shock) if plan.session_shock else 0.0)
                if own:
                    rates = expit(logit(np.clip(rates, 1e-6, 1 - 1e-6)) + own)
            left -= 1
            is_in = rng.random(len(ARMS)) < plan.inside
            is_in[list(plan.absent(day))] = False
            is_used = is_in & (rng.random(len(ARMS)) < rates)
            if plan.dropped(day, channel):
                continue
            runs.append(
                Run(
                    uid=f"d{day}-{number}",
                    inventory=Inventory(
                        kind="declared", arms=tuple(arm for arm, one in zip(ARMS, is_in, strict=True) if one)
                    ),
                    session=session,
                    calls=(Call(name="bash"),),
                    referenced=tuple(arm.key for arm, one in zip(ARMS, is_used, strict=True) if one),
                    ended_at_ms=FIRST_MS + day * DAY_MS + int(at[number]),
                    channel=channel,
                    model=model,
                    run_class="selected" if rng.random() < 0.9 else "baseline",
                    usage=Usage(total=int(1_000 * np.exp(rng.normal(0, 0.6)))),
                )
            )
        return runs

    def _rates(self, day: int, channel: str, model: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        rates = self.rates
        if self.plan.steps and model == "m2":
            rates = np.where(np.arange(len(ARMS)) < 8, self.stepped, rates)
        return np.asarray(rates * self.plan.factor(day, channel, model))


def at_end_of(context: Context, day: int) -> Context:
    """The same learner, its clock at the end of a day."""
    return replace(context, clock=lambda: FIRST_MS + (day + 1) * DAY_MS)


def looks(context: Context, played: Played, days: range) -> Iterator[tuple[int, tuple[Attention, ...]]]:
    """Play the days, and show the attention list at the end of some of them."""
    still = replace(
        context, clock=lambda: FIRST_MS
    )  # a store whose clock moves on is checked in full every day
    waiting: list[Run] = []
    for day, runs in enumerate(played.days(days[-1] + 1)):
        waiting += runs
        if day in days:
            record_all(still, waiting)
            waiting = []
            yield day + 1, queries.overview(at_end_of(context, day)).attention
