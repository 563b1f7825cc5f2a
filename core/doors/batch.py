"""Batch: many orders at once, where an invalid one does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from core.errors import ArmscopeError, StoreError

_Order = TypeVar("_Order")
_Answer = TypeVar("_Answer")


def answers_of(
    orders: Sequence[_Order],
    act: Callable[[Sequence[_Order]], Sequence[_Answer]],
    broken: StoreError | None = None,
) -> list[_Answer | ArmscopeError]:
    """Return the answer or the error of each order. All are done at once; after an error, each half on its own.

    After a `StoreError` (``broken``: an earlier one) no further order is tried.

    >>> answers_of([4, 2], lambda orders: [8 // one for one in orders])
    [2, 4]
    """
    if not orders:
        return []
    if broken is not None:
        return [broken] * len(orders)
    try:
        return list(act(orders))
    except ArmscopeError as problem:
        if isinstance(problem, StoreError) or len(orders) == 1:
            return [problem] * len(orders)
    middle = len(orders) // 2
    first = answers_of(orders[:middle], act)
    failed = next((one for one in first if isinstance(one, StoreError)), None)
    return [*first, *answers_of(orders[middle:], act, failed)]
