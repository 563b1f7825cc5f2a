"""The chain of acts: links follow acts, erasing and upgrading; what is written past all flows breaks them.

The state machines of the flows verify at their end, so they test that the sum follows each act.
"""

from __future__ import annotations

import gzip
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import InvalidInput, SchemaMismatch
from core.flows import maintenance, queries
from core.flows.context import Context
from core.flows.corrections import note, redo, undo
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, record_all, reward, reward_all
from core.flows.restore import copy_database, restore
from core.formats.armscope import write
from core.records.observation import RewardOrder
from core.records.times import iso
from core.store import chain, covered, links
from core.store.chain import Link, head_of, held_links
from core.store.covered import ENCODINGS
from core.store.store import Store
from core.store.tables import ACTS
from tests.engine import Cluster
from tests.flows.test_erase import planted_world, run
from tests.store.test_schema import SCHEMAS
from tests.worlds import IN_PARTS, a_run, context_at, is_clean, lines_file, run_line
from tests.worlds.lively import told_context

pytestmark = pytest.mark.of_file
A = "tool:other:a"
LINK_BYTES = 128
Rows = list[tuple[Any, ...]]

_LATER = {
    "repair",
    "retraction",
    "browser",
    "judged_in",
    "compaction",
    "compacted",
    "compacted_import",
    "mended",
    "whole_reward",
    "achieved",
    "trial",
    "experiment",
    "assignment",
}

CHANGED = {
    "a reason": "UPDATE observation SET reason = 'other'",
    "an actor": "UPDATE note SET actor = 'other'",
    "an uid of an act": "UPDATE observation SET uid = 'x' WHERE observation_no = 1",
    "an origin": "UPDATE learner SET origin = 'x' WHERE learner_id = 1",
    "a whole act": "DELETE FROM reply",
    "one more": (
        "INSERT INTO reset_arm (learner_id, reset_no, arm_no) SELECT learner_id, reset_no, 99 FROM reset LIMIT 1"
    ),
    "the last link": f"UPDATE learner SET chain_held = substr(chain_held, 1, length(chain_held) - {LINK_BYTES})",
    "a part of the last link": "UPDATE learner SET chain_held = substr(chain_held, 1, length(chain_held) - 1)",
    "more than the last link": "UPDATE learner SET chain_held = chain_held || x'00'",
    "a link that is held": "UPDATE learner SET chain_held = x'02' || substr(chain_held, 2)",
    "all links that are held": "UPDATE learner SET chain_held = NULL",
    "the last link in the table": "DELETE FROM link WHERE link_no = (SELECT max(link_no) FROM link)",
    "a link twice": (
        "INSERT INTO link SELECT learner_id, link_no + 1, encoding, revision, at_ms, sum, head FROM link"
        " WHERE link_no = (SELECT max(link_no) FROM link)"
    ),
    "a link in the middle": "UPDATE link SET at_ms = at_ms + 1 WHERE link_no = 2",
    "the key": "UPDATE learner SET chain_key = zeroblob(16) WHERE learner_id = 1",
    "all links": "DELETE FROM link",
}

LEFT = {
    "calls": "UPDATE run SET n_calls = n_calls + 1 WHERE uid = 'request-9'",
    "a channel": "UPDATE run SET channel = 'other' WHERE uid = 'request-9'",
    "where an arm was referenced": (
        "UPDATE evidence SET place = 'other' WHERE run_no = (SELECT run_no FROM run WHERE uid = 'request-9')"
    ),
}

_BEFORE = (
    "DELETE FROM link WHERE learner_id = 1",
    "UPDATE learner SET chain_key = NULL, chain_sum = NULL, chain_head = NULL, chain_held = NULL, next_link_no = 1,"
    " chain_at = 'begun'"
    " WHERE learner_id = 1",
)


def rows(context: Context, sql: str) -> Rows:
    with context.store.database.reading() as connection:
        return connection.rows(sql)


def links_of(context: Context) -> list[Link]:
    stored = rows(
        context, f"SELECT {', '.join(Link._fields)} FROM link WHERE learner_id = 1 ORDER BY link_no"
    )
    ((held,),) = rows(context, "SELECT chain_held FROM learner WHERE learner_id = 1")
    return [*(Link(*row) for row in stored), *held_links(held)]


def execute(context: Context, *statements: str) -> None:
    path = context.store.database.location
    context.store.close()
    with closing(sqlite3.connect(str(path))) as driver:
        for statement in statements:
            driver.execute(statement)
        driver.commit()


def test_the_first_encoding_is_what_it_was() -> None:
    """Released links have its number, so it can't change; a new column needs a new number, a new table none."""
    first = {table: columns for table, columns in ENCODINGS[1].items() if table not in _LATER}
    encoded = msgspec.json.encode(first, order="sorted")
    assert blake2b(encoded, digest_size=8).hexdigest() == "f3bdf68dc9487289"


def test_every_kind_of_act_is_encoded() -> None:
    newest = ENCODINGS[max(ENCODINGS)]
    assert {*ACTS.values()} - newest.keys() == set()
    assert not any({"standing", "undone"} & {*columns.split()} for columns in newest.values())


def test_an_act_makes_one_link_and_a_repeat_none(context: Context) -> None:
    record_all(context, [a_run(f"r{number}") for number in range(3)])
    reward(context, A, 0.5, run="r1", reason="half", key="k")
    undo(context, note(context, A, "slow").id)
    assert [link.link_no for link in links_of(context)] == [1, 2, 3, 4]
    reward(context, A, 0.5, run="r1", reason="half", key="k")
    record(context, a_run("r1"))
    assert len(links_of(context)) == 4


def test_heads_follow_from_all_earlier_links(tmp_path: Path) -> None:
    context = told_context(tmp_path)
    before = None
    for link in links_of(context):
        assert link.head == head_of(before, link)
        assert link.head != head_of(b"other", link)
        before = link.head


def test_an_import_in_parts_makes_one_link(tmp_path: Path) -> None:
    """Its sum is that of the rows that are there in the end, in whatever parts they came."""
    files = [lines_file(tmp_path / "runs.jsonl", *(run_line(f"r{number}") for number in range(20)))]
    whole = context_at(tmp_path / "whole.db")
    parts = replace(context_at(tmp_path / "parts.db"), pace=IN_PARTS)
    for context in (whole, parts):
        import_files(context, files)
        assert len(links_of(context)) == 1
        assert is_clean(context)


def test_undoing_and_redoing_an_import_comes_back_to_the_same_facts(context: Context, tmp_path: Path) -> None:
    record(context, a_run("known"))
    told = import_files(context, [lines_file(tmp_path / "a.jsonl", run_line("known"), run_line("other"))])
    for _ in range(2):
        undo(context, told.id)
        redo(context, told.id)
        assert is_clean(context)


@pytest.mark.parametrize("what", CHANGED)
def test_an_edit_past_all_flows_is_found(tmp_path: Path, what: str) -> None:
    context = told_context(tmp_path)
    for number in range(14):
        note(context, A, f"slow {number}")
    reward(context, A, 0.5, reason="half", key="of its own")
    assert is_clean(context)
    execute(context, CHANGED[what])
    found = queries.verify(context).differences
    assert "link" in {difference.table for _, difference in found} or "chain_head" in str(found)


def test_rewards_of_a_batch_have_one_digest_and_each_counts(context: Context) -> None:
    record(context, a_run("r"))
    reward_all(context, [RewardOrder(arm=A, value=number / 100, reason=f"{number}") for number in range(70)])
    assert is_clean(context)
    execute(context, "UPDATE observation SET reason = '700' WHERE reason = '7'")
    assert not is_clean(context)


# Erasing


@pytest.mark.parametrize(
    "named", [{"run": "request-9"}, {"session": "session-of-PLANTED"}, {"rater": "Perdita"}]
)
def test_erasing_changes_no_link_and_leaves_no_key_of_theirs(tmp_path: Path, named: dict[str, str]) -> None:
    context = planted_world(tmp_path)
    before = links_of(context)
    ((key,),) = rows(context, "SELECT chain_key FROM learner WHERE learner_id = 1")
    erase(context, **named)
    assert links_of(context)[: len(before)] == before
    assert is_clean(context)
    context.store.close()
    for file in tmp_path.glob("a.db*"):
        assert key not in file.read_bytes()


def test_erased_rows_are_still_covered(tmp_path: Path) -> None:
    context = planted_world(tmp_path)
    erase(context, rater="Perdita")
    execute(context, "UPDATE note SET actor = 'Perdita' WHERE actor LIKE 'rater-%'")
    assert not is_clean(context)


@pytest.mark.parametrize("named", [{"run": "request-9"}, {"session": "session-of-PLANTED"}])
@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_of_an_erased_run_is_covered(tmp_path: Path, named: dict[str, str], what: str) -> None:
    context = planted_world(tmp_path)
    erase(context, **named)
    assert is_clean(context)
    execute(context, LEFT[what])
    assert not is_clean(context)


@pytest.mark.parametrize("is_in_parts", [False, True])
def test_what_is_left_of_an_erased_run_that_comes_again_is_covered(tmp_path: Path, is_in_parts: bool) -> None:
    context = planted_world(tmp_path)
    erase(context, session="session-of-PLANTED")
    longer = tmp_path / "longer.jsonl"
    longer.write_bytes(b"".join(write([run(rank=7), run("request-11")])))
    import_files(replace(context, pace=IN_PARTS) if is_in_parts else context, [longer])
    assert is_clean(context)
    execute(context, "UPDATE run SET prompt_chars = 77 WHERE uid = 'request-11'")
    assert not is_clean(context)


def test_damage_from_before_is_found_after_erasing(tmp_path: Path) -> None:
    context = planted_world(tmp_path)
    execute(context, "UPDATE reply SET payload = payload + 1")
    erase(context, run="request-9")
    assert not is_clean(context)


# Upgrading


def test_a_killed_upgrade_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = told_context(tmp_path)
    execute(context, *_BEFORE)
    path = tmp_path / "lively.db"
    monkeypatch.setattr(links, "_PIECE", 3)
    positions = list(_killed_on_the_way(path, context))
    assert len({*positions}) == len(positions) > 2
    with pytest.raises(SchemaMismatch):
        reward(context, A, 0.5)
    assert not is_clean(context)
    maintenance.upgrade(path)
    assert is_clean(context)
    assert [link.link_no for link in links_of(context)] == [1]
    reward(context, A, 0.5)
    assert is_clean(context)


def _killed_on_the_way(path: Path, context: Context) -> Iterator[object]:
    """Positions at which processes that upgrade die, one after the other."""
    for n_pieces in (2, 9, 20):
        child = os.fork()
        if child == 0:
            _upgrade_and_die(path, n_pieces)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield rows(context, "SELECT chain_at FROM learner WHERE learner_id = 1")[0][0]


def _upgrade_and_die(path: Path, n_pieces: int) -> None:
    left, build_on = [n_pieces], links._build_on

    def dying(*arguments: object, **named: object) -> bool:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return build_on(*arguments, **named)  # type: ignore[arg-type]

    links._build_on = dying
    maintenance.upgrade(path)
    os._exit(1)


def test_an_upgrade_brings_transcripts_under_the_chain_as_of_one_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heads from before stay, and damage from before is still found."""
    monkeypatch.setattr(links, "_PIECE", 1)
    for is_damaged in (False, True):
        path = tmp_path / f"{is_damaged}.db"
        path.write_bytes(gzip.decompress((SCHEMAS / "0038.db.gz").read_bytes()))
        with closing(sqlite3.connect(path)) as driver:
            driver.execute("INSERT INTO run_text SELECT learner_id, 1, trace, messages FROM run_text")
            ((number, noted),) = driver.execute(
                "SELECT next_link_no - 1, chain_head FROM learner WHERE learner_id = 1"
            ).fetchall()
            if is_damaged:
                driver.execute("UPDATE reply SET payload = payload + 1")
            driver.commit()
        done = maintenance.upgrade(path)
        context = context_at(path)
        assert done.covered_from == {"default": head(context)}
        assert links_of(context)[-1].link_no == number + 1
        assert queries.verify(context, head=f"{number}:{noted.hex()}").clean is not is_damaged
        assert maintenance.upgrade(path).covered_from == {}
        if not is_damaged:
            execute(context, "UPDATE run_text SET messages = replace(messages, '3', '4') WHERE run_no > 1")
            assert not is_clean(context)


def test_pieces_of_any_size_come_to_the_same_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = told_context(tmp_path)
    with context.reading() as snapshot:
        subject = links.Subject(snapshot.learner_id, snapshot.name, b"key", snapshot.revision)
        sums = set()
        for size in (1, 2, 7, 20_000):
            monkeypatch.setattr(links, "_PIECE", size)
            sums.add(links.sum_of_facts(snapshot.connection, subject))
    assert len(sums) == 1


def test_a_fact_has_another_digest_in_another_table_and_in_another_encoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table with the same columns keeps its digests in a later encoding."""

    def sums() -> list[int]:
        chain._begun.cache_clear()
        covered.encoding_of.cache_clear()
        return [chain.sum_of(b"key", table, [(1, "a")]) for table in ("observation", "retraction")]

    before, number = sums(), covered.ENCODING + 1
    later = {**ENCODINGS[covered.ENCODING], "observation": "observation_no uid"}
    with monkeypatch.context() as patched:
        patched.setattr(covered, "ENCODINGS", {**ENCODINGS, number: later})
        patched.setattr(covered, "ENCODING", number)
        after = sums()
    assert sums() == before
    assert after[1] == before[1]
    assert len({*before, *after}) == 3


# Heads


def head(context: Context) -> str:
    noted = queries.status(context).head
    assert noted is not None
    return noted


@pytest.fixture
def acted(tmp_path: Path) -> Context:
    context = context_at(tmp_path / "acted.db")
    record_all(context, [a_run(f"r{number}") for number in range(3)])
    for value in (0.25, 0.5, 0.75):
        reward(context, A, value)
    return context


def test_status_backup_export_and_verify_name_a_head_that_finds_another_chain(
    acted: Context, tmp_path: Path
) -> None:
    """An editor who knows everything changes a fact and builds the chain again."""
    noted = head(acted)
    assert noted == f"4:{links_of(acted)[-1].head.hex()}"
    assert maintenance.backup(acted, tmp_path / "backup.db").heads == {"default": noted}
    assert export_file(acted, tmp_path / "out.jsonl").head == noted
    assert queries.verify(acted, head=noted).heads == {"default": noted}
    assert head(context_at(tmp_path / "backup.db")) == noted
    execute(acted, "UPDATE observation SET reason = 'edited'", *_BEFORE)
    maintenance.upgrade(tmp_path / "acted.db")
    assert "older copy" in found_by(acted, noted)


@pytest.mark.parametrize("number", [True, False])
def test_a_noted_head_stays_in_the_chain(acted: Context, number: bool) -> None:
    noted = head(acted) if number else head(acted).partition(":")[2]
    reward(acted, A, 1.0)
    assert queries.verify(acted, head=noted).clean


@pytest.mark.parametrize("text", ["", "4", "x:12", "0:" + "a" * 64, "a" * 63])
def test_a_head_of_another_form_is_refused(acted: Context, text: str) -> None:
    with pytest.raises(InvalidInput):
        queries.verify(acted, head=text)


def found_by(context: Context, noted: str) -> str:
    """The words about the only difference, which needs the noted head to be found."""
    assert queries.verify(context).clean
    ((_, difference),) = queries.verify(context, head=noted).differences
    assert difference.table == "link"
    return difference.stored


def test_an_older_file_is_found_by_a_noted_head(acted: Context, tmp_path: Path) -> None:
    maintenance.backup(acted, tmp_path / "backup.db")
    reward(acted, A, 1.0)
    noted = head(acted)
    acted.store.close()
    restore(tmp_path / "acted.db", tmp_path / "backup.db")
    restored = context_at(tmp_path / "acted.db")
    assert "older copy" in found_by(restored, noted)
    reward(restored, A, 0.0)
    assert "forks at link 5" in found_by(restored, noted)


def test_a_cut_end_is_found_by_a_noted_head(acted: Context) -> None:
    """An editor takes the last reward out of every table, and its link."""
    earlier = links_of(acted)[-2]
    noted = head(acted)
    undone = ("observation", "audit")
    execute(
        acted,
        *(
            f"DELETE FROM {table} WHERE {table}_no = (SELECT max({table}_no) FROM {table})"
            for table in undone
        ),
        *(
            f"UPDATE learner SET next_{table}_no = next_{table}_no - 1 WHERE learner_id = 1"
            for table in (*undone, "link")
        ),
        f"UPDATE learner SET revision = revision - 1, chain_head = x'{earlier.head.hex()}',"
        f" chain_held = substr(chain_held, 1, length(chain_held) - {LINK_BYTES}),"
        f" chain_sum = x'{earlier.sum.hex()}' WHERE learner_id = 1",
    )
    tables = {difference.table for _, difference in queries.verify(acted).differences}
    assert tables <= {"posterior", "arm_hour", "arm_day"}, "an editor could recompute these, too"
    found = queries.verify(acted, head=noted).differences
    assert [one.stored for _, one in found if one.table == "link"] == [
        f"default ends with link 3 of {iso(earlier.at_ms)}: it is an older copy, or its end was cut"
    ]


def test_an_import_names_the_head_of_the_export(acted: Context, tmp_path: Path) -> None:
    export_file(acted, tmp_path / "out.jsonl")
    other = context_at(tmp_path / "other.db")
    told = import_files(other, [tmp_path / "out.jsonl"])
    assert told.heads == (head(acted),)
    assert links_of(other)[-1].head != links_of(acted)[-1].head
    ((summary,),) = rows(other, "SELECT summary FROM import WHERE learner_id = 1")
    assert head(acted) in summary
    assert is_clean(other)


@pytest.mark.own_engines
def test_copies_on_every_engine_keep_the_head(acted: Context, tmp_path: Path, cluster: Cluster) -> None:
    noted, before = head(acted), links_of(acted)
    server = cluster.at(tmp_path / "served.db")
    copy_database(tmp_path / "acted.db", server)
    copy_database(server, tmp_path / "back.db")
    served = replace(acted, store=Store(server))
    assert head(served) == noted
    assert is_clean(served)
    reward(served, A, 1.0)
    assert queries.verify(served, head=noted).clean
    served.store.close()
    back = context_at(tmp_path / "back.db")
    assert (head(back), links_of(back)) == (noted, before)
    assert queries.verify(back, head=noted).clean
