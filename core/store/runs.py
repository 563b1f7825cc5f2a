"""Runs: judged runs → rows. Each run has one row for any number and length of its versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from itertools import chain, count
from operator import itemgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from core.errors import Conflict
from core.records.answers import Imported
from core.records.arm import Arm
from core.records.evidence import Judged
from core.records.run import History, Inventory, Rollout, Run, digest_of_uid
from core.store.caches import run_facts
from core.store.compacted import compacted_runs
from core.store.covered import columns_of
from core.store.engine.dialect import RUNS_BY_UID
from core.store.erased import REMEMBER
from core.store.experiments import assign_recorded, recorded_side
from core.store.provenance import (
    Attribution,
    attribute_runs,
    attributed,
    of_trials,
    recompute_runs,
    undone_imports,
)
from core.store.rollup import Rollup, apply, hour_of
from core.store.staging import KnownRun, Part, attribute_superseded, deferred, supersede, waiting_states
from core.store.texts import (
    StoredTexts,
    fill_texts,
    note_texts,
    own_executions,
    pair_of,
    put_transcripts,
    storable,
    transcript_of,
)
from core.store.transaction import Transaction
from core.store.version import (
    BILL,
    COLUMNS,
    Version,
    assigned_among,
    bill_in_force,
    generation_of,
    goes_on,
    is_later,
    load,
    ranked,
    read_version,
    renamed,
    session_key,
    session_of,
    source_rank,
    stripped,
    version_of,
    write_parts,
)

_KNOWN_QUERY: Final = (
    f"SELECT uid, run_no, rank, trace, digest, import_no, revision, standing FROM run {RUNS_BY_UID}"
    " WHERE learner_id = ? AND uid IN ({})"
)
_FIRST_REPLACING: Final = 1 << 12
"""First generation of states that replace others at a person's request; only growth comes after them."""
_LAST_GENERATION: Final = (1 << 13) - 1
_NOW: Final = 1 << 62
"""As a revision: that of the write."""
_LEFT_OUT: Final = -1
"""The rank of a state that stays out, below that of every version in force."""
_ROW: Final = (
    "run_no",
    "uid",
    "rank",
    "trace",
    "digest",
    "import_no",
    "revision",
    "standing",
    "changed",
    "session_key",
    *BILL,
    *COLUMNS,
)

_UIDS_QUERY: Final = "SELECT run_no, uid FROM run WHERE learner_id = ? AND run_no IN ({})"
_SHARED_CHARS: Final = 400

_covered_in: Final = itemgetter(*(_ROW.index(name) for name in columns_of("run")))

_USAGE: Final = ("at_ms", "class", "model", "channel", "status", "outcome", "tokens", "duration_ms", "choice")
_usage_row: Final = itemgetter(*(COLUMNS.index(name) for name in _USAGE))


class KnownAgain:
    """Names of runs of one import that are known here under another uid.

    A copy under a new id gets the uid of the first one. Two runs with one id are different if neither begins the
    other: then the new run gets a uid of its own. A rollout that an evaluation repeats has the uid of the failed one.
    A run without a history keeps its uid.
    """

    def __init__(self) -> None:
        self.n_shared = 0
        self.names: dict[tuple[str, str], str] = {}
        """Uids by file and the uid in that file."""
        self._again: dict[str, str] = {}
        self._taken: dict[frozenset[int], frozenset[str]] = {}
        """Uids that the lines of a task in one file have already."""

    def copy(self) -> KnownAgain:
        """Return a copy, so that a failed part leaves this one unchanged."""
        other = KnownAgain()
        other.n_shared, other.names = self.n_shared, self.names.copy()
        other._again, other._taken = self._again.copy(), self._taken.copy()
        return other

    def named(self, txn: Transaction, batch: Sequence[tuple[str, Judged]]) -> list[Judged]:
        """Return the runs of some files under the uids by which they are known here."""
        known = _Histories(txn, [judged.run for _, judged in batch])
        named = []
        for file, judged in batch:
            uid = judged.run.uid if judged.run.history is None else self._uid(known, judged.run)
            if uid != judged.run.uid:
                self.names[file, judged.run.uid] = uid
                judged = replace(judged, run=replace(judged.run, uid=uid))  # noqa: PLW2901
            named.append(judged)
        self.n_shared += known.n_shared
        return named

    def _uid(self, known: _Histories, run: Run) -> str:
        rollout = Rollout.of(run.history)
        if rollout is None:
            return known.named(run)
        of_file = frozenset((rollout.own, *rollout.beside))
        taken = self._taken.get(of_file, frozenset())
        uid = self._again.get(run.uid) or known.rollout(run, rollout, taken)
        if uid != run.uid:
            self._again[run.uid] = uid
            self._taken[of_file] = taken | {uid}
        return uid


class _Histories:
    """Marks of runs by uid, and their uids by key; marks of runs without a history are empty."""

    def __init__(self, txn: Transaction, runs: Sequence[Run]) -> None:
        self._txn, self.n_shared = txn, 0
        self._marks: dict[str, bytes] = {}
        self._uids: dict[int, list[str]] = defaultdict(list)
        histories = {run.uid: run.history for run in runs if run.history is not None}
        if not histories:
            return
        rows = txn.rows_in(
            "SELECT run_no FROM history WHERE learner_id = ? AND history_key <> 0 AND history_key IN ({})",
            list({one.key for one in histories.values() if one.key}),
        )
        self._load(txn.rows_in(_UIDS_QUERY, [run_no for (run_no,) in rows]))
        self._load_uids(list(histories))

    def named(self, run: Run) -> str:
        history = run.history or History()
        uid = run.uid
        if not self._is_same_run(uid, history):
            copied = (one for one in self._uids[history.key] if self._is_same_run(one, history))
            uid = next(iter(copied), uid)
            if uid == run.uid and uid in self._marks:
                uid = self._own_uid(uid, history)
                self.n_shared += 1
        if len(history.marks) > len(self._marks.get(uid, b"")):
            self._add(uid, history.key, history.marks)
        return uid

    def rollout(self, run: Run, rollout: Rollout, taken: Container[str]) -> str:
        """Return the uid of a rollout: its own, or that of another state of it which no other rollout took."""
        history = run.history or History()
        if run.uid in self._marks:
            return run.uid
        others = {}
        for uid in self._uids[history.key]:
            other = Rollout.of(History(marks=self._marks[uid]))
            if other is not None and other.own == rollout.own:
                return uid
            if other is not None and uid not in taken and digest_of_uid(uid) not in rollout.beside:
                others[uid] = other
        states = (uid for uid, other in others.items() if rollout.is_state_of(other))
        # A failed rollout that contradicts what is stored was matched otherwise when its later state came first.
        later = (uid for uid, other in others.items() if other.replaces(rollout))
        state = next(chain(states, later), None)
        if state is None:
            self._add(run.uid, history.key, history.marks)
        return state or run.uid

    def _is_same_run(self, uid: str, history: History) -> bool:
        marks = self._marks.get(uid)
        return marks is not None and history.is_of_one(marks)

    def _own_uid(self, uid: str, history: History) -> str:
        """Return the uid of a run that shares its id; the same at each import."""
        for number in count():
            own = f"{uid[:_SHARED_CHARS]}~{history.marks[1:5].hex()}" + (f"~{number}" if number else "")
            if own not in self._marks:
                self._load_uids([own])
            if own not in self._marks or self._is_same_run(own, history):
                break
        return own

    def _load_uids(self, uids: Sequence[str]) -> None:
        self._load(
            self._txn.rows_in(
                f"SELECT run_no, uid FROM run {RUNS_BY_UID} WHERE learner_id = ? AND uid IN ({{}})", uids
            )
        )

    def _load(self, rows: Sequence[tuple[int, str]]) -> None:
        histories = {
            run_no: one
            for run_no, *one in self._txn.rows_in(
                "SELECT run_no, history_key, marks FROM history WHERE learner_id = ? AND run_no IN ({})",
                [run_no for run_no, _ in rows],
            )
        }
        for run_no, uid in sorted(rows):
            self._add(uid, *histories.get(run_no, (0, b"")))

    def _add(self, uid: str, key: int, marks: bytes) -> None:
        self._marks[uid] = marks
        if key and uid not in self._uids[key]:
            self._uids[key].append(uid)


def add_runs(txn: Transaction, batch: Sequence[Judged], *, import_no: int = 0) -> list[Imported]:
    """Store runs; return for each: new (or active again), duplicate, updated, or other (content that stays out).

    ``import_no`` 0 = recorded directly: then a known uid with other content raises `Conflict`, unless the run grew
    (its rank is higher).
    """
    results: dict[int, Imported] = {}
    versions = [_stored_version(txn, judged) for judged in batch]
    since: dict[int, int] = {}
    rest = list(range(len(batch)))
    while rest:
        first: dict[str, int] = {}
        later = [index for index in rest if first.setdefault(batch[index].run.uid, index) != index]
        results |= _add_distinct(txn, batch, versions, list(first.values()), import_no, since=since)
        rest = later
    _describe(txn, batch, since, import_no)
    return [results[index] for index in range(len(batch))]


def _describe(txn: Transaction, batch: Sequence[Judged], since: Mapping[int, int], import_no: int) -> None:
    """Describe the arms of runs, each since the revision that its run gives; of several the last run counts."""
    inventories: dict[tuple[int, int], Inventory] = {}
    for index, revision in sorted(since.items()):
        inventory = batch[index].run.inventory
        inventories.pop(key := (min(revision, txn.revision), id(inventory)), None)
        inventories[key] = inventory
    arms: dict[int, list[tuple[int, Arm]]] = defaultdict(list)
    for (revision, _), inventory in inventories.items():
        arms[revision] += zip(txn.inventory(inventory).arm_nos, inventory.arms, strict=False)
    for revision in sorted(arms):
        txn.describe(arms[revision], import_no, revision)


def _add_distinct(
    txn: Transaction,
    batch: Sequence[Judged],
    versions: Sequence[_StoredVersion],
    indexes: list[int],
    import_no: int,
    *,
    since: dict[int, int],
) -> dict[int, Imported]:
    results, indexes = _compacted(txn, batch, versions, indexes, import_no)
    uids = [batch[index].run.uid for index in indexes]
    known = _known(txn, uids)
    # A revision above this write's means that an unfinished import staged the run.
    staged = {uid: run for uid, run in known.items() if run.revision > txn.revision}
    superseded = supersede(txn, staged) if staged else []
    if superseded:
        known = _known(txn, uids)
    fresh = [index for index in indexes if batch[index].run.uid not in known]
    of_trial = _insert(txn, [(batch[index], versions[index]) for index in fresh], import_no)
    results |= dict.fromkeys(fresh, "new")
    if not isinstance(txn, Part):  # a staged import assigns at its end
        assign_recorded(txn, [recorded_side(batch[index].run) for index in fresh])
    since |= dict.fromkeys([index for index in fresh if batch[index].run.uid not in of_trial], _NOW)
    _put_transcripts(txn, {uid: versions[index] for uid, index in zip(uids, indexes, strict=True)})
    if known:
        again = {index: known[batch[index].run.uid] for index in indexes if batch[index].run.uid in known}
        results |= _add_to_known(txn, batch, versions, again, import_no, since=since)
    attribute_superseded(txn, superseded)
    if txn.settings.keep_texts:
        _note_texts(
            txn,
            [uid for uid, index in zip(uids, indexes, strict=True) if versions[index].version.texts],
            known,
            import_no,
        )
    return results


def _compacted(
    txn: Transaction,
    batch: Sequence[Judged],
    versions: Sequence[_StoredVersion],
    indexes: list[int],
    import_no: int,
) -> tuple[dict[int, Imported], list[int]]:
    """Return the results of compacted runs, which never change, and the indexes of the others."""
    if not txn.is_compacted:
        return {}, indexes
    compacted = compacted_runs(txn, {batch[index].run.uid for index in indexes})
    results: dict[int, Imported] = {}
    for index in indexes:
        run = compacted.get(uid := batch[index].run.uid)
        if run is None:
            continue
        if versions[index].trace != run.trace:
            if import_no == 0:
                raise Conflict(
                    f"Run {uid!r} was recorded with other content,"
                    f" and compaction {run.compaction_no} has deleted it.",
                    next_step="A compacted run can't be extended: send it under another uid.",
                )
            txn.n_not_grown += 1
        results[index] = "duplicate"
    return results, [index for index in indexes if index not in results]


def _put_transcripts(txn: Transaction, versions: Mapping[str, _StoredVersion]) -> None:
    """Store the transcripts of runs before versions change, so that the versions active now keep theirs."""
    new = {uid: (one.trace, one.transcript) for uid, one in versions.items() if one.transcript is not None}
    if new:
        known = _known(txn, list(new))
        put_transcripts(txn, [(known[uid].run_no, *one) for uid, one in new.items()])


def _note_texts(txn: Transaction, uids: Sequence[str], known: Mapping[str, KnownRun], import_no: int) -> None:
    """Record the sources of runs with texts; in a part of an import this waits until the import settles."""
    if isinstance(txn, Part):
        txn.stage.has_texts |= bool(uids)
        txn.stage.known_with_texts += [known[uid].run_no for uid in uids if uid in known]
    elif uids:
        note_texts(txn, [run.run_no for run in _known(txn, uids).values()], import_no)


def _known(txn: Transaction, uids: Sequence[str]) -> dict[str, KnownRun]:
    return {name: KnownRun(*rest) for name, *rest in txn.rows_in(_KNOWN_QUERY, uids)}


class _StoredVersion(NamedTuple):
    """A version as stored, and the digests of its source's content.

    If something was erased (``is_stripped``), the digests are still those of the full content. So another import of
    that content is a duplicate.
    """

    version: Version
    trace: int
    digest: int
    is_stripped: bool
    transcript: str | None = None


def _stored_version(txn: Transaction, judged: Judged) -> _StoredVersion:
    version = _version(txn, judged)
    digests = version.digests()
    if txn.erased:
        run, erased = judged.run, txn.erased
        stored = renamed(version, erased.session)
        if erased.takes(run.uid, run.session):
            stored = stripped(stored)
        if stored != version:
            row = txn.erased.left_of(run.uid, digests[1], stored.digests())
            if isinstance(txn, Part):
                txn.stage.erased_again.append(row)
            else:
                txn.run(REMEMBER, [row, txn.now_ms])
        return _StoredVersion(stored, *digests, stored != version or erased.takes(run.uid, run.session))
    return _StoredVersion(version, *digests, is_stripped=False, transcript=transcript_of(txn, judged.run))


def _version(txn: Transaction, judged: Judged) -> Version:
    _, arm_nos, costs, definitions = txn.inventory(judged.run.inventory)
    run = judged.run
    keys = run.excluded if run.selection is None else (*run.excluded, *run.selection.excluded)
    others, texts = txn.ensure_keys(keys) if keys else {}, _texts(txn, judged.run)
    return version_of(judged, arm_nos, costs, others, texts=texts, definitions=definitions)


def _texts(txn: Transaction, run: Run) -> StoredTexts | None:
    """Return the texts to store."""
    if not txn.settings.keep_texts:
        return None
    reply = run.texts[-1] if run.reply is None and run.texts else run.reply
    return pair_of(storable(run.prompt), storable(reply))


def _insert(
    txn: Transaction, fresh: Sequence[tuple[Judged, _StoredVersion]], import_no: int
) -> Container[str]:
    """Insert new runs; return the uids of those of trials, of which posteriors don't learn."""
    if not fresh:
        return ()
    txn.note_news()
    first = txn.number("run", len(fresh))
    rows = []
    has_trials = txn.number("trial", 0) > 1  # else no session is of one
    kinds = [(one.run.uid, *session_of(stored.version.columns)[:2]) for one, stored in fresh]
    assigned = assigned_among(txn, [session for *_, session in kinds])
    keys = [
        session_key(run_no, *known, is_assigned=known[1] in assigned)
        for run_no, known in enumerate((session_of(stored.version.columns) for _, stored in fresh), first)
    ]
    of_trial = of_trials(txn, [(*one[:2], one[2] if has_trials else None) for one in kinds])
    for run_no, (judged, (version, trace, digest, *_)) in enumerate(fresh, first):
        run = judged.run
        standing = 2 if run.uid in of_trial else 1
        head = (run_no, run.uid, run.rank, trace, digest, import_no, txn.revision, standing, txn.revision)
        bill = bill_in_force(version, txn.settings.prices)
        rows.append((*head, keys[run_no - first], *bill, *version.columns))
    txn.connection.insert("run", _ROW, txn.learner_id, chain.from_iterable(rows))
    txn.chain.add("run", [_covered_in(row) for row in rows])
    txn.note_run(fresh[0][0].run.uid)
    write_parts(txn, [(run_no, stored.version) for run_no, (_, stored) in enumerate(fresh, first)])
    counted = [
        (judged, stored.version, key)
        for (judged, stored), key in zip(fresh, keys, strict=True)
        if judged.run.uid not in of_trial
    ]
    apply(txn, _rollup_new(txn, counted, import_no))
    return of_trial


def _rollup_new(
    txn: Transaction, fresh: Sequence[tuple[Judged, Version, int | None]], import_no: int
) -> Rollup:
    """Return the sums of new runs; those of one hour with the same inventory are added together."""
    rollup = Rollup()
    groups: dict[tuple[int, int, tuple[str, ...]], list[Judged]] = defaultdict(list)
    for judged, version, key in fresh:
        rollup.add_run(run_facts((*_usage_row(version.columns), import_no), key))
        if version.flags:
            run = judged.run
            groups[id(run.inventory), hour_of(run.ended_at_ms), run.unobserved].append(judged)
    for (_, hour, _), members in groups.items():
        _rollup_group(txn, rollup, members[0].run.inventory, hour, members)
    return rollup


def _rollup_group(
    txn: Transaction, rollup: Rollup, inventory: Inventory, hour: int, members: Sequence[Judged]
) -> None:
    arm_nos = txn.inventory(inventory).arm_nos
    if not arm_nos:
        return
    times = [
        member.run.ended_at_ms
        for member in members
        if member.run.ended_at_ms is not None and member.verdict.observed
    ]
    rollup.add_outcomes(
        arm_nos,
        txn.current_epochs(arm_nos),
        hour,
        [member.flags[: len(arm_nos)] for member in members],
        max(times, default=None),
    )


def _add_to_known(
    txn: Transaction,
    batch: Sequence[Judged],
    versions: Sequence[_StoredVersion],
    again: dict[int, KnownRun],
    import_no: int,
    *,
    since: dict[int, int],
) -> dict[int, Imported]:
    """Record another source of known runs, and activate the latest version; ``since`` gets its revision."""
    results: dict[int, Imported] = {}
    texts: list[tuple[int, int, StoredTexts]] = []
    attributions = []
    noted, undone = attributed(txn, [run.run_no for run in again.values()]), undone_imports(txn)
    waiting = waiting_states(txn, {run.run_no: run for run in again.values()})
    for index, known in again.items():
        run_no, rank, trace, digest, first_import, revision, is_active = known
        version, own_trace, own_digest, is_stripped, _ = versions[index]
        run, stored_texts = batch[index].run, version.texts
        sources = noted.get(run_no) or {first_import: (revision, rank, trace, digest)}
        active = {no: one for no, one in sources.items() if no not in undone and one[0] <= txn.revision}
        if is_stripped and version == read_version(txn, run_no):
            own_trace, own_digest = trace, digest
        if stored_texts is not None and own_digest == digest:
            texts.append((run_no, digest, stored_texts))
        results[index] = "duplicate"
        since[index] = _known_since(active, own_trace, import_no) if is_active else _NOW
        is_first_source = import_no == first_import and run_no not in noted
        if is_active and is_first_source and own_trace == trace and run.rank <= source_rank(rank):
            continue
        if import_no == 0 and is_active and own_trace != trace and run.rank <= source_rank(rank):
            raise Conflict(
                f"Run {run.uid!r} is already recorded as run {run_no} with other content.",
                next_step="Give every request a uid of its own; to extend a run send it with a higher rank.",
            )
        state = waiting.get(run_no, known)
        is_waiting = run_no in waiting
        in_force = (
            partial(load, txn, run_no, state.digest) if is_waiting else partial(read_version, txn, run_no)
        )
        own_rank, is_left_out = _rank_to_store(
            state, in_force, version, own_trace, run.rank, replaces=txn.replaces
        )
        if is_left_out and is_active:
            results[index] = "other"
            if is_first_source or import_no in noted.get(run_no, {}):
                continue
        elif own_trace != state.trace and own_rank > state.rank:
            since[index] = _NOW
        attributions.append(
            Attribution(
                run_no=run_no,
                uid=run.uid,
                import_no=import_no,
                rank=own_rank,
                trace=own_trace,
                digest=own_digest,
                origin=(first_import, revision, rank, trace, digest),
                version=None if own_digest == digest else version,
            )
        )
    if isinstance(txn, Part):
        attributions = deferred(txn, attributions, {run.run_no: run for run in again.values()})
    attribute_runs(txn, attributions, noted)
    changed = recompute_runs(txn, [one.run_no for one in attributions])
    if texts:
        _fill(txn, texts)
    for index, (run_no, *_, is_active) in again.items():
        if run_no in changed:
            results[index] = "updated" if is_active else "new"
    return results


def _fill(txn: Transaction, texts: Sequence[tuple[int, int, StoredTexts]]) -> None:
    """Fill in the missing texts of known runs, by number and digest; in a part those of settled executions wait."""
    late: set[int] = set()
    if isinstance(txn, Part):
        late |= {*own_executions(txn, [run_no for run_no, *_ in texts]).values()}
        txn.stage.late_texts += [one for one in texts if one[0] in late]
    is_filled = fill_texts(txn, [(run_no, stored) for run_no, _, stored in texts if run_no not in late])
    if isinstance(txn, Part):
        txn.stage.is_filled |= is_filled


def _known_since(sources: Mapping[int, tuple[int, int, int, int]], trace: int, import_no: int) -> int:
    """Return the revision of the first source of this content, else of any; 0 where it is the import's own."""
    same = {no: one for no, one in sources.items() if one[2] == trace} or sources
    return 0 if import_no in same else min((one[0] for one in same.values()), default=0)


def _rank_to_store(
    known: KnownRun,
    in_force: Callable[[], Version],
    version: Version,
    trace: int,
    rank: int,
    *,
    replaces: bool,
) -> tuple[int, bool]:
    """Return the rank to store for another state of a run, and whether nothing orders it and the known state.

    A history overrules the rank, which is the session's: a longer session can hold a copy that was cut off.
    """
    generation, before = generation_of(known.rank), source_rank(known.rank)
    if trace == known.trace:
        return _LEFT_OUT if known.rank == _LEFT_OUT else ranked(generation, max(rank, before)), False
    grown = goes_on(in_force(), version) if version.history else None
    if rank != before and (grown is None or grown == (rank > before)):
        return ranked(generation if rank > before else 0, rank), False
    later = is_later(in_force(), version) if grown is None else grown
    if later and generation < _FIRST_REPLACING:
        return ranked(generation + 1, rank), False
    if replaces and later is not False:
        return ranked(min(max(generation + 1, _FIRST_REPLACING), _LAST_GENERATION), rank), False
    return _LEFT_OUT, later is not False
