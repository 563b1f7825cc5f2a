"""Environment → one frozen Settings: where the data are and who is asking. The only reader of os.environ."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import platformdirs

from core.errors import InvalidSetting
from core.records.actor import Actor

DEFAULT_LEARNER = "default"
_SQLITE = "sqlite:///"


_MAX_LIMIT_S: Final = 86_400
_LOCATION_KEYS: Final = frozenset(("host", "port", "target_session_attrs"))
"""Members of a server's address that name its location."""


_VALUE: Final = r"(?:[^\s/?#@:%,\[\]]|%[0-9A-Fa-f]{2})"
_HOST: Final = rf"(?:{_VALUE}+|\[[0-9A-Fa-f:.]+\])?(?::\d+)?"
_OPTION: Final = r"[a-z_]+=(?:[^\s&#@%]|%[0-9A-Fa-f]{2})*"
_ADDRESS: Final = re.compile(
    rf"postgresql://(?:{_VALUE}*(?::(?:{_VALUE}|[:,])*)?@)?{_HOST}(?:,{_HOST})*(?:/{_VALUE}*)?"
    rf"(?:\?(?:{_OPTION}(?:&{_OPTION})*)?)?"
)
"""Address in which every part is certain: a character that ends a part is percent-encoded inside one."""
NO_ADDRESS: Final = "a PostgreSQL address that can't be read"
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
BASE_PATH: Final = "ARMSCOPE_BASE_PATH"
_BASE_PATH: Final = re.compile(r"(?:/[A-Za-z0-9][A-Za-z0-9._~-]*)+")
_MAX_BASE_PATH: Final = 200

UNREADABLE_ADDRESS: Final = (
    "The address of the database can't be read. In a user, a password and a name, spaces and the characters "
    "/ @ : ? # % [ ] must be percent-encoded.",
    "Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %2F for /, %40 for @, %3A for :, %3F for ?, "
    "%23 for # and %25 for %. Or leave the password out, and set PGPASSWORD.",
)
"""Problem and next step; they show nothing of the address."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}")
_WITH_PASSWORD: Final = re.compile(
    r"postgres(?:ql)?(?:\+psycopg)?:|[^/\s]*:[^/\s]*@[^/\s]+/|.*\bpassword\s*=", re.IGNORECASE | re.DOTALL
)
"""Address of a server without its scheme, which would pass for a path and be shown."""


class Server(msgspec.Struct, frozen=True):
    """A database on a PostgreSQL server, by an address that may hold a password. No text of it shows the password.

    An address that can't be read is shown in no part, because any of its parts may be the password's.

    >>> Server("postgresql://mara:secret@db.example/armscope?password=secret")
    postgresql://mara@db.example/armscope
    >>> Server("postgresql:///armscope?host=/run/postgresql&password=secret")
    postgresql:///armscope?host=/run/postgresql
    """

    url: str

    def __str__(self) -> str:
        """Return the address with user, host and database, but without a password or other options."""
        if not self.is_readable:
            return NO_ADDRESS
        parts = urlsplit(self.url)
        who, at, where = parts.netloc.rpartition("@")
        query = [(name, value) for name, value in parse_qsl(parts.query) if name in _LOCATION_KEYS]
        options = f"?{urlencode(query, safe='/,')}" if query else ""
        return f"postgresql://{who.partition(':')[0]}{at}{where}{parts.path}{options}"

    __repr__ = __str__

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("url", str(self))]

    @property
    def is_readable(self) -> bool:
        """True if every part of the address is certain.

        >>> Server("postgresql://u:p%40ss@h/db").is_readable, Server("postgresql://u:p@ss@h/db").is_readable
        (True, False)
        """
        return _ADDRESS.fullmatch(self.url) is not None

    @property
    def name(self) -> str:
        """Name of the database on the server."""
        if not self.is_readable:
            return NO_ADDRESS
        return urlsplit(self.url).path.removeprefix("/") or str(self)

    @property
    def short(self) -> str:
        """Name of the database, and its machines.

        >>> Server("postgresql://mara@a:5433,b/armscope?target_session_attrs=read-write").short
        'armscope on a, b'
        >>> Server("postgresql:///armscope?host=/run/postgresql").short
        'armscope on this machine'
        """
        if not self.is_readable:
            return NO_ADDRESS
        parts = urlsplit(self.url)
        hosts = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
        named = [re.sub(r":\d+$", "", host) for host in hosts.split(",")]
        machines = dict.fromkeys("this machine" if host[:1] in {"", "/"} else host for host in named)
        return f"{self.name} on {', '.join(machines)}"


Located: TypeAlias = Path | Server
"""Where a database is; as a text it is a name that may be shown."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Database, learner (None = not named) and person.

    ``database`` is the path of an SQLite file, or a PostgreSQL server's database. `from_environment` fills missing
    values (None) from ``ARMSCOPE_DATABASE`` and ``ARMSCOPE_LEARNER``, and then the database from its default.
    ``read_database`` is a standby of that server for the pages (``ARMSCOPE_READ_DATABASE``). An empty variable counts
    as unset. An empty name from the caller is an error, never a silent default.

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
        """Return the variables by which a child process finds the same data."""
        return {
            "ARMSCOPE_DATABASE": _address(self.database),
            "ARMSCOPE_READ_DATABASE": "" if self.read_database is None else _address(self.read_database),
            "ARMSCOPE_LEARNER": self.learner or "",
        }


def _address(location: Located) -> str:
    return location.url if isinstance(location, Server) else str(location)


def default_database() -> Path:
    """Return the path of the database in the user's data folder."""
    return platformdirs.user_data_path("armscope", appauthor=False) / "armscope.db"


def demo_database() -> Path:
    """Return the path of the demo's own database, never the default one."""
    return platformdirs.user_data_path("armscope", appauthor=False) / "demo.db"


def spool_folder() -> Path:
    """Return the folder of runs that wait to be recorded: ``ARMSCOPE_SPOOL``, or one of the user's."""
    named = variable("ARMSCOPE_SPOOL")
    return Path(named) if named else platformdirs.user_state_path("armscope", appauthor=False) / "spool"


def edits_folder() -> Path:
    """Return the folder of records by which edits of agents' settings are taken back."""
    return platformdirs.user_data_path("armscope", appauthor=False) / "edits"


def launches_folder(database: Located) -> Path:
    """Return the folder of agents that start with a selection of a database."""
    name = str(database if isinstance(database, Server) else database.absolute())
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    return platformdirs.user_state_path("armscope", appauthor=False) / "launches" / digest


def hooks_folder() -> Path:
    """Return the folder of the records of hooks that were installed."""
    return platformdirs.user_data_path("armscope", appauthor=False) / "hooks"


def claude_folder() -> Path:
    """Return the folder of Claude Code's settings and sessions: ``CLAUDE_CONFIG_DIR``, or the usual one."""
    return Path(variable("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")


def seconds(name: str, value: float | None, usual: float) -> float:
    """Return a time limit: the value, else that of the variable ``name``, else the usual one.

    >>> seconds("ARMSCOPE_SELECT_S", 2, 1.0)
    2.0
    """
    given: object = (variable(name) or usual) if value is None else value
    try:
        limit = float(given) if isinstance(given, (str, int, float)) else 0.0
    except ValueError:
        limit = 0.0
    if not 0 < limit <= _MAX_LIMIT_S:
        raise InvalidSetting(
            f"A time limit must be above 0 and at most {_MAX_LIMIT_S:,} seconds, got {str(given)[:80]!r}.",
            next_step=f"Write seconds, for example {usual:g}; the variable {name} has the default.",
        )
    return limit


def database_at(address: str | None) -> Located:
    """Turn a path, an ``sqlite:///`` URL or the URL of a PostgreSQL server into where the database is.

    >>> database_at("sqlite:////data/a.db"), database_at("postgresql://db.example/armscope")
    (PosixPath('/data/a.db'), postgresql://db.example/armscope)
    """
    if address is None:
        return default_database()
    if address.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")) and "\0" not in address:
        server = Server(f"postgresql://{address.partition('://')[2]}")
        if not server.is_readable:
            raise InvalidSetting(UNREADABLE_ADDRESS[0], next_step=UNREADABLE_ADDRESS[1])
        return server
    if address.startswith(_SQLITE):
        address = address.removeprefix(_SQLITE)
    elif _WITH_PASSWORD.match(address):
        raise InvalidSetting(UNREADABLE_ADDRESS[0], next_step=UNREADABLE_ADDRESS[1])
    elif "://" in address:
        scheme = address.split("://", 1)[0]
        shown = f"{scheme}://…" if _SCHEME.fullmatch(scheme) else "another"
        raise InvalidSetting(
            f"The database must be a file, an sqlite:/// or a postgresql:// URL, got {shown}.",
            next_step="Name a file, for example --database ./armscope.db.",
        )
    if address.endswith(("/", "/.", "/..")):
        raise InvalidSetting(
            f"The database must be a file, got the folder {address[:200]}.",
            next_step=f"Name a file in it, for example {address[:200].rstrip('/.')}/armscope.db.",
        )
    if not address or "\0" in address:
        raise InvalidSetting(
            "The database must be a file, got an empty name or one with a NUL character.",
            next_step="Name a file, for example --database ./armscope.db.",
        )
    try:
        return Path(address).expanduser()
    except RuntimeError as problem:
        raise InvalidSetting(
            f"The database's folder must exist, got {address[:200]!r}: this machine has no user of that name.",
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
    """Return a variable of the environment, or None."""
    return environment.get(name)


def base_path(option: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the path below which a proxy serves armscope, from the option or ``ARMSCOPE_BASE_PATH``; "" = the root.

    >>> base_path("tools/armscope/", {}), base_path("/", {}), base_path(None, {"ARMSCOPE_BASE_PATH": "/armscope"})
    ('/tools/armscope', '', '/armscope')
    """
    text = environment.get(BASE_PATH, "") if option is None else option
    parts = text.strip("/")
    if parts and (not _BASE_PATH.fullmatch(f"/{parts}") or len(parts) > _MAX_BASE_PATH):
        raise InvalidSetting(
            "The base path must be names of letters, digits, '.', '_', '~' and '-', separated by '/', each beginning "
            f"with a letter or digit, at most {_MAX_BASE_PATH} characters, got {text[:80]!r}.",
            next_step=f"Give the option or {BASE_PATH} the path alone, such as /armscope.",
        )
    return f"/{parts}" if parts else ""


def secret(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return a secret from a variable, or from the file that the variable with ``_FILE`` appended names.

    None without either, or for an unreadable file. White space around the secret is removed.

    >>> secret("KEY", {"KEY": " s3cret "})
    's3cret'
    """
    if value := environment.get(name, "").strip():
        return value
    file = environment.get(f"{name}_FILE")
    try:
        return (Path(file).read_text(encoding="utf-8").strip() or None) if file else None
    except (OSError, ValueError):
        return None


def set_variables(values: Mapping[str, str]) -> None:
    """Set variables for child processes and later reads."""
    os.environ.update(values)


def child_environment(own: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of another program's process: ours without variables of armscope, and its own.

    >>> child_environment({"KEY": "1"}, {"LANG": "C", "ARMSCOPE_TOKEN": "arms_…"})
    {'LANG': 'C', 'KEY': '1'}
    """
    return {name: value for name, value in environment.items() if not name.startswith("ARMSCOPE_")} | {**own}


def wants_colours(environment: Mapping[str, str] = os.environ, *, is_terminal: bool) -> bool:
    """Return whether output may be coloured: on a terminal, unless the usual variables say otherwise.

    >>> wants_colours({"NO_COLOR": "1"}, is_terminal=True), wants_colours({"FORCE_COLOR": "1"}, is_terminal=False)
    (False, True)
    """
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (is_terminal and environment.get("TERM") != "dumb")


def local_operator() -> Actor:
    """Return the machine's user, who may do everything here."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container user without a passwd entry
        name = f"uid-{os.getuid()}"
    return Actor(name=name)
