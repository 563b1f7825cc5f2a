"""Unknown parts of a file, and ids that are none: counted, and reported in a sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from core.formats.entries import Remark

_NAMED: Final = 5
_MOST_NAMES: Final = 100
_CALL: Final = re.compile(r"tool|func|call|command|action", re.IGNORECASE)
_PLURAL: Final = re.compile(r"s(?= with|$)")
_NO_CALL: Final = re.compile(r"result|response|output|return|error|reference|callout", re.IGNORECASE)


def may_be_call(name: str) -> bool:
    """Return whether a kind of block or field is named like a call: then its calls are lost with it."""
    return _CALL.search(name) is not None and _NO_CALL.search(name) is None


@dataclass
class Unknown:
    """Kinds of lines, blocks and fields that no reader of the format knows, and how often each was met.

    ``spends`` are amounts in a usage that no reader knows: they make a bill a lower bound. ``n_shared`` counts
    records under an id that another record has, with other content. ``ambiguous`` and ``unlisted`` are names of
    loaded skills that mean several listed skills, or none.
    """

    lines: Counter[str] = field(default_factory=Counter)
    blocks: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    spends: Counter[str] = field(default_factory=Counter)
    n_shared: int = 0
    ambiguous: Counter[str] = field(default_factory=Counter)
    unlisted: Counter[str] = field(default_factory=Counter)

    def line(self, kind: str) -> None:
        """Count a line."""
        _count(self.lines, kind)

    def block(self, kind: str) -> bool:
        """Count a content block; whether it may be a call."""
        _count(self.blocks, kind)
        return may_be_call(kind)

    def field(self, name: str) -> None:
        """Count a field that carries calls."""
        _count(self.fields, name)

    def spend(self, names: Collection[str]) -> int:
        """Count amounts of a usage by name; how many they are."""
        for name in names:
            _count(self.spends, name)
        return len(names)

    def no_call_is_known(self, n_foreign: int) -> str:
        """Return why nothing can be learned of runs that called tools in an unknown way."""
        kinds = Counter({kind: n for kind, n in (self.blocks + self.lines).items() if may_be_call(kind)})
        return (
            f"Which tools were called is unknown: {n_foreign:,} calls are of an unknown kind "
            f"({_names(kinds + self.fields)})."
        )

    def remarks(self, file: str) -> Iterator[Remark]:
        """Yield the remarks about a file."""
        for what, kinds in (
            ("lines", self.lines),
            ("content blocks", self.blocks),
            ("fields with calls", self.fields),
            ("spends", self.spends),
        ):
            n_met = kinds.total()
            if n_met:
                noun = _PLURAL.sub("", what, count=1) if n_met == 1 else what
                were = "was" if n_met == 1 else "were"
                text = (
                    f"{n_met:,} {noun} of an unknown kind ({_names(kinds)}) {were} not understood ({file})."
                )
                yield Remark(file=file, text=text)
        for names, means in (
            (self.ambiguous, "means several listed skills"),
            (self.unlisted, "is not listed"),
        ):
            if n := names.total():
                loads = "1 load" if n == 1 else f"{n:,} loads"
                text = f"{loads} of a skill whose name {means} ({_names(names)}): counted for none ({file})."
                yield Remark(file=file, text=text)
        if self.n_shared:
            yield Remark(
                file=file, text=f"{self.n_shared:,} records share an id with another content ({file})."
            )


def _count(kinds: Counter[str], name: str) -> None:
    name = name[:40]
    kinds[name if name in kinds or len(kinds) < _MOST_NAMES else "…"] += 1


def _names(kinds: Counter[str]) -> str:
    """The most frequent kinds; they are foreign text."""
    named = [f"{kind!a}"[1:-1] or "without a name" for kind, _ in kinds.most_common(_NAMED)]
    return ", ".join([*named, "…"] if len(kinds) > _NAMED else named)
