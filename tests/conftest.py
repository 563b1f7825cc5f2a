"""What every test can ask for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.store.recording import shared_library

settings.register_profile("any machine", deadline=None)  # how long an example takes is no law
settings.load_profile("any machine")

ROOT = Path(__file__).resolve().parent.parent
if sys.dont_write_bytecode:
    # Tests start the program hundreds of times, and compiled anew each time it takes thrice as long to start. What
    # must not lie beside the sources lies in pytest's own cache, also for the processes that are started.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(ROOT / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SHARED = ROOT.parent / "shared"
VECTORS = Path(os.environ.get("ARMSCOPE_CONFORMANCE") or SHARED) / "vectors"
"""The recorded behaviour of the original systems."""


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real agent runs with expected results; they are not part of the project."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("needs the real agent runs: a folder 'shared/data' beside the project's root")
    return folder


@pytest.fixture(scope="session")
def vectors() -> Path:
    """What the original systems were asked and answered; it is not part of the project either."""
    if not VECTORS.is_dir():
        pytest.skip(
            f"needs the conformance vectors: ARMSCOPE_CONFORMANCE, a folder with {VECTORS.name}/ in it"
        )
    return VECTORS


@pytest.fixture(scope="session")
def noted_sqlite() -> None:
    """A Python whose SQLite can be listened to, as that of Debian; some others have it built in."""
    try:
        shared_library()
    except LookupError as problem:
        pytest.skip(f"needs a Python whose sqlite3 loads SQLite as a shared library: {problem}")
