"""The command as a process of its own, whose standard error is a terminal."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.conftest import ROOT

COMMAND: Final = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from dashboard.launch import main; main()",
)

_SERVERS: Final = list["subprocess.Popen[str]"]()


@cache
def warm(begin: str = "") -> tuple[str, ...]:
    """Return the words that run armscope, or Python with ``-c``, in a process forked from one that has imported it.

    For commands whose start is not what a test is about: a start of its own takes thirty times as long. ``begin`` is
    run once before all of them.
    """
    place = str(ROOT / "tests" / "warm.py")
    server = subprocess.Popen(
        [sys.executable, "-P", place, "serve", begin],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,  # closed when the tests end, however they end
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _SERVERS.append(server)
    assert server.stdout is not None
    return sys.executable, "-S", place, "run", server.stdout.readline().strip()


def script(path: Path, *words: str) -> None:
    """Write a program that passes its arguments on to the one of these words."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)


def on_pty(arguments: Sequence[str], cwd: Path, command: Sequence[str]) -> str:
    """What a command writes to a terminal of 100 columns on standard error; its exit code must be 0."""
    parent, child = pty.openpty()
    with subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.DEVNULL,
        stderr=child,
    ) as process:
        os.close(child)
        said = b"".join(_pieces(parent)).decode()
    os.close(parent)
    assert process.returncode == 0, said
    return said


def _pieces(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(descriptor, 65_536)
        except OSError:  # Linux says so when the other end has gone
            return
        if not piece:
            return
        yield piece
