"""Environment → one frozen Settings: where the data are and who is asking. The only reader of os.environ."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import platformdirs

from core.errors import InvalidSetting
from core.records.actor import Actor

DEFAULT_LEARNER = "default"
_SQLITE = "sqlite:///"
_SERVERS: Final = ("postgresql://", "postgres://", "postgresql+psycopg://")


_PLACES: Final = frozenset(("host", "port", "target_session_attrs"))
"""What of a server's address says where it is."""


class Server(msgspec.Struct, frozen=True):
    """A database that a PostgreSQL server keeps, by an address that may hold a password: whoever is shown it sees
    none.

    >>> Server("postgresql://mara:secret@db.example/armscope?password=secret")
    postgresql://mara@db.example/armscope
    >>> Server("postgresql:///armscope?host=/run/postgresql&password=secret")
    postgresql:///armscope?host=/run/postgresql
    """

    url: str

    def __str__(self) -> str:
        """Whose, where and which, so that it can be named again: of what stands behind the question mark only the
        place of the server, and no password.
        """
        parts = urlsplit(self.url)
        who, at, where = parts.netloc.rpartition("@")
        told = [(name, value) for name, value in parse_qsl(parts.query) if name in _PLACES]
        asked = f"?{urlencode(told, safe='/,')}" if told else ""
        return f"postgresql://{who.partition(':')[0]}{at}{where}{parts.path}{asked}"

    __repr__ = __str__

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("url", str(self))]

    @property
    def name(self) -> str:
        """Which of the server's databases."""
        return urlsplit(self.url).path.removeprefix("/") or str(self)

    @property
    def short(self) -> str:
        """Which database, and on which machines.

        >>> Server("postgresql://mara@a:5433,b/armscope?target_session_attrs=read-write").short
        'armscope on a, b'
        >>> Server("postgresql:///armscope?host=/run/postgresql").short
        'armscope on this machine'
        """
        parts = urlsplit(self.url)
        hosts = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
        named = [re.sub(r":\d+$", "", host) for host in hosts.split(",")]
        machines = dict.fromkeys("this machine" if host[:1] in {"", "/"} else host for host in named)
        return f"{self.name} on {', '.join(machines)}"


Located: TypeAlias = Path | Server
"""Where a database is; as a text it is a name that may be shown."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Which database, which learner (None = nobody named one), which person.

    ``database`` is the path of an SQLite file, or a PostgreSQL server's database; `from_environment` fills what
    the caller leaves out (None) from ``ARMSCOPE_DATABASE`` and ``ARMSCOPE_LEARNER``, and the database then from its
    default. ``read_database`` is a standby of that server, which pages are read from (``ARMSCOPE_READ_DATABASE``). An
    empty variable counts as unset; an empty name that the caller gives is an error, never a silent
    default.

    >>> Settings.from_environment({}, database="sqlite:///runs.db").database
    PosixPath('runs.db')
    """

    database: Located
    read_database: Located | None = None
    learner: str | None = None
    actor: Actor

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] = os.environ,
        *,
        database: str | None = None,
        read_database: str | None = None,
        learner: str | None = None,
    ) -> Settings:
        named = (environment.get("ARMSCOPE_LEARNER") or None) if learner is None else learner
        read = environment.get("ARMSCOPE_READ_DATABASE") if read_database is None else read_database
        return cls(
            database=database_at(
                (environment.get("ARMSCOPE_DATABASE") or None) if database is None else database
            ),
            read_database=database_at(read) if read else None,
            learner=None if named is None else check_learner(named),
            actor=local_operator(),
        )

    def as_environment(self) -> dict[str, str]:
        """What a child process needs to find the same data."""
        return {
            "ARMSCOPE_DATABASE": _address(self.database),
            "ARMSCOPE_READ_DATABASE": "" if self.read_database is None else _address(self.read_database),
            "ARMSCOPE_LEARNER": self.learner or "",
        }


def _address(place: Located) -> str:
    return place.url if isinstance(place, Server) else str(place)


def default_database() -> Path:
    """The database in the user's data folder."""
    return platformdirs.user_data_path("armscope", appauthor=False) / "armscope.db"


def demo_database() -> Path:
    """The demo's own database, never the default one."""
    return platformdirs.user_data_path("armscope", appauthor=False) / "demo.db"


def database_at(given: str | None) -> Located:
    """Turn a path, an ``sqlite:///`` URL or the URL of a PostgreSQL server into where the database is.

    >>> database_at("sqlite:////data/a.db"), database_at("postgresql://db.example/armscope")
    (PosixPath('/data/a.db'), postgresql://db.example/armscope)
    """
    if given is None:
        return default_database()
    if given.startswith(_SERVERS) and "\0" not in given:
        return Server(f"postgresql://{given.partition('://')[2]}")
    if given.startswith(_SQLITE):
        given = given.removeprefix(_SQLITE)
    elif "://" in given:
        raise InvalidSetting(
            "The database must be a file, an sqlite:/// or a postgresql:// URL, got "
            f"{given.split('://', 1)[0]}://….",
            next_step="Name a file, for example --database ./armscope.db.",
        )
    if not given or "\0" in given:
        raise InvalidSetting(
            "The database must be a file, got an empty name or one with a NUL character.",
            next_step="Name a file, for example --database ./armscope.db.",
        )
    try:
        return Path(given).expanduser()
    except RuntimeError as problem:
        raise InvalidSetting(
            f"The database's folder must exist, got {given[:200]!r}: nobody of that name has a home here.",
            next_step="Name a file, for example --database ./armscope.db.",
        ) from problem


@lru_cache(maxsize=1_000)
def check_learner(name: str) -> str:
    """Return a learner's name if it is 1 to 128 printable characters."""
    if not 1 <= len(name) <= 128 or not name.isprintable():
        raise InvalidSetting(
            f"A learner's name must be 1 to 128 printable characters, got {name[:80]!r}.",
            next_step="Use a short name such as support-agent.",
        )
    return name


def variable(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """A variable of the environment; None where it is not set."""
    return environment.get(name)


def secret(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """A secret that a variable holds, or the file that the variable with ``_FILE`` after its name names; None where
    there is neither, or the file can't be read. White space around it is none of it.

    >>> secret("KEY", {"KEY": " s3cret "})
    's3cret'
    """
    if said := environment.get(name, "").strip():
        return said
    file = environment.get(f"{name}_FILE")
    try:
        return (Path(file).read_text(encoding="utf-8").strip() or None) if file else None
    except (OSError, ValueError):
        return None


def set_variables(values: Mapping[str, str]) -> None:
    """Hand variables to what this process starts, or asks next."""
    os.environ.update(values)


def wants_colours(environment: Mapping[str, str] = os.environ, *, is_terminal: bool) -> bool:
    """Whether what is written may be coloured: on a terminal, unless the variables everybody knows say otherwise.

    >>> wants_colours({"NO_COLOR": "1"}, is_terminal=True), wants_colours({"FORCE_COLOR": "1"}, is_terminal=False)
    (False, True)
    """
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (is_terminal and environment.get("TERM") != "dumb")


def local_operator() -> Actor:
    """The machine's user, who may do everything here."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container user without a passwd entry
        name = f"uid-{os.getuid()}"
    return Actor(name=name)
