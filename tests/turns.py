"""Turns of slow tests: the check of a commit runs an eighth of them, and those of eight commits in a row run all.

``turns.json`` has the seconds of each slow function of tests. To renew it::

    python -m pytest -n 4 --dist loadfile --every-test -o junit_duration_report=call --junitxml=REPORT
    python -m tests.turns REPORT
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = Path(__file__).with_name("turns.json")
N_TURNS: Final = 8
_SLOW_S: Final = 1.2
_EVERY_COMMIT: Final = (
    "tests/test_architecture.py",
    "tests/test_language.py",
    "tests/test_readme.py",
    "tests/test_wording.py",
    "tests/store/test_marks.py",
)
"""What nearly every commit may break."""


def slow() -> dict[str, float]:
    """Return the seconds of slow functions by their file and name, such as ``tests/test_a.py::test_b``."""
    table: dict[str, float] = json.loads(TABLE.read_text())
    return table


def turns(seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the turn of each function, from 0: the turns take about as long as each other."""
    totals, found = [0.0] * N_TURNS, dict[str, int]()
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        found[name] = totals.index(min(totals))
        totals[found[name]] += seconds[name]
    return found


def turn_of_commit() -> int:
    """Return the turn of the present commit, by the number of commits before it."""
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(counted.stdout or 0) % N_TURNS


def is_of_all(config: pytest.Config) -> bool:
    """Return whether pytest runs all folders, and so leaves out the tests whose turn it is not."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.every_test


def divided(items: Sequence[pytest.Item], turn: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests of a turn with those of every turn, and the others."""
    of_function = turns(slow())
    kept, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        own = of_function.get(_function(item.nodeid), turn)
        (kept if own == turn else left).append(item)
    return kept, left


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def measured(report: Path) -> dict[str, float]:
    """Return the seconds of slow functions by a report of pytest in the form of JUnit."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        path, name = case.get("classname", "").replace(".", "/") + ".py", case.get("name", "")
        if (ROOT / path).is_file() and path not in _EVERY_COMMIT:
            seconds[_function(f"{path}::{name}")] += float(case.get("time", 0))
    return {name: round(took, 1) for name, took in sorted(seconds.items()) if took >= _SLOW_S}


if __name__ == "__main__":
    TABLE.write_text(json.dumps(measured(Path(sys.argv[1])), indent=1) + "\n")
