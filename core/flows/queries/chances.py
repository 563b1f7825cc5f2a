"""Chances: of each arm to be in the next prompt of a run that offers it, and what it would have to be worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from core.columns import ArmColumns, CandidateRuns, CandidateSets
from core.flows.context import Context
from core.records.learner import LearnerSettings
from core.statistics.inclusion import Chance, Chances, inclusion_chances
from core.store import reads
from core.store.transaction import Snapshot

_SEED = 0
"""Everything that is simulated of one state draws the same numbers: an arm has one chance, whoever asks, and before
and after a change only the change makes the difference."""


@dataclass(frozen=True, kw_only=True)
class Inclusion:
    """Every arm's chance, by id; ``of`` says which the ``n_runs`` runs behind the candidates are."""

    arms: Mapping[str, Chance]
    n_runs: int
    of: CandidateRuns
    n_simulations: int = 0

    @cached_property
    def chances(self) -> Mapping[str, float]:
        """The chances alone; an arm that none of the runs offered is missing."""
        return {key: one.chance for key, one in self.arms.items() if one.chance is not None}


def inclusion(context: Context) -> Inclusion:
    """Every arm's chance of inclusion, and whose candidates that is among."""
    with context.reading() as snapshot:
        return inclusion_in(snapshot, reads.arm_columns(snapshot))


def inclusion_in(snapshot: Snapshot, columns: ArmColumns) -> Inclusion:
    """The same of a snapshot; ``columns`` are of all its arms, now."""
    candidates = reads.candidates(snapshot, columns)
    found = simulated(columns, snapshot.settings, candidates)
    return Inclusion(
        arms=dict(zip(columns.keys, found.of_arms(), strict=True)),
        n_runs=0 if candidates.of == "none" else candidates.n_all_runs,
        of=candidates.of,
        n_simulations=found.n_simulations,
    )


def simulated(columns: ArmColumns, settings: LearnerSettings, candidates: CandidateSets) -> Chances:
    """Chance of each of these arms, aligned, with its standard error; NaN where none of the runs behind the
    candidates offered it.
    """
    return inclusion_chances(columns, settings, seed=_SEED, candidates=candidates)
