"""The heat map through its data: marks and grounds, hovers of hostile ids, columns marked, bounded."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from core.columns import Bools
from core.maths.statistics.heatmap import Heatmap, heatmap
from core.records.arm import ArmType, arm_type
from core.records.evidence import Outcome
from core.records.run import RunClass
from core.records.run_page import RunRow
from dashboard.figures import heatmap as figure
from dashboard.figures.chart import Chart
from dashboard.figures.theme import DARK, LIGHT, Tokens
from tests.dashboard.worlds import HOSTILE, NOON_MS, keys

OUTCOMES: tuple[Outcome, ...] = ("observed", "conversational", "observed", "error")
CLASSES: tuple[RunClass, ...] = ("selected", "baseline", "passive", "imported")


def world(arms: tuple[str, ...], n_runs: int) -> tuple[Heatmap, list[RunRow]]:
    """Cells in all states, and their runs newest first."""
    flags = [0, 1, 5, 7, None]
    named = [
        (at, run, flag)
        for at in range(len(arms))
        for run in range(n_runs)
        if (flag := flags[(at + run) % 5]) is not None
    ]
    kinds: tuple[ArmType, ...] = tuple(arm_type(key) for key in arms)
    cells = heatmap(
        arms,
        kinds,
        tuple(range(100, 100 + n_runs)),
        run=np.array([run for _, run, _ in named], dtype=np.int64),
        arm=np.array([at for at, _, _ in named], dtype=np.int64),
        flags=np.array([flag for *_, flag in named], dtype=np.int64),
        hand_run=np.array([0, n_runs - 1]),
        hand_arm=np.array([0, 0]),
        hand_reward_micro=np.array([250_000, 0]),
        n_rest=3,
    )
    rows = [
        RunRow(
            run_no=100 + run,
            uid=f"r{run}",
            at_ms=None,
            model=None,
            channel=None,
            run_class=CLASSES[run % 4],
            status="completed",
            outcome=OUTCOMES[run % 4],
            tokens=None,
            n_arms=1,
            n_referenced=0,
            duration_ms=None,
            n_calls=0,
        )
        for run in range(n_runs)
    ]
    return cells, rows[::-1]


@pytest.mark.parametrize(
    ("hours", "first", "last"), [(30, "20 Nov", "29 Nov"), (1, "12:00<br>20 Nov", "19:00<br>20 Nov")]
)
def test_columns_are_named_by_when_their_runs_ended(hours: int, first: str, last: str) -> None:
    """Not by their numbers, which of imported runs are in no order of time."""
    cells, runs = world(keys(3), 8)
    timed = [run._replace(at_ms=NOON_MS + (7 - at) * hours * 3_600_000) for at, run in enumerate(runs)]
    ticks = figure.heatmap(cells, timed, LIGHT).figure.layout.xaxis.ticktext
    assert (ticks[0], ticks[-1]) == (first, last)
    assert figure.heatmap(cells, runs, LIGHT).figure.layout.xaxis.ticktext[0] == "run 100"


def traces(drawn: Chart) -> list[Any]:
    """Grounds, glyphs, heads, marks: their arrays as they were made."""
    return list(drawn.figure.data)


def middles(image: dict[str, Any], n_rows: int, n_columns: int) -> dict[str, set[tuple[float, float]]]:
    """Column and row of each mark in the picture, by its ink."""
    assert (image["sizex"], image["sizey"], image["x"], image["y"]) == (n_columns, n_rows, -0.5, -0.5)
    drawn = ElementTree.fromstring(b64decode(image["source"].partition(",")[2]))
    wide, high = (float(size) for size in drawn.attrib["viewBox"].split()[2:])
    return {
        path.attrib["stroke"]: {
            (round(float(x) / wide * n_columns - 0.5, 3), round(float(y) / high * n_rows - 0.5, 3))
            for x, y in re.findall(r"M([\d.]+) ([\d.]+)m", path.attrib["d"])
        }
        for path in drawn
    }


def places(wanted: Bools) -> set[tuple[float, float]]:
    """Column and row of each cell that is wanted."""
    return {(float(column), float(row)) for row, column in np.argwhere(wanted)}


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_every_cell_has_its_ground_and_its_mark(look: Tokens) -> None:
    cells, runs = world(keys(7), 9)
    drawn = figure.heatmap(cells, runs, look)
    grounds, glyphs, heads, diamonds, targets = traces(drawn)
    state, by_hand = cells.state, ~np.isnan(cells.by_hand)
    assert np.array_equal(np.isnan(grounds["z"]), state < 2)
    assert [colour for _, colour in grounds["colorscale"][::2]] == [
        look.heat_unjudged,
        look.heat_penalised,
        look.heat_rewarded,
    ]
    inks = {look.guide: 1, look.text: 2, look.muted: 3}
    found = middles(drawn.figure.to_dict()["layout"]["images"][0], *state.shape)
    assert {inks[ink] for ink in found} == {1, 2, 3}
    for ink, marks in found.items():
        assert marks == places((state == inks[ink]) & ~by_hand)
    assert set(zip(diamonds["x"], diamonds["y"], strict=True)) == places(by_hand)
    assert set(zip(targets["x"], targets["y"], strict=True)) == places((state > 0) | by_hand)
    assert list(glyphs["marker"]["symbol"]) == [look.types[kind].symbol for kind in cells.types]
    assert list(heads["text"]) == ["B–", "P", "–", "B–", "P", "–"]


def test_a_click_tells_the_run() -> None:
    cells, runs = world(keys(3), 5)
    marks = traces(figure.heatmap(cells, runs, LIGHT))[-1]
    assert [100 + int(x) for x in marks["x"]] == [int(number) for number in marks["customdata"]]


def test_hovers_of_hostile_ids_are_text() -> None:
    cells, runs = world(HOSTILE, 6)
    drawn = figure.heatmap(cells, runs, LIGHT)
    told = "".join(traces(drawn)[-1]["hovertext"]) + str(drawn.figure.to_dict()["layout"]["annotations"])
    for foreign in ("<script", "%{x}", "<b>bold", "$\\alpha"):
        assert foreign not in told
    assert "by hand: 0.25" in told
    assert told.count("by hand") == 2


def test_on_a_phone_the_newest_runs_remain() -> None:
    cells, runs = world(keys(4), 40)
    drawn = figure.heatmap(cells, runs, LIGHT, compact=True)
    assert traces(drawn)[0]["z"].shape == (4, figure.COMPACT_RUNS)
    assert drawn.figure.to_dict()["layout"]["xaxis"]["ticktext"][-1] == "run 139"


def test_it_says_the_same_in_words_and_as_a_table() -> None:
    cells, runs = world(keys(4), 10)
    drawn = figure.heatmap(cells, runs, LIGHT)
    assert "4 arms in 10 runs" in drawn.alt
    assert "8 in and referenced: 1" in drawn.alt
    assert "by hand 2" in drawn.alt
    table = drawn.table
    assert list(table["arm"]) == list(cells.keys)
    assert sum(table["in and referenced: 1"]) == cells.count("rewarded")  # type: ignore[arg-type] # counts


def test_the_same_runs_are_drawn_the_same() -> None:
    cells, runs = world(keys(6), 20)
    one, other = (figure.heatmap(cells, runs, LIGHT).figure.to_json() for _ in range(2))
    assert one == other


def test_one_run_and_no_arm_are_drawn_too() -> None:
    cells, runs = world(keys(1), 1)
    assert traces(figure.heatmap(cells, runs, LIGHT))
    assert traces(figure.heatmap(_empty(), [], LIGHT))


def _empty() -> Heatmap:
    none = np.array([], dtype=np.int64)
    return heatmap(
        (), (), (), run=none, arm=none, flags=none, hand_run=none, hand_arm=none, hand_reward_micro=none
    )
