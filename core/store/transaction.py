"""Transaction: one learner inside one database transaction, for writing or for reading.

Every write starts with one UPDATE of the learner's row (revision + 1), which orders that learner's writers. All
statements of an act name the learner by its number. So a distributed database is asked on one server only.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from random import getrandbits
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

import msgspec

from core.columns import UNKNOWN
from core.errors import SchemaMismatch, UnknownLearner
from core.records.actor import Actor, may
from core.records.arm import Arm, Prior, arm_type
from core.records.audit import ActionName
from core.records.learner import LearnerSettings, Sticky
from core.records.run import Inventory
from core.store.chain import STATE, Chain, ChainedConnection, State
from core.store.descriptions import Description, Descriptions
from core.store.engine import Connection, Row
from core.store.engine.dialect import ACTIVE, ARMS_BY_KEY
from core.store.engine.port import LEAST_S, WAITS
from core.store.erased import Erased
from core.store.links import ADD_LINK, Subject, shown_head, sources_from, sum_of_facts
from core.store.tables import ACT, LISTED, NUMBERED, insert_into, marking, metadata

V = TypeVar("V", int, str)
Detail = dict[str, str | int | float | bool | None]
"""Details of an audit entry."""
TAKEN: Final = ("arm", "run", "import", "adapter", "layer", "execution")
"""Kinds whose numbers an import takes before it settles."""
UNDECLARED: Final = 0
DECLARED: Final = 1
BY_IMPORT: Final = 2
"""Origin of an arm, as bits: only from runs; made on purpose; named by an active import."""

_MAX_INVENTORIES: Final = 10_000

_NEXT: Final = ", ".join(f"next_{name}_no" for name in NUMBERED)


_MAX_REMEMBERED: Final = 50_000
_TOKEN_BITS: Final = 63
_END: Final = (
    f"UPDATE learner SET revision = ?, token = ?, {', '.join(f'{name} = ?' for name in STATE)},"
    f" {', '.join(f'next_{name}_no = ?' for name in NUMBERED)} WHERE learner_id = ?"
)
TEXTS_OF_DETAILS: Final = frozenset(("reason", "text", "feedback"))
"""Members of audit details that are texts by people."""
_AUDIT: Final = ("audit_no", "actor", "action", "act", "detail", "at_ms", "revision")
_MAKE_ARM: Final = insert_into(
    "arm", "learner_id", "arm_no", "key", "type", "declared", "prior_alpha_micro", "prior_beta_micro"
)
_MAKE_POSTERIOR: Final = insert_into(
    "posterior", "learner_id", "arm_no", "base_alpha_micro", "base_beta_micro", "changed"
)
BEGUN: Final = (
    "learner_id, origin, settings, revision, token, staged_import_no, staged_revision, staged_parts,"
    f" chain_at, {', '.join(STATE)}, {_NEXT}"
)
"""A write's knowledge of its learner at the start."""

ROOM: Final = 1_000_000
"""Revisions that are left for acts during a staged import."""

_NEVER_WRITTEN: Final = (-1, "{}", 0, 0, 0, "", 0, 0, None, 1, 1, 1, 1, 1, 0)


@lru_cache(maxsize=64)
def _settings(stored: str) -> LearnerSettings:
    """Settings from their text; frozen, so every write may have the same."""
    return msgspec.json.decode(stored, type=LearnerSettings)


@lru_cache(maxsize=256)
def _setting(table: str, where: str, columns: tuple[str, ...]) -> str:
    changed = ", ".join(f"{column} = ?" for column in columns)
    return f"UPDATE {table} SET {changed}{marking(table)} WHERE learner_id = ? AND {where}"


def settings_of(connection: Connection, learner_id: int) -> LearnerSettings:
    """Return the settings in force of a learner, settled or not."""
    row = connection.row("SELECT settings FROM learner WHERE learner_id = ?", [learner_id])
    return LearnerSettings() if row is None else _settings(row[0])


def unknown_learner(facts: Facts) -> UnknownLearner:
    """The error for a learner that nothing was ever recorded under."""
    names = [
        known
        for (known,) in facts.connection.rows(
            "SELECT name FROM learner WHERE revision > 0 AND learner_id > 0 ORDER BY name LIMIT 10"
        )
    ]
    known = f"known are {', '.join(names)}" if names else "there is none yet"
    return UnknownLearner(
        f"There is no learner {facts.name!r}; {known}.",
        next_step="Name one with --learner, or import runs into it: that creates it.",
    )


def has_others(facts: Facts) -> bool:
    """Return whether another learner exists."""
    other = "SELECT 1 FROM learner WHERE revision > 0 AND learner_id > 0 AND name <> ? LIMIT 1"
    return facts.connection.row(other, [facts.name]) is not None


def _unfinished(name: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"The chain of learner {name!r} is incomplete: an upgrade was interrupted; nothing was written.",
        next_step="Run: armscope upgrade. It goes on from there.",
    )


def number_of(connection: Connection, name: str) -> int | None:
    """The number a learner was given; it may have no row yet, or none any more."""
    row = connection.row("SELECT learner_id FROM learner_name WHERE name = ?", [name])
    return None if row is None else int(row[0])


class Epochs:
    """Active resets of each arm, as their revisions; loaded for the requested arms."""

    def __init__(self, connection: Connection, learner_id: int) -> None:
        self._connection = connection
        self._learner_id = learner_id
        self._boundaries: dict[int, list[int]] = {}

    def load(self, arm_nos: Iterable[int]) -> None:
        """Read what is not known yet."""
        missing = sorted(set(arm_nos) - self._boundaries.keys())
        self._boundaries.update((arm_no, []) for arm_no in missing)
        for arm_no, revision in self._connection.rows_in(
            "SELECT a.arm_no, r.revision FROM reset r CROSS JOIN reset_arm a"
            f" WHERE r.learner_id = ? AND r.undone = 0 AND r.{ACTIVE}"
            " AND a.learner_id = r.learner_id AND a.reset_no = r.reset_no AND a.arm_no IN ({})"
            " ORDER BY r.revision",
            [self._learner_id],
            missing,
        ):
            self._boundaries[arm_no].append(revision)

    def of(self, arm_no: int, revision: int) -> int:
        """Return the epoch of a fact: the arm's latest active reset with a smaller revision; 0 = the first."""
        boundaries = self._boundaries[arm_no]
        index = bisect_left(boundaries, revision) if boundaries else 0
        return boundaries[index - 1] if index else 0

    def current(self, arm_no: int) -> int:
        boundaries = self._boundaries[arm_no]
        return boundaries[-1] if boundaries else 0

    def forget(self) -> None:
        """Read again what is asked next: boundaries have changed.

        They are kept from chunk to chunk of one act, or of one check, and never beyond it: reading them again for
        each chunk, undoing an import of 3,000 runs with 30 arms takes 1.06 times as long.
        """
        self._boundaries.clear()


class Known(NamedTuple):
    """Stored facts of an arm that a new naming could change: how it is listed, and its prior."""

    arm_no: int
    declared: int
    own_alpha_micro: int | None

    def differs(self, arm: Arm, declared: int) -> bool:
        return declared & ~self.declared != 0 or arm.prior is not None or self.own_alpha_micro is not None


class NumberedInventory(NamedTuple):
    """An inventory with the numbers and costs of its offered arms, and (number, version) of those with a version."""

    inventory: Inventory
    arm_nos: tuple[int, ...]
    costs: tuple[int, ...]
    definitions: tuple[tuple[int, str], ...]


class Byline(NamedTuple):
    """The actor and time of a fact; for an imported one also its id elsewhere and the number of its import."""

    actor: str
    at_ms: int
    uid: str = ""
    import_no: int = 0


class Signed(Protocol):
    """A line of an export that names its fact, actor and time; None = unknown."""

    @property
    def id(self) -> str: ...

    @property
    def by(self) -> str | None: ...

    @property
    def at_ms(self) -> int | None: ...


class SnapshotKey(NamedTuple):
    """Key of one state of a learner; a cache with this key is valid for this state only.

    The revision alone is not enough: after a restored backup, or a failover that lost a transaction, other facts get
    a revision that existed before. So each write draws a token, which is stored with the facts, and the file itself
    is identified too.
    """

    origin: str
    revision: int
    token: int
    file: tuple[int, ...]


class Memory(NamedTuple):
    """Cache from a write. The next write may use it only if nothing happened in between, which `SnapshotKey` shows.

    The learner's row itself confirms the number and name. Recording a run takes 14 statements with it and 18 without.
    That is 1.2 to 1.3 times as long for 30 arms in the prompt, up to 1.4 times for 300, and 1.05 to 1.1 times for one
    reward.
    """

    learner_id: int
    snapshot_key: SnapshotKey
    arms: dict[str, Known]
    epochs: dict[int, int]
    descriptions: dict[int, Description]
    erased: Erased | None


class Staged(NamedTuple):
    """The import in progress, 0 = none; its rows, from ``revision`` on, are left out by readers of their tables."""

    import_no: int
    revision: int
    parts: int


class Statements:
    """Statements about one learner, whose number is their first value; else they are those of `Connection`."""

    connection: Connection
    learner_id: int
    look_up_blind: Callable[[], frozenset[int]] = frozenset
    """Lookup of ``blind``; `core.flows.context` sets it."""

    @cached_property
    def blind(self) -> frozenset[int]:
        """Numbers of the runs whose arms and side the reader may not see now."""
        return self.look_up_blind()

    def rows(self, sql: str, values: Iterable[object] = ()) -> list[Row]:
        """Return the rows of a query whose first parameter is the learner; ``values`` are the others."""
        return self.connection.rows(sql, [self.learner_id, *values])

    def row(self, sql: str, values: Iterable[object] = ()) -> Row | None:
        return self.connection.row(sql, [self.learner_id, *values])

    def scalar(self, kind: type[V], sql: str, values: Iterable[object] = ()) -> V | None:
        """Return the only value of the first row as this type; None without a row, or for NULL."""
        row = self.connection.row(sql, [self.learner_id, *values])
        return None if row is None or row[0] is None else kind(*row)

    def count_of(self, sql: str, values: Iterable[object] = ()) -> int:
        """Return the only value of the first row as a whole number; 0 without a row, or for NULL."""
        row = self.connection.row(sql, [self.learner_id, *values])
        return 0 if row is None else int(row[0] or 0)

    def has_row(self, sql: str, values: Iterable[object] = ()) -> bool:
        """Return whether there is a row."""
        return self.connection.row(sql, [self.learner_id, *values]) is not None

    def each(self, sql: str, values: Iterable[object] = ()) -> Iterator[Row]:
        return self.connection.each(sql, [self.learner_id, *values])

    def rows_in(self, sql: str, values: Sequence[object], tail: Sequence[object] = ()) -> list[Row]:
        return self.connection.rows_in(sql, [self.learner_id], values, tail)

    def column(self, sql: str, values: Iterable[object] = ()) -> list[Any]:
        """Return the values of a query's only column."""
        return [value for (value,) in self.connection.rows(sql, [self.learner_id, *values])]

    def distinct_in(self, sql: str, values: Sequence[object]) -> set[Any]:
        """Return the different values of the only column of a query over a list."""
        return {value for (value,) in self.connection.rows_in(sql, [self.learner_id], values)}

    def run(self, sql: str, values: Iterable[object] = ()) -> None:
        self.connection.run(sql, [self.learner_id, *values])

    def run_in(self, sql: str, values: Sequence[object]) -> None:
        self.connection.run_in(sql, [self.learner_id], values)


class Snapshot(Statements):
    """One learner at one revision; ``learner_id`` -1 where it does not exist yet.

    A learner that only an unsettled import is making has no revision yet.
    """

    is_compacted = False
    """Rows of old runs were deleted; their sums are left."""
    has_experiments = False
    """An experiment was ever started or imported."""
    state_of_experiments: tuple[object, ...] = ()
    """Key of the experiments and their states: each change appends an experiment, an undo or an import."""

    def __init__(self, connection: Connection, name: str, number: int | None = None) -> None:
        """``number``: what the learner went by the last time, which may be another's by now."""
        self.connection = connection
        self.together = connection.together
        self.name = name
        row = None if number is None else self._row_by_number(number)
        if row is None and (number := number_of(connection, name)) is not None:
            row = self._row_by_number(number)
        (
            self.learner_id,
            settings,
            *staged,
            self.origin,
            self.revision,
            token,
            head,
            next_link,
            next_compaction,
            next_experiment,
            next_undo,
            next_import,
            has_holds,
        ) = row or _NEVER_WRITTEN
        self.has_holds = bool(has_holds)
        """A person holds an item of a queue, or did lately."""
        self.is_compacted = next_compaction > 1
        self.has_experiments = next_experiment > 1
        self.state_of_experiments = (self.origin, connection.file, next_experiment, next_undo, next_import)
        self.head = shown_head(next_link - 1, head)
        """Head of the learner's chain, None without a link."""
        self.staged = Staged(*staged)
        self.moment = SnapshotKey(self.origin, self.revision, token, connection.file)
        self.settings = _settings(settings)
        self.epochs = Epochs(connection, self.learner_id)
        self.shows_words = True
        """The caller may read what people wrote: notes, reasons, feedback; `core.flows.context` sets it."""
        self.shows_texts = True
        """The caller may read texts of agents: requests, answers, excerpts, transcripts."""
        self.hidden: frozenset[int] = frozenset()
        """Numbers of the evaluations that are left out of what who reads takes along; it says so, too."""

    def _row_by_number(self, number: int) -> Row | None:
        return self.connection.row(
            "SELECT learner_id, settings, staged_import_no, staged_revision, staged_parts, origin, revision, token,"
            " chain_head, next_link_no, next_compaction_no, next_experiment_no, next_undo_no,"
            " next_import_no, EXISTS (SELECT 1 FROM review_hold WHERE learner_id = ?1) FROM learner"
            " WHERE learner_id = ?1 AND name = ? AND revision > 0",
            [number, self.name],
        )

    @property
    def exists(self) -> bool:
        return bool(self.learner_id >= 0)

    def acts(
        self, table: str, *columns: str, joined: str = "", where: str = "", **members: str
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield acts ``t`` by revision: number, and members of a line, from head, columns and named expressions."""
        names = (*columns, *members)
        selected = ", ".join((*(f"t.{column}" for column in columns), *members.values()))
        of = metadata.tables[table].info[ACT]
        for number, uid, actor, at_ms, revision, undone, *values in self.rows(
            f"SELECT t.{table}_no, t.uid, t.actor, t.at_ms, t.revision, t.undone, {selected} FROM {table} t {joined}"
            f" WHERE t.learner_id = ?1 AND t.{ACTIVE}{where} ORDER BY t.revision, t.{table}_no"
        ):
            yield (
                number,
                {
                    **dict(zip(names, values, strict=True)),
                    "id": uid or f"{self.origin}/{of}-{number}",
                    "by": actor,
                    "at_ms": at_ms,
                    "revision": revision,
                    "undone": undone > 0,
                },
            )

    def of(self, name: str) -> Snapshot:
        """Another learner at the same moment, without texts: who may see those of one may not those of every one."""
        other = Snapshot(self.connection, name)
        other.shows_words = other.shows_texts = False
        return other


class Transaction(Statements):
    """One write to one learner: its row is updated first, its counters and audit last.

    ``origin`` is the identity of a new learner, ``sticky`` that setting of it; None = it must exist. With ``only`` it
    must also exist where there is another. ``memory`` is the cache from this process's last write; it may be stale.
    """

    _OPEN: str = (
        f"UPDATE learner SET revision = revision + 1 WHERE learner_id = ? AND name = ? RETURNING {BEGUN}"
    )
    _FIRST = 1
    segment: int | None = None
    """In a part of an import: between which of the resets that it tells; see `core.store.staging`."""
    replaces = False
    """States that nothing orders take the place of known ones, because a person wants them."""
    n_not_grown = 0
    """Compacted runs that this write read again with other content."""
    newest: dict[tuple[int, int], int]
    """In a part of an import: time of the newest counted observation of an arm in a segment."""
    is_last_due = False
    """In a part of an import: known runs count again, so that these times are found again when it settles."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        actor: Actor,
        now_ms: int,
        origin: str | None,
        only: bool = False,
        sticky: Sticky = "run",
        memory: Memory | None = None,
    ) -> None:
        self.plain = self.connection = connection
        self.together = connection.together
        self.name = name
        self.actor = actor
        self.now_ms = now_ms
        began = time.monotonic()
        row = None if memory is None else self._opened(memory.learner_id)
        if row is None:
            row = self._row_by_name()
        if (waited := time.monotonic() - began) >= LEAST_S:
            WAITS.observe("learner", waited)
        if (row is None or row[3] == self._FIRST) and (origin is None or (only and has_others(self))):
            raise unknown_learner(self)
        while row is None:  # others may be making it, or sweep it away, at this very moment
            self._make()
            row = self._row_by_name()
        self.learner_id: int
        self.revision: int
        self.learner_id, self.origin, settings, self.revision, token, *staged, upgrade_at = row[:9]
        self.created = self.revision == self._FIRST
        self.settings = _settings(settings)
        if upgrade_at:
            raise _unfinished(name)
        first = 9 + len(STATE)
        self._next: dict[str, int] = dict(zip(NUMBERED, row[first:], strict=True))
        self._first_revision, self._first_next = self.revision, dict(self._next)
        self.chain = Chain(State(*row[9:first]), name, is_staging=self._FIRST != Transaction._FIRST)
        self.chained = ChainedConnection(connection, self.chain, self.learner_id, name, self._first_next)
        self.connection = cast("Connection", self.chained)
        if self.created and origin:
            self._name(origin, sticky)
        self.staged = Staged(*staged)
        self._was_staged = self.staged.import_no > 0
        # It is no secret. It only must not repeat; a forked child draws others.
        self._token = getrandbits(_TOKEN_BITS)
        self.epochs = Epochs(connection, self.learner_id)
        self._arms: dict[str, Known] = {}
        self._present: dict[int, int] = {}
        self._described: dict[int, Description] = {}
        if memory is not None and memory.snapshot_key == (
            self.origin,
            self.revision - 1,
            token,
            connection.file,
        ):
            self._arms, self._present = memory.arms, memory.epochs
            self._described = memory.descriptions
            if memory.erased is not None:
                self.erased = memory.erased
        self._inventories: dict[int, NumberedInventory] = {}
        self._has_news = False
        self.only_named = Counter[int]()
        """Observations that this write took back, by arm: the arm was in the run by name."""
        self._proof: tuple[str, list[Any]] | None = None
        """What asks for a fact of this write that no other can have recorded."""
        self._keep_before_what_is_staged()

    @cached_property
    def shows_words(self) -> bool:
        """True if the actor may read what people wrote."""
        return may(self.actor, "read_words", self.name)

    @cached_property
    def shows_texts(self) -> bool:
        """True if the actor may read texts of agents."""
        return may(self.actor, "read_texts", self.name)

    @cached_property
    def _descriptions(self) -> Descriptions:
        return Descriptions(self.connection, self.learner_id, self._described)

    @cached_property
    def erased(self) -> Erased:
        """Digests of erased content, which must not return."""
        return Erased.of(self.connection, self.learner_id)

    @property
    def is_compacted(self) -> bool:
        """True if rows of old runs were deleted, in this write too."""
        return self._next["compaction"] > 1

    @property
    def has_experiments(self) -> bool:
        """True if an experiment was ever started or imported."""
        return self._next["experiment"] > 1

    @cached_property
    def was_empty(self) -> bool:
        """True if nothing was recorded of the learner before."""
        uncounted = {"audit", "link", *(TAKEN if self._was_staged else ())}
        return all(first == 1 for name, first in self._first_next.items() if name not in uncounted) and not (
            self._was_staged
            and self.has_row(
                "SELECT 1 FROM arm WHERE learner_id = ?"
                " UNION ALL SELECT 1 FROM import WHERE learner_id = ? AND revision < ?"
                " UNION ALL SELECT 1 FROM run WHERE learner_id = ? AND revision < ?"
                " UNION ALL SELECT 1 FROM provenance WHERE learner_id = ? AND kind IN ('layer', 'execution')"
                " AND revision < ? LIMIT 1",
                [self.learner_id, self._first_revision] * 3,
            )
        )

    @property
    def last_link_no(self) -> int:
        """Number of the last link before this write; 0 without any."""
        return self._first_next["link"] - 1

    def marks(self, table: str) -> tuple[int, ...]:
        """Return the value for `marking`."""
        return (self.revision,) if marking(table) else ()

    def note_news(self) -> None:
        """Record that this write adds something new; another source of a known fact is nothing new."""
        self._has_news = True

    @property
    def has_news(self) -> bool:
        """True if this write has added anything new so far."""
        return self._has_news or ("_descriptions" in self.__dict__ and self._descriptions.changed())

    def number(self, name: str, count: int = 1) -> int:
        """Take the next ``count`` numbers of a kind; the first of them."""
        first = self._next[name]
        self._next[name] = first + count
        return first

    @property
    def own(self) -> Byline:
        """Byline of a fact that the actor records now."""
        return Byline(self.actor.name, self.now_ms)

    def imported(self, line: Signed, import_no: int) -> Byline:
        """Return the byline of a line of an import; what it leaves open is the importer's."""
        at_ms = self.now_ms if line.at_ms is None else line.at_ms
        return Byline(line.by or self.actor.name, at_ms, line.id, import_no)

    def append_fact(self, table: str, byline: Byline, **values: object) -> int:
        """Append a fact under the next number of its table, and return the number."""
        self.note_news()
        number = self.number(table)
        state = {"revision": self.revision, "standing": 1, "undone": 0}
        self.add_row(table, **{f"{table}_no": number}, **values, **byline._asdict(), **state)
        return number

    def add_row(self, table: str, **values: object) -> None:
        """Insert a row of the learner; values are named like their columns."""
        self.connection.insert(table, tuple(values), self.learner_id, tuple(values.values()))

    def add_numbered(self, table: str, **values: object) -> int:
        """Insert a row under the next number of its table, and return the number."""
        number = self.number(table)
        self.add_row(table, **{f"{table}_no": number}, **values)
        return number

    def set_row(self, table: str, where: str, at: Iterable[object], **values: object) -> None:
        """Set columns of the learner's rows of a condition, which has the values ``at``, and mark them as changed."""
        sql = _setting(table, where, tuple(values))
        self.connection.run(sql, [*values.values(), *self.marks(table), self.learner_id, *at])

    def is_new(self, name: str, number: int) -> bool:
        """Return whether this write took a number of a kind."""
        return number >= self._first_next[name]

    def n_numbered(self, name: str) -> int:
        """Return how many numbers of a kind were taken so far."""
        return self._next[name] - self._first_next[name]

    def advance(self) -> int:
        """Open another revision inside this transaction, for facts whose order must be kept."""
        self.revision += 1
        self._keep_before_what_is_staged()
        return self.revision

    def finish(self) -> None:
        """Write the link of this write, the counters, and the token of this state."""
        link = self.chain.link(self._next["link"], self.revision, self.now_ms)
        if link is not None:
            self._next["link"] += 1
            if self.chain.due:
                self.plain.many(ADD_LINK, [[self.learner_id, *due] for due in self.chain.due])
        values = [self.revision, self._token, *self.chain.state, *self._next.values(), self.learner_id]
        self.plain.run(_END, values)

    def rewrite(self, change: Callable[[], None]) -> None:
        """Change any facts of the learner, and draw another key of the chain."""

        def sum_under(key: bytes) -> int:
            return sum_of_facts(self.plain, Subject(self.learner_id, self.name, key, self.revision))

        with self.chained.unchained():
            self.chain.rewrite(sum_under, change)

    def note_run(self, uid: str) -> None:
        """Record that a run was added; used to check after a lost COMMIT whether the write succeeded."""
        self._proof = (
            "SELECT 1 FROM run WHERE learner_id = ? AND uid = ? AND revision = ?",
            [self.learner_id, uid, self.revision],
        )

    def has_landed(self, connection: Connection) -> bool | None:
        """Return whether this write is on disk, by the learner or a recorded fact; None without such a fact."""
        row = connection.row(
            "UPDATE learner SET token = token WHERE learner_id = ? AND name = ? RETURNING revision, token",
            [self.learner_id, self.name],
        )
        if row is None:
            return False
        revision, token = row
        if token == self._token:
            return True
        if revision < self._first_revision:
            return False
        return None if self._proof is None else connection.row(*self._proof) is not None

    @property
    def memory(self) -> Memory:
        """Return the cache for the next write, valid once this one is on disk."""
        if len(self._arms) > _MAX_REMEMBERED:
            self._arms, self._present, self._described = {}, {}, {}
        snapshot_key = SnapshotKey(self.origin, self.revision, self._token, self.plain.file)
        return Memory(
            self.learner_id,
            snapshot_key,
            self._arms,
            self._present,
            self._described,
            self.__dict__.get("erased"),
        )

    def forget(self) -> None:
        """Clear the cache of arms and their epochs, because bulk UPDATEs, which are rare, changed them."""
        self._arms.clear()
        self._present.clear()
        self.epochs.forget()

    def audit(self, action: ActionName, act: str | None, detail: Detail) -> None:
        """Note who changed what, in this same transaction."""
        self.audit_all(action, [(act, detail)])

    def audit_all(self, action: ActionName, changes: Iterable[tuple[str | None, Detail]]) -> None:
        """Note several changes of one kind."""
        entries = list(changes)
        rows: list[Row] = [
            (
                number,
                self.actor.name,
                action,
                act,
                msgspec.json.encode(detail).decode(),
                self.now_ms,
                self.revision,
            )
            for number, (act, detail) in enumerate(entries, self.number("audit", len(entries)))
        ]
        self.connection.insert("audit", _AUDIT, self.learner_id, chain.from_iterable(rows))
        if rows:
            number, actor, _, _, detail, at_ms, revision = rows[0]
            self._proof = (
                "SELECT 1 FROM audit WHERE learner_id = ? AND audit_no = ? AND actor = ? AND action = ?"
                " AND detail = ? AND at_ms = ? AND revision = ?",
                [self.learner_id, number, actor, action, detail, at_ms, revision],
            )

    # Arms

    def arm_no(self, key: str) -> int | None:
        """The number of an arm, None if it has never been seen or declared."""
        return self.arm_nos([key]).get(key)

    def arm_no_of(self, key: str) -> int:
        """Return the number of an arm that is known by its id only; made if missing."""
        known = self.arm_no(key)
        return self.ensure_arms([Arm(key=key)])[key] if known is None else known

    def arm_nos(self, keys: Iterable[str]) -> dict[str, int]:
        """Numbers of the arms that exist among ``keys``."""
        distinct = list(dict.fromkeys(keys))
        missing = [key for key in distinct if key not in self._arms]
        for key, *known in self.rows_in(
            f"SELECT key, arm_no, declared, prior_alpha_micro FROM arm {ARMS_BY_KEY}"
            " WHERE learner_id = ? AND key IN ({})",
            missing,
        ):
            self._arms[key] = Known(*known)
        return {key: self._arms[key].arm_no for key in distinct if key in self._arms}

    def ensure_arms(
        self, arms: Sequence[Arm], *, declared: int = UNDECLARED, import_no: int = 0
    ) -> dict[str, int]:
        """Return numbers of the arms; missing ones are made, with the posterior of their prior.

        A listed arm keeps its prior. Label and cost follow the latest source, recorded as this import's (0 = direct).
        """
        numbers = self.number_arms(arms, declared)
        self.describe([(numbers[arm.key], arm) for arm in arms], import_no, self.revision)
        return numbers

    def number_arms(self, arms: Sequence[Arm], declared: int = UNDECLARED) -> dict[str, int]:
        """Return the same without a note of labels and costs."""
        numbers = self.arm_nos(arm.key for arm in arms)
        for arm in arms:
            if arm.key not in numbers:
                numbers[arm.key] = self._make_arm(arm, declared=declared)
            elif self._arms[arm.key].differs(arm, declared):
                self._relist_arm(numbers[arm.key], arm, declared=declared)
        return numbers

    def describe(self, arms: Sequence[tuple[int, Arm]], import_no: int, revision: int) -> None:
        """Note what an import says of the costs and labels of arms, by number, since a revision."""
        if self.erased:
            arms = [(number, arm.labelled(self.erased.words(arm.label or ""))) for number, arm in arms]
        described = [one for one in arms if (one[1].token_cost, one[1].label) != (None, None)]
        if described:
            tell = self._descriptions.tell if revision >= self.revision else self._descriptions.repeat
            mark_arms(self, tell(described, import_no, revision))

    def ensure_keys(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the same for arms that are known by their ids only."""
        numbers = self.arm_nos(keys)
        if len(numbers) == len(keys) and all(self._arms[key].own_alpha_micro is None for key in keys):
            return numbers
        return self.ensure_arms([Arm(key=key) for key in dict.fromkeys(keys)])

    def inventory(self, inventory: Inventory) -> NumberedInventory:
        """Return the offered arms of an inventory by number, looked up once per object."""
        # By identity, because an inventory that equals another is rare and comparing is dear: 2,000 runs with 30 arms
        # take 1.2 times as long by value, and 1.8 times where each is looked up. The object is kept beside what is
        # known of it, so no other can come to have its id.
        known = self._inventories.get(id(inventory))
        if known is not None:
            return known
        if len(self._inventories) >= _MAX_INVENTORIES:
            self._inventories.clear()
        # The cost of a name is no description of the arm.
        numbers = self.number_arms((*inventory.arms, *[Arm(key=arm.key) for arm in inventory.named]))
        arm_nos = tuple(numbers[arm.key] for arm in inventory.offered)
        costs = tuple(UNKNOWN if arm.token_cost is None else arm.token_cost for arm in inventory.offered)
        versions = [(numbers[arm.key], arm.version) for arm in inventory.offered if arm.version is not None]
        known = self._inventories[id(inventory)] = NumberedInventory(
            inventory, arm_nos, costs, tuple(sorted(versions))
        )
        return known

    def epochs_of(self, facts: Sequence[tuple[int, int]]) -> list[int]:
        """Return the epoch of each (arm, revision); older boundaries are read only where they are needed."""
        arm_nos = sorted({arm_no for arm_no, _ in facts})
        present = dict(zip(arm_nos, self.current_epochs(arm_nos), strict=True))
        older = {arm_no for arm_no, revision in facts if revision <= present[arm_no]}
        if not older:
            return [present[arm_no] for arm_no, _ in facts]
        self.epochs.load(older)
        return [
            present[arm_no] if revision > present[arm_no] else self.epochs.of(arm_no, revision)
            for arm_no, revision in facts
        ]

    def current_epochs(self, arm_nos: Sequence[int]) -> list[int]:
        """The present epoch of each arm."""
        present = self._present
        missing = sorted({arm_no for arm_no in arm_nos if arm_no not in present})
        if missing:
            rows = self.rows_in(
                "SELECT arm_no, epoch FROM posterior WHERE learner_id = ? AND arm_no IN ({})", missing
            )
            present.update(rows)
        return [present[arm_no] for arm_no in arm_nos]

    def _opened(self, learner_id: int) -> Row | None:
        """Return the learner's row, locked, if it has this number and name.

        After a restored backup the number may belong to another learner, which must not be touched.
        """
        return self.connection.row(self._OPEN, [learner_id, self.name])

    def _row_by_name(self) -> Row | None:
        """Return the learner's row, locked, by name; None without such a learner."""
        number = number_of(self.connection, self.name)
        return None if number is None else self._opened(number)

    def _make(self) -> None:
        self.connection.run("INSERT INTO learner_name (name) VALUES (?) ON CONFLICT DO NOTHING", [self.name])
        self.connection.run(
            "INSERT INTO learner (learner_id, name, origin, created_at_ms, settings) VALUES (?, ?, '', 0, ?)"
            " ON CONFLICT DO NOTHING",
            [
                number_of(self.connection, self.name),
                self.name,
                msgspec.json.encode(LearnerSettings()).decode(),
            ],
        )

    def _name(self, origin: str, sticky: Sticky) -> None:
        """Give a learner that is new its lasting identity, and how long its selections hold until that is changed."""
        self.origin = origin
        self.settings = msgspec.structs.replace(self.settings, sticky=sticky)
        self.connection.run(
            "UPDATE learner SET origin = ?, created_at_ms = ?, sticky = ?, settings = ? WHERE learner_id = ?",
            [
                origin,
                self.now_ms,
                sticky,
                msgspec.json.encode(self.settings).decode(),
                self.learner_id,
            ],
        )

    def _keep_before_what_is_staged(self) -> None:
        """Move the staged rows further when revisions run out: every act meanwhile comes before them."""
        if not 0 < self.staged.revision <= self.revision:
            return
        before = sources_from(self.plain, self.learner_id, self.staged.revision)
        for table in ("run", "provenance", "run_text"):
            self.plain.run(
                f"UPDATE {table} SET revision = revision + ? WHERE learner_id = ? AND revision >= ?",
                [ROOM, self.learner_id, self.staged.revision],
            )
        with self.chain.staging():
            self.chain.change("run", before, [(*row[:3], row[3] + ROOM, *row[4:]) for row in before])
        self.staged = self.staged._replace(revision=self.staged.revision + ROOM)
        self.connection.run(
            "UPDATE learner SET staged_revision = ? WHERE learner_id = ?",
            [self.staged.revision, self.learner_id],
        )

    def _make_arm(self, arm: Arm, *, declared: int) -> int:
        if declared != UNDECLARED:  # else it is listed with the first run or reward that names it
            self.note_news()
        row = None
        if self.staged.import_no:
            row = self.row("SELECT arm_no FROM staged_arm WHERE learner_id = ? AND key = ?", [arm.key])
        arm_no = self.number("arm") if row is None else int(row[0])
        own = arm.prior
        prior = own or self.settings.priors.of(arm.type)
        self.connection.run(
            _MAKE_ARM,
            [
                self.learner_id,
                arm_no,
                arm.key,
                arm.type,
                declared,
                own and own.alpha_micro,
                own and own.beta_micro,
            ],
        )
        self.run(_MAKE_POSTERIOR, [arm_no, prior.alpha_micro, prior.beta_micro, self.revision])
        self._arms[arm.key] = Known(arm_no, declared, None if own is None else own.alpha_micro)
        return arm_no

    def _relist_arm(self, arm_no: int, arm: Arm, *, declared: int) -> None:
        own = arm.prior
        key = [self.learner_id, arm_no]
        hidden = self.connection.row(
            "SELECT 1 FROM arm a JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
            f" WHERE a.learner_id = ? AND a.arm_no = ? AND NOT {LISTED}",
            key,
        )
        self.connection.run(
            "UPDATE arm SET declared = declared | ? WHERE learner_id = ? AND arm_no = ?", [declared, *key]
        )
        if hidden is not None:
            if declared != UNDECLARED:
                self.note_news()
            self.connection.run(
                "UPDATE arm SET prior_alpha_micro = ?, prior_beta_micro = ? WHERE learner_id = ? AND arm_no = ?",
                [own and own.alpha_micro, own and own.beta_micro, *key],
            )
            rebase(self, [arm_no])
        del self._arms[arm.key]  # to be read again when it is asked for


Facts = Transaction | Snapshot
"""A readable state: a snapshot, or a write in progress."""


def rebase(txn: Transaction, arm_nos: Sequence[int]) -> None:
    """Give arms the base their epoch says: Beta(1, 1) after a reset to uniform, else their own prior."""
    targets: dict[int, str] = dict(txn.rows("SELECT revision, target FROM reset WHERE learner_id = ?"))
    rows = txn.rows_in(
        "SELECT a.arm_no, a.key, a.prior_alpha_micro, a.prior_beta_micro, p.epoch"
        " FROM arm a JOIN posterior p ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no"
        " WHERE a.learner_id = ? AND a.arm_no IN ({})",
        arm_nos,
    )
    bases = []
    for arm_no, key, alpha, beta, epoch in rows:
        prior = base_of(txn.settings, key, alpha, beta, targets.get(epoch))
        bases.append((prior.alpha_micro, prior.beta_micro, txn.revision, txn.learner_id, arm_no))
    txn.connection.many(
        "UPDATE posterior SET base_alpha_micro = ?, base_beta_micro = ?, changed = ?"
        " WHERE learner_id = ? AND arm_no = ?",
        bases,
    )


def mark_arms(txn: Transaction, arm_nos: Collection[int]) -> None:
    """Mark arms as changed by this write."""
    txn.connection.run_in(
        "UPDATE posterior SET changed = ? WHERE learner_id = ? AND arm_no IN ({})",
        [txn.revision, txn.learner_id],
        sorted(arm_nos),
    )


def base_of(
    settings: LearnerSettings, key: str, alpha: int | None, beta: int | None, target: str | None
) -> Prior:
    """The prior an epoch begins with; ``target`` is that of the reset that opened it, None = no reset."""
    if target == "uniform":
        return Prior(alpha_micro=1_000_000, beta_micro=1_000_000)
    if alpha is not None and beta is not None:
        return Prior(alpha_micro=alpha, beta_micro=beta)
    return settings.priors.of(arm_type(key))
