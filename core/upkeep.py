"""Upkeep: when a database was last backed up and verified, and what a check found, in the folder of the spools.

A backup leaves no trace in its database, and a check must change nothing in it. So the times are a small file of the
user. A failure to write it is no failure of the backup.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

import msgspec

from core.records.counts import number_of
from core.records.times import iso
from core.settings import Located, spool_folder

Upkeep = Literal["backup", "verify"]
_Noted = Literal["backup", "verify", "damage", "differences"]
_FOLDER: Final = "upkeep"


def note_upkeep(location: Located, kind: Upkeep, at_ms: int) -> None:
    """Store the time of a successful backup or check. A check without a difference ends known damage."""
    noted: dict[_Noted, int] = {**_read(location), kind: at_ms}
    if kind == "verify":
        noted.pop("damage", None)
    _write(location, noted)


def note_damage(location: Located, n_differences: int, at_ms: int) -> None:
    """Store that a check found differences."""
    _write(location, {**_read(location), "damage": at_ms, "differences": n_differences})


def upkeep_of(location: Located) -> dict[Upkeep, int]:
    """Return the times of the last successful ones in UTC milliseconds, as far as this machine knows."""
    noted = _read(location)
    kinds: tuple[Upkeep, ...] = ("backup", "verify")
    return {kind: noted[kind] for kind in kinds if kind in noted}


def known_damage(location: Located) -> str | None:
    """Return the damage that the last check found, in words; None without any, as far as this machine knows."""
    noted = _read(location)
    if "damage" not in noted:
        return None
    return f"{number_of(noted.get('differences', 0), 'difference')}, found at {iso(noted['damage'])}"


def _read(location: Located) -> dict[_Noted, int]:
    try:
        return msgspec.json.decode(_file(location).read_bytes(), type=dict[_Noted, int])
    except (OSError, msgspec.DecodeError):
        return {}


def _write(location: Located, noted: dict[_Noted, int]) -> None:
    path = _file(location)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(msgspec.json.encode(noted))
        partial.replace(path)


def _file(location: Located) -> Path:
    address = os.path.realpath(location) if isinstance(location, Path) else str(location)
    return spool_folder() / _FOLDER / f"{blake2b(address.encode(), digest_size=12).hexdigest()}.json"
