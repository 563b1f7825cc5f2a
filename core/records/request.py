"""Request: what a caller asks for under an idempotency key, as the digest that tells it from every other."""

from __future__ import annotations

from hashlib import blake2b

import msgspec


def digest(said: object) -> int:
    """Signed 64 bits that stand for what a caller said.

    >>> digest(("note", "tool:fs:Read", "slow")) == digest(["note", "tool:fs:Read", "slow"])
    True
    """
    return int.from_bytes(blake2b(msgspec.json.encode(said), digest_size=8).digest(), "big", signed=True)
