"""Pages of all learners and of several: none, one, many, unreadable ones; search, order, place, switches, filling."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.errors import Conflict, InvalidSetting
from core.flows import queries
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.learners import create_learner, learners
from core.flows.settings import change
from core.records.learner import LearnerSummary
from dashboard.reading import meant_learner
from dashboard.sentences import Phrase
from dashboard.sentences import fleet as said
from tests.dashboard.conftest import Open, check, texts, unfold
from tests.dashboard.worlds import context_at, keys, runs, world


def named(page: object) -> list[str]:
    return [str(one) for one in page.dataframe[0].value["learner"]]  # type: ignore[attr-defined]


def many(database: Path, n: int) -> None:
    context = world(database, keys(5), 12)
    for number in range(n):
        create_learner(context, f"agent {number:03}")
    change(context.of("agent 001"), "phase", "passive")


def test_one_learner(open_page: Open, database: Path) -> None:
    world(database, keys(5), 12)
    page = open_page("fleet")
    assert page.title[0].value.startswith("The only learner, default, ")
    assert named(page) == ["default"]


def test_many_are_searched_sorted_and_paged_by_the_address(open_page: Open, database: Path) -> None:
    many(database, 60)
    page = open_page("fleet", fleet_by="Name")
    assert "Of 61 learners " in page.title[0].value
    assert named(page) == [f"agent {number:03}" for number in range(50)]
    assert any("1 to 50 of 61 learners" in text for text in texts(page))
    onward = open_page("fleet", fleet_by="Name", fleet_from="50")
    assert named(onward) == [*(f"agent {number:03}" for number in range(50, 60)), "default"]
    found = open_page("fleet", fleet_find="AGENT 05")
    assert named(found) == [f"agent {number:03}" for number in (5, *range(50, 60))]
    assert named(open_page("fleet", fleet_by="Most runs"))[0] == "default"
    nobody = open_page("fleet", fleet_find="nobody")
    assert not nobody.dataframe
    for place in ("-1", "x", "999999", "7"):
        assert len(named(open_page("fleet", fleet_from=place))) == 50


def test_the_next_page_is_in_the_address(open_page: Open, database: Path) -> None:
    many(database, 60)
    page = open_page("fleet")
    page.button(key="fleet on").click().run()
    assert page.query_params["fleet_from"] in ("50", ["50"])
    page.button(key="fleet back").click().run()
    assert "fleet_from" not in page.query_params


def test_one_that_cannot_be_read_is_marked_and_the_others_are_shown(open_page: Open, database: Path) -> None:
    many(database, 3)
    context_at(database).store.close()
    with sqlite3.connect(database) as driver:
        driver.execute("UPDATE learner SET settings = '{' WHERE name = 'agent 002'")
    driver.close()
    page = open_page("fleet")
    assert "can’t be read" in page.title[0].value
    assert any("1 learner can’t be read" in text and "agent 002" in text for text in texts(page))
    assert named(page)[0] == "agent 002"
    assert len(named(page)) == 4
    needy = open_page("fleet", fleet_of="Need attention")
    assert "agent 002" in named(needy)


def row(name: str, **more: object) -> LearnerSummary:
    return LearnerSummary(name=name, **{"state": "selecting", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([row("a")], "The only learner, a, has no alarm."),
        ([row("a"), row("b")], "Of 2 learners none has an alarm."),
        (
            [
                row("a"),
                row("b", state="alarmed", alarms=("silent",)),
                row("c", state="unreadable", problem="x"),
            ],
            "Of 3 learners two need attention: one gets no runs and one can’t be read.",
        ),
    ],
)
def test_the_sentence_says_who_needs_somebody(rows: list[LearnerSummary], sentence: str) -> None:
    parts = said.fleet(rows)
    assert "".join(part.text if isinstance(part, Phrase) else part for part in parts) == sentence


def test_the_others_are_shown_where_ones_own_learner_cannot_be_read(open_page: Open, database: Path) -> None:
    """Nowhere are another learner's data shown instead but on the page about all of them."""
    many(database, 3)
    with closing(sqlite3.connect(database)) as driver, driver:
        driver.execute("UPDATE learner SET settings = '{' WHERE name = 'default'")
    page = open_page()
    assert page.title[0].value == "The data cannot be opened."
    assert any("Other learners can be opened" in str(link.proto) for link in page.get("page_link"))
    fleet = open_page("fleet")
    assert "one can’t be read" in fleet.title[0].value
    assert set(named(fleet)) == {"default", "agent 000", "agent 001", "agent 002"}
    for name in ("overview", "fleet"):
        another = open_page(name, learner="agent 002")
        assert another.title[0].value != "The data cannot be opened."
        assert another.selectbox(key="learner").value == "agent 002"
    assert open_page(learner="default").title[0].value == "The data cannot be opened."


def test_one_that_looks_sound_and_is_not_is_not_gone_to_again_and_again(
    open_page: Open, database: Path
) -> None:
    """What a glance adds up can be read, the names of its models can't: another learner brings the page of all."""
    world(database, keys(5), 12)
    with closing(sqlite3.connect(database)) as driver, driver:
        driver.execute("UPDATE OR IGNORE usage_day SET model = CAST(x'ff' AS TEXT)")
    assert open_page("fleet").title[0].value == "The data cannot be opened."
    assert not open_page().get("page_link")
    create_learner(context_at(database), "sound")
    assert named(open_page("fleet")) == ["default", "sound"]


def _make(page: AppTest, name: str) -> None:
    """Type a name into the picker and press Create; the picker stays open meanwhile."""
    unfold(page, "learner popover").text_input(key="new learner").set_value(name)
    unfold(page, "learner popover").button(key="create learner").click()
    unfold(page, "learner popover")


def test_a_learner_is_made_and_gone_to(open_page: Open, database: Path) -> None:
    world(database, keys(5), 12)
    page = open_page("posteriors")
    _make(page, "support")
    check(page)
    assert page.selectbox(key="learner").value == "support"
    assert page.query_params["learner"] == "support"
    assert page.title[0].value == "Nothing is recorded yet."
    assert page.code[0].value.endswith("--learner support import ~/.claude/projects")
    assert unfold(page, "learner popover").text_input(key="new learner").value == ""


@pytest.mark.parametrize("name", ["default", "a\u202eb", "x\x00y"])
def test_a_name_that_cannot_be_says_why(open_page: Open, database: Path, name: str) -> None:
    world(database, keys(5), 2)
    page = open_page()
    _make(page, name)
    assert any("No learner was made" in text for text in texts(page))
    assert [one.name for one in learners(context_at(database))] == ["default"]


def test_switching_keeps_the_page_and_the_filters_that_apply(open_page: Open, database: Path) -> None:
    context = world(database, keys(10), 40)
    export_file(context, database.with_name("out.jsonl"))
    create_learner(context, "copy")
    import_files(context.of("copy"), [database.with_name("out.jsonl")])
    page = open_page("posteriors", type="tool", model="large", sort="Pulls")
    unfold(page, "learner popover").selectbox(key="learner").set_value("copy").run()
    check(page)
    assert page.multiselect(key="type").value == ["tool"]
    assert page.multiselect(key="model").value == ["large"]
    assert page.button_group(key="sort").value == "pulls"
    assert queries.posteriors(context.of("copy")) == queries.posteriors(context)


def test_of_several_learners_any_is_shown_and_the_address_says_which(open_page: Open, database: Path) -> None:
    """No one said whose dashboard it is: an address without a name would be another's once others are made."""
    context = context_at(database)
    for name, n_runs in (("support", 3), ("billing", 2)):
        record_all(context.of(name), runs(keys(3), n_runs))
    page = open_page("runs")
    picker = page.selectbox(key="learner")
    assert (picker.value, picker.options) == ("billing", ["billing", "support"])
    assert page.query_params["learner"] == "billing"
    assert "the last 3 runs" in picker.set_value("support").run().title[0].value
    assert meant_learner() is None, "a program that names none is asked which"


def test_names_are_checked_and_taken_once(database: Path) -> None:
    context = world(database, keys(3), 2)
    made = create_learner(context, " new ")
    assert (made.name, made.runs, made.arms) == ("new", 0, 0)
    with pytest.raises(Conflict):
        create_learner(context, "new")
    with pytest.raises(InvalidSetting):
        create_learner(context, "  ")
    assert [(one.name, one.runs) for one in learners(context)] == [("default", 2), ("new", 0)]
    assert queries.changes(context.of("new"))[0].detail == {"learner": "new"}


def test_an_empty_page_leads_to_the_data_page(open_page: Open) -> None:
    page = open_page("posteriors")
    assert any("Drop files here" in str(link.proto.label) for link in page.get("page_link"))
