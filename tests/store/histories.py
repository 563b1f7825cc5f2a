"""Histories: what processes asked of a database of lists, judged by itself. It shares no code with the product.

An operation appends values to lists, or reads whole lists, in one transaction; each value is appended by one
operation. So what a read returns shows the order of all appends before it, as in the list-append tests of Elle
(Kingsbury and Alvaro, 2020). From it follow the orders that must hold between operations. They must have no cycle:
then there is an order of all operations, in agreement with the clock, in which each could have run alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final, Literal

Kind = Literal["lost", "double", "phantom", "reordered", "cycle"]
"""What is wrong: an acknowledged value is missing from the last read of its list; a value is in a list twice; a value
is read that no operation appended, or a refused one; two reads contradict each other's order; no order explains all.
"""
_LONGEST_CYCLE: Final = 8


@dataclass(frozen=True)
class Operation:
    """One transaction; ``ended`` None = it may have happened, or not, at any time after it began."""

    name: str
    began: float
    ended: float | None
    appends: Sequence[tuple[str, str]] = ()
    """Lists and values, in order."""
    reads: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lists as they were read; one that is missing was not read."""
    is_refused: bool = False
    """It was answered that nothing of it was done."""


def judge(operations: Sequence[Operation]) -> dict[Kind, list[str]]:
    """Return what is wrong with a history, in words, by kind; each list is read again when all else has ended."""
    found: dict[Kind, list[str]] = defaultdict(list)
    orders = _orders(operations, found)
    _check_values(operations, orders, found)
    if not found:
        cycle = _cycle(operations, orders)
        if cycle:
            found["cycle"].append(" → ".join(cycle[:_LONGEST_CYCLE]))
    return dict(found)


def _orders(operations: Iterable[Operation], found: dict[Kind, list[str]]) -> dict[str, Sequence[str]]:
    """Return each list as the longest read has it; every other read must be a beginning of it."""
    longest: dict[str, tuple[str, Sequence[str]]] = {}
    for one in operations:
        for name, values in one.reads.items():
            if len(values) >= len(longest.get(name, ("", ()))[1]):
                longest[name] = (one.name, values)
    for one in operations:
        for name, values in one.reads.items():
            by, order = longest[name]
            if list(values) != list(order[: len(values)]):
                at = next(place for place, value in enumerate(values) if value != order[place])
                found["reordered"].append(
                    f"{name}[{at}]: {one.name} read {values[at]}, {by} read {order[at]}"
                )
    return {name: values for name, (_, values) in longest.items()}


def _check_values(
    operations: Sequence[Operation], orders: Mapping[str, Sequence[str]], found: dict[Kind, list[str]]
) -> None:
    """Compare the values that were sent with those that were read."""
    sent = {append: one for one in operations for append in one.appends}
    for one in operations:
        for name, values in one.reads.items():
            unknown = [value for value in values if (name, value) not in sent or sent[name, value].is_refused]
            found["phantom"] += (f"{name}: {one.name} read {value}" for value in unknown)
            twice = [value for value, n in Counter(values).items() if n > 1]
            found["double"] += (f"{name}: {one.name} read {value} more than once" for value in twice)
    in_time = sorted(operations, key=lambda one: one.began)
    there = {name: set(values) for one in in_time for name, values in one.reads.items()}
    for (name, value), one in sent.items():
        if one.ended is not None and not one.is_refused and value not in there.get(name, ()):
            found["lost"].append(f"{name}: {value} of {one.name}")
    for kind in [kind for kind, problems in found.items() if not problems]:
        del found[kind]


def _cycle(operations: Sequence[Operation], orders: Mapping[str, Sequence[str]]) -> list[str]:
    """Return operations each of which must come before the next, and the last before the first; [] if none do."""
    before: dict[Hashable, set[Hashable]] = {}
    writer = {append: one.name for one in operations for append in one.appends}

    def follow(first: Hashable, second: Hashable) -> None:
        if first != second:
            before.setdefault(second, set()).add(first)

    for name, values in orders.items():
        for first, second in pairwise(values):
            follow(writer[name, first], writer[name, second])
    for one in operations:
        for name, values in one.reads.items():
            if values:
                follow(writer[name, values[-1]], one.name)
            if len(values) < len(orders[name]):
                follow(one.name, writer[name, orders[name][len(values)]])
    _add_clock(operations, follow)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as problem:
        # The clock's own nodes are numbers.
        return [str(node) for node in problem.args[1] if isinstance(node, str)]
    return []


def _add_clock(operations: Sequence[Operation], follow: Callable[[Hashable, Hashable], None]) -> None:
    """What had ended comes before what began later: each end is a node after the one before."""
    ended = sorted(
        (one.ended, one.name) for one in operations if one.ended is not None and not one.is_refused
    )
    ends = [at for at, _ in ended]
    for place, (_, name) in enumerate(ended):
        follow(name, place)
        if place:
            follow(place - 1, place)
    for one in operations:
        place = bisect_left(ends, one.began)
        if place:
            follow(place - 1, one.name)
