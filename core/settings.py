"""Environment → one frozen Settings: where the data are and who is asking. The only reader of os.environ."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import platformdirs

from core.errors import InvalidSetting
from core.records.actor import Actor

DEFAULT_LEARNER = "default"
_SQLITE = "sqlite:///"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Which database, which learner (None = nobody named one), which person.

    ``database`` is the path of an SQLite file; `from_environment` fills what the caller leaves out (None) from
    ``ARMSCOPE_DATABASE`` and ``ARMSCOPE_LEARNER``, and the database then from its default. An empty variable counts
    as unset; an empty name that the caller gives is an error, never a silent default.

    >>> Settings.from_environment({}, database="sqlite:///runs.db").database
    PosixPath('runs.db')
    """

    database: Path
    learner: str | None = None
    actor: Actor

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] = os.environ,
        *,
        database: str | None = None,
        learner: str | None = None,
    ) -> Settings:
        named = (environment.get("ARMSCOPE_LEARNER") or None) if learner is None else learner
        return cls(
            database=database_path(
                (environment.get("ARMSCOPE_DATABASE") or None) if database is None else database
            ),
            learner=None if named is None else check_learner(named),
            actor=local_operator(),
        )

    def as_environment(self) -> dict[str, str]:
        """What a child process needs to find the same data."""
        return {"ARMSCOPE_DATABASE": str(self.database), "ARMSCOPE_LEARNER": self.learner or ""}


def default_database() -> Path:
    """The database in the user's data folder."""
    return platformdirs.user_data_path("armscope", appauthor=False) / "armscope.db"


def demo_database() -> Path:
    """The demo's own database, never the default one."""
    return platformdirs.user_data_path("armscope", appauthor=False) / "demo.db"


def database_path(given: str | None) -> Path:
    """Turn a path or an ``sqlite:///`` URL into a path.

    >>> database_path("sqlite:////data/a.db")
    PosixPath('/data/a.db')
    """
    if given is None:
        return default_database()
    if given.startswith(_SQLITE):
        given = given.removeprefix(_SQLITE)
    elif "://" in given:
        raise InvalidSetting(
            f"The database must be a file or an sqlite:/// URL, got {given.split('://', 1)[0]}://….",
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
