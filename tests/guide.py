"""Guide: its generated tables and lists: ``python -m tests.guide`` lists stale files, ``--write`` writes them again.

A region begins with ``<!-- generated: NAME -->`` and ends with ``<!-- end -->``. Cells that only a person can write
stay as they are. A new row has them empty, and a test names it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
import typer.main

import core.client  # noqa: F401 - it has errors of its own
import dashboard.sign_in  # noqa: F401 - likewise
from core import errors, guide
from core.doors.cli import app
from core.doors.cli.config import VARIABLES
from core.doors.http import api, metrics, serving
from core.doors.http.refusals import status_of
from core.doors.mcp.tools import BY_NAME
from core.doors.verbs import VERBS
from core.formats import FORMATS
from core.installed.prune import WAYS
from core.records.learner import LearnerSettings, Priors
from core.store.views import VIEWS
from dashboard import commands
from dashboard.sentences.settings import SETTING_WORDS

Rows = Sequence[Sequence[str | None]]
"""Cells of a table; None = only a person can write it."""
_REGION: Final = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_COMMON: Final = ("--database", "--learner", "--json", "--quiet", "--help")
_SHORT: Final = 45
"""Length up to which the choices of an option are written out."""
_OTHER_CODES: Final = {"usage": "", "aborted": "", "internal": "500"}
"""Codes of answers that are no exceptions, with their HTTP status."""


def main() -> None:
    """List the files with stale tables, or write them."""
    stale = list(_stale())
    for name, text in stale:
        if "--write" in sys.argv[1:]:
            guide.path_of(name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{guide.path_of(name).name}\n")
    if stale and "--write" not in sys.argv[1:]:
        sys.exit(1)


def _stale() -> Iterator[tuple[str, str]]:
    for topic in guide.topics():
        text = guide.path_of(topic.name).read_text(encoding="utf-8")
        if (new := rewritten(text)) != text:
            yield topic.name, new


def rewritten(text: str) -> str:
    """Return a topic with its tables as the code is now."""
    return _REGION.sub(lambda match: match[1] + _region(match[2], match[3]) + match[4], text)


def tables(text: str) -> dict[str, list[list[str]]]:
    """Return the cells of the generated tables of a topic, by name."""
    return {match[2]: _cells(match[3]) for match in _REGION.finditer(text)}


def _region(name: str, present: str) -> str:
    if name == "commands":
        return "\n".join(sorted(_command_rows("armscope", command_tree()))) + "\n"
    heads, rows = TABLES[name]
    by_key = {cells[0]: cells for cells in _cells(present)}
    lines = [heads, ["---"] * len(heads)]
    for row in rows():
        before = by_key.get(str(row[0]), [])
        pairs = zip_longest(row, before[: len(row)])
        lines.append([(old or "") if new is None else new for new, old in pairs])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(table: str) -> list[list[str]]:
    rows = [re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def _code(text: str) -> str:
    return f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# The tables


@cache
def command_tree() -> dict[str, Any]:
    """Return the commands by name. Typer takes long to build them."""
    assert commands.demo.__module__ == "dashboard.commands", "importing the launcher adds its commands"
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def _command_rows(path: str, commands: Mapping[str, Any]) -> Iterator[str]:
    for name, command in commands.items():
        if command.hidden:
            continue
        if inner := getattr(command, "commands", None):
            yield from _command_rows(f"{path} {name}", inner)
            continue
        arguments = [_argument(one) for one in command.params if one.param_type_name == "argument"]
        options = [
            f"`{_option(one)}`"
            for one in command.params
            if one.param_type_name == "option" and one.opts[0] not in _COMMON and not one.hidden
        ]
        words = " ".join(command.help.split("\n\n")[0].split()).rstrip(".")
        line = f"- `{' '.join([f'{path} {name}', *arguments])}`: {words}."
        yield f"{line} Options: {', '.join(options)}." if options else line


def _argument(argument: Any) -> str:  # noqa: ANN401 - Typer's own
    name = "|".join(_choices(argument)) or str(argument.metavar or argument.name).upper().strip("[]")
    more = "…" if argument.nargs == -1 else ""
    return f"{name}{more}" if argument.required else f"[{name}{more}]"


def _option(option: Any) -> str:  # noqa: ANN401 - Typer's own
    long = next((one for one in option.opts if one.startswith("--")), option.opts[0])
    if option.is_flag:
        return str(option.secondary_opts[0] if option.secondary_opts and option.default else long)
    choices = "|".join(_choices(option))
    value = option.metavar or (choices if 0 < len(choices) <= _SHORT else option.name.upper())
    return f"{long} {value}"


def _choices(parameter: Any) -> tuple[str, ...]:  # noqa: ANN401 - Typer's own
    annotation = parameter.type_descriptor.annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _verbs() -> Rows:
    return sorted([_code(verb.name), _escaped(verb.words.rstrip("."))] for verb in VERBS)


def _tools() -> Rows:
    return [[_code(tool.name), tool.action, _escaped(tool.words)] for tool in BY_NAME.values()]


def _variables() -> Rows:
    return [
        [
            _code(one.name),
            f"{one.words}{f'; as `{one.option}`' if one.option else ''}",
            one.default or "none",
        ]
        for one in VARIABLES
    ]


def _formats() -> Rows:
    return [
        [
            _code(name),
            ", ".join(format.units) or "–",
            None,
            None,
        ]
        for name, format in sorted(FORMATS.items())
    ]


def _settings() -> Rows:
    return [
        [
            _code(name),
            _escaped(SETTING_WORDS[name].explains),
            _default(getattr(LearnerSettings(), name)),
            None,
        ]
        for name in LearnerSettings.__struct_fields__
    ]


def _default(value: object) -> str:
    if isinstance(value, Priors):
        return ", ".join(
            f"{name} Beta({prior.alpha:g}, {prior.beta:g})"
            for name, prior in msgspec.structs.asdict(value).items()
        )
    plain = msgspec.json.encode(value).decode()
    return "none" if plain in {"{}", "[]"} else _code(plain)


def _errors() -> Rows:
    codes = {kind.code: _status(kind) for kind in _kinds(errors.ArmscopeError)} | _OTHER_CODES
    return [[_code(code), status, None, None] for code, status in sorted(codes.items())]


def _kinds(kind: type[errors.ArmscopeError]) -> Iterator[type[errors.ArmscopeError]]:
    for inner in kind.__subclasses__():
        yield inner
        yield from _kinds(inner)


def _status(kind: type[errors.ArmscopeError]) -> str:
    return str(status_of(kind.__new__(kind)))


def _routes() -> Rows:
    described = api.openapi()["paths"]
    rows = []
    for route in serving.ROUTES:
        if route.path in described:
            for method in route.methods:
                words = described[route.path][method.lower()]["summary"]
                rows.append([_code(f"{method} {route.path}"), route.action, _escaped(words.rstrip("."))])
    return rows


def _doors() -> Rows:
    described = api.openapi()["paths"]
    return [
        [_code(f"{' '.join(route.methods).replace('*', 'any')} {route.path}"), route.action, None]
        for route in serving.ROUTES
        if route.path not in described
    ]


def _views() -> Rows:
    return [[_code(f"{view.name}.{one.name}"), one.type, one.words] for view in VIEWS for one in view.columns]


def _metrics() -> Rows:
    labelled = (metrics.REQUESTS, metrics.IN_PROGRESS)
    labels: dict[str, Sequence[str]] = {one._name: one._labelnames for one in labelled}
    return sorted(
        [
            _code(f"{one.name}{'_total' if one.type == 'counter' else ''}"),
            one.type,
            ", ".join(labels.get(one.name, getattr(one, "_labelnames", ()))) or "none",
            _escaped(one.documentation.rstrip(".")),
        ]
        for one in metrics.families()
    )


def _ways() -> Rows:
    return [
        [
            one.agent,
            one.what,
            ", ".join(one.states) or "not at all",
            _code(one.setting) if one.setting else "none",
            f"[{_escaped(one.sentence)}]({one.address})" if one.setting else "none",
        ]
        for one in WAYS
    ]


TABLES: Final[dict[str, tuple[list[str], Callable[[], Rows]]]] = {
    "verbs": (["verb", "effect"], _verbs),
    "tools": (["tool", "right", "description"], _tools),
    "variables": (["variable", "meaning", "default"], _variables),
    "formats": (["format", "units", "source", "inventory of a run"], _formats),
    "settings": (["setting", "meaning", "default", "when to change"], _settings),
    "errors": (["code", "HTTP", "meaning", "next step"], _errors),
    "routes": (["route", "right", "effect"], _routes),
    "metrics": (["metric", "type", "labels", "meaning"], _metrics),
    "doors": (["route", "right", "purpose"], _doors),
    "views": (["column", "type", "meaning"], _views),
    "ways": (["agent", "part", "can go", "setting", "documentation"], _ways),
}
"""Heads and rows of each table, by name."""


if __name__ == "__main__":
    main()
