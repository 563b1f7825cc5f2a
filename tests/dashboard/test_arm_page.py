"""The page of one arm: what it shows of which arm, what can be done there, and what an address may ask for."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset, undo
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.records.candidate import tool_candidate
from core.records.run import Call, Inventory, Run
from tests.dashboard.conftest import Open, check, heads, texts, unfold
from tests.dashboard.worlds import keys, world

ARM = "tool:fs:t0"


@pytest.fixture
def context(database: Path) -> Context:
    return world(database, keys(6), 60)


def ledger(page: AppTest) -> list[dict[str, str]]:
    """Rows of the ledger, the page's last table."""
    rows = page.dataframe[-1].value.to_dict("records")
    return [{str(head): cell for head, cell in row.items()} for row in rows]


def test_the_page_says_what_is_believed_and_from_what(open_page: Open, context: Context) -> None:
    page = open_page("arm", arm=ARM)
    assert page.title[0].value.startswith("Used in ")
    assert page.code[0].value == ARM
    (one,) = [one for one in queries.posteriors(context) if one.arm == ARM]
    assert any(f", from {one.pulls} pulls since" in text for text in texts(page))
    assert heads(page) == [
        "Belief now",
        "How it got there",
        "Its break-even",
        "Notes",
        "Does it help?",
        "Plan a trial",
        "Read results",
        "Where the belief comes from",
        "In or left out",
        "Ledger",
    ]
    assert any("In 25 of the latest 25 runs that offered it" in text for text in texts(page))
    assert all(chart.proto.alt for chart in page.get("plotly_chart"))
    assert len(ledger(page)) == 25


def test_the_page_shows_the_versions_of_a_definition_once_it_changed(
    open_page: Open, context: Context
) -> None:
    arms = [tool_candidate({"name": "search", "description": text}) for text in ("a", "b")]
    for at in range(6):
        inventory = Inventory(kind="declared", arms=(arms[at > 3],))
        calls = (Call(name="search"),)
        record(
            context, Run(uid=f"v{at}", inventory=inventory, calls=calls, ended_at_ms=1_767_225_600_000 + at)
        )
    page = open_page("arm", arm=arms[0].key)
    head = "Versions of its definition"
    assert heads(page)[8] == head
    assert head not in heads(open_page("arm", arm=ARM))
    (table,) = [one.value for one in page.table if "version" in one.value.columns]
    assert [*table["version"]] == [one.version for one in arms]
    assert [*table["runs in full"]] == [4, 2]


@pytest.mark.parametrize("n_runs", [0, 1, 2])
def test_an_arm_with_hardly_any_runs(open_page: Open, database: Path, n_runs: int) -> None:
    few = world(database, keys(3), max(n_runs, 1))
    if n_runs == 0:
        reset(few)
    page = open_page("arm", arm=ARM)
    assert len(page.title) == 1


def test_an_arm_that_was_only_ever_declared(open_page: Open, context: Context) -> None:
    undo(context, reward(context, "skill:new:main", 1.0, create=True).id)
    page = open_page("arm", arm="skill:new:main")
    assert page.title[0].value.startswith("No observation yet")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("tool:fs:t00", "There is no such arm."),
        ("<b>x</b>", "There is no such arm."),
        ("", "No arm was chosen."),
    ],
)
def test_an_unknown_arm_leads_to_those_that_may_have_been_meant(
    open_page: Open, context: Context, wanted: str, said: str
) -> None:
    page = open_page("arm", arm=wanted)
    assert page.title[0].value == said
    assert all("<b>" not in text for text in texts(page))
    assert ("Did you mean" in heads(page)) == (wanted == "tool:fs:t00")


def test_before_it_was_seen_nothing_was_known(open_page: Open, database: Path) -> None:
    world(database, keys(3), 3)
    page = open_page("arm", arm=ARM, span="Dates", to="2020-01-01")
    assert page.title[0].value == "This arm was not known yet."


def test_the_earlier_moment_is_in_the_address_and_junk_is_ignored(open_page: Open, context: Context) -> None:
    page = open_page("arm", arm=ARM, then="2025-11-19")
    assert page.date_input(key="then").value == date(2025, 11, 19)
    for junk in ("yesterday", "9999-99-99", "0001-01-01", "<b>"):
        open_page("arm", arm=ARM, then=junk)
    for place in ("junk", "1.2.3", "....", "9999999999999999.1..", "1795000000000.7.1795000000000.3"):
        open_page("arm", arm=ARM, ledger=place, runs_from=place)


def test_rewards_are_undone_and_redone_in_the_ledger(open_page: Open, context: Context) -> None:
    given = reward(context, ARM, 0.5, reason="half right")
    page = open_page("arm", arm=ARM)
    first = ledger(page)[0]
    assert (first["source"], first["reward"], first["act"]) == ("by hand, lagged", "◆ 0.5", "Undo")
    assert "half right" in first["evidence"]
    undo(context, given.id)
    first = ledger(open_page("arm", arm=ARM))[0]
    assert (first["source"], first["mean moved"], first["act"]) == ("undone: by hand, lagged", "0", "Redo")


def test_older_pages_of_the_ledger_go_on_where_the_last_ended(open_page: Open, context: Context) -> None:
    page = open_page("arm", arm=ARM)
    seen = [row["run"] for row in ledger(page)]
    while not page.button(key="older ledger").disabled:
        page.button(key="older ledger").click().run()
        check(page)
        seen += [row["run"] for row in ledger(page)]
    (one,) = [one for one in queries.posteriors(context) if one.arm == ARM]
    assert len(seen) == len(set(seen)) == one.pulls
    page.button(key="newest ledger").click().run()
    assert [row["run"] for row in ledger(page)] == seen[:25]


def test_a_note_is_written_shown_and_taken_back_and_an_empty_one_refused(
    open_page: Open, context: Context
) -> None:
    page = unfold(open_page("arm", arm=ARM), "note popover")
    (write,) = [button for button in page.button if button.label == "Write note"]
    write.click().run()
    check(page)
    assert queries.notes(context, ARM) == ()
    page.text_area(key="note text").input("slow on Mondays")
    (write,) = [button for button in page.button if button.label == "Write note"]
    write.click().run()
    check(page)
    assert [(one.text, one.undone) for one in queries.notes(context, ARM)] == [("slow on Mondays", False)]
    assert "slow on Mondays" in [text.value for text in page.text]
    page.button(key="take back note-1").click().run()
    check(page)
    assert [one.undone for one in queries.notes(context, ARM)] == [True]
    assert page.button(key="take back note-1").label == "Redo"


def test_runs_of_an_undone_import_are_not_its_runs(open_page: Open, database: Path, tmp_path: Path) -> None:

    (tmp_path / "runs.jsonl").write_text(
        '{"kind": "run", "uid": "q", "arms": ["tool:fs:gone"], "calls": ["gone"]}\n', encoding="utf-8"
    )
    context = world(database, keys(2), 3)
    undo(context, import_files(context, [tmp_path / "runs.jsonl"]).id)
    assert open_page("arm", arm="tool:fs:gone").title[0].value == "There is no such arm."
