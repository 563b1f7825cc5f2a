"""Lines that don't stand in the order in which they were written are put into it, and it is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from core.formats import Entry, Limits, Remark
from tests.formats.agents import AGENTS, made_up
from tests.formats.builders import Json, Session, lines, put, read, runs, text, use


def remarks(entries: list[Entry]) -> list[str]:
    return [entry.text for entry in entries if isinstance(entry, Remark)]


def shuffled(content: bytes, seed: int, *, n_kept: int = 0) -> bytes:
    """Lines in another order but for the first ones."""
    told = content.splitlines(keepends=True)
    rest = told[n_kept:]
    Random(seed).shuffle(rest)
    return b"".join([*told[:n_kept], *rest])


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_in_any_order_gives_the_same_runs(tmp_path: Path, agent: str) -> None:
    # Where lines name neither their session nor the line they follow, the header must come before them.
    n_kept = int(agent == "pi-session without ids")
    for content in made_up(agent):
        wanted = read(put(tmp_path, content))
        assert remarks(wanted) == []
        for seed in range(6):
            found = read(put(tmp_path, shuffled(content, seed, n_kept=n_kept)))
            assert runs(found) == runs(wanted)


def test_real_sessions_in_any_order_give_the_same_runs(shared_data: Path, tmp_path: Path) -> None:
    """So the order that is made is the one in which a program writes."""
    for path in sorted((shared_data / "claude-code").glob("*.gz")):
        content = gzip.decompress(path.read_bytes())
        wanted = read(path)
        assert remarks(wanted) == []
        for seed in range(3):
            content = content if content.endswith(b"\n") else content + b"\n"
            found = read(put(tmp_path, shuffled(content, seed)))
            assert runs(found) == runs(wanted), path.name
            assert ["put in order" in remark for remark in remarks(found)] == [True]


def test_what_was_put_in_order_is_said_once(tmp_path: Path) -> None:
    parts = [shuffled(part, 1) for part in made_up("claude-code")]
    found = read(put(tmp_path, b"".join(parts)))
    (remark,) = remarks(found)
    assert remark.startswith("The lines of 4 sessions were not in order of time, and were put in order (")


def test_a_clock_that_was_set_back_changes_nothing_where_lines_name_the_one_they_follow(
    tmp_path: Path,
) -> None:
    made = json.loads(b"[" + made_up("claude-code")[0].rstrip().replace(b"\n", b",") + b"]")
    wanted = runs(read(put(tmp_path, lines(made))))
    made[3]["timestamp"] = "2026-01-02T02:59:00.000Z"
    found = read(put(tmp_path, lines(made)))
    assert remarks(found) == []
    assert [(run.uid, run.calls) for run in runs(found)] == [(run.uid, run.calls) for run in wanted]


def test_lines_that_name_none_are_ordered_by_time(tmp_path: Path) -> None:
    session = Session().prompt("one").reply(use("Read", "t1")).prompt("two").reply(text("b"), id="m2")
    late, *rest = session.made
    found = read(put(tmp_path, lines([*rest, late])))
    assert runs(found) == runs(read(put(tmp_path, session.bytes())))
    assert len(remarks(found)) == 1


def test_lines_that_follow_each_other_in_a_ring_or_nothing_known_are_kept(tmp_path: Path) -> None:
    session = Session().prompt("one").reply(use("Read", "t1")).reply(text("b"), id="m2")
    first, second, third = session.made
    ring: list[Json] = [
        {**first, "parentUuid": third["uuid"]},
        {**second, "parentUuid": first["uuid"]},
        {**third, "parentUuid": second["uuid"]},
    ]
    (run,) = runs(read(put(tmp_path, lines(ring))))
    assert ([call.name for call in run.calls], run.texts) == (["Read"], ("b",))
    orphans = [{**line, "parentUuid": "elsewhere"} for line in session.made]
    assert runs(read(put(tmp_path, lines(orphans)))) == runs(read(put(tmp_path, session.bytes())))


@pytest.mark.parametrize("agent", ["claude-code", "pi-session"])
def test_what_is_too_much_to_be_put_in_order_is_read_as_it_stands(tmp_path: Path, agent: str) -> None:
    content = shuffled(made_up(agent)[0], 2)
    entries = read(put(tmp_path, content), limits=Limits(document_bytes=100))
    assert runs(entries)
    assert all("too many to be put in order" in remark for remark in remarks(entries))
    assert remarks(entries)
