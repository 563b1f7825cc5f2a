"""Tables of savings: both groups side by side, and left-out runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from core.maths.statistics.savings import Estimate, Savings
from dashboard import wording
from dashboard.sentences.gain import points, rate
from dashboard.wording import Words

_INCOMPARABLE: Final = "a group has too few runs or sessions of their model, channel and baseline rate"


def left_out(saved: Savings) -> list[tuple[Words, int, str]]:
    """Return the runs that take no part: their kind, how many, and why."""
    out = saved.left_out
    return [
        (Words("passive"), out.passive, "all arms were in; nothing was chosen"),
        (Words("fallback"), out.fallback, "the selector could not be reached"),
        (Words("imported"), out.imported, "armscope did not choose them"),
        (Words("unfinished"), out.not_completed, "aborted or failed; they count in the error rate"),
        (Words("unknown-usage"), out.unknown_usage, "no tokens known, which is not 0"),
        (Words("incomparable"), out.uncompared, _INCOMPARABLE),
    ]


def left_out_table(saved: Savings) -> dict[str, list[object]]:
    """Return the left-out runs with reasons, and the rest."""
    rows = left_out(saved)
    used = sum(saved.overall.n_compared)
    return {
        "runs": [*[name.replace("-", " ").capitalize() for name, _, _ in rows], "Compared"],
        "number": [*[number for _, number, _ in rows], used],
        "why": [*[why for _, _, why in rows], "baseline or selected, ended normally, tokens known"],
    }


def comparison_table(saved: Savings) -> dict[str, list[object]]:
    """Return both groups side by side, by tokens, duration and ends, and their differences with intervals."""
    overall = saved.overall
    base, chosen = overall.baseline, overall.selected
    duration = overall.duration_saved_ms
    tokens = (
        (base.mean_tokens, chosen.mean_tokens)
        if overall.is_narrow
        else (base.capped_tokens, chosen.capped_tokens)
    )
    rows = [
        _row("tokens per run", tokens, _count, _fewer(overall.shown)),
        _row(
            "duration, s",
            (base.mean_duration_ms, chosen.mean_duration_ms),
            _seconds,
            (
                _turned(duration, lambda value: wording.change(value / 1000, 1)),
                _turned_limits(duration, lambda low, high: _decimal_limits(low / 1000, high / 1000)),
            ),
        ),
        _row("error rate", (base.error_rate, chosen.error_rate), rate, points(overall.error_difference)),
        _row(
            "did not end normally",
            (base.unfinished_rate, chosen.unfinished_rate),
            rate,
            points(overall.unfinished_difference),
        ),
    ]
    return _columns(rows)


def counting_table(saved: Savings) -> dict[str, list[object]]:
    """Return the tokens of both groups, counted in each way, and the runs above the common cap."""
    overall = saved.overall
    base, chosen = overall.baseline, overall.selected
    means = (base.mean_tokens, chosen.mean_tokens)
    typical = (base.typical_tokens, chosen.typical_tokens)
    capped = (base.capped_tokens, chosen.capped_tokens)
    return _columns(
        [
            _row("tokens, mean run", means, _count, _fewer(overall.saved_percent)),
            _row("tokens, typical run", typical, _count, _fewer(overall.typical_percent)),
            _row("tokens, counted up to a cap", capped, _count, _fewer(overall.capped_percent)),
            _row("runs above the common cap", (base.share_above, chosen.share_above), rate, _NO_INTERVAL),
            _row(
                "tokens above the common cap, per run",
                (base.tokens_above, chosen.tokens_above),
                _count,
                _NO_INTERVAL,
            ),
        ]
    )


_Row = tuple[str, str, str, str, str]


def _columns(rows: Sequence[_Row]) -> dict[str, list[object]]:
    names = ("what", "baseline", "selected", "difference", "95% interval")
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


_NO_INTERVAL: Final = (wording.MISSING, wording.MISSING)


def _row(
    name: str,
    groups: tuple[float | None, float | None],
    words: Callable[[float | None], str],
    difference: tuple[str, str],
) -> _Row:
    return (name, words(groups[0]), words(groups[1]), *difference)


def _fewer(saved: Estimate) -> tuple[str, str]:
    """Return savings in per cent as a change of tokens, and its interval."""
    return (
        _turned(saved, lambda value: wording.change(value, 1, "%")),
        _turned_limits(saved, wording.percent_interval),
    )


def counting_note(saved: Savings) -> Words:
    """Return the three ways of counting, as Markdown."""
    only = "" if saved.overall.is_narrow else ", which these do not"
    return (
        "The **mean run** is the plain average, which a few runaway runs can carry; it has an interval only where "
        f"runs lie close together{only}. The **typical run** is the geometric mean. The **cap** of each group is its "
        "own 95th percentile of runs, each divided by the typical run of its model and channel. So a saving of 25% "
        "in all runs stays 25%. Runs above a **common cap**, the percentile of both groups together, are in the "
        "table below."
    )


def _count(value: float | None) -> str:
    return wording.MISSING if value is None else wording.count(value)


def _seconds(value_ms: float | None) -> str:
    return wording.MISSING if value_ms is None else f"{value_ms / 1000:,.1f}"


def _turned(saved: Estimate, words: Callable[[float], str]) -> str:
    """Return the savings as a change: selected minus baseline."""
    return wording.MISSING if saved.value is None else words(-saved.value)


def _turned_limits(saved: Estimate, words: Callable[[float, float], str]) -> str:
    return _limits_or(saved, lambda low, high: words(-high, -low))


def _limits_or(estimate: Estimate, words: Callable[[float, float], str]) -> str:
    if estimate.lower is None or estimate.upper is None:
        return wording.MISSING
    return words(estimate.lower, estimate.upper)


def _decimal_limits(low: float, high: float) -> str:
    low, high = wording.outwards(low, high, 1)
    return wording.signed_minus(f"{low:,.1f} to {high:,.1f}")
