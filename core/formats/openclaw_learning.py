"""A learner at one moment in the shapes of OpenClaw's learning API: what its page, its command and its chat read.

It also makes the text that OpenClaw's ``learning status`` and ``/learning status`` print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Final, Literal

import msgspec

from core.formats.strict import utc_ms_of
from core.records.arm import Band
from core.records.run import Phase
from core.records.times import instant

Confidence = Literal["low", "medium", "high"]
"""OpenClaw's three words for how much is known of an arm."""

CONFIDENCE: Final[dict[Band, Confidence]] = {
    "none": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "very_high": "high",
}

_SHOWN: Final = 5
_NONE: Final = "–"
_HEADS: Final = ("Arm", "Mean", "Pulls", "Last Updated")
_LEAST: Final = (0, 6, 5, 12)
"""Least widths of the columns."""


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Names as JavaScript writes them."""


class BaselineRuns(_Shape, frozen=True, kw_only=True):
    """Baseline against selected runs; durations in milliseconds. None = there is no figure.

    ``token_savings_percent`` is OpenClaw's formula: it takes the two averages as they are. The members of ``savings``
    are ours: the headline of armscope, its 95 % interval, and the verdict.
    """

    baseline_runs: int
    selected_runs: int
    baseline_avg_tokens: float | None
    selected_avg_tokens: float | None
    token_savings_percent: float | None
    baseline_avg_duration: float | None
    selected_avg_duration: float | None
    savings_percent: float | msgspec.UnsetType = msgspec.UNSET
    savings_interval: tuple[float, float] | msgspec.UnsetType = msgspec.UNSET
    savings_verdict: str | msgspec.UnsetType = msgspec.UNSET


class Summary(_Shape, frozen=True, kw_only=True):
    """A learner in one answer. ``trace_count`` counts observations, as OpenClaw's does, ``runs`` the runs;
    ``total_tokens`` adds up what is known; ``explore_ratio`` is the baseline rate. Times are milliseconds since
    1970 UTC, None = unknown.
    """

    trace_count: int
    arm_count: int
    total_tokens: int
    accuracy: float = 0.0
    explore_ratio: float = 0.0
    total_reward: float = 0.0
    min_timestamp: int | None
    max_timestamp: int | None
    baseline: BaselineRuns
    learner: str = ""
    runs: int = 0


class Config(_Shape, frozen=True, kw_only=True):
    """Settings of a learner. ``token_budget`` 0 = unlimited; None = unknown."""

    phase: Phase
    token_budget: int | None = None
    baseline_rate: float | None = None
    min_pulls: int | None = None
    enabled: bool = True
    backend: str = "qortex"  # the protocol that it speaks: clients know it by this name
    strategy: str = "thompson"
    seed_arm_ids: tuple[str, ...] = ()


class Limits(_Shape, frozen=True, kw_only=True):
    """Ends of a credible interval."""

    lower: float
    upper: float


class ArmState(_Shape, frozen=True, kw_only=True):
    """The belief about an arm.

    ``last_updated`` is in milliseconds since 1970 UTC, "" = never. ``tier`` has our own five words where
    ``confidence`` has OpenClaw's three.
    """

    arm_id: str
    alpha: float
    beta: float
    mean: float
    pulls: int
    last_updated: int | str
    confidence: Confidence = "low"
    tier: Band = "none"
    is_seed: bool = False
    is_underexplored: bool = False
    credible_interval: Limits | None = None


def status_text(summary: Summary, config: Config, arms: Sequence[ArmState]) -> str:
    """The text to the letter; ``arms`` with the highest mean first."""
    return "\n".join(_lines(summary, config, arms))


def _lines(summary: Summary, config: Config, arms: Sequence[ArmState]) -> Iterator[str]:
    yield f"Learning Layer Status  [{config.phase.upper()}]"
    yield ""
    words = "  |  ".join(_settings(config))
    if words:
        yield f"  {words}"
        yield ""
    if summary.trace_count == 0:
        yield "No observations recorded yet. Run some agent messages to start collecting data."
        return
    counted = f"Observations: {summary.trace_count}    Arms: {summary.arm_count}"
    yield f"  {counted}    Tokens: {summary.total_tokens:,}    Range: {_range(summary)}"
    yield ""
    yield from _distribution(summary.baseline)
    if not arms:
        yield "No arm posteriors yet."
        return
    yield "Top Arms (highest posterior mean)"
    yield _table(arms[:_SHOWN])
    if len(arms) > _SHOWN:
        yield "Bottom Arms (candidates for exclusion)"
        yield _table(arms[: -_SHOWN - 1 : -1])


def _settings(config: Config) -> Iterator[str]:
    if config.token_budget:
        yield f"Budget: {config.token_budget:,}"
    if config.baseline_rate is not None:
        yield f"Baseline: {_fixed(config.baseline_rate * 100, 0)}%"
    if config.min_pulls:
        yield f"Min pulls: {config.min_pulls}"


def _range(summary: Summary) -> str:
    if summary.min_timestamp is None or summary.max_timestamp is None:
        return _NONE
    return f"{_date(summary.min_timestamp)} – {_date(summary.max_timestamp)}"


def _distribution(runs: BaselineRuns) -> Iterator[str]:
    total = runs.baseline_runs + runs.selected_runs
    if total == 0:
        return
    shares = [f"{n} ({_fixed(n / total * 100, 1)}%)" for n in (runs.baseline_runs, runs.selected_runs)]
    yield "Run Distribution"
    yield f"  Baseline: {shares[0]}    Selected: {shares[1]}"
    saved = runs.token_savings_percent
    if saved is not None:
        known = runs.baseline_avg_tokens, runs.selected_avg_tokens
        means = [_NONE if one is None else _fixed(one, 0) for one in known]
        sign = "+" if saved > 0 else ""
        averages = f"(baseline avg: {means[0]}, selected avg: {means[1]})"
        yield f"  Token Savings: {sign}{_fixed(saved, 1)}% {averages}"
    if runs.savings_percent is not msgspec.UNSET and runs.savings_interval is not msgspec.UNSET:
        low, high = _outwards(*runs.savings_interval)
        yield f"  armscope: {_fixed(runs.savings_percent, 1)}% fewer tokens, 95% interval {low}% to {high}%"
    yield ""


def _table(arms: Sequence[ArmState]) -> str:
    rows = [(one.arm_id, _fixed(one.mean, 3), f"{one.pulls}", _date(one.last_updated)) for one in arms]
    columns = zip(_HEADS, _LEAST, zip(*rows, strict=True), strict=True)
    widths = [max(least, len(head), *map(len, cells)) for head, least, cells in columns]
    rules = ["─" * (width + 2) for width in widths]
    lines = [
        f"┌{'┬'.join(rules)}┐",
        _row(_HEADS, widths),
        f"├{'┼'.join(rules)}┤",
        *[_row(row, widths) for row in rows],
        f"└{'┴'.join(rules)}┘",
        "",
    ]
    return "\n".join(lines)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    parts = [first[0].ljust(first[1]), *[cell.rjust(width) for cell, width in others]]
    return f"│ {' │ '.join(parts)} │"


def _outwards(low: float, high: float) -> tuple[str, str]:
    """Limits with one decimal, rounded outwards."""
    tenth = Decimal("0.1")
    return str(Decimal(low).quantize(tenth, ROUND_FLOOR)), str(Decimal(high).quantize(tenth, ROUND_CEILING))


def _fixed(value: float, digits: int) -> str:
    """Return a number as JavaScript's ``toFixed`` does: the binary number exactly, halves away from 0."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))


def _date(at: int | str) -> str:
    """A day as Americans write it, in UTC; 0 and "" are no times."""
    if not at:
        return _NONE
    at_ms, _ = utc_ms_of(at)
    if at_ms is None:
        return "Invalid Date"
    day = instant(at_ms)
    return f"{day.month}/{day.day}/{day.year}"
