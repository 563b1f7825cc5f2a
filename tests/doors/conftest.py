"""The world in which the example of every verb makes sense, made once for all doors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.examples import example_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to copy."""
    folder = tmp_path_factory.mktemp("examples")
    example_world(folder).store.close()
    return folder
