"""Arms in imports: listing, prior, cost and label per source, and the values in force."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from core.records.arm import Arm, Prior
from core.store.descriptions import Description, last_descriptions
from core.store.provenance import undone_imports
from core.store.transaction import BY_IMPORT, DECLARED, Facts, Transaction, mark_arms, rebase


def attribute_arms(
    txn: Transaction, arm_nos: Sequence[int], import_no: int, prior: Prior | None = None
) -> None:
    """Record that an import names arms: while it is active, they are listed and have its prior.

    A prior that an arm has by itself is recorded as import 0 and stays for ever.
    """
    _note(txn, "arm", [(arm_no, import_no, txn.revision, None) for arm_no in arm_nos])
    if prior is not None:
        rows = txn.rows_in(
            "SELECT arm_no, prior_alpha_micro, prior_beta_micro FROM arm a WHERE learner_id = ?1 AND arm_no IN ({})"
            " AND prior_alpha_micro IS NOT NULL AND NOT EXISTS (SELECT 1 FROM provenance p"
            "   WHERE p.learner_id = ?1 AND p.kind = 'prior' AND p.no = a.arm_no)",
            arm_nos,
        )
        _note(txn, "prior", [(arm_no, 0, 0, _written(alpha, beta)) for arm_no, alpha, beta in rows])
        written = _written(prior.alpha_micro, prior.beta_micro)
        _note(txn, "prior", [(arm_no, import_no, txn.revision, written) for arm_no in arm_nos])


def by_keys(txn: Transaction, counts: Mapping[int, int]) -> dict[str, int]:
    """Return counts by arm number as counts by id, sorted."""
    rows = txn.rows_in("SELECT key, arm_no FROM arm WHERE learner_id = ? AND arm_no IN ({})", sorted(counts))
    return {key: counts[arm_no] for key, arm_no in sorted(rows)}


def _note(txn: Transaction, kind: str, sources: Sequence[tuple[int, int, int, str | None]]) -> None:
    """Record sources; of two values of one import for one arm the first counts."""
    txn.connection.many(
        "INSERT INTO provenance (learner_id, kind, no, import_no, revision, said) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [(txn.learner_id, kind, *one) for one in sources],
    )


def _written(alpha_micro: int, beta_micro: int) -> str:
    return f"{alpha_micro} {beta_micro}"


def _read(written: str) -> tuple[int, int]:
    alpha, _, beta = written.partition(" ")
    return int(alpha), int(beta)


def recompute_arms(txn: Transaction, arm_nos: Sequence[int]) -> None:
    """Recompute listing and priors of arms from the active imports; of several priors the earliest counts."""
    txn.forget()
    listed = _active_sources(txn, "arm", arm_nos)
    txn.connection.many(
        f"UPDATE arm SET declared = (declared & {DECLARED}) | ? WHERE learner_id = ? AND arm_no = ?",
        [(BY_IMPORT if listed.get(arm_no) else 0, txn.learner_id, arm_no) for arm_no in arm_nos],
    )
    priors = []
    by_arm = _active_sources(txn, "prior", arm_nos)
    for arm_no, sources in by_arm.items():
        alpha, beta = _read(min(sources)[2]) if sources else (None, None)
        priors.append((alpha, beta, txn.learner_id, arm_no, alpha or 0, beta or 0))
    n_changed = txn.connection.n_changed(
        "UPDATE arm SET prior_alpha_micro = ?, prior_beta_micro = ? WHERE learner_id = ? AND arm_no = ?"
        " AND (coalesce(prior_alpha_micro, 0) <> ? OR coalesce(prior_beta_micro, 0) <> ?)",
        priors,
    )
    if n_changed:
        txn.note_news()
    if by_arm:
        rebase(txn, sorted(by_arm))
    mark_arms(txn, arm_nos)


def _active_sources(txn: Facts, kind: str, arm_nos: Sequence[int]) -> dict[int, list[tuple[int, int, str]]]:
    """Return the active sources of arms as (revision, import, value), for arms with any source."""
    undone = undone_imports(txn)
    by_arm: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for arm_no, import_no, revision, value in txn.connection.rows_in(
        "SELECT no, import_no, revision, said FROM provenance"
        " WHERE learner_id = ? AND kind = ? AND revision <= ? AND no IN ({})",
        [txn.learner_id, kind, txn.revision],
        arm_nos,
    ):
        sources = by_arm[arm_no]
        if import_no not in undone:
            sources.append((revision, import_no, value or ""))
    return dict(by_arm)


def recompute_descriptions(txn: Transaction, arm_nos: Sequence[int]) -> None:
    """Recompute cost and label of arms from the active imports."""
    txn.connection.many(
        "UPDATE arm SET token_cost = ?, label = ? WHERE learner_id = ? AND arm_no = ?",
        [
            (description.token_cost, description.label, txn.learner_id, arm_no)
            for arm_no, description in descriptions(txn, arm_nos).items()
        ],
    )
    mark_arms(txn, arm_nos)


def is_described(txn: Transaction, arms: Sequence[Arm]) -> bool:
    """Return whether active imports describe arms with each of these costs and labels."""
    numbers = txn.arm_nos(arm.key for arm in arms)
    sources = {kind: _active_sources(txn, kind, list(numbers.values())) for kind in ("cost", "label")}
    return all(
        value is None or str(value) in {one for *_, one in sources[kind].get(numbers[arm.key], ())}
        for arm in arms
        for kind, value in (("cost", arm.token_cost), ("label", arm.label))
    )


def descriptions(facts: Facts, arm_nos: Sequence[int]) -> dict[int, Description]:
    """Return each arm's description in the active imports."""
    latest = last_descriptions(facts.connection, facts.learner_id, arm_nos, undone_imports(facts))
    return {arm_no: latest.get(arm_no, Description()) for arm_no in arm_nos}
