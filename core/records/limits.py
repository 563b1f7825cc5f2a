"""Limits of records, so that they fit their columns and every import.

Each limit is defined once, as a type for JSON decoding and as a check for records that callers make. A check returns
the plain value, because a caller's number or text may have a class of its own (NumPy's, for example). Otherwise it
raises `InvalidInput`. Most records are valid, so callers test the exact type first and call a check only for others.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Final, TypeVar

import msgspec

from core.errors import InvalidInput

MAX_COUNT: Final = 10**15
MAX_LABEL_CHARS: Final = 512
NUL: Final = "\0"
MAX_TOKENS: Final = 10**12
MAX_DURATION_MS: Final = 10**12
LAST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_EXAMPLES: Final = {LAST_MS: 1_767_225_600_000}
"""Examples by the highest value, where 10 is none: the start of 2026."""
_SHOWN_CHARS: Final = 60

T = TypeVar("T")

# What JSON may put into a database: 64-bit columns must never be handed more.
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Label = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_CHARS)]
"""A name of a model, tool, session: longer ones are no names."""
Tokens = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]
Millis = Annotated[int, msgspec.Meta(ge=0, le=LAST_MS)]
"""Milliseconds since 1970 UTC, up to the year 9999."""
Duration = Annotated[int, msgspec.Meta(ge=0, le=MAX_DURATION_MS)]
"""Milliseconds that something took."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A probability, or a number drawn from a posterior."""


def whole(
    name: str,
    value: object,
    highest: int,
    *,
    lowest: int = 0,
    example: int | None = None,
    where: str = "",
    error: type[InvalidInput] = InvalidInput,
) -> int:
    """Return ``value`` as a plain whole number, if it is one within the limits.

    >>> whole("duration_ms", 5, MAX_DURATION_MS)
    5
    >>> whole("duration_ms", 1.5, MAX_DURATION_MS, where=" (run 'r1')")
    Traceback (most recent call last):
    core.errors.InvalidInput: duration_ms must be a whole number from 0 to 10^12, got 1.5 (run 'r1'). Round it, \
or leave it out when it is unknown.
    >>> whole("level", 0, 5, lowest=1)
    Traceback (most recent call last):
    core.errors.InvalidInput: level must be a whole number from 1 to 5, got 0. Use one in this range, for example 5.
    """
    number = _index(value)
    if number is None or not lowest <= number <= highest:
        is_fraction = number is None and _float(value) is not None
        chosen = _EXAMPLES.get(highest, 10) if example is None else example
        usable = f"Use one in this range, for example {min(max(lowest, chosen), highest)}."
        raise error(
            f"{name} must be a whole number from {_power(lowest)} to {_power(highest)}, got {shown(value)}{where}.",
            next_step="Round it, or leave it out when it is unknown." if is_fraction else usable,
        )
    return number


def number(
    name: str, value: object, *, lowest: float = -math.inf, highest: float = math.inf, where: str = ""
) -> float:
    """Return ``value`` as a plain finite float, if it is a number within the limits.

    >>> number("reward", 1)
    1.0
    """
    checked = _float(value)
    if checked is None or not (math.isfinite(checked) and lowest <= checked <= highest):
        allowed = "a finite number" if lowest == -math.inf else f"a number from {lowest:g} to {highest:g}"
        step = "Use one in this range." if lowest > 0 else "Leave it out when there was none; 0 is a value."
        raise InvalidInput(f"{name} must be {allowed}, got {shown(value)}{where}.", next_step=step)
    return checked


def text(
    name: str,
    value: object,
    highest: int | None = None,
    *,
    lowest: int = 0,
    where: str = "",
    error: type[InvalidInput] = InvalidInput,
) -> str:
    """Return ``value`` as a plain text, if it is one of an allowed length (None = any).

    >>> text("model", "large", MAX_LABEL_CHARS)
    'large'
    """
    if not isinstance(value, str):
        raise error(f"{name} must be text, got {shown(value)}{where}.", next_step="Write it as text.")
    if highest is not None and not lowest <= len(value) <= highest:
        raise error(
            f"{name} must have {lowest} to {highest} characters, got {len(value):,}{where}.",
            next_step="Shorten it, or leave it out." if value else "Name it.",
        )
    return str.__str__(value if highest is None else storable(name, value, where=where, error=error))


def storable(name: str, value: str, *, where: str = "", error: type[InvalidInput] = InvalidInput) -> str:
    """Return a text that is to be kept, if other programs can keep it too: NUL ends a text in some, in others none.

    >>> storable("session", "s-1")
    's-1'
    """
    if NUL in value:
        raise error(
            f"{name} must not hold the character U+0000, got {shown(value)}{where}.",
            next_step="Leave that character out.",
        )
    return value


def keepable(text: str) -> str:
    r"""A text as every database can keep it: with a mark for U+0000 and for halves of characters.

    >>> keepable("a\0b"), keepable("\ud83d!")
    ('a\ufffdb', '?!')
    """
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def one_of(name: str, value: object, allowed: Collection[str], *, where: str = "") -> str:
    """Return ``value`` if it is one of the texts that are allowed.

    >>> one_of("status", "error", ("completed", "aborted", "error"))
    'error'
    """
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(
            f"{name} must be one of {', '.join(allowed)}, got {shown(value)}{where}.",
            next_step=f"Use one of them, for example {next(iter(allowed))}.",
        )
    return str.__str__(value)


def flag(name: str, value: object, *, where: str = "") -> bool:
    """Return ``value`` if it is True or False.

    >>> flag("empty", False)
    False
    """
    if not isinstance(value, bool):
        raise InvalidInput(
            f"{name} must be True or False, got {shown(value)}{where}.", next_step="Use one of the two."
        )
    return value


def texts(name: str, value: object, highest: int | None = None, *, where: str = "") -> tuple[str, ...]:
    """Return ``value`` as a tuple of plain texts, if it is a tuple or list of texts of an allowed length."""
    checked = several(name, value, str, where=where)
    if all(
        type(each) is str and (highest is None or (len(each) <= highest and NUL not in each))
        for each in checked
    ):
        return checked
    return tuple([text(name, each, highest, where=where) for each in checked])


def several(name: str, value: object, kind: type[T], *, where: str = "") -> tuple[T, ...]:
    """Return ``value`` as a tuple, if it is a tuple or list of nothing but one kind of thing."""
    if not isinstance(value, (tuple, list)) or (
        not {*map(type, value)} <= {kind} and any(not isinstance(each, kind) for each in value)
    ):
        raise InvalidInput(
            f"{name} must be a tuple of {kind.__name__}, got {shown(value)}{where}.",
            next_step="Put even a single one into a tuple.",
        )
    return tuple(value)


def listed(name: str, value: Iterable[T]) -> list[T]:
    """Return ``value`` as a list; refuse a single text or definition, whose parts would be taken one by one.

    >>> listed("arms", ("tool:fs:Read",))
    ['tool:fs:Read']
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInput(
            f"{name} must be a list, got a single one: {shown(value)}.",
            next_step="Put it into a list, such as [it].",
        )
    return list(value)


def one(name: str, value: object, kind: type[T], *, where: str = "") -> T:
    """Return ``value`` if it is of a kind."""
    if not isinstance(value, kind):
        raise InvalidInput(
            f"{name} must be of type {kind.__name__}, got {shown(value)}{where}.",
            next_step=f"Make it a {kind.__name__}.",
        )
    return value


def shown(value: object) -> str:
    r"""A foreign value for a message: on one line, what can't be printed escaped, never long.

    >>> shown("a"), shown(10**30), shown(-7), len(shown("x" * 900))
    ("'a'", 'a huge whole number', '-7', 61)
    >>> shown("tool:other:обзор"), shown("a\u202eb\n")
    ("'tool:other:обзор'", "'a\\u202eb\\n'")
    """
    if isinstance(value, int) and not -(MAX_COUNT**2) < value < MAX_COUNT**2:
        return "a huge whole number"  # thousands of digits could not even be written
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN_CHARS else f"{value[:40]}…{value[-18:]}")
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:40]}...{text[-16:]}"


def _index(value: object) -> int | None:
    """Return a whole number of any class; refuse booleans and fractions."""
    if isinstance(value, bool):
        return None
    try:
        return int(operator.index(value))  # type: ignore[arg-type]  # a TypeError is the answer
    except TypeError:
        return None


def _float(value: object) -> float | None:
    """Return a number of any class; refuse texts and booleans."""
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # a TypeError is the answer
    except (TypeError, ValueError, OverflowError):
        return None


def _power(limit: int) -> str:
    digits = str(limit)
    if limit > 10**6 and digits.strip("0") == "1":
        return f"10^{len(digits) - 1}"
    return f"{limit:,}" if limit < 10**9 else digits
