"""Progress of long work, counted in steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")

ProgressCallback = Callable[[int, int], None]
"""Callback with the number of steps done and the total."""


class Steps:
    """Counter of a number of steps, with a callback.

    >>> calls = []
    >>> list(Steps(2, lambda done, total: calls.append((done, total))).each("ab")), calls
    (['a', 'b'], [(1, 2), (2, 2)])
    """

    def __init__(self, n_steps: int, progress: ProgressCallback | None) -> None:
        self._n_steps = n_steps
        self._n_done = 0
        self._progress = progress

    def take(self, n_steps: int = 1) -> None:
        """Count finished steps."""
        self._n_done += n_steps
        if self._progress is not None:
            self._progress(self._n_done, self._n_steps)

    def each(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items, each as one step."""
        for item in items:
            self.take()
            yield item
