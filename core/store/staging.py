"""Staging of long imports: parts that are written one by one, and one short act that activates them.

No writer waits for an import: each part holds the writers' lock briefly. Staged rows are in the tables of runs, but
with revisions beyond the learner's own (`Staged`). So other readers do not see them yet. Their sums are stored apart,
by segment: a segment holds the runs between two resets of the import. The final act moves the learner's revision past
the staged rows and adds the sums, in the epochs of that time. So rewards, resets, settings and runs recorded
meanwhile come before the import.

* A run that another writer records meanwhile belongs to that writer. Its staged version becomes another source of it.
* A staged version that would change an active run waits, and is attributed at the end.
* An undone or redone import, or a restored backup, invalidates the staged rows: `Spoiled`. The importer starts again.
  Rows of an importer that died are cleaned up by the next one, in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from secrets import randbits
from typing import Final, Literal, NamedTuple

from core.columns import UNKNOWN
from core.records.actor import Actor
from core.records.arm import Arm, Prior
from core.store.caches import refresh_last, rollup_facts
from core.store.chain import sum_of
from core.store.engine import Connection, Database
from core.store.engine.dialect import BY_RUN, RUNS_BY_UID
from core.store.erased import REMEMBER
from core.store.imports import reopen_import
from core.store.provenance import Attribution, attribute_runs, attributed, recompute_runs, run_sources
from core.store.rollup import (
    ARM_SUMS,
    DAY_KEY,
    HOUR_KEY,
    SUM_OF_ARM,
    USAGE_KIND,
    USAGE_SUMS,
    Rollup,
    adding,
    apply_posteriors,
    stage,
)
from core.store.texts import (
    StoredTexts,
    fill_texts,
    forget_texts,
    note_staged_texts,
    note_texts,
    own_executions,
    sweep_texts,
)
from core.store.transaction import (
    BEGUN,
    ROOM,
    TAKEN,
    UNDECLARED,
    Epochs,
    Known,
    NumberedInventory,
    Snapshot,
    Staged,
    Transaction,
    settings_of,
)
from core.store.version import BESIDE, NO_SOURCE, Version, load, mark_retracted, put, shelve, whole_version

Counted = Literal["new", "duplicate", "updated"]
"""As what a run is counted in the answer of an import."""

_NOTHING: Final = Staged(0, 0, 0)
_REVISIONS: Final = 3
"""Revisions per segment: one for its runs, one for the reset that ends it, and one for the undo of that reset."""
_EVER: Final = 1 << 62
_RANDOM_BITS: Final = 40
"""Parts are counted from a number that is drawn: those that a restored backup holds are others."""
_PIECE: Final = 2_000
"""Runs that are swept at a time."""
_PIECE_ROWS: Final = 50_000

_ADD_ARMS: Final = tuple(
    f"INSERT INTO arm_{unit} (learner_id, {', '.join((*key, *ARM_SUMS))}) SELECT s.learner_id,"
    f" {', '.join('p.epoch' if name == 'epoch' else f's.{name}' for name in (*key, *ARM_SUMS))}"
    f" FROM staged_{unit} s JOIN posterior p ON p.learner_id = s.learner_id AND p.arm_no = s.arm_no"
    f" WHERE s.learner_id = ? AND s.epoch = ? ORDER BY {', '.join(f's.{name}' for name in key if name != 'epoch')}"
    f" {adding(f'arm_{unit}', key, ARM_SUMS)}"
    for unit, key in (("hour", HOUR_KEY), ("day", DAY_KEY))
)

_TABLES: Final = {
    "staged_hour": "epoch, hour, arm_no",
    "staged_day": "epoch, arm_no, day",
    "staged_usage": "hour, class, model, channel, status, outcome, prob_micro, bucket",
    "staged_provenance": "run_no",
    "staged_arm": "arm_no",
}
_UNFINISHED: Final = (
    "SELECT learner_id, staged_import_no, staged_revision, staged_parts FROM learner l"
    " WHERE l.staged_import_no > 0"
    + "".join(f" OR EXISTS (SELECT 1 FROM {table} t WHERE t.learner_id = l.learner_id)" for table in _TABLES)
)

_STAGED_RUNS: Final = (
    "SELECT run_no FROM run WHERE learner_id = ? AND run_no > ? AND revision >= ? ORDER BY run_no LIMIT ?",
    "SELECT no FROM provenance WHERE learner_id = ? AND kind = 'run' AND no > ? AND revision >= ?"
    " ORDER BY no LIMIT ?",
    "SELECT run_no FROM staged_provenance WHERE learner_id = ? AND run_no > ? AND ? > 0 ORDER BY run_no LIMIT ?",
)
"""Numbers of the runs with staged rows, above a number."""


class Spoiled(Exception):
    """The staged rows can't be activated: clean them up and import again."""


@dataclass
class Stage:
    """An importer's state from part to part. ``continuing`` names the import that it continues.

    ``inventories`` are keyed by the id of an object that is held with them, as in `Transaction.inventory`.
    ``has_texts``: some run has texts to store. ``known_with_texts`` are known runs, by number, that came with texts;
    of these ``is_filled`` had none. ``late_texts`` are of runs with settled executions, by number and digest: they
    wait. ``erased_again`` are rows about erased content that came again. ``is_last_due``: the times of the newest
    observations are to be found again.

    Each part returns a new stage and leaves the old one unchanged, so a failed part can be repeated.
    """

    continuing: str | None = None
    import_no: int = 0
    parts: int = 0
    arms: dict[str, Known] = field(default_factory=dict)
    priors: dict[str, Prior] = field(default_factory=dict)
    descriptions: dict[tuple[int, int], tuple[Arm, int]] = field(default_factory=dict)
    inventories: dict[int, NumberedInventory] = field(default_factory=dict)
    newest: dict[tuple[int, int], int] = field(default_factory=dict)
    has_texts: bool = False
    is_last_due: bool = False
    is_filled: bool = False
    known_with_texts: list[int] = field(default_factory=list)
    late_texts: list[tuple[int, int, StoredTexts]] = field(default_factory=list)
    erased_again: list[str] = field(default_factory=list)

    def copy(self) -> Stage:
        """Return a copy whose lists and dicts are its own."""
        return Stage(**{name: copy(value) for name, value in vars(self).items()})


class _ImportSegments(Epochs):
    """Segments of the staged rows, in the role of epochs."""

    def __init__(self, first_revision: int) -> None:
        self._first_revision = first_revision

    def load(self, arm_nos: Iterable[int]) -> None:
        """Do nothing: there is nothing to read."""

    def of(self, arm_no: int, revision: int) -> int:  # noqa: ARG002 - it is the same for all arms
        """The segment of a revision."""
        return (revision - self._first_revision) // _REVISIONS


class Part(Transaction):
    """One part of an import. It reads what earlier parts staged as if it were committed.

    No other reader sees its rows before the import settles. So it counts parts where a write counts revisions, and
    its rows have revisions beyond all others. Its epochs are segments, which end at the resets of the import itself.
    Arms that are missing get numbers in a table of their own. The write that settles the import makes them.
    """

    _OPEN = (  # the learner's revision stays, because its own acts go on meanwhile
        "UPDATE learner SET staged_parts = staged_parts + 1"
        f" WHERE learner_id = ? AND name = ? RETURNING {BEGUN}"
    )
    _FIRST = -1  # no revision: a part makes no learner by itself

    def __init__(self, connection: Connection, name: str, stage: Stage, *, actor: Actor) -> None:
        super().__init__(connection, name, actor=actor, now_ms=0, origin="")
        self.stage = stage = stage.copy()
        if stage.parts == 0:
            self._begin_stage()
        _check(self.staged, stage, stage.parts + 1)
        self.epochs = _ImportSegments(self.staged.revision)
        self._arms, self._inventories, self.newest = stage.arms, stage.inventories, stage.newest
        self.at(0)

    def _begin_stage(self) -> None:
        known = None if self.stage.continuing is None else reopen_import(self, self.stage.continuing)
        number = self.number("import") if known is None else known.number
        if self.staged == (0, 0, 1):  # else it was not cleaned up
            self.staged = Staged(number, self.revision + 1 + ROOM, 1 + randbits(_RANDOM_BITS))
            self.stage.import_no, self.stage.parts = number, self.staged.parts - 1
            self.chain.staged = 0

    def at(self, segment: int) -> None:
        """Continue after this many resets of the import."""
        self.segment = segment
        self.revision = _revision(self.staged, segment)

    def finish(self) -> None:
        """Write back what the next part is to know."""
        import_no, revision, parts = self.staged
        self.connection.run(
            "UPDATE learner SET staged_import_no = ?, staged_revision = ?, staged_parts = ?, chain_key = ?,"
            f" staged_sum = ?, {', '.join(f'next_{name}_no = ?' for name in TAKEN)} WHERE learner_id = ?",
            [
                *(import_no, revision, parts, self.chain.key, self.chain.state.staged),
                *(self._next[name] for name in TAKEN),
                self.learner_id,
            ],
        )
        self.stage.parts += 1
        self.stage.is_last_due |= self.is_last_due

    def arm_nos(self, keys: Iterable[str]) -> dict[str, int]:
        """Return numbers of those ``keys`` that exist, or will once the import settles."""
        distinct = list(dict.fromkeys(keys))
        numbers = super().arm_nos(distinct)
        for key, arm_no in self.rows_in(
            "SELECT key, arm_no FROM staged_arm WHERE learner_id = ? AND key IN ({})",
            [key for key in distinct if key not in numbers],
        ):
            self._arms[key] = Known(arm_no, UNDECLARED, None)
            numbers[key] = arm_no
        return numbers

    def number_arms(
        self,
        arms: Sequence[Arm],
        declared: int = UNDECLARED,  # noqa: ARG002 - it applies once the import settles
    ) -> dict[str, int]:
        """Return numbers of the arms; their priors apply once the import settles."""
        numbers = self.arm_nos(arm.key for arm in arms)
        for arm in arms:
            if arm.key not in numbers:
                numbers[arm.key] = arm_no = self.number("arm")
                self.run(
                    "INSERT INTO staged_arm (learner_id, key, arm_no) VALUES (?, ?, ?)", [arm.key, arm_no]
                )
                self._arms[arm.key] = Known(arm_no, UNDECLARED, None)
            if arm.prior is not None:
                self.stage.priors.setdefault(arm.key, arm.prior)
        return numbers

    def describe(self, arms: Sequence[tuple[int, Arm]], import_no: int, revision: int) -> None:  # noqa: ARG002
        """Stage the descriptions of arms: the present one, and each since an earlier revision."""
        for arm_no, arm in arms:
            if (arm.token_cost, arm.label) == (None, None):
                continue
            key = (arm_no, min(revision, self.staged.revision))
            earlier, _ = self.stage.descriptions.get(key, (arm, 0))
            described = Arm(
                key=arm.key,
                token_cost=earlier.token_cost if arm.token_cost is None else arm.token_cost,
                label=earlier.label if arm.label is None else arm.label,
            )
            self.stage.descriptions[key] = described, revision

    def current_epochs(self, arm_nos: Sequence[int]) -> list[int]:
        """The segment, once per arm."""
        return [self.segment or 0] * len(arm_nos)

    def epochs_of(self, facts: Sequence[tuple[int, int]]) -> list[int]:
        """The segment of each fact, by its revision."""
        return [self.epochs.of(arm_no, revision) for arm_no, revision in facts]


def _check(staged: Staged, stage: Stage, parts: int) -> None:
    if (staged.import_no, staged.parts) != (stage.import_no, parts):
        raise Spoiled


def _revision(staged: Staged, segment: int) -> int:
    return staged.revision + _REVISIONS * segment


# Writes of others meanwhile


class KnownRun(NamedTuple):
    """A run's row with its sources."""

    run_no: int
    rank: int
    trace: int
    digest: int
    import_no: int
    revision: int
    is_active: int


class SupersededRun(NamedTuple):
    """The staged version of a run that another writer has recorded meanwhile."""

    uid: str
    segment: int
    rank: int
    trace: int
    digest: int
    version: Version


class _Beyond(Snapshot):
    """The facts of a learner, staged ones too."""

    def __init__(self, connection: Connection, learner_id: int, staged: Staged) -> None:
        self.connection, self.together = connection, connection.together
        self.learner_id = learner_id
        self.staged = staged
        self.settings = settings_of(connection, learner_id)
        self.shows_words = self.shows_texts = self.has_experiments = True
        self.revision = _EVER
        self.epochs = _ImportSegments(staged.revision)


def spoil(txn: Transaction) -> None:
    """Invalidate the staged rows, because they can't follow this act."""
    if txn.staged.import_no:
        txn.run("UPDATE learner SET staged_parts = -1 WHERE learner_id = ?")


def supersede(txn: Transaction, known: Mapping[str, KnownRun]) -> list[SupersededRun]:
    """Remove the staged rows of these runs and return them, to be merged later."""
    beyond = _Beyond(txn.connection, txn.learner_id, txn.staged)
    run_nos = [run.run_no for run in known.values()]
    stage(txn, Rollup().minus(rollup_facts(beyond, run_nos)))
    superseded = []
    for uid, run in known.items():
        version = whole_version(txn, run.run_no)
        segment = beyond.epochs.of(0, run.revision)
        superseded.append(SupersededRun(uid, segment, run.rank, run.trace, run.digest, version))
    with txn.chain.staging():
        txn.chain.change("run", run_sources(txn, run_nos, txn.staged.revision), [])
        _take_back(beyond, run_nos)
    return superseded


def attribute_superseded(txn: Transaction, superseded: Sequence[SupersededRun]) -> None:
    """Record the removed staged versions as further sources of the runs as they are now."""
    known = {
        uid: row
        for uid, *row in txn.rows_in(
            f"SELECT uid, run_no, rank, trace FROM run {RUNS_BY_UID} WHERE learner_id = ? AND uid IN ({{}})",
            [one.uid for one in superseded],
        )
    }
    for one in superseded:
        run_no, rank, trace = known[one.uid]
        own_rank = (
            -1 if one.rank == rank and one.trace != trace else one.rank
        )  # what is recorded stays in force
        attribution = StagedAttribution(run_no, one.segment, own_rank, one.trace, one.digest, "new")
        _defer(txn, attribution, one.version)


def waiting_states(txn: Transaction, known: Mapping[int, KnownRun]) -> dict[int, KnownRun]:
    """Return the known runs of which a state waits in this part and will be in force, with that state."""
    if not isinstance(txn, Part):
        return {}
    rows = txn.rows_in(
        "SELECT run_no, rank, trace, digest FROM staged_provenance WHERE learner_id = ? AND run_no IN ({})",
        list(known),
    )
    return {
        run_no: known[run_no]._replace(rank=rank, trace=trace, digest=digest)
        for run_no, rank, trace, digest in rows
        if rank > known[run_no].rank
    }


class StagedAttribution(NamedTuple):
    """A source of a known run, attributed when the import settles."""

    run_no: int
    segment: int
    rank: int
    trace: int
    digest: int
    counted: Counted


def deferred(
    part: Part, attributions: Sequence[Attribution], known: Mapping[int, KnownRun]
) -> list[Attribution]:
    """Store attributions that would change active runs for the end; return those that apply now.

    An inactive run without observations and texts of another source becomes active with the import.
    """
    known_before = _continued_runs(part, list(known))
    has_texts = {*own_executions(part, [no for no, run in known.items() if not run.is_active]).values()}
    rest = []
    for one in attributions:
        run = known[one.run_no]
        is_settled = run.revision < part.staged.revision
        longer = one.rank > run.rank
        if is_settled and (
            one.run_no in known_before
            or (longer if run.is_active else one.run_no in has_texts or _has_observations(part, one.run_no))
        ):
            waiting = StagedAttribution(
                one.run_no, part.segment or 0, one.rank, one.trace, one.digest, "duplicate"
            )
            _defer(part, waiting, one.version)
        else:
            rest.append(one)
    return rest


def _continued_runs(part: Part, run_nos: Sequence[int]) -> set[int]:
    """Return the runs that a continued import has recorded already."""
    rows = part.connection.rows_in(
        "SELECT run_no FROM run WHERE learner_id = ? AND import_no = ? AND revision < ? AND run_no IN ({})",
        [part.learner_id, part.staged.import_no, part.staged.revision],
        run_nos,
    ) + part.connection.rows_in(
        "SELECT no FROM provenance WHERE learner_id = ? AND kind = 'run' AND import_no = ? AND revision < ?"
        " AND no IN ({})",
        [part.learner_id, part.staged.import_no, part.staged.revision],
        run_nos,
    )
    return {run_no for (run_no,) in rows}


def _has_observations(part: Part, run_no: int) -> bool:
    return part.has_row(
        f"SELECT 1 FROM observation {BY_RUN} WHERE learner_id = ?1 AND run_no = ? AND run_no <> 0"
        " UNION ALL SELECT 1 FROM retraction WHERE learner_id = ?1 AND run_no = ? LIMIT 1",
        [run_no, run_no],
    )


def _defer(txn: Transaction, waiting: StagedAttribution, version: Version | None) -> None:
    before = _deferred(txn, "run_no", waiting.run_no)
    txn.run(
        "INSERT INTO staged_provenance (learner_id, run_no, stretch, rank, trace, digest, counted)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (learner_id, run_no) DO UPDATE"
        " SET rank = excluded.rank, trace = excluded.trace, digest = excluded.digest"
        " WHERE excluded.rank > staged_provenance.rank",
        waiting,
    )
    _count_deferred(txn, before, _deferred(txn, "run_no", waiting.run_no))
    if version is not None:
        shelve(txn, [(waiting.run_no, waiting.digest, version)])


def _deferred(txn: Transaction, column: str, value: int) -> list[StagedAttribution]:
    return [
        StagedAttribution(*row)
        for row in txn.rows(
            "SELECT run_no, stretch, rank, trace, digest, counted FROM staged_provenance"
            f" WHERE learner_id = ? AND {column} = ? ORDER BY run_no",
            [value],
        )
    ]


def _count_deferred(
    txn: Transaction, before: Sequence[StagedAttribution], after: Sequence[StagedAttribution]
) -> None:
    """Count waiting sources in the sum of the import, so that a change of one until it settles is found."""
    sums = [sum_of(txn.chain.key, "staged_provenance", rows) for rows in (before, after)]
    with txn.chain.staging():
        txn.chain.move(sums[1] - sums[0])


# Activation


class Activation:
    """The act that activates the staged rows, segment by segment; raises `Spoiled` where it can't.

    ``superseded`` are numbers of staged runs that other writers have recorded meanwhile.
    """

    def __init__(self, txn: Transaction, stage: Stage) -> None:
        _check(txn.staged, stage, stage.parts)
        self._txn = txn
        self._stage = stage
        self._staged = txn.staged
        _ = txn.was_empty  # The answer is cached, so it must be read before rows are added here.
        self.superseded: list[int] = []
        txn.revision = self._staged.revision
        arms = [Arm(key=key, prior=stage.priors.get(key)) for key in stage.arms]
        self._arm_nos = list(txn.ensure_arms(arms).values())
        txn.staged = _NOTHING
        for (arm_no, _), (arm, revision) in stage.descriptions.items():
            txn.describe([(arm_no, arm)], stage.import_no, revision)
        for unit in ("hour", "day"):
            table, key = f"usage_{unit}", (unit, *USAGE_KIND)
            at = "s.hour" if unit == "hour" else "CASE WHEN s.hour < 0 THEN s.hour ELSE s.hour / 24 END"
            kind = ", ".join(f"s.{name}" for name in USAGE_KIND)
            txn.run(
                f"INSERT INTO {table} (learner_id, {', '.join((*key, *USAGE_SUMS))})"
                f" SELECT s.learner_id, {at}, {kind}, {', '.join(f'sum(s.{name})' for name in USAGE_SUMS)}"
                f" FROM staged_usage s WHERE s.learner_id = ? GROUP BY s.learner_id, {at}, {kind}"
                f" ORDER BY {at}, {kind} {adding(table, key, USAGE_SUMS)}"
            )

    def reach(self, segment: int) -> dict[Counted, int]:
        """Activate the runs of the next segment; return the change of their counts."""
        self._txn.revision = _revision(self._staged, segment)
        txn = self._txn
        key = [txn.learner_id, segment]
        for statement in _ADD_ARMS:
            txn.connection.run(statement, key)
        rows = txn.connection.rows(
            f"SELECT arm_no, {SUM_OF_ARM} FROM staged_day WHERE learner_id = ? AND epoch = ? GROUP BY arm_no",
            key,
        )
        epochs = txn.current_epochs([number for number, *_ in rows])
        rollup = Rollup()
        for (arm_no, *sums), epoch in zip(rows, epochs, strict=True):
            rollup.add((UNKNOWN, arm_no, epoch), *sums)
            rollup.saw(arm_no, epoch, self._stage.newest.get((arm_no, segment)))
        apply_posteriors(txn, rollup)
        return self._attribute(segment)

    def finish(self) -> None:
        """End the staging of an import."""
        if self.superseded or self._stage.is_last_due:
            refresh_last(self._txn, self._arm_nos)
        self._fill_late()
        if self._stage.is_filled:
            self._txn.note_news()
        if self._stage.has_texts:
            note_staged_texts(self._txn, self._staged.import_no, self._staged.revision, self.superseded)
            note_texts(self._txn, self._stage.known_with_texts, self._staged.import_no)
        for row in self._stage.erased_again:
            self._txn.run(REMEMBER, [row, self._txn.now_ms])
        self._txn.chain.settle()
        self._txn.run(
            "UPDATE learner SET staged_import_no = 0, staged_revision = 0, staged_parts = 0 WHERE learner_id = ?"
        )

    def _fill_late(self) -> None:
        """Fill in the texts that had to wait, of runs that still have the version of these."""
        late = {(run_no, digest): texts for run_no, digest, texts in self._stage.late_texts}
        rows = self._txn.rows_in(
            "SELECT run_no, digest FROM run WHERE learner_id = ? AND run_no IN ({})",
            [run_no for run_no, _ in late],
        )
        fill_texts(self._txn, [(row[0], late[tuple(row)]) for row in rows if tuple(row) in late])

    def _attribute(self, segment: int) -> dict[Counted, int]:
        """Attribute the deferred sources of a segment; only these change runs that were already active."""
        txn = self._txn
        waiting = _deferred(txn, "stretch", segment)
        _count_deferred(txn, waiting, [])
        now = {
            number: tuple(rest)
            for number, *rest in txn.rows_in(
                "SELECT run_no, import_no, revision, rank, trace, digest, standing, uid FROM run"
                " WHERE learner_id = ? AND run_no IN ({})",
                [one.run_no for one in waiting],
            )
        }
        attribute_runs(
            txn,
            [
                Attribution(
                    run_no=one.run_no,
                    uid=now[one.run_no][6],
                    import_no=self._staged.import_no,
                    rank=one.rank,
                    trace=one.trace,
                    digest=one.digest,
                    origin=now[one.run_no][:5],
                    version=None,
                )
                for one in waiting
            ],
            attributed(txn, [one.run_no for one in waiting]),
        )
        changed = recompute_runs(txn, [one.run_no for one in waiting])
        counts: dict[Counted, int] = {"new": 0, "duplicate": 0, "updated": 0}
        self.superseded += [one.run_no for one in waiting if one.counted == "new"]
        for one in waiting:
            counts[one.counted] -= 1
            if one.run_no not in changed:
                counts["duplicate"] += 1
            else:
                counts["updated" if now[one.run_no][5] else "new"] += 1
        return counts


# Sweeping


def sweep(database: Database) -> None:
    """Delete the rows of imports that never settled, a piece at a time; the caller holds their lock."""
    with database.reading() as connection:
        learners = [(row[0], Staged(*row[1:])) for row in connection.rows(_UNFINISHED)]
    for learner_id, staged in learners:
        if staged.import_no:
            _sweep_facts(database, learner_id, staged)
        for table, key in _TABLES.items():
            _clear(database, table, key, learner_id)
        database.write(partial(_give_numbers_back, learner_id=learner_id))


def _sweep_facts(database: Database, learner_id: int, staged: Staged) -> None:
    for staged_runs in _STAGED_RUNS:
        last = 0
        while True:
            with database.reading() as connection:
                rows = connection.rows(staged_runs, [learner_id, last, staged.revision, _PIECE])
            if not rows:
                break
            last = rows[-1][0]
            run_nos = [number for (number,) in rows]
            database.write(partial(_sweep_runs, learner_id=learner_id, staged=staged, run_nos=run_nos))


def _sweep_runs(connection: Connection, *, learner_id: int, staged: Staged, run_nos: Sequence[int]) -> None:
    _take_back(_Beyond(connection, learner_id, staged), run_nos)


def _take_back(beyond: _Beyond, run_nos: Sequence[int]) -> None:
    """Remove staged versions; delete runs that were new."""
    rows = beyond.connection.rows_in(
        "SELECT run_no, import_no, digest FROM run WHERE learner_id = ? AND revision >= ? AND run_no IN ({})",
        [beyond.learner_id, beyond.staged.revision],
        run_nos,
    )
    fresh = [run_no for run_no, import_no, _ in rows if import_no == beyond.staged.import_no]
    forget_texts(beyond, fresh)
    for table in ("run", *BESIDE, "version"):
        beyond.run_in(f"DELETE FROM {table} WHERE learner_id = ? AND run_no IN ({{}})", fresh)
    for run_no, import_no, digest in rows:
        if import_no != beyond.staged.import_no:
            _restore(beyond, run_no, import_no, digest)
    _forget_attributions(beyond, run_nos)


def _restore(beyond: _Beyond, run_no: int, import_no: int, digest: int) -> None:
    """Restore the last active version of an inactive run."""
    first = beyond.rows(
        "SELECT rank, trace, digest, revision FROM provenance WHERE learner_id = ? AND kind = 'run' AND no = ?"
        " AND import_no = ?",
        [run_no, import_no],
    )[0]
    if first[2] != digest:
        put(beyond, run_no, load(beyond, run_no, first[2]))
        mark_retracted(beyond, [run_no])
    beyond.connection.run(
        "UPDATE run SET standing = 0, rank = ?, trace = ?, digest = ?, revision = ?"
        " WHERE learner_id = ? AND run_no = ?",
        [*first, beyond.learner_id, run_no],
    )


def _forget_attributions(beyond: _Beyond, run_nos: Sequence[int]) -> None:
    """Delete the staged sources of runs; a single source needs no row of its own."""
    beyond.connection.run_in(
        "DELETE FROM provenance WHERE learner_id = ? AND kind = 'run' AND revision >= ? AND no IN ({})",
        [beyond.learner_id, beyond.staged.revision],
        run_nos,
    )
    alone = beyond.distinct_in(
        "SELECT no FROM provenance WHERE learner_id = ? AND kind = 'run' AND no IN ({})"
        " GROUP BY no HAVING count(*) = 1",
        run_nos,
    )
    beyond.run_in(
        "DELETE FROM provenance WHERE learner_id = ? AND kind = 'run' AND no IN ({})", sorted(alone)
    )
    beyond.run_in(f"DELETE FROM version WHERE learner_id = ?1 AND run_no IN ({{}}){NO_SOURCE}", run_nos)


def _clear(database: Database, table: str, key: str, learner_id: int) -> None:
    piece = (
        f"DELETE FROM {table} WHERE learner_id = ? AND ({key}) IN"
        f" (SELECT {key} FROM {table} WHERE learner_id = ? LIMIT ?)"
    )
    values = [learner_id, learner_id, _PIECE_ROWS]
    while database.write(lambda connection: connection.run(piece, values)) == _PIECE_ROWS:
        pass


def _give_numbers_back(connection: Connection, *, learner_id: int) -> None:
    """Return unused numbers; a learner that only the import made is deleted."""
    sweep_texts(connection, learner_id)
    numbers = ", ".join(
        f'next_{name}_no = (SELECT coalesce(max({name}_no), 0) + 1 FROM "{name}" t WHERE t.learner_id = ?1)'
        for name in TAKEN
    )
    for table in ("layer", "adapter"):  # what only its texts had made
        connection.run(
            f"DELETE FROM {table} WHERE learner_id = ?1 AND EXISTS (SELECT 1 FROM learner l"
            " WHERE l.learner_id = ?1 AND l.revision = 0)",
            [learner_id],
        )
    connection.run(
        "UPDATE learner SET staged_import_no = 0, staged_revision = 0, staged_parts = 0, staged_sum = NULL,"
        f" {numbers} WHERE learner_id = ?1",
        [learner_id],
    )
    connection.run("DELETE FROM learner WHERE learner_id = ? AND revision = 0", [learner_id])
