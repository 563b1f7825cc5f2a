"""Arms that a session has by name: deferred tools and listed skills, and how they come into its prompt in full.

A name is on offer from the line that lists it. A call of the tool, a tool search that returns its definition, or a
load of the skill finds it: it is in full in the later runs of the session, until it is taken away. The short name of
a skill means the listed skill that ends with it, if there is only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.records.arm import Arm, known_key, quarter_up, skill_key, skill_name, tool_key
from core.records.run import Inventory

_ENTRY: Final = re.compile(r"^- .*(?:\n(?!- ).*)*", re.MULTILINE)
_LISTED: Final = re.compile(r"^- (\S+?)(?::\s|:?$)", re.MULTILINE)


def listed_names(names: Sequence[str] | None, text: str) -> Sequence[str]:
    """Return the names of listed skills: those of the line, or those of its text if it has no names.

    >>> listed_names(None, "- pdf: Read a file.")
    ['pdf']
    """
    return names or _LISTED.findall(text)


@dataclass(slots=True)
class Offer:
    """Offer of one run: what it has by name, what of it is in full already, and all that was named by then."""

    keys: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()


@dataclass
class ByName:
    """Arms of a session by name; one that was called before a line named it was in full until then."""

    _named: dict[str, Arm] = field(default_factory=dict)
    _ever: dict[str, Arm] = field(default_factory=dict)
    _called: set[str] = field(default_factory=set)
    _loaded: set[str] = field(default_factory=set)
    _inferred: set[str] = field(default_factory=set)
    _held: dict[tuple[frozenset[str], ...], Inventory] = field(default_factory=dict)

    @property
    def keys(self) -> Iterable[str]:
        """All ids that were on offer by name."""
        return self._ever.keys()

    @property
    def has_lists(self) -> bool:
        """True if any arm was on offer by name."""
        return bool(self._ever)

    def add_tools(self, names: Sequence[str], lines: Sequence[str] = ()) -> None:
        """Add deferred tools. One costs its line, where the list has one for each, else its name."""
        has_lines = len(lines) == len(names)
        for at, name in enumerate(names):
            text = lines[at] if has_lines and name in lines[at] else name
            self._add(known_key(tool_key, name), text, is_known=name in self._called)

    def remove_tools(self, names: Iterable[str]) -> None:
        """Take tools away; one that comes back is there by name again."""
        for name in names:
            self._named.pop(known_key(tool_key, name) or "", None)
            self._called.discard(name)

    def add_skills(self, names: Sequence[str], text: str) -> None:
        """Add listed skills; each costs its entry in the text of the list."""
        entries = {entry[2:].split(": ", 1)[0].strip(): entry.rstrip() for entry in _ENTRY.findall(text)}
        for name in listed_names(names, text):
            key = known_key(skill_key, name)
            self._add(key, entries.get(name, f"- {name}"), is_known=name in self._loaded)

    def _add(self, key: str | None, text: str, *, is_known: bool) -> None:
        if key is not None:
            arm = self._ever.get(key)
            if arm is None:
                arm = self._ever[key] = Arm(key=key, token_cost=quarter_up(len(text)))
                if is_known:
                    self._inferred.add(key)
            self._named[key] = arm

    def add_call(self, name: str) -> None:
        """Add a call of a tool, or a tool search that returned its definition."""
        self._called.add(name)

    def add_load(self, skill: str) -> None:
        """Add a load of a skill, by the agent or by a person."""
        self._loaded.add(skill)

    def keep_loads(self, skills: set[str]) -> None:
        """Take back the loads of all other skills, because they failed."""
        self._loaded &= skills

    def skills_of(self, name: str) -> list[str]:
        """Return the listed skills that a name may mean: the one of this name, else those that end with it."""
        key = known_key(skill_key, name)
        if key is None or key in self._ever:
            return [] if key is None else [key]
        return [
            one for one in self._ever if one.startswith("skill:") and skill_name(one).endswith(f":{name}")
        ]

    def loaded_key(self, name: str) -> str | None:
        """Return the skill that a load means; without a list of it that of its name, None if several are listed."""
        listed = self.skills_of(name)
        return listed[0] if len(listed) == 1 else None if listed else known_key(skill_key, name)

    def begin(self) -> Offer:
        """Return the offer of a run that begins."""
        return Offer(frozenset(self._named), self._in_full, frozenset(self._ever))

    def update(self, offer: Offer, *, has_begun: bool) -> None:
        """Add the present lists to the offer of the open run: it had all that was listed during a reply."""
        now = frozenset(self._named)
        offer.listed = frozenset(self._ever)
        if not has_begun:
            offer.keys, offer.known = now, self._in_full
        else:
            offer.known |= self._in_full - offer.keys
            offer.keys |= now

    @property
    def _in_full(self) -> frozenset[str]:
        if not self._named:
            return frozenset()
        called = {key for name in self._called if (key := known_key(tool_key, name))}
        return frozenset(self._named).intersection(
            called.union(filter(None, map(self.loaded_key, self._loaded)))
        )

    def inventory(self, in_full: Inventory, offer: Offer) -> Inventory:
        """Return the inventory of a run. ``in_full`` is the inventory of its session before names move arms."""
        named, own = offer.keys - offer.known, (offer.keys, offer.known, offer.listed)
        held = self._held.get(own)
        if held is None:
            without = offer.listed.union(self._ever.keys() - self._inferred) - offer.known
            full = [arm for arm in in_full.arms if arm.key not in without]
            others = [Arm(key=key) for key in sorted(offer.known.difference(arm.key for arm in full))]
            held = self._held[own] = Inventory(
                kind=in_full.kind,
                arms=(*full, *others),
                named=tuple(self._ever[key] for key in sorted(named)),
            )
        return held
