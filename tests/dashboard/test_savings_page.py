"""The savings and confidence pages: every state, choices in the address, hostile names, nothing claimed too early."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows.corrections import undo
from core.flows.learn import record_all, reward
from core.flows.settings import change
from core.records.arm import Arm
from core.records.run import Inventory, Run
from tests.dashboard.conftest import Open, check, said
from tests.dashboard.worlds import HOSTILE, context_at, keys, runs, world


def tables(page: AppTest) -> str:
    return "\n".join(table.value.to_string() for table in page.table)


# Savings


def test_imported_runs_alone_need_baseline_runs_chosen_by_armscope(open_page: Open, database: Path) -> None:
    record_all(context_at(database), runs(keys(4), 30, classes=("imported",)))
    page = open_page("savings")
    assert page.title[0].value.startswith("No run was chosen by armscope yet, so ")
    assert "no saving can be named" in page.title[0].value
    assert "Let armscope choose the arms of new runs" in said(page)
    assert "30 imported runs" in said(page)
    assert "± 5 points" not in said(page), "more imported runs compare nothing"
    assert page.code[0].value.startswith("armscope ")


def test_unknown_usage_is_counted_and_never_zero(open_page: Open, database: Path) -> None:
    inventory = Inventory(kind="declared", arms=(Arm(key="tool:fs:t"),))
    silent = [
        Run(uid=f"silent-{number}", inventory=inventory, run_class="baseline", model="large", channel="chat")
        for number in range(7)
    ]
    record_all(context_at(database), [*runs(keys(4), 80), *silent])
    page = open_page("savings")
    (left_out,) = [table.value for table in page.table if "why" in table.value]
    assert left_out.set_index("runs")["number"]["Unknown usage"] == 7
    assert "no tokens known, which is not 0" in tables(page)


def test_a_price_brings_money_into_the_words_and_the_picture(open_page: Open, database: Path) -> None:
    context = world(database, keys(4), 400)
    page = open_page("savings")
    assert "No price is set for any of these models" in said(page)
    assert page.button_group(key="unit").options == ["%", "Tokens"]
    priced = change(context, "prices", {"large": 3})
    page = open_page("savings", unit="Money")
    assert page.button_group(key="unit").value == "money"
    assert "At the prices set that is " in said(page)
    assert "No price for mini" in said(page)
    assert any("money saved" in chart.proto.alt for chart in page.get("plotly_chart"))
    undo(context, priced.id or "")
    assert "No price is set for any of these models" in said(open_page("savings"))


def test_the_unit_stands_in_the_address_and_junk_does_not(open_page: Open, database: Path) -> None:
    world(database, keys(4), 80)
    page = open_page("savings", unit="Tokens")
    assert any("Cumulative tokens saved" in chart.proto.alt for chart in page.get("plotly_chart"))
    page = open_page("savings", unit="Money")
    assert page.button_group(key="unit").value == "percent"


def test_the_page_tells_what_was_left_out_and_how_the_coin_fell(open_page: Open, database: Path) -> None:
    world(database, keys(4), 160)
    page = open_page("savings")
    for words in (
        "baseline or selected, tokens known",
        "tokens, mean run",
        "tokens, typical run",
        "duration, s",
        "error rate",
    ):
        assert words in tables(page)
    assert "draw cannot be checked" in said(page), "these runs were recorded without a probability"
    assert "± 5 points" in said(page)


# Confidence


@pytest.mark.parametrize(
    ("need", "title"),
    [
        ("Next band", "Needed for the next band"),
        ("Given width", "Needed for a given width"),
        ("Under-explored", "Under-explored arms"),
    ],
)
def test_what_is_needed_stands_in_the_address(open_page: Open, database: Path, need: str, title: str) -> None:
    world(database, keys(12), 3)
    page = open_page("confidence", need=need)
    assert title in said(page)
    assert "more" in tables(page)


def test_without_rewards_nothing_waits_to_be_read(open_page: Open, database: Path) -> None:
    world(database, keys(3), 10)
    assert "No reward is active in the ledger." in said(open_page("confidence"))


def test_observations_nobody_reads_are_counted_from_the_ledger(open_page: Open, database: Path) -> None:
    context = world(database, HOSTILE, 20)
    reward(context, HOSTILE[0], 0.5)
    page = open_page("confidence")
    assert "Unread observations: **0**." in said(page)
    assert "Of 1 active reward in the ledger, 1 counts now." in said(page)


def test_widths_are_counted_exactly_and_stand_beside_the_documented_ones(
    open_page: Open, database: Path
) -> None:
    world(database, keys(12), 30)
    page = open_page("confidence")
    for words in ("●●○○ medium", "0.15–0.40", "below 0.08"):
        assert words in tables(page)
    page = open_page("confidence", need="Given width", width="0.35")
    assert page.number_input(key="width").value == 0.35
    assert "have an interval of at most 0.35." in said(page)
    for junk in ("7", "-1", "nan", "<b>"):
        page = open_page("confidence", need="Given width", width=junk)
        check(page)
        assert page.number_input(key="width").value == 0.2
