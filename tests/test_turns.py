"""Turns of slow tests: each test has one, all take about as long, and the table names what is there."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.turns import N_TURNS, ROOT, measured, slow, turns


def test_the_table_names_functions_that_are_there() -> None:
    missing = [
        name
        for name in slow()
        for path, _, function in [name.partition("::")]
        if not re.search(rf"def {function}\b", (ROOT / path).read_text() if (ROOT / path).is_file() else "")
    ]
    assert missing == [], "take their rows out of tests/turns.json, or rename them there"


@given(st.dictionaries(st.text(), st.floats(0, 100)))
def test_each_function_has_a_turn_and_turns_differ_by_one_function_at_most(seconds: dict[str, float]) -> None:
    found = turns(seconds)
    totals = [sum(seconds[name] for name, own in found.items() if own == turn) for turn in range(N_TURNS)]
    assert found.keys() == seconds.keys()
    assert max(totals) - min(totals) <= max(seconds.values(), default=0) + 1e-6


def test_seconds_of_variants_add_up(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    case = '<testcase classname="tests.test_turns" name="test_a[{}]" time="{}"/>'
    others = (
        '<testcase classname="tests.test_turns" name="test_b" time="1.1"/><testcase name="test_c" time="9"/>'
    )
    report.write_text(f"<testsuite>{case.format(1, 1.5)}{case.format(2, 0.75)}{others}</testsuite>")
    assert measured(report) == {"tests/test_turns.py::test_a": 2.2}
