"""Inventory of a machine: skills, tools, servers and files that its agents carry, and their use in sessions."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

DAY_MS: Final = 86_400_000
LEAST_AGE_MS: Final = 30 * DAY_MS
LEAST_SESSIONS: Final = 30
"""Nothing that is younger, or was on offer in fewer sessions, is proposed."""
_LEVEL: Final = 0.05

ItemKind = Literal["skill", "tool", "server", "file"]
ItemState = Literal["in full", "by name", "user only", "out"]
"""How an item is in a prompt. A listed skill and a deferred tool are there by name; their text comes with a call."""


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """Setting that takes an item out: a file, the path of keys in it, and the value for a proposal.

    ``whole`` names the plugin that goes out as a whole.
    """

    file: str
    keys: tuple[str, ...]
    value: str | bool
    whole: str | None = None


class InstalledItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an agent carries, as its files describe it.

    Costs are tokens, a quarter of the characters: ``carried`` in each session, ``used`` by each call. None is
    unknown. ``version`` is a digest of the text. ``changed_ms`` is the time of the file's last change.
    ``project`` is the folder that it belongs to, None for every folder.
    """

    agent: str
    kind: ItemKind
    name: str
    path: str
    state: ItemState
    carried: int | None
    used: int | None = None
    version: str = ""
    changed_ms: int | None = None
    server: str | None = None
    plugin: str | None = None
    project: str | None = None
    switch: Switch | None = None


class ItemUse(msgspec.Struct, frozen=True, kw_only=True):
    """Use of an item in the sessions on record: those that had it on offer, those that used it, and all uses.

    ``elsewhere`` counts the sessions in other folders that used the name.
    """

    offered: int = 0
    sessions: int = 0
    uses: int = 0
    last_ms: int | None = None
    elsewhere: int = 0


class CarriedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item, its use, the proposal for it, and why; ``use`` is None where no session of its agent was read.

    ``at_most`` is the upper bound, at 95 %, of the share of sessions that use an item that none has used.
    """

    item: InstalledItem
    use: ItemUse | None
    at_most: float | None
    proposal: Literal["by name", "user only"] | None
    why: str


class MachineInventory(msgspec.Struct, frozen=True, kw_only=True):
    """All items of a machine with their use, the sessions that were read, and sizes that no file has.

    ``sentence`` is the answer in words. ``carried`` sums the known costs of items that no session used.
    """

    sentence: str
    notes: tuple[str, ...]
    items: tuple[CarriedItem, ...]
    sessions: int
    oldest_ms: int | None
    loaded: int
    used: int
    carried: int


def upper_bound(offered: int) -> float:
    """Return the upper bound, at 95 %, of a share of which none of so many cases is an example.

    >>> round(upper_bound(120), 4), upper_bound(0)
    (0.0247, 1.0)
    """
    return 1 - _LEVEL ** (1 / offered) if offered else 1.0
