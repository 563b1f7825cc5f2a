"""Order of lines: the order of writing, where the file has another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeVar

from core.formats.moments import moment


class Line(Protocol):
    """A line that may say which line it follows, and when it was written."""

    @property
    def uuid(self) -> str | None: ...
    @property
    def parent_uuid(self) -> str | None: ...
    @property
    def timestamp(self) -> str | float | None: ...


W = TypeVar("W", bound=Line)


@dataclass
class Order:
    """Check whether lines are in the order of writing.

    A line must follow its predecessor. Lines without predecessors must be in order of time.
    """

    _seen: set[str] = field(default_factory=set)
    _awaited: set[str] = field(default_factory=set)
    _latest: str = ""
    _is_overtaken: bool = False
    _is_falling: bool = False
    _is_linked: bool = False

    def is_repeated(self, identity: str | None, followed: str | None) -> bool:
        """Return whether a line with this id came before, and record its predecessor."""
        seen = self._seen
        if followed is not None:
            self._is_linked = True
            if followed not in seen:
                self._awaited.add(followed)
        if identity is None:
            return False
        n_seen = len(seen)
        seen.add(identity)
        if self._awaited and identity in self._awaited:
            self._is_overtaken = True
        return len(seen) == n_seen

    def note_time(self, timestamp: str | None) -> None:
        """Take in when a line was written."""
        if timestamp is not None:
            self._is_falling |= timestamp < self._latest
            self._latest = timestamp

    @property
    def is_broken(self) -> bool:
        return self._is_overtaken or (self._is_falling and not self._is_linked)

    def is_mixed_with(self, other: Order) -> bool:
        """Return whether lines of both follow each other; without predecessors, whether some are out of order."""
        if self._is_linked or other._is_linked:
            return not self._awaited.isdisjoint(other._seen) or not other._awaited.isdisjoint(self._seen)
        return self._is_falling or other._is_falling


def in_order(lines: list[tuple[W, bytes]]) -> Iterator[tuple[W, bytes]]:
    """Return the lines in the order of writing: each after its predecessor, else by time, else as they are."""
    places: dict[str, int] = {}
    for place, (line, _) in enumerate(lines):
        if line.uuid is not None:
            places.setdefault(line.uuid, place)
    followers: dict[int, list[int]] = {}
    waiting: list[tuple[int, int]] = []
    at = 0
    for place, (line, _) in enumerate(lines):
        before = places.get(line.parent_uuid or "")
        at = at if (told := moment(line.timestamp)[0]) is None else told
        if before is None or before == place:
            waiting.append((at, place))
        else:
            followers.setdefault(before, []).append(place)
    heapify(waiting)
    is_left = [True] * len(lines)
    while waiting:
        since, place = heappop(waiting)
        is_left[place] = False
        yield lines[place]
        for follower in followers.pop(place, ()):
            told, _ = moment(lines[follower][0].timestamp)
            heappush(waiting, (since if told is None else told, follower))
    yield from (
        line for line, left in zip(lines, is_left, strict=True) if left
    )  # they follow each other in a ring
