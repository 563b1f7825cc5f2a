"""Requests: what all verbs do alike: tell repeats from conflicts, refuse unknown arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from core.errors import UnknownArm
from core.store.reads import near_keys
from core.store.replies import Reply, reply_of, taken
from core.store.transaction import Snapshot, Transaction

_A = TypeVar("_A")
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
        f"There is no arm {key[:_SHOWN_CHARS]!r} in learner {facts.name!r}.{meant}", next_step=next_step
    )


def in_rounds(keys: Sequence[str | None], answered: Callable[[Sequence[int]], Mapping[int, _A]]) -> list[_A]:
    """Answers to requests of which some may share a key: what comes under a key again is asked after what came first.

    ``answered`` answers requests, by place, of which no two have one key.
    """
    answers: dict[int, _A] = {}
    rest = list(range(len(keys)))
    while rest:
        first: dict[str, int] = {}
        later = {
            place
            for place in rest
            if (key := keys[place]) is not None and first.setdefault(key, place) != place
        }
        answers |= answered([place for place in rest if place not in later])
        rest = sorted(later)
    return [answers[place] for place in range(len(keys))]


def repeated(txn: Transaction, key: str, payload: int, answer: type[_A]) -> _A | None:
    """The first answer, where this key has been answered already.

    Raises `Conflict` where it was given to a request of another digest.
    """
    kept = reply_of(txn, key)
    return None if kept is None else repeated_of(kept, key, payload, answer)


def repeated_of(kept: Reply, key: str, payload: int, answer: type[_A]) -> _A:
    """The answer that is kept of a key; raises `Conflict` where it was given to a request of another digest."""
    if kept.payload != payload:
        raise taken(key, kept)
    return msgspec.json.decode(kept.answer, type=answer)
