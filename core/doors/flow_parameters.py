"""Parameters of flows, read from their source: help and schemas need neither NumPy nor the store.

Only the ``def`` and the docstring of a flow are parsed, and only the types of its described parameters are imported.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from functools import cache
from importlib import import_module
from inspect import Signature
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Final, NamedTuple, Unpack, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT

from core.names import homes_in
from core.records import parameters
from core.records.parameters import defaults_of

_ROOT: Final = Path(__file__).parents[2]
_QUOTES: Final = '"""'


class Parameter(NamedTuple):
    """A parameter of a verb: its type with its words, and its default (`NODEFAULT`: it is required)."""

    type: Any
    default: Any


@cache
def words_of(flow: str) -> str:
    """Return the docstring of a flow, named like ``core.flows.corrections:note``."""
    return ast.get_docstring(_definition(flow)) or ""


@cache
def answer_of(flow: str) -> Any:  # noqa: ANN401 - a type
    """Return the type of a flow's answer."""
    returned, names = _definition(flow).returns, _Names(flow.partition(":")[0])
    assert returned is not None, "flows are typed"  # noqa: S101 - strict types
    hint = SimpleNamespace(__annotations__={"return": ast.unparse(returned)})
    return get_type_hints(hint, {}, names)["return"]


@cache
def signature_of(flow: str) -> Signature:
    """Return the signature of the method of a learner that calls a flow."""
    positional = {one.arg for one in _definition(flow).args.args}
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD if name in positional else inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is NODEFAULT else one.default,
            annotation=get_args(one.type)[0] if get_origin(one.type) is Annotated else one.type,
        )
        for name, one in parameters_of(flow).items()
    ]
    learner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    return Signature([learner, *parameters], return_annotation=answer_of(flow))


@cache
def parameters_of(flow: str) -> dict[str, Parameter]:
    """Return the parameters of a flow that have a description (`msgspec.Meta`), by name.

    A parameter without one, such as ``context`` or ``progress``, can only come from this process, and is left out.

    >>> list(parameters_of("core.flows.corrections:note"))
    ['arm', 'text', 'key']
    """
    arguments, names = _definition(flow).args, _Names(flow.partition(":")[0])
    every = [*arguments.args, *arguments.kwonlyargs, *filter(None, [arguments.kwarg])]
    texts = {one.arg: ast.unparse(one.annotation) for one in every if one.annotation is not None}
    described = {name: text for name, text in texts.items() if names.is_described(text)}
    hints = get_type_hints(SimpleNamespace(__annotations__=described), {}, names, include_extras=True)
    first_default = len(arguments.args) - len(arguments.defaults)
    values = chain(
        zip(arguments.args[first_default:], arguments.defaults, strict=True),
        zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    )
    defaults = {one.arg: value for one, value in values if value is not None}
    result: dict[str, Parameter] = {}
    for name, hint in hints.items():
        if get_origin(hint) is Unpack:
            (options,) = get_args(hint)
            types = get_type_hints(options, include_extras=True)
            result |= {key: Parameter(types[key], value) for key, value in defaults_of(options).items()}
        else:
            result[name] = Parameter(hint, names.value(defaults[name]) if name in defaults else NODEFAULT)
    return result


@cache
def _source(module: str) -> str:
    return _ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")


def _definition(flow: str) -> ast.FunctionDef:
    """Return the parsed head of a function, with its docstring alone for a body."""
    module, _, name = flow.partition(":")
    source = _source(module)
    start = source.index(f"\ndef {name}(") + 1
    opening = source.index(_QUOTES, start)
    end = source.index(_QUOTES, opening + len(_QUOTES)) + len(_QUOTES)
    (definition,) = ast.parse(source[start:end]).body
    assert isinstance(definition, ast.FunctionDef)  # noqa: S101 - the text begins with def
    return definition


class _Names(dict[str, Any]):
    """Names of a module, each imported at its first use."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self._module = module
        self._homes = homes_in(_source(module))

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - a type or a constant
        if name not in self._homes and hasattr(builtins, name):
            return getattr(builtins, name)
        module, original = self._homes.get(name, (self._module, name))
        home = import_module(module)
        self[name] = (
            getattr(home, original) if hasattr(home, original) else import_module(f"{module}.{original}")
        )
        return self[name]

    def is_described(self, annotation: str) -> bool:
        """Return whether an annotation has a description, of its own or through an alias."""
        home = self._homes.get(annotation, ("", ""))[0]
        return annotation.startswith(("Annotated[", "Unpack[")) or home == parameters.__name__

    def value(self, default: ast.expr) -> Any:  # noqa: ANN401 - any default
        """Return the value of a default: a literal, a constant, or a record of defaults such as ``View()``."""
        if isinstance(default, ast.Name):
            return self[default.id]
        if isinstance(default, ast.Call) and isinstance(default.func, ast.Name):
            return self[default.func.id]()
        return ast.literal_eval(default)
