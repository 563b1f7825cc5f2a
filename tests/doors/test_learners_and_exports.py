"""Learners, exports with a manifest, and the explanation of a run on the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import urllib3

from core import Client, Learner, explained
from core.flows import queries
from core.flows.context import Context
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from tests.doors.conftest import Shell
from tests.doors.examples import example_world
from tests.doors.http.test_served import served
from tests.worlds import context_at

HOSTILE = "tool:x:[bold red]loud[/]<b>"
OFFERED = [
    Arm(key=HOSTILE, token_cost=90),
    Arm(key="tool:fs:Read", token_cost=50),
    Arm(key="skill:a:main", token_cost=80),
]


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


def test_it_says_what_the_page_says(shell: Shell, context: Context) -> None:
    change(context, "baseline_rate", 0.0)  # so that the run is no baseline run
    chosen = select(context, OFFERED, budget_tokens=140)  # enough for two of the three arms
    Learner(context).record("one", selection=chosen, calls=["Read"])
    code, out, err = shell("run", "one")
    story = queries.run(context, "one")
    assert (code, err) == (0, "")
    assert out.startswith("Run 1 (one), selected, completed, ")
    assert explained.verdict(story) in out
    for arm in story.arms:
        assert explained.why(arm) in out
        assert explained.evidence(arm, story) in out
    assert "[bold red]loud" in out, "an id is shown as it is"
    assert "what would have flipped it" in out
