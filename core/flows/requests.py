"""Requests of all verbs: repeats under a key, conflicts, and unknown arms."""

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
    """Return the error for an unknown arm, with near matches; ``next_step`` is `OR_MAKE_IT` if it may be created."""
    near = near_keys(facts, key)
    meant = f" Did you mean {', '.join(near)}?" if near else ""
    return UnknownArm(
        f"There is no arm {key[:_SHOWN_CHARS]!r} in learner {facts.name!r}.{meant}", next_step=next_step
    )


def in_rounds(keys: Sequence[str | None], answered: Callable[[Sequence[int]], Mapping[int, _A]]) -> list[_A]:
    """Return the answers to requests of which some share a key: a repeat is answered after the first.

    ``answered`` answers requests without common keys, by index.
    """
    answers: dict[int, _A] = {}
    rest = list(range(len(keys)))
    while rest:
        first: dict[str, int] = {}
        later = {
            index
            for index in rest
            if (key := keys[index]) is not None and first.setdefault(key, index) != index
        }
        answers |= answered([index for index in rest if index not in later])
        rest = sorted(later)
    return [answers[index] for index in range(len(keys))]


def repeated(txn: Transaction, key: str, payload: int, answer: type[_A]) -> _A | None:
    """Return the first answer of a key, or None; raises `Conflict` if its request had another digest."""
    reply = reply_of(txn, key)
    return None if reply is None else repeated_of(reply, key, payload, answer)


def repeated_of(reply: Reply, key: str, payload: int, answer: type[_A]) -> _A:
    """Return the stored answer of a key; raises `Conflict` if its request had another digest."""
    if reply.payload != payload:
        raise taken(key, reply)
    return msgspec.json.decode(reply.answer, type=answer)
