"""Vectors: requests to public systems with their answers, and our deviations with their reasons.

A `Deviation` covers cases by a rule about the request, or about the kind of the other answer. So it holds for new
vectors, too. A covered case must differ. A deviation that no longer deviates fails its test.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.conftest import VECTORS

_NUMBERS: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", "-0": "-0.0"}


class Absent:
    """What stands for nothing: no answer of ours, a member that is not there."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()


@dataclass(frozen=True)
class Vector:
    """One recorded call; ``error`` names the exception where there was one, ``code`` and ``status`` what it told."""

    id: str
    function: str
    input: Any
    output: Any
    error: str | None
    code: str | None = None
    status: int | None = None


@dataclass(frozen=True)
class Case:
    """One thing of a vector's answer that can be compared, by its name in it."""

    vector: Vector
    name: str
    theirs: Any


@dataclass(frozen=True)
class Deviation:
    """Where we answer otherwise on purpose: the rule of ours that decides it, and why it applies."""

    rule: str
    reason: str
    covers: Callable[[Case], bool]


def load(name: str, function: str | None = None) -> list[Any]:
    """Parameters of a test: the vectors of a file, or those of one function in it."""
    path = VECTORS / f"{name}.json"
    listed = json.loads(path.read_text(encoding="utf-8"))["vectors"] if path.is_file() else []
    chosen = [_vector(entry) for entry in listed if function in {None, entry["function"]}]
    return [pytest.param(vector, id=vector.id) for vector in chosen]


def each_of(vectors: Sequence[Any]) -> Callable[[Callable[[Vector], None]], Callable[[], None]]:
    """Make one test of the checks of all vectors: thousands of tests take longer to begin than to run."""

    def of_all(check: Callable[[Vector], None]) -> Callable[[], None]:
        def test() -> None:
            if not vectors:
                pytest.skip(
                    "needs the recorded answers of public systems: 'shared/vectors' beside the project's root"
                )
            wrong: list[Exception] = []
            for one in vectors:
                try:
                    check(one.values[0])
                except Exception as problem:
                    problem.add_note(f"vector {one.id}")
                    wrong.append(problem)
            if wrong:
                raise ExceptionGroup(f"{len(wrong)} of {len(vectors)} vectors", wrong)

        test.__name__, test.__qualname__, test.__module__ = check.__name__, check.__name__, check.__module__
        test.__doc__ = check.__doc__
        return test

    return of_all


def compare(
    vector: Vector,
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    deviations: Sequence[Deviation],
    same: Callable[[Any, Any], bool] = lambda one, other: bool(one == other),
) -> tuple[Deviation, ...]:
    """Hold each part of an answer against theirs (missing: `ABSENT`); return the deviations met, each once."""
    met: dict[str, Deviation] = {}
    for name in dict.fromkeys((*theirs, *ours)):
        our, their = ours.get(name, ABSENT), theirs.get(name, ABSENT)
        case = Case(vector, name, their)
        found = next((one for one in deviations if one.covers(case)), None)
        is_same = same(our, their)
        if found is None:
            assert is_same, f"{vector.id} {name}: ours is {our!r}, theirs {their!r}"
        else:
            assert not is_same, f"{vector.id} {name}: no longer deviates from {their!r} ({found.rule})"
            met[found.rule] = found
    return tuple(met.values())


def print_counts(name: str, met: Sequence[Sequence[Deviation]]) -> None:
    """Say how many of the vectors of a file met each rule."""
    counts = Counter(deviation.rule for each in met for deviation in each)
    lines = [f"\n{name}: {len(met)} vectors, {sum(map(bool, met))} with deviations"]
    lines += [f"  {n:3}  {rule}" for rule, n in counts.most_common()]
    sys.stdout.write("\n".join([*lines, ""]))


def close(tolerance: float) -> Callable[[Any, Any], bool]:
    """Whether two answers are equal, their numbers within so much, of the number where it is above 1."""

    def same(one: object, other: object) -> bool:
        if isinstance(one, (int, float)) and isinstance(other, (int, float)):
            return one == other or abs(one - other) <= tolerance * max(1.0, abs(other))
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
        if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            return len(one) == len(other) and all(map(same, one, other))
        return bool(one == other)

    return same


def exactly(one: object, other: object) -> bool:
    """Whether two answers are equal, a truth value no number, and 0 apart from -0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(exactly(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(exactly, one, other))
    return bool(one == other)


def _vector(entry: Mapping[str, Any]) -> Vector:
    error = entry.get("error")
    return Vector(
        id=entry["id"],
        function=entry["function"],
        input=_plain(entry["input"]),
        output=_plain(entry.get("output", ABSENT)),
        error=None if error is None else error["name"],
        code=None if error is None else error.get("code"),
        status=None if error is None else error.get("statusCode"),
    )


def _plain(value: object) -> object:
    """The encodings taken away: numbers JSON has none for, places held by undefined; such a member is absent."""
    if isinstance(value, list):
        return [_plain(held) for held in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$num"}:
        return float(_NUMBERS[str(value["$num"])])
    if value.keys() == {"$undefined"}:
        return ABSENT
    return {name: _plain(held) for name, held in value.items() if held != {"$undefined": True}}
