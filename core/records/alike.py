"""Alike: a record made of the fields that another record has under the same names."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

_Record = TypeVar("_Record")


def alike(kind: type[_Record], source: object, /, **others: object) -> _Record:
    """Return a record with the fields of ``source`` that have its names, and with ``others``, which go first.

    >>> from core.records.run import Call
    >>> alike(Call, Call(name="search", metadata="{}"), metadata="")
    Call(name='search', metadata='')
    """
    kinds: tuple[Any, Any] = kind, type(source)
    shared = {name: getattr(source, name) for name in _shared(*kinds) if name not in others}
    return kind(**shared, **others)


@cache
def _shared(kind: type, of: type) -> tuple[str, ...]:
    own = getattr(of, "__dataclass_fields__", ())
    return tuple(name for name in _fields(kind) if name in own or hasattr(of, name))


def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a struct, a dataclass or a named tuple."""
    for names in ("__struct_fields__", "__dataclass_fields__", "_fields"):
        if hasattr(kind, names):
            return tuple(getattr(kind, names))
    raise TypeError(kind)
