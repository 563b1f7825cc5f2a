"""Commands: core's, and those that need Streamlit or Plotly, imported only when they run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from msgspec import structs

from core.doors.cli import (
    BasePath,
    LogForm,
    LogFrom,
    Port,
    ReadDatabase,
    by_variable,
    command,
    context_of,
    done,
    following,
    global_options,
)
from core.doors.cli import main as run
from core.doors.http.address import claimable_port, url_of
from core.doors.terminal import counted, say
from core.errors import NotInstalled
from core.settings import (
    BASE_PATH,
    Located,
    LogFormat,
    LogLevel,
    Server,
    Settings,
    base_path,
    database_at,
    demo_database,
    local_operator,
    set_variables,
)

if TYPE_CHECKING:
    from dashboard.sign_in import SignIn

DEFAULT_PORT = 8501

NEEDED: Final = {
    "streamlit": "streamlit",
    "plotly": "plotly",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "starlette": "starlette",
    "markdown_it": "markdown-it-py",
}
"""Packages that the dashboard imports and core does not, by the names they are installed under."""

Address = Annotated[str, by_variable("--address", "Off this machine only where people sign in.", metavar="A")]
Proxies = Annotated[
    list[str] | None,
    by_variable(
        "--proxy", "A proxy whose word counts; repeatable. Only where people sign in.", metavar="ADDRESS"
    ),
]
RequireToken = Annotated[bool, by_variable("--require-token", "Programs need a token, too.")]
Browser = Annotated[
    bool, typer.Option("--browser/--no-browser", envvar="ARMSCOPE_BROWSER", help="Open the page.")
]


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """Started server. Without a ``learner`` it serves several, and each page and request names one."""

    url: str
    database: str
    learner: str | None


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    size_bytes: int
    revision: int


@command(examples=["serve", "serve --database demo.db --port 0 --no-browser"])
def serve(
    line: typer.Context,
    port: Port = DEFAULT_PORT,
    address: Address = "127.0.0.1",
    browser: Browser = True,
    proxy: Proxies = None,
    require_token: RequireToken = False,
    below: BasePath = None,
    read_database: ReadDatabase = None,
    log_format: LogForm = "text",
    log_level: LogFrom = "info",
) -> None:
    """Open the dashboard.

    Where ARMSCOPE_AUTH names a secrets file, people sign in.
    """
    _refuse_without("serve")
    set_variables({BASE_PATH: base_path(below)})
    settings = global_options(line).settings(read_database=read_database)
    location = settings.database
    was_there = isinstance(location, Server) or location.exists()
    # Runs come in through its pages, too.
    context = context_of(line, create=True, whole=True, read_database=read_database)
    learner = context.learner if context.is_named else None
    context.store.close()
    fresh = (
        () if was_there else ("There was no database at this place: a new one was made, and it is empty.",)
    )
    _serve(
        line,
        structs.replace(settings, learner=learner),
        *fresh,
        address=address,
        port=port,
        browser=browser,
        proxies=proxy or (),
        asks_tokens=require_token,
        log=(log_format, log_level),
    )


@command(examples=["demo", "demo --build-only", "demo --database ./demo.db --fresh", "demo --more 300"])
def demo(
    line: typer.Context,
    port: Port = DEFAULT_PORT,
    address: Address = "127.0.0.1",
    browser: Browser = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Build it again from the start.")] = False,
    build_only: Annotated[bool, typer.Option("--build-only", help="Don't open the dashboard.")] = False,
    more: Annotated[
        int,
        typer.Option("--more", metavar="N", help="Play on so many runs; doesn't open the dashboard."),
    ] = 0,
) -> None:
    """Build a world whose truth is known, and open it.

    It has a database of its own: your data stay as they are.
    """
    from core.demo import LEARNER, build

    build_only = build_only or more != 0
    if not build_only:
        _refuse_without("demo")
    requested = global_options(line).database
    location = demo_database() if requested is None else database_at(requested)
    with following(line) as bar:
        built = build(location, fresh=fresh, more=more, progress=counted(bar, "runs"))
    look = f"armscope --database {shlex.quote(built.database)} --learner {LEARNER} status"
    to_copy = f"The same data on the command line: {look}"
    if build_only:
        done(
            line,
            built,
            lambda: say(
                *([f"{built.played_on:,} runs were played on."] if built.played_on else []),
                f"{built.runs:,} runs of {built.arms:,} arms in {built.database}.",
                to_copy,
            ),
        )
    else:
        _serve(
            line,
            Settings(database=location, learner=LEARNER, actor=local_operator()),
            to_copy,
            address=address,
            port=port,
            browser=browser,
        )


@command(examples=["report november.html"])
def report(
    line: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write it; must not exist yet.")],
) -> None:
    """Write the present dashboard into one HTML file.

    It opens anywhere, offline.
    """
    _refuse_without("report")
    from core.flows.new_file import new_file
    from core.records.run_query import View
    from dashboard import wording
    from dashboard.report import gather, rendered, report

    context = context_of(line)
    facts = gather(context, View())
    document = rendered(report(facts))
    with new_file(file) as opened:
        opened.write(document)
    built = Reported(file=str(file), size_bytes=len(document), revision=facts.frame.revision)
    size = wording.size(built.size_bytes)
    done(
        line,
        built,
        lambda: say(f"{built.file}: revision {built.revision:,}, {size}, opens without a network."),
    )


def _serve(
    line: typer.Context,
    settings: Settings,
    *more: str,
    address: str,
    port: int,
    browser: bool,
    proxies: Sequence[str] = (),
    asks_tokens: bool = False,
    log: tuple[LogFormat, LogLevel] = ("text", "warning"),
) -> None:
    from dashboard.configuration import checked_base_path
    from dashboard.sign_in import auth_file, check_address

    check_address(address, proxies, signs_in=auth_file() is not None)
    path = checked_base_path()
    chosen = claimable_port(address, port)
    sign_in = _sign_in(settings.database, chosen)
    if sign_in is not None and sign_in.is_shared:
        more = (
            *more,
            f"Others on this machine can read {sign_in.file}, and forge any session: chmod 600 it.",
        )
    set_variables(settings.as_environment())
    url = f"{url_of(address, chosen) if sign_in is None else sign_in.origin}{path}"
    at = Serving(url=url, database=str(settings.database), learner=settings.learner)
    words = f"armscope serves {at.learner or 'every learner'} from {at.database} at {at.url} (stop: Ctrl+C)."
    done(line, at, lambda: say(words, *more))
    from dashboard.server import serve as serve_app  # Streamlit takes a second to import

    serve_app(
        address=address,
        port=chosen,
        opens=url if browser else None,
        sign_in=sign_in,
        proxies=proxies,
        asks_tokens=asks_tokens,
        log=log,
    )


def _refuse_without(command: str) -> None:
    """Raise where what draws the dashboard is missing; an agent's process needs none of it."""
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise NotInstalled(
            f"armscope {command} needs what draws the dashboard, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed here.",
            next_step=f"Install with: pip install {' '.join(missing)}",
        )


def _sign_in(location: Located, port: int) -> SignIn | None:
    """Return the sign-in settings, or None without sign-in; refuse to listen where no one could sign in."""
    from core.flows.context import open_context
    from core.flows.identity import has_operator
    from dashboard.sign_in import auth_file, check_operator, read_sign_in

    file = auth_file()
    if file is None:
        return None
    sign_in = read_sign_in(file, port=port)
    context = open_context(Settings(database=location, actor=local_operator()), whole=True)
    with closing(context.store):
        check_operator(has_one=has_operator(context.store))
    return sign_in


def main() -> None:
    """Run the command of the console."""
    run()
