"""Bill of a run: five disjoint token counts per model and owner, the prices of a model, and their product.

People write prices in dollars by part, and the day from which they apply. `plain_prices` converts them to a `Price`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import force_setattr, replace

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
_UNCACHED: Final = ("cache_write_1h", "cache_write_5m", "input")
"""Parts that a cache read could replace, the dearest first."""
"""Disjoint parts of a model's tokens, each with a price of its own."""
CONTEXTS: Final = (0, 128_000, 200_000, 256_000, 272_000, 512_000)
"""Sizes in tokens above which providers bill a request apart. A row has the largest that its requests exceed."""
LONG: Final = 200_000
"""Default size above which a request has the price of a long context."""
MICRO: Final = 1_000_000
"""Millionths of a dollar in a dollar."""
MAX_PRICE: Final = 1e9
"""Highest price of a million tokens."""
MAX_PRICE_MICRO: Final = int(MAX_PRICE) * MICRO

RowKey = tuple[Owner, str, str, str, int]
_COUNTED: Final = (*PARTS, "total", "searches", "unread")

Rates = tuple[int | Fraction | None, ...]
"""Millionths of a dollar per million tokens by part; None = assumed by ratio."""

PRICE_EXAMPLE: Final = (
    "For example: armscope settings set prices '{\"large\": 3}', or each part apart: "
    '\'{"large": {"input": 3, "cache_read": 0.3, "cache_write_5m": 3.75, "cache_write_1h": 6, "output": 15}}\'.'
)
APART_EXAMPLE: Final = (
    "For example: armscope settings set prices "
    '\'{"large": {"input": 3, "fast": 2, "long": {"above": 200000, "input": 6}, "region": 1.1, "search": 0.01}}\'.'
)
TIERS: Final = ("fast", "priority", "batch", "flex")
"""Tiers that a price names next to its parts; its ``tier`` has all others."""
_LEAST_FACTOR: Final = {
    "fast": Fraction(1),
    "priority": Fraction(1),
    "batch": Fraction(1, 2),
    "flex": Fraction(1, 2),
}
"""Lower bounds for tiers without a price, as factors on the model's prices. Any other tier has the bound 0."""

RATIOS: Final = {
    "input": (1, 1),
    "cache_read": (1, 10),
    "cache_write_5m": (5, 4),
    "cache_write_1h": (2, 1),
    "output": (5, 1),
}
"""Assumed price of each part, as a fraction of the input price."""
_SCALE: Final = 20
"""Common denominator of the ratios."""
MAX_PICO: Final = (1 << 63) - 1

ESTIMATED: Final = 1
AT_LEAST: Final = 2
"""Marks of a bill, as bits. `ESTIMATED`: a price or a split is assumed. `AT_LEAST`: some cost is missing."""

_PART_OF: Final = {**{part: part for part in PARTS}, "cache_write": "cache_write_5m"}
"""Part by its name in the setting; ``cache_write`` alone means five minutes."""
_FROM: Final = "valid_from"
_APART: Final = (*TIERS, "tier", "long", "region", "search")
"""Names in the setting of what is billed apart: usual tiers, other tiers, long requests, regions, searches."""
_ALLOWED: Final = (
    f"a number (the input price), or an object of {', '.join((*PARTS, *_APART))} and {_FROM}, or a list of such "
    "objects"
)
ANY_REGION: Final = "*"


class Spent(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Tokens that one model read and wrote in a run, for the agent or its sub-agents.

    The five counts are disjoint. ``model`` None is the run's own model. ``total`` counts tokens of an unknown split:
    a lower bound, outside every exact sum. ``assumed``: the source does not name the lifetime of its cache writes, so
    five minutes are assumed.

    Rows that providers bill apart have a ``tier`` (like ``fast``; ``+`` joins several), the ``region`` of the
    inference, and the ``context`` that each of their requests exceeds. ``searches`` are billed by number. ``unread``
    counts spends that the source names and armscope does not understand.

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
    tier: Label = ""
    region: Label = ""
    context: Tokens = 0
    searches: Tokens = 0
    unread: Tokens = 0

    def __post_init__(self) -> None:
        for value in self.counts:  # for millions of rows: only a wrong count needs its name
            if type(value) is not int or not 0 <= value <= MAX_TOKENS:
                self._check_counts()
                break
        if self.model is not None:
            force_setattr(self, "model", text("bill.model", self.model, MAX_LABEL_CHARS))
        one_of("bill.owner", self.owner, OWNERS)
        flag("bill.assumed", self.assumed)
        if self.tier or self.region or self.context:
            for name in ("tier", "region"):
                force_setattr(self, name, text(f"bill.{name}", getattr(self, name), MAX_LABEL_CHARS))
            if self.context not in CONTEXTS:
                raise InvalidInput(
                    f"bill.context must be one of {', '.join(map(str, CONTEXTS))}, got {shown(self.context)}.",
                    next_step="Give the largest that each request exceeds.",
                )

    def _check_counts(self) -> None:
        for name, value in zip(_COUNTED, self.counts, strict=True):
            force_setattr(self, name, whole(f"bill.{name}", value, MAX_TOKENS))

    @property
    def counts(self) -> tuple[int, int, int, int, int, int, int, int]:
        """The five counts, the tokens of an unknown split, and the numbers of searches and of unread spends."""
        return (
            self.input,
            self.cache_read,
            self.cache_write_5m,
            self.cache_write_1h,
            self.output,
            self.total,
            self.searches,
            self.unread,
        )

    @property
    def tiers(self) -> list[str]:
        """The tiers that ``tier`` joins."""
        return self.tier.split("+") if self.tier else []

    @property
    def is_apart(self) -> bool:
        """True if the five prices of the model alone do not give the row's cost."""
        return bool(self.tier or self.region or self.context or self.searches or self.unread)

    @property
    def tokens(self) -> int:
        """Sum of the five counts."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h + self.output

    @property
    def key(self) -> RowKey:
        """Key of the row inside its run."""
        return self.owner, self.model or "", self.tier, self.region, self.context

    @property
    def as_request(self) -> Spent:
        """The row of one request, with the largest size that it exceeds.

        >>> Spent(input=1, cache_read=200_000).as_request.context, Spent(input=9).as_request.context
        (200000, 0)
        """
        size = self.tokens - self.output
        if size <= CONTEXTS[1]:
            return self
        return replace(self, context=max(bound for bound in CONTEXTS if bound < size))


def merged(rows: Iterable[Spent]) -> tuple[Spent, ...]:
    """Return one row per key, the sum of its rows, sorted by key and without empty rows.

    >>> two = [Spent(model="m", input=1), Spent(model="m", output=2), Spent(model="n")]
    >>> merged(two) == (Spent(model="m", input=1, output=2),)
    True
    """
    by_key: dict[RowKey, list[Spent]] = {}
    for row in rows:
        if any(row.counts):
            by_key.setdefault(row.key, []).append(row)
    return tuple(_sum(by_key[key]) for key in sorted(by_key))


def _sum(rows: Sequence[Spent]) -> Spent:
    first = rows[0]
    if len(rows) == 1:
        return first
    counts = map(sum, zip(*[row.counts for row in rows], strict=True))
    return replace(
        first,
        assumed=any(row.assumed for row in rows),
        **dict(zip(_COUNTED, counts, strict=True)),
    )


def heaviest(rows: Iterable[Spent]) -> str | None:
    """Return the model with most of the agent's own tokens: the first of equals, or None without any.

    >>> own, other = Spent(model="b", output=9), Spent(owner="sub-agent", model="c", input=99)
    >>> heaviest([Spent(model="a", input=3), own, other])
    'b'
    """
    own: dict[str, int] = {}
    for row in rows:
        if row.owner == "agent" and row.model is not None:
            own[row.model] = own.get(row.model, 0) + row.tokens
    return max(own, key=lambda model: own[model]) if own else None


def disjoint(
    input: int,
    output: int,
    cache_read: int,
    cache_write: int,
    total: int | None,
) -> Spent | None:
    """Return the disjoint counts of a usage, or None if they do not add up to its total.

    If input and output alone add up to it, input contains the cached tokens, as in OpenAI's usage.

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

    Tokens that only the total counts have no split. If ``cached`` exceeds ``input``, no token has a split.

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


def _check_amounts(price: Price | Apart, names: Iterable[str]) -> None:
    for name in names:
        _check_amount(name, getattr(price, f"{name}_micro"))


def _check_amount(name: str, micro: int | None) -> None:
    if micro is not None and not 0 <= micro <= MAX_PRICE_MICRO:
        raise InvalidSetting(
            f"The price {name} must be 0 to {MAX_PRICE:,.0f} per million tokens, got {micro / MICRO:g}.",
            next_step=PRICE_EXAMPLE,
        )


class Apart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Cost of a tier or of a long context: a factor on the model's prices, in millionths, or prices by part.

    A part without a price has the factor; without a factor it is assumed by ratio. ``above`` is the size of a
    request, in tokens, above which the price of a long context applies.
    """

    factor_micro: int | None = None
    input_micro: int | None = None
    cache_read_micro: int | None = None
    cache_write_5m_micro: int | None = None
    cache_write_1h_micro: int | None = None
    output_micro: int | None = None
    above: int = LONG

    def __post_init__(self) -> None:
        _check_amounts(self, (*PARTS, "factor"))

    def over(self, rates: Rates) -> Rates:
        """Return its own price of each part, or else the model's rate times the factor."""
        own = [getattr(self, f"{part}_micro") for part in PARTS]
        factor = None if self.factor_micro is None else Fraction(self.factor_micro, MICRO)
        scaled = [None if rate is None or factor is None else rate * factor for rate in rates]
        return tuple(rate if one is None else one for one, rate in zip(own, scaled, strict=True))


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Prices of one model from a time on: millionths of a dollar per million tokens; None = assumed by ratio.

    ``tiers`` has costs by tier, ``long`` is the cost of requests above a size. ``region_micro`` has factors in
    millionths by region, ``*`` for any other. ``search_micro`` is the price of one search.
    """

    input_micro: int
    cache_read_micro: int | None = None
    cache_write_5m_micro: int | None = None
    cache_write_1h_micro: int | None = None
    output_micro: int | None = None
    valid_from_ms: int = 0
    tiers: dict[str, Apart] = {}
    long: Apart | None = None
    region_micro: dict[str, int] = {}
    search_micro: int | None = None

    @property
    def rates(self) -> Rates:
        """Its prices by part."""
        return (
            self.input_micro,
            self.cache_read_micro,
            self.cache_write_5m_micro,
            self.cache_write_1h_micro,
            self.output_micro,
        )

    def factor_of(self, region: str) -> Fraction | None:
        """Return the factor of a region, or None if it has no price. Without a region it is 1."""
        if not region:
            return Fraction(1)
        micro = self.region_micro.get(region, self.region_micro.get(ANY_REGION))
        return None if micro is None else Fraction(micro, MICRO)

    def __post_init__(self) -> None:
        _check_amounts(self, (*PARTS, "search"))
        for name, factor in self.region_micro.items():
            _check_amount(f"region {shown(name)}", factor)
        if not 0 <= self.valid_from_ms <= LAST_MS:
            raise InvalidSetting(
                f"valid_from must be a time from 1970 to 9999, got {self.valid_from_ms} ms.",
                next_step='Write it like "2026-01-31".',
            )


ModelPrices = float | Price | tuple[Price, ...]
"""Prices of a model: its input price in dollars, one `Price`, or one for each period."""


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
    """Return the price in force at a time, or None before the first one. Without a time the latest price applies.

    >>> price_at(3.0, None).input_micro
    3000000
    """
    if isinstance(prices, (int, float)):
        return Price(input_micro=round(prices * MICRO))
    listed = (prices,) if isinstance(prices, Price) else prices
    valid = [one for one in listed if at_ms is None or one.valid_from_ms <= at_ms]
    return max(valid, key=lambda one: one.valid_from_ms, default=None)


def cache_ratios(prices: Mapping[str, ModelPrices], *, lasts_minutes: float) -> tuple[float, float] | None:
    """Return the latest prices of a cached read and of a cache write, as parts of the input price.

    They are averages over the models that have both prices, None without such a model. A cache that lasts longer than
    five minutes has the price of an hour.

    >>> cache_ratios({"m": Price(input_micro=100, cache_read_micro=20, cache_write_5m_micro=300)}, lasts_minutes=5)
    (0.2, 3.0)
    """
    part = "cache_write_5m_micro" if lasts_minutes <= 5 else "cache_write_1h_micro"
    latest = [price_at(one, None) for one in prices.values()]
    ratios = [
        (price.cache_read_micro / price.input_micro, getattr(price, part) / price.input_micro)
        for price in latest
        if price is not None
        and price.input_micro
        and price.cache_read_micro is not None
        and getattr(price, part) is not None
    ]
    if not ratios:
        return None
    reads, writes = zip(*ratios, strict=True)
    return sum(reads) / len(ratios), sum(writes) / len(ratios)


def cost(row: Spent, price: Price) -> tuple[int | Fraction, int]:
    """Return a row's cost in twentieths of 10⁻¹² dollars, and its marks.

    >>> cost(Spent(input=2, output=1), Price(input_micro=3)), cost(Spent(input=1), Price(input_micro=3))
    ((420, 1), (60, 0))
    >>> cost(Spent(input=1, tier="fast"), Price(input_micro=3))
    (60, 2)
    """
    rates, factor, marks = price.rates, Fraction(1), 0
    if row.is_apart or price.long is not None:
        rates, factor = _rates_apart(row, price)
        marks = AT_LEAST * bool(missing_parts(row, price))
    marks |= ESTIMATED * (row.assumed and row.cache_write_5m > 0)
    amount: int | Fraction = 0
    for part, rate in zip(PARTS, rates, strict=True):
        count: int = getattr(row, part)
        if not count:
            continue
        if rate is None:
            numerator, denominator = RATIOS[part]
            amount += count * (rates[0] or 0) * numerator * (_SCALE // denominator)
            marks |= ESTIMATED
        else:
            amount += count * rate * _SCALE
    if factor != 1:
        amount *= factor
    return amount + row.searches * (price.search_micro or 0) * MICRO * _SCALE, marks


def _rates_apart(row: Spent, price: Price) -> tuple[Rates, Fraction]:
    """Return the rates of a row that is billed apart, and the factor on them. A missing price gives a lower bound."""
    rates, factor = price.rates, Fraction(1)
    if price.long is not None and row.context >= price.long.above:
        rates = price.long.over(rates)
    for tier in row.tiers:
        if tier in price.tiers:
            rates = price.tiers[tier].over(rates)
        else:
            factor *= _LEAST_FACTOR.get(tier, 0)
    by_region = price.factor_of(row.region)
    return rates, factor if by_region is None else factor * by_region


def missing_parts(row: Spent, price: Price) -> list[str]:
    """Return the parts of a row that a price does not have.

    >>> missing_parts(Spent(input=9, tier="fast", region="us", searches=1), Price(input_micro=3))
    ['fast', 'region us', 'search']
    """
    missing = [tier for tier in row.tiers if tier not in price.tiers]
    if row.tokens and price.factor_of(row.region) is None:
        missing.append(f"region {row.region}")
    if row.searches and price.search_micro is None:
        missing.append("search")
    limit = next((one for one in CONTEXTS if one > row.context), MAX_TOKENS)
    if row.context >= LONG if price.long is None else row.context < price.long.above < limit:
        missing.append("long")
    return missing


def bill_of(
    rows: Sequence[Spent], model: str | None, at_ms: int | None, prices: Mapping[str, ModelPrices]
) -> Bill:
    """Return the bill of a run: all its rows at the prices of its time, rounded once.

    The bill is unknown if no row has a split, if a row has no model or price, or above 9.2 million dollars.

    >>> bill_of((Spent(input=1_000_000, output=10),), "m", None, {"m": 3.0})
    Bill(pico=3000150000000, marks=1)
    """
    amount: int | Fraction = 0
    marks = 0
    for row in rows:
        if row.total or row.unread:
            marks |= AT_LEAST
        if not row.tokens and not row.searches:
            continue
        priced = prices.get(row.model or model or "")
        price = None if priced is None else price_at(priced, at_ms)
        if price is None:
            return UNKNOWN_BILL
        row_amount, row_marks = cost(row, price)
        amount += row_amount
        marks |= row_marks
        if at_ms is None and isinstance(priced, tuple):
            marks |= ESTIMATED
    pico = _rounded(amount)
    if pico > MAX_PICO or not any(row.tokens or row.searches for row in rows):
        return UNKNOWN_BILL
    return Bill(pico, marks)


def as_read(rows: Iterable[Spent], tokens: int) -> list[Spent]:
    """Return the rows with so many of the agent's uncached tokens read from a cache instead, the dearest first.

    >>> [row] = as_read([Spent(input=100, cache_write_5m=900, output=5)], 950)
    >>> row.input, row.cache_write_5m, row.cache_read
    (50, 0, 950)
    """
    moved = []
    for row in rows:
        counts: dict[str, int] = {}
        for part in _UNCACHED if row.owner == "agent" else ():
            counts[part] = max(getattr(row, part) - tokens, 0)
            tokens -= getattr(row, part) - counts[part]
        n_read = sum(getattr(row, part) - n for part, n in counts.items())
        moved.append(replace(row, cache_read=row.cache_read + n_read, **counts))
    return moved


def _rounded(amount: int | Fraction) -> int:
    """Return an amount of twentieths in full units, rounded half to even.

    >>> _rounded(30), _rounded(50), _rounded(51)
    (2, 2, 3)
    """
    whole_part, rest = divmod(amount, _SCALE)
    return whole_part + (rest * 2 > _SCALE or (rest * 2 == _SCALE and whole_part % 2 == 1))


def checked_rows(rows: tuple[Spent, ...], where: str) -> None:
    """Refuse a bill with two rows of one key."""
    keys = [row.key for row in rows]
    if len(set(keys)) != len(keys):
        owner, model, *_ = next(key for key in keys if keys.count(key) > 1)
        raise InvalidInput(
            f"A bill must name a model once for each owner, got {model!r} of the {owner} twice{where}.",
            next_step="Add the two rows up.",
        )


def plain_prices(value: object) -> object:
    """Return the setting ``prices`` in its stored form; a value other than an object passes unchanged.

    >>> plain_prices({"m": 3, "n": {"input": 5, "cache_read": 0.5, "valid_from": "1970-01-02"}})
    {'m': 3, 'n': {'input_micro': 5000000, 'cache_read_micro': 500000, 'valid_from_ms': 86400000}}
    """
    if not isinstance(value, Mapping):
        return value
    return {model: _of_model(str(model), price) for model, price in value.items()}


def dollars(price: Price) -> dict[str, Any]:
    """Return a price by part, in dollars, as `plain_prices` takes it.

    >>> dollars(Price(input_micro=3_000_000, valid_from_ms=86_400_000))
    {'input': 3.0, 'valid_from': '1970-01-02T00:00:00+00:00'}
    """
    written: dict[str, Any] = _written(price)
    for tier, extra in price.tiers.items():
        parts = _written(extra)
        target = written if tier in TIERS else written.setdefault("tier", {})
        target[tier] = parts["factor"] if parts.keys() == {"factor"} else parts
    if price.long is not None:
        written["long"] = _written(price.long) | {"above": price.long.above}
    if price.region_micro:
        written["region"] = {name: factor / MICRO for name, factor in price.region_micro.items()}
    if price.search_micro is not None:
        written["search"] = price.search_micro / MICRO
    if price.valid_from_ms:
        written[_FROM] = datetime.fromtimestamp(price.valid_from_ms / 1000, UTC).isoformat()
    return written


def _written(price: Price | Apart) -> dict[str, Any]:
    parts = {part: getattr(price, f"{part}_micro", None) for part in (*PARTS, "factor")}
    return {part: micro / MICRO for part, micro in parts.items() if micro is not None}


def _of_model(model: str, price: object) -> object:
    if isinstance(price, Mapping):
        return _fields(model, price)
    if isinstance(price, (list, tuple)):
        return [_of_model(model, one) for one in price]
    if isinstance(price, Price) or (isinstance(price, (int, float)) and not isinstance(price, bool)):
        return price
    raise _refused(model, price)


def _fields(model: str, price: Mapping[object, object]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in price.items():
        if (
            name in Price.__struct_fields__
            and (type(value) is int or isinstance(value, Mapping))
            and name not in _APART
        ):
            field, plain = str(name), value
        elif name == _FROM:
            field, plain = "valid_from_ms", _start(model, value)
        elif name in TIERS:
            field, plain = str(name), _extra(model, str(name), value)
        elif name == "tier" and isinstance(value, Mapping):
            field, plain = (
                "tiers",
                {str(one): _extra(model, f"tier.{one}", cost) for one, cost in value.items()},
            )
        elif name == "long":
            field, plain = "long", _extra(model, "long", value)
        elif name == "region":
            field, plain = "region_micro", _regions(model, value)
        elif name in _PART_OF or name == "search":
            field, plain = f"{_PART_OF.get(str(name), name)}_micro", _micro(model, str(name), value)
        else:
            raise _refused(model, {name: value})
        if field in fields:
            raise _refused(model, price)
        fields[field] = plain
    if "input_micro" not in fields:
        raise _refused(model, price)
    named: Any = fields.get("tiers", {})
    tiers = {**named, **{tier: fields.pop(tier) for tier in TIERS if tier in fields}}
    return {**fields, "tiers": tiers} if tiers else fields


def _extra(model: str, name: str, value: object) -> dict[str, int]:
    """Return the price of a tier or of a long request: a factor, or an object of parts."""
    if not isinstance(value, Mapping):
        return {"factor_micro": _micro(model, name, value)}
    allowed = {**_PART_OF, "factor": "factor"}
    fields: dict[str, int] = {}
    for part, one in value.items():
        if name == "long" and part == "above" and type(one) is int and 0 < one <= MAX_TOKENS:
            fields["above"] = one
        elif part in Apart.__struct_fields__ and part != "above" and type(one) is int:
            fields[str(part)] = one
        elif part in allowed:
            fields[f"{allowed[str(part)]}_micro"] = _micro(model, f"{name}.{part}", one)
        else:
            raise _refused_apart(model, name, value)
    if not fields.keys() & {"factor_micro", "input_micro"}:
        raise _refused_apart(model, name, value)
    return fields


def _regions(model: str, value: object) -> dict[str, int]:
    """Return the factors of regions; a number alone applies to any region."""
    if not isinstance(value, Mapping):
        return {ANY_REGION: _micro(model, "region", value)}
    return {str(name): _micro(model, f"region.{str(name)[:60]}", one) for name, one in value.items()}


def _micro(model: str, part: str, value: object) -> int:
    """Return dollars as whole millionths."""
    try:
        micro = None if isinstance(value, bool) else Decimal(str(value)) * MICRO
    except InvalidOperation:
        micro = None
    if micro is None or not micro.is_finite() or micro != int(micro) or not 0 <= micro <= MAX_PRICE_MICRO:
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


def _refused_apart(model: str, name: str, value: object) -> InvalidSetting:
    return InvalidSetting(
        f"The price {name} of {model[:60]!r} must be a factor, or an object of {', '.join(PARTS)}, factor"
        f"{' and above' if name == 'long' else ''} that has a factor or an input, got {shown(value)}.",
        next_step=APART_EXAMPLE,
    )


def _refused(model: str, value: object) -> InvalidSetting:
    return InvalidSetting(
        f"The prices of {model[:60]!r} must be {_ALLOWED}, got {shown(value)}.", next_step=PRICE_EXAMPLE
    )
