"""Real servers of environments, as processes; `openreward` in an environment of its own, beside ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from uv import find_uv_bin

from tests.bench.servers import free_port, wait_for
from tests.conftest import ROOT
from tests.installed import slim_packages

OPENREWARD: Final = "openreward==0.1.167"
_SERVER: Final = ROOT / "tests" / "conformance" / "ors_server.py"
_PATIENCE_S: Final = 300


class Serving:
    """A server that can be killed, and started again at its place."""

    def __init__(self, python: Path, package: str, log: Path, tasks: Path | None = None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._line = [str(python), str(_SERVER), package, str(self.port)]
        self._line += [] if tasks is None else [str(tasks)]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve, once the one before is gone."""
        self.stop()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._line, stdout=log, stderr=log, env=alone())
        wait_for(f"{self.url}/health")

    def stop(self) -> None:
        """Kill it, if it is not dead already."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def alone() -> dict[str, str]:
    """The environment of a process that asks no one for updates, nor a proxy for what is on this machine."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("ARMSCOPE_")}
    return {**known, "OPENREWARD_DISABLE_UPDATE_CHECK": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@contextmanager
def serving(
    folder: Path, python: Path = Path(sys.executable), package: str = "ors", tasks: Path | None = None
) -> Iterator[Serving]:
    """A server that answers; it is stopped at the end."""
    server = Serving(python, package, folder / "environment.log", tasks)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def openreward_python(folder: Path) -> Path:
    """Python with openreward, and what our core needs to record beside it."""
    return python_with(folder, OPENREWARD, *slim_packages())


def python_with(folder: Path, *packages: str) -> Path:
    """Python with packages that want other neighbours than ours."""
    uv, python = str(find_uv_bin()), folder / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder / "venv"], check=True)
    line = [uv, "pip", "install", "-q", "--python", str(python), *packages]
    done = subprocess.run(line, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        pytest.skip(
            f"needs {packages[0]} from the package index, whose installation failed: {done.stderr[-200:]}"
        )
    return python


def run_beside(python: Path, script: str, *args: object, more: Mapping[str, str] = {}) -> list[Any]:
    """What a script prints, line by line, in an environment that finds ours."""
    line = [str(python), "-c", script, *map(str, args)]
    variables = {**alone(), "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run(
        line, capture_output=True, text=True, env=variables, timeout=_PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
