"""Numbers of things, in words that fit one of them too."""

from __future__ import annotations


def number_of(n: int, noun: str) -> str:
    """Return a number with its noun, whose plural ends in s.

    >>> number_of(1, "run"), number_of(0, "run"), number_of(1234, "new run")
    ('1 run', '0 runs', '1,234 new runs')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def number_in(identity: str) -> int:
    """Return the number in an id.

    >>> number_in("webhook-12")
    12
    """
    return int(identity.rpartition("-")[2])
