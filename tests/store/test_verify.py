"""verify names every cache, mark and flag that is not what the facts say, and changes nothing itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import StoreDamaged
from core.flows import queries
from core.flows.context import Context
from core.flows.importing import import_files
from core.flows.learn import record
from tests.engine import content, copy_world, named, running
from tests.worlds import a_run, context_at, lines_file, run_line
from tests.worlds.lively import lively_context, repair_some, tell_parts, tell_twice

CACHES = ("posterior", "arm_hour", "arm_day", "usage_hour", "usage_day")

FACTS = {
    "a run that stands again": "UPDATE run SET standing = 1 WHERE uid = 'gone'",
    "unknown tokens": "UPDATE run SET tokens = NULL WHERE uid = 'run-1'",
    "a stored probability": "UPDATE run SET choice = replace(choice, '0.1', '0.2') WHERE uid = 'chosen'",
    "referenced": "UPDATE outcome SET flags = flags | 2 WHERE run_no = 2 AND flags = 5",
    "an outcome": "DELETE FROM outcome WHERE run_no = 2 AND arm_no = 1",
    "the pulls of a correction": "UPDATE observation SET pulls = 0 WHERE kind = 'correction'",
    "an undone reward": "UPDATE observation SET undone = 0 WHERE undone = 1",
    "an undone reset": "UPDATE reset SET undone = 0 WHERE undone = 1",
    "a reset's arm": "DELETE FROM reset_arm WHERE reset_no = 2 AND arm_no = 1",
    "an undone repair": "UPDATE repair SET undone = 0 WHERE undone = 1",
    "an outcome that a repair took back": "UPDATE outcome SET flags = flags - 12 WHERE flags & 16 <> 0",
    "an outcome that none took back": "UPDATE outcome SET flags = flags + 12 WHERE flags & 20 = 4 AND arm_no = 1",
    "a retraction": "DELETE FROM retraction WHERE repair_no = 1",
    "the retraction of a report": "DELETE FROM retraction WHERE observation_no <> 0",
    "an undone import": "UPDATE import SET undone = 0 WHERE undone = 1",
    "the first claim to a reward": "DELETE FROM provenance WHERE kind = 'observation' AND revision ="
    " (SELECT min(revision) FROM provenance WHERE kind = 'observation')",
    "an undo": "DELETE FROM undo WHERE kind = 'reward'",
    "an undo of an undo": "UPDATE undo SET undone = 1 - undone WHERE kind = 'undo'",
    "a claim": "DELETE FROM provenance WHERE kind = 'run' AND import_no = 2",
    "a setting's log": "UPDATE setting SET value = '9' WHERE name = 'min_pulls'",
    "settings in force": "UPDATE learner SET settings = replace(settings, '\"min_pulls\":2', '\"min_pulls\":3')",
    "an arm's own prior": "UPDATE arm SET prior_alpha_micro = 5, prior_beta_micro = 5 WHERE key LIKE 'skill:x%'",
    "a cost that nobody said": "UPDATE arm SET token_cost = 1 WHERE key = 'tool:other:a'",
    "what was said of an arm": "DELETE FROM provenance WHERE kind IN ('cost', 'label')",
    "a cost that was said": "DELETE FROM provenance WHERE kind = 'cost'",
    "a label that was said": "INSERT INTO provenance (learner_id, kind, no, import_no, revision, said)"
    " VALUES (1, 'label', 1, 0, 1, 'x')",
    "the run of a kept version": "UPDATE version SET run_no = (SELECT run_no FROM run WHERE uid = 'run-1')"
    " WHERE run_no = (SELECT run_no FROM run WHERE uid = 'grows')",
    "the revision of an import that is not in progress": "UPDATE learner SET staged_revision = 9",
    "who said a cost": "UPDATE provenance SET import_no ="
    " (SELECT min(import_no) FROM import WHERE undone = 1) WHERE import_no = 0 AND kind = 'cost'",
}


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a lively learner, closed."""
    folder = tmp_path_factory.mktemp("lively")
    context = lively_context(folder)
    tell_twice(context, folder)
    tell_parts(context, folder)
    repair_some(context, folder)
    assert queries.verify(context).clean
    context.store.close()
    path = named(context.store)
    assert not Path(f"{path}-wal").exists()
    return path


def tampered(lively: Path, folder: Path, sql: str) -> Context:
    """The same world, in which someone changed something past all flows."""
    copy = folder / "tampered.db"
    copy_world(lively, copy)
    context = context_at(copy)
    changed = context.store.database.write(lambda connection: connection.n_changed(sql, [()]))
    assert changed, "the world holds nothing that this would change"
    return context


@pytest.mark.parametrize("table", CACHES)
def test_a_changed_number_of_a_cache_is_found_in_its_table(lively: Path, tmp_path: Path, table: str) -> None:
    key, number = ("bucket", "tokens") if table.startswith("usage") else ("arm_no", "inclusions")
    row = f"{key} = (SELECT max({key}) FROM {table})"
    found = queries.verify(
        tampered(lively, tmp_path, f"UPDATE {table} SET {number} = {number} + 1 WHERE {row}")
    )
    assert not found.clean
    assert {(name, difference.table) for name, difference in found.differences} == {("default", table)}


@pytest.mark.parametrize("table", CACHES)
def test_a_row_that_is_missing_from_a_cache_is_found(lively: Path, tmp_path: Path, table: str) -> None:
    context = tampered(lively, tmp_path, f"DELETE FROM {table}")
    found = queries.verify(context)
    assert not found.clean
    assert "nothing" in {difference.stored for _, difference in found.differences}


def test_a_row_too_many_in_a_cache_is_found(lively: Path, tmp_path: Path) -> None:
    context = tampered(lively, tmp_path, "INSERT INTO arm_hour VALUES (1, 7, 1, 0, 1, 0, 0, 0, 0, 0, 0)")
    ((_, difference),) = queries.verify(context).differences
    assert (difference.table, difference.recomputed) == ("arm_hour", "nothing")


@pytest.mark.parametrize("what", FACTS)
def test_whatever_else_was_changed_by_hand_is_found(lively: Path, tmp_path: Path, what: str) -> None:
    """The change of each column in each row is tried in `tests.store.test_marks`."""
    found = queries.verify(tampered(lively, tmp_path, FACTS[what]))
    assert not found.clean
    assert found.n_differences >= len(found.differences) > 0


@pytest.mark.of_file
def test_a_parent_that_is_missing_is_found(lively: Path, tmp_path: Path) -> None:
    """Only a file lets anyone take it away."""
    copy = tmp_path / "tampered.db"
    copy_world(lively, copy)
    with closing(sqlite3.connect(copy)) as driver, driver:
        driver.execute("DELETE FROM learner")
    assert not queries.verify(context_at(copy)).clean


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE learner SET settings = 'no JSON'",
        "UPDATE learner SET settings = '{\"baseline_rate\": 9}'",
        "UPDATE setting SET value = '{' WHERE setting_no = 1",
        "UPDATE run SET choice = 'no JSON' WHERE uid = 'chosen'",
    ],
)
def test_what_cannot_even_be_read_is_an_error_with_a_way_out(lively: Path, tmp_path: Path, sql: str) -> None:
    context = tampered(lively, tmp_path, sql)
    try:
        found = queries.verify(context)
    except StoreDamaged as refused:
        way_out = "pg_basebackup" if running() else "armscope restore"
        assert way_out in refused.next_step  # noqa: PT017 - either is a clear answer
    else:
        assert "can't be read" in {difference.stored[:13] for _, difference in found.differences}


@pytest.mark.of_file
def test_a_damaged_page_is_found(lively: Path, tmp_path: Path) -> None:
    copy = tmp_path / "damaged.db"
    content = bytearray(lively.read_bytes())
    content[-4096 * 3 : -4096 * 2] = b"\xa5" * 4096
    copy.write_bytes(content)
    try:
        assert not queries.verify(context_at(copy)).clean
    except StoreDamaged as refused:
        assert "backup" in refused.next_step  # noqa: PT017 - either is a clear answer


def test_only_the_first_differences_are_shown_and_all_are_counted(lively: Path, tmp_path: Path) -> None:
    context = tampered(lively, tmp_path, "UPDATE posterior SET pulls = pulls + 1")
    found = queries.verify(context, limit=2)
    assert len(found.differences) == 2
    assert found.n_differences > 2


def test_verify_changes_not_a_byte(lively: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy_world(lively, copy)
    context = context_at(copy)
    before = content(context.store)
    assert queries.verify(context).clean
    assert content(context.store) == before


def test_every_learner_is_checked(lively: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy_world(lively, copy)
    other = context_at(copy, learner="other")
    other.write("ingest", lambda _: None, create=True)
    spoil = "UPDATE posterior SET pulls = pulls + 1 WHERE arm_no = 1"
    assert other.store.database.write(lambda connection: connection.n_changed(spoil, [()])) == 1
    found = queries.verify(other)
    assert found.learners == ("default", "other")
    assert [name for name, _ in found.differences] == ["default"]


def test_a_longer_version_of_the_same_source_replaces_the_shorter_one(
    context: Context, tmp_path: Path
) -> None:
    """No archive of the shorter one is left: nothing could restore it, and its texts would stay."""
    for rank, calls in enumerate(("a", "ab", "abc")):
        record(context, a_run("live", calls=calls, rank=rank))
    import_files(context, [lines_file(tmp_path / "one.jsonl", *(run_line("file", rank=n) for n in range(3)))])
    with context.store.database.reading() as connection:
        shorter = connection.rows(
            "SELECT v.run_no FROM version v JOIN run r ON r.run_no = v.run_no WHERE v.digest <> r.digest"
        )
    assert shorter == []
    assert queries.verify(context).clean
