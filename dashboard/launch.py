"""Entry point: core's commands, and those that need Streamlit or Plotly, imported only when they run."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from core.doors.cli import Json, Where, answer, app, desk_of
from core.doors.cli import main as run
from core.doors.terminal import say
from core.errors import InvalidInput
from core.flows.export import new_file
from core.records.view import View
from core.settings import Settings, database_path, demo_database

DEFAULT_PORT = 8501

Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 = any free one.")]
Address = Annotated[str, typer.Option("--address", help="Loopback only: there is no sign-in.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")]


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    database: str
    learner: str


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    size_bytes: int
    revision: int


@app.command()
def serve(
    context: typer.Context,
    port: Port = DEFAULT_PORT,
    address: Address = "127.0.0.1",
    browser: Browser = True,
    as_json: Json = False,
) -> None:
    """Open the dashboard."""
    desk = desk_of(context)
    desk.store.close()
    where = Settings.from_environment(database=str(desk.store.path), learner=desk.learner)
    _serve(where, address=address, port=port, browser=browser, as_json=as_json)


@app.command()
def demo(
    context: typer.Context,
    port: Port = DEFAULT_PORT,
    address: Address = "127.0.0.1",
    browser: Browser = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Build it anew.")] = False,
    build_only: Annotated[bool, typer.Option("--build-only", help="Don't open the dashboard.")] = False,
    as_json: Json = False,
) -> None:
    """Build a world whose truth is known, in a file of its own, and open the dashboard on it."""
    from core.demo import LEARNER, build  # noqa: PLC0415 - only this command needs it

    where = context.obj if isinstance(context.obj, Where) else Where(database=None, learner=None)
    path = demo_database() if where.database is None else database_path(where.database)
    made = build(path, fresh=fresh)
    if build_only:
        words = f"{made.runs:,} runs of {made.arms:,} arms in {made.database}."
        answer(made, as_json=as_json, words=lambda: say(words))
        return
    settings = Settings.from_environment(database=str(made.database), learner=LEARNER)
    _serve(settings, address=address, port=port, browser=browser, as_json=as_json)


@app.command()
def report(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write it; must not exist yet.")],
    as_json: Json = False,
) -> None:
    """Freeze what the dashboard says now into one HTML file that opens anywhere, offline."""
    from dashboard.report import gather, rendered, report  # noqa: PLC0415 - only this command draws

    desk = desk_of(context)
    facts = gather(desk, View())
    document = rendered(report(facts))
    with new_file(file) as opened:
        opened.write(document)
    written = Reported(file=str(file), size_bytes=len(document), revision=facts.frame.revision)
    size = f"{written.size_bytes / 1e6:.1f} MB"
    words = f"{written.file}: revision {written.revision:,}, {size}, opens without a network."
    answer(written, as_json=as_json, words=lambda: say(words))


def _serve(settings: Settings, *, address: str, port: int, browser: bool, as_json: bool) -> None:
    _refuse_strangers(address)
    chosen = _claimable_port(address, port)
    os.environ.update(settings.as_environment())
    host = f"[{address}]" if ":" in address else address
    at = Serving(url=f"http://{host}:{chosen}", database=str(settings.database), learner=settings.learner)
    words = f"armscope serves {at.learner} from {at.database} at {at.url} (stop: Ctrl+C)."
    answer(at, as_json=as_json, words=lambda: say(words))
    from dashboard.server import serve as serve_app  # noqa: PLC0415 - Streamlit takes a second to import

    serve_app(address=address, port=chosen, open_browser=browser)


def _refuse_strangers(address: str) -> None:
    """Only this machine may connect: whoever does is the operator."""
    try:
        local = address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        local = False
    if not local:
        raise InvalidInput(
            f"The address must be of this machine (127.0.0.1, ::1, localhost), got {address[:60]!a}: "
            "there is no sign-in, and whoever connects is the operator.",
            next_step="Leave --address out; to reach it from elsewhere use an SSH tunnel.",
        )


def _claimable_port(address: str, port: int) -> int:
    """The port asked for, or a free one for 0; raises `InvalidInput` where another program has it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as problem:
            raise InvalidInput(
                f"Port {port} of {address} can't be had: {problem.strerror or problem}.",
                next_step="Use --port with another number, or --port 0 for any free one.",
            ) from problem
        return int(probe.getsockname()[1])


def main() -> None:
    """The console command ``armscope``."""
    run()
