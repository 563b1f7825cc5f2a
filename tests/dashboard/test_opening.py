"""The browser that `serve` opens, and what Streamlit offers on a machine with an agent."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.conftest import ROOT
from tests.terminal import warm
from tests.worlds.lively import told_context

PATIENCE_S = 60


def test_a_browser_is_opened_and_no_file_is_offered(tmp_path: Path) -> None:
    """Streamlit would offer to write files for agents on each page, unless it takes the server for headless."""
    told_context(tmp_path).store.close()
    opener, opened = tmp_path / "bin" / "xdg-open", tmp_path / "opened"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    opener.chmod(0o755)
    (tmp_path / ".claude").mkdir()
    code = (
        "from streamlit import cli_util\n"
        "from streamlit.web import skills\n"
        "opens = cli_util.open_browser\n"
        "cli_util.open_browser = lambda url: print(skills.nudge_suppression_reason(), flush=True) or opens(url)\n"
        "from dashboard.launch import main; main()"
    )
    environment = {
        "PATH": f"{opener.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    command = [*warm(), "-c", code, "--database", str(tmp_path / "lively.db"), "serve", "--port", "0"]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as served:
        deadline = time.monotonic() + PATIENCE_S
        while not opened.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        served.terminate()
        words = served.communicate(timeout=PATIENCE_S)[0]
    (address,) = opened.read_text().split()
    assert address in words
    assert "headless" in words.splitlines()
