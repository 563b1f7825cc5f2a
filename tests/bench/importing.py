"""Importing: a process that does nothing else, and says what memory that took at most.

``python -m tests.bench.importing beside CHECKOUT SOURCE...`` compares CPU times with those of another checkout: the
middle ratio of 30 pairs, and the middle half of the ratios.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from core.errors import ArmscopeError
from core.flows.importing import import_files
from tests.bench.worlds import context_at

_IMPORTER: Final = """
import gc, sys, tempfile, time
from pathlib import Path
sys.path.insert(0, ".")
from core import open_learner
for _ in sys.stdin:
    with tempfile.TemporaryDirectory() as folder, open_learner(Path(folder) / "a.db") as learner:
        gc.collect()
        began = time.process_time()
        learner.import_files(sys.argv[1])
        print(time.process_time() - began, flush=True)
"""


def peak_mb() -> float:
    """Of this program alone: on Linux a child's ``ru_maxrss`` starts at its parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="ascii"))
        if found is not None:
            return int(found[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _as_child(source: str, database: str) -> None:
    context, waits, n_runs = context_at(Path(database)), [0.0], 0
    threading.Thread(target=_wait, args=(waits,), daemon=True).start()
    rest, began = peak_mb(), time.perf_counter()
    try:
        n_runs = import_files(context, [Path(source)]).runs
    except ArmscopeError as error:
        sys.stdout.write(f"{error}\n")
    seconds, peak = time.perf_counter() - began, peak_mb()
    told = {"runs": n_runs, "seconds": seconds, "peak_mb": peak, "rest_mb": rest, "wait_ms": waits[0] * 1000}
    sys.stdout.write(json.dumps(told) + "\n")


def beside(checkout: Path, source: Path, n: int = 30) -> list[float]:
    """Return the sorted ratios of CPU times: of this checkout to another one, in turns, by processes that stay."""
    words, pipe, ratios = [sys.executable, "-c", _IMPORTER, str(source.resolve())], subprocess.PIPE, []
    folders = (checkout, Path(__file__).parents[2])
    children = [subprocess.Popen(words, cwd=one, stdin=pipe, stdout=pipe, text=True) for one in folders]
    for number in range(n + 2):  # two more fill caches and load code
        times = [0.0, 0.0]
        for place in (0, 1) if number % 2 else (1, 0):
            print(file=children[place].stdin, flush=True)
            times[place] = float((children[place].stdout or sys.stdin).readline())
        ratios.append(times[1] / times[0])
    for child in children:
        child.communicate()
    return sorted(ratios[2:])


def _wait(longest: list[float]) -> None:
    """Note the longest time that another thread waits for its turn."""
    while True:
        began = time.perf_counter()
        time.sleep(0.01)
        longest[0] = max(longest[0], time.perf_counter() - began - 0.01)


if __name__ == "__main__":
    if sys.argv[1] == "beside":
        for name in sys.argv[3:]:
            found = beside(Path(sys.argv[2]), Path(name))
            low, _, high = quantiles(found, n=4)
            sys.stdout.write(f"{median(found):.3f} ({low:.3f} to {high:.3f}) {name}\n")
    else:
        _as_child(*sys.argv[1:])
