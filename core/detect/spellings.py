"""Spellings of a tool that a server offers. Clients write ``mcp__S__T``, ``S.T`` or ``S/T`` for the tool T of the
server S, which is the arm ``tool:S:T``. All four are one tool. A bare ``T`` names no server, so only the arm of that
name matches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from core.records.arm import Arm

_MCP: Final = "mcp__"
_SEPARATORS: Final = "./"


def spellings(arm: Arm) -> Iterator[str]:
    """Yield other names of calls that mean a tool arm; one may come twice.

    >>> list(spellings(Arm(key="tool:github:create_issue")))
    ['mcp__github__create_issue', 'github.create_issue', 'github/create_issue']
    >>> list(spellings(Arm(key="tool:other:github.create_issue")))[3:]
    ['mcp__github__create_issue', 'github.create_issue', 'github/create_issue']
    """
    yield from _written(arm.category, arm.name)
    yield from (name for server, tool in _read(arm.name) for name in _written(server, tool))


def names_a_server(name: str) -> bool:
    """Return whether a call's name may be such a spelling.

    >>> names_a_server("mcp__github__create_issue"), names_a_server("github.create_issue"), names_a_server("Read")
    (True, True, False)
    """
    return any(_read(name))


def _written(server: str, tool: str) -> Iterator[str]:
    yield f"{_MCP}{server}__{tool}"
    yield from (f"{server}{separator}{tool}" for separator in _SEPARATORS)


def _read(name: str) -> Iterator[tuple[str, str]]:
    """Yield the server and tool that a name contains, if any."""
    if name.startswith(_MCP):
        server, _, tool = name.removeprefix(_MCP).partition("__")
        if server and tool:
            yield server, tool
    for separator in _SEPARATORS:
        server, _, tool = name.partition(separator)
        if server and tool:
            yield server, tool
