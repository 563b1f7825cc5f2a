"""Chances: of each arm to be in the next prompt."""

from __future__ import annotations

from core.columns import ArmColumns, Floats
from core.flows.desk import Desk
from core.records.learner import LearnerSettings
from core.statistics.inclusion import Chances, inclusion_chances
from core.store import reads

_PREVIEW_SEED = 0
"""Previews draw the same numbers before and after, so that only the reward makes the difference."""


def chances(desk: Desk) -> dict[str, float]:
    """Chance of each arm to be in the next run's prompt."""
    with desk.reading() as snapshot:
        columns = reads.arm_columns(snapshot)
        return dict(zip(columns.keys, chances_of(columns, snapshot.settings).tolist(), strict=True))


def chances_of(columns: ArmColumns, settings: LearnerSettings) -> Floats:
    """Chance of each of these arms to be in the next prompt, aligned."""
    return simulated(columns, settings).chance


def simulated(columns: ArmColumns, settings: LearnerSettings) -> Chances:
    """The same with the standard error of every chance, which is at most one point."""
    return inclusion_chances(columns, settings, seed=_PREVIEW_SEED)
