"""Inventory of a machine: skills, tools, servers and files that its agents carry, and their use in sessions."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from core.records.counts import number_of

DAY_MS: Final = 86_400_000
LEAST_AGE_MS: Final = 30 * DAY_MS
LEAST_SESSIONS: Final = 30
"""Nothing that is younger, or was on offer in fewer sessions, is proposed."""
MOST_STORED: Final = 2_000
"""Items that a database keeps of a machine: those that cost most without use come first."""
MOST_EDITS: Final = 20
"""Versions of a skill that a database keeps: the latest."""
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
    ``project`` is the folder that it belongs to, None for every folder. ``also`` is another name that its uses may
    have. ``is_unrecorded``: its plugin has parts whose use no session records, such as hooks. ``key`` is its
    name in the agent's settings, None if it has no other.
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
    also: str | None = None
    is_unrecorded: bool = False
    key: str | None = None


class ItemUse(msgspec.Struct, frozen=True, kw_only=True):
    """Use of an item in the sessions on record: those that had it on offer, those that used it, and all uses.

    ``typed`` are the uses that the user typed. ``elsewhere`` counts the sessions in other folders that used the
    name. ``since_ms`` is the time from which a session without a list counts as having it on offer, None where
    that is unknown.
    """

    offered: int = 0
    sessions: int = 0
    uses: int = 0
    typed: int = 0
    last_ms: int | None = None
    elsewhere: int = 0
    since_ms: int | None = None


class CarriedItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item, its use, the proposal for it, and why; ``use`` is None where no session of its agent was read.

    ``at_most`` is the exact upper bound, at 95 %, of the share of sessions that use an item that none has used; for
    a skill that the user alone calls, of those in which the agent loads it.
    """

    item: InstalledItem
    use: ItemUse | None
    at_most: float | None
    proposal: Literal["by name", "user only"] | None
    why: str


class SkillEdit(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a skill's text on a machine, and since when its file has it in UTC milliseconds."""

    agent: str
    name: str
    version: str
    since_ms: int


class MachineInventory(msgspec.Struct, frozen=True, kw_only=True):
    """All items of a machine with their use, the sessions that were read, and sizes that no file has.

    ``sentence`` is the answer in words, ``unread`` names files that were not read. ``loaded`` counts the skills and
    tools of agents with sessions on record, ``used`` those of them with a use. ``carried`` is the number of
    tokens that the unused ones cost in each session.
    ``requests`` is the median number of requests in a session, ``model`` the one with most of them; None if unknown.
    ``edits`` are the versions of skills over all readings, the first one of a skill first.
    """

    sentence: str
    notes: tuple[str, ...]
    unread: tuple[str, ...] = ()
    items: tuple[CarriedItem, ...]
    sessions: int
    oldest_ms: int | None
    loaded: int
    used: int
    carried: int
    requests: int | None = None
    model: str | None = None
    edits: tuple[SkillEdit, ...] = ()

    def after(self, earlier: MachineInventory | None, earlier_ms: int, at_ms: int) -> MachineInventory:
        """Return the inventory with the edits of earlier readings and its own.

        A file may have a time from before the earlier reading, which saw another text. The edit then counts from
        the reading that saw it.

        Args:
            earlier: The inventory that was stored before; None if there was none.
            earlier_ms: When it was read.
            at_ms: When this inventory was read.
        """
        known: dict[tuple[str, str], list[SkillEdit]] = {}
        for edit in () if earlier is None else earlier.edits:
            known.setdefault((edit.agent, edit.name), []).append(edit)
        for item in (one.item for one in self.items):
            if item.kind != "skill" or item.project is not None or not item.version:
                continue
            edits = known.setdefault((item.agent, item.name), [])
            if edits and edits[-1].version == item.version:
                continue
            since_ms = item.changed_ms or at_ms
            if since_ms > at_ms or (edits and since_ms <= earlier_ms):
                since_ms = at_ms
            edits.append(SkillEdit(agent=item.agent, name=item.name, version=item.version, since_ms=since_ms))
        return replace(
            self, edits=tuple(edit for edits in known.values() for edit in edits[-MOST_EDITS:])[:MOST_STORED]
        )

    @property
    def without_paths(self) -> MachineInventory:
        """The same without the machine's paths, which a shared database need not know; folders keep their name."""
        return replace(
            self,
            unread=(),
            notes=(
                *self.notes,
                *([f"Not read: {number_of(len(self.unread), 'file')}."] if self.unread else []),
            ),
            items=tuple(replace(one, item=_without_paths(one.item)) for one in self.items[:MOST_STORED]),
        )


class StoredInventory(msgspec.Struct, frozen=True, kw_only=True):
    """Inventory of a machine as an import of its own sessions read it, and when.

    ``machine`` is a digest of its name. ``act`` is the import, None where it had no
    news.
    """

    machine: str
    by: str
    at_ms: int
    act: str | None
    inventory: MachineInventory


class CarriedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Inventories by machine, the latest import first; empty before the first import of own sessions."""

    machines: tuple[StoredInventory, ...]


def _without_paths(item: InstalledItem) -> InstalledItem:
    folder = None if item.project is None else item.project.rstrip("/").rpartition("/")[2]
    return replace(item, path="", project=folder, switch=None, key=None)


def upper_bound(offered: int) -> float:
    """Return the upper bound, at 95 %, of a share of which none of so many cases is an example.

    It is exact, ``1 - 0.05 ** (1 / n)``. The rule of three, 3 / n, is a little higher.

    >>> round(upper_bound(120), 4), upper_bound(0)
    (0.0247, 1.0)
    """
    return 1 - _LEVEL ** (1 / offered) if offered else 1.0
