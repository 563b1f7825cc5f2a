"""The savings and confidence pages: every state, addresses, hostile names, equal sums, nothing claimed too early."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from core.doors import story
from core.doors.cli import app
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.learn import record_all, reward
from core.flows.settings import change
from core.maths.statistics.savings import Savings
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, RunClass, Usage
from core.records.run_query import View
from core.records.times import DAY_MS
from dashboard.report.document import report
from dashboard.report.facts import gather
from dashboard.report.html import rendered
from dashboard.sentences.money import months_table
from dashboard.sentences.savings import comparison_table, cost_card
from tests.dashboard.conftest import Open, check, said
from tests.dashboard.worlds import HOSTILE, context_at, keys, runs, world

START_MS = 1_790_000_000_000
ARM = Arm(key="tool:other:t0", token_cost=100)


def tables(page: AppTest) -> str:
    return "\n".join(table.value.to_string() for table in page.table)


# Savings


def test_imported_runs_alone_need_baseline_runs_chosen_by_armscope(open_page: Open, database: Path) -> None:
    record_all(context_at(database), runs(keys(4), 30, classes=("imported",)))
    page = open_page("savings")
    assert page.title[0].value.startswith("No run was chosen by armscope yet, so ")
    assert "no saving can be named" in page.title[0].value
    words = said(page)
    assert "Let armscope choose the arms of new runs" in words
    assert "30 imported runs" in words
    assert "about 100 runs at" in words
    assert "A proof takes 30" in words
    assert "± 5 points" not in words, "more imported runs compare nothing"
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
    words = said(page)
    assert "tokens saved is within" in words
    assert "By model :small[:gray[savings of" in words


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


def test_observations_that_no_posterior_counts_are_shown_if_there_are_any(
    open_page: Open, database: Path
) -> None:
    context = world(database, HOSTILE, 20)
    reward(context, HOSTILE[0], 0.5)
    assert "no posterior counts" not in said(open_page("confidence"))


def test_widths_are_counted_exactly(open_page: Open, database: Path) -> None:
    world(database, keys(12), 30)
    page = open_page("confidence", need="Given width", width="0.35")
    assert page.number_input(key="width").value == 0.35
    assert "have an interval of at most 0.35." in said(page)
    for junk in ("7", "-1", "nan", "<b>"):
        page = open_page("confidence", need="Given width", width=junk)
        check(page)
        assert page.number_input(key="width").value == 0.2


def mixed(database: Path, seed: int, *, priced: bool) -> Context:
    """A learner whose groups differ in models, channels, months and known tokens."""
    context, chance = context_at(database), np.random.default_rng(seed)
    if priced:
        change(context, "prices", {"large": {"input": 4, "output": 20}, "mini": 0.8})
        change(context, "currency", "EUR")
    runs = []
    for number in range(int(chance.integers(300, 700))):
        run_class: RunClass = "baseline" if chance.random() < 0.2 else "selected"
        model = "large" if chance.random() < (0.3 if run_class == "baseline" else 0.6) else "mini"
        size = (9_000 if model == "large" else 3_000) * (1.0 if run_class == "baseline" else 0.7)
        tokens = int(size * chance.lognormal(0, 0.3))
        usage = Usage(input=tokens, output=tokens // 9)
        runs.append(
            Run(
                uid=f"run-{number}",
                inventory=Inventory(kind="declared", arms=(ARM,)),
                calls=(Call(name="t0"),),
                run_class=run_class,
                model=model,
                channel=("chat", "mail")[int(chance.random() < 0.3)],
                status="error" if chance.random() < 0.1 else "completed",
                session=f"session-{number // 2}",
                ended_at_ms=START_MS + int(chance.integers(0, 100)) * DAY_MS,
                duration_ms=int(size),
                usage=usage if chance.random() < 0.97 else None,
            )
        )
    record_all(context, runs)
    return context


def number(cell: object) -> float:
    """Return the number of a printed cell."""
    digits = re.search(r"[\d.]+", str(cell).replace("\\", "").replace(",", ""))
    assert digits is not None, cell
    sign = -1.0 if str(cell).startswith(("−", "-")) else 1.0
    return sign * float(digits.group().rstrip(".")) * (1e6 if "million" in str(cell) else 1.0)


def step(cell: object) -> float:
    """Return the rounding of a printed cell: one in its last digit."""
    digits = re.search(r"[\d.]+", str(cell).replace("\\", "").replace(",", ""))
    assert digits is not None, cell
    decimals = len(digits.group().rstrip(".").partition(".")[2])
    return 10.0**-decimals * (1e6 if "million" in str(cell) else 1.0)


def differences_follow(saved: Savings) -> None:
    table = comparison_table(saved)
    for what, base, chosen, shown in zip(*list(table.values())[:4], strict=True):
        if "–" in (base, chosen, shown):
            continue
        low, high = number(base), number(chosen)
        room = (step(base) + step(chosen)) / 2 * 1.01
        if "%" in str(shown):
            assert abs(number(shown) - 100 * (high / low - 1)) <= 0.051 + 100 * room / low * (
                high / low + 1
            ), what
        else:
            scale = 100 if "points" in str(shown) and "%" not in str(base) else 1
            assert abs(number(shown) - (high - low) * scale) <= step(shown) / 2 + room * scale, what


def months_follow(table: dict[str, list[str]]) -> None:
    rows = list(zip(*table.values(), strict=True))
    *months, whole = [row for row in rows if not row[0].startswith("not compared")]
    for _, base, chosen, n, saved in months:
        product = (number(base) - number(chosen)) * number(n)
        room = (step(base) + step(chosen)) / 2 * number(n) + step(saved) / 2
        assert abs(product - number(saved)) <= room * 1.01
    summed = sum(number(row[4]) for row in months)
    assert abs(summed - number(whole[4])) <= step(whole[4]) * (len(months) + 1) / 2 * 1.01
    assert sum(number(row[3]) for row in rows[:-1]) == number(whole[3])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("priced", [False, True])
def test_what_every_door_shows_can_be_multiplied_and_added(
    open_page: Open, database: Path, seed: int, priced: bool
) -> None:
    context = mixed(database, seed, priced=priced)
    saved = queries.savings(context)
    differences_follow(saved)
    months = months_table(saved)
    months_follow(months)
    total = saved.tokens if saved.money is None else saved.money.total
    assert total.saved.value is not None
    assert abs(number(months["saved"][-1]) - total.saved.value) <= step(months["saved"][-1]) * 0.51
    for _, shown, below, _ in cost_card(saved.money):
        base, chosen = (cells[0] for cells in [*comparison_table(saved).values()][1:3])
        assert below == f"of {base}"
        assert abs(number(base) - number(chosen) - number(shown)) <= step(shown) * 1.01
        assert abs(number(shown) * total.n_runs - total.saved.value) <= step(shown) * total.n_runs
        assert "EUR" in shown
    page = open_page("savings")
    cells = {str(cell).replace("\\", "") for table in page.table for cell in table.value.to_numpy().flat}
    assert {cell for column in months.values() for cell in column} <= cells
    text = rendered(report(gather(context, View()))).decode()
    assert all(cell in text for column in months.values() for cell in column)
    answer = story.savings(context, saved)
    done = CliRunner().invoke(app, ["--database", str(database), "savings", "--json"])
    overall, money = json.loads(done.output)["overall"], answer.money
    assert overall["columns"]["tokens"] == list(answer.overall.columns.tokens)
    if priced:
        assert money is not None
        assert money.currency == "EUR"
        assert money.saved is not None
        assert money.baseline_avg is not None
        assert money.selected_avg is not None
        assert (money.baseline_avg - money.selected_avg) * total.n_runs == pytest.approx(money.saved)
