"""Deprecation: an old public name is accepted for one version, and warns once.

A rename adds a row to `RENAMED`; the next version removes it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Final, NamedTuple

_WARNED: Final[set[str]] = set()


class Renamed(NamedTuple):
    """The replacement of an old name, and the version that renamed it."""

    replacement: str
    since: str


RENAMED: Final[Mapping[str, Renamed]] = {}
"""Old names of `core.__all__`."""


def replacement_of(name: str, renamed: Mapping[str, Renamed] = RENAMED) -> str:
    """Return the present name of a public name; warn once for an old one.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     [replacement_of("Old", {"Old": Renamed("New", "0.2.0")}) for _ in range(2)], str(caught[0].message)
    (['New', 'New'], 'Old is New since armscope 0.2.0; the next version removes it. Use New.')
    """
    row = renamed.get(name)
    if row is None:
        return name
    if name not in _WARNED:
        _WARNED.add(name)
        warnings.warn(
            f"{name} is {row.replacement} since armscope {row.since}; the next version removes it. "
            f"Use {row.replacement}.",
            DeprecationWarning,
            stacklevel=3,
        )
    return row.replacement
