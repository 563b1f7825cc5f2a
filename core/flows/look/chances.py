"""Chances: of each arm to be in the next prompt of a run that offers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.columns import ArmColumns, CandidateRuns, CandidateSets, Floats
from core.flows.desk import Desk
from core.records.learner import LearnerSettings
from core.statistics.inclusion import Chances, inclusion_chances
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


def chances(desk: Desk) -> dict[str, float]:
    """Chance of each arm to be in the prompt of a run that offers it; arms not offered lately are missing."""
    return dict(inclusion(desk).chances)


def chances_of(columns: ArmColumns, settings: LearnerSettings, candidates: CandidateSets) -> Floats:
    """Chance of each of these arms, aligned; NaN where none of the runs behind the candidates offered it."""
    return simulated(columns, settings, candidates).chance


def simulated(
    columns: ArmColumns,
    settings: LearnerSettings,
    candidates: CandidateSets,
    *,
    n_simulations: int = 2_800,
) -> Chances:
    """The same with standard errors: at most one point where a quarter of the runs offered the arm."""
    return inclusion_chances(
        columns, settings, seed=_PREVIEW_SEED, candidates=candidates, n_simulations=n_simulations
    )
