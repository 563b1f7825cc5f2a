"""What most tests of flows begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.worlds.reviewers import Desk, desk_at


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Reviewers of runs that are recorded."""
    made = desk_at(tmp_path / "a.db")
    with closing(made.context.store):
        yield made
