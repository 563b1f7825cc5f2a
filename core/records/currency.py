"""Currency: its sign at every sum, and amounts of money in words."""

from __future__ import annotations

import math
from typing import Final

from core.errors import InvalidSetting

DOLLAR: Final = "$"
MAX_CURRENCY_CHARS: Final = 8
PICO: Final = 1e12
"""Units of a stored bill in one of its currency."""


def check_currency(currency: str) -> None:
    """Refuse a currency that no sum could show."""
    is_shown = currency.isprintable() and not any(one.isspace() or one.isdigit() for one in currency)
    if not 0 < len(currency) <= MAX_CURRENCY_CHARS or not is_shown:
        raise InvalidSetting(
            f"currency must be 1 to {MAX_CURRENCY_CHARS} printable characters without digits and spaces, got "
            f"{currency[:60]!r}.",
            next_step="Write its sign or its code, for example $ or EUR.",
        )


def money_words(amount: float, currency: str, decimals: int | None = None, *, minus: str = "-") -> str:
    """Return an amount with its currency: two decimals, more for small amounts, or as many as given.

    >>> money_words(1234.5, "$"), money_words(0.02134, "€"), money_words(-12, "EUR"), money_words(0, "$")
    ('$1,234.50', '€0.021', '-EUR 12.00', '$0.00')
    """
    written = f"{abs(amount):,.{money_decimals(amount) if decimals is None else decimals}f}"
    sign = minus if amount < 0 and written.strip("0.,") else ""
    return f"{sign}{currency}{' ' if currency[-1:].isalpha() else ''}{written}"


def money_decimals(amount: float) -> int:
    """Return two, or as many as show two digits of a small amount.

    >>> [money_decimals(one) for one in (40.0, 0.1, 0.02, 0.0004, 0.0)]
    [2, 2, 3, 5, 2]
    """
    size = abs(amount)
    return 2 if size >= 0.1 or size == 0 else min(1 - math.floor(math.log10(size)), 9)


def mean_decimals(total: float, n_runs: int) -> int:
    """Return the decimals that a mean of so many runs needs: then mean times runs gives the total as it is written.

    >>> mean_decimals(71.92, 1_922), mean_decimals(0.5, 1)
    (6, 2)
    """
    return min(money_decimals(total) + math.ceil(math.log10(max(n_runs, 1))), 12)
