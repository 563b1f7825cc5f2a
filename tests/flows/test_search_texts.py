"""Search of kept texts: found while they are kept, gone with an erasure, and built again from what is kept."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.episode import record_step
from core.flows.erase import erase
from core.flows.learn import record
from core.flows.maintenance import backup
from core.flows.queues import add_queue, assign
from core.flows.restore import copy_database
from core.flows.settings import change
from core.records.actor import Actor, Role
from core.records.review import QueueAsks
from core.records.transcript import Message
from core.store.store import Store
from core.store.text_index import build_index, clear_index
from core.store.transaction import Transaction
from tests.engine import content
from tests.store.said import listening
from tests.worlds import a_run, acting

CANARY = "Kanarienvogel"


def record_texts(context: Context, uid: str, prompt: str, reply: str = "It is done.") -> None:
    record(context, msgspec.structs.replace(a_run(uid), prompt=prompt, texts=(reply,)))


@pytest.fixture
def context(context: Context) -> Context:
    change(context, "keep_texts", True)
    record_texts(context, "r1", f'Find "{CANARY}" in\nweb:search_pages, Straße 12', "Rückgabe: 100%")
    record_texts(context, "r2", "Another question about pages")
    record_step(
        context,
        "e/1",
        environment="sums",
        task="t",
        name="look",
        reward=1,
        asked=f"see {CANARY}s",
        answered="4",
    )
    return context


def texts(context: Context, words: str, limit: int = 10) -> list[str]:
    return [one.id for one in queries.search(context, words, ["text"], limit).hits]


def test_texts_are_found_by_words_and_beginnings(context: Context) -> None:
    assert texts(context, CANARY.upper()) == ["e/1", "r1"]
    assert texts(context, "kanarien") == ["e/1", "r1"]
    assert texts(context, "web:search_pages") == texts(context, "straße RÜCK") == ["r1"]
    assert texts(context, "pages") == ["r2", "r1"]
    assert texts(context, "pages", limit=1) == ["r2"]
    assert texts(context, "question kanarien") == texts(context, "???") == texts(context, "agen") == []
    (one,) = queries.search(context, "straße", ["text"]).hits
    assert (one.about, one.link) == ("run", "run?run=r1&learner=default")
    assert "Straße 12" in (one.excerpt or "")
    assert "\n" not in (one.excerpt or "")


def test_calls_and_their_results_are_found(context: Context) -> None:
    call = Message(kind="call", name="grep", text='{"q": "Wiedehopf"}', result="3 lines of Pirol")
    record(context, msgspec.structs.replace(a_run("r3"), prompt="Look", reply="Done", messages=(call,)))
    assert texts(context, "wiedehopf pirol") == ["r3"]
    erase(context, run="r3")
    assert texts(context, "wiedehopf") == []


@pytest.mark.parametrize("role", ["viewer", "read", "review", "operate"])
def test_who_may_read_no_text_learns_nothing_of_one(context: Context, role: Role) -> None:
    reader = acting(context, role)
    hidden, none = (queries.search(reader, words) for words in (CANARY, "xyzzy"))
    assert msgspec.structs.replace(hidden, words="") == msgspec.structs.replace(none, words="")
    assert "text" not in hidden.searched


def reviewer(context: Context, name: str = "kim") -> Context:
    return replace(context, actor=Actor(name=name, role="reviewer"))


def test_a_reviewer_finds_texts_of_own_items_alone(context: Context) -> None:
    """Not those of other runs, nor of episodes, nor of what others are to judge."""
    kim = reviewer(context)
    assert texts(kim, "pages") == []
    add_queue(context, "W", QueueAsks(source="runs", runs=("r1",)))
    add_queue(context, "V", QueueAsks(source="runs", runs=("r2",)))
    assign(context, "V", [1], "lee")
    assert texts(kim, "pages") == texts(kim, CANARY) == ["r1"]
    assert texts(reviewer(context, "lee"), "pages") == ["r2", "r1"]
    assert texts(kim, "agen") == texts(kim, "another") == []
    undo(context, "queue-1")
    assert texts(kim, "pages") == []


@pytest.mark.parametrize("with_items", [False, True])
def test_neither_answer_nor_statements_show_a_text_of_another_run(context: Context, with_items: bool) -> None:
    """A word of a hidden text costs the same reads as a word of none, and none of the index."""
    for number in range(60):
        record_texts(context, f"h{number}", f"A secret {CANARY}")
    if with_items:
        add_queue(context, "W", QueueAsks(source="runs", runs=("r2",)))
    kim = reviewer(context)
    queries.search(kim, "warm")
    answers, statements = [], []
    for words in (CANARY, "xyzzy"):
        with listening() as said:
            answers.append(msgspec.structs.replace(queries.search(kim, words), words=""))
        statements.append(sorted(said.statements))
    assert answers[0] == answers[1]
    assert statements[0] == statements[1]
    assert not any("text_index" in sql for sql in statements[0])
    assert "text" in answers[0].searched


def everywhere(context: Context, folder: Path) -> list[bytes]:
    """The database as its files and tables hold it, and a fresh backup."""
    backup(context, folder / "fresh")
    fresh = folder / "fresh"
    return [content(context.store), fresh.read_bytes() if fresh.is_file() else b""]


def test_an_erased_text_is_in_no_file_and_no_backup(context: Context, tmp_path: Path) -> None:
    assert any(CANARY.lower().encode() in held for held in everywhere(context, tmp_path))
    erase(context, run="r1")
    erase(context, episode="e/1")
    (tmp_path / "fresh").unlink()
    assert texts(context, CANARY) == []
    for held in everywhere(context, tmp_path):
        assert CANARY[:8].lower().encode() not in held.lower()
    assert texts(context, "pages") == ["r2"]


def test_turning_texts_off_clears_the_index_and_on_builds_it(context: Context) -> None:
    act = change(context, "keep_texts", False)
    assert rows(context) == 0
    assert "text" not in queries.search(context, CANARY).searched
    undo(context, str(act.id))
    assert texts(context, CANARY) == ["e/1", "r1"]


def rows(context: Context) -> int:
    with context.store.reading("default") as snapshot:
        row = snapshot.connection.row(
            "SELECT count(*) FROM text_index WHERE learner_id = ?", [snapshot.learner_id]
        )
        return 0 if row is None else int(row[0])


def test_an_upgrade_builds_it_and_goes_on_where_it_was(context: Context) -> None:
    before = rows(context)
    with listening() as said:
        build_index(context.store.database)
    assert not any("INSERT" in sql for sql in said.statements)
    learner_id = context.write("settings", _cleared)
    assert (rows(context), texts(context, CANARY)) == (0, [])
    build_index(context.store.database)
    assert texts(context, CANARY) == ["e/1", "r1"]
    assert rows(context) == before
    assert learner_id > 0


def _cleared(txn: Transaction) -> int:
    clear_index(txn.connection, txn.learner_id)
    return txn.learner_id


def test_a_copy_has_the_texts_in_its_index(context: Context, tmp_path: Path) -> None:
    copy_database(context.store.location, tmp_path / "copy.db")
    with closing(Store(tmp_path / "copy.db")) as store:
        assert texts(replace(context, store=store), CANARY) == ["e/1", "r1"]
        assert queries.verify(replace(context, store=store)).clean
