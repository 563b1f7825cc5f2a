"""Version: everything stored of one run from one source.

A longer copy of a source brings the same run again. One version is active; the others are archived. So undoing an
import restores the versions of the other imports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import chain, repeat
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec

from core.columns import ASSIGNED, UNKNOWN
from core.errors import StoreUnusable
from core.records.bill import OWNERS, PARTS, UNKNOWN_BILL, Bill, ModelPrices, Spent, bill_of, disjoint
from core.records.evidence import OBSERVATION, OBSERVED, REFERENCED, RETRACTED, Judged
from core.records.experiment import Assigned
from core.records.model_kinds import unpriced_parts
from core.records.selection import LaterDraw, Selection
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE
from core.store.tables import insert_into
from core.store.texts import StoredTexts, drop_texts, read_texts, write_texts
from core.store.transaction import Facts, Transaction

TOKEN_COLUMNS: Final = (
    "tokens",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
)
COLUMNS: Final = (
    "format",
    "unit",
    "session",
    "at_ms",
    "naive_time",
    "provider",
    "model",
    "channel",
    "class",
    "status",
    *TOKEN_COLUMNS,
    "duration_ms",
    "prompt_chars",
    "n_calls",
    "reward",
    "inventory",
    "not_offered",
    "choice",
    "phase",
    "outcome",
    "n_real_calls",
)
_FRONT_BITS, _KNOWN_BITS, _REST_BITS = 12, 27, 24
_N_SETTINGS_DEPENDENT: Final = 3
"""The last columns also say what the learner's settings made of the run."""

_WITHOUT_OBSERVED: Final = bytes(byte & ~OBSERVED for byte in range(256))
AS_JUDGED: Final = bytes(byte ^ OBSERVATION if byte & RETRACTED else byte for byte in range(256))
"""Flags of outcomes as a version has them: repairs are no part of it."""


session_of: Final = itemgetter(COLUMNS.index("class"), COLUMNS.index("session"), COLUMNS.index("choice"))
"""Columns of a run that `session_key` needs."""

_ApartRow = tuple[int, str, str, str, int, int, int, int, int, int, int, int, int, int]

_ENCODER: Final = msgspec.msgpack.Encoder()

_GENERATION: Final = 1 << 50

_ended: Final = itemgetter(COLUMNS.index("at_ms"))

_tokens_of: Final = itemgetter(*(COLUMNS.index(name) for name in TOKEN_COLUMNS))
_priced_by: Final = itemgetter(COLUMNS.index("model"), COLUMNS.index("at_ms"))

_DECISION: Final = ("reason", "rank", "token_cost", "draw", "budget_left", "chance")
_decided: Final = attrgetter(*_DECISION)
_counted: Final = attrgetter(*PARTS, "total")

_SESSION: Final = COLUMNS.index("session")

_DECIDED: Final = frozenset({"baseline", "selected"})
_HELD: Final = "held_since_ms"
_OF_EXPERIMENT: Final = '"experiment":'
ASSIGNED_SESSIONS: Final = (
    f"SELECT session FROM assignment WHERE learner_id = ? AND session <> '' AND undone = 0 AND {ACTIVE}"
)
"""Names of sessions that an experiment assigned."""
_KEYS: Final = (1 << 63) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15

BILL: Final = ("bill_pico", "bill_marks")
"""Columns of a run's bill: a cache of its tokens and the prices of its time."""
BESIDE: Final = ("outcome", "evidence", "decision", "spent", "spent_apart", "defined", "history")
"""Child tables of a run's active version."""
_OUTCOME: Final = ("run_no", "arm_no", "flags", "token_cost")
SPENT_COLUMNS: Final = (
    "by_sub_agent",
    "model",
    *(f"{part}_tokens" for part in PARTS),
    "unsplit_tokens",
    "assumed",
)
APART_COLUMNS: Final = (
    *SPENT_COLUMNS[:2],
    *("tier", "region", "context"),
    *SPENT_COLUMNS[2:],
    *("searches", "unread"),
)
_ROWS: Final = {
    "evidence": insert_into("evidence", "learner_id", "run_no", "arm_no", "place", "excerpt"),
    "decision_rows": insert_into("decision"),
    "spent": insert_into("spent", "learner_id", "run_no", *SPENT_COLUMNS),
    "history": insert_into("history", "learner_id", "run_no", "history_key", "marks"),
    "apart": insert_into("spent_apart", "learner_id", "run_no", *APART_COLUMNS),
}
"""Members of a version that are written row by row: statement."""
_RUNS: Final = (
    f"SELECT run_no, uid, trace, digest, {', '.join(COLUMNS)} FROM run"
    " WHERE learner_id = ? AND run_no IN ({})"
)
_PARTS: Final = (
    "SELECT run_no, arm_no, flags, token_cost FROM outcome WHERE learner_id = ? AND run_no IN ({})"
    " ORDER BY run_no, arm_no",
    "SELECT run_no, arm_no, place, excerpt FROM evidence WHERE learner_id = ? AND run_no IN ({})"
    " ORDER BY run_no, arm_no",
    f"SELECT run_no, arm_no, {', '.join(_DECISION)} FROM decision WHERE learner_id = ? AND run_no IN ({{}})"
    " ORDER BY run_no, arm_no",
    f"SELECT run_no, {', '.join(SPENT_COLUMNS)} FROM spent WHERE learner_id = ? AND run_no IN ({{}})"
    " ORDER BY run_no, by_sub_agent, model",
    "SELECT r.run_no, d.arm_no, d.version FROM defined r JOIN definition d ON d.learner_id = r.learner_id"
    " AND d.set_key = r.set_key WHERE r.learner_id = ? AND r.run_no IN ({}) ORDER BY r.run_no, d.arm_no",
    "SELECT run_no, history_key, marks FROM history WHERE learner_id = ? AND run_no IN ({})",
    f"SELECT run_no, {', '.join(APART_COLUMNS)} FROM spent_apart WHERE learner_id = ? AND run_no IN ({{}})"
    f" ORDER BY run_no, {', '.join(APART_COLUMNS[:5])}",
)
"""Rows beside a run, in the order of the fields of its version."""
_DEFINED: Final = insert_into("defined", "learner_id", "run_no", "set_key")
_DEFINITION: Final = insert_into("definition", "learner_id", "set_key", "arm_no", "version")
_VERSION: Final = insert_into("version", "learner_id", "run_no", "digest", "payload")

NO_SOURCE: Final = (
    " AND NOT EXISTS (SELECT 1 FROM provenance s WHERE s.learner_id = ?1 AND s.kind = 'run'"
    " AND s.no = version.run_no AND s.digest = version.digest)"
)
"""Holds for an archived version that no source of its run has."""
_NOT_STAGED: Final = (
    " AND NOT EXISTS (SELECT 1 FROM staged_provenance t WHERE t.learner_id = ?1"
    " AND t.run_no = version.run_no AND t.digest = version.digest)"
)

_IS_RETRACTED: Final = (
    "EXISTS (SELECT 1 FROM retraction t JOIN repair p ON p.learner_id = t.learner_id AND p.repair_no = t.repair_no"
    " WHERE t.learner_id = ? AND t.run_no = outcome.run_no AND t.arm_no = outcome.arm_no"
    f" AND t.observation_no = 0 AND t.referenced = (outcome.flags & {REFERENCED}) / {REFERENCED}"
    f" AND p.undone = 0 AND p.{ACTIVE})"
)
"""SQL condition on a learner: a repair takes back what a run observed of an arm, as the run is now."""
_RETRACTED_BIT: Final = f"CASE WHEN {_IS_RETRACTED} THEN {RETRACTED} ELSE {OBSERVED} END"
UNLIKE_RETRACTED: Final = f"flags & {OBSERVATION} <> 0 AND flags & {OBSERVATION} <> {_RETRACTED_BIT}"
"""SQL condition on a learner: an outcome does not have the bit that repairs give it."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seed and settings of our own selection, enough to replay it."""

    seed: str
    baseline_prob: float
    settings_hash: str
    revision: int
    budget_tokens: int = 0
    k: int | msgspec.UnsetType = msgspec.UNSET
    min_pulls: int | msgspec.UnsetType = msgspec.UNSET
    over_budget: bool = False
    truncated: bool = False
    held_since_ms: int | msgspec.UnsetType = msgspec.UNSET
    later: tuple[LaterDraw, ...] | msgspec.UnsetType = msgspec.UNSET
    numpy: str | msgspec.UnsetType = msgspec.UNSET
    beliefs: str | msgspec.UnsetType = msgspec.UNSET
    experiment: Assigned | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_held(self) -> bool:
        """True if the draw is that of a hold."""
        return self.held_since_ms is not msgspec.UNSET

    @classmethod
    def of(cls, selection: Selection) -> Choice:
        return cls(**{name: getattr(selection, name) for name in cls.__struct_fields__})


class Version(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One version of a run: its columns in the order of `COLUMNS`, and its rows in the child tables.

    ``evidence`` holds (arm number, place, excerpt), ``decisions`` (arm number, reason, rank, token cost, draw, budget
    left, chance where it is known), ``spent`` the rows of the bill (`core.store.tables`), ``definitions`` (arm
    number, version of its definition), ``history`` the one row of that table, ``apart`` the rows that have another
    price. ``texts`` are in no digest, as they are stored only where a setting allows it.
    """

    columns: tuple[str | int | float | None, ...]
    arm_nos: tuple[int, ...]
    flags: bytes
    costs: tuple[int, ...]
    evidence: tuple[tuple[int, str, str | None], ...] = ()
    decisions: tuple[tuple[Any, ...], ...] = ()
    texts: StoredTexts | None = None
    spent: tuple[tuple[int, str, int, int, int, int, int, int, int], ...] = ()
    definitions: tuple[tuple[int, str], ...] = ()
    history: tuple[tuple[int, bytes], ...] = ()
    apart: tuple[_ApartRow, ...] = ()

    @property
    def decision_rows(self) -> list[tuple[Any, ...]]:
        """Decisions with their chances, None where they are unknown."""
        return [(*row, None)[: len(_DECISION) + 1] for row in self.decisions]

    def digests(self) -> tuple[int, int]:
        """Return the digest of the source's content at any settings, and that of everything.

        Definitions and history are in the second alone: a run from before they were recorded is the same run.
        """
        content = _ENCODER.encode(
            (
                self.columns[:-_N_SETTINGS_DEPENDENT],
                self.arm_nos,
                self.flags.translate(_WITHOUT_OBSERVED),
                self.costs,
                self.evidence,
                self.decisions,
                *((self.spent,) if self.spent or self.apart else ()),
                *((self.apart,) if self.apart else ()),
            )
        )
        rest = _ENCODER.encode(
            (
                self.columns[-_N_SETTINGS_DEPENDENT:],
                self.flags,
                *((self.definitions,) if self.definitions else ()),
                *((self.history,) if self.history else ()),
            )
        )
        trace = _digest(content)
        digest = _digest(trace.to_bytes(8, "big", signed=True) + rest)
        return self._ordered(trace) if self.spent or self.apart else trace, digest

    def _ordered(self, trace: int) -> int:
        """Return the trace with the tokens of the bill in front.

        Of two versions of one rank the larger trace is active. So the same files in any order give the same bill: the
        most complete one, where what is billed apart counts twice. A version without a bill loses to it, except one
        in 4,096.
        """
        tokens = sum(sum(row[2:7]) for row in self.spent)
        apart = sum(1 + 2 * sum(row[5:10]) + row[12] + row[13] for row in self.apart)
        known = min(tokens + apart, (1 << _KNOWN_BITS) - 1)
        rest = trace & ((1 << _REST_BITS) - 1)
        return (((1 << _FRONT_BITS) - 1) << _KNOWN_BITS | known) << _REST_BITS | rest

    def encode(self) -> bytes:
        return _ENCODER.encode(self)


_DECODER: Final = msgspec.msgpack.Decoder(Version)


def version_of(
    judged: Judged,
    arm_nos: tuple[int, ...],
    costs: tuple[int, ...],
    others: dict[str, int],
    *,
    texts: StoredTexts | None = None,
    definitions: tuple[tuple[int, str], ...] = (),
) -> Version:
    """Judged run → Version; ``others`` numbers arms outside its inventory. An unanswered prompt tests no arm."""
    run, evidence = judged.run, judged.evidence
    history = () if run.history is None else ((run.history.key, run.history.marks),)
    if judged.verdict.outcome == "empty":
        return Version(columns=_columns(judged), arm_nos=(), flags=b"", costs=(), history=history)
    excluded = tuple(others[key] for key in run.excluded)
    references = evidence.references
    selection = run.selection
    numbers = (
        dict(zip((arm.key for arm in run.inventory.offered), arm_nos, strict=True))
        if references or selection
        else {}
    )
    rows = _in_order(arm_nos + excluded, judged.flags, costs + (UNKNOWN,) * len(excluded))
    return Version(
        columns=_columns(judged),
        arm_nos=rows[0],
        flags=rows[1],
        costs=rows[2],
        evidence=tuple(sorted((numbers[ref.arm], ref.where, ref.excerpt) for ref in references)),
        decisions=() if selection is None else _decisions(selection, others | numbers),
        texts=texts,
        spent=tuple(sorted(_spent(row) for row in run.bill if not row.is_apart)),
        definitions=definitions,
        history=history,
        apart=tuple(sorted(_spent_apart(row) for row in run.bill if row.is_apart)),
    )


def _spent(row: Spent) -> tuple[Any, ...]:
    return (OWNERS.index(row.owner), row.model or "", *_counted(row), int(row.assumed))


def _spent_apart(row: Spent) -> tuple[Any, ...]:
    plain = _spent(row)
    return (*plain[:2], row.tier, row.region, row.context, *plain[2:], row.searches, row.unread)


def apart_of(rows: Iterable[Sequence[Any]]) -> tuple[Spent, ...]:
    """Return rows of the table ``spent_apart``, without their keys, as a bill's rows."""
    return tuple(
        msgspec.structs.replace(
            row, tier=tier, region=region, context=context, searches=searches, unread=unread
        )
        for owner, model, tier, region, context, *counts, searches, unread in rows
        for row in spent_of([(owner, model, *counts)])
    )


def spent_of(rows: Iterable[Sequence[Any]]) -> tuple[Spent, ...]:
    """Return rows of the table ``spent``, without their keys, as a bill's rows."""
    return tuple(
        Spent(
            owner=OWNERS[by_sub_agent],
            model=model or None,
            total=unsplit,
            assumed=bool(assumed),
            **dict(zip(PARTS, counts, strict=True)),
        )
        for by_sub_agent, model, *counts, unsplit, assumed in rows
    )


def bill_rows(version: Version) -> tuple[Spent, ...]:
    """Return the rows of a version's bill: its own, or its usage where that can be split."""
    return spent_of(version.spent) + apart_of(version.apart) or usage_rows(*_tokens_of(version.columns))


def usage_rows(
    tokens: int | None, read: int | None, written: int | None, cached: int | None, stored: int | None
) -> tuple[Spent, ...]:
    """Return the one row of a run without rows: its total, input, output, cache read and cache write."""
    if tokens is None:
        return ()
    row = disjoint(read or 0, written or 0, cached or 0, stored or 0, tokens)
    return () if row is None else (row,)


def unpriced_of(version: Version, prices: Mapping[str, ModelPrices]) -> tuple[str, ...]:
    """Return what of a version has no price at its time."""
    model, at_ms = _priced_by(version.columns)
    return unpriced_parts(bill_rows(version), model, at_ms, prices)


def source_rank(stored: int) -> int:
    """Return the rank that the source gave to a stored state; see `generation_of`.

    >>> source_rank(3), source_rank(ranked(2, 3)), source_rank(-1)
    (3, 3, 0)
    """
    return max(stored, 0) % _GENERATION


def generation_of(stored: int) -> int:
    """Return how many later states of the same rank came before a stored state."""
    return max(stored, 0) // _GENERATION


def ranked(generation: int, rank: int) -> int:
    """Return the rank to store for a state of a source's rank."""
    return generation * _GENERATION + rank


def goes_on(known: Version, other: Version) -> bool | None:
    """Return whether a state goes on from the known one, by its messages; None: neither begins the other."""
    before, after = (next((marks for _, marks in one.history), b"") for one in (known, other))
    if not before or not after or before == after:
        return None
    return True if after.startswith(before) else False if before.startswith(after) else None


def is_later(known: Version, other: Version) -> bool | None:
    """Return whether a state of the same rank is later: it ended later, or its bill is fuller. None: neither is."""
    before, after = _ended(known.columns), _ended(other.columns)
    if before is not None and after is not None and before != after:
        return bool(after > before)
    of_known, of_other = (sum(sum(row[2:7]) for row in one.spent) for one in (known, other))
    return None if of_known == of_other else of_other > of_known


def bill_in_force(version: Version, prices: Mapping[str, ModelPrices]) -> Bill:
    """Return the bill of a version at the prices of its time."""
    if not prices:
        return UNKNOWN_BILL
    model, at_ms = _priced_by(version.columns)
    return bill_of(bill_rows(version), model, at_ms, prices)


def _in_order(
    arm_nos: tuple[int, ...], flags: bytes, costs: tuple[int, ...]
) -> tuple[tuple[int, ...], bytes, tuple[int, ...]]:
    """Return outcomes by arm number: the same set in another order is the same version."""
    order = _order(arm_nos)
    if order is None:
        return arm_nos, flags, costs
    return (
        tuple([arm_nos[index] for index in order]),
        bytes([flags[index] for index in order]),
        tuple([costs[index] for index in order]),
    )


@lru_cache(maxsize=16)
def _order(arm_nos: tuple[int, ...]) -> tuple[int, ...] | None:
    """Places by arm number, None where they are in order; kept, because prompts repeat from run to run."""
    order = tuple(sorted(range(len(arm_nos)), key=arm_nos.__getitem__))
    return None if order == tuple(range(len(arm_nos))) else order


def _columns(judged: Judged) -> tuple[str | int | float | None, ...]:
    run, evidence = judged.run, judged.evidence
    usage = run.usage
    parts: tuple[Any, ...] = (
        (None,) * 5
        if usage is None or usage.tokens is None
        else (usage.tokens, usage.input, usage.output, usage.cache_read, usage.cache_write)
    )
    missing = run.not_offered or evidence.not_offered
    return (
        run.format,
        run.unit,
        run.session,
        run.ended_at_ms,
        int(run.naive_time),
        run.provider,
        run.model,
        run.channel,
        run.run_class,
        run.status,
        *parts,
        run.duration_ms,
        run.prompt_chars,
        evidence.n_calls,
        run.reward,
        run.inventory.kind,
        msgspec.json.encode(missing).decode() if missing else None,
        None if run.selection is None else msgspec.json.encode(Choice.of(run.selection)).decode(),
        "passive" if judged.verdict.outcome == "passive" else "active",
        judged.verdict.outcome,
        evidence.n_real_calls,
    )


def _decisions(selection: Selection, numbers: dict[str, int]) -> tuple[tuple[Any, ...], ...]:
    rows = [(numbers[decision.arm], *_decided(decision)) for decision in selection.decisions]
    return _known(sorted(rows, key=itemgetter(0)))


def _known(decisions: Iterable[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    """Return decisions without unknown chances: their digests are those of versions that had no chances."""
    return tuple(
        [(*rest, chance) if isinstance(chance, float) else tuple(rest) for *rest, chance in decisions]
    )


def stripped(version: Version) -> Version:
    """Return the version without texts and digests of texts: no excerpts, prompt or reply; every number stays."""
    evidence = tuple((arm_no, where, None) for arm_no, where, _ in version.evidence)
    return msgspec.structs.replace(version, evidence=evidence, texts=None, history=())


def renamed(version: Version, name: Callable[[str | None], str | None]) -> Version:
    """The version with its session under another name."""
    session = version.columns[_SESSION]
    known = session if isinstance(session, str) else None
    if name(known) == known:
        return version
    columns = (*version.columns[:_SESSION], name(known), *version.columns[_SESSION + 1 :])
    return msgspec.structs.replace(version, columns=columns)


def assigned_among(facts: Facts, sessions: Iterable[object]) -> set[object]:
    """Return those of some sessions that an experiment assigned."""
    if not facts.has_experiments:
        return set()
    return facts.distinct_in(
        f"{ASSIGNED_SESSIONS} AND session IN ({{}})", sorted({*sessions} - {None}, key=str)
    )


def session_key(
    run_no: int, run_class: object, session: object, choice: object = None, *, is_assigned: bool = False
) -> int | None:
    """Return the session of a run whose class a coin decided, as a number; a run without a session is its own.

    It is `ASSIGNED` where an experiment assigned the session, or the selection of the run.

    Runs of one hold are one session, though none was named when they were recorded.

    Numbers are spread over 0 to 2**63 - 1 independent of names: the lowest of them are a random sample of sessions.
    """
    if is_assigned or _OF_EXPERIMENT in str(choice):
        return ASSIGNED
    if run_class not in _DECIDED:
        return None
    if session not in (None, ""):
        return named_key(str(session))
    if choice is None or _HELD not in str(choice):
        return _spread(run_no)
    return named_key(f"hold {msgspec.json.decode(str(choice), type=Choice).seed}")


def _spread(run_no: int) -> int:
    """Runs in a row as far from each other as can be (multiplicative hashing, D. Knuth, TAOCP 3, 6.4)."""
    return run_no * _GOLDEN & _KEYS


@lru_cache(maxsize=1 << 12)
def named_key(name: str) -> int:
    """Return the number of a named session, or of a seed, below 2**63."""
    return _digest(name.encode("utf-8", "surrogatepass")) & _KEYS


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)


def recorded_selection(
    version: Version, keys: Mapping[int, str], included: Container[str]
) -> Selection | None:
    """The selection of a version by rank, None without one; ``included`` of the arms in ``keys`` went in."""
    columns = dict(zip(COLUMNS, version.columns, strict=True))
    if columns["choice"] is None:
        return None
    choice = msgspec.json.decode(str(columns["choice"]), type=Choice)
    decisions = [
        dict(zip(_DECISION, decided, strict=False), arm=keys[arm_no], included=keys[arm_no] in included)
        for arm_no, *decided in sorted(version.decisions, key=itemgetter(2))
    ]
    return msgspec.convert(
        {**msgspec.to_builtins(choice), "run_class": columns["class"], "decisions": decisions}, Selection
    )


# Versions ↔ rows


def write_parts(txn: Facts, versions: Sequence[tuple[int, Version]]) -> None:
    """Write the rows beside the runs: outcomes, evidence, decisions, tokens, definitions."""
    learner = txn.learner_id
    outcomes = (
        zip(repeat(run_no), version.arm_nos, version.flags, version.costs, strict=False)
        for run_no, version in versions
    )
    flat = chain.from_iterable(chain.from_iterable(outcomes))
    txn.connection.insert("outcome", _OUTCOME, learner, flat)
    for member, sql in _ROWS.items():
        rows = [(learner, run_no, *row) for run_no, version in versions for row in getattr(version, member)]
        if rows:
            txn.connection.many(sql, rows)
    _write_definitions(txn, [(run_no, version.definitions) for run_no, version in versions])
    texts = [(run_no, version.texts) for run_no, version in versions if version.texts is not None]
    if texts:
        write_texts(txn, texts)


def _write_definitions(txn: Facts, runs: Sequence[tuple[int, tuple[tuple[int, str], ...]]]) -> None:
    """Write the set of definitions of each run, and the sets that are new."""
    sets = {definitions: _set_key(definitions) for _, definitions in runs if definitions}
    if not sets:
        return
    learner = txn.learner_id
    txn.connection.many(
        _DEFINED, [(learner, run_no, sets[definitions]) for run_no, definitions in runs if definitions]
    )
    known = "SELECT DISTINCT set_key FROM definition WHERE learner_id = ? AND set_key IN ({})"
    missing = {*sets.values()} - txn.distinct_in(known, list(sets.values()))
    rows = [
        (learner, key, *row) for definitions, key in sets.items() if key in missing for row in definitions
    ]
    if rows:
        txn.connection.many(f"{_DEFINITION} ON CONFLICT DO NOTHING", rows)


@lru_cache(maxsize=1 << 8)
def _set_key(definitions: tuple[tuple[int, str], ...]) -> int:
    return _digest(_ENCODER.encode(definitions))


def shelve(txn: Facts, versions: Sequence[tuple[int, int, Version]]) -> None:
    """Archive versions (run number, digest, version)."""
    txn.connection.many(
        f"{_VERSION} ON CONFLICT DO NOTHING",
        [(txn.learner_id, run_no, digest, version.encode()) for run_no, digest, version in versions],
    )


def keep(txn: Transaction, run_no: int, digest: int) -> None:
    """Keep the version that the rows hold at present."""
    shelve(txn, [(run_no, digest, whole_version(txn, run_no))])


def drop_superseded(txn: Facts, run_nos: Sequence[int]) -> None:
    """Delete the archived versions of runs that a longer one of the same source replaced: nothing restores them."""
    txn.run_in(
        f"DELETE FROM version WHERE learner_id = ?1 AND run_no IN ({{}}){NO_SOURCE}{_NOT_STAGED}", run_nos
    )


def load(txn: Facts, run_no: int, digest: int) -> Version:
    """Load an archived version."""
    row = txn.row(
        "SELECT payload FROM version WHERE learner_id = ? AND run_no = ? AND digest = ?", [run_no, digest]
    )
    if row is None:
        raise StoreUnusable(
            f"A version of run {run_no} is missing from the database.",
            next_step="Run armscope verify, and restore a backup if it finds differences.",
        )
    return _DECODER.decode(row[0])


def put(txn: Facts, run_no: int, version: Version) -> None:
    """Replace a run's rows by a version."""
    key = [txn.learner_id, run_no]
    for table in BESIDE:
        txn.connection.run(f"DELETE FROM {table} WHERE learner_id = ? AND run_no = ?", key)
    drop_texts(txn, [run_no])
    assignments = ", ".join(f"{name} = ?" for name in (*COLUMNS, "session_key", *BILL))
    is_assigned = bool(assigned_among(txn, [version.columns[_SESSION]]))
    txn.connection.run(
        f"UPDATE run SET {assignments} WHERE learner_id = ? AND run_no = ?",
        [
            *version.columns,
            session_key(run_no, *session_of(version.columns), is_assigned=is_assigned),
            *bill_in_force(version, txn.settings.prices),
            *key,
        ],
    )
    write_parts(txn, [(run_no, version)])


def mark_retracted(facts: Facts, run_nos: Sequence[int]) -> None:
    """Mark what active repairs take back of runs, and unmark the rest."""
    facts.connection.run_in(
        f"UPDATE outcome SET flags = flags - (flags & {OBSERVATION}) + {_RETRACTED_BIT}"
        f" WHERE learner_id = ? AND {UNLIKE_RETRACTED} AND run_no IN ({{}})",
        [facts.learner_id] * 3,
        run_nos,
    )


def version_rows(facts: Facts, run_nos: Sequence[int]) -> Iterator[tuple[Row, tuple[Any, ...]]]:
    """Yield number, uid, trace and digest of runs, and the fields of the versions in their rows, without texts."""
    runs, *parts = facts.together(*[partial(facts.rows_in, sql, run_nos) for sql in (_RUNS, *_PARTS)])
    by_run = [_by_run(rows) for rows in parts]
    for run_no, uid, trace, digest, *columns in runs:
        outcomes, evidence, decided, *others = [tuple(part.get(run_no, ())) for part in by_run]
        arm_nos, flags, costs = zip(*outcomes, strict=True) if outcomes else ((), (), ())
        judged = (arm_nos, bytes(flags).translate(AS_JUDGED), costs)
        fields = (tuple(columns), *judged, evidence, _known(decided), None, *others)
        yield (run_no, uid, trace, digest), fields


def _by_run(rows: Sequence[Row]) -> dict[int, list[Row]]:
    grouped: dict[int, list[Row]] = defaultdict(list)
    for run_no, *row in rows:
        grouped[run_no].append(tuple(row))
    return grouped


def read_versions(facts: Facts, run_nos: Sequence[int]) -> dict[int, Version]:
    """Return the versions that the rows of runs hold, by run; without their texts."""
    return {head[0]: msgspec.convert(values, Version) for head, values in version_rows(facts, run_nos)}


def read_version(facts: Facts, run_no: int) -> Version:
    """The version of a run that its rows hold; without its texts, which `whole_version` has."""
    return read_versions(facts, [run_no])[run_no]


def whole_version(facts: Facts, run_no: int) -> Version:
    """The same with its texts, as it is kept where another takes its place."""
    return msgspec.structs.replace(read_version(facts, run_no), texts=read_texts(facts, run_no))
