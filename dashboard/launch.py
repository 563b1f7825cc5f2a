"""Entry point: core's commands, and those that need Streamlit or Plotly, imported only when they run."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from core.doors.cli import asked, command, context_of, done, following
from core.doors.cli import main as run
from core.doors.http.address import claimable_port, is_loopback, url_of
from core.doors.progress import counted
from core.doors.terminal import say
from core.errors import InvalidInput, NotInstalled
from core.settings import Settings, database_path, demo_database, set_variables

DEFAULT_PORT = 8501

NEEDED: Final = {
    "streamlit": "streamlit",
    "plotly": "plotly",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "starlette": "starlette",
    "markdown_it": "markdown-it-py",
}
"""What the dashboard imports and core does not, by the name it is installed under."""

Port = Annotated[
    int, typer.Option("--port", metavar="N", min=0, max=65_535, help="0 = any free one.", show_default=True)
]
Address = Annotated[
    str, typer.Option("--address", metavar="A", help="Loopback only: there is no sign-in.", show_default=True)
]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")]


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    database: str
    learner: str


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
) -> None:
    """Open the dashboard."""
    _refuse_without("serve")
    was_there = asked(line).settings().database.exists()
    context = context_of(line, create=True)  # runs come in through its pages, too
    context.store.close()
    fresh = (
        () if was_there else ("There was no database at this place: a new one was made, and it is empty.",)
    )
    _serve(
        line, str(context.store.path), context.learner, *fresh, address=address, port=port, browser=browser
    )


@command(examples=["demo", "demo --build-only", "demo --database ./demo.db --fresh"])
def demo(
    line: typer.Context,
    port: Port = DEFAULT_PORT,
    address: Address = "127.0.0.1",
    browser: Browser = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Build it anew.")] = False,
    build_only: Annotated[bool, typer.Option("--build-only", help="Don't open the dashboard.")] = False,
) -> None:
    """Build a world whose truth is known, and open it.

    It has a database of its own: your data stay as they are.
    """
    from core.demo import LEARNER, build

    if not build_only:
        _refuse_without("demo")
    given = asked(line).database
    path = demo_database() if given is None else database_path(given)
    with following(line) as bar:
        made = build(path, fresh=fresh, progress=counted(bar, "runs"))
    look = f"armscope --database {shlex.quote(made.database)} --learner {LEARNER} status"
    to_copy = f"The same data on the command line: {look}"
    if build_only:
        done(
            line,
            made,
            lambda: say(f"{made.runs:,} runs of {made.arms:,} arms in {made.database}.", to_copy),
        )
    else:
        _serve(line, made.database, LEARNER, to_copy, address=address, port=port, browser=browser)


@command(examples=["report november.html"])
def report(
    line: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write it; must not exist yet.")],
) -> None:
    """Freeze what the dashboard says now into one HTML file.

    It opens anywhere, offline.
    """
    _refuse_without("report")
    from core.flows.export import new_file
    from core.records.view import View
    from dashboard.report import gather, rendered, report

    context = context_of(line)
    facts = gather(context, View())
    document = rendered(report(facts))
    with new_file(file) as opened:
        opened.write(document)
    made = Reported(file=str(file), size_bytes=len(document), revision=facts.frame.revision)
    size = f"{made.size_bytes / 1e6:.1f} MB"
    done(
        line,
        made,
        lambda: say(f"{made.file}: revision {made.revision:,}, {size}, opens without a network."),
    )


def _serve(
    line: typer.Context,
    database: str,
    learner: str,
    *more: str,
    address: str,
    port: int,
    browser: bool,
) -> None:
    _refuse_strangers(address)
    chosen = claimable_port(address, port)
    set_variables(Settings.from_environment(database=database, learner=learner).as_environment())
    at = Serving(url=url_of(address, chosen), database=database, learner=learner)
    words = f"armscope serves {at.learner} from {at.database} at {at.url} (stop: Ctrl+C)."
    done(line, at, lambda: say(words, *more))
    from dashboard.server import serve as serve_app  # Streamlit takes a second to import

    serve_app(address=address, port=chosen, open_browser=browser)


def _refuse_without(command: str) -> None:
    """An agent's process needs no dashboard, and may have been installed without what draws it."""
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise NotInstalled(
            f"armscope {command} needs what draws the dashboard, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed here.",
            next_step=f"Install with: pip install {' '.join(missing)}",
        )


def _refuse_strangers(address: str) -> None:
    """Only this machine may connect: whoever does is the operator."""
    if not is_loopback(address):
        raise InvalidInput(
            f"The address must be of this machine (127.0.0.1, ::1, localhost), got {address[:60]!r}: "
            "there is no sign-in for pages, and whoever connects is the operator.",
            next_step="Leave --address out; to reach it from elsewhere use an SSH tunnel.",
        )


def main() -> None:
    """The console command ``armscope``."""
    run()
