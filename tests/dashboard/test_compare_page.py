"""The page that compares two sets of runs: its conclusion, its numbers, its address, and no data."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from core.explained.runs import ARMS_OF_SIDES
from core.flows import queries
from core.flows.learn import record_all, reward
from core.records.estimate import Estimate
from core.records.run_query import RunSide, View
from dashboard import wording
from dashboard.sentences import compare as sentences
from dashboard.sentences.gain import no_figure
from dashboard.widgets import address
from dashboard.widgets.compare import shift_cell
from dashboard.wording import Words
from tests.dashboard.conftest import Open, check, texts, unfold
from tests.dashboard.worlds import NOON_MS, keys, runs, world

ARMS = keys(5)


def failing(database: Path) -> None:
    """Two models of 200 runs each; the large one fails in a fifth of them."""
    context = world(database, ARMS, 0)
    record_all(
        context,
        [
            msgspec.structs.replace(
                run, status="error" if run.model == "large" and number % 5 == 0 else "completed"
            )
            for number, run in enumerate(runs(ARMS, 400))
        ],
    )


def test_the_title_is_the_conclusion_and_the_tables_are_the_flow_s(open_page: Open, database: Path) -> None:
    failing(database)
    page = open_page("compare", compare_by="Models", model_a="large", model_b="mini")
    answer = queries.compare_sides(world(database, ARMS, 0), RunSide(model="large"), RunSide(model="mini"))
    assert (answer.n_compared, answer.n_different) == (5, 3)
    title = page.title[0].value
    assert title.index("3 arms are") < title.index("fails more often") < title.index("20.0% against")
    assert "−20.0 points" in "\n".join(texts(page))
    assert [one.label for one in page.expander] == [sentences.rest_of(answer, 3)]
    assert not page.dataframe
    (table,) = unfold(page, "other arms").dataframe
    rest = answer.arms[3:]
    assert list(table.value["id"]) == [one.arm for one in rest]
    assert list(table.value["mean A"]) == [one.a.mean for one in rest]
    first = rest[0]
    assert table.value["shift A: α, β"][0] == (
        f"+{first.a.alpha_micro // 10**6}, +{first.a.beta_micro // 10**6}, detector"
    )
    (by_source,) = [one.value for one in unfold(page, "shift by source").dataframe if "source" in one.value]
    assert by_source["side"].tolist()[:2] == ["A", "B"]
    assert set(by_source["source"]) == {"detector"}
    assert by_source["added to α"][0] == f"+{first.a.alpha_micro // 10**6}"


def test_arms_that_differ_are_named_and_pictured_and_the_rest_is_folded(
    open_page: Open, database: Path
) -> None:
    record_all(
        world(database, ARMS, 0),
        [
            msgspec.structs.replace(run, referenced=ARMS if run.model == "large" else ARMS[1:])
            for run in runs(ARMS, 200)
        ],
    )
    page = open_page("compare", compare_by="Models", model_a="large", model_b="mini")
    assert wording.literal(wording.short_name(ARMS[0])) in page.title[0].value
    (chart,) = page.get("plotly_chart")
    assert "1 arm" in chart.proto.alt
    (table,) = unfold(page, "other arms").dataframe
    answer = [
        one.arm
        for one in queries.compare_sides(
            world(database, ARMS, 0), RunSide(model="large"), RunSide(model="mini")
        ).arms
    ]
    assert list(table.value["id"]) == list(answer[1:])


def test_a_shift_of_two_runs_fits_its_column(database: Path) -> None:
    context = world(database, ARMS, 40)
    reward(context, ARMS[0], 1 / 3, run="run-3")
    reward(context, ARMS[0], 0.5, run="run-3", reason="again")
    sides = queries.compare_sides(context, RunSide(run="run-3"), RunSide(run="run-5"))
    cells = [shift_cell(side) for one in sides.arms for side in (one.a, one.b)]
    assert any(cell.endswith("2 sources") for cell in cells)
    assert 6.6 * max(map(len, cells)) + 16 <= ARMS_OF_SIDES.fields["shift_a"].width, (
        "px of a character, and the room at its sides"
    )


def test_the_same_model_twice_shows_no_difference_and_a_change_is_two_spans(
    open_page: Open, database: Path
) -> None:
    world(database, ARMS, 200)
    page = open_page("compare", compare_by="Models", model_a="large", model_b="large")
    assert "No difference is shown" in page.title[0].value
    page = open_page("compare", **address.changed_since(NOON_MS))
    assert not page.exception
    a, b = list(page.table[0].value.columns)[1:]
    assert ("until 19" in a, "since 20" in b) == (True, True)


def test_one_run_against_another(open_page: Open, database: Path) -> None:
    world(database, ARMS, 40)
    page = open_page("compare", compare_by="Runs", run_a="run-3", run_b="run-5")
    assert "Neither run failed" in page.title[0].value
    answer = queries.compare_sides(world(database, ARMS, 0), RunSide(run="run-3"), RunSide(run="run-5"))
    for side in (answer.a, answer.b):
        assert f"{side.tokens:,} in run" in page.title[0].value
    table = page.dataframe[0].value
    assert len(table) == len(ARMS)
    assert list(table["in prompts A"]) == ["in" if one.a.n_in else "out" for one in answer.arms]
    assert list(table["in prompts B"]) == ["in" if one.b.n_in else "out" for one in answer.arms]
    unknown = open_page("compare", compare_by="Runs", run_a="run-3", run_b="nobody")
    assert "no such run" in unknown.title[0].value


@pytest.mark.parametrize(
    "parameters",
    [
        {"compare_by": "nothing"},
        {"compare_by": "Runs"},
        {"compare_by": "Spans", "a_from": "2026-01-01", "a_to": "2025-01-01"},
        {"compare_by": "Spans", "a_from": "soon"},
        {"model_a": "<script>"},
    ],
)
def test_it_shows_something_for_any_address(
    open_page: Open, database: Path, parameters: dict[str, str]
) -> None:
    world(database, ARMS, 40)
    page = open_page("compare", **parameters)
    assert not page.exception
    assert page.title[0].value


def bill(page: AppTest) -> dict[str, list[str]]:
    """Rows of the small table by their heads."""
    (table,) = page.table
    heads, a, b = (table.value[name].tolist() for name in table.value.columns)
    return {head: [one, other] for head, one, other in zip(heads, a, b, strict=True)}


def test_the_bill_has_the_savings_of_both_sides_or_what_is_missing(open_page: Open, database: Path) -> None:
    context = world(database, ARMS, 400)
    cells = bill(open_page("compare", compare_by="Models", model_a="large", model_b="mini"))["tokens saved"]
    for cell, model in zip(cells, ("large", "mini"), strict=True):
        shown = queries.savings(context, View(models=(model,))).overall.shown
        assert shown.value is not None
        assert shown.limits is not None
        limits = wording.percent_interval(*shown.limits)
        assert cell == f"{wording.percent(shown.value / 100)} ({limits})"
    words = "\n".join(texts(open_page("compare", compare_by="Models", model_a="large", model_b="mini")))
    assert "cost a run are means" in words
    assert "Tokens saved: the intervals" in words
    single = bill(open_page("compare", compare_by="Runs", run_a="run-3", run_b="run-5"))["tokens saved"]
    assert not any("%" in one for one in single)


def test_without_baseline_runs_no_saving_is_named(open_page: Open, database: Path) -> None:
    context = world(database, ARMS, 0)
    record_all(context, runs(ARMS, 200, classes=("selected",)))
    cells = bill(open_page("compare", compare_by="Models", model_a="large", model_b="mini"))["tokens saved"]
    assert cells == [no_figure(queries.savings(context).overall)] * 2


def test_pages_of_arms_are_the_flow_s_order(open_page: Open, database: Path) -> None:
    context = world(database, keys(120), 8)
    answer = queries.compare_sides(context, RunSide(model="large"), RunSide(model="mini"), limit=1_000)
    page = open_page("compare", compare_by="Models", model_a="large", model_b="mini")
    unfold(page, "other arms")
    ids = list(page.dataframe[0].value["id"])
    assert len(ids) == 50
    for _ in range(2):
        next(one for one in page.button if one.label == "More arms").click()
        page.run()
        ids += list(page.dataframe[0].value["id"])
    assert ids == [one.arm for one in answer.arms]
    assert next(one for one in page.button if one.label == "More arms").disabled
    next(one for one in page.button if one.label == "First arms").click()
    page.run()
    assert list(page.dataframe[0].value["id"]) == ids[:50]


@pytest.mark.parametrize("start", ["-1", "7", "100000000000", "x", "50"])
def test_a_position_beyond_the_arms_is_the_first_page(open_page: Open, database: Path, start: str) -> None:
    world(database, ARMS, 8)
    page = open_page("compare", compare_by="Models", model_a="large", model_b="mini", arms_from=start)
    check(unfold(page, "other arms"))
    assert len(page.dataframe[0].value) == len(ARMS)


def test_an_empty_learner_and_one_model_say_what_is_missing(open_page: Open, database: Path) -> None:
    assert not open_page("compare").exception
    record_all(world(database, ARMS, 0), [msgspec.structs.replace(runs(ARMS, 1)[0], model="one")])
    assert open_page("compare", compare_by="Models").title[0].value.startswith("Name two sides")


@given(*[st.tuples(st.floats(-90, 90), st.floats(0.1, 40)) for _ in "ab"])
def test_a_difference_of_savings_is_shown_where_the_intervals_are_apart(
    a: tuple[float, float], b: tuple[float, float]
) -> None:
    sides = [Estimate(value=at, lower=at - half, upper=at + half) for at, half in (a, b)]
    words = sentences.apart(Words("Tokens saved"), *sides)
    assert ("no difference" in words) == (abs(a[0] - b[0]) <= a[1] + b[1])
    assert "no difference" in words or ("A saves more" in words) == (a[0] > b[0])
