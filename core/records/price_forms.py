"""Forms of prices that people write: dollars by part, and the day from which they apply → `Price`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from core.errors import InvalidSetting
from core.records.bill import MAX_PRICE, MICRO, PARTS, PRICE_EXAMPLE, Price
from core.records.limits import shown

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
