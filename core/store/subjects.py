"""Subjects: layers of adapters and their executions; as rows, and as lines.

Their sources are in ``provenance`` from the first on, as with arms. A layer or execution is active while one of its
sources is. It is bare (1) if no active source has more than its name. Of several descriptions of a layer the last
value of each field is in force. An execution is described once; another description is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from core.errors import UnreadableSource
from core.records.evaluation_lines import ExecutionLine, LayerLine, PairLine, without_texts
from core.records.ledger_lines import PlacedLine
from core.store.compacted import compacted_runs
from core.store.engine.dialect import ACTIVE, EXECUTIONS_BY_UID, LAYERS_BY_UID
from core.store.erased import reworded
from core.store.provenance import undone_imports
from core.store.quality import fold_again, heads_of
from core.store.reads import run_of_uid
from core.store.tables import insert_into
from core.store.texts import (
    PUT_PAIR,
    adopt,
    execution_uid,
    instruction_digest,
    is_same_text,
    read_texts,
    storable_json,
)
from core.store.transaction import Facts, Snapshot, Transaction

Kind = Literal["layer", "execution"]
SUBJECTS: Final[tuple[Kind, ...]] = get_args(Kind)
_ADAPTER: Final = insert_into("adapter", "learner_id", "adapter_no", "uri", "name", "version")
_LAYER: Final = insert_into(
    "layer", "learner_id", "layer_no", "uid", "adapter_no", "layer_index", "tags", "bare", "standing"
)
_EXECUTION: Final = insert_into(
    "execution", "learner_id", "execution_no", "uid", "adapter_no", "run_no", "bare", "standing"
)
_SOURCE_COLUMNS: Final = ("kind", "no", "import_no", "revision", "said")
_NOTE: Final = (
    insert_into("provenance", "learner_id", *_SOURCE_COLUMNS)
    + " ON CONFLICT (learner_id, kind, no, import_no) DO UPDATE SET revision = excluded.revision,"
    " said = excluded.said WHERE provenance.said IS NULL"
)


class SubjectSource(NamedTuple):
    """One import's description of a layer or execution (0 = direct); None = its name only."""

    revision: int
    import_no: int
    description: str | None


def subject_no(facts: Facts, kind: Kind, uid: str) -> int | None:
    """Return the number of a layer or execution; None without an active source or with an inactive run."""
    if kind == "layer":
        return layer_nos(facts, [uid.lower()]).get(uid.lower())
    execution = executions_of(facts, [uid.lower()]).get(uid.lower())
    return None if execution is None else execution.execution_no


def layer_nos(facts: Facts, uids: Collection[str]) -> dict[str, int]:
    """Return numbers of those layers, by uid in lower case, that have an active source."""
    rows = facts.connection.rows_in(
        f"SELECT uid, layer_no FROM layer {LAYERS_BY_UID} WHERE learner_id = ? AND {ACTIVE} AND uid IN ({{}})",
        [facts.learner_id],
        sorted(uids),
    )
    return dict(rows)


class ExecutionMatch(msgspec.Struct, frozen=True, gc=False):
    """An execution, and the run it is of by number, uid and revision; 0 and "" = it is of none."""

    execution_no: int
    run_no: int
    run: str
    run_revision: int


def executions_of(facts: Facts, uids: Collection[str]) -> dict[str, ExecutionMatch]:
    """Return those executions, by uid in lower case, that have an active source and an active run."""
    rows = facts.rows_in(
        "SELECT e.uid, e.execution_no, e.run_no, coalesce(r.uid, ''), coalesce(r.revision, 0)"
        f" FROM execution e {EXECUTIONS_BY_UID}"
        f" LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no AND r.{ACTIVE}"
        f" WHERE e.learner_id = ? AND e.{ACTIVE} AND (e.run_no = 0 OR r.run_no IS NOT NULL) AND e.uid IN ({{}})",
        sorted(uids),
    )
    return {uid: ExecutionMatch(*values) for uid, *values in rows}


def name_subject(txn: Transaction, kind: Kind, uid: str, import_no: int = 0) -> int:
    """The number of a layer or execution that is named here; it is made, bare, if need be."""
    row = txn.row(f"SELECT {kind}_no, standing FROM {kind} WHERE learner_id = ? AND uid = ?", [uid.lower()])
    if row is not None and row[1] and not import_no:
        name_again(txn, {kind: [row[0]]})
        return int(row[0])
    number = _make(txn, kind, uid) if row is None else int(row[0])
    if kind == "execution" and row is not None and not row[1]:
        adopt(txn, [number])
    _note(txn, kind, number, import_no, None)
    if row is not None and not row[1]:
        recompute_subjects(txn, kind, [number])
    return number


def name_again(txn: Transaction, named: Mapping[Kind, Iterable[int]], import_no: int = 0) -> None:
    """Record another naming of layers or executions; one of an import counts at any of its states."""
    known = {kind: sorted({*numbers} - {0}) for kind, numbers in named.items()}
    source = (import_no, txn.revision, None)
    flat = (
        value for kind, numbers in known.items() for number in numbers for value in (kind, number, *source)
    )
    txn.connection.insert(
        "provenance", _SOURCE_COLUMNS, txn.learner_id, flat, upsert="ON CONFLICT DO NOTHING"
    )
    if import_no:
        for kind, numbers in known.items():
            recompute_subjects(txn, kind, numbers)


def _make(txn: Transaction, kind: Kind, uid: str) -> int:
    txn.note_news()
    number = txn.number(kind)
    if kind == "layer":
        txn.run(_LAYER, [number, uid.lower(), 0, 0, "[]", 1, 1])
    else:
        txn.run(_EXECUTION, [number, uid.lower(), 0, 0, 1, 1])
    return number


def _note(txn: Transaction, kind: Kind, number: int, import_no: int, description: str | None) -> None:
    txn.run(_NOTE, [kind, number, import_no, txn.revision, description])


def _adapter_no(txn: Transaction, uri: str, name: str | None = None, version: str | None = None) -> int:
    """The number of an adapter, made if need be; 0 for none."""
    if not uri:
        return 0
    row = txn.row("SELECT adapter_no FROM adapter WHERE learner_id = ? AND uri = ?", [uri])
    if row is None:
        number = txn.number("adapter")
        txn.run(_ADAPTER, [number, uri, name, version])
        return number
    if name is not None or version is not None:
        txn.connection.run(
            "UPDATE adapter SET name = coalesce(?, name), version = coalesce(?, version)"
            " WHERE learner_id = ? AND adapter_no = ?",
            [name, version, txn.learner_id, row[0]],
        )
    return int(row[0])


# Layers


def describe_layer(txn: Transaction, line: LayerLine, import_no: int = 0) -> int:
    """Store a description of a layer; return its number."""
    number = name_subject(txn, "layer", line.uid, import_no)
    if not line.is_bare:
        normalised = reworded(txn.erased, msgspec.structs.replace(line, uid=line.uid.lower()))
        known = _sources(txn, "layer", [number])[number]
        description = msgspec.json.encode(normalised).decode()
        same = [one.revision for one in known if one.description == description]
        since = txn.revision if txn.has_news else min(same, default=txn.revision)
        later = [*known, SubjectSource(since, import_no, description)]
        if _merged_layer(later) != _merged_layer(known):
            txn.note_news()
        txn.run(_NOTE, ["layer", number, import_no, since, description])
        recompute_subjects(txn, "layer", [number])
    return number


def _write_layer(txn: Transaction, number: int, sources: Sequence[SubjectSource]) -> None:
    line = _merged_layer(sources)
    bare, active = _state(sources)
    txn.set_row(
        "layer",
        "layer_no = ?",
        [number],
        adapter_no=_adapter_no(txn, line.adapter, line.adapter_name, line.adapter_version),
        layer_index=line.index,
        label=line.label,
        task=line.task,
        type=line.type,
        domain=line.domain,
        tags=msgspec.json.encode(line.tags).decode(),
        bare=bare,
        standing=active,
    )


def _merged_layer(sources: Sequence[SubjectSource]) -> LayerLine:
    """Return the description of a layer: of each field the latest value, which is None where it was left out."""
    fields: dict[str, object] = {"uid": "-"}
    for one in sorted(one for one in sources if one.description is not None):
        fields |= msgspec.json.decode(one.description or "", type=dict[str, object])
    return msgspec.convert({**fields, "kind": "layer"}, LayerLine)


def described_layers(snapshot: Snapshot) -> tuple[dict[int, object], dict[int, object]]:
    """Return what is stored of each layer beside its uid, and what its active sources describe; adapters by uri."""
    stored: dict[int, object] = {
        number: tuple(row)
        for number, *row in snapshot.rows(
            "SELECT l.layer_no, coalesce(a.uri, ''), l.layer_index, l.label, l.task, l.type, l.domain, l.tags"
            " FROM layer l LEFT JOIN adapter a ON a.learner_id = l.learner_id AND a.adapter_no = l.adapter_no"
            " WHERE l.learner_id = ?1 AND EXISTS (SELECT 1 FROM provenance s WHERE s.learner_id = ?1"
            " AND s.kind = 'layer' AND s.no = l.layer_no)"
        )
    }
    described: dict[int, object] = {}
    for number, sources in _sources(snapshot, "layer", list(stored)).items():
        line = _merged_layer(sources)
        tags = msgspec.json.encode(line.tags).decode()
        described[number] = (line.adapter, line.index, line.label, line.task, line.type, line.domain, tags)
    return stored, described


def layer_lines(snapshot: Snapshot) -> Iterator[LayerLine]:
    """Layers of which more than the name is known, sorted by uid."""
    for uid, uri, name, version, index, label, task, kind, domain, tags in snapshot.each(
        "SELECT l.uid, a.uri, a.name, a.version, l.layer_index, l.label, l.task, l.type, l.domain, l.tags"
        " FROM layer l LEFT JOIN adapter a ON a.learner_id = l.learner_id AND a.adapter_no = l.adapter_no"
        f" WHERE l.learner_id = ? AND l.{ACTIVE} AND l.bare = 0 ORDER BY l.uid"
    ):
        yield LayerLine(
            uid=uid,
            adapter=uri or "",
            adapter_name=name,
            adapter_version=version,
            index=index,
            label=label,
            task=task,
            type=kind,
            domain=domain,
            tags=tuple(msgspec.json.decode(tags, type=list[str])),
        )


# Executions


def describe_execution(
    txn: Transaction, line: ExecutionLine, import_no: int = 0, *, keep_texts: bool = False
) -> int:
    """Store a description of an execution and return its number. Texts are stored only with ``keep_texts``.

    A description with only some of its pairs, as lines of rewards have, only names it. Of a compacted run's own
    execution nothing is stored, and the number is 0. Raises `UnreadableSource` for other content than is known, or
    for an unknown run.
    """
    if (
        line.run is not None
        and line.uid.lower() == execution_uid(line.run)
        and compacted_runs(txn, [line.run])
    ):
        return 0
    number = name_subject(txn, "execution", line.uid, import_no)
    if line.is_bare:
        return number
    line = _admitted(txn, line)
    if keep_texts:
        line = msgspec.structs.replace(line, pairs=tuple(_masked(pair) for pair in line.pairs))
    run_no = partial(named_run_no, txn, "Execution", line.uid, line.run)
    is_own = line.run is not None and line.uid.lower() == execution_uid(line.run) and run_no() > 0
    if is_own and read_texts(txn, run_no()) is not None:
        line = msgspec.structs.replace(line, pairs=())  # the run's own, whose texts go with its versions
    elif any(one.description is not None for one in _sources(txn, "execution", [number])[number]):
        if _is_part(txn, number, line):
            return number
    else:
        txn.note_news()
        txn.run("DELETE FROM training_pair WHERE learner_id = ? AND execution_no = ?", [number])
        txn.set_row(
            "execution",
            "execution_no = ?",
            [number],
            adapter_no=_adapter_no(txn, line.adapter),
            run_no=run_no(),
            session=line.session,
            at_ms=line.at_ms,
        )
    _note(txn, "execution", number, import_no, "described")
    _put_pairs(txn, number, line, import_no, keep_texts=keep_texts)
    if import_no and not line.pairs:
        layers = "SELECT layer_no FROM training_pair WHERE learner_id = ? AND execution_no = ?"
        name_again(txn, {"layer": txn.column(layers, [number])}, import_no)
    recompute_subjects(txn, "execution", [number])
    return number


def _admitted(txn: Transaction, line: ExecutionLine) -> ExecutionLine:
    """The line without what was erased."""
    erased = txn.erased
    if not erased:
        return line
    is_gone = erased.has("execution", line.uid) or erased.takes(line.run or "", line.session)
    return msgspec.structs.replace(
        without_texts(line) if is_gone else line, session=erased.session(line.session)
    )


def named_run_no(txn: Transaction, what: str, uid: str, named: str | None) -> int:
    """Return the number of the run that a line names, 0 for none; ``what`` and ``uid`` are those of the line."""
    if named is None:
        return 0
    run = run_of_uid(txn, named)
    if run is None:
        raise UnreadableSource(
            f"{what} {uid[:60]!r} names run {named[:60]!r}, which is not here.",
            next_step="Import the runs first, or in the same file.",
        )
    return run.run_no


def _is_part(txn: Transaction, number: int, line: ExecutionLine) -> bool:
    """Return whether a line has fewer pairs of an execution than are known; raises for other pairs."""
    known = {
        layer: (index, instruction, response)
        for layer, index, instruction, response in txn.rows(
            "SELECT l.uid, p.layer_index, p.instruction, p.response FROM training_pair p"
            " JOIN layer l ON l.learner_id = p.learner_id AND l.layer_no = p.layer_no"
            " WHERE p.learner_id = ? AND p.execution_no = ?",
            [number],
        )
    }
    pairs = {pair.layer.lower(): (pair.index, pair.instruction, pair.response) for pair in line.pairs}
    if any(not _agree(known[uid], pairs[uid]) for uid in known.keys() & pairs.keys()):
        raise _known_otherwise(line, "with other content")
    if pairs.keys() - known.keys():
        raise _known_otherwise(line, "with other pairs: undo what brought it first")
    return bool(pairs) and len(pairs) < len(known)


def _known_otherwise(line: ExecutionLine, how: str) -> UnreadableSource:
    return UnreadableSource(
        f"Execution {line.uid[:60]!r} is known already, {how}.",
        next_step="Undo the import that brought it, then import this one.",
    )


def _agree(known: tuple[int, str | None, str | None], other: tuple[int, str | None, str | None]) -> bool:
    """Return whether two descriptions of a pair agree, as far as both have texts."""
    return known[0] == other[0] and all(
        None in (mine, theirs) or is_same_text(storable_json(mine), storable_json(theirs))
        for mine, theirs in zip(known[1:], other[1:], strict=True)
    )


def _masked(pair: PairLine) -> PairLine:
    return msgspec.structs.replace(
        pair, instruction=storable_json(pair.instruction), response=storable_json(pair.response)
    )


def _put_pairs(
    txn: Transaction, number: int, line: ExecutionLine, import_no: int, *, keep_texts: bool
) -> None:
    for pair in line.pairs:
        layer_no = name_subject(txn, "layer", pair.layer, import_no)
        instruction, response = (pair.instruction, pair.response) if keep_texts else (None, None)
        if instruction is None and response is None and _has_pair(txn, number, layer_no):
            continue
        txn.run(
            PUT_PAIR, [number, layer_no, pair.index, instruction_digest(instruction), instruction, response]
        )


def _has_pair(txn: Transaction, number: int, layer_no: int) -> bool:
    return txn.has_row(
        "SELECT 1 FROM training_pair WHERE learner_id = ? AND execution_no = ? AND layer_no = ?",
        [number, layer_no],
    )


def execution_lines(snapshot: Snapshot) -> Iterator[PlacedLine]:
    """Executions of which more than the name is known, never before their run; with the texts that were kept."""
    for number, uid, uri, run, session, at_ms, revision in snapshot.each(
        "SELECT e.execution_no, e.uid, a.uri, r.uid, e.session, e.at_ms, coalesce(r.revision, 0) AS since"
        " FROM execution e"
        " LEFT JOIN adapter a ON a.learner_id = e.learner_id AND a.adapter_no = e.adapter_no"
        " LEFT JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no AND e.run_no > 0"
        f" WHERE e.learner_id = ? AND e.{ACTIVE} AND e.bare = 0 AND coalesce(r.standing, 1) > 0"
        " ORDER BY since, e.execution_no"
    ):
        yield (
            revision,
            ExecutionLine(
                uid=uid,
                adapter=uri or "",
                run=run,
                session=session,
                at_ms=at_ms,
                pairs=_pairs(snapshot, number),
            ),
        )


def _pairs(snapshot: Snapshot, number: int) -> tuple[PairLine, ...]:
    rows = snapshot.rows(
        "SELECT l.uid, p.layer_index, p.instruction, p.response FROM training_pair p"
        " JOIN layer l ON l.learner_id = p.learner_id AND l.layer_no = p.layer_no"
        " WHERE p.learner_id = ? AND p.execution_no = ? ORDER BY p.layer_index, l.uid",
        [number],
    )
    return tuple(
        PairLine(
            layer=uid,
            index=index,
            instruction=instruction,
            response=response,
        )
        for uid, index, instruction, response in rows
    )


# Sources


def recompute_subjects(txn: Transaction, kind: Kind, numbers: Sequence[int]) -> None:
    """Recompute state and description of layers or executions from their active sources."""
    for number, sources in _sources(txn, kind, numbers).items():
        if kind == "layer":
            before = heads_of(txn, [number])
            _write_layer(txn, number, sources)
            after = heads_of(txn, [number])
            if before != after or number in after.values():
                fold_again(txn, sorted({number, *before.values(), *after.values()}))
        else:
            bare, active = _state(sources)
            txn.set_row("execution", "execution_no = ?", [number], bare=bare, standing=active)


def subject_states(facts: Facts, kind: Kind, numbers: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return whether layers or executions are bare, and active, by their sources."""
    return {number: _state(sources) for number, sources in _sources(facts, kind, numbers).items()}


def _state(sources: Sequence[SubjectSource]) -> tuple[int, int]:
    return int(all(one.description is None for one in sources)), int(bool(sources))


def _sources(facts: Facts, kind: Kind, numbers: Sequence[int]) -> dict[int, list[SubjectSource]]:
    undone = undone_imports(facts)
    sources: dict[int, list[SubjectSource]] = defaultdict(list, {number: [] for number in numbers})
    for number, import_no, revision, description in facts.connection.rows_in(
        "SELECT no, import_no, revision, said FROM provenance WHERE learner_id = ? AND kind = ? AND no IN ({})",
        [facts.learner_id, kind],
        numbers,
    ):
        if import_no not in undone:
            sources[number].append(SubjectSource(revision, import_no, description))
    return dict(sources)


def subjects_of_import(facts: Facts, kind: Kind | Literal["episode"], import_no: int) -> list[int]:
    """Layers, executions or episodes that an import names."""
    return facts.column(
        "SELECT no FROM provenance WHERE learner_id = ? AND kind = ? AND import_no = ? ORDER BY no",
        [kind, import_no],
    )
