"""Spelling of a command, from the fields of a verb's input and with their words; completion of arms and learners.

Completion offers plain words only. An id may come from a stranger, and a shell would run special characters in it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, redirect_stdout, suppress
from copy import copy
from functools import cache
from io import StringIO
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
import typer
from typer.models import ArgumentInfo, OptionInfo

from core.doors.verbs import Input, verb
from core.errors import ArmscopeError
from core.records.arm import ARM_TYPES
from core.settings import Settings, set_variables, variable

ParameterInfo: TypeAlias = ArgumentInfo | OptionInfo
_METAVARS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("from_", "to", "until"), "TIME"),
    "key": "KEY",
    "limit": "N",
    "reason": "TEXT",
    "since": "MARK",
}
"""Usual metavar of an option, by the name of its field."""
_PLAIN: Final = re.compile(r"[\w./:@%+,=-]+", re.ASCII)


def words(verb_name: str, field: str) -> str:
    """Return the description of a field of a verb.

    >>> words("note", "text")
    'Text of the note, up to 2,000 characters.'
    """
    return _meta(verb(verb_name).input, field).description or ""


def fields_of(kind: type[msgspec.Struct]) -> Iterator[msgspec.structs.FieldInfo]:
    """Yield the fields that a command line can express, without those that may be unset."""
    return (
        field
        for field in msgspec.structs.fields(kind)
        if msgspec.UnsetType not in get_args(get_args(field.type)[0])
    )


def spelled(
    kind: type[Input], options: Mapping[str, ParameterInfo | str], omit: Collection[str] = ()
) -> Iterator[inspect.Parameter]:
    """Yield a parameter for each field: an argument if it is required, else an option of its name.

    Fields of the filter ``wanted`` are beside the others. ``options`` has the parameter of a field that differs, or
    only its metavar.

    >>> from core.doors.verbs import Verbs
    >>> [(one.name, one.default) for one in spelled(Verbs.runs.input, {})][:1]
    [('limit', 50)]
    """
    filters = None if "wanted" in omit else filter_of(kind)
    described = (
        () if filters is None else (one for one in fields_of(filters) if _meta(filters, one.name).description)
    )
    for field in (*fields_of(kind), *described):
        record = kind if field.name in kind.__struct_fields__ else filters
        if field.name in {*omit, "wanted"} or record is None:
            continue
        info = options.get(field.name)
        if info is None or isinstance(info, str):
            info = _usual(field, info)
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.required else field.default,
            annotation=_annotated(_hints(record)[field.name], _filled(info, _meta(record, field.name))),
        )


def filter_of(kind: type[msgspec.Struct]) -> type[msgspec.Struct] | None:
    """Return the record of the filter ``wanted`` of a verb's input."""
    filters = _hints(kind).get("wanted")
    return None if filters is None else get_args(filters)[0]


def request_of(kind: type[Input], values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request: with its filter as a record, and () for a list that no option names."""
    lists = {one.name: one.default for one in fields_of(kind) if one.default == ()}
    values = {name: lists.get(name) if value is None else value for name, value in values.items()}
    filters = filter_of(kind)
    names = () if filters is None else filters.__struct_fields__
    parts = {name: values.pop(name) for name in names if name in values}
    return {**values, "wanted": filters(**parts)} if filters is not None and parts else values


def _usual(field: msgspec.structs.FieldInfo, metavar: str | None) -> ParameterInfo:
    completion = arm_ids if field.name == "arm" else None
    metavar = metavar or (None if field.required else _METAVARS.get(field.name))
    names = () if field.required else (f"--{field.encode_name.replace('_', '-')}",)
    make: Callable[..., ParameterInfo] = typer.Argument if field.required else typer.Option
    return make(*names, metavar=metavar, autocompletion=completion)


def _annotated(hint: Any, info: ParameterInfo) -> Any:  # noqa: ANN401 - a type
    """Return the type of a parameter; an option for one value or several can be repeated."""
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    several = next(
        (get_args(one)[0] for one in (inner, *get_args(inner)) if get_origin(one) is Sequence), None
    )
    if several is None:
        # A command line has no other form of a number.
        is_text = inner is Any or {str, int} <= {*get_args(inner)}
        return Annotated[str | None if is_text else hint, info]
    info.metavar = info.metavar or "|".join(get_args(several)) or "NAME"
    return Annotated[list[str] | None, info]


def _filled(info: ParameterInfo, meta: msgspec.Meta) -> ParameterInfo:
    filled = copy(info)
    filled.help = info.help or meta.description
    filled.min = meta.ge if info.min is None else info.min
    filled.max = meta.le if info.max is None else info.max
    return filled


def _meta(kind: type[msgspec.Struct], field: str) -> msgspec.Meta:
    return next(
        (one for one in get_args(_hints(kind)[field]) if isinstance(one, msgspec.Meta)), msgspec.Meta()
    )


@cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the annotated types of fields. Evaluating them is slow, so they are cached."""
    return get_type_hints(kind, include_extras=True)


def types_of(names: list[str] | None) -> list[str] | None:
    """Return the types that repeated options name, in their order; raises a usage error for an unknown one."""
    unknown = [name for name in names or () if name not in ARM_TYPES]
    if unknown:
        raise typer.BadParameter(f"it must be one of {', '.join(ARM_TYPES)}, got {unknown[0]!r}")
    return [known for known in ARM_TYPES if known in (names or ())]


def arm_ids(line: typer.Context, incomplete: str) -> list[str]:
    """Return arm ids that begin with the incomplete word."""
    return _candidates(line, incomplete, "arm_ids")


def learner_names(line: typer.Context, incomplete: str) -> list[str]:
    """Return learner names that begin with the incomplete word."""
    return _candidates(line, incomplete, "learner_names")


def _candidates(line: typer.Context, incomplete: str, query: str) -> list[str]:
    """Return completions by a query of contexts; no database is created and errors give no completion."""
    from core.flows import context as contexts

    parameters = dict(line.find_root().params)
    parameters |= {name: value for name, value in line.params.items() if value is not None}
    try:
        settings = Settings.from_environment(
            database=parameters.get("database"), learner=parameters.get("learner")
        )
        context = contexts.open_context(settings, create=False, whole=True)
        with closing(context.store):
            names = getattr(contexts, query)(context)
    except ArmscopeError:
        return []
    return [name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)][:200]


def complete_bash(app: typer.Typer) -> None:
    """Answer bash, which cuts words at colons: an arm's id comes in pieces, and its last piece is what it puts in."""
    if variable("_ARMSCOPE_COMPLETE") != "complete_bash":
        return
    pieces = (variable("COMP_WORDS") or "").split("\n")
    head = ""
    if len(pieces) > 1:
        words, head = joined(pieces, int(variable("COMP_CWORD") or 0))
        set_variables({"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)})
    with redirect_stdout(StringIO()) as output, suppress(SystemExit):
        app(args=[], prog_name="armscope")
    sys.stdout.write("".join(f"{line.removeprefix(head)}\n" for line in output.getvalue().splitlines()))
    sys.exit(0)


def joined(pieces: Sequence[str], index: int) -> tuple[list[str], str]:
    """Words up to the one under the cursor, as they were typed, and what of that one lies before what bash replaces.

    >>> joined(["armscope", "reward", "tool", ":", "fs", ":", "Re"], 6)
    (['armscope', 'reward', 'tool:fs:Re'], 'tool:fs:')
    >>> joined(["armscope", "reward", "tool", ":"], 3)
    (['armscope', 'reward', 'tool:'], 'tool:')
    """
    words, head = list[str](), ""
    for piece in pieces[: index + 1]:
        if len(words) > 1 and piece and (piece.startswith(":") or words[-1].endswith(":")):
            head = words[-1] + (piece if piece.startswith(":") else "")
            words[-1] += piece
        else:
            head = ""
            words.append(piece)
    return words, head
