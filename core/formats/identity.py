"""Ids as files write them → ids that may stand in ours."""

from __future__ import annotations

import hashlib
from typing import Final

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
    return digest_of(identity.encode())


def digest_of(content: bytes) -> str:
    """Half of the content's SHA-256, as text."""
    return hashlib.sha256(content).hexdigest()[:32]
