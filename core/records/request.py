"""Request digests: the identity of a request under an idempotency key."""

from __future__ import annotations

from hashlib import blake2b

import msgspec


def digest(request: object) -> int:
    """Return a signed 64-bit digest of a request.

    >>> digest(("note", "tool:fs:Read", "slow")) == digest(["note", "tool:fs:Read", "slow"])
    True
    """
    return int.from_bytes(blake2b(msgspec.json.encode(request), digest_size=8).digest(), "big", signed=True)
