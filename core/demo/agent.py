"""Agent: requests over time, and a request with a selection → the run, generated from the truth.

Days are busy, nights and weekends quiet. Every included arm is referenced by its own random draw, independent of the
rest of the prompt. An observed run always has a real call, so the planted probabilities hold exactly. Its texts and
calls pass the real detectors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
from msgspec.structs import replace

from core.columns import Floats
from core.demo.answers import PROBLEMS, question
from core.demo.world import (
    CHANNELS,
    DAYS,
    END_MS,
    FILES_POISONED_MS,
    MODELS,
    N_RUNS,
    PROB_ABORTED,
    PROB_CONVERSATIONAL,
    PROB_ERROR,
    PROB_USAGE_UNKNOWN,
    START_MS,
    TOOLS_POISONED_MS,
    WORLD_VERSION,
    Planted,
    Stratum,
    expected_tokens,
)
from core.records.arm import skill_name
from core.records.run import Call, Inventory, Run, Status, Usage
from core.records.selection import Selection
from core.records.times import DAY_HOURS, HOUR_MS, MINUTE_MS, instant
from core.records.transcript import Message

_SPREAD: Final = 0.22
"""Standard deviation of the logarithm of what a run costs beside its plan."""
_CHARS_A_TOKEN: Final = 4
_UNLISTED_TOOL: Final = "TodoWrite"
_SMALL_TALK: Final = (
    "Good morning! What can I do for you?",
    "You are welcome. Shall I close the ticket?",
    "Understood, I will wait for the customer's answer.",
    "All quiet, nothing to report.",
)
_OPENINGS: Final = ("Done.", "Here is what I found.", "Finished; two notes.", "This is solved.")

_RESULTS: Final = (
    "1 match: the order is in the warehouse, its parcel has no label yet.",
    "3 rows, the newest of today. Two are closed, one waits for the customer.",
    "No difference found between the invoice and the order.",
)
"""What the demo's tools give back, by the length of their names: nothing of it is drawn."""

_SESSION_GAP_MS: Final = 40 * MINUTE_MS
_PROB_GOES_ON: Final = 0.6
_HEALTH_CHECK_HOURS: Final = (3, 15)
_CRON: Final = next(channel for channel in CHANNELS if channel.name == "cron")


@dataclass(frozen=True, kw_only=True)
class DemoRun:
    """A run of the agent, with the arms it really used and its planned cost."""

    run: Run
    used: frozenset[str]
    expected_tokens: float


def run_id(number: int) -> str:
    """Uid of a world's run, such as ``demo-5-00012``."""
    return f"demo-{WORLD_VERSION}-{number:05d}"


def answer(
    request: Request,
    offered: Sequence[Planted],
    selection: Selection | None,
    rng: np.random.Generator,
) -> DemoRun:
    """The run that follows a request. ``selection`` None = no selector was there, so everything went in."""
    chosen = None if selection is None else set(selection.included)
    included = [arm for arm in offered if chosen is None or arm.key in chosen]
    prompt_tokens = sum(arm.token_cost for arm in included)
    is_real, status = _course(request, rng)
    used = [arm for arm in included if is_real and rng.random() < arm.prob_at(request.at_ms)]
    calls = _calls(used, request.at_ms, rng) if is_real else ()
    n_model_calls = 1 + int(rng.poisson(request.channel.mean_more_calls) if is_real else 0)
    run = Run(
        uid=run_id(request.number),
        inventory=Inventory(kind="declared", arms=tuple(arm.arm for arm in included)),
        session=request.session,
        ended_at_ms=request.at_ms,
        model=request.model.name,
        channel=request.channel.name,
        run_class="fallback" if selection is None else selection.run_class,
        status=status,
        usage=_usage(request, prompt_tokens, n_model_calls, rng),
        duration_ms=_duration_ms(request, prompt_tokens, n_model_calls, rng),
        prompt_chars=_CHARS_A_TOKEN * prompt_tokens,
        calls=calls,
        texts=_texts(used, request.at_ms, rng) if is_real else _small_talk(status, rng),
        prompt=None
        if request.is_health_check or request.is_farewell
        else question(request.number, request.problem),
        excluded=() if selection is None else selection.excluded,
        selection=selection,
    )
    return DemoRun(
        run=replace(run, messages=_messages(run)),
        used=frozenset(arm.key for arm in used),
        expected_tokens=expected_tokens(request.model, request.channel, prompt_tokens),
    )


def _course(request: Request, rng: np.random.Generator) -> tuple[bool, Status]:
    """Return whether tools were called, and the status; neither depends on the prompt.

    One in two failing runs fails before its first call.
    """
    is_talk, ending, is_early = rng.random(3).tolist()
    status: Status = "completed"
    if ending < PROB_ERROR:
        status = "error"
    elif ending < PROB_ERROR + PROB_ABORTED:
        status = "aborted"
    if request.is_health_check or request.is_farewell or is_talk < PROB_CONVERSATIONAL:
        return False, status
    return status == "completed" or is_early >= 0.5, status


def _calls(used: Sequence[Planted], at_ms: int, rng: np.random.Generator) -> tuple[Call, ...]:
    """One or more calls of each used tool; one outside the inventory where there was no other."""
    names = [arm.arm.name for arm in used if arm.type == "tool"]
    prefix = "gateway__" if TOOLS_POISONED_MS[0] <= at_ms < TOOLS_POISONED_MS[1] else ""
    repeated = [prefix + name for name in names for _ in range(1 + int(rng.poisson(0.5)))]
    order = rng.permutation(len(repeated)).tolist()
    order_no = int(rng.integers(10_000, 99_999))
    calls = [Call(name=repeated[index], metadata=f'{{"ticket": {order_no}}}') for index in order]
    return tuple(calls) or (Call(name=_UNLISTED_TOOL, metadata='{"items": 3}'),)


def _messages(run: Run) -> tuple[Message, ...]:
    """Return the transcript of a run, with a result of each call."""
    return tuple(
        replace(one, result=_RESULTS[len(one.name) % len(_RESULTS)]) if one.kind == "call" else one
        for one in run.transcript
    )


def _texts(used: Sequence[Planted], at_ms: int, rng: np.random.Generator) -> tuple[str, ...]:
    sentences = [_pick(_OPENINGS, rng)]
    sentences += [_mention(arm, at_ms, rng) for arm in used if arm.type in {"skill", "file", "memory"}]
    return (" ".join(sentences),)


def _small_talk(status: Status, rng: np.random.Generator) -> tuple[str, ...]:
    """Return the text of a run without calls; an interrupted run has none."""
    return (_pick(_SMALL_TALK, rng),) if status == "completed" else ()


def _mention(arm: Planted, at_ms: int, rng: np.random.Generator) -> str:
    if arm.type == "skill":
        return f"I followed the {skill_name(arm.key)} skill."
    if arm.type == "memory":
        return f"As noted before: {arm.content}"
    path = arm.arm.name if rng.random() < 0.6 else arm.arm.name.rsplit("/", 1)[-1]
    if arm.is_poisoned and FILES_POISONED_MS[0] <= at_ms < FILES_POISONED_MS[1]:
        return f"See _{path}_ for details."  # the underscores of the new template make it a longer word
    return f"See {path} for details."


def _usage(
    request: Request, prompt_tokens: int, n_model_calls: int, rng: np.random.Generator
) -> Usage | None:
    per_call = request.model.overhead_tokens + request.channel.overhead_tokens + prompt_tokens
    tokens = round(n_model_calls * per_call * _noise(rng))
    if rng.random() < PROB_USAGE_UNKNOWN:
        return None
    output, cached = tokens // 14, tokens * (n_model_calls - 1) // (n_model_calls + 1)
    return Usage(input=tokens - output - cached, output=output, cache_read=cached)


def _duration_ms(request: Request, prompt_tokens: int, n_model_calls: int, rng: np.random.Generator) -> int:
    model = request.model
    per_call = model.ms_per_call + model.ms_per_1000_tokens * prompt_tokens / 1_000
    return round(n_model_calls * per_call * _noise(rng))


def _noise(rng: np.random.Generator) -> float:
    """A factor around 1, never below 0; its mean is 1."""
    return float(rng.lognormal(-(_SPREAD**2) / 2, _SPREAD))


def _pick(sentences: Sequence[str], rng: np.random.Generator) -> str:
    return sentences[int(rng.integers(len(sentences)))]


# Requests over time


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request to the agent, before it answers; ``number`` counts from 1. ``problem`` is that of its session."""

    number: int
    at_ms: int
    session: str
    model: Stratum
    channel: Stratum
    problem: int = 0
    is_health_check: bool = False
    """A scheduled question that no tool is needed for."""
    is_farewell: bool = False
    """The world's last request: a customer says thank you."""


def requests(n_runs: int, rng: np.random.Generator) -> list[Request]:
    """Return this number of requests in the order of time; the first and last are at the ends of the world."""
    times = _times(n_runs, rng, START_MS, DAYS * DAY_HOURS)
    first, last = START_MS + 3 * MINUTE_MS, END_MS - 2 * MINUTE_MS
    times = [first, *(min(max(one, first), last) for one in times[1:-1]), last]
    pending = _conversations(enumerate(times, start=1), rng)
    return [*pending[:-1], dataclasses.replace(pending[-1], is_health_check=False, is_farewell=True)]


def later_requests(n_runs: int, rng: np.random.Generator, since_ms: int) -> list[Request]:
    """Return this number of requests after a time, at the pace of the world, with the minute as their number."""
    n_hours = math.ceil(n_runs * DAYS * DAY_HOURS / N_RUNS)
    times = _times(n_runs, rng, since_ms + MINUTE_MS, n_hours)
    minutes = accumulate(
        ((one - START_MS) // MINUTE_MS for one in times), lambda last, one: max(last + 1, one)
    )
    return _conversations(((one, START_MS + one * MINUTE_MS) for one in minutes), rng)


def _conversations(numbered: Iterable[tuple[int, int]], rng: np.random.Generator) -> list[Request]:
    """Return requests with these numbers and times; some go on with an open conversation."""
    opened: list[Request] = []
    pending: list[Request] = []
    for number, at_ms in numbered:
        opened = [one for one in opened if at_ms - one.at_ms < _SESSION_GAP_MS]
        if opened and rng.random() < _PROB_GOES_ON:
            before = opened.pop(int(rng.integers(len(opened))))
            request = dataclasses.replace(before, number=number, at_ms=at_ms)
        else:
            request = _opening(number, at_ms, rng)
        if request.channel is not _CRON:  # a scheduled job asks once
            opened.append(request)
        pending.append(request)
    return pending


def _opening(number: int, at_ms: int, rng: np.random.Generator) -> Request:
    """Return the first request of a conversation; at night most come from schedules."""
    hour = instant(at_ms).hour
    is_night = not 6 <= hour < 21
    channel = _CRON if is_night and rng.random() < 0.6 else _one_of(CHANNELS, rng)
    return Request(
        number=number,
        at_ms=at_ms,
        session=f"{channel.name}-{number:04d}",
        model=_one_of(MODELS, rng),
        channel=channel,
        problem=number % len(PROBLEMS),
        is_health_check=channel is _CRON and hour in _HEALTH_CHECK_HOURS,
    )


def _times(n_runs: int, rng: np.random.Generator, since_ms: int, n_hours: int) -> list[int]:
    """Return sorted times of requests within these hours, drawn from the rhythm of the weeks."""
    weights = np.array([_busyness(since_ms + hour * HOUR_MS) for hour in range(n_hours)])
    ends: Floats = np.concatenate(([0.0], np.cumsum(weights))) / weights.sum()
    hours = np.interp(np.sort(rng.random(n_runs)), ends, np.arange(len(ends)))
    return [since_ms + int(hour * HOUR_MS) for hour in hours.tolist()]


def _busyness(at_ms: int) -> float:
    time_of_day = instant(at_ms)
    by_hour = 1.0 if 8 <= time_of_day.hour < 18 else 0.5 if 6 <= time_of_day.hour < 21 else 0.15
    return by_hour * (0.35 if time_of_day.weekday() >= 5 else 1.0)


def _one_of(strata: Sequence[Stratum], rng: np.random.Generator) -> Stratum:
    return strata[int(rng.choice(len(strata), p=[one.share for one in strata]))]
