"""The command as a process of its own, whose standard error is a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.conftest import ROOT

COMMAND: Final = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from dashboard.launch import main; main()",
)


def on_pty(arguments: Sequence[str], cwd: Path) -> str:
    """What a command writes to a terminal of 100 columns on standard error; its exit code must be 0."""
    parent, child = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments],
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
