"""Runs and run, as a browser would open them: filters and places in the address, every kind of run, hostile ids."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import UnknownRun
from core.flows import queries
from core.flows.compact import compact
from core.flows.corrections import undo
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from core.records.run import Call
from dashboard.widgets.run.story import WHY_FOLD
from tests.dashboard.conftest import Open, check, heads, is_text_only, said, texts, unfold
from tests.dashboard.worlds import HOSTILE, NOON_MS, context_at, keys, world
from tests.worlds import chosen_among, lines_file, run_line

JUNK = "<script>alert(1)</script>"
CONTENT_PX = 1_160
"""Width of a page's content in a window of 1,280 pixels."""


def select_one(path: Path, arms: tuple[str, ...], uid: str = "chosen") -> tuple[str, ...]:
    """Record a selected run whose budget is too small for all arms; return the arms in its prompt."""
    context = context_at(path)
    change(context, "baseline_rate", 0.0)
    offered = [Arm(key=key, token_cost=50 + 10 * at) for at, key in enumerate(arms)]
    chosen = select(context, offered, budget_tokens=200)
    record(
        context,
        chosen_among(uid, chosen, offered, calls=(Call(name="t0"),)),
    )
    return chosen.included


def test_the_last_runs_are_told_in_a_sentence(open_page: Open, database: Path) -> None:
    world(database, keys(5), 60)
    page = open_page("runs")
    assert page.title[0].value.startswith("In the last 50 runs ")
    assert "Shown: the newest 50 of 60 runs" in said(page)
    assert len(page.dataframe[0].value) == 50


def test_one_run_alone(open_page: Open, database: Path) -> None:
    world(database, keys(3), 1)
    page = open_page("runs")
    assert page.title[0].value.startswith("In the last run ")


@pytest.mark.parametrize(
    ("query", "n_runs"),
    [
        ({"class": "baseline"}, 32),
        ({"class": ["baseline", "selected"], "status": "error"}, 4),
        ({"outcome": "conversational"}, 0),
        ({"of_arm": "tool:fs:t0"}, 50),
        ({"of_arm": "tool:fs:t0", "part": "Left out"}, 0),
        ({"class": JUNK, "outcome": JUNK, "of_arm": JUNK, "before": JUNK, "rows": JUNK, "part": JUNK}, 50),
        ({"before": "99999999999999999.1"}, 50),
        ({"before": "0.1"}, 0),
        ({"model": "mini", "class": "fallback"}, 0),
    ],
)
def test_filters_are_in_the_address(
    open_page: Open, database: Path, query: dict[str, str | list[str]], n_runs: int
) -> None:
    world(database, keys(6), 60)
    page = open_page("runs", **query)
    assert len(page.dataframe[0].value if page.dataframe else []) == n_runs
    assert page.title[0].value.startswith("In the ") == bool(n_runs)


def test_places_and_filters_are_in_the_address(open_page: Open, database: Path) -> None:
    world(database, keys(4), 120)
    page = open_page("runs")
    first = page.dataframe[0].value["run"].tolist()
    page.button(key="older runs").click().run()
    check(page)
    second = page.dataframe[0].value["run"].tolist()
    assert max(second) < min(first)
    assert "before" in page.query_params
    copied = open_page("runs", before=page.query_params["before"])
    assert copied.dataframe[0].value["run"].tolist() == second
    page.button(key="newer runs").click().run()
    assert page.dataframe[0].value["run"].tolist() == first
    assert "before" not in page.query_params
    page.button(key="older runs").click().run()
    unfold(page, "run filter popover").multiselect(key="class").set_value(["baseline"]).run()
    check(page)
    assert "before" not in page.query_params
    assert set(page.dataframe[0].value["class"]) == {"baseline"}


def test_many_arms_are_bounded_and_the_rest_is_counted(open_page: Open, database: Path) -> None:
    world(database, keys(90), 8)
    page = open_page("runs")
    assert "the 24 arms most often in; 66 other arms had a part too" in said(page)
    page = open_page("runs", rows="Last used")
    assert "the 24 arms last used" in said(page)


def test_a_selected_run_is_explained(open_page: Open, database: Path) -> None:
    select_one(database, keys(5))
    page = open_page("run", run="chosen")
    assert page.title[0].value.startswith("Run 1 was a selected run: ")
    assert "budget 200 tokens" in said(page)
    table = unfold(page, WHY_FOLD).dataframe[0].value
    assert len(table) == 5
    n_out = list(table["prompt"]).count("× out")
    assert set(table["prompt"][:n_out]) == {"× out"}, "they come first"
    flip = table["what would have flipped it"][0]
    assert "token" in flip
    sentence = next(text.replace("\\", "") for text in texts(page) if "stayed out" in text)
    assert f"over the token budget ({n_out})" in sentence
    assert sentence.endswith(f"; {flip}.")


def test_an_arm_with_too_low_a_draw_says_so(open_page: Open, database: Path) -> None:
    context = context_at(database)
    change(context, "baseline_rate", 0.0)
    change(context, "min_pulls", 0)
    offered = [Arm(key=key, token_cost=50) for key in keys(4)]
    chosen = select(context, offered, k=3)
    record(context, chosen_among("chosen", chosen, offered, calls=(Call(name="t0"),)))
    page = open_page("run", run="chosen")
    assert any(text.startswith("**1 arm stayed") and "draw too low" in text for text in texts(page))
    assert re.match(r"draw 0\.\d+ too low, rank 4", unfold(page, WHY_FOLD).dataframe[0].value["why"][0])


@pytest.mark.parametrize("by_hand", [False, True])
def test_the_table_of_a_run_fits_a_window_of_1280_pixels(
    open_page: Open, database: Path, by_hand: bool
) -> None:
    included = select_one(database, keys(5))
    if by_hand:
        reward(context_at(database), included[0], 0.25, run="chosen")
    table = unfold(open_page("run", run="chosen"), WHY_FOLD).dataframe[0]
    widths = {name: one["width"] for name, one in json.loads(table.proto.columns).items() if one.get("width")}
    assert len({*widths} & {*table.value}) >= 5
    assert sum(width for name, width in widths.items() if name in table.value) <= CONTENT_PX


def test_a_run_of_hostile_ids_is_text(open_page: Open, database: Path) -> None:
    select_one(database, HOSTILE, uid="run:material/home:<b>x</b>")
    page = open_page("run", run="run:material/home:<b>x</b>")
    assert is_text_only(page)


def test_an_imported_run_says_that_nothing_was_decided(
    open_page: Open, database: Path, tmp_path: Path
) -> None:
    context = context_at(database)
    told = import_files(context, [lines_file(tmp_path / "a.jsonl", run_line("i", session=JUNK))])
    page = open_page("run", run="i")
    assert "its source records no decisions" in said(page).replace("\\", "")
    assert "what would have flipped it" not in unfold(page, WHY_FOLD).dataframe[0].value
    undo(context, told.id)
    page = open_page("run", run="i")
    assert "counts nowhere" in said(page)
    assert not page.expander


def test_a_corrected_run_shows_its_ledger_rows(open_page: Open, database: Path) -> None:
    context = world(database, keys(5), 3)
    reward(context, "tool:fs:t0", 0.25, run="run-2", correct=True, reason=JUNK)
    page = open_page("run", run="run-2")
    assert "By hand" in heads(page)
    assert any("reward-1 by " in text.value and JUNK in text.value for text in page.text)
    unfold(page, WHY_FOLD)
    assert any("corrected by hand (reward-1" in cell for cell in page.dataframe[0].value["observed"])


@pytest.mark.parametrize("name", ["nope", JUNK, "9" * 30, "x" * 600])
def test_an_unknown_run_tells_what_to_do(open_page: Open, database: Path, name: str) -> None:
    world(database, keys(3), 2)
    page = open_page("run", run=name)
    assert page.title[0].value == "There is no such run."
    assert page.code[0].value.startswith("armscope ")
    assert JUNK not in said(page)


def test_previous_and_next_write_the_address(open_page: Open, database: Path) -> None:
    world(database, keys(3), 4)
    page = open_page("run", run="run-2")
    page.button(key="Previous run").click().run()
    check(page)
    assert page.query_params["run"] == "run-1"
    assert page.title[0].value.startswith("Run 2 ")
    page.button(key="Next run").click().run()
    page.button(key="Next run").click().run()
    assert page.title[0].value.startswith("Run 4 ")
    assert page.button(key="Next run").disabled


def test_an_outcome_on_the_form_of_rewards_is_no_filter_of_runs(open_page: Open, database: Path) -> None:
    world(database, keys(5), 8)
    page = open_page("rewards")
    page.button_group(key="reward_outcome").set_value("rejected").run()
    page.switch_page("app_pages/runs.py").run()
    check(page)
    unfold(page, "run filter popover")
    assert page.multiselect(key="outcome").value == []
    page.multiselect(key="outcome").set_value(["observed"]).run()
    check(page)
    page.switch_page("app_pages/rewards.py").run()
    check(page)


def test_pages_name_the_deleted_runs_once(open_page: Open, database: Path) -> None:
    context = world(database, keys(3), 60)
    pages = ("arm", "runs", "sessions")

    def words(name: str) -> str:
        return " ".join(texts(open_page(name, arm=keys(3)[0]) if name == "arm" else open_page(name)))

    for name in pages:
        assert "compact deleted" not in words(name)
    assert compact(replace(context, clock=lambda: NOON_MS), keep_days=1).runs == 36
    for name in pages:
        assert words(name).count("compact deleted 36") == 1, name
    with pytest.raises(UnknownRun):
        queries.run(context, "run-0")
    assert "deleted by compact on" in " ".join(texts(open_page("run", run="run-0")))
