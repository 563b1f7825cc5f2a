"""Opening a database: its location → its engine."""

from __future__ import annotations

from importlib.util import find_spec

from core.errors import NotInstalled
from core.settings import Located, Server
from core.store.engine import port, sqlite
from core.store.engine.port import PATIENCE_S


def open_database(
    location: Located, *, lock_timeout_s: float = sqlite.LOCK_TIMEOUT_S, patience_s: float = PATIENCE_S
) -> port.Database:
    """The database at a place, opened or to be made; a server is waited for with ``patience_s``. Raises
    `NotInstalled` where its engine's driver is missing.
    """
    if not isinstance(location, Server):
        return sqlite.Database(location, lock_timeout_s=lock_timeout_s)
    if find_spec("psycopg") is None:
        raise NotInstalled(
            f"{location} is kept by PostgreSQL, whose driver is not installed here.",
            next_step="Install it: pip install 'armscope[postgres]'",
        )
    from core.store.engine import postgres  # noqa: PLC0415 - an extra, and nothing that a file needs

    return postgres.Database(location, lock_timeout_s=lock_timeout_s, patience_s=patience_s)
