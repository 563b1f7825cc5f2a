"""Order of lines: the order of writing, where the file has another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeVar

from core.formats.moments import utc_ms_of


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

    _ids: set[str] = field(default_factory=set)
    _awaited: set[str] = field(default_factory=set)
    _latest: str = ""
    _is_overtaken: bool = False
    _is_falling: bool = False
    _is_linked: bool = False

    def is_repeated(self, identity: str | None, followed: str | None) -> bool:
        """Return whether a line with this id came before, and record its predecessor."""
        ids = self._ids
        if followed is not None:
            self._is_linked = True
            if followed not in ids:
                self._awaited.add(followed)
        if identity is None:
            return False
        n_before = len(ids)
        ids.add(identity)
        if self._awaited and identity in self._awaited:
            self._is_overtaken = True
        return len(ids) == n_before

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
            return not self._awaited.isdisjoint(other._ids) or not other._awaited.isdisjoint(self._ids)
        return self._is_falling or other._is_falling


def in_order(lines: list[tuple[W, bytes]]) -> Iterator[tuple[W, bytes]]:
    """Return the lines in the order of writing: each after its predecessor, else by time, else as they are."""
    places: dict[str, int] = {}
    for position, (line, _) in enumerate(lines):
        if line.uuid is not None:
            places.setdefault(line.uuid, position)
    followers: dict[int, list[int]] = {}
    waiting: list[tuple[int, int]] = []
    at = 0
    for position, (line, _) in enumerate(lines):
        before = places.get(line.parent_uuid or "")
        at = at if (at_ms := utc_ms_of(line.timestamp)[0]) is None else at_ms
        if before is None or before == position:
            waiting.append((at, position))
        else:
            followers.setdefault(before, []).append(position)
    heapify(waiting)
    is_left = [True] * len(lines)
    while waiting:
        since, position = heappop(waiting)
        is_left[position] = False
        yield lines[position]
        for follower in followers.pop(position, ()):
            at_ms, _ = utc_ms_of(lines[follower][0].timestamp)
            heappush(waiting, (since if at_ms is None else at_ms, follower))
    yield from (
        line for line, left in zip(lines, is_left, strict=True) if left
    )  # they follow each other in a ring
