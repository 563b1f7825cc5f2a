"""Data and settings in a real browser: files in, zip out, a setting changed and taken back."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served, fields
from tests.journeys.world import ARMS, run_lines


def test_files_are_dropped_reported_and_taken_back(come: Come, changing: Served) -> None:
    before = changing.posteriors()
    file = changing.put(run_lines(ARMS, 5, first=900) + b"{broken\n", "more & <b>.jsonl")
    visit = come(changing).open("data")
    visit.page.locator("input[type=file]").first.set_input_files(file)
    visit.page.get_by_role("button", name="Import 1 file").click()
    visit.toasted("5 new runs")
    visit.settle()
    expect(visit.title()).to_contain_text("1 line was rejected")
    assert [row["reason"] for row in visit.rows(0)]
    assert visit.rows(0)[0]["file"] == "more & <b>.jsonl"
    assert "import=import-" in visit.page.url
    visit.page.get_by_text("Show what undo would change").click()
    expect(visit.page.get_by_test_id("stMain")).to_contain_text("−5 runs")
    visit.page.get_by_role("button", name="Undo import-2").click()
    expect(visit.page.get_by_role("button", name="Redo import-2")).to_be_visible()
    assert changing.posteriors() == before
    assert changing.is_sound()


def test_a_report_opens_from_its_address(come: Come, served: Served) -> None:
    visit = come(served).open("data", **{"import": "import-1"})
    expect(visit.page.get_by_test_id("stMain")).to_contain_text("40 new runs")
    assert visit.too_wide() == []


def test_an_export_is_saved_whole(come: Come, served: Served, tmp_path: Path) -> None:
    visit = come(served).open("data")
    visit.page.get_by_role("button", name="Make the export").click()
    with visit.page.expect_download() as fetched:
        visit.page.get_by_role("button", name="Save the zip").click()
    fetched.value.save_as(tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as zipped:
        manifest = json.loads(zipped.read("manifest.json"))
        (file,) = manifest["files"]
        assert hashlib.sha256(zipped.read(file["name"])).hexdigest() == file["sha256"]
    assert manifest["runs"] == 40


def test_a_setting_is_drafted_sent_and_taken_back(come: Come, changing: Served) -> None:
    visit = come(changing).open("settings")
    number = visit.page.get_by_label("Token budget")
    number.fill("300")
    number.press("Enter")
    expect(visit.page.get_by_role("button", name="Change 1 setting")).to_be_enabled()
    assert fields(changing.armscope("settings"))["budget_tokens"] == 0
    visit.page.get_by_role("button", name="Change 1 setting").click()
    expect(visit.title()).to_contain_text("within 300 tokens")
    visit.settle()
    assert fields(changing.armscope("settings"))["budget_tokens"] == 300
    changing.armscope("settings", "set", "k", "2")
    visit.page.reload()
    visit.settle()
    expect(visit.page.get_by_label("Arms at most")).to_have_value("2")
    visit.press_in_row(0, 1)
    expect(visit.title()).not_to_contain_text("within 300 tokens")
    assert fields(changing.armscope("settings"))["budget_tokens"] == 0
