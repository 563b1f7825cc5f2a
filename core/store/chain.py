"""Chain: one link per write that changes a fact, over the sum of all facts after it.

Each row of facts has a digest of its canonical encoding: table and values, packed. The sum of all digests, modulo
2**512, depends on no order. A link's head is the digest of the earlier head and of the sum. So it changes with every
fact and every earlier link. Left out are caches, states (replayed from undo acts), and values that follow from
others.

The digests are commitments: they are salted with 128 random bits of the learner, their key. Erasing draws another
key, so that no earlier sum, here or in a backup, allows a test of a guess of an erased text. Links never change.

Rewards, undos and entries of the log of one revision have one digest together: a batch has thousands of them.

The connection of a write encodes an INSERT from its values. Rows that an UPDATE, DELETE or upsert may touch are read
before and after. An upsert counts as an INSERT if the row can't exist yet: the write itself took its number, and
upserts it for the first time. A statement that changes no covered column costs one look-up of its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import groupby, repeat
from operator import itemgetter, methodcaller
from secrets import token_bytes
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from core.store.covered import (
    APART,
    BY_KEY,
    ENCODING,
    FACT_OF_ROW,
    IMPORT_AT,
    TOGETHER,
    Change,
    Row,
    change_of,
    changes_any,
    columns_of,
    counter_of,
    covered_among,
    differs,
    encoding_of,
    floats_of,
    has_joint_digest,
    has_kinds,
    key_of,
    place_of,
    selected,
    without_amounts,
)
from core.store.engine import Connection

KEY_BYTES: Final = 16
HEAD_BYTES: Final = 32
SUM_BYTES: Final = 64
_MODULUS: Final = 1 << 8 * SUM_BYTES
_MANY: Final = 32
"""From this number of digests on NumPy adds them faster."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode

packed: Final[Callable[[int], bytes]] = methodcaller("to_bytes", SUM_BYTES, "little")
"""Return a sum as it is stored."""

_LINK: Final = Struct(f"<qqqq{SUM_BYTES}s{HEAD_BYTES}s")
"""The fields of `Link` as a learner's row holds them."""
_MOST_HELD: Final = 8
"""With this many links in a learner's row, all move to the table. Each act changes the row anyway."""

STATE: Final = ("chain_key", "chain_sum", "chain_head", "chain_held", "staged_sum")
"""The columns of `State`."""


def facts_of(table: str, rows: Iterable[Row], learner: str) -> list[Row]:
    """Return rows, in the order of `columns_of`, as the chain encodes them, without those that are no facts."""
    if floats := floats_of(table):
        rows = [_with_floats(row, floats) for row in rows]
    if table == "observation":
        return [without_amounts(row) if row[-2] or row[-1] else row for row in rows]
    plain = FACT_OF_ROW.get(table)
    if plain is None:
        return list(rows)
    return [fact for row in rows if (fact := plain(row, learner)) is not None]


def _with_floats(row: Row, floats: Sequence[int]) -> Row:
    """Return the numbers of a row as engines give them back: 2 as 2.0, and -0.0 as 0.0."""
    changed = list(row)
    for at in floats:
        if changed[at] is not None:
            changed[at] = float(changed[at]) + 0.0
    return tuple(changed)


# Digests and sums


@lru_cache(maxsize=512)
def _begun(key: bytes, table: str) -> blake2b:
    begun = blake2b(key=key)
    begun.update(_ENCODE((encoding_of(table), table)))
    return begun


def sum_of(key: bytes, table: str, facts: Iterable[Row]) -> int:
    """Return the sum of the digests of facts, each by itself."""
    begun, digests = _begun(key, table), []
    for fact in facts:
        digest = begun.copy()
        digest.update(_ENCODE(fact))
        digests.append(digest.digest())
    if len(digests) < _MANY:
        return sum([int.from_bytes(one, "little") for one in digests]) % _MODULUS
    words = np.frombuffer(b"".join(digests), dtype="<u4").reshape(len(digests), -1)
    sums: list[int] = words.sum(axis=0, dtype=np.uint64).tolist()
    return sum([word << 32 * at for at, word in enumerate(sums)]) % _MODULUS


def added(one: int, other: int) -> int:
    """Return the sum of two sums."""
    return (one + other) % _MODULUS


def unpacked(stored: bytes | None) -> int:
    """Return a stored sum; None is that of no facts."""
    return 0 if stored is None else int.from_bytes(stored, "little")


class JointDigests:
    """Digests of the rows of one table and revision, which come in the order of their numbers."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._begun: dict[tuple[str, int], blake2b] = {}

    def add(self, table: str, facts: Iterable[Row]) -> None:
        """Add facts to the digests of their revisions."""
        for revision, listed in groupby(facts, itemgetter(place_of(table, "revision"))):
            digest = self._begun.get((table, revision))
            if digest is None:
                digest = self._begun[table, revision] = _begun(self._key, table).copy()
                digest.update(_ENCODE(revision))
            encoded = memoryview(_ENCODE(group := list(listed)))
            # Of a packed array its length is left out, so that a digest doesn't depend on who added how many.
            digest.update(encoded[1 if len(group) < 1 << 4 else 3 if len(group) < 1 << 16 else 5 :])

    def close(self) -> int:
        """Return the sum of the digests so far, and forget them."""
        total = sum([int.from_bytes(digest.digest(), "little") for digest in self._begun.values()])
        self._begun.clear()
        return total % _MODULUS


def split_by_digest(table: str, facts: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the facts with a digest together, and those with one each."""
    if table != "observation":
        return (facts, []) if table in TOGETHER else ([], facts)
    together = [fact for fact in facts if fact[IMPORT_AT] == 0]
    return together, [] if len(together) == len(facts) else [fact for fact in facts if fact[IMPORT_AT]]


# Links


class Link(NamedTuple):
    """One link: its number, encoding, the learner's revision, time, the sum after it, and its head."""

    link_no: int
    encoding: int
    revision: int
    at_ms: int
    sum: bytes
    head: bytes


def held_links(stored: bytes | None) -> list[Link]:
    """Return the latest links that a learner's row holds, oldest first; what is left of a part of one is no link."""
    held = stored or b""
    return [Link(*one) for one in _LINK.iter_unpack(held[: len(held) // _LINK.size * _LINK.size])]


def are_whole(stored: bytes | None) -> bool:
    """Return whether the links that a row holds are complete."""
    return len(stored or b"") % _LINK.size == 0


def head_of(before: bytes | None, link: Link) -> bytes:
    """Return the head of a link, which changes with each link up to it."""
    content = _ENCODE((before or b"", link.encoding, link.link_no, link.revision, link.at_ms, link.sum))
    return blake2b(content, digest_size=HEAD_BYTES).digest()


class State(NamedTuple):
    """A learner's chain as its row has it: key, sum, latest head, latest links, sum of what an import has staged."""

    key: bytes | None
    sum: bytes | None
    head: bytes | None
    held: bytes | None
    staged: bytes | None


class Chain:
    """The chain of one learner during one write. Where an import stages, facts count once it settles."""

    def __init__(self, state: State, learner: str, *, is_staging: bool = False) -> None:
        self.key = state.key or token_bytes(KEY_BYTES)
        self.head = state.head
        self.sum = self._before = unpacked(state.sum)
        self.staged = 0 if state.staged is None else unpacked(state.staged)
        self._held = state.held or b""
        self.due: list[Link] = []
        """Links to insert into the table now; the learner's row holds those since."""
        self._learner = learner
        self._is_staging = is_staging
        self._together = JointDigests(self.key)

    @contextmanager
    def staging(self) -> Iterator[None]:
        """Count what changes in this block for the import that is staged."""
        before, self._is_staging = self._is_staging, True
        yield
        self._is_staging = before

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Add rows that were inserted, in the order of `columns_of`."""
        facts = facts_of(table, rows, self._learner) if differs(table) else list(rows)
        together, single = split_by_digest(table, facts) if table in TOGETHER else ([], facts)
        if together:
            self._together.add(table, together)
        if single:
            self.move(sum_of(self.key, table, single))

    def change(self, table: str, before: Iterable[Row], after: Iterable[Row]) -> None:
        """Subtract rows as they were, and add them as they are now."""
        old, new = (set(facts_of(table, rows, self._learner)) for rows in (before, after))
        assert not any(has_joint_digest(table, fact) for fact in old ^ new)  # noqa: S101 - only erasing changes those
        self.move(sum_of(self.key, table, new - old) - sum_of(self.key, table, old - new))

    def move(self, by: int) -> None:
        """Change the sum, or the sum of what an import stages."""
        if self._is_staging:
            self.staged = (self.staged + by) % _MODULUS
        else:
            self.sum = (self.sum + by) % _MODULUS

    def adopt(self, table: str, rows: Iterable[Row]) -> None:
        """Count rows that an import has staged as facts of this write."""
        by = sum_of(self.key, table, facts_of(table, rows, self._learner))
        self.sum, self.staged = (self.sum + by) % _MODULUS, (self.staged - by) % _MODULUS

    def settle(self) -> None:
        """Add what an import has staged."""
        self.sum, self.staged = (self.sum + self.staged) % _MODULUS, 0

    def rewrite(self, sum_under: Callable[[bytes], int], change: Callable[[], None]) -> None:
        """Change any rows of the learner and draw another key.

        ``sum_under(key)`` returns the sum of all rows under a key. Only the difference counts, so damage from before
        is still found.
        """
        self.flush()
        before = sum_under(self.key)
        change()
        self.key = token_bytes(KEY_BYTES)
        self._together = JointDigests(self.key)
        self.move(sum_under(self.key) - before)

    def flush(self) -> None:
        """Add the digests of rows that belong together."""
        self.move(self._together.close())

    def link(self, number: int, revision: int, at_ms: int) -> Link | None:
        """Return the link of this write, under this number; None if it changes no fact."""
        self.sum = (self.sum + self._together.close()) % _MODULUS
        return None if self.sum == self._before else self.append(number, revision, at_ms)

    def append(self, number: int, revision: int, at_ms: int) -> Link:
        """Return a link over the present sum, after all others."""
        link = Link(number, ENCODING, revision, at_ms, packed(self.sum), b"")
        self.head = head_of(self.head, link)
        link = link._replace(head=self.head)
        self._held += _LINK.pack(*link)
        if len(self._held) >= _MOST_HELD * _LINK.size:
            self.due, self._held = held_links(self._held), b""
        return link

    @property
    def state(self) -> State:
        """Return the state to be stored."""
        staged = packed(self.staged) if self.staged else None
        return State(self.key, packed(self.sum), self.head, self._held or None, staged)


class ChainedConnection:
    """Connection whose writes add to a chain; ``first`` are the counters' next numbers when the write began."""

    def __init__(
        self, connection: Connection, chain: Chain, learner_id: int, learner: str, first: Mapping[str, int]
    ) -> None:
        self.plain = connection
        self._learner_id = learner_id
        self._chain = chain
        self._learner = learner
        self._first = first
        self._upserts: set[tuple[str, Row]] = set()
        self._inserts: set[tuple[str, str]] = set()
        """Tables and counters of inserted rows: a later upsert may change one of them."""
        self._is_unchained = False
        # Bound once, because a write calls them often.
        self.rows, self.row, self.rows_in = connection.rows, connection.row, connection.rows_in
        self.together, self.amend = connection.together, connection.amend

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the connection's
        return getattr(self.plain, name)

    @contextmanager
    def unchained(self) -> Iterator[None]:
        """Follow no statement: the caller sums all rows before and after."""
        self._is_unchained = True
        try:
            yield
        finally:
            self._is_unchained = False
            self._first = {}  # any row may have been written

    def _change(self, sql: str) -> Change | None:
        return None if self._is_unchained else change_of(sql)

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        change = self._change(sql)
        if change is None:
            self.plain.run(sql, values)
        else:
            self._follow(change, [values], lambda: self.plain.run(sql, values))

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        change = self._change(sql)
        if change is None:
            self.plain.many(sql, rows)
        else:
            listed = list(rows)
            self._follow(change, listed, lambda: self.plain.many(sql, listed))

    def n_changed(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        change = self._change(sql)
        if change is None:
            return self.plain.n_changed(sql, rows)
        listed, answers = list(rows), []
        self._follow(change, listed, lambda: answers.append(self.plain.n_changed(sql, listed)))
        return answers[0]

    def run_in(self, sql: str, head: Sequence[Any], values: Sequence[Any]) -> None:
        change = self._change(sql)
        if change is None or not values:
            self.plain.run_in(sql, head, values)
            return
        before = self.plain.rows_in(change.select(), head[change.n_assigned :], values)
        self.plain.run_in(sql, head, values)
        self._add_change(change, before)

    def insert(
        self, table: str, columns: Sequence[str], learner_id: int, values: Iterable[Any], *, upsert: str = ""
    ) -> None:
        name = table.strip('"')
        if self._is_unchained or name in APART or not columns_of(name):
            self.plain.insert(table, columns, learner_id, values, upsert=upsert)
            return
        flat, width = list(values), len(columns)
        covered = covered_among(name, tuple(columns))
        if len(flat) == width:
            rows = [tuple([one if at is None else flat[at] for at, one in covered])]
        else:
            n = len(flat) // width
            rows = [
                *zip(*(repeat(one, n) if at is None else flat[at::width] for at, one in covered), strict=True)
            ]

        write = partial(self.plain.insert, table, columns, learner_id, flat, upsert=upsert)
        if upsert:
            self._follow_upsert(name, [_key(name, row) for row in rows], rows, upsert, write)
        else:
            self._follow_insert(name, rows, write)

    # Changes

    def _follow(self, change: Change, rows: Sequence[Sequence[Any]], write: Callable[[], None]) -> None:
        if change.kind != "insert":
            before = self._matching_rows(change, rows)
            write()
            self._add_change(change, before)
            return
        inserted = [tuple([one if at is None else row[at] for at, one in change.columns]) for row in rows]
        if change.upsert:
            keys = [tuple([one if at is None else row[at] for at, one in change.key]) for row in rows]
            self._follow_upsert(change.table, keys, inserted, change.upsert, write)
        else:
            self._follow_insert(change.table, inserted, write)

    def _follow_insert(self, table: str, rows: Sequence[Row], write: Callable[[], None]) -> None:
        kinds = {row[0] for row in rows} if has_kinds(table) else {None} if rows else ()
        self._inserts.update((table, counter_of(table, kind)) for kind in kinds)
        self._chain.add(table, rows)
        write()

    def _follow_upsert(
        self,
        table: str,
        keys: Sequence[Row],
        rows: Sequence[Row],
        upsert: str,
        write: Callable[[], None],
    ) -> None:
        """Follow an upsert: rows under new numbers are inserts, others may exist already."""
        fresh: dict[Row, Row] = {}
        known: dict[Row, None] = {}
        may_change = changes_any(upsert)
        for key, row in zip(keys, rows, strict=True):
            if self._is_new(table, key):
                self._upserts.add((table, key))
                fresh[key] = row
            elif key in fresh or may_change or facts_of(table, [row], self._learner):
                known[key] = None
                fresh.pop(key, None)  # twice in one statement: what is stored decides
        before = self._by_keys(table, list(known))
        write()
        self._chain.add(table, fresh.values())
        if known:
            self._chain.change(table, before, self._by_keys(table, list(known)))

    def _is_new(self, table: str, key: Row) -> bool:
        at = int(has_kinds(table))
        counter = counter_of(table, key[0] if at else None)
        first = self._first.get(counter)
        if first is None or (table, counter) in self._inserts or (table, key) in self._upserts:
            return False
        return bool(key[at] >= first)

    def _matching_rows(self, change: Change, rows: Sequence[Sequence[Any]]) -> list[Row]:
        """Return the rows that match a statement's condition."""
        table, n = change.table, change.n_assigned
        match = BY_KEY.fullmatch(change.condition)
        named = tuple(re.findall(r" AND (\w+) = ", match[1])) if match else ()
        if match and len(rows) > 1 and sorted(named) == sorted(key_of(table)):
            order = [named.index(name) for name in key_of(table)]
            return self._by_keys(table, [tuple(row[n + 1 + at] for at in order) for row in rows])
        matched: dict[Row, None] = {}
        for row in rows:
            matched.update(dict.fromkeys(self.plain.rows(change.select(), row[n:])))
        return list(matched)

    def _add_change(self, change: Change, before: Sequence[Row]) -> None:
        if before:
            keys = [_key(change.table, row) for row in before]
            after = [] if change.kind == "delete" else self._by_keys(change.table, keys)
            self._chain.change(change.table, before, after)

    def _by_keys(self, table: str, keys: Sequence[Row]) -> list[Row]:
        """Return the existing rows of these keys."""
        if not keys:
            return []
        learner_id, names = self._learner_id, key_of(table)
        if not names:
            return self.plain.rows(f"{selected(table)} WHERE learner_id = ?", [learner_id])
        by_text = len(names) > 1 and isinstance(keys[0][0], str)
        requested, rows = {*keys}, []
        for head in sorted({key[:1] for key in keys}) if by_text else [()]:
            at = len(head)
            where = " AND ".join(("learner_id = ?", *(f"{name} = ?" for name in names[:at])))
            values = sorted({key[at] for key in keys if key[:at] == head})
            rows += self.plain.rows_in(
                f"{selected(table)} WHERE {where} AND {names[at]} IN ({{}})", [learner_id, *head], values
            )
        return [row for row in rows if _key(table, row) in requested]


def _key(table: str, row: Row) -> Row:
    covered = columns_of(table)
    return tuple([row[covered.index(name)] for name in key_of(table)])
