"""Without the vectors there is nothing to ask; one test says so."""

from __future__ import annotations

from tests.conftest import VECTORS

collect_ignore_glob = (
    []
    if VECTORS.is_dir()
    else [
        f"test_{name}*.py"
        for name in ("kairos_", "openclaw_", "qortex_", "ors", "openreward", "renamed", "foreign_")
    ]
)
