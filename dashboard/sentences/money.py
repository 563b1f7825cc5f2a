"""Sentences about savings in money, which come first where bills are known."""

from __future__ import annotations

from typing import Final

from core.statistics.savings import MoneySaved, Savings
from dashboard import wording
from dashboard.sentences.gain import AGAINST, ONE_LOOK
from dashboard.sentences.phrase import Phrase, Sentence, composed
from dashboard.wording import Markdown, Words

_NAMED: Final = 3
_BY: Final = ", by estimated bills"


def money_gain(money: MoneySaved) -> Sentence:
    """Return what the agent costs, without a full stop; the figure is known."""
    value = money.shown.value or 0.0
    less = f"{wording.percent(abs(value) / 100)} {'less' if value >= 0 else 'more'} money"
    capped = "" if money.headline == "plain" else ", each run counted up to a cap"
    by = _BY if money.is_estimated else ""
    if money.verdict in {"proven", "costs_more"}:
        return composed("the agent costs ", Phrase(less), f" than {AGAINST}{capped}{by}")
    return composed(f"the agent costs {less}{capped}{by}, ", Phrase("which is not proven yet"))


def money_sentence(saved: Savings) -> Sentence:
    """Return whether selecting saves money, with the interval; empty where bills give no figure."""
    money = saved.money
    if money is None or money.shown.value is None or money.shown.lower is None or money.shown.upper is None:
        return composed()
    low, high = money.shown.lower, money.shown.upper
    if money.shown.value < 0:
        low, high = -high, -low
    verb, more = ("saves", "of the money") if money.shown.value >= 0 else ("costs", "more money")
    amount = Phrase(f"{verb} {wording.percent(abs(money.shown.value) / 100)} {more} per run")
    between = f" (95% interval {wording.percent_interval(low, high)}, {ONE_LOOK}). "
    return composed("Selecting ", amount, between, *_claim(money))


def _claim(money: MoneySaved) -> Sentence:
    if money.verdict == "proven":
        return composed("That it saves money is ", Phrase("proven"), ".")
    if money.verdict == "costs_more" and not money.is_estimated:
        return composed("That it costs more is ", Phrase("proven"), ".")
    why = "bills are estimated" if money.is_estimated else "the interval of every look includes 0"
    if money.verdict == "mixed":
        why = "ordinary runs and runaway runs go different ways"
    elif money.verdict == "not_proven" and money.reason in {"few_for_proof", "few_sessions"}:
        why = "a proof takes more runs or sessions"
    return composed("This is ", Phrase("not proven"), f": {why}.")


def unbilled(money: MoneySaved) -> Markdown:
    """Return why some runs have no bill, as Markdown; empty where all have one."""
    if not money.n_unbilled and not money.is_estimated:
        return Words("")
    words: list[Markdown] = []
    if money.n_unbilled:
        names = [wording.literal(name) or Words("runs without a model") for name in money.unpriced[:_NAMED]]
        more = len(money.unpriced) - len(names)
        names += [f"{wording.count(more)} more"] if more else []
        why = f"; without a price: {wording.listed(names)}" if names else ""
        split = "their model has no price, or the split of their tokens is unknown"
        words.append(f"{wording.things(money.n_unbilled, 'run')} without an exact bill: {split}{why}.")
    if money.is_estimated:
        words.append(
            Words("Bills are estimated: a price is assumed by a ratio, or cache writes last five minutes.")
        )
    return " ".join(words)
