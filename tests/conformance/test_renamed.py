"""These tests know rules and no recordings: they pass with every one renamed, repeated or split."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.renaming import rename_all
from tests.conftest import ROOT, VECTORS

_FAST: Final = ("test_ors.py", "test_openreward.py")
_PATIENCE_S: Final = 600


def passed_on_others(folder: Path, *files: str) -> int:
    """Run tests of this folder on other recordings; return how many passed."""
    target = folder / "vectors"
    target.mkdir()
    rename_all(VECTORS, target)
    here = Path(__file__).parent
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-v",
            "-x",
            "-p",
            "no:cacheprovider",
            *[str(here / one) for one in files],
        ],
        cwd=ROOT,
        env={**os.environ, "ARMSCOPE_CONFORMANCE": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    found = re.search(r"(\d+) passed", done.stdout)
    assert (done.returncode, found is None) == (0, False), done.stdout[-4_000:] + done.stderr[-1_000:]
    return int(found[1]) if found else 0


def test_recordings_of_environments_may_have_any_name(tmp_path: Path) -> None:
    assert passed_on_others(tmp_path, *_FAST) > 0


@pytest.mark.long
def test_every_recording_may_have_any_name(tmp_path: Path) -> None:
    others = sorted(path.name for path in Path(__file__).parent.glob("test_*.py"))
    assert passed_on_others(tmp_path, *[name for name in others if name != Path(__file__).name]) > 0
