"""Sources of an arm's belief: the parts of its posterior, and the runs that its detector saw."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from core.columns import ArmColumns, Ints, LedgerSums
from core.records.arm import MICRO
from core.records.judgement import SourceSum
from core.records.observation import KINDS, SOURCE_OF, SOURCES

_OF_SOURCE: Final = {
    source: [index for index, kind in enumerate(KINDS) if SOURCE_OF[kind] == source] for source in SOURCES
}


class Observed(NamedTuple):
    """Runs that observed each arm in its present epoch, and those of them that referenced it, shape (n_arms,)."""

    n: Ints
    n_referenced: Ints


def observed(columns: ArmColumns, ledger: LedgerSums) -> Observed:
    """Return the observed runs of each arm; corrected ones count as they were seen."""
    success, failure = _automatic(columns, ledger)
    return Observed(
        n=(success + failure) // MICRO + ledger.replaced,
        n_referenced=success // MICRO + ledger.replaced_successes,
    )


def automatic_columns(columns: ArmColumns, ledger: LedgerSums) -> ArmColumns:
    """Return the columns with the sums of automatic observations alone; corrected ones count as they were seen.

    Parameters
    ----------
    columns : ArmColumns of n_arms
        Counts of every arm, sorted by id.
    ledger : LedgerSums of n_arms
        Ledger rows of the same arms.

    Returns
    -------
    ArmColumns of n_arms
        The same but for ``success_micro`` and ``failure_micro``.
    """
    reported = KINDS.index("reported")
    runs = observed(columns, ledger)
    return replace(
        columns,
        success_micro=runs.n_referenced * MICRO + ledger.success_micro[reported],
        failure_micro=(runs.n - runs.n_referenced) * MICRO + ledger.failure_micro[reported],
    )


def sources(columns: ArmColumns, ledger: LedgerSums) -> list[tuple[SourceSum, ...]]:
    """Return the parts of each arm's belief by source, in the order of `SOURCES` and without empty ones."""
    success, failure = _automatic(columns, ledger)
    parts: list[list[SourceSum]] = [[] for _ in columns.keys]
    for source in SOURCES:
        kinds = _OF_SOURCE[source]
        n, alpha, beta = (
            sums[kinds].sum(axis=0) for sums in (ledger.n, ledger.success_micro, ledger.failure_micro)
        )
        if source == "prior":
            alpha, beta = columns.base_alpha_micro, columns.base_beta_micro
        elif source == "detector":
            n, alpha, beta = n + (success + failure) // MICRO, alpha + success, beta + failure
        at = np.flatnonzero(
            (n != 0) | (alpha != 0) | (beta != 0)
        )  # most arms have two parts, of ten thousand
        for index, *sums in zip(at.tolist(), *(one[at].tolist() for one in (n, alpha, beta)), strict=True):
            parts[index].append(SourceSum(source=source, n=sums[0], alpha_micro=sums[1], beta_micro=sums[2]))
    return [tuple(one) for one in parts]


def _automatic(columns: ArmColumns, ledger: LedgerSums) -> tuple[Ints, Ints]:
    """Return success and failure, in millionths, of the automatic observations that count."""
    return (
        np.asarray(columns.success_micro - ledger.success_micro.sum(axis=0)),
        np.asarray(columns.failure_micro - ledger.failure_micro.sum(axis=0)),
    )
