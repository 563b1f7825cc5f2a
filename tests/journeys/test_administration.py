"""People, tokens and the audit by keyboard, in a real browser; axe finds nothing on them while they are in use."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.journeys.axe import findings
from tests.journeys.conftest import Come
from tests.journeys.server import Served
from tests.journeys.visit import Visit

pytestmark = pytest.mark.browser


@pytest.mark.long
def test_a_person_is_invited_and_a_token_made_by_keyboard(come: Come, changing: Served) -> None:
    visit = come(changing).open("people")
    page = visit.page
    page.get_by_label("Issuer").fill("https://id.example.com")
    page.keyboard.press("Tab")
    visit.settle()
    page.get_by_label("E-mail, which").fill("kim@example.com")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Invite kim")).to_be_visible()
    nothing_for_axe(visit)
    page.get_by_role("button", name="Invite kim").press("Enter")
    expect(visit.title()).to_have_text("1 person invited; no one has signed in yet.")
    visit.settle()
    page.keyboard.press("u")
    expect(visit.title()).to_contain_text("No member yet")
    assert "kim" not in page.url

    visit.go("tokens")
    page.get_by_label("Name of the program").press_sequentially("nightly")
    page.get_by_role("checkbox", name="ingest").press("Space")
    expect(page.get_by_role("button", name="Make the token")).to_be_enabled()
    nothing_for_axe(visit)
    page.get_by_role("button", name="Make the token").press("Enter")
    code = page.get_by_test_id("stCode")
    expect(code).to_contain_text("arms_")
    visit.settle()
    page.get_by_role("button", name="Copy to clipboard").focus()
    secret = code.inner_text()
    assert secret not in page.url
    visit.go("audit")
    page.get_by_role("radio", name="Installation").press("Space")
    expect(visit.title()).to_contain_text("The last act on the installation")
    visit.settle()
    nothing_for_axe(visit)
    assert visit.rows()[0]["what"] == "made the token nightly for ingest"
    visit.go("tokens")
    expect(code).to_have_count(0)
    assert secret not in page.content()


def nothing_for_axe(visit: Visit) -> None:
    """But for the names of Streamlit's own toasts, which float over the page for a moment."""
    visit.settle()
    assert [one for one in findings(visit.page) if "stToast" not in one] == []
