"""Bill of a run: five disjoint token counts per model and owner, the prices of a model, and their product.

Forms of prices that people write: dollars by part, and the day from which they apply → `Price`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import force_setattr

from core.errors import InvalidInput, InvalidSetting
from core.records.limits import (
    LAST_MS,
    MAX_LABEL_CHARS,
    MAX_TOKENS,
    Label,
    Tokens,
    flag,
    one_of,
    shown,
    text,
    whole,
)

Owner = Literal["agent", "sub-agent"]
OWNERS: Final[tuple[Owner, ...]] = ("agent", "sub-agent")
PARTS: Final = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
"""Disjoint parts of a model's tokens, each with a price of its own."""
MICRO: Final = 1_000_000
"""Millionths of a dollar in a dollar."""
MAX_PRICE: Final = 1e9
"""Highest price of a million tokens."""
MAX_PRICE_MICRO: Final = int(MAX_PRICE) * MICRO


class Spent(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Tokens that one model read and wrote in a run, for the agent or its sub-agents.

    The five counts are disjoint. ``model`` None is the run's own model. ``total`` counts tokens of an unknown split:
    a lower bound, outside every exact sum. ``assumed``: the source does not name the lifetime of its cache writes, so
    five minutes are assumed.

    >>> Spent(input=10, cache_read=100, output=5).tokens
    115
    """

    model: Label | None = None
    owner: Owner = "agent"
    input: Tokens = 0
    cache_read: Tokens = 0
    cache_write_5m: Tokens = 0
    cache_write_1h: Tokens = 0
    output: Tokens = 0
    total: Tokens = 0
    assumed: bool = False

    def __post_init__(self) -> None:
        for value in self.counts:  # there may be millions: a look at each, and names only for what is wrong
            if type(value) is not int or not 0 <= value <= MAX_TOKENS:
                self._check_counts()
                break
        if self.model is not None:
            force_setattr(self, "model", text("bill.model", self.model, MAX_LABEL_CHARS))
        one_of("bill.owner", self.owner, OWNERS)
        flag("bill.assumed", self.assumed)

    def _check_counts(self) -> None:
        for name, value in zip((*PARTS, "total"), self.counts, strict=True):
            force_setattr(self, name, whole(f"bill.{name}", value, MAX_TOKENS))

    @property
    def counts(self) -> tuple[int, int, int, int, int, int]:
        """The five counts, and those of an unknown split."""
        return (
            self.input,
            self.cache_read,
            self.cache_write_5m,
            self.cache_write_1h,
            self.output,
            self.total,
        )

    @property
    def tokens(self) -> int:
        """Sum of the five counts."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h + self.output

    @property
    def key(self) -> tuple[Owner, str]:
        """Key of the row inside its run."""
        return self.owner, self.model or ""


def merged(rows: Iterable[Spent]) -> tuple[Spent, ...]:
    """Return one row per owner and model, sorted; empty rows are left out.

    >>> two = [Spent(model="m", input=1), Spent(model="m", output=2), Spent(model="n")]
    >>> merged(two) == (Spent(model="m", input=1, output=2),)
    True
    """
    by_key: dict[tuple[Owner, str], list[Spent]] = {}
    for row in rows:
        if any(row.counts):
            by_key.setdefault(row.key, []).append(row)
    return tuple(_sum(by_key[key]) for key in sorted(by_key))


def _sum(rows: Sequence[Spent]) -> Spent:
    first = rows[0]
    if len(rows) == 1:
        return first
    counts = map(sum, zip(*[row.counts for row in rows], strict=True))
    return Spent(
        model=first.model,
        owner=first.owner,
        assumed=any(row.assumed for row in rows),
        **dict(zip((*PARTS, "total"), counts, strict=True)),
    )


def heaviest(rows: Iterable[Spent]) -> str | None:
    """Return the model with most of the agent's own tokens; of equals the first by name, None without any.

    >>> own, other = Spent(model="b", output=9), Spent(owner="sub-agent", model="c", input=99)
    >>> heaviest([Spent(model="a", input=3), own, other])
    'b'
    """
    own = [row for row in rows if row.owner == "agent" and row.model is not None]
    return max(own, key=lambda row: row.tokens).model if own else None


def disjoint(
    input: int,
    output: int,
    cache_read: int,
    cache_write: int,
    total: int | None,
) -> Spent | None:
    """Return the counts of a usage, made disjoint by its total; None where the total has another split.

    The parts may add up to the total. Or input contains the cached tokens, as in OpenAI's usage.

    >>> disjoint(10, 5, 100, 0, 115) == Spent(input=10, output=5, cache_read=100)
    True
    >>> disjoint(110, 5, 100, 0, 115) == Spent(input=10, output=5, cache_read=100)
    True
    >>> disjoint(0, 0, 0, 0, 115) is None
    True
    """
    cached = cache_read + cache_write
    if total is not None and total != input + output + cached:
        if total != input + output or cached > input:
            return None
        input -= cached
    return Spent(
        input=input,
        output=output,
        cache_read=cache_read,
        cache_write_5m=cache_write,
        assumed=cache_write > 0,
    )


def containing(*, model: str | None, owner: Owner, input: int, cached: int, output: int, total: int) -> Spent:
    """Return the counts of a usage whose input contains the cached tokens, as Gemini's does.

    Tokens that only the total counts have no split. Where ``cached`` exceeds ``input``, no token has one.

    >>> row = containing(model=None, owner="agent", input=110, cached=100, output=5, total=120)
    >>> row == Spent(input=10, cache_read=100, output=5, total=5)
    True
    """
    if cached > input:
        return Spent(model=model, owner=owner, total=total or input + output)
    return Spent(
        model=model,
        owner=owner,
        input=input - cached,
        cache_read=cached,
        output=output,
        total=max(total - input - output, 0),
    )


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Prices of one model from a time on: millionths of a dollar per million tokens; None = assumed by ratio."""

    input_micro: int
    cache_read_micro: int | None = None
    cache_write_5m_micro: int | None = None
    cache_write_1h_micro: int | None = None
    output_micro: int | None = None
    valid_from_ms: int = 0

    def __post_init__(self) -> None:
        for part in PARTS:
            value = getattr(self, f"{part}_micro")
            if value is not None and not 0 <= value <= MAX_PRICE_MICRO:
                raise InvalidSetting(
                    f"The price {part} must be 0 to {MAX_PRICE:,.0f} per million tokens, got {value / MICRO:g}.",
                    next_step=PRICE_EXAMPLE,
                )
        if not 0 <= self.valid_from_ms <= LAST_MS:
            raise InvalidSetting(
                f"valid_from must be a time from 1970 to 9999, got {self.valid_from_ms} ms.",
                next_step='Write it like "2026-01-31".',
            )


PRICE_EXAMPLE: Final = (
    "For example: armscope settings set prices '{\"large\": 3}', or each part apart: "
    '\'{"large": {"input": 3, "cache_read": 0.3, "cache_write_5m": 3.75, "cache_write_1h": 6, "output": 15}}\'.'
)
ModelPrices = float | Price | tuple[Price, ...]
"""Prices of a model: its input price in dollars, its five prices, or several of these by their first day."""

RATIOS: Final = {
    "input": (1, 1),
    "cache_read": (1, 10),
    "cache_write_5m": (5, 4),
    "cache_write_1h": (2, 1),
    "output": (5, 1),
}
"""Assumed price of each part, as a fraction of the input price."""
RATIO_NAME: Final = (
    "Claude list ratio: cached read 0.1, cache write 1.25 (5 minutes) or 2 (1 hour), "
    "output 5 × the input price"
)
_SCALE: Final = 20
"""Common denominator of the ratios."""
MAX_PICO: Final = (1 << 63) - 1

ESTIMATED: Final = 1
AT_LEAST: Final = 2
"""Marks of a bill, as bits: a price or a split is assumed; tokens of an unknown split are missing from it."""


class Bill(NamedTuple):
    """Cost of a run in 10⁻¹² dollars; None = unknown. ``marks`` are the bits `ESTIMATED` and `AT_LEAST`."""

    pico: int | None
    marks: int

    @property
    def is_estimated(self) -> bool:
        return self.marks & ESTIMATED != 0

    @property
    def is_at_least(self) -> bool:
        return self.marks & AT_LEAST != 0


UNKNOWN_BILL: Final = Bill(None, 0)


def price_at(prices: ModelPrices, at_ms: int | None) -> Price | None:
    """Return the price in force at a time; None = none was yet. Without a time the latest price applies.

    >>> price_at(3.0, None).input_micro
    3000000
    """
    if isinstance(prices, (int, float)):
        return Price(input_micro=round(prices * MICRO))
    listed = (prices,) if isinstance(prices, Price) else prices
    valid = [one for one in listed if at_ms is None or one.valid_from_ms <= at_ms]
    return max(valid, key=lambda one: one.valid_from_ms, default=None)


def input_price(prices: ModelPrices) -> float:
    """Return the latest input price, in dollars per million tokens.

    >>> input_price(2.5), input_price((Price(input_micro=1), Price(input_micro=2, valid_from_ms=9)))
    (2.5, 2e-06)
    """
    price = price_at(prices, None)
    return 0.0 if price is None else price.input_micro / MICRO


def cache_ratios(prices: Mapping[str, ModelPrices], *, lasts_minutes: float) -> tuple[float, float] | None:
    """Return the latest prices of a cached read and of a cache write, as parts of the input price.

    They are averages over the models that have both. None: no model has both. A cache that lasts longer than five
    minutes has the price of an hour.

    >>> cache_ratios({"m": Price(input_micro=100, cache_read_micro=20, cache_write_5m_micro=300)}, lasts_minutes=5)
    (0.2, 3.0)
    """
    part = "cache_write_5m_micro" if lasts_minutes <= 5 else "cache_write_1h_micro"
    latest = [price_at(one, None) for one in prices.values()]
    known = [
        (price.cache_read_micro / price.input_micro, getattr(price, part) / price.input_micro)
        for price in latest
        if price is not None
        and price.input_micro
        and price.cache_read_micro is not None
        and getattr(price, part) is not None
    ]
    if not known:
        return None
    reads, writes = zip(*known, strict=True)
    return sum(reads) / len(known), sum(writes) / len(known)


def cost(row: Spent, price: Price) -> tuple[int, bool]:
    """Return a row's cost in twentieths of 10⁻¹² dollars, and whether a part of it is assumed.

    >>> cost(Spent(input=2, output=1), Price(input_micro=3)), cost(Spent(input=1), Price(input_micro=3))
    ((420, True), (60, False))
    """
    amount, assumed = 0, row.assumed and row.cache_write_5m > 0
    for part in PARTS:
        count: int = getattr(row, part)
        if not count:
            continue
        known: int | None = getattr(price, f"{part}_micro")
        if known is None:
            above, below = RATIOS[part]
            amount += count * price.input_micro * above * (_SCALE // below)
            assumed = True
        else:
            amount += count * known * _SCALE
    return amount, assumed


def bill_of(
    rows: Sequence[Spent], model: str | None, at_ms: int | None, prices: Mapping[str, ModelPrices]
) -> Bill:
    """Return the bill of a run: all its rows at the prices of its time, rounded once.

    Unknown without a split, a model or a price; or above 9.2 million dollars.

    >>> bill_of((Spent(input=1_000_000, output=10),), "m", None, {"m": 3.0})
    Bill(pico=3000150000000, marks=1)
    """
    amount = marks = 0
    for row in rows:
        if row.total:
            marks |= AT_LEAST
        if not row.tokens:
            continue
        priced = prices.get(row.model or model or "")
        price = None if priced is None else price_at(priced, at_ms)
        if price is None:
            return UNKNOWN_BILL
        added, assumed = cost(row, price)
        amount += added
        if assumed or (at_ms is None and isinstance(priced, tuple)):
            marks |= ESTIMATED
    pico = _rounded(amount)
    if pico > MAX_PICO or not any(row.tokens for row in rows):
        return UNKNOWN_BILL
    return Bill(pico, marks)


def _rounded(amount: int) -> int:
    """Return an amount without its twentieths, rounded half to even.

    >>> _rounded(30), _rounded(50), _rounded(51)
    (2, 2, 3)
    """
    whole_part, rest = divmod(amount, _SCALE)
    return whole_part + (rest * 2 > _SCALE or (rest * 2 == _SCALE and whole_part % 2 == 1))


def checked_rows(rows: tuple[Spent, ...], where: str) -> None:
    """Refuse a bill with two rows of one owner and model."""
    keys = [row.key for row in rows]
    if len(set(keys)) != len(keys):
        owner, model = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInput(
            f"A bill must name a model once for each owner, got {model!r} of the {owner} twice{where}.",
            next_step="Add the two rows up.",
        )


_PARTS: Final = {**{part: part for part in PARTS}, "cache_write": "cache_write_5m"}
"""Names of the parts in dollars; ``cache_write`` alone means five minutes."""
_FROM: Final = "valid_from"
_ALLOWED: Final = (
    f"a number (the input price), or an object of {', '.join(PARTS)} and {_FROM}, or a list of such objects"
)


def plain_prices(value: object) -> object:
    """Return the setting ``prices`` in its stored form; what is no object of models passes unchanged.

    >>> plain_prices({"m": 3, "n": {"input": 5, "cache_read": 0.5, "valid_from": "1970-01-02"}})
    {'m': 3, 'n': {'input_micro': 5000000, 'cache_read_micro': 500000, 'valid_from_ms': 86400000}}
    """
    if not isinstance(value, Mapping):
        return value
    return {model: _of_model(str(model), price) for model, price in value.items()}


def dollars(price: Price) -> dict[str, float | str]:
    """Return a price by part, in dollars, as `plain_prices` takes it.

    >>> dollars(Price(input_micro=3_000_000, valid_from_ms=86_400_000))
    {'input': 3.0, 'valid_from': '1970-01-02T00:00:00+00:00'}
    """
    parts = {part: getattr(price, f"{part}_micro") for part in PARTS}
    written: dict[str, float | str] = {
        part: micro / MICRO for part, micro in parts.items() if micro is not None
    }
    if price.valid_from_ms:
        written[_FROM] = datetime.fromtimestamp(price.valid_from_ms / 1000, UTC).isoformat()
    return written


def _of_model(model: str, price: object) -> object:
    if isinstance(price, Mapping):
        return _fields(model, price)
    if isinstance(price, (list, tuple)):
        return [_of_model(model, one) for one in price]
    if isinstance(price, Price) or (isinstance(price, (int, float)) and not isinstance(price, bool)):
        return price
    raise _refused(model, price)


def _fields(model: str, price: Mapping[object, object]) -> dict[str, int]:
    fields: dict[str, int] = {}
    for name, value in price.items():
        if name in Price.__struct_fields__ and type(value) is int:
            field, number = str(name), value
        elif name == _FROM:
            field, number = "valid_from_ms", _start(model, value)
        elif name in _PARTS:
            field, number = f"{_PARTS[str(name)]}_micro", _micro(model, str(name), value)
        else:
            raise _refused(model, {name: value})
        if field in fields:
            raise _refused(model, price)
        fields[field] = number
    if "input_micro" not in fields:
        raise _refused(model, price)
    return fields


def _micro(model: str, part: str, value: object) -> int:
    """Return dollars as whole millionths."""
    try:
        dollars = Decimal(str(value)) if not isinstance(value, bool) else None
        micro = None if dollars is None else dollars * MICRO
    except InvalidOperation:
        micro = None
    if micro is None or not micro.is_finite() or micro != int(micro) or not 0 <= micro <= MAX_PRICE * MICRO:
        raise InvalidSetting(
            f"The price {part} of {model[:60]!r} must be 0 to {MAX_PRICE:,.0f} per million tokens with at most six "
            f"decimals, got {shown(value)}.",
            next_step=PRICE_EXAMPLE,
        )
    return int(micro)


def _start(model: str, value: object) -> int:
    try:
        start = datetime.fromisoformat(str(value))
    except ValueError as problem:
        raise InvalidSetting(
            f"The {_FROM} of {model[:60]!r} must be an ISO 8601 day or time, got {shown(value)}.",
            next_step='Write it like "2026-01-31".',
        ) from problem
    at = start if start.tzinfo is not None else start.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)


def _refused(model: str, value: object) -> InvalidSetting:
    return InvalidSetting(
        f"The prices of {model[:60]!r} must be {_ALLOWED}, got {shown(value)}.", next_step=PRICE_EXAMPLE
    )
