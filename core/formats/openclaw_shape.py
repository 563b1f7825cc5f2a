"""A learner as JSON and CSV in the shape of OpenClaw's learning export, for programs that know that shape.

``metrics`` and ``posteriors`` are as OpenClaw writes them: whole numbers have no decimal point. ``traces`` have the
documented fields. OpenClaw has no ``observations``; armscope adds them, each with its ``context``. ``lagged`` marks a
person's reward. This is a view: only our own lines (`core.formats.armscope`) hold everything.

In CSV an apostrophe precedes a text that a spreadsheet would take for a formula; numbers stay numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

import msgspec

from core.records.cells import csv_line
from core.records.ledger_lines import RewardContext, RewardLine, RunLine
from core.records.observation import whole_pulls
from core.records.run import Run, Usage

_POSTERIOR_HEADS: Final = ("armId", "alpha", "beta", "mean", "pulls", "lastUpdated")
_OBSERVATION_HEADS: Final = (
    "armId",
    "kind",
    "reward",
    "weight",
    "pulls",
    "timestamp",
    "lagged",
    "reason",
    "by",
    "run",
)

Json = dict[str, object]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """OpenClaw's numbers of the full learner; ``explore_ratio`` is its baseline rate."""

    learner: str
    total_pulls: int
    total_reward: float
    accuracy: float
    arm_count: int
    explore_ratio: float


class Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A posterior as OpenClaw's export lists it; ``last_updated`` "" = never."""

    arm_id: str
    alpha: float
    beta: float
    mean: float
    pulls: int
    last_updated: str = ""


class Observed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One observation that counts; ``timestamp`` in milliseconds since 1970 UTC.

    An observation with a weight below 1 adds its weight to the fractional pulls, not a whole pull.
    """

    arm_id: str
    kind: str
    reward: float | None
    weight: float
    pulls: int
    timestamp: int | None
    context: RewardContext


def trace_of(run: Run) -> Json:
    """A run in the documented fields; its uid is the trace's id."""
    used = set(run.referenced or ())
    return {
        "traceId": run.uid,
        "runId": run.uid,
        "sessionId": run.session,
        "timestamp": run.ended_at_ms,
        "provider": run.provider,
        "model": run.model,
        "channel": run.channel,
        "isBaseline": {"baseline": True, "selected": False}.get(run.run_class),
        "arms": [
            *[_arm(arm.key, True, arm.key in used, arm.token_cost) for arm in run.inventory.arms],
            *[_arm(key, False, False, None) for key in run.excluded],
        ],
        "usage": None if run.usage is None else _usage(run.usage),
        "durationMs": run.duration_ms,
        "systemPromptChars": run.prompt_chars,
        "aborted": run.status == "aborted",
        "error": "error" if run.status == "error" else None,
    }


def _usage(usage: Usage) -> Json:
    """Return the usage; without its parts where only the total is known."""
    parts = {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
    }
    document: Json = dict(parts) if any(parts.values()) else dict.fromkeys(parts)
    return {**document, "total": usage.tokens}


def _arm(key: str, included: bool, referenced: bool, cost: int | None) -> Json:
    return {"armId": key, "included": included, "referenced": referenced, "tokenCost": cost}


def automatic(line: RunLine, corrected: frozenset[str]) -> Iterator[Observed]:
    """The observations a run gave by itself, but for those that a person corrected."""
    if line.outcome != "observed":
        return
    run = line.run
    used = set(run.referenced or ())
    context = RewardContext(lagged=False, run=run.uid)
    for arm in run.inventory.arms:
        if arm.key not in corrected:
            yield Observed(
                arm_id=arm.key,
                kind="automatic",
                reward=float(arm.key in used),
                weight=1.0,
                pulls=1,
                timestamp=run.ended_at_ms,
                context=context,
            )


def lagged(line: RewardLine) -> Observed:
    """A row of the ledger."""
    if line.success_micro is None or line.failure_micro is None:
        reward, weight_micro = line.reward, line.weight_micro
    else:
        weight_micro = line.success_micro + line.failure_micro
        reward = line.success_micro / weight_micro if weight_micro else None
    return Observed(
        arm_id=line.arm,
        kind=line.observation,
        reward=reward,
        weight=weight_micro / 1e6,
        pulls=whole_pulls(line.observation, weight_micro) if line.pulls is None else line.pulls,
        timestamp=line.at_ms,
        context=line.context,
    )


# --- JSON -------------------------------------------------------------------------------------------------


def as_json(
    metrics: Metrics,
    posteriors: Sequence[Stored],
    more: Mapping[str, object | Iterator[object]] | None = None,
) -> Iterator[str]:
    """The document in pieces; ``more`` are further members, a lazy one with an item a line.

    >>> metrics = Metrics(learner="a", total_pulls=0, total_reward=0, accuracy=0, arm_count=0, explore_ratio=0.1)
    >>> "".join(as_json(metrics, [], {"traces": iter([{"a": 1.0}])})).splitlines()[-5:]
    ['  "posteriors": [],', '  "traces": [', '    {"a": 1}', '  ]', '}']
    """
    whole: Json = {"metrics": metrics, "posteriors": list(posteriors)}
    yield "{"
    for number, (name, value) in enumerate({**whole, **(more or {})}.items()):
        yield f"{',' if number else ''}\n  {json.dumps(name)}: "
        if isinstance(value, Iterator):
            yield from _items(value)
        else:
            text = json.dumps(_plain(value), indent=2, ensure_ascii=False)
            yield text.replace("\n", "\n  ")
    yield "\n}"


def _items(values: Iterator[object]) -> Iterator[str]:
    yield "["
    separator = "\n    "
    for value in values:
        yield separator + json.dumps(_plain(value), ensure_ascii=False)
        separator = ",\n    "
    yield "]" if separator.startswith("\n") else "\n  ]"


def _plain(value: object) -> object:
    """Return a number as JavaScript writes it: a whole number has no point."""
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.to_builtins(value))
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


# --- CSV --------------------------------------------------------------------------------------------------


def posteriors_as_csv(posteriors: Iterable[Stored]) -> Iterator[str]:
    """A table of posteriors, line by line, numbers with four decimals."""
    yield csv_line(_POSTERIOR_HEADS)
    for one in posteriors:
        numbers = (_fixed(one.alpha), _fixed(one.beta), _fixed(one.mean))
        yield csv_line((one.arm_id, *numbers, one.pulls, one.last_updated))


def observations_as_csv(observations: Iterable[Observed]) -> Iterator[str]:
    """A table of observations with their contexts, line by line."""
    yield csv_line(_OBSERVATION_HEADS)
    for one in observations:
        *values, context = msgspec.structs.astuple(one)
        yield csv_line((*values, context.lagged, context.reason, context.by, context.run))


def _fixed(number: float) -> str:
    return str(Decimal(number).quantize(Decimal("0.0001"), rounding=ROUND_HALF_UP))
