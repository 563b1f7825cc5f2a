"""Lists of tools → inventories: those on a record, and those a person supplies with ``--tools``.

A list holds OpenAI tools (``{"type": "function", "function": {...}}``), bare functions (``{"name": ...,
"parameters": ...}``) or plain names. A ``{"domains": {name: list}}`` file holds several. Cost of a tool: its
``token_cost`` if it has one, else a quarter of the characters of its compact schema, rounded up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from core.errors import UnreadableSource
from core.files import check_file
from core.formats.entries import Limits
from core.formats.stream import Bytes
from core.formats.strict import UNDECODABLE, check, reason
from core.records.arm import Arm, definition_version, known_key, token_cost_of, tool_key
from core.records.limits import Tokens
from core.records.run import Inventory, InventoryKind

NAME: Final = "tools"
_MAX_KNOWN_LISTS: Final = 256

_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


class _Named(msgspec.Struct):
    name: str
    token_cost: Tokens | None = None


class _Tool(msgspec.Struct):
    function: msgspec.Raw = msgspec.Raw(b"")
    token_cost: Tokens | None = None


class _Domains(msgspec.Struct):
    domains: dict[str, msgspec.Raw]
    telecom_user_tools_added_in_no_user_mode: msgspec.Raw = msgspec.Raw(b"[]")


_TOOL: Final = msgspec.json.Decoder(_Tool)
_NAMED: Final = msgspec.json.Decoder(_Named)
_DOMAINS: Final = msgspec.json.Decoder(_Domains)


def inventory_of(raw: bytes, kind: InventoryKind) -> Inventory:
    """Arms of a JSON list of tools, in its order; a tool listed twice counts once."""
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
    keys = [known_key(tool_key, name) for name in sorted(names)]
    return Inventory(kind="inferred", arms=tuple([Arm(key=key) for key in keys if key is not None]))


def _arm(raw: bytes) -> Arm:
    if raw.startswith(b'"'):
        return Arm(key=tool_key(msgspec.json.decode(raw, type=str)))
    tool = _TOOL.decode(raw)
    schema = bytes(tool.function) or raw
    named = _NAMED.decode(schema)
    cost = tool.token_cost if tool.token_cost is not None else named.token_cost
    members = msgspec.json.decode(schema, type=dict[str, object])
    members.pop("token_cost", None)
    # As the model would get it: compact, not escaped.
    text = msgspec.json.encode(members).decode()
    return Arm(
        key=tool_key(named.name),
        token_cost=token_cost_of(text) if cost is None else cost,
        version=definition_version(text) if len(members) > 1 else None,
    )


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


@dataclass(frozen=True, kw_only=True)
class Supplied:
    """Tools of ``--tools``: one list, or lists by domain; ``without_user`` are a user's, which an agent alone has."""

    file: str
    whole: Inventory | None
    domains: Mapping[str, Inventory] = field(default_factory=dict)
    without_user: Mapping[str, Inventory] = field(default_factory=dict)

    def one(self) -> Inventory:
        """The list for records that name no domain."""
        if self.whole is not None:
            return self.whole
        if len(self.domains) == 1:
            return next(iter(self.domains.values()))
        raise UnreadableSource(
            f"A tools file must hold a JSON list of tools, but this one lists {len(self.domains)} domains, and "
            f"records of this format don't name theirs ({self.file}).",
            next_step="Save the list of the one domain to a file of its own.",
        )

    def of_domain(self, domain: str, *, is_without_user: bool = False) -> Inventory:
        """The list for records of ``domain``."""
        if self.whole is not None:
            return self.whole
        if domain not in self.domains:
            raise UnreadableSource(
                f"A tools file by domain must list the one of the records, {domain[:60]!r}, got "
                f"{', '.join(map(ascii, sorted(self.domains)))[:200]} ({self.file}).",
                next_step="Add the domain, or leave --tools out: the tools that were called are taken then.",
            )
        tools = self.domains[domain]
        added = self.without_user.get(domain)
        if not is_without_user or added is None:
            return tools
        known = {arm.key for arm in tools.arms}
        arms = (*tools.arms, *[arm for arm in added.arms if arm.key not in known])
        return Inventory(kind=tools.kind, arms=arms)


def supplied(path: Path, limits: Limits, file: str | None = None) -> Supplied:
    """The tools of a ``--tools`` file, shown as ``file``; raises `UnreadableSource` where it lists none."""
    file = str(path) if file is None else file
    try:
        check_file(path, "--tools", error=UnreadableSource)
        with Bytes(path, file, limits) as content:
            raw = content.document()
    except OSError as error:
        raise UnreadableSource(
            f"A tools file must be readable, got {error.strerror} ({file}).",
            next_step="Check its name and permissions.",
        ) from None
    try:
        check(raw, limits.depth)
        if raw.lstrip().startswith(b"["):
            return Supplied(file=file, whole=inventory_of(raw, "supplied"))
        lists = _DOMAINS.decode(raw)
        domains = {name: inventory_of(bytes(tools), "supplied") for name, tools in lists.domains.items()}
        added = inventory_of(bytes(lists.telecom_user_tools_added_in_no_user_mode), "supplied")
        return Supplied(file=file, whole=None, domains=domains, without_user={"telecom": added})
    except UNDECODABLE as error:
        raise UnreadableSource(
            f"A tools file must hold a JSON list of tools, but this one {reason(error, raw)} ({file}).",
            next_step='Write it like [{"type": "function", "function": {"name": "Read"}}].',
        ) from None
