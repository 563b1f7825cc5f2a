"""An export with its manifest: hashes hold, counts are true, it goes into another learner, and damage is refused."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from core.errors import InvalidInput, UnreadableSource
from core.flows import queries
from core.flows.bundle import export_bundle
from core.flows.context import Context
from core.flows.corrections import reset
from core.flows.importing import import_files
from core.flows.learn import record_all, reward
from core.flows.learners import create_learner
from core.flows.settings import change
from core.records.parameters import EXPORT_FORMATS, ExportFormat
from tests.worlds import a_run

A = "tool:other:a"


@pytest.fixture
def context(context: Context) -> Context:
    """Runs, a reward, a reset and a setting."""
    record_all(context, [a_run(f"r{number}") for number in range(5)])
    reward(context, A, 0.25)
    reset(context, types=["tool"], target="prior")
    record_all(context, [a_run(f"s{number}", calls=["b"]) for number in range(3)])
    change(context, "k", 3)
    return context


@pytest.mark.parametrize("format", EXPORT_FORMATS)
def test_the_manifest_says_what_is_in_the_zip(context: Context, tmp_path: Path, format: ExportFormat) -> None:
    answer = export_bundle(context, tmp_path / "out.zip", format)
    assert hashlib.sha256((tmp_path / "out.zip").read_bytes()).hexdigest() == answer.sha256
    with zipfile.ZipFile(tmp_path / "out.zip") as zipped:
        told = json.loads(zipped.read("manifest.json"))
        contents = {name: zipped.read(name) for name in zipped.namelist() if name != "manifest.json"}
    assert {file["name"] for file in told["files"]} == set(contents)
    for file in told["files"]:
        content = contents[file["name"]]
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
        assert file["size_bytes"] == len(content)
    frame = queries.frame(context)
    assert (told["learner"], told["origin"], told["revision"]) == (
        frame.learner,
        frame.origin,
        frame.revision,
    )
    assert told["settings"]["k"] == 3
    assert told["arms"] == 3
    assert told["made_by"] == "mara"


def test_a_zip_that_was_changed_is_refused_as_a_whole(context: Context, tmp_path: Path) -> None:
    export_bundle(context, tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as zipped:
        contents = {name: zipped.read(name) for name in zipped.namelist()}
    for name, damaged in {
        "export.jsonl": contents["export.jsonl"].replace(b'"r1"', b'"r9"'),
        "manifest.json": b"{}",
    }.items():
        path = tmp_path / f"changed-{name}.zip"
        with zipfile.ZipFile(path, "w") as zipped:
            for other, content in contents.items():
                zipped.writestr(other, damaged if other == name else content)
        create_learner(context, name)
        with pytest.raises(UnreadableSource):
            import_files(context.of(name), [path])
        assert queries.frame(context.of(name)).n_runs == 0


def test_every_byte_counts(context: Context, tmp_path: Path) -> None:
    export_bundle(context, tmp_path / "out.zip")
    content = (tmp_path / "out.zip").read_bytes()
    create_learner(context, "other")
    for cut in range(0, len(content), max(len(content) // 40, 1)):
        path = tmp_path / "cut.zip"
        path.write_bytes(content[:cut])
        with pytest.raises(UnreadableSource):
            import_files(context.of("other"), [path])
    assert queries.frame(context.of("other")).n_runs == 0


def test_a_name_that_is_taken_is_left_alone(context: Context, tmp_path: Path) -> None:
    (tmp_path / "out.zip").write_bytes(b"mine")
    with pytest.raises(InvalidInput):
        export_bundle(context, tmp_path / "out.zip")
    assert (tmp_path / "out.zip").read_bytes() == b"mine"
