"""Edits of values in JSON text with comments and in JSON5, which leave each other character as it is.

Comments, commas at the end, unknown keys, white space, kinds of line ends and a byte order mark are kept. An object
on the path of an edit that names a key twice is refused: agents differ in which of the two counts. So is one that
includes other files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

import msgspec

from core.errors import InvalidInput, NotApplicable

_INCLUDE: Final = "$include"
_ESCAPE: Final = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|[\n\r\u2028\u2029])|(.))", re.DOTALL
)
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}

_STRING: Final = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'

_ANY_ESCAPE: Final = r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|0(?![0-9])|\r\n|[^1-9ux0])"
_STRING5: Final = (
    rf"\"(?:[^\"\\\r\n]|{_ANY_ESCAPE})*+\"|'(?:[^'\\\r\n]|{_ANY_ESCAPE})*+'"  # strings may have two quotes
)

_COMMENTS_BEHIND: Final = re.compile(
    r"(?:[ \t]*/\*(?:(?!\*/)[^\r\n])*+\*/)*+(?:[ \t]*//[^\r\n]*+)?(?=[ \t]*(?:\r?\n|\Z))"
)
_DEEPEST: Final = 200
JSON5_FILES: Final = frozenset(("openclaw.json",))
"""Names of settings files that are JSON5."""
_CLOSING: Final = {"{": "}", "[": "]"}
_BY_HAND: Final = "Edit the file by hand."


class _Grammar(NamedTuple):
    """Patterns of a form: what is skipped between values, a scalar, and a key."""

    name: str
    skipped: re.Pattern[str]
    scalar: re.Pattern[str]
    key: re.Pattern[str]


_JSON: Final = _Grammar(
    "JSON, with or without comments",
    re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*.*?\*/)*+", re.DOTALL),
    re.compile(
        _STRING + r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.])|(?:true|false|null)\b"
    ),
    re.compile(_STRING),
)
_JSON5: Final = _Grammar(
    "JSON5",
    re.compile(
        r"(?:[\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]++"
        r"|//[^\r\n\u2028\u2029]*+|/\*.*?\*/)*+",
        re.DOTALL,
    ),
    re.compile(
        _STRING5 + r"|[+-]?(?:0[xX][0-9a-fA-F]++|Infinity|NaN|(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)"
        r"(?:[eE][+-]?[0-9]++)?)(?![\w.$])|(?:true|false|null)(?![\w$])"
    ),
    re.compile(_STRING5 + r"|(?:[^\W\d]|\$)[\w$\u200c\u200d]*+"),
)


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """One change at a path of keys.

    ``set`` gives a key its value and ``unset`` takes it out. ``add`` puts an item at the end of a list, unless it
    is there, and ``remove`` takes it out. ``unset`` and ``remove`` touch nothing but exactly this value. ``over``
    are the values that ``set`` may replace; another one is refused. ``empty`` counts the objects and lists above
    that go, too, where nothing is left in them.
    """

    action: Literal["set", "unset", "add", "remove"]
    keys: tuple[str, ...]
    value: Any
    over: tuple[Any, ...] = ()
    empty: int = 0


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Characters at an index that were replaced by others."""

    at: int
    old: str
    new: str


class Edited(NamedTuple):
    """A text after some edits; its spans in their order; the edits that take them back, in theirs.

    ``skipped`` are edits that found nothing to do: the value is there already, or it is no longer this one.
    """

    text: str
    spans: tuple[Span, ...]
    back: tuple[Edit, ...]
    skipped: tuple[Edit, ...]


@dataclass(slots=True)
class _Node:
    """A value in a text, from its first character to the one behind its last."""

    start: int
    end: int = 0
    scalar: Any = None
    kind: str = ""
    parts: list[_Part] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """A member of an object, or an item of a list; ``comma`` is the index of the comma behind it."""

    start: int
    node: _Node
    name: str | None = None
    comma: int | None = None


Changes = Callable[[str, Edit], tuple[list[Span], Edit | None]]
"""The spans of an edit of a text, and its inverse, which is None where there is nothing to do."""


def edited(text: str, edits: Sequence[Edit], *, is_json5: bool = False) -> Edited:
    """Return a text with some edits made, one after the other.

    A text that is no JSON object, or names a key on a path twice, is refused; so is another value at a path than
    the edit allows.

    >>> edited('{"a": 1} // mine', [Edit(action="set", keys=("b", "c"), value=True)]).text
    '{"a": 1, "b": {"c": true}} // mine'
    """
    result = applied(text, edits, lambda now, edit: _changes(now, edit, _JSON5 if is_json5 else _JSON))
    parsed(result.text, is_json5=is_json5)
    return result


def applied(text: str, edits: Sequence[Edit], changes_of: Changes) -> Edited:
    """Return a text with the changes of some edits, one after the other."""
    spans: list[Span] = []
    back: list[Edit] = []
    skipped: list[Edit] = []
    for edit in edits:
        changes, inverse = changes_of(text, edit)
        if inverse is None:
            skipped.append(edit)
            continue
        for change in changes:
            text = f"{text[: change.at]}{change.new}{text[change.at + len(change.old) :]}"
        spans.extend(changes)
        back.insert(0, inverse)
    return Edited(text, tuple(spans), tuple(back), tuple(skipped))


def reverted(text: str, spans: Sequence[Span]) -> str:
    """Return the text before some spans were replaced."""
    for span in reversed(spans):
        if text[span.at : span.at + len(span.new)] != span.new:
            raise NotApplicable("The text is not the one that was edited.", next_step=_BY_HAND)
        text = f"{text[: span.at]}{span.old}{text[span.at + len(span.new) :]}"
    return text


def parsed(text: str, *, is_json5: bool = False) -> dict[str, Any]:
    """Return the values of a text; an empty text is an empty object.

    >>> parsed('{"a": [1, 2,], /* b */}')
    {'a': [1, 2]}
    >>> parsed("{a: +.5, 'b': 0xff}", is_json5=True)
    {'a': 0.5, 'b': 255}
    """
    root = _root(text, _JSON5 if is_json5 else _JSON)
    return {} if root is None else _plain(root)


def same(one: object, other: object) -> bool:
    """Return whether two values are the same JSON: true is not 1."""
    return canonical(one) == canonical(other)


def canonical(value: object) -> str:
    """Return a value as JSON with sorted keys; a time of TOML is a text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


# Changes


def _changes(text: str, edit: Edit, grammar: _Grammar) -> tuple[list[Span], Edit | None]:
    root = _root(text, grammar)
    if root is None:
        if edit.action in {"unset", "remove"}:
            return [], None
        at = len(text)
        lead = "" if not text or text.endswith(("\n", "\ufeff")) else line_end(text)
        new = f"{lead}{_dumped(_nested(edit, 0), '', line_end(text))}{line_end(text)}"
        return [Span(at, "", new)], _inverse(edit, len(edit.keys) - (edit.action == "set"))
    chain = _chain(root, edit)
    return (_put if edit.action in {"set", "add"} else _taken)(text, edit, chain)


def _put(text: str, edit: Edit, chain: Sequence[_Node]) -> tuple[list[Span], Edit | None]:
    present = chain[-1]
    depth = len(chain) - 1
    if depth < len(edit.keys):
        n_new = len(edit.keys) - depth - (edit.action == "set")
        inserted = _inserted(text, chain, edit.keys[depth], _nested(edit, depth + 1))
        return inserted, _inverse(edit, n_new)
    if edit.action == "add":
        if any(same(_plain(part.node), edit.value) for part in present.parts):
            return [], None
        return _inserted(text, chain, None, edit.value), _inverse(edit, 0)
    old = _plain(present)
    if same(old, edit.value):
        return [], None
    if not any(same(old, one) for one in edit.over):
        allowed = ", ".join(json.dumps(one) for one in edit.over) or "no value"
        raise NotApplicable(
            f"{shown_keys(edit.keys)} must have {allowed} to be changed, and has something else.",
            next_step=_BY_HAND,
        )
    span = Span(present.start, text[present.start : present.end], json.dumps(edit.value, ensure_ascii=False))
    return [span], Edit(action="set", keys=edit.keys, value=old, over=(edit.value,))


def _taken(text: str, edit: Edit, chain: Sequence[_Node]) -> tuple[list[Span], Edit | None]:
    if len(chain) <= len(edit.keys):
        return [], None
    if edit.action == "remove":
        gone = next(
            (index for index, one in enumerate(chain[-1].parts) if same(_plain(one.node), edit.value)), -1
        )
        level = len(chain) - 1
    else:
        gone = _index(chain[-2], edit.keys[-1]) if same(_plain(chain[-1]), edit.value) else -1
        level = len(chain) - 2
    if gone < 0:
        return [], None
    # An object that has become empty goes with its own key, and no comment with it.
    for _ in range(edit.empty):
        box = chain[level]
        is_bare = len(box.parts) == 1 and _is_bare(text, box)
        if level == 0 or not is_bare:
            break
        level -= 1
        gone = _index(chain[level], edit.keys[level])
    action: Literal["set", "add"] = "add" if edit.action == "remove" else "set"
    return _cuts(text, chain[level], gone), Edit(action=action, keys=edit.keys, value=edit.value)


def _inverse(edit: Edit, n_new: int) -> Edit:
    action: Literal["unset", "remove"] = "unset" if edit.action == "set" else "remove"
    return Edit(action=action, keys=edit.keys, value=edit.value, empty=n_new)


def _nested(edit: Edit, depth: int) -> object:
    value = [edit.value] if edit.action == "add" else edit.value
    for key in reversed(edit.keys[depth:]):
        value = {key: value}
    return value


def _inserted(text: str, chain: Sequence[_Node], name: str | None, value: object) -> list[Span]:
    """Return the spans that put a new part at the end of the last node of a chain."""
    box = chain[-1]
    newline = line_end(text)
    head = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
    close = box.end - 1
    if not box.parts:
        blank = len(text[box.start + 1 : close]) - len(text[box.start + 1 : close].rstrip(" \t\r\n"))
        lead = text[close - blank : close]
        if "\n" not in text[chain[0].start : chain[0].end] and chain[0].parts:
            return [Span(close, "", f"{head}{_dumped(value, None, newline)}")]
        outer = _indent(text, box.start)
        indent = outer + _unit(text, chain[0])
        new = f"{indent}{head}{_dumped(value, indent, newline, _unit(text, chain[0]))}"
        if "\n" in lead:
            return [Span(close - blank + lead.rindex("\n") + 1, "", f"{new}{newline}")]
        return [Span(close, "", f"{newline}{new}{newline}{outer}")]
    last = box.parts[-1]
    is_trailing = last.comma is not None
    at = last.node.end if last.comma is None else last.comma + 1
    line = _line_start(text, last.start)
    if line is None or text[line : last.start].strip(" \t"):
        is_tight = text[last.start : last.node.start].endswith(":") or (
            len(box.parts) > 1 and text[last.start - 1] == ","
        )
        gap = "" if is_tight else " "
        new = f"{head[:-1] if is_tight and head else head}{_dumped(value, None, newline)}"
        return [Span(at, "", f"{gap}{new}," if is_trailing else f",{gap}{new}")]
    indent = text[line : last.start]
    new = f"{newline}{indent}{head}{_dumped(value, indent, newline, _unit(text, chain[0]))}"
    behind = _COMMENTS_BEHIND.match(text, at)
    where = at if behind is None else behind.end()
    if is_trailing:
        return [Span(where, "", f"{new},")]
    return [Span(at, "", f",{new}")] if where == at else [Span(at, "", ","), Span(where + 1, "", new)]


def _cuts(text: str, box: _Node, index: int) -> list[Span]:
    """Return the spans that take out a part, its comma and its line, from the last to the first."""
    part = box.parts[index]
    before = box.parts[index - 1] if index else None
    cuts = [(part.start, part.node.end)]
    if part.comma is not None:
        cuts.append((part.comma, part.comma + 1))
    elif before is not None and before.comma is not None:
        cuts.insert(0, (before.comma, before.comma + 1))
    joined: list[tuple[int, int]] = []
    for start, end in cuts:
        if joined and not text[joined[-1][1] : start].strip(" \t\r\n"):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    wide = [_widened(text, start, end, has_comma_first=text[start] == ",") for start, end in joined]
    return [Span(start, text[start:end], "") for start, end in reversed(wide)]


def _widened(text: str, start: int, end: int, *, has_comma_first: bool) -> tuple[int, int]:
    """Return a range with the white space around it that belongs to it: its whole line, or the gap behind it."""
    if has_comma_first:
        return start, end
    line = _line_start(text, start)
    behind = end
    while text[behind : behind + 1] in {" ", "\t"}:
        behind += 1
    for newline in ("\r\n", "\n"):
        if text.startswith(newline, behind):
            is_alone = line is not None and not text[line:start].strip(" \t")
            return (line or 0, behind + len(newline)) if is_alone else (start, end)
    return start, end if text[behind : behind + 1] in {"}", "]", "/"} else behind


def _is_bare(text: str, box: _Node) -> bool:
    """Return whether nothing but white space, commas and one part are in an object or a list."""
    part = box.parts[0]
    rest = text[box.start + 1 : part.start] + text[part.node.end : box.end - 1]
    return not rest.strip(" \t\r\n,")


# Layout


def line_end(text: str) -> str:
    """Return the line end of a text: that of its first line."""
    index = text.find("\n")
    return "\r\n" if index > 0 and text[index - 1] == "\r" else "\n"


def _line_start(text: str, at: int) -> int | None:
    index = text.rfind("\n", 0, at)
    return None if index < 0 else index + 1


def _indent(text: str, at: int) -> str:
    line = text[_line_start(text, at) or 0 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str, root: _Node) -> str:
    """Return the white space of one level: that before the first key of the text."""
    if root.parts and _line_start(text, root.parts[0].start) not in {None, _line_start(text, root.start)}:
        return _indent(text, root.parts[0].start) or "  "
    return "  "


def _dumped(value: object, indent: str | None, newline: str, unit: str = "  ") -> str:
    """Return a value as JSON; with an indent, objects have a line for each key."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", f"{newline}{indent}")


def shown_keys(keys: Sequence[str]) -> str:
    """Return a path of keys in words.

    >>> shown_keys(("skillOverrides", "pdf")), shown_keys(("enabledPlugins", "a.b"))
    ('skillOverrides.pdf', 'enabledPlugins."a.b"')
    """
    return ".".join(key if re.fullmatch(r"[\w@:-]+", key) else json.dumps(key) for key in keys)


# Reading


def _root(text: str, grammar: _Grammar) -> _Node | None:
    """Return the object of a text; None for a text without any value."""
    at = _skipped(text, 1 if text.startswith("\ufeff") else 0, grammar)
    if at == len(text):
        return None
    if text[at] != "{":
        raise InvalidInput("A settings file must hold a JSON object, got another value.", next_step=_BY_HAND)
    root = _node(text, at, 0, grammar)
    end = _skipped(text, root.end, grammar)
    if end != len(text):
        raise _broken(text, end, grammar)
    return root


def _node(text: str, at: int, depth: int, grammar: _Grammar) -> _Node:
    if text[at : at + 1] not in _CLOSING:
        match = grammar.scalar.match(text, at)
        if match is None:
            raise _broken(text, at, grammar)
        return _Node(at, match.end(), _scalar(text, match, grammar))
    if depth == _DEEPEST:
        raise InvalidInput(f"A settings file may nest {_DEEPEST} levels, got more.", next_step=_BY_HAND)
    node = _Node(at, kind=text[at])
    at = _skipped(text, at + 1, grammar)
    while text[at : at + 1] != _CLOSING[node.kind]:
        if node.parts and node.parts[-1].comma is None:
            raise _broken(text, at, grammar)
        part = _part(text, at, node.kind, depth, grammar)
        node.parts.append(part)
        at = _skipped(text, part.node.end, grammar)
        if text[at : at + 1] == ",":
            part.comma = at
            at = _skipped(text, at + 1, grammar)
    node.end = at + 1
    return node


def _part(text: str, at: int, kind: str, depth: int, grammar: _Grammar) -> _Part:
    if kind == "[":
        return _Part(at, _node(text, at, depth + 1, grammar))
    match = grammar.key.match(text, at)
    colon = -1 if match is None else _skipped(text, match.end(), grammar)
    if match is None or text[colon : colon + 1] != ":":
        raise _broken(text, at, grammar)
    name = _string(match[0]) if match[0][0] in "\"'" else match[0]
    return _Part(at, _node(text, _skipped(text, colon + 1, grammar), depth + 1, grammar), name)


def _scalar(text: str, match: re.Match[str], grammar: _Grammar) -> object:
    raw = match[0]
    if raw[0] in "\"'":
        return _string(raw)
    try:
        if grammar is _JSON or raw in {"true", "false", "null"}:
            return json.loads(raw)
        if "x" in raw.lower():
            number = int(raw, 16)
            json.dumps(number)  # a number of thousands of digits has no form in JSON
            return number
        is_whole = raw.lstrip("+-").isdigit()
        return int(raw) if is_whole else float(raw.replace("Infinity", "inf"))
    except ValueError:  # a number of thousands of digits
        raise _broken(text, match.start(), grammar) from None


def _string(raw: str) -> str:
    if raw[0] == '"':
        with suppress(ValueError):
            return str(json.loads(raw))
    plain = _ESCAPE.sub(_unescaped, raw[1:-1])
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is not None:
        return chr(int(code, 16))
    return "" if match[3] is not None else _ESCAPED.get(match[4], match[4])


def _skipped(text: str, at: int, grammar: _Grammar) -> int:
    match = grammar.skipped.match(text, at)
    return at if match is None else match.end()


def _broken(text: str, at: int, grammar: _Grammar) -> InvalidInput:
    line = text.count("\n", 0, at) + 1
    return InvalidInput(
        f"A settings file must be {grammar.name}; line {line} is not.",
        next_step="Correct the line by hand.",
    )


def _plain(node: _Node) -> Any:  # noqa: ANN401 - any JSON value
    if node.kind == "{":
        return {part.name: _plain(part.node) for part in node.parts}
    return [_plain(part.node) for part in node.parts] if node.kind == "[" else node.scalar


def _index(box: _Node, name: str) -> int:
    return next((index for index, part in enumerate(box.parts) if part.name == name), -1)


def _chain(root: _Node, edit: Edit) -> list[_Node]:
    """Return the nodes along the path of an edit, as far as they exist."""
    chain = [root]
    for depth, key in enumerate(edit.keys):
        box = chain[-1]
        _check_kind(box, "{", edit.keys[:depth])
        names = Counter(part.name for part in box.parts)
        if twice := [name for name, n in names.items() if n > 1]:
            raise InvalidInput(
                f"Each key must be in an object once, got {', '.join(map(json.dumps, twice))} twice.",
                next_step="Take one of the two out by hand.",
            )
        if _INCLUDE in names:
            raise NotApplicable(
                f"{shown_keys(edit.keys)} must be in one file to be edited, and {_INCLUDE} names others.",
                next_step=_BY_HAND,
            )
        index = _index(box, key)
        if index < 0:
            return chain
        chain.append(box.parts[index].node)
    if edit.action in {"add", "remove"}:
        _check_kind(chain[-1], "[", edit.keys)
    return chain


def _check_kind(node: _Node, kind: str, keys: Sequence[str]) -> None:
    if node.kind != kind:
        what = "an object" if kind == "{" else "a list"
        raise NotApplicable(
            f"{shown_keys(keys)} must be {what} to be edited, and is not.", next_step=_BY_HAND
        )
