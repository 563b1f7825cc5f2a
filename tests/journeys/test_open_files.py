"""A system that grants few file handles: every page is answered, however many were opened and closed before."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

from tests.bench.visitor import Visitor
from tests.journeys.server import serving
from tests.journeys.world import ARMS, run_lines

N_HANDLES = 96
N_LOADS = 100


def test_many_pages_are_answered_with_few_handles(tmp_path: Path) -> None:
    with serving(tmp_path, run_lines(ARMS, 10), n_handles=N_HANDLES) as server:
        for _ in range(N_LOADS):
            with urlopen(server.url, timeout=20) as page:
                assert page.status == 200
            with Visitor(server.url, "posteriors"):  # fails where the page is not drawn
                pass
    assert "Too many open files" not in (tmp_path / "serve.log").read_text()
