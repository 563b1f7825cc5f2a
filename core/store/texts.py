"""Texts of runs: request and answer, as the one pair of an execution that each run with texts has.

They belong to the version of the run that has them; another active version has its own. The execution's sources are
in ``provenance``: undoing the imports with texts deactivates it. A staged import's are there, and inactive until it
settles.

Texts of steps are requests and answers of an environment, stored while the setting ``keep_texts`` was on. A text
belongs to the step with exactly this content, in any version of its episode. Later versions share it, and it is shown
while its step is active. Erased texts are not stored again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from core.records.episode import Step
from core.records.evaluation_lines import LayerLine
from core.records.layer import NAMESPACE, adapter_uri, layer_uid
from core.records.run import Run
from core.records.transcript import Message
from core.secrecy import masked, masked_messages, secrets_in
from core.store.covered import columns_of
from core.store.engine import Connection
from core.store.engine.dialect import ACTIVE, EXECUTIONS_BY_UID
from core.store.tables import insert_into
from core.store.text_index import drop_indexed, index_step_texts, index_texts
from core.store.transaction import Facts, Transaction

_HEAD: Final = 1
"""The only layer is the adapter's head."""
_ADAPTER: Final = insert_into("adapter", "learner_id", "adapter_no", "uri", "name")
_LAYER: Final = insert_into(
    "layer",
    "learner_id",
    "layer_no",
    "uid",
    "adapter_no",
    "layer_index",
    "label",
    "tags",
    "bare",
    "standing",
)
_EXECUTION: Final = insert_into("execution")
PUT_PAIR: Final = (
    insert_into("training_pair")
    + " ON CONFLICT (learner_id, execution_no, layer_no) DO UPDATE SET digest = excluded.digest,"
    " instruction = excluded.instruction, response = excluded.response"
)
"""SQL that writes a pair over an earlier one."""
_NAME_SOURCE: Final = (
    insert_into("provenance", "learner_id", "kind", "no", "import_no", "revision", "said")
    + " ON CONFLICT (learner_id, kind, no, import_no) DO UPDATE SET said = excluded.said"
    " WHERE provenance.said IS NULL"
)

_NAMED_ONLY: Final = (
    "learner_id = ?1 AND execution_no IN (SELECT e.execution_no FROM execution e WHERE e.learner_id = ?1"
    " AND e.run_no <> 0 AND e.bare = 1 AND e.standing = 0 AND NOT EXISTS (SELECT 1 FROM provenance s"
    " WHERE s.learner_id = ?1 AND s.kind = 'execution' AND s.no = e.execution_no))"
)

_MESSAGES: Final = msgspec.json.Decoder(tuple[Message, ...])
_PUT_TRANSCRIPT: Final = (
    insert_into("run_text", "learner_id", "run_no", "trace", "messages", "revision")
    + " ON CONFLICT DO NOTHING"
)
_OTHERS: Final = (
    "DELETE FROM run_text WHERE learner_id = ?1 AND revision >= ? AND revision <= ? AND run_no IN ({})"
    " AND NOT EXISTS (SELECT 1 FROM run r WHERE r.learner_id = ?1 AND r.run_no = run_text.run_no"
    " AND r.trace = run_text.trace)"
)
_UNSETTLED: Final = (
    "DELETE FROM run_text WHERE learner_id = ?1 AND EXISTS (SELECT 1 FROM learner l WHERE l.learner_id = ?1"
    " AND l.staged_import_no > 0 AND l.staged_revision <= run_text.revision)"
)
_BEYOND: Final = "DELETE FROM run_text WHERE learner_id = ? AND revision > ? AND run_no IN ({})"
_UP_TO: Final = "DELETE FROM run_text WHERE learner_id = ? AND revision <= ? AND run_no IN ({})"

_COLUMNS: Final = ("episode_no", "step_no", "digest", "asked", "answered")
_FILLING: Final = (
    "ON CONFLICT (learner_id, episode_no, step_no, digest) DO UPDATE"
    " SET asked = coalesce(step_text.asked, excluded.asked),"
    " answered = coalesce(step_text.answered, excluded.answered)"
    " WHERE (step_text.asked IS NULL AND excluded.asked IS NOT NULL)"
    " OR (step_text.answered IS NULL AND excluded.answered IS NOT NULL)"
)
_PUT: Final = (
    f"INSERT INTO step_text (learner_id, {', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?) {_FILLING}"
)
Digest = Callable[[Step], int]
"""Digest of a step's content, among those of its number."""

MAX_TEXT_CHARS: Final = 100_000
"""Maximum number of stored characters of a prompt or a reply: about thirty times what people read of one.

A longer text is cut, with a mark at its end. Refusing it would refuse the run.
"""
_ROOM_FOR_MARK: Final = 60


def storable(text: str | None) -> str | None:
    """Return a text as it is stored: with a mark in the place of each secret, and cut."""
    return None if text is None else cut(masked(text))


def storable_json(text: str | None) -> str | None:
    """Return a JSON text with a mark in the place of each secret."""
    if text is None or (result := masked(text)) == text:
        return text
    try:
        msgspec.json.decode(result)
    except msgspec.DecodeError:  # a secret that is no text, a number for example
        return msgspec.json.encode({"masked": secrets_in(text)}).decode()
    return result


def instruction_digest(instruction: str | None) -> str:
    """By what answers to the same instruction are found: equal for equal JSON, however it is written.

    >>> instruction_digest('{"b": 1, "a": 2}') == instruction_digest('{"a":2,"b":1.0}')
    True
    >>> instruction_digest(None)
    ''
    """
    if instruction is None:
        return ""
    plain = msgspec.json.decode(instruction)
    canonical = msgspec.json.encode(_whole(plain), order="deterministic")
    return blake2b(canonical, digest_size=16).hexdigest()


def is_same_text(one: str | None, other: str | None) -> bool:
    """Return whether two JSON texts are equal in any order of members; a null member equals a missing one.

    >>> is_same_text('{"a":1,"b":null}', '{"a": 1.0}'), is_same_text('{"a":1}', '{"a":2}'), is_same_text("{}", None)
    (True, False, False)
    """
    if one is None or other is None:
        return one is other
    return one == other or _members(one) == _members(other)


def _members(text: str) -> object:
    value = msgspec.json.decode(text)
    if not isinstance(value, dict):
        return value
    return {name: held for name, held in value.items() if held is not None}


def _whole(value: object) -> object:
    """Return whole numbers as integers: JavaScript's JSON does not distinguish 1 and 1.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(held) for name, held in value.items()}
    return [_whole(held) for held in value] if isinstance(value, list) else value


# Texts of the active version of a run


class _Own(NamedTuple):
    """A run's own execution: its uid, and its number where there is one (else 0)."""

    run_no: int
    uid: str
    session: str | None
    at_ms: int | None
    number: int


def read_texts(facts: Facts, run_no: int) -> StoredTexts | None:
    """The texts of a run."""
    return _stored(facts, _own(facts, [run_no])).get(run_no)


def _stored(facts: Facts, own: Sequence[_Own]) -> dict[int, StoredTexts]:
    run_of = {one.number: one.run_no for one in own if one.number}
    rows = facts.rows_in(
        "SELECT execution_no, instruction, response FROM training_pair"
        " WHERE learner_id = ? AND coalesce(instruction, response) IS NOT NULL AND execution_no IN ({})",
        list(run_of),
    )
    return {run_of[number]: StoredTexts(*texts) for number, *texts in rows}


def _own(facts: Facts, run_nos: Sequence[int]) -> list[_Own]:
    runs = {
        execution_uid(uid): (run_no, session, at_ms)
        for run_no, uid, session, at_ms in facts.rows_in(
            "SELECT run_no, uid, session, at_ms FROM run WHERE learner_id = ? AND run_no IN ({})", run_nos
        )
    }
    numbers: dict[str, int] = dict(
        facts.rows_in(
            f"SELECT uid, execution_no FROM execution {EXECUTIONS_BY_UID} WHERE learner_id = ? AND uid IN ({{}})",
            list(runs),
        )
    )
    return [
        _Own(run_no, uid, session, at_ms, numbers.get(uid, 0))
        for uid, (run_no, session, at_ms) in runs.items()
    ]


def write_texts(facts: Facts, written: Sequence[tuple[int, StoredTexts]]) -> None:
    """Let runs have these texts, in the place of any that they have."""
    texts = dict(written)
    own = _own(facts, list(texts))
    if isinstance(facts, Transaction):
        own = _with_executions(facts, own)
    here = {one.number: one.run_no for one in own if one.number}
    facts.connection.many(
        "UPDATE execution SET run_no = ?, session = ?, at_ms = ? WHERE learner_id = ? AND execution_no = ?",
        [(one.run_no, one.session, one.at_ms, facts.learner_id, one.number) for one in own if one.number],
    )
    layers: dict[int, int] = dict(
        facts.rows_in(
            "SELECT execution_no, min(layer_no) FROM training_pair WHERE learner_id = ? AND execution_no IN ({})"
            " GROUP BY execution_no",
            list(here),
        )
    )
    if isinstance(facts, Transaction) and len(layers) < len(here):
        layer_no = _layer_no(facts)
        layers |= {number: layer_no for number in here if number not in layers}
    facts.connection.many(
        PUT_PAIR,
        [
            (
                facts.learner_id,
                number,
                layer_no,
                _HEAD,
                instruction_digest(texts[here[number]].instruction),
                *texts[here[number]],
            )
            for number, layer_no in layers.items()
        ],
    )
    _index(facts, list(texts))


def _with_executions(txn: Transaction, own: Sequence[_Own]) -> list[_Own]:
    """Return the same with an execution each; a missing one is made, inactive."""
    missing = [one for one in own if not one.number]
    if not missing:
        return list(own)
    adapter_no = _adapter_no(txn)
    first = txn.number("execution", len(missing))
    added = [one._replace(number=number) for number, one in enumerate(missing, first)]
    txn.connection.many(
        _EXECUTION,
        [
            (txn.learner_id, one.number, one.uid, adapter_no, one.run_no, one.session, one.at_ms, 1, 0)
            for one in added
        ],
    )
    return [*(one for one in own if one.number), *added]


def _index(facts: Facts, run_nos: Sequence[int]) -> None:
    """Index the texts of runs as they are now, while texts are kept; else remove them from the index."""
    write = index_texts if facts.settings.keep_texts else drop_indexed
    write(facts.connection, facts.learner_id, "run", run_nos)


def drop_texts(facts: Facts, run_nos: Sequence[int]) -> None:
    """Let runs have no texts."""
    numbers = [one.number for one in _own(facts, run_nos) if one.number]
    facts.run_in(
        "UPDATE training_pair SET digest = '', instruction = NULL, response = NULL"
        " WHERE learner_id = ? AND execution_no IN ({})",
        numbers,
    )
    _index(facts, run_nos if numbers else ())


def fill_texts(txn: Transaction, filled: Sequence[tuple[int, StoredTexts]]) -> bool:
    """Add texts to runs without any, and return whether any had none: a later import can bring them."""
    known = txn.distinct_in(
        f"SELECT run_no FROM execution WHERE learner_id = ? AND run_no <> 0 AND {ACTIVE} AND run_no IN ({{}})",
        list(_stored(txn, _own(txn, [run_no for run_no, _ in filled]))),
    )
    fresh = [(run_no, texts) for run_no, texts in filled if run_no not in known]
    if fresh:
        txn.note_news()
        write_texts(txn, fresh)
    return bool(fresh)


# Sources


def note_texts(txn: Transaction, run_nos: Sequence[int], import_no: int) -> None:
    """Record that an import (0 = direct) brought runs with texts: their executions are active while it is."""
    _note_all(txn, [one.number for one in _with_executions(txn, _own(txn, run_nos))], import_no)


def note_staged_texts(txn: Transaction, import_no: int, revision: int, superseded: Sequence[int]) -> None:
    """Activate the executions of runs that an import has staged, or that another writer recorded meanwhile."""
    rows = txn.rows(
        "SELECT e.execution_no FROM execution e JOIN run r ON r.learner_id = e.learner_id AND r.run_no = e.run_no"
        " WHERE e.learner_id = ? AND e.run_no <> 0 AND e.bare = 1 AND r.import_no = ? AND r.revision >= ?",
        [import_no, revision],
    ) + txn.rows_in(
        "SELECT execution_no FROM execution WHERE learner_id = ? AND run_no <> 0 AND bare = 1 AND run_no IN ({})",
        superseded,
    )
    _note_all(txn, [number for (number,) in rows], import_no)


def _note_all(txn: Transaction, numbers: Sequence[int], import_no: int) -> None:
    if not numbers:
        return
    layer, description = _layer_no(txn), msgspec.json.encode(_layer_line(txn)).decode()
    txn.run(_NAME_SOURCE, ["layer", layer, 0, txn.revision, description])  # so that it outlives imports
    txn.run(f"UPDATE layer SET bare = 0, {ACTIVE} WHERE learner_id = ? AND layer_no = ?", [layer])
    adopt(txn, [number for number in numbers if not txn.is_new("execution", number)])
    txn.connection.many(
        _NAME_SOURCE,
        [(txn.learner_id, "execution", number, import_no, txn.revision, "described") for number in numbers],
    )
    txn.run_in(
        f"UPDATE execution SET bare = 0, {ACTIVE} WHERE learner_id = ? AND execution_no IN ({{}})", numbers
    )


def adopt(txn: Transaction, numbers: Sequence[int]) -> None:
    """Let executions that an import has staged be facts of this write: it gives them their first source."""
    rows = txn.rows_in(
        f"SELECT {', '.join(columns_of('execution'))} FROM execution e WHERE e.learner_id = ?1 AND e.bare = 1"
        f" AND NOT e.{ACTIVE} AND NOT EXISTS (SELECT 1 FROM provenance s WHERE s.learner_id = ?1"
        " AND s.kind = 'execution' AND s.no = e.execution_no) AND e.execution_no IN ({})",
        numbers,
    )
    pairs = txn.rows_in(
        f"SELECT {', '.join(columns_of('training_pair'))} FROM training_pair WHERE learner_id = ?"
        " AND execution_no IN ({})",
        [number for number, *_ in rows],
    )
    for table, staged in (("execution", rows), ("training_pair", pairs)):
        txn.chain.adopt(table, staged)


def forget_texts(facts: Facts, run_nos: Sequence[int]) -> None:
    """Remove the executions of runs that are removed themselves."""
    n_transcripts = drop_transcripts(facts, run_nos)
    numbers = [one.number for one in _own(facts, run_nos) if one.number]
    for table in ("training_pair", "execution"):
        facts.run_in(f"DELETE FROM {table} WHERE learner_id = ? AND execution_no IN ({{}})", numbers)
    drop_indexed(facts.connection, facts.learner_id, "run", run_nos if numbers or n_transcripts else ())


def own_executions(facts: Facts, run_nos: Sequence[int]) -> dict[int, int]:
    """Return the runs whose own execution has a source, by the number of the execution."""
    own = {one.number: one.run_no for one in _own(facts, run_nos) if one.number}
    rows = facts.rows_in(
        "SELECT DISTINCT no FROM provenance WHERE learner_id = ? AND kind = 'execution' AND no IN ({})",
        list(own),
    )
    return {number: own[number] for (number,) in rows}


def delete_texts(txn: Transaction, run_nos: Sequence[int]) -> None:
    """Delete the texts of runs, and their own executions with their sources."""
    numbers = sorted(own_executions(txn, run_nos))
    forget_texts(txn, run_nos)
    txn.run_in("DELETE FROM provenance WHERE learner_id = ? AND kind = 'execution' AND no IN ({})", numbers)


def sweep_texts(connection: Connection, learner_id: int) -> None:
    """Delete the texts of known runs from an import that never settled."""
    for table in ("training_pair", "execution"):
        connection.run(f"DELETE FROM {table} WHERE {_NAMED_ONLY}", [learner_id])
    connection.run(_UNSETTLED, [learner_id])


# Transcripts: one for each version of a run, by the trace of its content


def transcript_of(txn: Transaction, run: Run) -> str | None:
    """Return the transcript to store of a run, as JSON; None where the setting or the caller wants none."""
    if not txn.settings.keep_texts or run.empty or run.reply == "":
        return None
    messages = masked_messages(run.transcript)
    return msgspec.json.encode(messages).decode() if any(one.text or one.result for one in messages) else None


def put_transcripts(txn: Transaction, rows: Sequence[tuple[int, int, str]]) -> None:
    """Store transcripts by run and trace. Of other versions only those of the active ones stay.

    A part of an import leaves those of settled versions, and another write takes the place of a part's.
    """
    run_nos = [run_no for run_no, _, _ in rows]
    _drop_staged(txn, run_nos)
    first = 0 if txn.segment is None else txn.staged.revision
    txn.connection.run_in(_OTHERS, [txn.learner_id, first, txn.revision], run_nos)
    if txn.connection.n_changed(_PUT_TRANSCRIPT, [(txn.learner_id, *row, txn.revision) for row in rows]):
        txn.note_news()
        _index(txn, [run_no for run_no, _, _ in rows])


def read_transcript(facts: Facts, run_no: int) -> tuple[Message, ...] | None:
    """Return the transcript of a run's active version; None where none is kept."""
    row = facts.row(
        "SELECT t.messages FROM run_text t JOIN run r ON r.learner_id = t.learner_id AND r.run_no = t.run_no"
        " AND r.trace = t.trace WHERE t.learner_id = ? AND t.run_no = ?",
        [run_no],
    )
    return None if row is None else _MESSAGES.decode(row[0])


def drop_transcripts(facts: Facts, run_nos: Sequence[int]) -> int:
    """Delete every transcript of runs; return how many there were."""
    rows = facts.rows_in("SELECT run_no FROM run_text WHERE learner_id = ? AND run_no IN ({})", run_nos)
    if isinstance(facts, Transaction):
        _drop_staged(facts, run_nos)
    facts.connection.run_in(_UP_TO, [facts.learner_id, facts.revision], run_nos)
    return len(rows)


def _drop_staged(txn: Transaction, run_nos: Sequence[int]) -> None:
    """Delete the transcripts of runs that an import in progress has stored, except in a part of it."""
    if txn.staged.import_no and txn.segment is None:
        with txn.chain.staging():
            txn.connection.run_in(_BEYOND, [txn.learner_id, txn.revision], run_nos)


# The learner as an adapter


def _adapter_no(txn: Transaction) -> int:
    uri = adapter_uri(txn.name)
    row = txn.row("SELECT adapter_no FROM adapter WHERE learner_id = ? AND uri = ?", [uri])
    if row is not None:
        return int(row[0])
    number = txn.number("adapter")
    txn.run(_ADAPTER, [number, uri, txn.name])
    return number


def _layer_no(txn: Transaction) -> int:
    """Return the number of the one layer, made if missing; it is active with its first execution."""
    line = _layer_line(txn)
    row = txn.row("SELECT layer_no FROM layer WHERE learner_id = ? AND uid = ?", [line.uid])
    if row is not None:
        return int(row[0])
    number = txn.number("layer")
    values = [txn.learner_id, number, line.uid, _adapter_no(txn)]
    txn.connection.run(_LAYER, [*values, line.index, line.label, "[]", 1, 0])
    return number


def _layer_line(txn: Transaction) -> LayerLine:
    uri = adapter_uri(txn.name)
    return LayerLine(
        uid=layer_uid(uri),
        adapter=uri,
        adapter_name=txn.name,
        index=_HEAD,
        label="what the learner was asked",
    )


def keep_step_texts(
    txn: Transaction, number: int, steps: Sequence[Step], *, uid: str, runs: Sequence[str], digest: Digest
) -> None:
    """Store the texts of an episode's steps, where the setting allows it and they were not erased."""
    if not txn.settings.keep_texts:
        return
    with_texts = [step for step in steps if step.has_texts]
    if not with_texts or is_erased_episode(txn, uid, runs):
        return
    rows = [
        (txn.learner_id, number, step.number, digest(step), storable(step.asked), storable(step.answered))
        for step in with_texts
    ]
    if txn.connection.n_changed(_PUT, rows):
        txn.note_news()
        index_step_texts(txn.connection, txn.learner_id, number, chain.from_iterable(row[4:] for row in rows))


def is_erased_episode(txn: Transaction, uid: str, runs: Sequence[str]) -> bool:
    """Return whether an episode must come without texts, by itself or by one of its runs."""
    if not txn.erased:
        return False
    if txn.erased.has("episode", uid) or any(txn.erased.takes(run, None) for run in runs):
        return True
    rows = txn.rows_in("SELECT uid, session FROM run WHERE learner_id = ? AND uid IN ({})", runs)
    return any(txn.erased.takes(*row) for row in rows)


def with_step_texts(facts: Facts, number: int, steps: Sequence[Step], digest: Digest) -> Iterator[Step]:
    """Steps of an episode, with what is kept of their texts for who may read them."""
    if not facts.shows_texts:
        yield from steps
        return
    by_step = {
        (step_no, digest): (request, answered)
        for step_no, digest, request, answered in facts.rows(
            "SELECT step_no, digest, asked, answered FROM step_text WHERE learner_id = ? AND episode_no = ?",
            [number],
        )
    }
    for step in steps:
        texts = by_step.get((step.number, digest(step))) if by_step else None
        yield step if texts is None else replace(step, asked=texts[0], answered=texts[1])


def drop_step_texts(txn: Transaction, numbers: Sequence[int]) -> int:
    """Remove the texts of episodes; how many steps had some."""
    rows = txn.rows_in("SELECT step_no FROM step_text WHERE learner_id = ? AND episode_no IN ({})", numbers)
    txn.run_in("DELETE FROM step_text WHERE learner_id = ? AND episode_no IN ({})", numbers)
    drop_indexed(txn.connection, txn.learner_id, "episode", numbers)
    return len(rows)


# The pair of a run


class StoredTexts(NamedTuple):
    """Prompt and reply of a run as JSON texts of KAIROS's shape (vectors ``kairos_exports``); None = unknown."""

    instruction: str | None
    response: str | None


def pair_of(prompt: str | None, reply: str | None) -> StoredTexts | None:
    """Return the training pair of a run, each text cut at 100,000 characters; None without prompt and reply."""
    instruction, response = _shortened(prompt), _shortened(reply)
    if instruction is None and response is None:
        return None
    return StoredTexts(
        None
        if instruction is None
        else _json({"tensor_in": {}, "layer_instructions": "", "activation_query": instruction}),
        None if response is None else _json({"raw_solution": response}),
    )


def cut(text: str) -> str:
    """Return a text as it is stored: all of it, or its beginning and a mark with the number of missing characters.

    >>> cut("short")
    'short'
    >>> len(cut("x" * 200_000)) <= MAX_TEXT_CHARS, cut("x" * 200_000)[-36:]
    (True, 'x [… cut: 100,060 more characters …]')
    """
    if len(text) <= MAX_TEXT_CHARS:
        return text
    n_stored = MAX_TEXT_CHARS - _ROOM_FOR_MARK
    return f"{text[:n_stored]} [… cut: {len(text) - n_stored:,} more characters …]"


def execution_uid(run: str) -> str:
    """Return the uid of a run's own execution, the same in every import (UUID version 5, RFC 9562, 5.5)."""
    return str(uuid.uuid5(NAMESPACE, f"run/{run}"))


def _shortened(text: str | None) -> str | None:
    return None if text is None or not text.strip() else cut(text)


def _json(document: dict[str, object]) -> str:
    return msgspec.json.encode(document).decode()
