"""Which ids are an arm's, said again from the rules and not by asking the code under test."""

from __future__ import annotations

from typing import Final

_TYPES: Final = ("tool", "skill", "file", "memory", "section")


def is_arm_id(key: str) -> bool:
    """``type:category:name``, each part there, of a known type, 1 to 512 characters, none for control."""
    parts = key.split(":", 2)
    return (
        len(parts) == 3
        and parts[0] in _TYPES
        and all(parts)
        and len(key) <= 512
        and not any(map(is_no_character, key))
    )


def is_no_character(char: str) -> bool:
    """A control character, or half of a pair."""
    point = ord(char)
    is_control = point < 0x20 or 0x7F <= point < 0xA0
    return is_control or 0xD800 <= point < 0xE000
