"""Requests: what all verbs say alike of what they were asked for."""

from __future__ import annotations

from typing import Final

from core.errors import UnknownArm
from core.store.reads import near_keys
from core.store.transaction import Snapshot, Transaction

_SHOWN_CHARS: Final = 80
USE_A_LISTED_ARM: Final = "Use an id that armscope arms lists."
OR_MAKE_IT: Final = "Use an id that armscope arms lists, or --create to make one on purpose."


def unknown_arm(facts: Transaction | Snapshot, key: str, next_step: str = USE_A_LISTED_ARM) -> UnknownArm:
    """The error for an arm nobody has seen, with what may have been meant.

    ``next_step`` is `OR_MAKE_IT` for the one verb that makes arms.
    """
    near = near_keys(facts, key)
    meant = f" Did you mean {', '.join(near)}?" if near else ""
    return UnknownArm(
        f"There is no arm {key[:_SHOWN_CHARS]!a} in learner {facts.name!a}.{meant}", next_step=next_step
    )
