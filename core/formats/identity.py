"""Ids as files write them → ids that may stand in ours."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

_MAX_ID_CHARS: Final = 200


def plain(identity: str | None) -> str | None:
    """An id of the file, or its hash where it could not stand in ours; None = the file has none.

    >>> plain("s-1"), plain(""), len(plain("x" * 900) or "")
    ('s-1', None, 32)
    """
    if not identity:
        return None
    if len(identity) <= _MAX_ID_CHARS and identity.isprintable():
        return identity
    return digest_of(identity.encode(errors="surrogatepass"))


def named(value: object) -> str | None:
    """What a file calls something, by a text or a number, raw or read, as `plain` has it; None = it has no name.

    >>> named(7), named("t1"), named(msgspec.Raw(b'"t1"')), named(msgspec.Raw(b"null")), named(True)
    ('7', 't1', 't1', None, None)
    """
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return plain(str(value))


def digest_of(content: bytes) -> str:
    """Half of the content's SHA-256, as text."""
    return hashlib.sha256(content).hexdigest()[:32]
