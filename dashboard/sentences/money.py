"""Sentences about money: what a month saved, and runs without a bill."""

from __future__ import annotations

from typing import Final

from core.maths.statistics.savings import MoneySaved, Savings
from core.records.currency import mean_decimals
from core.records.model_kinds import price_words
from core.records.saving import SpanSaved
from core.records.times import HOUR_MS, instant
from dashboard import wording
from dashboard.wording import Markdown, Words

_MILLION: Final = 1e6


def is_money(saved: Savings) -> bool:
    """Return whether the saving is named in money."""
    return saved.money is not None and saved.money.is_known


def month(saved: Savings, now_ms: int, *, latest: bool = False) -> Markdown:
    """Return what choosing arms saved in the latest month and, unless ``latest``, before; empty without a saving."""
    spans, currency = _spans(saved)
    known = [one for one in spans if one.saved is not None and one.start_hour >= 0]
    if not known:
        return Words("")
    *_, this = known
    start_ms, end_ms = this.start_hour * HOUR_MS, this.end_hour * HOUR_MS
    name = wording.month(start_ms)
    when = f"{name} so far" if start_ms <= now_ms < end_ms else f"{name} {instant(start_ms).year}"
    about = (
        ", by estimated bills" if currency is not None and saved.money and saved.money.is_estimated else ""
    )
    if latest:
        return f"{when}: {wording.literal(_of_month(this, currency))}{Words(about)}."
    runs = wording.things(this.n_selected, "selected run")
    words: Markdown = f"**{when}**: {wording.literal(_of_month(this, currency))} in {runs}{Words(about)}."
    if len(known) < 2:
        return words
    before = known[-2]
    return f"{words} {wording.month(before.start_hour * HOUR_MS)}: {wording.literal(_of_month(before, currency))}."


def per_run(saved: Savings) -> Markdown:
    """Return what a selected run takes, and a baseline run: money where bills are known, and tokens."""
    takes: list[str] = [f"{wording.count(mean)} tokens" for mean in saved.overall.columns.tokens]
    money = saved.money
    if money is not None and money.is_known:
        means = (money.baseline_mean, money.selected_mean)
        costs = [wording.MISSING if mean is None else wording.money(mean, money.currency) for mean in means]
        takes = [f"{cost} and {tokens}" for cost, tokens in zip(costs, takes, strict=True)]
    baseline, selected = map(wording.literal, takes)
    return f"**A mean run**: {selected} with chosen arms, {baseline} in the others."


def months_table(saved: Savings) -> dict[str, list[str]]:
    """Return each month: the means of a run, times its selected runs is what was saved; the last row adds them up.

    Runs that a month can't compare have a row.
    """
    spans, currency = _spans(saved)
    shown = [one for one in spans if one.saved is not None]
    total = sum(one.saved or 0.0 for one in shown)
    n_left = sum(one.n_uncompared for one in spans) + sum(
        one.n_selected for one in spans if one.saved is None
    )
    none = wording.MISSING
    left = [("not compared", none, none, wording.count(n_left), none)]
    n_all = sum(one.n_selected for one in shown)
    rows = [
        *(
            (_month(one), *_means(one, currency), wording.count(one.n_selected), _signed(one.saved, currency))
            for one in shown
        ),
        *(left if n_left else []),
        ("in all", none, none, wording.count(n_all + n_left), _signed(total, currency)),
    ]
    heads = ("month, UTC", "baseline run", "selected run", "selected runs", "saved")
    return {head: [row[at] for row in rows] for at, head in enumerate(heads)}


def _spans(saved: Savings) -> tuple[tuple[SpanSaved, ...], str | None]:
    """Return the months in money and its currency where bills are known, else in tokens and None."""
    if saved.money is not None and is_money(saved):
        return saved.money.months, saved.money.currency
    return saved.months, None


def _month(one: SpanSaved) -> str:
    if one.start_hour < 0:
        return "time unknown"
    start_ms = one.start_hour * HOUR_MS
    return f"{wording.month(start_ms)} {instant(start_ms).year}"


def _means(one: SpanSaved, currency: str | None) -> tuple[str, str]:
    """Return both means with as many decimals as their product with the runs needs."""
    saved = one.saved or 0.0
    baseline, selected = (
        wording.MISSING
        if mean is None
        else f"{mean:,.{1 if abs(saved) < _MILLION else 0}f}"
        if currency is None
        else wording.money(mean, currency, mean_decimals(saved, one.n_selected))
        for mean in one.means
    )
    return baseline, selected


def _signed(amount: float | None, currency: str | None) -> str:
    words = _amount(amount or 0.0, currency)
    return f"{wording.MINUS}{words}" if (amount or 0.0) < 0 else words


def _of_month(one: SpanSaved, currency: str | None) -> str:
    value = one.saved or 0.0
    return f"{_amount(value, currency)} {'saved' if value >= 0 else 'more than baseline'}"


def _amount(value: float, currency: str | None) -> str:
    """Return an amount without its sign: money, or tokens, of which millions have two decimals.

    >>> _amount(-21_251_123.0, None), _amount(48.4587, "$"), _amount(9_140.0, None)
    ('21.25 million tokens', '$48.46', '9,140 tokens')
    """
    size = abs(value)
    if currency is not None:
        return wording.money(size, currency)
    return f"{size / _MILLION:,.2f} million tokens" if size >= _MILLION else f"{wording.count(size)} tokens"


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
