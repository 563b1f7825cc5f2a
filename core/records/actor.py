"""Actor: who does something, and in which role."""

from __future__ import annotations

from typing import Literal

import msgspec

from core.records.limits import kept

Role = Literal["viewer", "reviewer", "operator", "ingest", "read"]


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """A person or token; locally the machine's user in the role of operator."""

    name: str
    role: Role = "operator"

    def __post_init__(self) -> None:
        kept("An actor's name", self.name)
