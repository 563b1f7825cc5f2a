"""Servers: the dashboard, and bare Streamlit pages, as processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from tests.conftest import ROOT

_PATIENCE_S: Final = 60

# A page of one's own in the same shell as ours: imports warm, collector frozen, no waiting for acknowledgements.
_BARE: Final = """
import sys
import streamlit as st
from starlette.middleware import Middleware
from dashboard.server import Promptly, warm

app = st.App(sys.argv[1], lifespan=warm, middleware=[Middleware(Promptly)])
app.run(config={
    "server.address": "127.0.0.1", "server.port": int(sys.argv[2]), "server.headless": True,
    "browser.gatherUsageStats": False,
})
"""

_COMMAND: Final = "from dashboard.launch import main; main()"


@contextmanager
def dashboard(database: Path) -> Iterator[str]:
    """The dashboard on a database; its address."""
    port = free_port()
    command = ["-c", _COMMAND, "serve", "--no-browser", "--port", str(port)]
    with _serving(command, port, {"ARMSCOPE_DATABASE": str(database)}) as url:
        yield url


@contextmanager
def bare_page(script: Path) -> Iterator[str]:
    """One Streamlit script alone, without our theme and settings; its address."""
    port = free_port()
    path = {"PYTHONPATH": str(ROOT)}
    with _serving(["-c", _BARE, str(script), str(port)], port, path, folder=script.parent) as url:
        yield url


@contextmanager
def _serving(
    arguments: Sequence[str], port: int, environment: dict[str, str], *, folder: Path = ROOT
) -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://localhost:{port}/"
        wait_for(url)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def wait_for(address: str) -> None:
    """Until someone answers there."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            with urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"nothing answers at {address}")


def free_port() -> int:
    """A port that no one listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
