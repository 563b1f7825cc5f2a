"""Pages after a compaction: one line names the deleted runs, and the address of one says when it went."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import UnknownRun
from core.flows import queries
from core.flows.compact import compact
from tests.dashboard.conftest import Open, texts
from tests.dashboard.worlds import NOON_MS, keys, world


def test_pages_name_the_deleted_runs_once(open_page: Open, database: Path) -> None:
    context = world(database, keys(3), 60)
    pages = ("arm", "runs", "sessions")

    def words(name: str) -> str:
        return " ".join(texts(open_page(name, arm=keys(3)[0]) if name == "arm" else open_page(name)))

    for name in pages:
        assert "compact deleted" not in words(name)
    assert compact(replace(context, clock=lambda: NOON_MS), keep_days=1).runs == 36
    for name in pages:
        assert words(name).count("compact deleted 36") == 1, name
    with pytest.raises(UnknownRun):
        queries.run(context, "run-0")
    assert "deleted by compact on" in " ".join(texts(open_page("run", run="run-0")))
