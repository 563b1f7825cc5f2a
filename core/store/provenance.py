"""Provenance: the sources of facts. The state of a fact follows from its active imports.

A fact with one source has it in its own row. With a second source every source becomes a row of ``provenance``, one
per import. Of the active ones the highest rank decides a run's version, and the earliest revision decides the epoch.
`core.store.runs` gives a later state a higher rank, and one that nothing orders a lower one. Sources from before that
may have equal ranks: then the larger digest of the trace decides. Without an active source the fact is inactive. So
undoing an import restores what the other imports say.

Sources about arms are here from the first on: ``arm`` (it is listed), its ``prior``, ``cost`` and ``label``, each a
row whose ``said`` is the value (`core.store.arms`, `core.store.descriptions`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from core.records.evidence import NAMED, OBSERVED
from core.records.trial import PREFIX_CHARS
from core.store.caches import chunks, shifting
from core.store.engine import Row
from core.store.engine.dialect import ACTIVE
from core.store.replies import rivals
from core.store.tables import KEYED_ACTS
from core.store.transaction import Facts, Transaction
from core.store.version import Version, drop_superseded, keep, load, mark_retracted, put, shelve

Numbered = tuple[str, int]
"""A fact, by its table and number."""
_COLUMNS: Final = "learner_id, kind, no, import_no, revision, rank, trace, digest"
_NAMED_BY_TRIALS: Final = (
    "SELECT s.session FROM trial_session s JOIN trial t ON t.learner_id = s.learner_id AND t.trial_no = s.trial_no"
    f" WHERE s.learner_id = ? AND t.undone = 0 AND t.{ACTIVE} AND s.session IN ({{}})"
)

Sources = Mapping[int, Mapping[int, tuple[int, int, int, int]]]
"""Sources of runs: revision, rank, trace and digest, by run and import."""


class Attribution(NamedTuple):
    """One import's version of a known run.

    ``origin`` is its first source (import, revision, rank, trace, digest). ``version`` is this source's content, if
    it differs from the active one.
    """

    run_no: int
    uid: str
    import_no: int
    rank: int
    trace: int
    digest: int
    origin: tuple[int, int, int, int, int]
    version: Version | None


class _Source(NamedTuple):
    import_no: int
    revision: int
    rank: int
    trace: int
    digest: int


class Plan(NamedTuple):
    """The required content of a run's row."""

    run_no: int
    is_active: bool
    rank: int
    trace: int
    digest: int
    revision: int

    def standing(self, of_trial: Collection[int]) -> int:
        """Return the state of the row, given the runs of trials."""
        return int(self.is_active) * (2 if self.run_no in of_trial else 1)


def no_trial(session: str) -> str:
    """Return the SQL condition that no active plan or reading names a session; it takes the learner's number."""
    names = f"{session}, substr({session}, 1, {PREFIX_CHARS}) || '*'"
    return f"NOT EXISTS ({_NAMED_BY_TRIALS.format(names)})"


def runs_of_trials(facts: Facts, run_nos: Sequence[int]) -> set[int]:
    """Return those runs that are of a trial."""
    sql = "SELECT run_no, class, session FROM run WHERE learner_id = ? AND run_no IN ({})"
    return of_trials(facts, facts.rows_in(sql, run_nos))


def of_trials(facts: Facts, runs: Sequence[Row]) -> set[Any]:
    """Return the keys of (key, class, session) of trials: by class, or by session in an active plan or reading."""
    names = {key: {session, f"{session[:PREFIX_CHARS]}*"} for key, _, session in runs if session}
    known = facts.distinct_in(_NAMED_BY_TRIALS, list(set().union(*names.values())))
    return {
        key for key, run_class, _ in runs if run_class == "trial" or not known.isdisjoint(names.get(key, ()))
    }


def attribute_runs(txn: Transaction, attributions: Sequence[Attribution], known: Sources) -> None:
    """Note who says what of runs, the first included; keep the versions they say. ``known`` is what was noted."""
    learner = txn.learner_id
    _link(txn, attributions, known)
    txn.connection.many(
        f"INSERT INTO provenance ({_COLUMNS}) VALUES (?, 'run', ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(learner, one.run_no, *one.origin) for one in attributions],
    )
    txn.connection.many(
        f"INSERT INTO provenance ({_COLUMNS}) VALUES (?, 'run', ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (learner_id, kind, no, import_no) DO UPDATE"
        " SET rank = excluded.rank, trace = excluded.trace, digest = excluded.digest"
        " WHERE excluded.rank > provenance.rank",
        [
            (learner, one.run_no, one.import_no, txn.revision, one.rank, one.trace, one.digest)
            for one in attributions
        ],
    )
    shelve(txn, [(one.run_no, one.digest, one.version) for one in attributions if one.version is not None])


def _link(txn: Transaction, attributions: Sequence[Attribution], known: Sources) -> None:
    """Add new sources to the chain. The first of a run is there already, with its row."""
    before, after = [], []
    for one in attributions:
        noted = known.get(one.run_no) or {one.origin[0]: one.origin[1:]}
        own = noted.get(one.import_no)
        head = (one.run_no, one.uid, one.import_no)
        if own is None or one.rank > own[1]:
            since = txn.revision if own is None else own[0]
            after.append((*head, since, one.rank, one.trace, one.digest))
            before += [] if own is None else [(*head, *own)]
    if after:
        txn.chain.change("run", before, after)


def attribute(txn: Transaction, table: str, number: int, import_no: int) -> None:
    """Note that another import says a fact that is known."""
    first = txn.rows(
        f"SELECT import_no, revision FROM {table} WHERE learner_id = ? AND {table}_no = ?", [number]
    )
    txn.connection.many(
        "INSERT INTO provenance (learner_id, kind, no, import_no, revision) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [(txn.learner_id, table, number, *source) for source in (*first, (import_no, txn.revision))],
    )


def attributed(txn: Transaction, run_nos: Sequence[int]) -> dict[int, dict[int, tuple[int, int, int, int]]]:
    """Return the noted sources of those runs that have more than one, or had."""
    noted: dict[int, dict[int, tuple[int, int, int, int]]] = defaultdict(dict)
    for run_no, import_no, *source in txn.rows_in(
        "SELECT no, import_no, revision, rank, trace, digest FROM provenance"
        " WHERE learner_id = ? AND kind = 'run' AND no IN ({})",
        run_nos,
    ):
        noted[run_no][import_no] = tuple(source)
    return dict(noted)


def run_sources(txn: Transaction, run_nos: Sequence[int], since: int) -> list[Row]:
    """Return the sources of runs from a revision on, as the chain has them."""
    noted = attributed(txn, run_nos)
    rows = txn.rows_in(
        "SELECT run_no, uid, import_no, revision, rank, trace, digest FROM run"
        " WHERE learner_id = ? AND run_no IN ({})",
        run_nos,
    )
    sources = [
        (run_no, uid, *source)
        for run_no, uid, *own in rows
        for source in (
            [(import_no, *rest) for import_no, rest in noted[run_no].items()] if run_no in noted else [own]
        )
    ]
    return [one for one in sources if one[3] >= since]


def facts_of_import(txn: Transaction, table: str, import_no: int) -> list[int]:
    """Facts of a kind that an import says, first or again."""
    return txn.column(
        f"SELECT {table}_no FROM {table} WHERE learner_id = ? AND import_no = ?"
        " UNION SELECT no FROM provenance WHERE learner_id = ? AND kind = ? AND import_no = ?",
        [import_no, txn.learner_id, table, import_no],
    )


# Runs


def recompute_runs(txn: Transaction, run_nos: Sequence[int]) -> set[int]:
    """Recompute runs from their active sources; return those whose version or state changed."""
    return {run_no for part in chunks(run_nos) for run_no in _recompute_chunk(txn, part)}


def _recompute_chunk(txn: Transaction, run_nos: Sequence[int]) -> set[int]:
    planned = list(plans(txn, run_nos))
    now = {
        number: tuple(rest)
        for number, *rest in txn.rows_in(
            "SELECT run_no, standing > 0, digest, revision, rank FROM run WHERE learner_id = ? AND run_no IN ({})",
            [plan.run_no for plan in planned],
        )
    }
    moved = [plan for plan in planned if (plan.is_active, plan.digest, plan.revision) != now[plan.run_no][:3]]
    if moved or any(plan.rank != now[plan.run_no][3] for plan in planned):
        txn.note_news()
    with shifting(txn, [plan.run_no for plan in moved]):
        _exchange(
            txn,
            [(plan, now[plan.run_no][1]) for plan in moved if plan.digest != now[plan.run_no][1]],
        )
        of_trial = runs_of_trials(txn, [plan.run_no for plan in planned])
        txn.connection.many(
            "UPDATE run SET standing = ?, rank = ?, trace = ?, digest = ?, revision = ?"
            " WHERE learner_id = ? AND run_no = ?",
            [(plan.standing(of_trial), *plan[2:], txn.learner_id, plan.run_no) for plan in planned],
        )
    changed = {plan.run_no for plan in moved if (plan.is_active, plan.digest) != now[plan.run_no][:2]}
    earlier = {plan.run_no: now[plan.run_no][1] for plan in moved if plan.is_active and now[plan.run_no][0]}
    txn.only_named.update(_only_named(txn, {run_no: earlier[run_no] for run_no in changed & earlier.keys()}))
    drop_superseded(txn, [plan.run_no for plan in planned])
    return changed


def _only_named(txn: Transaction, earlier: Mapping[int, int]) -> Iterator[int]:
    """Yield the arm of each observation of ``earlier`` versions, by digest, that a run has by name now."""
    rows = txn.rows_in(
        f"SELECT run_no, arm_no FROM outcome WHERE learner_id = ? AND flags & {NAMED} <> 0 AND run_no IN ({{}})",
        sorted(earlier),
    )
    for run_no, named in groupby(sorted(rows), itemgetter(0)):
        version = load(txn, run_no, earlier[run_no])
        flags = dict(zip(version.arm_nos, version.flags, strict=True))
        yield from (arm_no for _, arm_no in named if flags.get(arm_no, 0) & OBSERVED)


def plans(txn: Facts, run_nos: Sequence[int]) -> Iterator[Plan]:
    """Return the content of runs by their active sources."""
    undone = undone_imports(txn)
    sources = _sources(txn, "run", run_nos)
    rows = txn.rows_in(
        "SELECT run_no, import_no, revision, rank, trace, digest FROM run WHERE learner_id = ? AND run_no IN ({})",
        run_nos,
    )
    for run_no, *own in rows:
        only = _Source(*own)
        active = sources.get(run_no)
        if active is None:
            active = [] if only.import_no in undone else [only]
        if active:
            best = max(active, key=lambda one: (one.rank, one.trace, -one.revision))
            first = min(one.revision for one in active)
            yield Plan(run_no, True, best.rank, best.trace, best.digest, first)
        else:
            yield Plan(run_no, False, only.rank, only.trace, only.digest, only.revision)


def _exchange(txn: Transaction, plans: Sequence[tuple[Plan, int]]) -> None:
    """Put the planned version of each run in place, and keep the one that stood."""
    for plan, digest_now in plans:
        keep(txn, plan.run_no, digest_now)
        put(txn, plan.run_no, load(txn, plan.run_no, plan.digest))
    mark_retracted(txn, [plan.run_no for plan, _ in plans])


# What people did


def fact_states(txn: Facts, table: str, own: Mapping[int, tuple[int, int]]) -> dict[int, tuple[bool, int]]:
    """Return whether facts are active, and their revisions; ``own`` are their own (import, revision).

    An inactive one keeps its revision; of one key one is active.
    """
    states = _states_by_import(txn, table, own)
    left = outheld(txn, table, list(own))
    if table == "observation":  # an active repair takes back reports of agents
        left |= txn.distinct_in(
            "SELECT t.observation_no FROM retraction t JOIN repair p"
            " ON p.learner_id = t.learner_id AND p.repair_no = t.repair_no"
            f" WHERE t.learner_id = ? AND p.undone = 0 AND p.{ACTIVE} AND t.observation_no <> 0"
            " AND t.observation_no IN ({})",
            list(own),
        )
    for number in left:
        states[number] = False, states[number][1]
    return states


def imported_reports(facts: Facts) -> list[int]:
    """Return the reports that repairs take back and that would be active without them."""
    rows = facts.rows(
        "SELECT DISTINCT b.observation_no, b.import_no, b.revision FROM retraction t JOIN observation b"
        " ON b.learner_id = t.learner_id AND b.observation_no = t.observation_no"
        " WHERE t.learner_id = ? AND t.observation_no <> 0"
    )
    states = _states_by_import(
        facts, "observation", {no: (import_no, revision) for no, import_no, revision in rows}
    )
    return [no for no, (is_active, _) in states.items() if is_active]


def outheld(txn: Facts, table: str, numbers: Sequence[int]) -> set[int]:
    """Return those facts whose key another active fact holds."""
    pairs = same_keys(txn, table, numbers)
    active: dict[Numbered, bool] = {}
    first_holder: dict[Numbered, int] = {}
    for keyed in KEYED_ACTS.values():
        own = _own(txn, keyed, sorted({no for pair in pairs for one, no in pair if one == keyed}))
        active |= {
            (keyed, no): is_active for no, (is_active, _) in _states_by_import(txn, keyed, own).items()
        }
        first_holder |= {(keyed, no): import_no for no, (import_no, _) in own.items()}

    def rank(fact: Numbered) -> tuple[bool, Numbered]:
        """Return the order of `core.store.replies`: a direct fact holds a key, else the latest."""
        return first_holder[fact] == 0, fact

    return {fact[1] for fact, rival in pairs if active[fact] and active[rival] and rank(rival) > rank(fact)}


def same_keys(txn: Facts, table: str, numbers: Sequence[int]) -> list[tuple[Numbered, Numbered]]:
    """Each of the facts with every other one that was asked for under its key."""
    acts = [act for act, keyed in KEYED_ACTS.items() if keyed == table]
    return [
        ((table, number), (KEYED_ACTS[other], rival))
        for act in acts
        for number, other, rival in rivals(txn, act, numbers)
    ]


def _own(txn: Facts, table: str, numbers: Sequence[int]) -> dict[int, tuple[int, int]]:
    """(import, revision) of facts, as their own rows say."""
    rows = txn.rows_in(
        f"SELECT {table}_no, import_no, revision FROM {table} WHERE learner_id = ? AND {table}_no IN ({{}})",
        numbers,
    )
    return {no: (import_no, revision) for no, import_no, revision in rows}


def _states_by_import(
    txn: Facts, table: str, own: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[bool, int]]:
    """Return whether facts are active by their sources, and since which revision."""
    if not own:
        return {}
    undone = undone_imports(txn)
    sources = _sources(txn, table, list(own))
    states = {}
    for number, (import_no, revision) in own.items():
        active = sources.get(number)
        if active is None:
            states[number] = (import_no not in undone, revision)
        else:
            states[number] = (bool(active), min((one.revision for one in active), default=revision))
    return states


def _sources(txn: Facts, kind: str, numbers: Sequence[int]) -> dict[int, list[_Source]]:
    """Return the active sources of facts with more than one (an empty list = none is active)."""
    undone = undone_imports(txn)
    sources: dict[int, list[_Source]] = defaultdict(list)
    for number, *rest in txn.connection.rows_in(
        "SELECT no, import_no, revision, rank, trace, digest FROM provenance"
        " WHERE learner_id = ? AND kind = ? AND revision <= ? AND no IN ({})",
        [txn.learner_id, kind, txn.revision],
        numbers,
    ):
        source = _Source(*rest)
        active = sources[number]
        if source.import_no not in undone:
            active.append(source)
    return dict(sources)


def undone_imports(facts: Facts) -> set[int]:
    """Return inactive imports."""
    return set(facts.column("SELECT import_no FROM import WHERE learner_id = ? AND undone = 1"))
