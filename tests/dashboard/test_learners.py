"""Several learners: made, switched to, shared by address, filled from each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.errors import Conflict, InvalidSetting
from core.flows import queries
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.learners import create_learner, learners
from dashboard.reading import meant_learner
from tests.dashboard.conftest import Open, check, texts, unfold
from tests.dashboard.worlds import context_at, keys, runs, world


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
