"""Every public function of the numbers says what it takes and gives: names, types, shapes."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FunctionType
from typing import Any, Final

import pytest

from core import packing, policy, posterior, statistics

_SECTION: Final = re.compile(r"^([A-Z][a-z]+)\n-+\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"^(\w+) : (.+)$", re.MULTILINE)
_ARRAYS: Final = ("Ints", "Floats", "Bools", "ArrayLike")


def public_functions() -> Iterator[FunctionType]:
    names = [policy.__name__, packing.__name__]
    for package in (statistics, posterior):
        names += [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for name in names:
        for each, made in sorted(vars(import_module(name)).items()):
            if isinstance(made, FunctionType) and made.__module__ == name and not each.startswith("_"):
                yield made


def sections(function: Callable[..., Any]) -> dict[str, str]:
    """The parts of its docstring by their titles."""
    _, *parts = _SECTION.split(inspect.getdoc(function) or "")
    return dict(zip(parts[::2], parts[1::2], strict=True))


def named(function: FunctionType) -> str:
    return f"{function.__module__.removeprefix('core.')}.{function.__name__}"


@pytest.mark.parametrize("function", list(public_functions()), ids=named)
def test_a_public_function_says_what_it_takes_and_gives(function: FunctionType) -> None:
    told = sections(function)
    types = dict(_PARAMETER.findall(told["Parameters"]))
    taken = inspect.signature(function).parameters
    assert list(types) == list(taken)
    for name, parameter in taken.items():
        if any(array in str(parameter.annotation) for array in _ARRAYS):
            assert "shape" in types[name], f"{name} is an array: say its shape"
        assert types[name].endswith(", optional") == (parameter.default is not parameter.empty), name
    assert told["Returns"].strip()
    # Any exception in its own lines is one that callers meet.
    assert "raise " not in inspect.getsource(function) or told["Raises"].strip()


def test_all_rooms_of_the_numbers_are_looked_at() -> None:
    rooms = {function.__module__ for function in public_functions()}
    assert {"core.policy", "core.packing", "core.posterior.beta", "core.statistics.savings.ratio"} <= rooms
