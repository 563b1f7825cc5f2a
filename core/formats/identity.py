"""Ids of files → ids that are valid here."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

_MAX_ID_CHARS: Final = 200


def plain(identity: str | None) -> str | None:
    """Return an id of the file, or its hash where it is invalid here; None = the file has none.

    >>> plain("s-1"), plain(""), len(plain("x" * 900) or "")
    ('s-1', None, 32)
    """
    if not identity:
        return None
    if len(identity) <= _MAX_ID_CHARS and identity.isprintable():
        return identity
    return digest_of(identity.encode(errors="surrogatepass"))


def named(value: object) -> str | None:
    """Return a file's name for something, a text or number, raw or read, as `plain` returns it; None without one."""
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return plain(str(value))


def digest_of(content: bytes) -> str:
    """Half of the content's SHA-256, as text."""
    return hashlib.sha256(content).hexdigest()[:32]
