"""Functions of the numbers that other rooms call document their parameters: names, types, shapes."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any, Final

import pytest

from core import maths
from core.maths import packing, policy, posterior, statistics
from tests.language import ROOT, nodes_of, sources

_SECTION: Final = re.compile(r"^([A-Z][a-z]+)\n-+\n", re.MULTILINE)
_PARAMETER: Final = re.compile(r"^(\w+) : (.+)$", re.MULTILINE)
_ARRAYS: Final = ("Ints", "Floats", "Bools", "ArrayLike")


def public_functions() -> Iterator[FunctionType]:
    names = [policy.__name__, packing.__name__]
    for package in (statistics, posterior):
        names += [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for name in names:
        for each, value in sorted(vars(import_module(name)).items()):
            if isinstance(value, FunctionType) and value.__module__ == name and not each.startswith("_"):
                yield value


@cache
def called_elsewhere() -> frozenset[FunctionType]:
    """Functions of the numbers that other rooms import, by name or through their module."""
    return frozenset(value for value in _imported_elsewhere() if isinstance(value, FunctionType))


def _imported_elsewhere() -> Iterator[object]:
    room = ROOT / "core" / "maths"
    for path in sources():
        text = "" if path.is_relative_to(room) else path.read_text()
        nodes = nodes_of(path) if maths.__name__ in text else []
        modules = {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(maths.__name__):
                for alias in node.names:
                    modules[alias.asname or alias.name] = value = imported(node.module or "", alias.name)
                    yield value
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield getattr(modules.get(node.value.id), node.attr, None)


def imported(module: str, name: str) -> object:
    source = import_module(module)
    return getattr(source, name) if hasattr(source, name) else import_module(f"{module}.{name}")


def sections(function: Callable[..., Any]) -> dict[str, str]:
    """The parts of its docstring by their titles."""
    _, *parts = _SECTION.split(inspect.getdoc(function) or "")
    return dict(zip(parts[::2], parts[1::2], strict=True))


def named(function: FunctionType) -> str:
    return f"{function.__module__.removeprefix('core.')}.{function.__name__}"


@pytest.mark.parametrize("function", [*public_functions()], ids=named)
def test_a_function_documents_its_parameters_where_other_rooms_call_it(function: FunctionType) -> None:
    parts = sections(function)
    if function not in called_elsewhere():
        assert not {"Parameters", "Returns", "Raises"} & set(parts)
        return
    types = dict(_PARAMETER.findall(parts["Parameters"]))
    parameters = inspect.signature(function).parameters
    assert list(types) == list(parameters)
    for name, parameter in parameters.items():
        if any(array in str(parameter.annotation) for array in _ARRAYS):
            assert "shape" in types[name], f"{name} is an array: say its shape"
        assert types[name].endswith(", optional") == (parameter.default is not parameter.empty), name
    assert parts["Returns"].strip()
    # Any exception in its own lines is one that callers meet.
    assert "raise " not in inspect.getsource(function) or parts["Raises"].strip()


def test_all_rooms_of_the_numbers_are_looked_at() -> None:
    rooms = {function.__module__ for function in public_functions()}
    assert {
        "core.maths.policy",
        "core.maths.packing",
        "core.maths.posterior.beta",
        "core.maths.statistics.savings.ratio",
    } <= rooms
