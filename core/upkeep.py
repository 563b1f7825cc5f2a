"""Upkeep: when a database was last backed up and verified, kept in the folder of this machine's spools.

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

from core.settings import Located, spool_folder

Upkeep = Literal["backup", "verify"]
_FOLDER: Final = "upkeep"


def note_upkeep(location: Located, kind: Upkeep, at_ms: int) -> None:
    """Store the time of a successful backup or check."""
    path = _file(location)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_bytes(msgspec.json.encode({**upkeep_of(location), kind: at_ms}))
        partial.replace(path)


def upkeep_of(location: Located) -> dict[Upkeep, int]:
    """Return the times of the last successful ones in UTC milliseconds, as far as this machine knows."""
    try:
        return msgspec.json.decode(_file(location).read_bytes(), type=dict[Upkeep, int])
    except (OSError, msgspec.DecodeError):
        return {}


def _file(location: Located) -> Path:
    address = os.path.realpath(location) if isinstance(location, Path) else str(location)
    return spool_folder() / _FOLDER / f"{blake2b(address.encode(), digest_size=12).hexdigest()}.json"
