"""From an empty database through an import, while the page is open, to arms on every page."""

from __future__ import annotations

import shlex

import pytest
from playwright.sync_api import expect

from tests.engine import located
from tests.journeys.conftest import Beginning, Come
from tests.journeys.server import fields, run
from tests.journeys.visit import IN_VIEW, Visit
from tests.journeys.world import session_file

pytestmark = pytest.mark.browser

_NOTHING = "Nothing is recorded yet."
_SAYING = ("overview", "savings", "episodes")
"""Pages of which each says something else."""


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_an_empty_context_says_what_to_do_and_fills_when_data_come(
    come: Come, beginning: Beginning, *, every: bool
) -> None:
    empty = beginning(None)
    visit = come(empty).open()
    for name in IN_VIEW if every else _SAYING:
        visit.go(name)
        says_what_is_missing(visit, name, f"armscope --database {shlex.quote(str(located(empty.database)))}")
        visit.check()
    visit.go("overview")

    *words, _folder = shlex.split(visit.page.get_by_test_id("stCode").inner_text())
    transcript = empty.put(session_file([["Read", "Bash"], ["Read"], [], ["Edit", "Read"]]), "session.jsonl")
    answer = fields(run([*words[1:], str(transcript)]))  # the command that the page gives, on other files
    assert (answer["format"], answer["runs"], answer["observed"]) == ("claude-code", 4, 3)
    offer = visit.page.get_by_role("button", name="4 new runs")
    expect(offer).to_be_visible()
    expect(visit.title()).to_have_text(_NOTHING)  # nothing moves before one asks for it
    offer.click()
    expect(visit.title()).not_to_have_text(_NOTHING)
    expect(offer).to_have_count(0)

    visit.go("posteriors")
    expect(visit.tables()).to_have_count(1)
    assert {row["arm"] for row in visit.rows()} == {"fs:Read", "exec:Bash", "fs:Edit"}
    assert {row["pulls"] for row in visit.rows()} == {"3"}


def says_what_is_missing(visit: Visit, name: str, before: str) -> None:
    """What cannot be shown, what is there, and the exact command."""
    command = visit.page.get_by_test_id("stCode")
    if name == "savings":
        expect(visit.title()).to_contain_text("No run was chosen")
        expect(visit.page.get_by_text("at least 2 are needed")).to_have_count(2)
        expect(command).to_have_text(f"{before} select --json")
    elif name == "episodes":
        expect(visit.title()).to_have_text("No episode is recorded yet.")
        expect(visit.page.get_by_text("none yet")).to_have_count(1)
        expect(command).to_have_text(f"{before} import FILE")
    else:
        expect(visit.title()).to_have_text(_NOTHING)
        expect(visit.page.get_by_text("none yet")).to_have_count(2)
        expect(command).to_have_text(f"{before} import ~/.claude/projects")
