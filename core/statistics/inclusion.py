"""Arms, settings → each arm's chance to be in the next run's prompt, under the packer that really packs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.columns import ArmColumns, Floats
from core.records.learner import LearnerSettings

NoBreakEven = Literal["always_in", "never_in"]


@dataclass(frozen=True, kw_only=True)
class Chances:
    """Chance of inclusion per arm, aligned with the columns, with the standard error of its simulation.

    ``chance = rate * baseline + (1 - rate) * selected``; all 1 in the passive phase.
    """

    chance: Floats
    standard_error: Floats
    baseline: Floats
    selected: Floats
    baseline_rate: float
    n_simulations: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Chance:
    """One arm's chance of inclusion, and what it would have to be worth.

    ``break_even_mean`` is the posterior mean at which the chance is one half at the arm's cost and present
    weight of evidence; None with ``no_break_even`` where the chance is above (``always_in``) or below
    (``never_in``) one half at every mean.
    """

    key: str
    chance: float
    standard_error: float
    break_even_mean: float | None
    no_break_even: NoBreakEven | None
    n_simulations: int
    seed: int


def inclusion_chances(
    columns: ArmColumns, settings: LearnerSettings, *, seed: int, n_simulations: int = 2_500
) -> Chances:
    """Chance of every arm to be in the next run's prompt."""
    raise NotImplementedError


def inclusion_chance(
    columns: ArmColumns, settings: LearnerSettings, key: str, *, seed: int, n_simulations: int = 2_500
) -> Chance:
    """Chance of one arm, and its break-even mean."""
    raise NotImplementedError
