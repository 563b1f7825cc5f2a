"""An export in a real browser: the zip is saved whole."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from tests.journeys.conftest import Come
from tests.journeys.server import Served


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
