"""Index of kept texts: the distinct words of each run and episode with texts, for the search.

One port for both engines: FTS5 on SQLite, ``tsvector`` on PostgreSQL. Words are taken here, so both engines hold the
same ones. The index is derived: a search reads each text again before it shows it. It is complete while the setting
``keep_texts`` is on, and empty while it is off.

A row has a key as one more word, by which it is found again: FTS5 has no other index. On PostgreSQL it also has a
primary key, without which Citus moves no shard while others write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import msgspec

from core.store.engine import Connection, Database
from core.store.engine.dialect import NEWEST_WORDS, WORD_LIST, WORDS_BEGIN, WORDS_END

TextKind = Literal["run", "episode"]
NAME: Final = "text_index"
DEFINITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "sqlite": (
        f"CREATE VIRTUAL TABLE {NAME} USING fts5(learner_id UNINDEXED, kind UNINDEXED, no UNINDEXED, words,"
        " tokenize='ascii', detail='none', columnsize=0)",
    ),
    "postgresql": (
        f"CREATE TABLE {NAME} (learner_id integer NOT NULL, kind text NOT NULL, no bigint NOT NULL,"
        " words tsvector NOT NULL, row_id uuid NOT NULL DEFAULT gen_random_uuid(),"
        f" CONSTRAINT pk_{NAME} PRIMARY KEY (learner_id, kind, no, row_id))",
        f"CREATE INDEX ix_{NAME}_words ON {NAME} USING gin (words)",
    ),
}
"""Statements that make the index, by engine."""
_MARK: Final = "§"
"""Start of a key, which no word of a text has."""
_WORD: Final = re.compile(r"[^\W_]+")
_SPEAKER: Final = "kind"
"""Who speaks in a message of a transcript, which is none of its words."""
_MAX_WORDS_BYTES: Final = 400_000
"""PostgreSQL refuses a million; what is beyond is not found by the search."""
_AT_ONCE: Final = 500
_DONE: Final = (1 << 62) - 1
_HAS_WORDS: Final = f"{WORDS_BEGIN}?{WORDS_END}"
_INSERT: Final = f"INSERT INTO {NAME} (learner_id, kind, no, words) VALUES (?, ?, ?, CAST(? AS {WORD_LIST}))"
_DELETE: Final = f"DELETE FROM {NAME} WHERE learner_id = ? AND {_HAS_WORDS}"
_TEXTS: Final[Mapping[TextKind, Sequence[str]]] = {
    "run": (
        "SELECT t.run_no, t.messages FROM run_text t JOIN run r ON r.learner_id = t.learner_id"
        " AND r.run_no = t.run_no AND r.trace = t.trace WHERE t.learner_id = ? AND t.run_no IN ({})",
        "SELECT e.run_no, p.instruction, p.response FROM execution e JOIN training_pair p"
        " ON p.learner_id = e.learner_id AND p.execution_no = e.execution_no WHERE e.learner_id = ?"
        " AND e.run_no <> 0 AND coalesce(p.instruction, p.response) IS NOT NULL AND e.run_no IN ({})",
    ),
    "episode": (
        "SELECT episode_no, asked, answered FROM step_text WHERE learner_id = ? AND episode_no IN ({})"
        " ORDER BY episode_no, step_no",
    ),
}
_NUMBERS: Final[Mapping[TextKind, str]] = {
    "run": (
        "SELECT run_no FROM (SELECT t.learner_id, t.run_no FROM run_text t WHERE t.learner_id = ?1 UNION"
        " SELECT e.learner_id, e.run_no FROM execution e JOIN training_pair p ON p.learner_id = e.learner_id"
        " AND p.execution_no = e.execution_no WHERE e.learner_id = ?1 AND e.run_no <> 0"
        " AND coalesce(p.instruction, p.response) IS NOT NULL) u WHERE learner_id = ?1 AND run_no > ?"
        " ORDER BY run_no LIMIT ?"
    ),
    "episode": (
        "SELECT DISTINCT episode_no FROM step_text WHERE learner_id = ? AND episode_no > ?"
        " ORDER BY episode_no LIMIT ?"
    ),
}


class IndexedText(NamedTuple):
    """A run or an episode that may have some words in its texts."""

    kind: TextKind
    number: int


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, in their order.

    >>> words_of("Use web:search_pages, 3×")
    ['use', 'web', 'search', 'pages', '3']
    """
    return [word[:40] for word in _WORD.findall(text.lower())]


def has_beginnings(text: str, words: Sequence[str]) -> bool:
    """Return whether each of these words, or of their parts, begins a word of a text.

    >>> has_beginnings("Use web:search_pages", ["pag"]), has_beginnings("Use web:search_pages", ["ages"])
    (True, False)
    """
    parts, known = words_of(" ".join(words)), set(words_of(text))
    return bool(parts) and all(any(word.startswith(part) for word in known) for part in parts)


def plain_text(stored: str | None) -> str:
    r"""Return the text of a stored text, which may be JSON: its strings, one a line.

    >>> plain_text('{"activation_query": "a\\nb", "n": 1}'), plain_text("plain"), plain_text(None)
    ('a\nb', 'plain', '')
    """
    if stored is None:
        return ""
    try:
        return "\n".join(_strings(msgspec.json.decode(stored)))
    except msgspec.DecodeError:
        return stored


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        held = value if isinstance(value, list) else [one for key, one in value.items() if key != _SPEAKER]
        for one in held:
            yield from _strings(one)


def stored_texts(
    connection: Connection, learner_id: int, kind: TextKind, numbers: Sequence[int]
) -> dict[int, str]:
    """Return the kept texts of runs or episodes, by number, those of one joined by lines."""
    texts: dict[int, list[str]] = {}
    for sql in _TEXTS[kind]:
        for number, *stored in connection.rows_in(sql, [learner_id], numbers):
            texts.setdefault(number, []).extend(filter(None, map(plain_text, stored)))
    return {number: "\n".join(parts) for number, parts in texts.items()}


# Writing


def index_texts(connection: Connection, learner_id: int, kind: TextKind, numbers: Sequence[int]) -> None:
    """Index the kept texts of runs or episodes as they are now, in the place of earlier words."""
    drop_indexed(connection, learner_id, kind, numbers)
    texts = stored_texts(connection, learner_id, kind, numbers)
    _add(connection, learner_id, kind, texts.items())


def index_step_texts(
    connection: Connection, learner_id: int, number: int, texts: Iterable[str | None]
) -> None:
    """Add the words of new steps to those of an episode."""
    _add(connection, learner_id, "episode", [(number, "\n".join(map(plain_text, texts)))])


def _add(connection: Connection, learner_id: int, kind: TextKind, texts: Iterable[tuple[int, str]]) -> None:
    rows = [
        (learner_id, kind, number, _listed([_learner_key(learner_id), _key(learner_id, kind, number)], text))
        for number, text in texts
    ]
    connection.many(_INSERT, rows)


def _listed(keys: Sequence[str], text: str) -> str:
    """Return the keys and distinct words of a text, as many as fit."""
    distinct = dict.fromkeys([*keys, *words_of(text)])
    encoded = " ".join(distinct).encode()[:_MAX_WORDS_BYTES]
    return encoded.decode("utf-8", "ignore")


def drop_indexed(connection: Connection, learner_id: int, kind: TextKind, numbers: Sequence[int]) -> None:
    """Remove runs or episodes from the index."""
    connection.many(_DELETE, [(learner_id, _key(learner_id, kind, number)) for number in numbers])


def clear_index(connection: Connection, learner_id: int) -> None:
    """Remove a learner from the index."""
    connection.run(_DELETE, [learner_id, _learner_key(learner_id)])


def _learner_key(learner_id: int) -> str:
    return f"{_MARK}{learner_id}"


def _key(learner_id: int, kind: str, number: int | str) -> str:
    return f"{_MARK}{learner_id}{_MARK}{kind}{_MARK}{number}"


# Building


def build_learner(connection: Connection, learner_id: int) -> None:
    """Index all kept texts of a learner, at once, and note it: a later upgrade has nothing to index."""
    clear_index(connection, learner_id)
    for kind in _TEXTS:
        while _build_some(connection, learner_id=learner_id, kind=kind):
            pass


def build_all(connection: Connection) -> None:
    """Index the kept texts of all learners, at once."""
    for learner_id in _with_texts(connection):
        build_learner(connection, learner_id)


def _with_texts(connection: Connection) -> list[int]:
    """Return the learners that keep texts."""
    rows = connection.rows("SELECT learner_id, settings FROM learner WHERE learner_id > 0")
    return [learner_id for learner_id, settings in rows if msgspec.json.decode(settings).get("keep_texts")]


def build_index(database: Database) -> None:
    """Index the kept texts of all learners, some at a time; an interrupted build goes on where it was."""
    with database.reading() as connection:
        learners = _with_texts(connection)
    for learner_id in learners:
        for kind in _TEXTS:
            while database.write(partial(_build_some, learner_id=learner_id, kind=kind)):
                pass


def _build_some(connection: Connection, *, learner_id: int, kind: TextKind) -> bool:
    """Index the next texts of a kind, and note how far it went; return whether there may be more."""
    progress = _key(learner_id, "built", kind)
    row = connection.row(
        f"SELECT max(no) FROM {NAME} WHERE learner_id = ? AND {_HAS_WORDS}", [learner_id, progress]
    )
    last = 0 if row is None or row[0] is None else int(row[0])
    if last == _DONE:
        return False
    rows = connection.rows(_NUMBERS[kind], [learner_id, last, _AT_ONCE])
    numbers = [number for (number,) in rows]
    index_texts(connection, learner_id, kind, numbers)
    reached = numbers[-1] if len(numbers) == _AT_ONCE else _DONE
    connection.run(_DELETE, [learner_id, progress])
    connection.run(_INSERT, [learner_id, "built", reached, f"{_learner_key(learner_id)} {progress}"])
    return reached != _DONE


# Reading


def find_indexed(
    connection: Connection, learner_id: int, words: Sequence[str], limit: int
) -> list[IndexedText]:
    """Return runs and episodes whose texts may have words, the latest indexed first; none for words without letters.

    The last part of a word may be the beginning of one in the text.
    """
    parts = [words_of(word) for word in words]
    terms = [term for every in parts if every for term in (*every[:-1], f"{every[-1]}:*")]
    if not terms:
        return []
    query = " & ".join(dict.fromkeys([_learner_key(learner_id), *terms]))
    rows: list[tuple[Any, ...]] = connection.rows(
        f"SELECT kind, no FROM {NAME} WHERE learner_id = ? AND {_HAS_WORDS} AND kind <> 'built'"
        f" ORDER BY {NEWEST_WORDS} DESC LIMIT ?",
        [learner_id, query, limit],
    )
    return list(dict.fromkeys(IndexedText(kind, int(number)) for kind, number in rows))
