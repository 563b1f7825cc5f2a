"""The first screen: the sentence that the data choose, one number for one saving, and the runs behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.flows.settings import change
from core.maths.statistics.savings import Savings, savings
from core.records.run import RunClass
from core.records.run_query import View
from dashboard.report import gather, rendered, report
from dashboard.sentences import gain as gain_sentences
from dashboard.sentences import overview as overview_sentences
from dashboard.sentences import savings as sentences
from tests.dashboard.conftest import Open, texts
from tests.dashboard.worlds import context_at, keys, runs
from tests.worlds.usage import Counted, usage_of

ARMS: Final = keys(8)


def recorded(path: Path, n_runs: int, *classes: RunClass) -> Context:
    context = context_at(path)
    record_all(context, runs(ARMS, n_runs, classes=classes))
    return context


def test_imported_runs_alone_promise_no_arm_a_turn(open_page: Open, database: Path) -> None:
    few = (0, 4, 0, 0, 0)
    assert [
        "tried first" in overview_sentences.bands(few, 5, selects=chooses) for chooses in (False, True)
    ] == [
        False,
        True,
    ]
    recorded(database, 3, "imported")
    shown = "\n".join(texts(open_page()))
    assert "fewer than 5" in shown
    assert "tried first" not in shown


@pytest.mark.parametrize(
    ("n_runs", "classes", "words"),
    [
        (40, ("imported",), ("After 40 runs ", "armscope chose no run yet.")),
        (40, ("selected",), ("No baseline runs yet, so ", "so far 0 baseline runs and 0 selected runs")),
        (24, ("baseline", "selected"), ("Too early to name a saving: ", "an interval takes 10 of each")),
        (400, ("baseline", "selected"), ("choosing arms ", "**Failures: ")),
    ],
    ids=["imported", "no baseline", "no interval", "savings"],
)
def test_the_data_choose_the_first_sentence(
    open_page: Open, database: Path, n_runs: int, classes: tuple[RunClass, ...], words: tuple[str, str]
) -> None:
    recorded(database, n_runs, *classes)
    page = open_page()
    title = re.sub(r":color\[([^\]]*)\]\{[^}]*\}", r"\1", page.title[0].value)
    assert words[0].lower() in title.lower()
    assert words[1].lower() in "\n".join([title, *texts(page)]).lower()
    pictured = [
        chart.proto.alt for chart in page.get("plotly_chart") if chart.proto.alt.endswith("selected runs.")
    ]
    assert bool(pictured) == (n_runs == 400)


def test_a_month_is_named_in_tokens_and_in_money_where_priced(open_page: Open, database: Path) -> None:
    context = recorded(database, 400, "baseline", "selected")
    for priced in (False, True):
        if priced:
            change(context, "prices", {"large": 3, "mini": 1})
        page = open_page()
        (line,) = [one for one in texts(page) if "**November 20" in one]
        assert ("tokens" in line) != priced
        labels = {str(link.proto.label) for link in page.get("page_link")}
        assert ("Set prices" in labels) != priced


def shown(page: AppTest) -> str:
    """All texts of a page: also alternative texts, cards and tables."""
    charts = [chart.proto.alt for chart in page.get("plotly_chart")]
    tables = [str(cell) for table in page.table for cell in table.value.to_numpy().flat]
    cards = [part for card in page.metric for part in (card.value, card.delta)]
    return "\n".join([*texts(page), *charts, *tables, *cards])


def other_roundings(value: float) -> set[str]:
    """Return the ways to write a number of per cent that are not ours."""
    return {format(abs(value), form) for form in (".0f", ".2f")} - {format(abs(value), ".1f")}


def test_one_estimate_has_one_rounding_and_the_same_runs_on_each_page(
    open_page: Open, database: Path
) -> None:
    context = recorded(database, 400, "baseline", "selected")
    shown_first = queries.savings(context).overall.shown
    assert shown_first.value is not None
    assert shown_first.limits is not None
    report_text = rendered(report(gather(context, View()))).decode()
    named = []
    for words in (shown(open_page()), shown(open_page("savings")), report_text):
        named += pairs(words)
        assert f"{abs(shown_first.value):.1f}%" in words
        for number in (shown_first.value, *shown_first.limits):
            for other in other_roundings(number):
                assert not re.search(rf"(?<![\d.]){re.escape(other)}%", words), other
    assert {sum(pair) for pair in named} == {compared_row(queries.savings(context))}


def pairs(words: str) -> list[tuple[int, int]]:
    """Return the numbers of baseline and selected runs that are named together."""
    found = re.findall(r"([\d,]+) baseline runs?(?: \([^)]*\))? and ([\d,]+) selected runs?", words)
    return [(int(a.replace(",", "")), int(b.replace(",", ""))) for a, b in found]


def compared_row(saved: Savings) -> int:
    table = sentences.left_out_table(saved)
    return int(str(table["number"][list(table["runs"]).index("Compared")]))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["baseline", "selected", "passive", "imported"]),
            st.sampled_from(["m", "rare"]),
            st.sampled_from(["completed", "error"]),
            st.one_of(st.none(), st.integers(900, 9_000)),
        ),
        max_size=90,
    )
)
def test_the_runs_beside_an_estimate_add_up_to_those_compared(
    drawn: Sequence[tuple[RunClass, str, str, int | None]],
) -> None:
    counted = [
        Counted(
            run_class=kind, model=model, status="error" if status == "error" else "completed", tokens=tokens
        )
        for kind, model, status, tokens in drawn
    ]
    saved = savings(usage_of(counted), baseline_rate=0.1, n_arms=8)
    total = compared_row(saved)
    words = "\n".join([sentences.savings_numbers(saved), gain_sentences.pending(saved.overall, rate=0.1)])
    assert [sum(pair) for pair in pairs(words)] == [total, total]
    assert total + saved.left_out.total == len(counted)
