"""Edits of values in TOML text, which leave each other character as it is.

Comments, the order of tables, dotted and quoted keys, inline tables, white space and kinds of line ends are kept. The
values of each new text are compared with those that the edit should give. A text that differs is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final, Literal, NamedTuple

from core.errors import InvalidInput, NotApplicable
from core.installed.json_text import Edit, Edited, Span, applied, line_end, same, shown_keys

_BY_HAND: Final = "Edit the file by hand."
_MARK: Final = "\ufeff"
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_NAME: Final = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_KEY: Final = re.compile(rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*+")
_DEEPEST: Final = 200
_LARGEST_BITS: Final = 10_000
_DEEP: Final = re.compile(rf"(?:^|[\[{{,])[ \t]*{_NAME}(?:[ \t]*\.[ \t]*{_NAME}){{{_DEEPEST}}}", re.MULTILINE)
"""A key of more names than levels are allowed. The library's time for one grows with the square of its length."""
_BLANK: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_PIECE: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*+"'
    r"|'[^']*+'"
    r"|[\[\]{},\n]|#[^\n]*+"
    r"|[^\[\]{},\n#\"']++",
    re.DOTALL,
)


class _Table(NamedTuple):
    """A header and its index in the text; the first one is the top of the file, which has none."""

    path: tuple[str, ...]
    is_array: bool
    start: int
    end: int


class _Entry(NamedTuple):
    """A key and its value, from the first character to the one behind the last; the value begins ``at`` an index.

    ``table`` is the index of its table. ``is_inner``: it is in an inline table.
    """

    path: tuple[str, ...]
    table: int
    start: int
    at: int
    end: int
    is_inner: bool


def parsed(text: str) -> dict[str, Any]:
    r"""Return the values of a text.

    >>> parsed("[a]\nb = 1")
    {'a': {'b': 1}}
    """
    if _DEEP.search(text):
        raise _too_deep()
    try:
        values = tomllib.loads(text.removeprefix(_MARK))
    except (ValueError, RecursionError) as problem:
        line = re.search(r"at line (\d+)", str(problem))
        where = f"line {line[1]}" if line else "its end"
        raise InvalidInput(
            f"A settings file must be TOML; {where} is not.", next_step="Correct the line by hand."
        ) from None
    _check_size(values)
    return values


def _check_size(value: object, depth: int = 0) -> None:
    """Refuse values that have no form in JSON: too many levels, or a number of thousands of digits."""
    if depth > _DEEPEST:
        raise _too_deep()
    if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
        raise InvalidInput(f"A number may have {_LARGEST_BITS:,} bits, got more.", next_step=_BY_HAND)
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_size(one, depth + 1)


def _too_deep() -> InvalidInput:
    return InvalidInput(f"A settings file may nest {_DEEPEST} levels, got more.", next_step=_BY_HAND)


def edited(text: str, edits: Sequence[Edit]) -> Edited:
    r"""Return a text with some edits made, one after the other.

    A text that is no TOML is refused; so is another value at a path than the edit allows.

    >>> edited("[a]  # mine\nb = 1\n", [Edit(action="set", keys=("a", "on"), value=False)]).text
    '[a]  # mine\nb = 1\non = false\n'
    """
    parsed(text)
    return applied(text, edits, _changes)


def _changes(text: str, edit: Edit) -> tuple[list[Span], Edit | None]:
    values = parsed(text)
    inverse = _inverse(edit, values)
    if inverse is None:
        return [], None
    make = {"set": _set, "unset": _unset, "add": _added, "remove": _removed}[edit.action]
    changes = make(text, edit)
    after = text
    for change in changes:
        after = f"{after[: change.at]}{change.new}{after[change.at + len(change.old) :]}"
    try:
        is_right = same(_filled(parsed(after)), _filled(_expected(values, edit)))
    except InvalidInput:
        is_right = False
    if not is_right:
        raise NotApplicable(
            f"{shown_keys(edit.keys)} can't be edited in the form that the file gives it.", next_step=_BY_HAND
        )
    return changes, inverse


def _inverse(edit: Edit, values: dict[str, Any]) -> Edit | None:
    """Return the edit that takes another one back; None where there is nothing to do."""
    old = _at(values, edit.keys)
    if edit.action in {"unset", "remove"}:
        is_here = (
            any(same(one, edit.value) for one in old) if isinstance(old, list) else same(old, edit.value)
        )
        action: Literal["set", "add"] = "set" if edit.action == "unset" else "add"
        return Edit(action=action, keys=edit.keys, value=edit.value) if is_here else None
    if edit.action == "add":
        if isinstance(old, list) and any(same(one, edit.value) for one in old):
            return None
        return Edit(action="remove", keys=edit.keys, value=edit.value)
    if old is None:
        return Edit(action="unset", keys=edit.keys, value=edit.value)
    if same(old, edit.value):
        return None
    if not any(same(old, one) for one in edit.over):
        allowed = ", ".join(json.dumps(one) for one in edit.over) or "no value"
        raise NotApplicable(
            f"{shown_keys(edit.keys)} must have {allowed} to be changed, and has something else.",
            next_step=_BY_HAND,
        )
    return Edit(action="set", keys=edit.keys, value=old, over=(edit.value,))


def _at(values: object, keys: Sequence[str]) -> Any:  # noqa: ANN401 - any TOML value
    """Return the value at a path of keys; None where there is none, as TOML has no such value."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


def _expected(values: dict[str, Any], edit: Edit) -> dict[str, Any]:
    result = deepcopy(values)
    box: Any = result
    for key in edit.keys[:-1]:
        box = box.setdefault(key, {}) if isinstance(box, dict) else {}
    key = edit.keys[-1]
    if not isinstance(box, dict):
        return result
    if edit.action == "set":
        box[key] = edit.value
    elif edit.action == "unset":
        del box[key]
    elif edit.action == "add":
        box[key] = [*box.get(key, ()), edit.value]
    else:
        index = next(index for index, one in enumerate(box[key]) if same(one, edit.value))
        del box[key][index]
    return result


def _filled(value: object) -> object:
    """Return a value without empty tables and lists, which an edit or its undo may leave."""
    if not isinstance(value, dict):
        return value
    filled = {key: _filled(one) for key, one in value.items()}
    return {key: one for key, one in filled.items() if one not in ({}, [])}


# Changes


def _set(text: str, edit: Edit) -> list[Span]:
    tables, entries = _outline(text)
    new = _dumped(edit.value)
    own = next((one for one in entries if one.path == edit.keys), None)
    if own is not None:
        return [Span(own.at, text[own.at : own.end], new)]
    box, name = edit.keys[:-1], _dumped_key(edit.keys[-1:])
    inline = next((one for one in entries if one.path == box and text[one.at] == "{"), None)
    if inline is not None:
        ends = [one.end for one in entries if inline.at < one.start < inline.end]
        lead = "," if ends else ""
        return [Span(max(ends, default=inline.at + 1), "", f"{lead} {name} = {new}{'' if ends else ' '}")]
    number = next((n for n, one in enumerate(tables) if one.path == box and not one.is_array and n), None)
    if number is not None:
        rows = [one for one in entries if one.table == number and not one.is_inner]
        start, end = (rows[-1].start, rows[-1].end) if rows else (tables[number].start, tables[number].end)
        return [_line(text, start, end, f"{name} = {new}")]
    dotted = [one for one in entries if one.path[: len(box)] == box and not one.is_inner]
    if dotted and len(tables[dotted[-1].table].path) < len(box):
        last = dotted[-1]
        keys = edit.keys[len(tables[last.table].path) :]
        return [_line(text, last.start, last.end, f"{_dumped_key(keys)} = {new}")]
    return [_appended(text, [f"[{_dumped_key(box)}]", f"{name} = {new}"])]


def _added(text: str, edit: Edit) -> list[Span]:
    """Return the span of a new table in a list of tables, at the end of the file."""
    members = edit.value.items() if isinstance(edit.value, dict) else ()
    lines = [f"{_dumped_key((name,))} = {_dumped(value)}" for name, value in members]
    return [_appended(text, [f"[[{_dumped_key(edit.keys)}]]", *lines])]


def _unset(text: str, edit: Edit) -> list[Span]:
    own = [one for one in _outline(text)[1] if one.path == edit.keys]
    if not own:
        return []
    start, end = own[0].start, own[0].end
    if not own[0].is_inner:
        return _cut(text, [_whole(text, start, end)])
    before = text[:start].rstrip(" \t\r\n")
    if before.endswith(","):
        return _cut(text, [(len(before) - 1, end)])
    behind = end + len(text[end:]) - len(text[end:].lstrip(" \t,"))
    return _cut(text, [(start, behind)])


def _removed(text: str, edit: Edit) -> list[Span]:
    """Return the spans that take out a table of a list of tables, with the empty line before it."""
    tables, entries = _outline(text)
    numbers = [number for number, one in enumerate(tables) if one.is_array and one.path == edit.keys]
    items = _at(parsed(text), edit.keys)
    index = next((index for index, one in enumerate(items) if same(one, edit.value)), -1)
    if len(numbers) != len(items):
        return []
    number = numbers[index]
    head = tables[number]
    rows = [one for one in entries if one.table == number and not one.is_inner]
    start, end = _whole(text, head.start, head.end)
    line = line_end(text)
    if text[:start].endswith(line * 2) and (end == len(text) or text.startswith(line, end)):
        start -= len(line)
    return _cut(text, [(start, end), *(_whole(text, one.start, one.end) for one in rows)])


def _cut(text: str, ranges: Sequence[tuple[int, int]]) -> list[Span]:
    """Return the spans that take out some ranges, from the last to the first; neighbours are one."""
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return [Span(start, text[start:end], "") for start, end in reversed(joined)]


def _whole(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the line of a range; the range itself where a comment is behind it."""
    line = max(text.rfind("\n", 0, start) + 1, text.startswith(_MARK))
    behind = len(text) if "\n" not in text[end:] else text.index("\n", end) + 1
    return (line, behind) if not text[end:behind].strip() else (start, end)


def _line(text: str, start: int, end: int, new: str) -> Span:
    """Return the span of a new line below the one in which a range ends, as far to the right as the range."""
    line = line_end(text)
    first = max(text.rfind("\n", 0, start) + 1, text.startswith(_MARK))
    indent = text[first:start]
    at = text.find("\n", end) + 1
    return Span(at, "", f"{indent}{new}{line}") if at else Span(len(text), "", f"{line}{indent}{new}")


def _appended(text: str, lines: Sequence[str]) -> Span:
    line = line_end(text)
    lead = "" if not text.strip(_MARK) else line if text.endswith("\n") else line * 2
    if text.endswith(line * 2):
        lead = ""
    return Span(len(text), "", f"{lead}{line.join(lines)}{line}")


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _dumped_key(keys: Sequence[str]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else _dumped(key) for key in keys)


# Reading


def _outline(text: str) -> tuple[list[_Table], list[_Entry]]:
    tables, entries = [_Table((), is_array=False, start=0, end=0)], list[_Entry]()
    at = _skipped(text, int(text.startswith(_MARK)))
    while at < len(text):
        if text[at] == "[":
            is_array = text.startswith("[[", at)
            start, end = _key(text, _skipped(text, at + 1 + is_array))
            close = text.index("]", end) + 1 + is_array
            tables.append(_Table(_names(text[start:end]), is_array, at, close))
            at = close
        else:
            at = _entry(text, at, entries, tables[-1].path, len(tables) - 1)
        at = _skipped(text, at)
    return tables, sorted(entries, key=lambda one: one.start)


def _entry(
    text: str, at: int, entries: list[_Entry], above: tuple[str, ...], table: int, *, is_inner: bool = False
) -> int:
    """Read an entry and those of its inline table; return the index behind it."""
    start, end = _key(text, at)
    path = (*above, *_names(text[start:end]))
    value = _skipped(text, text.index("=", end) + 1)
    if text[value] == "{":
        end = _skipped(text, value + 1)
        while text[end] != "}":
            end = _skipped(text, _entry(text, end, entries, path, table, is_inner=True))
            end = _skipped(text, end + 1) if text[end] == "," else end
        end += 1
    else:
        end = _value_end(text, value)
    entries.append(_Entry(path, table, at, value, end, is_inner))
    return end


def _value_end(text: str, at: int) -> int:
    """Return the index behind a value, which begins at an index and is no inline table."""
    depth, end = 0, at
    while (piece := _PIECE.match(text, end)) is not None:
        if depth == 0 and piece[0][0] in "\n#,}]":
            break
        depth += (piece[0] in {"[", "{"}) - (piece[0] in {"]", "}"})
        end = piece.end()
        if depth == 0 and piece[0] == "]":
            break
    return at + len(text[at:end].rstrip(" \t\r"))


def _key(text: str, at: int) -> tuple[int, int]:
    match = _KEY.match(text, at)
    return (at, at) if match is None else match.span()


def _names(raw: str) -> tuple[str, ...]:
    names: list[str] = []
    value: object = tomllib.loads(f"{raw} = 0")
    while isinstance(value, dict):
        ((name, value),) = value.items()
        names.append(name)
    return tuple(names)


def _skipped(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()
