"""Judged run: a run with what was seen of its arms and what the guard decided; ready to be remembered."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from core.records.evidence import Evidence, Verdict
from core.records.run import Run

INCLUDED: Final = 1
REFERENCED: Final = 2
OBSERVED: Final = 4
NAMED: Final = 8
"""The arm was in the prompt by name when the run began. One that the run found is INCLUDED from there on."""
RETRACTED: Final = 16
"""Takes the position of OBSERVED in the database while a repair takes the observation back."""
OBSERVATION: Final = OBSERVED | RETRACTED
"""Bits of an observation, whether it counts or not."""


ArmState = Literal["in full", "by name", "out"]
"""How an arm was in a run's prompt. A run that found an arm by name has it in full from there on."""


STATES: Final[tuple[ArmState, ...]] = get_args(ArmState)


def state_of(flags: int) -> ArmState:
    """Return the state of an arm in a run.

    >>> state_of(INCLUDED | OBSERVED), state_of(NAMED), state_of(0)
    ('in full', 'by name', 'out')
    """
    return "in full" if flags & INCLUDED else "by name" if flags & NAMED else "out"


def was_loaded(flags: int) -> bool:
    """Return whether a run found an arm that it had by name."""
    return flags & (NAMED | REFERENCED) == NAMED | REFERENCED


class Judged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run's automatic verdict.

    ``flags`` holds one byte per arm of the run's inventory, in the order of `Inventory.offered`, then one per
    excluded arm. A byte is the sum of INCLUDED, REFERENCED, OBSERVED and NAMED. An automatic observation is worth 1.0
    if the arm was referenced, else 0.0. Nothing is observed of an arm that was there by name.
    """

    run: Run
    evidence: Evidence
    verdict: Verdict
    flags: bytes
