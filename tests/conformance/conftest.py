"""Without the vectors there is nothing to ask; one test says so."""

from __future__ import annotations

from tests.conftest import VECTORS

collect_ignore_glob = (
    []
    if VECTORS.is_dir()
    else ["test_kairos_*.py", "test_openclaw_*.py", "test_qortex_*.py", "test_ors*.py", "test_openreward*.py"]
)
