"""Evidence: the references to each included arm that the detectors saw in one run.

Verdict of the guard about a run, with its reason.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

import msgspec

from core.records.limits import storable

Where = Literal["call", "typed", "metadata", "text", "given", "always"]
"""Where a reference matched; "call" of a skill is a load by the agent, "typed" one by a person."""
EXCERPT_CHARS: Final = 160
Excerpt = Annotated[str, msgspec.Meta(max_length=EXCERPT_CHARS)]

SkipReason = Literal["conversational", "aborted", "error", "passive"]
SKIP_REASONS: Final[tuple[SkipReason, ...]] = get_args(SkipReason)
Outcome = Literal["observed", "conversational", "aborted", "error", "passive", "empty"]


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
