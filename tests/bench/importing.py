"""Importing: a process that does nothing else, and says what memory that took at most."""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from pathlib import Path

from core.flows.importing import import_files
from tests.bench.worlds import context_at


def peak_mb() -> float:
    """Of this program alone: on Linux a child's ``ru_maxrss`` starts at its parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="ascii"))
        if found is not None:
            return int(found[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _as_child(source: str, database: str) -> None:
    began = time.perf_counter()
    n_runs = import_files(context_at(Path(database)), [Path(source)]).runs
    told = {"runs": n_runs, "seconds": time.perf_counter() - began, "peak_mb": peak_mb()}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    _as_child(*sys.argv[1:])
