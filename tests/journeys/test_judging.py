"""Judging without a queue, by keyboard: a run on its own page, then the next; and a table that is pasted."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served, fields

pytestmark = pytest.mark.browser


def test_a_run_is_judged_on_its_page_and_the_next_one_comes(come: Come, changing: Served) -> None:
    before = changing.posteriors()
    visit = come(changing).open("run", run="run-2")
    judged = visit.page.get_by_role("radiogroup", name="Judge tool exec Bash")
    judged.get_by_role("radio", name="Partial").click()
    send = visit.page.get_by_role("button", name="Send 1 judgement")
    expect(send).to_be_enabled()
    assert changing.posteriors() == before  # marks write nothing
    visit.page.get_by_role("textbox", name="Why").fill("=1+1 <b>half</b>")
    visit.page.keyboard.press("Control+Enter")
    visit.toasted("1 reward sent as one act.")
    expect(judged.get_by_role("radio", checked=True)).to_have_count(0)
    visit.page.get_by_role("heading", level=1).click()
    visit.page.keyboard.press("n")
    expect(visit.page).to_have_url(re.compile("run=run-3"))
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text("Run 4")
    visit.page.keyboard.press("u")
    visit.until(lambda: changing.posteriors() == before)
    assert fields(changing.armscope("verify"))["ok"] is True
    visit.check()
