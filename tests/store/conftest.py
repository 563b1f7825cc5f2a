"""Where the promises of the store are tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on a disk: other tests write to memory, but what is promised here is promised of disks."""
    with TemporaryDirectory(prefix="armscope-store-") as folder:
        yield Path(folder)
