"""Words for JSON that does not have the type of its record, from the messages of msgspec."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from core.records.limits import shown

_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
"""Words by the types of JSON. ``null`` has no other."""
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`(.*)")
_LIMIT: Final = re.compile(r" (of length )?([<>]=) (\S+)")
_LENGTH: Final = re.compile(r" of length (\d+)")
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `([^`]*)`")
_AT: Final = re.compile(r" - at `\$?([^`]*)`$")
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNKNOWN: Final = object()


def misfit(problem: msgspec.ValidationError, document: object = _UNKNOWN) -> str:
    """Return what is wrong with a document: the field, what it must be, and its value if the document is passed.

    >>> kind = msgspec.defstruct("Kind", [("days", int | None, None)], forbid_unknown_fields=True)
    >>> def words(document):
    ...     try:
    ...         msgspec.convert(document, kind)
    ...     except msgspec.ValidationError as problem:
    ...         return misfit(problem, document)
    >>> print(words({"days": "many"}), words({"day": 1}), words([]), sep=". ")
    days must be a whole number or null, got 'many'. it has an unknown field 'day'. it must be an object, got []
    """
    message = str(problem)
    at = _AT.search(message)
    path = "" if at is None else at[1]
    name = path.removeprefix(".").replace("[...]", "[…]") or "it"
    message = message if at is None else message[: at.start()]
    value = _value(document, path)
    if field := _FIELD.match(message):
        return f"{name} {'lacks the' if 'missing' in field[1] else 'has an unknown'} field {shown(field[2])}"
    if expected := _EXPECTED.match(message):
        actual = re.search(", got `(\\w+)`", expected[2])
        got = shown(value) if value is not _UNKNOWN else _words(actual[1]) if actual else ""
        return f"{name} must be {_allowed(expected[1], expected[2])}{got and f', got {got}'}"
    if "enum value" in message or message.startswith("Invalid value"):
        return f"{name} must be one of the allowed values, got {message.rpartition('value ')[2]}"
    return f"{name} has another form ({message})"


def _value(document: object, path: str) -> object:
    """Return the part of a document at a path; unknown where the path has no full one."""
    if not re.fullmatch(f"({_STEP.pattern})*", path):
        return _UNKNOWN
    for key, index in _STEP.findall(path):
        if isinstance(document, dict) and key in document:
            document = document[key]
        elif isinstance(document, list | tuple) and index and int(index) < len(document):
            document = document[int(index)]
        else:
            return _UNKNOWN
    return document


def _allowed(types: str, limits: str) -> str:
    words = _words(types)
    if limit := _LIMIT.match(limits):
        measure = " characters" if types.startswith("str") else " items" if limit[1] else ""
        bound = f"{'at least' if limit[2] == '>=' else 'at most'} {float(limit[3]):,.15g}{measure}"
        return f"{words} of {bound}"
    if length := _LENGTH.match(limits):
        return f"{words} of {length[1]} items"
    return f"{words}{limits}" if limits and not limits.startswith(", got") else words


def _words(types: str) -> str:
    return " or ".join(_TYPES.get(one, one) for one in types.split(" | "))
