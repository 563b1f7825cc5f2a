"""Prices: each part of a model's prices in words, and what a change makes of them, for every door."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.records.bill import PARTS, ModelPrices, Price, dollars
from core.records.currency import money_words

PART_WORDS: Final = dict(
    zip(
        PARTS,
        ("input", "cached input", "cache write of 5 minutes", "cache write of 1 hour", "output"),
        strict=True,
    )
)


def prices_text(prices: Mapping[str, ModelPrices], currency: str) -> str:
    """Return the prices of all models in a line.

    >>> prices_text({"m": 3.0, "n": Price(input_micro=5_000_000, output_micro=25_000_000)}, "$")
    'm: input $3.00; n: input $5.00, output $25.00'
    """
    return "; ".join(
        f"{model}: {', '.join(f'{part} {amount}' for part, amount in _parts(one, currency).items())}"
        for model, one in prices.items()
    )


def changed_prices(
    before: Mapping[str, ModelPrices], after: Mapping[str, ModelPrices], currency: str
) -> list[str]:
    """Return each part that a change of prices sets, alters or removes.

    >>> changed_prices({"m": 3.0, "n": 1.0}, {"m": Price(input_micro=3_000_000, output_micro=4_000_000)}, "$")
    ['output of m: $4.00 per million tokens', 'input of n: no price']
    """
    changes = []
    for model in {**before, **after}:
        was, now = (_parts(one[model], currency) if model in one else {} for one in (before, after))
        for part in {**was, **now}:
            if was.get(part) != now.get(part):
                unit = " per million tokens" if part in PART_WORDS.values() and part in now else ""
                changes.append(f"{part} of {model}: {now.get(part, 'no price')}{unit}")
    return changes


def _parts(prices: ModelPrices, currency: str) -> dict[str, str]:
    if isinstance(prices, (int, float)):
        return {PART_WORDS["input"]: money_words(prices, currency)}
    listed = (prices,) if isinstance(prices, Price) else prices
    return {name: amount for one in listed for name, amount in _named(dollars(one), currency)}


def _named(written: Mapping[str, Any], currency: str, of: str = "") -> Iterator[tuple[str, str]]:
    """Yield the parts of one period; what is billed apart names its tier, region or size."""
    start = written.get("valid_from")
    since = f"{of} from {start[:10]}" if isinstance(start, str) else of
    for name, value in written.items():
        if isinstance(value, Mapping):
            yield from _named(value, currency, f"{since}, {name}")
        elif name in PART_WORDS:
            yield f"{PART_WORDS[name]}{since}", money_words(value, currency)
        elif name == "search":
            yield f"a search{since}", money_words(value, currency)
        elif name == "above":
            yield f"size{since}", f"above {value:,} tokens"
        elif name != "valid_from":
            yield f"{name}{since}", f"{value:g} times its price"
