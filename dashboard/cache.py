"""A bounded cache of answers by key; the least recently used go first (LRU)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar, cast

Answer = TypeVar("Answer")


class Cache:
    """Answers by key, the least recently used dropped beyond the bound; safe for several sessions at once.

    >>> cache = Cache(bound=1)
    >>> cache.get("a", lambda: 1), cache.get("a", lambda: 2), cache.get("b", lambda: 3), len(cache)
    (1, 1, 3, 1)
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._answers: OrderedDict[Hashable, object] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def get(
        self, key: Hashable, ask: Callable[[], Answer], still: Callable[[], bool] = lambda: True
    ) -> Answer:
        """Return the answer under this key; it is computed outside the lock, so a slow query blocks no other.

        A new answer is stored only if ``still`` confirms the key afterwards.
        """
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return cast("Answer", self._answers[key])
        answer = ask()
        if not still():
            return answer
        with self._lock:
            self._answers[key] = answer
            self._answers.move_to_end(key)
            while len(self._answers) > self._bound:
                self._answers.popitem(last=False)
        return answer
