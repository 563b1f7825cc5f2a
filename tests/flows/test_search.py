"""Search: names and ids by any part, newest first, literal, and the same whatever the database."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, undo
from core.flows.episode import record_step
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.queues import add_queue
from core.records.actor import Role
from core.records.arm import Arm
from core.records.run import Inventory
from core.records.search import SEARCH_KINDS, SearchKind
from tests.formats.builders import lines, put
from tests.worlds import START_MS, a_run, acting

ARMS = ("tool:web:search_pages", "tool:fs:Read", "file:workspace:docs/Pages/10%_off.md", "tool:web:pages")


NOTE = "slow on  Mondays, 10%\n'quoted' and web:search_pages"

HOSTILE = (
    *("%", "_", "\\", "'", '"', "''; DROP TABLE run; --", "* OR NOT (", "a NEAR(b, 2)", "uid:x", "^x", "{}"),
    *(
        "{position}",
        "?1",
        "\0",
        "zz\0qq",
        "\ud83d",
        "é" * 9,
        "x" * 10_000,
        "a " * 5_000,
        '"' * 10_000,
        "<b>&amp;",
    ),
)


@pytest.fixture
def context(context: Context) -> Context:
    prompt = Inventory(kind="declared", arms=tuple(Arm(key=key) for key in ARMS))
    for number in range(4):
        run = a_run(f"demo/chat-300{number}/1", inventory=prompt, at_ms=START_MS + number, model="gpt-4.1")
        named = msgspec.structs.replace(
            run, session=f"chat-300{number}", channel="slack" if number else "Mail"
        )
        record(context, named)
    record_step(
        context, "sums/1", environment="wiki-Search", task="airline 7", model="o3", name="look", reward=1
    )
    add_queue(context, "Week 12 refunds")
    note(context, ARMS[1], NOTE)
    return context


def hits_of(context: Context, words: str, *kinds: SearchKind, limit: int = 10) -> list[tuple[str, str]]:
    return [(one.kind, one.id) for one in queries.search(context, words, kinds, limit).hits]


def test_names_are_found_by_any_part_in_any_case(context: Context) -> None:
    assert hits_of(context, "CHAT-3002") == [("run", "demo/chat-3002/1"), ("session", "chat-3002")]
    assert hits_of(context, "pages", "arm") == [("arm", key) for key in (ARMS[3], ARMS[2], ARMS[0])]
    assert hits_of(context, "docs/pages") == [("arm", ARMS[2])]
    assert hits_of(context, "airline") == [("episode", "sums/1")]
    assert hits_of(context, "wiki", "environment", "episode") == [
        ("episode", "sums/1"),
        ("environment", "wiki-Search"),
    ]
    assert hits_of(context, "refunds") == hits_of(context, "queue-1") == [("queue", "queue-1")]
    assert hits_of(context, "mondays") == [("note", "note-1")]


def test_every_word_must_occur(context: Context) -> None:
    assert hits_of(context, "slack gpt-4.1 3003", "run") == [("run", "demo/chat-3003/1")]
    assert hits_of(context, "mail 300", "run") == [("run", "demo/chat-3000/1")]
    assert hits_of(context, "mail o3") == hits_of(context, "  ") == hits_of(context, "\0") == []


def test_the_newest_comes_first_and_more_is_named(context: Context) -> None:
    answer = queries.search(context, "chat-300", limit=2)
    ids = [one.id for one in answer.hits]
    assert ids == ["demo/chat-3003/1", "demo/chat-3002/1", "chat-3003", "chat-3002"]
    assert answer.more == ("run", "session")
    assert hits_of(context, "#2", "run") == [("run", "demo/chat-3001/1")]
    (one,) = queries.search(context, "chat-3001", ["session"]).hits
    assert (one.about, one.at_ms, one.link) == (
        "1 run",
        START_MS + 1,
        "session?session=chat-3001&learner=default",
    )


def test_a_hit_has_its_time_and_an_excerpt_of_its_text(context: Context) -> None:
    (one,) = queries.search(context, "SEARCH_PAGES mondays").hits
    assert (one.kind, one.title, one.link) == ("note", ARMS[1], "arm?arm=tool%3Afs%3ARead&learner=default")
    assert one.excerpt == " ".join(NOTE.split())
    assert one.at_ms is not None


@pytest.mark.parametrize("words", HOSTILE, ids=range(len(HOSTILE)))
def test_every_character_is_literal(context: Context, words: str) -> None:
    literal = {"%": {"arm", "note"}, "_": {"arm", "note"}, "'": {"note"}}
    assert {kind for kind, _ in hits_of(context, words)} == literal.get(words, set())


def test_what_is_undone_is_not_found(context: Context, tmp_path: Path) -> None:
    text = lines(
        [{"kind": "run", "uid": "imported", "arms": ["tool:x:only"], "session": "s-77", "calls": ["o"]}]
    )
    act = import_files(context, [put(tmp_path, text)]).id
    assert hits_of(context, "imported") == [("run", "imported")]
    assert hits_of(context, "s-77") == [("run", "imported"), ("session", "s-77")]
    undo(context, str(act))
    assert hits_of(context, "imported") == hits_of(context, "s-77") == hits_of(context, "only") == []
    undo(context, "note-1")
    assert hits_of(context, "mondays") == []


@pytest.mark.parametrize("role", ["viewer", "read", "review", "operate"])
def test_no_note_is_searched_for_who_may_not_read_texts(context: Context, role: Role) -> None:
    reader = acting(context, role)
    answer = queries.search(reader, "mondays")
    assert (answer.hits, "note" in answer.searched) == ((), False)
    assert queries.search(reader, "mondays") == queries.search(reader, "mondays", SEARCH_KINDS)
