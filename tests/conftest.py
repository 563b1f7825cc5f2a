"""What every test can ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real agent runs with expected results; they are not part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("needs the real agent runs: a folder 'shared/data' beside the project's root")
    return folder
