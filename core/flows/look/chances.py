"""Chances: of each arm to be in the next prompt of a run that offers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.columns import ArmColumns, CandidateRuns, CandidateSets
from core.flows.desk import Desk
from core.records.learner import LearnerSettings
from core.statistics.inclusion import SIMULATIONS, Chances, inclusion_chances, simulations_for
from core.store import reads

_PREVIEW_SEED = 0
"""Previews draw the same numbers before and after, so that only the reward makes the difference."""


@dataclass(frozen=True, kw_only=True)
class Inclusion:
    """``chances`` by arm; one that none of the ``n_runs`` runs behind the candidates offered is missing there.

    ``of`` says which runs those are.
    """

    chances: Mapping[str, float]
    n_runs: int
    of: CandidateRuns


def inclusion(desk: Desk) -> Inclusion:
    """Every arm's chance of inclusion, and whose candidates that is among."""
    with desk.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        candidates = reads.candidates(snapshot, columns)
        settings = snapshot.settings
    found = simulated(columns, settings, candidates)
    return Inclusion(
        chances={columns.keys[place]: float(found.chance[place]) for place in np.flatnonzero(found.offered)},
        n_runs=0 if candidates.of == "none" else candidates.n_all_runs,
        of=candidates.of,
    )


def simulated(
    columns: ArmColumns,
    settings: LearnerSettings,
    candidates: CandidateSets,
    *,
    n_simulations: int = SIMULATIONS,
) -> Chances:
    """Chance of each of these arms, aligned, with its standard error; NaN where none of the runs behind the
    candidates offered it.
    """
    return inclusion_chances(
        columns, settings, seed=_PREVIEW_SEED, candidates=candidates, n_simulations=n_simulations
    )


def previewed(columns: ArmColumns, settings: LearnerSettings, candidates: CandidateSets) -> Chances:
    """The same for a person who waits for it before and after: of very many arms, of fewer simulations."""
    return simulated(columns, settings, candidates, n_simulations=simulations_for(len(columns)))
