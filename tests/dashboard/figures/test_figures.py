"""Figures through their data: what is drawn, what it says to those who can't see it, what it costs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.columns import ArmColumns
from core.maths.statistics.confidence import confidence
from core.maths.statistics.savings import Savings, savings
from core.maths.statistics.summary import Summary, summarise
from core.records.arm import ARM_TYPES
from dashboard import wording
from dashboard.figures import theme
from dashboard.figures.arms import METHODS, ArmRow, Method, notable, ordered, rows
from dashboard.figures.bands import bands_by_type
from dashboard.figures.chart import Chart
from dashboard.figures.densities import MAX_OTHERS, before_after, curve, densities, sample
from dashboard.figures.distributions import distributions, smoothed
from dashboard.figures.ladder import ladder
from dashboard.figures.savings_time import savings_time
from dashboard.figures.strata import strata
from dashboard.figures.theme import DARK, LIGHT, SELECTS, THEMES, Tokens
from dashboard.figures.worth import Worth, worth
from tests.conftest import ROOT
from tests.dashboard.worlds import HOSTILE, keys
from tests.worlds.columns import arms
from tests.worlds.usage import Counted, usage_of

FORBIDDEN = ("<script", "%{x}", "<b>bold")
APART = {"theme.py", "svg.py"}
FIGURES = sorted(one for one in (ROOT / "dashboard" / "figures").glob("*.py") if one.name not in APART)
OVER_DAYS = {"savings_time.py", "evidence.py", "path.py"}
_AXES = ("xaxis", "yaxis")


def columns_of(names: tuple[str, ...], pulls: list[int], successes: list[int]) -> ArmColumns:
    """Return arms with a uniform prior and these counts, sorted by id as the store hands them out."""
    rows = sorted(zip(names, pulls, successes, strict=True))
    return arms(
        [name for name, _, _ in rows],
        successes=[good for _, _, good in rows],
        failures=[n - good for _, n, good in rows],
        costs=[100] * len(rows),
    )


def _arms(names: tuple[str, ...]) -> tuple[ArmColumns, Summary]:
    pulls = [3 + 11 * at % 97 for at in range(len(names))]
    columns = columns_of(names, pulls, [pull * (at % 7) // 7 for at, pull in enumerate(pulls)])
    return columns, summarise(columns)


def _rows(n_arms: int, method: Method = "exact") -> tuple[ArmRow, ...]:
    columns, summary = _arms(keys(n_arms))
    return rows(columns, summary, range(n_arms), method=method)


def _savings(model: str = "large") -> Savings:
    runs = [
        Counted(
            run_class="baseline" if number % 5 == 0 else "selected",
            tokens=(18_000 if number % 5 == 0 else 11_000) + 97 * (number % 40),
            hour=24 * (number // 10) + 480_000,
            model=(model, "mini")[number % 2],
            channel=("chat", "cron")[number // 2 % 2],
            duration_ms=1_000 + number % 9,
            prob=0.25,
        )
        for number in range(200)
    ]
    return savings(usage_of(runs), baseline_rate=0.25, n_arms=12)


def _worths(names: tuple[str, ...]) -> tuple[Worth, ...]:
    return tuple(
        Worth(
            key=name,
            type=wording.type_of(name),
            n=(at, len(names)),
            tokens=None if at % 4 == 3 else 10 ** (1 + at % 3),
            break_even=50.0,
            may_go=at % 2 == 0,
            chance=None,
            verdict="harms" if at == 1 else "",
        )
        for at, name in enumerate(names)
    )


def _all(look: Tokens, *, compact: bool, names: tuple[str, ...]) -> dict[str, Chart]:
    columns, summary = _arms(names)
    shown = rows(columns, summary, range(min(len(names), 12)))
    known = confidence(columns, summary)
    saved = _savings(model="<script>%{x}<b>bold")
    first = shown[0]
    return {
        "densities": densities(shown, [(2.0, 3.0), (5.0, 1.0)], look, compact=compact),
        "ladder": ladder(shown, look, compact=compact),
        "worth": worth(_worths(names), look, compact=compact),
        "types": bands_by_type(known.by_type, look),
        "distributions": distributions(saved, look, compact=compact),
        "time": savings_time(saved.over_time, look, compact=compact),
        "strata": strata(saved, look, compact=compact),
        "before_after": before_after(first.key, first.type, (2.0, 3.0), (2.0, 4.0), look),
    }


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("look", THEMES.values(), ids=list(THEMES))
def test_every_figure_has_words_a_table_and_is_deterministic(look: Tokens, compact: bool) -> None:
    first = _all(look, compact=compact, names=keys(10))
    again = _all(look, compact=compact, names=keys(10))
    for name, figure in first.items():
        assert figure.alt.endswith(".")
        assert len(figure.alt) > 20
        lengths = {len(cells) for cells in figure.table.values()}
        assert len(lengths) == 1
        assert lengths != {0}
        assert figure.figure.to_json() == again[name].figure.to_json(), name


def _texts(figure: Chart) -> list[str]:
    """Every string that Plotly reads as its pseudo-HTML."""
    notes = figure.figure.layout.to_plotly_json().get("annotations", [])
    found: list[str] = [line for note in notes for line in note["text"].split("<br>")]
    for trace in figure.figure.to_dict()["data"]:
        for field in ("text", "hovertext", "name", "hovertemplate"):
            value = trace.get(field, [])
            found += [value] if isinstance(value, str) else [str(one) for one in value]
    return found


def test_hostile_names_reach_plotly_escaped() -> None:
    for name, figure in _all(LIGHT, compact=False, names=HOSTILE).items():
        for text in _texts(figure):
            assert not any(foreign in text for foreign in FORBIDDEN), (name, text)
            assert len(text) < 400


def test_numbers_travel_in_four_bytes() -> None:
    for name, figure in _all(DARK, compact=False, names=keys(10)).items():
        if name in {"bands", "types"}:
            continue
        for trace in figure.figure.data:
            assert np.asarray(trace["x"]).dtype == np.float32, name


@pytest.mark.parametrize("n_arms", [1, 9, 12])
def test_chosen_arms_keep_their_height_and_traces_stay_few(n_arms: int) -> None:
    arms = _rows(n_arms)
    drawn = densities(arms, [(2.0, 3.0)] * 40, LIGHT)
    figure, top = drawn.figure, drawn.figure.layout.yaxis.range[1]
    tallest = max(curve(row.alpha, row.beta)[1].max() for row in arms)
    assert top >= (np.sqrt(tallest) if any("square roots" in text for text in _texts(drawn)) else tallest)
    assert len(figure.data) <= 20
    greys = [trace for trace in figure.data if trace["line"]["color"] == LIGHT.other_arms]
    assert len(greys) == 1
    assert int(np.isnan(greys[0]["y"]).sum()) == 39


@pytest.mark.parametrize("method", METHODS)
def test_shades_stay_between_the_limits(method: Method) -> None:
    arms = _rows(5, method)
    fills = [trace for trace in densities(arms, [], LIGHT).figure.data if trace["fill"] == "tozeroy"]
    assert len(fills) == 5
    by_type = sorted(arms, key=lambda row: ARM_TYPES.index(row.type))
    for row, trace in zip(by_type, fills, strict=True):
        assert np.float32(row.lower) <= trace["x"].min()
        assert trace["x"].max() <= np.float32(row.upper)
        assert trace["y"][0] == trace["y"][-1] == 0


def test_every_row_has_its_number_at_a_peak_and_a_line_beside_the_ladder() -> None:
    arms = _rows(12)
    lines = _texts(densities(arms, [], LIGHT))
    for number in range(1, 13):
        assert sum(f"<b>{number}</b>" in line for line in lines) == 2
    columns = [note.text.split("<br>") for note in ladder(arms, LIGHT).figure.layout.annotations]
    assert [len(lines) for lines in columns] == [12, 12, 12]
    for row, name, mean, limits in zip(arms, *columns, strict=True):
        assert wording.plot_literal(wording.short_name(row.key)) in name
        assert wording.mean(row.mean) in mean
        assert wording.interval(row.lower, row.upper) in limits


def test_a_density_with_infinite_ends_is_drawn_without_them() -> None:
    x, height = curve(0.5, 0.5)
    assert np.isfinite(height).all()
    assert 0 < x.min() < x.max() < 1


def test_the_grey_rest_is_a_sample_that_does_not_depend_on_order() -> None:
    pairs = [(1.0 + at % 13, 1.0 + at % 29) for at in range(5_000)]
    assert len(sample(pairs)) == MAX_OTHERS
    assert sample(pairs) == sample(list(reversed(pairs)))


def test_rows_are_ordered_by_every_key() -> None:
    columns, summary = _arms(keys(20))
    everyone = np.arange(20)
    means = summary.mean[ordered(columns, summary, everyone, "mean")]
    assert (np.diff(means) <= 0).all()
    assert (np.diff(summary.width[ordered(columns, summary, everyone, "width")]) >= 0).all()
    assert (np.diff(columns.pulls[ordered(columns, summary, everyone, "pulls")]) <= 0).all()
    kinds = [columns.types[int(at)] for at in ordered(columns, summary, everyone, "type")]
    assert kinds == sorted(kinds, key=["tool", "skill", "file", "memory", "section"].index)


@pytest.mark.parametrize("n_arms", [1, 5, 500])
def test_what_needs_a_look_is_drawn_first_and_then_the_best(n_arms: int) -> None:
    columns, summary = _arms(keys(n_arms))
    worst = np.argsort(-summary.rank)[: max(n_arms // 5, 1)]
    flagged = [columns.keys[int(at)] for at in worst if columns.types[int(at)] != "section"]
    chosen = notable(columns, summary, flagged).tolist()
    assert len(set(chosen)) == len(chosen) <= min(n_arms, 9)
    drawn = {columns.keys[at] for at in chosen}
    assert {columns.keys[at] for at in chosen[:4]} >= set(flagged[:4])
    best = [
        at for at in np.argsort(summary.rank) if columns.pulls[at] >= 20 and columns.types[at] != "section"
    ]
    plain = [columns.keys[int(at)] for at in best if columns.keys[int(at)] not in flagged]
    n_best = len([key for key in plain if key in drawn])
    assert drawn >= set(plain[:n_best])
    assert n_best >= min(len(plain), 9 - min(len(flagged), 4))


def test_arms_nobody_pulled_can_still_be_shown() -> None:
    columns = columns_of(keys(3), [0, 0, 0], [0, 0, 0])
    assert len(notable(columns, summarise(columns))) == 3


def test_arms_that_may_go_out_have_the_colours_of_their_types() -> None:
    rows_of = _worths(keys(12))
    figure = worth(rows_of, LIGHT)
    grey = [trace for trace in figure.figure.data if trace["marker"]["color"] == LIGHT.other_arms]
    stay = {at for trace in grey for at in trace["customdata"]}
    assert stay == {at for at, row in enumerate(rows_of) if not row.may_go}
    assert list(figure.table["may go out"]).count("yes") == len(rows_of) - len(stay)
    assert "unknown" in figure.figure.layout.xaxis.ticktext


def test_the_strata_begin_with_all_runs() -> None:
    figure = strata(_savings(), LIGHT)
    ways = ["mean run", "typical run", "up to the cap"]
    assert figure.table["runs"] == [*ways, "large", "mini", "chat", "cron"]
    assert figure.figure.layout.xaxis.range[0] <= 0


def test_savings_break_where_they_cannot_be_computed() -> None:
    path = _savings().over_time
    line = next(trace for trace in savings_time(path, LIGHT).figure.data if trace["connectgaps"] is False)
    assert len(line["y"]) == len(path.day)
    assert np.array_equal(np.isnan(line["y"]), np.isnan(path.saved_percent))


def test_smoothing_keeps_the_mean_in_place() -> None:
    spread = _savings().distribution
    x = np.linspace(1, float(spread.upper[-1]) * 2, 4_000)
    height = smoothed(spread, spread.n_selected, x)
    centre = float((x * height).sum() / height.sum())
    assert abs(centre - 12_900) / 12_900 < 0.06
    assert smoothed(spread, spread.n_selected * 0, x).max() == 0


def test_before_and_after_name_both_means_and_a_known_arm_is_magnified() -> None:
    notes: Sequence[Any] = before_after(
        "tool:fs:t0", "tool", (10.0, 9.0), (10.0, 10.0), DARK
    ).figure.layout.annotations
    assert [note.text for note in notes] == ["<b>after 0.50</b>", "before 0.53"]
    drawn = before_after("tool:a:b", "tool", (793.0, 563.0), (793.0, 564.0), LIGHT)
    low, high = drawn.figure.layout.xaxis.range
    assert 0.45 < low < 0.585 < high < 0.72
    assert "magnified" in drawn.figure.layout.xaxis.title.text
    whole = before_after("tool:a:b", "tool", (2.0, 3.0), (2.0, 4.0), LIGHT).figure.layout.xaxis
    assert tuple(whole.range) == (0, 1)


def test_a_planted_value_is_marked_and_told() -> None:
    columns, summary = _arms(keys(3))
    arms = rows(columns, summary, [0, 1], truth={columns.keys[0]: 0.42})
    figure = ladder(arms, LIGHT)
    strokes = [trace for trace in figure.figure.data if trace["marker"]["symbol"] == "line-ns-open"]
    assert [float(trace["x"][0]) for trace in strokes] == [pytest.approx(0.42)]
    assert any(f"planted value {wording.mean(0.42)}" in text for text in _texts(figure))


def test_one_tall_curve_does_not_press_the_others_flat() -> None:
    """Beside a curve of thousands of pulls the others keep a height one can read, and the picture says how."""
    columns = columns_of(keys(5), [20_000, 9, 11, 12, 10], [10_000, 4, 5, 6, 4])
    arms = rows(columns, summarise(columns), range(5))
    drawn = densities(arms, [], LIGHT)
    tops = [float(np.nanmax(trace["y"])) for trace in drawn.figure.data if trace["line"]["width"] == 2.2]
    assert min(tops) > max(tops) / 8
    assert any("square roots" in text for text in _texts(drawn))
    alike = densities(arms[:4], [], LIGHT)  # by id, the tall one last
    assert not any("square roots" in text for text in _texts(alike))


def _names(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _axes(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the value of each axis that a layout gets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _names(node.func) == "layout":
            yield from (one.value for one in node.keywords if one.arg and one.arg.startswith(_AXES))


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_only_the_theme_decides_what_a_drag_does(path: Path) -> None:
    source = path.read_text("utf-8")
    assert not {"dragmode", "fixedrange", "selectdirection"} & set(source.split('"')), path.name
    tree = ast.parse(source)
    assert ("SELECTS" in source) == (path.name in OVER_DAYS), path.name
    for value in _axes(tree):
        made = {_names(one.func) for one in ast.walk(value) if isinstance(one, ast.Call)}
        assert any(name.endswith("axis") for name in made), (path.name, ast.unparse(value))


def test_a_layout_lets_nothing_move_and_an_axis_is_fixed() -> None:
    layout = theme.layout(LIGHT, height=1, margin=(0, 0, 0, 0))
    assert layout["dragmode"] is False
    assert theme.axis(LIGHT)["fixedrange"] is True
    assert theme.probability_axis(LIGHT)["fixedrange"] is True
    assert dict(SELECTS) == {"dragmode": "select", "selectdirection": "h"}
    assert theme.CONFIG["scrollZoom"] is False
    assert theme.CONFIG["doubleClick"] is False


@pytest.mark.parametrize("compact", [False, True])
def test_drawn_figures_are_fixed(compact: bool) -> None:
    for name, chart in _all(LIGHT, compact=compact, names=keys(10)).items():
        layout = chart.figure.to_dict()["layout"]
        modes = layout["dragmode"], layout.get("selectdirection")
        assert modes == (("select", "h") if name == "time" and not compact else (False, None)), name
        axes = {key: axis["fixedrange"] for key, axis in layout.items() if key.startswith(_AXES)}
        assert len(axes) >= 2, name
        assert all(axes.values()), (name, axes)
