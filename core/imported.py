"""Imported: which names a source imports, read from its text, so that none of them is imported before its use."""

from __future__ import annotations

import re
from typing import Final

_IMPORT: Final = re.compile(r"^ *from ([\w.]+) import (?:\(([^)]*)\)|(.+))$", re.MULTILINE)


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
