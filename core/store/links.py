"""Links: the sum of all stored facts, its comparison with the chain, and the chain of a database without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import msgspec

from core.records.verification import Difference
from core.store.chain import (
    STATE,
    Chain,
    JointDigests,
    Link,
    State,
    added,
    are_whole,
    facts_of,
    head_of,
    held_links,
    split_by_digest,
    sum_of,
    unpacked,
)
from core.store.covered import ENCODING, ENCODINGS, TOGETHER, Row, columns_of, has_joint_digest, key_of
from core.store.engine import Connection, Database
from core.store.engine.dialect import ACTIVE, MESSAGES_DIGEST
from core.store.tables import beyond, insert_into

ADD_LINK: Final = insert_into("link", "learner_id", *Link._fields)
_PIECE: Final = 20_000
_HAS_SOURCE: Final = (
    "NOT EXISTS (SELECT 1 FROM {0} e WHERE e.learner_id = ?1 AND e.{0}_no = t.{0}_no AND e.bare = 1"
    f" AND NOT e.{ACTIVE} AND NOT EXISTS (SELECT 1 FROM provenance s WHERE s.learner_id = ?1"
    " AND s.kind = '{0}' AND s.no = e.{0}_no))"
)
"""Condition: an import that never settled has not left the row."""
_CONDITIONS: Final = {
    "layer": _HAS_SOURCE.format("layer"),
    "execution": _HAS_SOURCE.format("execution"),
    "training_pair": _HAS_SOURCE.format("execution"),
}

_UNTIL: Final = frozenset(("run", "run_text"))
"""Tables that hold rows of an import in progress, beyond the learner's revision."""

_RUNS: Final = (
    "t.revision <= ? AND NOT EXISTS (SELECT 1 FROM provenance s WHERE s.learner_id = ?1"
    " AND s.kind = 'run' AND s.no = t.run_no)"
)
_OF_RUNS: Final = "provenance t JOIN run r ON r.learner_id = t.learner_id AND r.run_no = t.no"
_SOURCES_OF_RUNS: Final = "t.kind = 'run' AND t.revision <= ?"

_LEARNER: Final = f"SELECT {', '.join(STATE)}, chain_at, next_link_no FROM learner WHERE learner_id = ?"
_LINKS_OF: Final = f"SELECT {', '.join(Link._fields)} FROM link WHERE learner_id = ?"
_LINKS: Final = f"{_LINKS_OF} ORDER BY link_no"

BEGUN: Final = "begun"
"""Position of a chain of which nothing is built."""
TRANSCRIPTS: Final = "transcripts"
"""Position of a chain of all facts but the transcripts, which an older version left out."""


class _Source(NamedTuple):
    """A query of facts of one table, whose rows are sorted by a key; ``key_at`` are its positions in a row."""

    table: str
    columns: tuple[str, ...]
    tables: str
    condition: str
    key: tuple[str, ...]
    key_at: tuple[int, ...]

    def sql(self, *, goes_on: bool) -> str:
        marks = ", ".join("?" * len(self.key))
        beyond = f" AND ({', '.join(self.key)}) > ({marks})" if goes_on else ""
        condition = f" AND {self.condition}" if self.condition else ""
        order = f" ORDER BY {', '.join(self.key)}" if self.key else ""
        return (
            f"SELECT {', '.join(self.columns)} FROM {self.tables} WHERE t.learner_id = ?1{condition}{beyond}"
            f"{order} LIMIT ?"
        )


@cache
def _sources() -> tuple[_Source, ...]:
    """Return the queries of all facts; of a run with several sources each source is a fact."""
    tables = [name for name in ENCODINGS[ENCODING] if name not in _UNTIL]
    plain = [
        _Source(
            name,
            tuple(f"t.{column}" for column in columns_of(name)),
            f'"{name}" t',
            _CONDITIONS.get(name, ""),
            tuple(f"t.{column}" for column in key_of(name)),
            tuple(columns_of(name).index(column) for column in key_of(name)),
        )
        for name in tables
    ]
    names = columns_of("run")
    one = tuple(f"t.{name}" for name in names)
    several = ("t.no", "r.uid", *(f"t.{name}" for name in names[2:]))
    return (
        *plain,
        _Source("run", one, "run t", _RUNS, ("t.run_no",), (0,)),
        _Source("run", several, _OF_RUNS, _SOURCES_OF_RUNS, ("t.no", "t.import_no"), (0, 2)),
        # The last, as an upgrade adds it to chains that have all others.
        _Source(
            "run_text",
            ("t.run_no", "t.trace", MESSAGES_DIGEST),
            "run_text t",
            "t.revision <= ?",
            ("t.run_no", "t.trace"),
            (0, 1),
        ),
    )


class Subject(NamedTuple):
    """The learner whose facts are added up: its number, name, key, and the revision up to which they count."""

    learner_id: int
    learner: str
    key: bytes
    revision: int


def shown_head(link_no: int, head: bytes | None) -> str | None:
    """Return a head with the number of its link, as people note it.

    >>> shown_head(12, bytes.fromhex("00ff")), shown_head(0, None)
    ('12:00ff', None)
    """
    return None if head is None else f"{link_no}:{head.hex()}"


def _piece(
    connection: Connection, subject: Subject, source: _Source, after: Sequence[Any] | None, limit: int
) -> tuple[list[Row], Row | None]:
    """Return rows beyond a key, joint digests whole, and the key of the last; None where these are all."""
    until = [subject.revision] if source.table in _UNTIL else []
    rows = connection.rows(
        source.sql(goes_on=after is not None), [subject.learner_id, *until, *(after or ()), limit]
    )
    if len(rows) < limit or not source.key:
        return rows, None
    if source.table in TOGETHER:
        rows = _whole_revisions(source.table, rows)
        if not rows:
            return _piece(connection, subject, source, after, 4 * limit)
    last = tuple([rows[-1][at] for at in source.key_at])
    return rows, last if after is None else beyond(tuple(after), last)


def _whole_revisions(table: str, rows: list[Row]) -> list[Row]:
    """Return rows without those of the last revision, of which there may be more."""
    at = columns_of(table).index("revision")
    together = [index for index, row in enumerate(rows) if has_joint_digest(table, row)]
    last = [index for index in together if rows[index][at] == rows[together[-1]][at]]
    return rows[: last[0]] if last else rows


def _sum(subject: Subject, table: str, rows: Sequence[Row]) -> int:
    together, single = split_by_digest(table, facts_of(table, rows, subject.learner))
    digests = JointDigests(subject.key)
    if together:
        digests.add(table, together)
    return added(digests.close(), sum_of(subject.key, table, single))


def sum_of_facts(connection: Connection, subject: Subject) -> int:
    """Return the sum of the digests of all facts of a learner."""
    total = 0
    for source in _sources():
        after, is_begun = None, False
        while after is not None or not is_begun:
            rows, after = _piece(connection, subject, source, after, _PIECE)
            total, is_begun = added(total, _sum(subject, source.table, rows)), True
    return total


def beyond_rows(connection: Connection, subject: Subject, stored: bytes | None) -> int:
    """Return what a stored sum has beyond that of the rows; 0 where they are equal."""
    return added(unpacked(stored), -sum_of_facts(connection, subject))


def sources_from(connection: Connection, learner_id: int, revision: int) -> list[Row]:
    """Return the sources of runs from a revision on: those that an import has staged."""
    return [
        row
        for source in _sources()
        if source.table == "run"
        for row in connection.rows(
            source.sql(goes_on=False).replace("revision <= ?", "revision >= ?"),
            [learner_id, revision, 1 << 62],
        )
    ]


# Comparison


def unlike_chain(
    connection: Connection, learner_id: int, learner: str, revision: int
) -> Iterator[Difference]:
    """Check that the facts add up to the last link, and that each link follows from the earlier ones."""
    row = connection.row(_LEARNER, [learner_id])
    if row is None:
        return
    *columns, position, next_link_no = row
    state = State(*columns)
    if position:
        yield Difference("learner", "chain_at", position, "a chain that is complete: run armscope upgrade")
        return
    yield from unlike_links(connection, learner_id, state, next_link_no)
    if beyond_rows(connection, Subject(learner_id, learner, state.key or b"", revision), state.sum):
        yield Difference(
            "link",
            "the last",
            "the sum of other facts",
            "that of the rows: a fact was changed, added or lost",
        )


def unlike_links(
    connection: Connection, learner_id: int, state: State, next_link_no: int
) -> Iterator[Difference]:
    """Check that each link follows from the earlier ones, and that the learner's row fits the last."""
    before, last = None, None
    if not are_whole(state.held):
        yield Difference("learner", "chain_held", f"{len(state.held or b'')} bytes", "whole links")
    for last in _links(connection, learner_id, state.held):
        if last.encoding not in ENCODINGS or last.head != head_of(before, last):
            yield Difference("link", str(last.link_no), f"head {shown(last.head)}", "that of its content")
        before = last.head
    if before != state.head:
        yield Difference(
            "learner", "chain_head", f"head {shown(state.head)}", f"{shown(before)} of the last link"
        )
    if next_link_no != (1 if last is None else last.link_no + 1):
        yield Difference("learner", "next_link_no", str(next_link_no), "one beyond the last link")
    if unpacked(None if last is None else last.sum) != unpacked(state.sum):
        yield Difference("learner", "chain_sum", "another sum", "that of the last link")


def _links(connection: Connection, learner_id: int, held: bytes | None) -> Iterator[Link]:
    yield from (Link(*row) for row in connection.each(_LINKS, [learner_id]))
    yield from held_links(held)


def _held(connection: Connection, learner_id: int) -> list[Link]:
    row = connection.row("SELECT chain_held FROM learner WHERE learner_id = ?", [learner_id])
    return [] if row is None else held_links(row[0])


def last_link(connection: Connection, learner_id: int) -> Link | None:
    """Return the latest link of a learner."""
    held = _held(connection, learner_id)
    row = connection.row(f"{_LINKS} DESC LIMIT 1", [learner_id])
    return held[-1] if held else None if row is None else Link(*row)


def link_numbered(connection: Connection, learner_id: int, link_no: int) -> Link | None:
    """Return the link of a number."""
    row = connection.row(f"{_LINKS_OF} AND link_no = ?", [learner_id, link_no])
    if row is not None:
        return Link(*row)
    return next((link for link in _held(connection, learner_id) if link.link_no == link_no), None)


def link_with(connection: Connection, learner_id: int, head: bytes, link_no: int | None) -> Link | None:
    """Return the link that has a head, under this number if there is one."""
    by_number, number = ("", []) if link_no is None else (" AND link_no = ?", [link_no])
    row = connection.row(f"{_LINKS_OF}{by_number} AND head = ?", [learner_id, *number, head])
    stored = [] if row is None else [Link(*row)]
    links = [*stored, *_held(connection, learner_id)]
    return next((link for link in links if link.head == head and link_no in {None, link.link_no}), None)


def shown(head: bytes | None) -> str:
    """Return a head as people read it; "none" for a learner without a link."""
    return "none" if head is None else head.hex()


# The chain of a database that has none


class Covered(NamedTuple):
    """A learner of which an upgrade brought all facts under the chain, and the head from which on it covers them."""

    learner: str
    head: str | None


def build(database: Database) -> tuple[Covered, ...]:
    """Build the chains of learners that have none, piece by piece; a later call goes on after the last piece."""
    with database.reading() as connection:
        learners = connection.rows(
            "SELECT learner_id, name FROM learner WHERE chain_at <> '' ORDER BY learner_id"
        )
    for number, _ in learners:
        while database.write(partial(_build_on, learner_id=number)):
            pass
    with database.reading() as connection:
        return tuple(Covered(name, _head(connection, number)) for number, name in learners if number)


def _head(connection: Connection, learner_id: int) -> str | None:
    link = last_link(connection, learner_id)
    return None if link is None else shown_head(link.link_no, link.head)


def _build_on(connection: Connection, *, learner_id: int) -> bool:
    """Add the next piece of a learner's facts; return whether more is to come."""
    row = connection.row(
        "UPDATE learner SET chain_at = chain_at WHERE learner_id = ?"
        f" RETURNING name, revision, chain_at, next_link_no, {', '.join(STATE)}",
        [learner_id],
    )
    if row is None or not row[2]:
        return False
    name, revision, position, link_no, *columns = row
    chain = Chain(State(*columns), name)
    begins: dict[str, tuple[int, Any]] = {BEGUN: (0, None), TRANSCRIPTS: (len(_sources()) - 1, None)}
    index, after = begins.get(position) or msgspec.json.decode(position)
    subject = Subject(learner_id, name, chain.key, revision)
    source = _sources()[index]
    rows, after = _piece(connection, subject, source, after, _PIECE)
    chain.move(_sum(subject, source.table, rows))
    if after is None:
        index += 1
    is_done = index == len(_sources())
    if is_done and chain.sum:
        chain.append(link_no, revision, 0)
        connection.many(ADD_LINK, [[learner_id, *due] for due in chain.due])
        link_no += 1
    connection.run(
        f"UPDATE learner SET {', '.join(f'{name} = ?' for name in STATE)}, chain_at = ?, next_link_no = ?"
        " WHERE learner_id = ?",
        [
            *chain.state,
            "" if is_done else msgspec.json.encode((index, after)).decode(),
            link_no,
            learner_id,
        ],
    )
    return not is_done
