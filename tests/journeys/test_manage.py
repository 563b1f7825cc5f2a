"""Data and settings in a real browser: files in, zip out, a setting changed and taken back."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from playwright.sync_api import expect

from tests.journeys.conftest import Come
from tests.journeys.server import Served
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
