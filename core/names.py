"""Names: those that a source imports, read from its text before any is imported; and old public names.

A rename adds a row to `RENAMED`: the old name is accepted for one version, and warns once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

_IMPORT: Final = re.compile(r"^ *from ([\w.]+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)


class Renamed(NamedTuple):
    """The replacement of an old name, and the version that renamed it."""

    replacement: str
    since: str


RENAMED: Final[Mapping[str, Renamed]] = {}
"""Old names of `core.__all__`."""


def homes_in(source: str) -> dict[str, tuple[str, str]]:
    r"""Return the module of each name that a source imports, and its name there.

    >>> homes_in("from core.records.run import (\n    Call,\n    Run as One,\n)")
    {'Call': ('core.records.run', 'Call'), 'One': ('core.records.run', 'Run')}
    """
    homes: dict[str, tuple[str, str]] = {}
    for module, several, one in _IMPORT.findall(source):
        for part in filter(str.strip, (several or one.partition("#")[0]).split(",")):
            name, _, alias = part.strip().partition(" as ")
            homes[alias or name] = module, name
    return homes


@cache
def replacement_of(name: str) -> str:
    """Return the present name of a public name; warn at the first use of an old one."""
    row = RENAMED.get(name)
    if row is None:
        return name
    warnings.warn(
        f"{name} is {row.replacement} since armscope {row.since}; the next version removes it. "
        f"Use {row.replacement}.",
        DeprecationWarning,
        stacklevel=3,
    )
    return row.replacement
