"""Claims: who told a fact. What stands follows from the imports that are not undone.

A fact told once carries its claim in its own row. Told again by another import, every claim becomes a row of
``sighting``. Of the claims that stand, the highest rank decides the version (ties: the larger digest of the
trace, then the earlier revision) and the earliest revision decides the epoch; where none stands, the fact
doesn't. So undoing an import leaves exactly what the other imports say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from core.records.arm import Prior
from core.store.caches import CHUNK, shifting
from core.store.descriptions import Description, last_said
from core.store.replies import ReplyKind, rivals
from core.store.transaction import DECLARED, TOLD, Facts, Transaction, rebase
from core.store.version import Version, keep, kept, put, shelve

LedgerKind = Literal["observation", "reset", "note"]
LEDGER_KINDS: Final[tuple[LedgerKind, ...]] = get_args(LedgerKind)
Kind = Literal["run", "arm"] | LedgerKind
Fact = tuple[LedgerKind, int]
KEYED: Final[dict[LedgerKind, ReplyKind]] = {"note": "note", "observation": "reward"}
"""Facts that may be asked for under an idempotency key, and what its replies call them."""
_TABLES: Final[dict[ReplyKind, LedgerKind]] = {kind: table for table, kind in KEYED.items()}


class Claim(NamedTuple):
    """One import's telling of one known run; ``origin`` is the first teller's (import, rank, trace, digest,
    revision), ``version`` what it tells where that differs from what stands.
    """

    run_no: int
    import_no: int
    rank: int
    trace: int
    digest: int
    origin: tuple[int, int, int, int, int]
    version: Version | None


class _Standing(NamedTuple):
    import_no: int
    rank: int
    trace: int
    digest: int
    revision: int


class Plan(NamedTuple):
    """What a run's row should say."""

    run_no: int
    standing: bool
    rank: int
    trace: int
    digest: int
    revision: int


def claim(txn: Transaction, claims: Sequence[Claim]) -> None:
    """Note claims, the first teller's included; keep the versions they tell."""
    learner = txn.learner_id
    txn.link.many(
        "INSERT INTO sighting VALUES (?, 'run', ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(learner, one.run_no, *one.origin) for one in claims],
    )
    txn.link.many(
        "INSERT INTO sighting VALUES (?, 'run', ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (learner_id, kind, no, import_no) DO UPDATE"
        " SET rank = excluded.rank, trace = excluded.trace, digest = excluded.digest"
        " WHERE (excluded.rank, excluded.trace) > (rank, trace)",
        [
            (learner, one.run_no, one.import_no, one.rank, one.trace, one.digest, txn.revision)
            for one in claims
        ],
    )
    shelve(txn, [(one.run_no, one.digest, one.version) for one in claims if one.version is not None])


def claim_ledger(txn: Transaction, table: LedgerKind, no: int, import_no: int) -> None:
    """Note that another import tells a ledger row, reset or note that is known."""
    txn.link.run(
        f"INSERT INTO sighting SELECT learner_id, ?, {table}_no, import_no, 0, 0, 0, revision FROM {table}"
        f" WHERE learner_id = ? AND {table}_no = ? ON CONFLICT DO NOTHING",
        [table, txn.learner_id, no],
    )
    txn.link.run(
        "INSERT INTO sighting VALUES (?, ?, ?, ?, 0, 0, 0, ?) ON CONFLICT DO NOTHING",
        [txn.learner_id, table, no, import_no, txn.revision],
    )


def told_again(txn: Transaction, run_nos: Sequence[int]) -> set[int]:
    """Runs whose claims are rows of their own, because more than one telling was noted."""
    rows = txn.link.rows_in(
        "SELECT DISTINCT no FROM sighting WHERE learner_id = ? AND kind = 'run' AND no IN ({})",
        [txn.learner_id],
        run_nos,
    )
    return {run_no for (run_no,) in rows}


def tell_arms(txn: Transaction, arm_nos: Sequence[int], import_no: int, prior: Prior | None = None) -> None:
    """Note that an import names arms, so that they are listed, and have the prior it tells, while it stands.

    A prior that an arm has already by itself is noted as told by nobody (import 0) and stands for ever.
    """
    alpha, beta = (0, 0) if prior is None else (prior.alpha_micro, prior.beta_micro)
    if prior is not None:
        _note_own_priors(txn, arm_nos)
    txn.link.many(
        "INSERT INTO sighting VALUES (?, 'arm', ?, ?, ?, ?, 0, ?) ON CONFLICT (learner_id, kind, no, import_no)"
        " DO UPDATE SET rank = excluded.rank, trace = excluded.trace WHERE rank = 0 AND excluded.rank > 0",
        [(txn.learner_id, arm_no, import_no, alpha, beta, txn.revision) for arm_no in arm_nos],
    )


def _note_own_priors(txn: Transaction, arm_nos: Sequence[int]) -> None:
    """Remember priors that no import told before one does."""
    rows = txn.link.rows_in(
        "SELECT arm_no, prior_alpha_micro, prior_beta_micro FROM arm a WHERE learner_id = ? AND arm_no IN ({})"
        " AND prior_alpha_micro IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sighting s"
        "   WHERE s.learner_id = a.learner_id AND s.kind = 'arm' AND s.no = a.arm_no AND s.rank > 0)",
        [txn.learner_id],
        arm_nos,
    )
    txn.link.many(
        "INSERT INTO sighting VALUES (?, 'arm', ?, 0, ?, ?, 0, 0)",
        [(txn.learner_id, *row) for row in list(rows)],
    )


def settle_arms(txn: Transaction, arm_nos: Sequence[int]) -> None:
    """Let arms be listed, and have the priors, that the standing imports that name them say.

    Of several priors the one told first stands.
    """
    claims = _claims(txn, "arm", arm_nos)
    txn.forget()
    txn.link.many(
        f"UPDATE arm SET declared = (declared & {DECLARED}) | ? WHERE learner_id = ? AND arm_no = ?",
        [
            (TOLD if any(one.import_no for one in claims.get(arm_no, ())) else 0, txn.learner_id, arm_no)
            for arm_no in arm_nos
        ],
    )
    told = _with_told_priors(txn, arm_nos)
    priors = []
    for arm_no in told:
        standing = [one for one in claims.get(arm_no, ()) if one.rank > 0]
        first = min(standing, key=lambda one: (one.revision, one.import_no), default=None)
        alpha, beta = (first.rank, first.trace) if first else (None, None)
        priors.append((alpha, beta, txn.learner_id, arm_no, alpha or 0, beta or 0))
    n_changed = txn.link.many(
        "UPDATE arm SET prior_alpha_micro = ?, prior_beta_micro = ? WHERE learner_id = ? AND arm_no = ?"
        " AND (coalesce(prior_alpha_micro, 0) <> ? OR coalesce(prior_beta_micro, 0) <> ?)",
        priors,
    )
    if n_changed:
        txn.tell_news()
    if told:
        rebase(txn, told)


def _with_told_priors(txn: Transaction, arm_nos: Sequence[int]) -> list[int]:
    """Those of the arms whose prior was ever told by an import."""
    rows = txn.link.rows_in(
        "SELECT DISTINCT no FROM sighting WHERE learner_id = ? AND kind = 'arm' AND rank > 0 AND no IN ({})",
        [txn.learner_id],
        arm_nos,
    )
    return sorted(arm_no for (arm_no,) in rows)


def settle_descriptions(txn: Transaction, arm_nos: Sequence[int]) -> None:
    """Let arms have the cost and label that the standing imports say."""
    txn.link.many(
        "UPDATE arm SET token_cost = ?, label = ? WHERE learner_id = ? AND arm_no = ?",
        [
            (said.token_cost, said.label, txn.learner_id, arm_no)
            for arm_no, said in descriptions(txn, arm_nos).items()
        ],
    )


def descriptions(facts: Facts, arm_nos: Sequence[int]) -> dict[int, Description]:
    """What the standing imports say of each of the arms."""
    said = last_said(facts.link, facts.learner_id, arm_nos, _undone_imports(facts))
    return {arm_no: said.get(arm_no, Description()) for arm_no in arm_nos}


def settle_runs(txn: Transaction, run_nos: Sequence[int]) -> set[int]:
    """Make runs say what their standing claims tell; the numbers of those whose version or standing changed."""
    changed: set[int] = set()
    for start in range(0, len(run_nos), CHUNK):
        changed |= _settle_chunk(txn, run_nos[start : start + CHUNK])
    return changed


def standing_of(txn: Facts, kind: LedgerKind, no: int, own: tuple[int, int]) -> tuple[bool, int]:
    """Whether a ledger row, reset or note stands, and its revision; ``own`` is its (import, revision)."""
    return standings(txn, kind, {no: own})[no]


def standings(
    txn: Facts, kind: LedgerKind, own: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[bool, int]]:
    """The same of many, by number. A fact that no claim lets stand keeps the revision it had.

    Of facts that were asked for under one key only the one that holds it stands.
    """
    found = _claimed(txn, kind, own)
    for no in outheld(txn, kind, list(own)):
        found[no] = False, found[no][1]
    return found


def outheld(txn: Facts, kind: LedgerKind, nos: Sequence[int]) -> set[int]:
    """Those of the facts whose key another one holds: both stand by who tells them, and were asked for once."""
    if kind == "reset":
        return set()
    pairs = same_keys(txn, kind, nos)
    stands: dict[Fact, bool] = {}
    first_told_by: dict[Fact, int] = {}
    for table in KEYED:
        own = _own_claims(txn, table, sorted({no for pair in pairs for one, no in pair if one == table}))
        stands |= {(table, no): found for no, (found, _) in _claimed(txn, table, own).items()}
        first_told_by |= {(table, no): import_no for no, (import_no, _) in own.items()}

    def rank(fact: Fact) -> tuple[bool, Fact]:
        """As `core.store.replies` has it: what was said here directly holds a key, else what was told last."""
        return first_told_by[fact] == 0, fact

    return {fact[1] for fact, rival in pairs if stands[fact] and stands[rival] and rank(rival) > rank(fact)}


def same_keys(txn: Facts, kind: LedgerKind, nos: Sequence[int]) -> list[tuple[Fact, Fact]]:
    """Each of the facts with every other one that was asked for under its key."""
    return [((kind, no), (_TABLES[other], rival)) for no, other, rival in rivals(txn, KEYED[kind], nos)]


def _own_claims(txn: Facts, table: LedgerKind, nos: Sequence[int]) -> dict[int, tuple[int, int]]:
    """(import, revision) of facts, as their own rows say."""
    rows = txn.link.rows_in(
        f"SELECT {table}_no, import_no, revision FROM {table} WHERE learner_id = ? AND {table}_no IN ({{}})",
        [txn.learner_id],
        nos,
    )
    return {no: (import_no, revision) for no, import_no, revision in rows}


def _claimed(txn: Facts, kind: LedgerKind, own: Mapping[int, tuple[int, int]]) -> dict[int, tuple[bool, int]]:
    """Whether facts stand by who tells them, and since which revision."""
    undone = _undone_imports(txn)
    claims = _claims(txn, kind, list(own))
    found = {}
    for no, (import_no, revision) in own.items():
        tellers = claims.get(no)
        if tellers is None:
            found[no] = (import_no not in undone, revision)
        else:
            found[no] = (bool(tellers), min((one.revision for one in tellers), default=revision))
    return found


def _settle_chunk(txn: Transaction, run_nos: Sequence[int]) -> set[int]:
    planned = list(plans(txn, run_nos))
    now = {
        row[0]: row[1:]
        for row in txn.link.rows_in(
            "SELECT run_no, standing, digest, revision, rank FROM run WHERE learner_id = ? AND run_no IN ({})",
            [txn.learner_id],
            [plan.run_no for plan in planned],
        )
    }
    moved = [plan for plan in planned if (plan.standing, plan.digest, plan.revision) != now[plan.run_no][:3]]
    if moved or any(plan.rank != now[plan.run_no][3] for plan in planned):
        txn.tell_news()
    with shifting(txn, [plan.run_no for plan in moved]):
        _exchange(
            txn,
            [(plan, now[plan.run_no][1]) for plan in moved if plan.digest != now[plan.run_no][1]],
        )
        txn.link.many(
            "UPDATE run SET standing = ?, rank = ?, trace = ?, digest = ?, revision = ?"
            " WHERE learner_id = ? AND run_no = ?",
            [
                (
                    plan.standing,
                    plan.rank,
                    plan.trace,
                    plan.digest,
                    plan.revision,
                    txn.learner_id,
                    plan.run_no,
                )
                for plan in planned
            ],
        )
    return {plan.run_no for plan in moved if (plan.standing, plan.digest) != now[plan.run_no][:2]}


def plans(txn: Facts, run_nos: Sequence[int]) -> Iterator[Plan]:
    """What runs should say by the claims that stand."""
    undone = _undone_imports(txn)
    claims = _claims(txn, "run", run_nos)
    rows = txn.link.rows_in(
        "SELECT run_no, import_no, rank, trace, digest, revision FROM run WHERE learner_id = ? AND run_no IN ({})",
        [txn.learner_id],
        run_nos,
    )
    for run_no, *own in rows:
        only = _Standing(*own)
        tellers = claims.get(run_no)
        if tellers is None:
            tellers = [] if only.import_no in undone else [only]
        if tellers:
            best = max(tellers, key=lambda one: (one.rank, one.trace, -one.revision))
            first = min(one.revision for one in tellers)
            yield Plan(run_no, True, best.rank, best.trace, best.digest, first)
        else:
            yield Plan(run_no, False, only.rank, only.trace, only.digest, only.revision)


def _claims(txn: Facts, kind: Kind, nos: Sequence[int]) -> dict[int, list[_Standing]]:
    """Standing claims of facts that were told more than once (an empty list: none of them stands)."""
    undone = _undone_imports(txn)
    found: dict[int, list[_Standing]] = defaultdict(list)
    for no, *rest in txn.link.rows_in(
        "SELECT no, import_no, rank, trace, digest, revision FROM sighting"
        " WHERE learner_id = ? AND kind = ? AND revision <= ? AND no IN ({})",
        [txn.learner_id, kind, txn.revision],
        nos,
    ):
        standing = _Standing(*rest)
        tellers = found[no]
        if standing.import_no not in undone:
            tellers.append(standing)
    return dict(found)


def _undone_imports(txn: Facts) -> set[int]:
    rows = txn.link.rows("SELECT import_no FROM import WHERE learner_id = ? AND undone = 1", [txn.learner_id])
    return {import_no for (import_no,) in rows}


def _exchange(txn: Transaction, plans: Sequence[tuple[Plan, int]]) -> None:
    """Put the planned version of each run in place, and keep the one that stood."""
    for plan, digest_now in plans:
        keep(txn, plan.run_no, digest_now)
        put(txn, plan.run_no, kept(txn, plan.run_no, plan.digest))
