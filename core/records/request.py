"""Request digests: the identity of a request under an idempotency key."""

from __future__ import annotations

from hashlib import blake2b

import msgspec


def digest(said: object) -> int:
    """Return a signed 64-bit digest of a request.

    >>> digest(("note", "tool:fs:Read", "slow")) == digest(["note", "tool:fs:Read", "slow"])
    True
    """
    return int.from_bytes(blake2b(msgspec.json.encode(said), digest_size=8).digest(), "big", signed=True)
