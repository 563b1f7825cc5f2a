"""Evidence: the references to each included arm that the detectors saw in one run.

Verdict of the guard about a run, with its reason. A judged run has both, and the flags of its arms.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

import msgspec

from core.records.limits import storable
from core.records.run import Run

Where = Literal["call", "typed", "metadata", "text", "given", "always"]
"""Where a reference matched; "call" of a skill is a load by the agent, "typed" one by a person."""
EXCERPT_CHARS: Final = 160
Excerpt = Annotated[str, msgspec.Meta(max_length=EXCERPT_CHARS)]
SkipReason = Literal["conversational", "aborted", "error", "passive"]
SKIP_REASONS: Final[tuple[SkipReason, ...]] = get_args(SkipReason)
Outcome = Literal["observed", "conversational", "aborted", "error", "passive", "empty"]
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


class Reference(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A reference to a skill, file or memory, with at most 160 characters around it."""

    arm: str
    where: Where
    excerpt: Excerpt | None = None

    def __post_init__(self) -> None:
        if self.excerpt is not None:
            storable("excerpt", self.excerpt)


class Evidence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One flag per arm in full or by name, in the order of `Inventory.offered`, and the references worth keeping.

    ``n_calls`` counts every call; ``n_real_calls`` leaves meta tools out. ``not_offered`` names called tools
    outside the inventory: they make the run real but get no arm.
    """

    referenced: tuple[bool, ...]
    references: tuple[Reference, ...] = ()
    n_calls: int = 0
    n_real_calls: int = 0
    not_offered: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """``observed``, or the reason why nothing is updated; ``empty`` runs are no runs at all.

    >>> Verdict(outcome="conversational").observed
    False
    """

    outcome: Outcome

    @property
    def observed(self) -> bool:
        return self.outcome == "observed"


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
