"""Line checks: the base of lines of our own export, and the checks that all of them make."""

from __future__ import annotations

from typing import Final

import msgspec

from core.errors import InvalidInput
from core.records.limits import MAX_COUNT, Count, Millis, storable

MAX_ID_CHARS: Final = 200


class KindLine(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="kind",
):
    """A line that names its kind; fields with their defaults are left out."""


class FactOfLine(KindLine, frozen=True, kw_only=True):
    """End of a line of what people did: by whom and when, the revision that recorded it, and whether it is undone."""

    by: str | None = None
    at_ms: Millis | None = None
    revision: Count | None = None
    undone: bool = False


class KeyedLine(KindLine, frozen=True, kw_only=True):
    """End of such a line whose request may have had a key."""

    by: str | None = None
    at_ms: Millis | None = None
    revision: Count | None = None
    key: str | None = None
    undone: bool = False


def check_storable(**texts: str | None) -> None:
    """Refuse texts that other programs can't keep; None = there is none."""
    for name, value in texts.items():
        if value is not None:
            storable(name, value)


def check_id(text: str) -> None:
    """Refuse an id that is empty or long."""
    if not 1 <= len(text) <= MAX_ID_CHARS:
        raise InvalidInput(
            f"An id must have 1 to {MAX_ID_CHARS} characters, got {len(text):,}.",
            next_step="Give the line a short unique one.",
        )
    storable("An id", text)


def check_number(name: str, value: int, lowest: int = 0) -> None:
    """Refuse a whole number that no column should hold."""
    if not lowest <= value <= MAX_COUNT:
        raise InvalidInput(
            f"{name} must be a whole number from {lowest} to 10^15, got {value}.",
            next_step="Correct the number in the line, for example to 10.",
        )
