"""Where the promises of the store are tried."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.engine import COORDINATOR, Spread
from tests.store.everything import ask_everything
from tests.store.said import Said, listening
from tests.waiting import memory_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on a disk: other tests write to memory, but what is promised here is promised of disks."""
    with TemporaryDirectory(prefix="armscope-store-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def spread() -> Iterator[Spread]:
    cluster = Spread(os.environ[COORDINATOR])
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def said() -> Said:
    """All statements of the store to its database, with the places that ask them."""
    with TemporaryDirectory(dir=memory_folder()) as folder, listening() as said:
        ask_everything(Path(folder))
    return said
