"""Steps: how far long work has come, for whoever follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")

Progress = Callable[[int, int], None]
"""Called with how many are done, of how many."""


class Steps:
    """So many steps, some of which are done.

    >>> said = []
    >>> list(Steps(2, lambda done, total: said.append((done, total))).each("ab")), said
    (['a', 'b'], [(1, 2), (2, 2)])
    """

    def __init__(self, n_steps: int, progress: Progress | None) -> None:
        self._n_steps = n_steps
        self._n_done = 0
        self._progress = progress

    def take(self, n_steps: int = 1) -> None:
        """Count steps that are done."""
        self._n_done += n_steps
        if self._progress is not None:
            self._progress(self._n_done, self._n_steps)

    def each(self, items: Iterable[_T]) -> Iterator[_T]:
        """The same items, each a step."""
        for item in items:
            self.take()
            yield item
