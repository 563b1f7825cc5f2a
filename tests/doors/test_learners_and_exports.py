"""Learners and exports with a manifest on the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import urllib3

from core import Client, Learner
from tests.doors.examples import example_world
from tests.doors.http.test_served import served
from tests.doors.test_cli import Shell, filled, shell
from tests.worlds import context_at

__all__ = ["filled", "shell"]


def test_a_manifest_needs_a_file(filled: Shell) -> None:
    code, _out, err = filled("export", "-", "--manifest")
    assert code == 1
    assert "must be a file" in err


def test_the_words_name_each_hash(filled: Shell, tmp_path: Path) -> None:
    _code, out, _err = filled("export", tmp_path / "out.zip", "--manifest", "--format", "csv")
    assert "export.csv" in out
    assert "export.observations.csv" in out


def test_every_door_writes_the_same_table(tmp_path: Path) -> None:
    context = example_world(tmp_path)
    with served(context) as url, Client(url) as client:
        assert client.export(tmp_path / "client.parquet", "parquet").format == "parquet"
        asked = urllib3.request("GET", f"{url}/api/v1/learners/default/export?format=parquet")
        assert asked.headers["content-type"] == "application/vnd.apache.parquet"
        (tmp_path / "asked.parquet").write_bytes(asked.data)
    context.store.close()
    with Learner(context_at(tmp_path / "a.db")) as learner:
        learner.export(tmp_path / "learner.parquet", "parquet")
        learner.export(tmp_path / "lines.jsonl")
    tables = [pq.read_table(tmp_path / f"{door}.parquet") for door in ("client", "asked", "learner")]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    assert tables[0].num_rows == len((tmp_path / "lines.jsonl").read_bytes().splitlines())
