"""Carried beliefs: beliefs of a file without runs → an arm's prior and one row of the ledger.

They began at Beta(1, 1), which becomes the arm's prior. The rest is carried as successes, failures and pulls. The
row's id holds the arm and the content, not the file. So a repeated belief counts once, and another state is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from core.errors import InvalidInput
from core.formats.strict import digest_of
from core.records.alike import alike
from core.records.arm import MICRO, UNIFORM
from core.records.ledger_lines import ArmLine, RewardContext, RewardLine, carried_prefix

_MAX_PSEUDO_COUNTS: Final = 10**9
_ROUNDING: Final = 1e-9
"""Tolerance: rounding can put a parameter this far below 1."""


@dataclass(frozen=True, kw_only=True)
class Belief:
    """A file's belief about an arm, as counts above Beta(1, 1). ``at_ms`` is None where the time is unknown."""

    arm: str
    success_micro: int
    failure_micro: int
    pulls: int
    at_ms: int | None = None


def carried(belief: Belief, origin: str) -> Iterator[ArmLine | RewardLine]:
    """Yield the lines of a belief from ``origin``; raises `InvalidInput` for impossible numbers or arm ids."""
    content = digest_of(f"{belief.success_micro}/{belief.failure_micro}/{belief.pulls}".encode())
    row = alike(
        RewardLine,
        belief,
        id=f"{carried_prefix(belief.arm)}{content}",
        observation="carried",
        context=RewardContext(reason=f"Carried from {origin}."),
    )
    yield ArmLine(key=belief.arm, prior=UNIFORM)
    yield row


def micro_above_one(name: str, parameter: object) -> int:
    """Return the millionths above a parameter's start, 1; raises `InvalidInput` for one that can't have grown."""
    if not isinstance(parameter, (int, float)) or not 1 - _ROUNDING <= parameter <= _MAX_PSEUDO_COUNTS:
        raise InvalidInput(
            f"{name} of a carried belief must be a number from 1 to 10^9, because it began at Beta(1, 1).",
            next_step="Correct it where it came from, or leave the arm out.",
        )
    exact = (Decimal(repr(float(parameter))) - 1) * MICRO
    return max(int(exact.quantize(Decimal(1), rounding=ROUND_HALF_EVEN)), 0)
