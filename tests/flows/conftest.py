"""What most tests of flows begin with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.flows.context import Context
from tests.flows.reviewers import Desk, desk_at
from tests.flows.world import context_at


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """An empty database."""
    return context_at(tmp_path / "a.db")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Reviewers of runs that are recorded."""
    made = desk_at(tmp_path / "a.db")
    with closing(made.context.store):
        yield made
