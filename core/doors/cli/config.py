"""Config: the variables that armscope reads, with their values in force."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec
import typer

from core.doors.cli.program.app import answer, command, global_options
from core.doors.http.guard import LAYERS_PER_MINUTE, PER_MINUTE
from core.doors.terminal import say, say_table
from core.settings import database_at, default_database, secret, spool_folder, variable

Source = Literal["option", "variable", "default"]


class Variable(NamedTuple):
    """A variable; ``option`` takes precedence over it, and ``default`` holds without both."""

    name: str
    words: str
    option: str = ""
    default: str | None = None
    is_secret: bool = False


VARIABLES: Final = (
    Variable(
        "ARMSCOPE_DATABASE",
        "path, `sqlite:///` URL or `postgresql://` URL of the database",
        "--database",
        "`armscope.db` in the user data folder",
    ),
    Variable("ARMSCOPE_LEARNER", "learner", "--learner", "`default`, or the only learner"),
    Variable("ARMSCOPE_READ_DATABASE", "PostgreSQL standby for reads", "--read-database"),
    Variable("ARMSCOPE_PORT", "port of `serve`, `demo` and `api`", "--port", "8501, and 8502 for `api`"),
    Variable("ARMSCOPE_ADDRESS", "address on which they listen", "--address", "127.0.0.1"),
    Variable(
        "ARMSCOPE_HOST",
        "names by which `api` is called, separated by spaces: a name, `*.example.internal` or `10.0.0.0/8`",
        "--host",
    ),
    Variable("ARMSCOPE_PROXY", "proxies of `serve` and `api`, separated by spaces", "--proxy"),
    Variable("ARMSCOPE_RATE", "requests a minute and token at `api`", "--rate", str(PER_MINUTE)),
    Variable(
        "ARMSCOPE_NEW_LAYERS",
        "new layers a minute and token at `api`",
        "--new-layers",
        str(LAYERS_PER_MINUTE),
    ),
    Variable(
        "ARMSCOPE_REQUIRE_TOKEN",
        "1: programs on this machine need a token, too",
        "--require-token",
        "0",
    ),
    Variable("ARMSCOPE_BROWSER", "0: `serve` and `demo` open no page", "--no-browser", "1"),
    Variable(
        "ARMSCOPE_BASE_PATH",
        "path below which a proxy serves armscope, see [people](people.md#below-a-path)",
        "--base-path",
    ),
    Variable(
        "ARMSCOPE_LOG_FORMAT", "form of the log of `serve` and `api`: text or json", "--log-format", "text"
    ),
    Variable(
        "ARMSCOPE_LOG_LEVEL",
        "least level of its lines: debug, info, warning or error",
        "--log-level",
        "info",
    ),
    Variable("ARMSCOPE_AUTH", "file with the table `[auth]`; people sign in, see [people](people.md)"),
    Variable("ARMSCOPE_SESSION_HOURS", "length of a signed-in session in hours", default="12"),
    Variable("ARMSCOPE_CORS_ORIGIN", "origins whose pages may call the HTTP interface"),
    Variable(
        "ARMSCOPE_WEBHOOK_SECRET",
        "secret that signs alerts, 24 bytes or more, see [alerts](alerts.md)",
        is_secret=True,
    ),
    Variable("ARMSCOPE_WEBHOOK_SECRET_FILE", "file that holds this secret"),
    Variable(
        "ARMSCOPE_CONNECT_S",
        "seconds that an agent's request waits for a connection, see [python](python.md#when-the-server-is-away)",
        default="0.3",
    ),
    Variable("ARMSCOPE_SELECT_S", "seconds that it waits for a selection", default="1"),
    Variable("ARMSCOPE_RECORD_S", "seconds that it waits for a record", default="0.5"),
    Variable("ARMSCOPE_READ_S", "seconds that a method of a client that reads waits", default="120"),
    Variable(
        "ARMSCOPE_SPOOL",
        "folder of runs that wait to be recorded",
        default="`spool` in the user's state folder",
    ),
    Variable(
        "ARMSCOPE_TOKEN",
        "token for `--server` of `armscope spool send` and `armscope mcp-proxy`",
        is_secret=True,
    ),
    Variable("PGPASSWORD", "password for PostgreSQL; `~/.pgpass` and the URL work too", is_secret=True),
)


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """A variable with its value and the source of it; the value of a secret is not shown."""

    name: str
    value: str | None
    source: Source
    option: str
    words: str


@command(
    words="Show the variables that armscope reads, with their values.", examples=["config", "config --json"]
)
def config(line: typer.Context) -> None:
    """An option takes precedence over its variable, and an empty variable counts as unset."""
    options = global_options(line)
    by_option = {"--database": options.database, "--learner": options.learner}
    rows = [_in_force(one, by_option.get(one.option)) for one in VARIABLES]

    def write() -> None:
        say_table(
            ("variable", "value", "from", "option"),
            [(r.name, r.value or "none", r.source, r.option) for r in rows],
        )
        say("", "What they mean: armscope help variables")

    answer(line, msgspec.to_builtins(rows), write)


def _in_force(one: Variable, option: str | None) -> InForce:
    stored = secret(one.name) if one.is_secret else variable(one.name) or None
    source: Source = "default" if stored is None else "variable"
    value = _default(one) if stored is None else "set" if one.is_secret else _shown(one, stored)
    if option is not None:
        source, value = "option", _shown(one, option)
    return InForce(name=one.name, value=value, source=source, option=one.option, words=one.words)


def _shown(one: Variable, value: str) -> str:
    """Return a value; an address of a database is shown without its password."""
    return str(database_at(value)) if one.name.endswith("DATABASE") else value


def _default(one: Variable) -> str | None:
    paths = {"ARMSCOPE_DATABASE": default_database, "ARMSCOPE_SPOOL": spool_folder}
    if one.name in paths:
        return str(paths[one.name]())
    return None if one.default is None else one.default.replace("`", "")
