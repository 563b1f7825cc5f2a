"""What was in force when a prompt was chosen, kept with its run: so that other settings can be tried on it later."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.select import select
from core.flows.settings import change_all
from core.maths.policy import settings_hash
from core.records.arm import Arm
from core.records.run import Run
from core.records.selection import Selection
from tests.worlds import a_run, chosen_among, context_at

SCHEMAS = sorted((Path(__file__).parents[1] / "store" / "schemas").glob("0001.jsonl.gz"))
"""Those of the time before a selection kept them."""
OFFERED = [Arm(key=f"skill:{name}:main", token_cost=50) for name in "wxyz"]
NAMES = {"k", "min_pulls"}

IN_FORCE = {
    "usual": (0, 5),
    "limited": (2, 7),
    "of its own": (1, 7),
    "unlimited": (0, 7),
    "baseline": (2, 7),
    "passive": (2, 0),
}


def run_with(chosen: Selection, uid: str) -> Run:
    return chosen_among(uid, chosen, OFFERED)


def recorded(context: Context, uid: str) -> Selection:
    found = queries.run(context, uid).selection
    assert found is not None
    return found


def exported_runs(context: Context, file: Path) -> dict[str, dict[str, Any]]:
    """The lines of a learner's runs, by uid, from an export."""
    export_file(context, file)
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    return {line["uid"]: line for line in lines if line["kind"] == "run"}


@pytest.fixture
def context(context: Context) -> Context:
    """Runs chosen under settings that changed, by each of the ways there are; and one that no one chose."""
    for uid, settings, k in (
        ("usual", {}, None),
        ("limited", {"k": 2, "min_pulls": 7, "baseline_rate": 0.0}, None),
        ("of its own", {}, 1),
        ("unlimited", {}, 0),
        ("baseline", {"baseline_rate": 1.0}, None),
        ("passive", {"phase": "passive", "min_pulls": 0}, None),
    ):
        change_all(context, settings)
        record(context, run_with(select(context, OFFERED, k=k), uid))
    record(context, a_run("nobody's"))
    return context


def test_it_is_kept_as_it_was_also_where_it_held_nothing_back(context: Context) -> None:
    change_all(context, {"k": 9, "min_pulls": 9, "phase": "active"})
    found = {uid: recorded(context, uid) for uid in IN_FORCE}
    assert {uid: (one.k, one.min_pulls) for uid, one in found.items()} == IN_FORCE
    assert [found[uid].run_class for uid in ("limited", "baseline", "passive")] == [
        "selected",
        "baseline",
        "passive",
    ]
    assert queries.run(context, "nobody's").selection is None
    assert queries.verify(context).clean


def test_with_it_the_settings_heeded_are_known_again(context: Context) -> None:
    with context.reading() as snapshot:
        settings = msgspec.structs.replace(snapshot.settings, phase="active", baseline_rate=0.0)
    chosen = recorded(context, "of its own")
    assert settings_hash(settings) != chosen.settings_hash
    assert chosen.k is not msgspec.UNSET
    assert chosen.min_pulls is not msgspec.UNSET
    again = msgspec.structs.replace(settings, k=chosen.k, min_pulls=chosen.min_pulls)
    assert settings_hash(again) == chosen.settings_hash


def test_an_export_takes_it_along(context: Context, tmp_path: Path) -> None:
    lines = exported_runs(context, tmp_path / "first.jsonl")
    assert {
        uid: (line["selection"]["k"], line["selection"]["min_pulls"])
        for uid, line in lines.items()
        if line.get("selection")
    } == IN_FORCE
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "first.jsonl"])
    assert [recorded(other, uid) for uid in IN_FORCE] == [recorded(context, uid) for uid in IN_FORCE]
    assert import_files(context, [tmp_path / "first.jsonl"]).id is None, "nothing new to whoever wrote it"


def test_lines_without_it_read_and_are_told_without_it(context: Context, tmp_path: Path) -> None:
    """As an older armscope wrote them, or anyone by hand."""
    export_file(context, tmp_path / "new.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_bytes().splitlines()]
    for line in lines:
        for name in NAMES if line.get("selection") else ():
            del line["selection"][name]
    (tmp_path / "old.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    other = context_at(tmp_path / "b.db")
    assert import_files(other, [tmp_path / "old.jsonl"]).rejected_count == 0
    assert recorded(other, "limited").k is msgspec.UNSET
    again = exported_runs(other, tmp_path / "again.jsonl")
    assert [NAMES & (line.get("selection") or {}).keys() for line in again.values()] == [set()] * 7
    assert import_files(other, [tmp_path / "old.jsonl"]).id is None
    assert queries.posteriors(other) == queries.posteriors(context)
    assert queries.verify(other).clean


@pytest.mark.parametrize("old", SCHEMAS, ids=lambda old: old.name)
def test_runs_of_an_older_armscope_have_none_and_stay_as_they_are(tmp_path: Path, old: Path) -> None:
    (tmp_path / "0001.jsonl").write_bytes(gzip.decompress(old.read_bytes()))
    context = context_at(tmp_path / "old.db")
    import_files(context, [tmp_path / "0001.jsonl"])
    assert queries.verify(context).clean
    assert (recorded(context, "chosen").k, recorded(context, "chosen").min_pulls) == (
        msgspec.UNSET,
        msgspec.UNSET,
    )
    lines = exported_runs(context, tmp_path / "old.jsonl")
    assert not any(NAMES & line["selection"].keys() for line in lines.values() if line.get("selection"))
    assert import_files(context, [tmp_path / "old.jsonl"]).id is None
    record(context, run_with(select(context, OFFERED, k=3), "new"))
    assert recorded(context, "new").k == 3
    assert queries.verify(context).clean


def test_a_selection_that_waits_in_a_queue_through_an_upgrade_is_the_same_run(context: Context) -> None:
    """It was made without them, recorded without them, and is recorded once more after the upgrade."""
    chosen = select(context, OFFERED)
    document = json.loads(chosen.to_json())
    for name in NAMES:
        del document[name]
    waited = Selection.from_json(json.dumps(document))
    assert (waited.k, waited.min_pulls) == (msgspec.UNSET, msgspec.UNSET)
    assert NAMES & json.loads(waited.to_json()).keys() == set()
    assert record(context, run_with(waited, "waited")).told == "new"
    assert record(context, run_with(waited, "waited")).told == "duplicate"
    with context.store.database.reading() as reading:
        ((kept,),) = reading.rows("SELECT choice FROM run WHERE uid = 'waited'")
    assert NAMES & json.loads(kept).keys() == set()
