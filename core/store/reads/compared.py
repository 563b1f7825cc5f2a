"""Compared: runs that pass some filters, in sums, and by arm with the parts of its shift."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from core.columns import Ints, ints
from core.records.arm import MICRO
from core.records.bill import AT_LEAST
from core.records.evidence import INCLUDED, OBSERVED, REFERENCED
from core.records.run_query import RunFilter, View
from core.store.engine import Row
from core.store.engine.dialect import TEXTS_JOINED
from core.store.reads.ledger import KindSum, sums_by_kind
from core.store.reads.run_pages import matching
from core.store.transaction import Snapshot

_FLAGS: Final = 256
"""More than any flags of an arm in a run."""
_RUNS_AT_ONCE: Final = 10_000
_FAILED: Final = "CASE WHEN status = 'error' THEN 1 ELSE 0 END"
_RUNS: Final = "FROM run WHERE learner_id = ?1 AND revision <= ? AND {fits}"
_SUMS: Final = (
    f"SELECT count(*), coalesce(sum(failed), 0), coalesce(sum(tokens), 0), coalesce(sum(n_tokens), 0),"
    " coalesce(sum(cost), 0), coalesce(sum(n_costs), 0), coalesce(sum(n), 0), coalesce(sum(n_observed), 0),"
    " coalesce(sum(n * n), 0), coalesce(sum(n * failed), 0), coalesce(sum(failed * failed), 0) FROM"
    f" (SELECT count(*) AS n, sum({_FAILED}) AS failed, sum(tokens) AS tokens, count(tokens) AS n_tokens,"
    f" sum(CASE WHEN bill_marks & {AT_LEAST} = 0 THEN bill_pico END) AS cost,"
    f" count(CASE WHEN bill_marks & {AT_LEAST} = 0 THEN bill_pico END) AS n_costs,"
    f" sum(CASE WHEN outcome = 'observed' THEN 1 ELSE 0 END) AS n_observed {_RUNS}"
    " GROUP BY session, CASE WHEN coalesce(session, '') = '' THEN run_no ELSE 0 END) AS by_session"
)
_ARMS: Final = (  # a text for each run: to sort and group each arm of each run costs seven times as much
    f"SELECT min(r.revision), {TEXTS_JOINED}(CAST(o.arm_no * {_FLAGS} + o.flags AS text), ',')"
    f" FROM (SELECT learner_id, run_no, revision {_RUNS}) r CROSS JOIN outcome o"
    " WHERE o.learner_id = r.learner_id AND o.run_no = r.run_no GROUP BY r.run_no"
)
_NO_EPOCH: Final = 1 << 60
_EPOCHS: Final = "SELECT arm_no, epoch FROM posterior WHERE learner_id = ?"
_NAMES: Final = (
    "SELECT a.arm_no, a.key, p.base_alpha_micro, p.base_beta_micro FROM arm a JOIN posterior p"
    " ON p.learner_id = a.learner_id AND p.arm_no = a.arm_no WHERE a.learner_id = ? AND a.arm_no IN ({})"
)


class RunSums(NamedTuple):
    """Sums of runs; those of squares are over sessions: runs, runs by failures, failures.

    ``tokens`` and ``cost_pico`` (10⁻¹² dollars) are sums over the ``n_tokens`` and ``n_costs`` runs that have them.
    """

    n_sessions: int
    n_failed: int
    tokens: int
    n_tokens: int
    cost_pico: int
    n_costs: int
    n_runs: int
    n_observed: int
    runs_squared: int
    runs_by_failed: int
    failed_squared: int


class ArmSums(NamedTuple):
    """Runs with an arm in full, those that referenced it, its automatic observations, and those of 1."""

    arm_no: int
    n_in: int
    n_used: int
    n_observed: int
    n_rewarded: int


class NamedArm(NamedTuple):
    """An arm, and the belief that its present epoch began with."""

    arm_no: int
    key: str
    alpha_micro: int
    beta_micro: int


class SideFilter(NamedTuple):
    """Runs of one side: filters, or the number of one run. ``is_span``: only a span was named, or nothing."""

    filters: RunFilter
    view: View
    session: str | None
    run_no: int | None = None

    @property
    def is_span(self) -> bool:
        chosen = (*self.filters.classes, *self.view.models, *self.view.channels)
        return not chosen and self.session is None and self.run_no is None

    def condition(self, snapshot: Snapshot) -> tuple[str, list[Any]]:
        """Return the SQL condition of a run, with its values."""
        fits, values = matching(self.filters, self.view, self.session, snapshot.blind)
        return (fits, values) if self.run_no is None else (f"{fits} AND run_no = ?", [*values, self.run_no])


def run_sums(snapshot: Snapshot, chosen: SideFilter) -> RunSums:
    """Return the sums of the runs of a side."""
    fits, values = chosen.condition(snapshot)
    row = snapshot.row(_SUMS.replace("{fits}", fits), [snapshot.revision, *values])
    return RunSums._make(map(int, row or [0] * len(RunSums._fields)))


def arm_sums(snapshot: Snapshot, chosen: SideFilter) -> list[ArmSums]:
    """Return the arms in the runs of a side."""
    fits, values = chosen.condition(snapshot)
    epochs = np.array(snapshot.rows(_EPOCHS), dtype=np.int64).reshape(-1, 2)
    epoch_of = np.full(epochs[:, 0].max(initial=0) + 1, _NO_EPOCH)
    epoch_of[epochs[:, 0]] = epochs[:, 1]
    sums = np.zeros((len(ArmSums._fields), len(epoch_of)), dtype=np.int64)
    runs = snapshot.each(_ARMS.replace("{fits}", fits), [snapshot.revision, *values])
    while part := list(islice(runs, _RUNS_AT_ONCE)):
        _count(sums, part, epoch_of)
    shown = np.flatnonzero((sums[0] > 0) & (epoch_of < _NO_EPOCH))
    return [
        ArmSums(arm_no, *counts)
        for arm_no, (_, *counts) in zip(shown.tolist(), sums[:, shown].T.tolist(), strict=True)
    ]


def _count(sums: Ints, runs: Sequence[Row], epoch_of: Ints) -> None:
    """Add runs, each its revision and its arms with their flags: all runs of an arm, then as in `ArmSums`."""
    revisions, texts = zip(*runs, strict=True)
    codes = np.fromstring(",".join(texts), dtype=np.int64, sep=",")
    arm, flags = np.divmod(codes, _FLAGS)
    revision = np.repeat(ints(revisions), [text.count(",") + 1 for text in texts])
    known = arm < len(epoch_of)
    arm, flags, revision = arm[known], flags[known], revision[known]
    is_in, is_used = flags & INCLUDED != 0, flags & REFERENCED != 0
    counts = (flags & OBSERVED != 0) & (revision > epoch_of[arm])
    sums[0] += np.bincount(arm, minlength=len(epoch_of))
    for row, marked in enumerate((is_in, is_in & is_used, counts, counts & is_used), 1):
        sums[row] += np.bincount(arm[marked], minlength=len(epoch_of))


def ledger_parts(snapshot: Snapshot, chosen: SideFilter) -> list[KindSum]:
    """Return the ledger rows about the runs of a side, by arm and kind.

    Those about no run belong to a side that is a span of time, by their own time.
    """
    fits, values = chosen.condition(snapshot)
    about = (
        "(b.run_no <> 0 AND EXISTS (SELECT 1 FROM run WHERE learner_id = ?1"
        f" AND run.run_no = b.run_no AND {fits}))"
    )
    if not chosen.is_span:
        return sums_by_kind(snapshot, about, values)
    bounds = [(">=", chosen.view.since_ms), ("<", chosen.view.until_ms)]
    within = [(f" AND b.at_ms {sign} ?", at_ms) for sign, at_ms in bounds if at_ms is not None]
    about = f"({about} OR (b.run_no = 0{''.join(sql for sql, _ in within)}))"
    return sums_by_kind(snapshot, about, [*values, *(at_ms for _, at_ms in within)])


def named_arms(snapshot: Snapshot, arm_nos: Sequence[int]) -> list[NamedArm]:
    """Return arms by number, with the beliefs that their epochs began with."""
    rows = snapshot.rows_in(_NAMES, arm_nos)
    return [NamedArm._make(row) for row in rows]


def automatic(arm: ArmSums, replaced: Sequence[KindSum]) -> tuple[int, int]:
    """Return what automatic observations add to alpha and beta, in millionths, less those that were corrected."""
    success = arm.n_rewarded * MICRO - sum(one.replaced_success_micro for one in replaced)
    failure = (arm.n_observed - arm.n_rewarded) * MICRO - sum(one.replaced_failure_micro for one in replaced)
    return success, failure
