"""Sentences about money: what a month saved, and runs without a bill."""

from __future__ import annotations

from typing import Final, Literal

from core.flows.queries import MonthSaved
from core.maths.statistics.savings import Estimate, MoneySaved
from core.records.model_kinds import price_words
from core.records.times import instant
from dashboard import wording
from dashboard.wording import Markdown, Words

_MILLION: Final = 1e6


def month(months: tuple[MonthSaved, MonthSaved], now_ms: int) -> Markdown:
    """Return what choosing arms saved in the month of the newest run and in the month before; money where priced."""
    this, before = months
    name = wording.month(this.start_ms)
    when = f"{name} so far" if now_ms < this.end_ms else f"{name} {instant(this.start_ms).year}"
    saved = this.total.saved
    if saved.value is None:
        return f"**{when}**: too few runs were compared to name a saving."
    about = (
        ", by estimated bills"
        if this.is_money and this.savings.money and this.savings.money.is_estimated
        else ""
    )
    between = (
        ""
        if saved.lower is None
        else f" (95% interval {wording.literal(_limits(saved, _currency(this)))}{about})"
    )
    runs = wording.things(this.total.n_runs, "selected run")
    words = f"**{when}**: {wording.literal(_of_month(this))}{between} in {runs}."
    if before.total.saved.value is None or before.is_money != this.is_money:
        return words
    return f"{words} {wording.month(before.start_ms)}: {wording.literal(_of_month(before))}."


def months_table(months: tuple[MonthSaved, MonthSaved]) -> dict[str, list[str]]:
    """Return the bill of both months that have a saving: of one run in each group, and what was saved in all."""
    shown = [one for one in months if one.total.saved.value is not None]
    return {
        "month, UTC": [f"{wording.month(one.start_ms)} {instant(one.start_ms).year}" for one in shown],
        "baseline run": [_of_run(one, "baseline") for one in shown],
        "selected run": [_of_run(one, "selected") for one in shown],
        "selected runs": [wording.count(one.total.n_runs) for one in shown],
        "in all": [_of_month(one) for one in shown],
        "95% interval": [
            wording.MISSING if one.total.saved.lower is None else _limits(one.total.saved, _currency(one))
            for one in shown
        ],
    }


def _currency(one: MonthSaved) -> str | None:
    """Return the currency of a month's figures, or None where they are tokens."""
    return one.savings.money.currency if one.savings.money is not None and one.is_money else None


def _of_run(one: MonthSaved, group: Literal["baseline", "selected"]) -> str:
    money, overall = one.savings.money, one.savings.overall
    if one.is_money and money is not None:
        mean = money.baseline_mean if group == "baseline" else money.selected_mean
    else:
        mean = (overall.baseline if group == "baseline" else overall.selected).mean_tokens
    return wording.MISSING if mean is None else _amount(mean, _currency(one))


def _of_month(one: MonthSaved) -> str:
    value = one.total.saved.value or 0.0
    return f"{_amount(value, _currency(one))} {'saved' if value >= 0 else 'more than baseline'}"


def _amount(value: float, currency: str | None) -> str:
    """Return an amount without its sign: money, or tokens to three digits.

    >>> _amount(-21_251_123.0, None), _amount(48.4587, "$"), _amount(9_140.0, None)
    ('21.3 million tokens', '$48.46', '9,140 tokens')
    """
    size = abs(value)
    if currency is not None:
        return wording.money(size, currency)
    return f"{_millions(size)} million tokens" if size >= _MILLION else f"{wording.count(size)} tokens"


def _millions(tokens: float) -> Words:
    return Words(f"{tokens / _MILLION:.1f}")


def _limits(total: Estimate, currency: str | None) -> str:
    """Return the interval in the direction of the words."""
    low, high = total.lower or 0.0, total.upper or 0.0
    if (total.value or 0.0) < 0:
        low, high = -high, -low
    if currency is not None:
        return wording.money_interval(low, high, currency)
    if max(abs(low), abs(high)) < _MILLION:
        return wording.count_interval(low, high)
    low, high = wording.outwards(low / _MILLION, high / _MILLION, 1)
    return wording.signed_minus(f"{low:.1f} to {high:.1f} million")


def unbilled(money: MoneySaved) -> Markdown:
    """Return why some runs have no bill, and models without a price, as Markdown; empty where all have one."""
    words: list[Markdown] = []
    if money.n_unbilled:
        split = "their model has no price, a spend has none, or the split of their tokens is unknown"
        words.append(f"{wording.things(money.n_unbilled, 'run')} without an exact bill: {split}.")
    if missing := price_words([name or "runs without a model" for name in money.unpriced], money.offers):
        words.append(wording.literal(missing))
    if money.is_at_least:
        words.append(Words("Some bills are lower bounds, so nothing is proven in money."))
    if money.is_estimated:
        words.append(
            Words("Bills are estimated: a price is assumed by a ratio, or cache writes last five minutes.")
        )
    return " ".join(words)
