"""Timeline: times of requests and their conversations. Days are busy, nights and weekends quiet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.columns import Floats
from core.demo.world import CHANNELS, DAYS, END_MS, MODELS, START_MS, Stratum
from core.records.times import DAY_HOURS, HOUR_MS, MINUTE_MS, instant

_SESSION_GAP_MS = 40 * MINUTE_MS
_PROB_GOES_ON = 0.6
_HEALTH_CHECK_HOURS = (3, 15)
_CRON = next(channel for channel in CHANNELS if channel.name == "cron")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request to the agent, before it answers; ``number`` counts from 1."""

    number: int
    at_ms: int
    session: str
    model: Stratum
    channel: Stratum
    is_health_check: bool = False
    """A scheduled question that no tool is needed for."""
    is_farewell: bool = False
    """The world's last request: a customer says thank you."""


def requests(n_runs: int, rng: np.random.Generator) -> list[Request]:
    """Return this number of requests in the order of time; the first and last are at the ends of the world."""
    opened: list[Request] = []
    pending: list[Request] = []
    for number, at_ms in enumerate(_times(n_runs, rng), start=1):
        opened = [one for one in opened if at_ms - one.at_ms < _SESSION_GAP_MS]
        if opened and rng.random() < _PROB_GOES_ON:
            before = opened.pop(int(rng.integers(len(opened))))
            request = replace(before, number=number, at_ms=at_ms)
        else:
            request = _opening(number, at_ms, rng)
        if request.channel is not _CRON:  # a scheduled job asks once
            opened.append(request)
        pending.append(request)
    return [*pending[:-1], replace(pending[-1], is_health_check=False, is_farewell=True)]


def _opening(number: int, at_ms: int, rng: np.random.Generator) -> Request:
    """The first request of a conversation; at night most come from schedules."""
    hour = instant(at_ms).hour
    is_night = not 6 <= hour < 21
    channel = _CRON if is_night and rng.random() < 0.6 else _one_of(CHANNELS, rng)
    return Request(
        number=number,
        at_ms=at_ms,
        session=f"{channel.name}-{number:04d}",
        model=_one_of(MODELS, rng),
        channel=channel,
        is_health_check=channel is _CRON and hour in _HEALTH_CHECK_HOURS,
    )


def _times(n_runs: int, rng: np.random.Generator) -> list[int]:
    """Sorted instants of all requests, drawn from the rhythm of the weeks."""
    weights = np.array([_busyness(START_MS + hour * HOUR_MS) for hour in range(DAYS * DAY_HOURS)])
    ends: Floats = np.concatenate(([0.0], np.cumsum(weights))) / weights.sum()
    hours = np.interp(np.sort(rng.random(n_runs)), ends, np.arange(len(ends)))
    times = [START_MS + int(hour * HOUR_MS) for hour in hours.tolist()]
    first, last = START_MS + 3 * MINUTE_MS, END_MS - 2 * MINUTE_MS
    return [first, *(min(max(one, first), last) for one in times[1:-1]), last]


def _busyness(at_ms: int) -> float:
    time_of_day = instant(at_ms)
    by_hour = 1.0 if 8 <= time_of_day.hour < 18 else 0.5 if 6 <= time_of_day.hour < 21 else 0.15
    return by_hour * (0.35 if time_of_day.weekday() >= 5 else 1.0)


def _one_of(strata: Sequence[Stratum], rng: np.random.Generator) -> Stratum:
    return strata[int(rng.choice(len(strata), p=[one.share for one in strata]))]
