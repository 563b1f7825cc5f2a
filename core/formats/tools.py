"""Lists of tools → inventories: those on a record, and those a person supplies with ``--tools``.

A list holds OpenAI tools (``{"type": "function", "function": {...}}``), bare functions (``{"name": ...,
"parameters": ...}``) or plain names. A ``{"domains": {name: list}}`` file holds several. Cost of a tool: its
``token_cost`` if it has one, else a quarter of the characters of its compact schema, rounded up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from core.errors import InvalidArm, UnreadableSource
from core.formats.entries import Limits
from core.formats.stream import Bytes
from core.formats.strict import UNDECODABLE, Flaw, check, reason
from core.records.arm import Arm, token_cost_of, tool_key
from core.records.ledger_lines import Tokens
from core.records.run import Inventory, InventoryKind

NAME: Final = "tools"
_MAX_KNOWN_LISTS: Final = 256


class _Named(msgspec.Struct):
    name: str
    token_cost: Tokens | None = None


class _Tool(msgspec.Struct):
    function: msgspec.Raw = msgspec.Raw(b"")
    token_cost: Tokens | None = None


class _Domains(msgspec.Struct):
    domains: dict[str, msgspec.Raw]


_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TOOL: Final = msgspec.json.Decoder(_Tool)
_NAMED: Final = msgspec.json.Decoder(_Named)
_DOMAINS: Final = msgspec.json.Decoder(_Domains)


def inventory_of(raw: bytes, kind: InventoryKind) -> Inventory:
    """Arms of a JSON list of tools, in its order; a tool listed twice counts once.

    >>> inventory_of(b'["Read", {"name": "think", "token_cost": 9}]', "declared").arms[1]
    Arm(key='tool:other:think', label=None, token_cost=9, content=None, prior=None)
    """
    arms: dict[str, Arm] = {}
    for tool in _LIST.decode(raw):
        arm = _arm(bytes(tool))
        arms.setdefault(arm.key, arm)
    return Inventory(kind=kind, arms=tuple(arms.values()))


def inferred(names: Iterable[str]) -> Inventory:
    r"""The inventory of a source that declares none: all names it calls that can be an arm's.

    >>> [arm.key for arm in inferred({"Read", "Bash", "no\nname"}).arms]
    ['tool:exec:Bash', 'tool:fs:Read']
    """
    return Inventory(
        kind="inferred", arms=tuple([Arm(key=tool_key(n)) for n in sorted(names) if _is_name(n)])
    )


def _is_name(name: str) -> bool:
    try:
        tool_key(name)
    except InvalidArm:
        return False
    return True


def _arm(raw: bytes) -> Arm:
    if raw.startswith(b'"'):
        return Arm(key=tool_key(msgspec.json.decode(raw, type=str)))
    tool = _TOOL.decode(raw)
    schema = bytes(tool.function) or raw
    named = _NAMED.decode(schema)
    given = tool.token_cost if tool.token_cost is not None else named.token_cost
    return Arm(key=tool_key(named.name), token_cost=_schema_cost(schema) if given is None else given)


def _schema_cost(schema: bytes) -> int:
    """Characters as the model would get them: compact, not escaped."""
    return token_cost_of(msgspec.json.encode(msgspec.json.decode(schema)).decode())


class DeclaredLists:
    """Inventories of the lists that records carry: equal lists share one, whose ids are checked once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Inventory] = {}

    def inventory(self, raw: bytes) -> Inventory:
        # Kept by digest: a list of schemas is easily 50 kB, and a hostile file has a new one on every line.
        digest = hashlib.blake2b(raw, digest_size=16).digest()
        known = self._known.get(digest)
        if known is None:
            if len(self._known) >= _MAX_KNOWN_LISTS:
                self._known.clear()
            known = self._known[digest] = inventory_of(raw, "declared")
        return known


def supplied(path: Path, limits: Limits) -> Inventory:
    """Inventory of the file that a person named with ``--tools``.

    Raises
    ------
    UnreadableSource
        It is no list of tools, or one by domain of which the records can't choose.
    """
    try:
        with Bytes(path, str(path), limits) as content:
            raw = content.document()
    except OSError as error:
        raise UnreadableSource(
            f"A tools file must be readable, got {error.strerror} ({path}).",
            next_step="Check its name and permissions.",
        ) from None
    try:
        check(raw, limits.depth)
        return inventory_of(_one_list(raw), "supplied")
    except UNDECODABLE as error:
        raise UnreadableSource(
            f"A tools file must hold a JSON list of tools, but this one {reason(error, raw)} ({path}).",
            next_step='Write it like [{"type": "function", "function": {"name": "Read"}}].',
        ) from None


def _one_list(raw: bytes) -> bytes:
    if raw.lstrip().startswith(b"["):
        return raw
    domains = _DOMAINS.decode(raw).domains
    if len(domains) != 1:
        raise Flaw(f"lists {len(domains)} domains, and records of these formats don't name theirs")
    return bytes(next(iter(domains.values())))
