"""Kept texts: what a run was asked and what it answered last, as the one pair of an execution of its own.

They are kept only where the setting ``keep_texts`` was on as they came. The pair has KAIROS's shape: the prompt is
its ``activation_query``, the answer its ``raw_solution`` (vectors ``kairos_exports``).
"""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

import msgspec

from core.records.layer import NAMESPACE

MAX_TEXT_CHARS: Final = 100_000
"""Characters of a prompt or a reply that are kept: some thirty times what people read of one, and 97,000 runs of it
still fit a disk. A longer one is cut, with a mark at its end: refusing it would refuse the run, which is what counts.
"""
_ROOM_FOR_MARK: Final = 60


class StoredTexts(NamedTuple):
    """The pair of a run, as JSON texts; None = its source says none."""

    instruction: str | None
    response: str | None


def pair_of(prompt: str | None, reply: str | None) -> StoredTexts | None:
    """Return the training pair of a run, or None without prompt and reply.

    ``prompt`` is the user's request, ``reply`` the agent's last message. Each is cut at 100,000 characters.
    """
    instruction, response = _shortened(prompt), _shortened(reply)
    if instruction is None and response is None:
        return None
    return StoredTexts(
        None
        if instruction is None
        else _json({"tensor_in": {}, "layer_instructions": "", "activation_query": instruction}),
        None if response is None else _json({"raw_solution": response}),
    )


def cut(text: str) -> str:
    """A text as it is kept: the whole of it, or its beginning and a mark that says how much is not there.

    >>> cut("short")
    'short'
    >>> len(cut("x" * 200_000)) <= MAX_TEXT_CHARS, cut("x" * 200_000)[-36:]
    (True, 'x [… cut: 100,060 more characters …]')
    """
    if len(text) <= MAX_TEXT_CHARS:
        return text
    n_stored = MAX_TEXT_CHARS - _ROOM_FOR_MARK
    return f"{text[:n_stored]} [… cut: {len(text) - n_stored:,} more characters …]"


def execution_uid(run: str) -> str:
    """Return the uid of a run's own execution, the same in every import (UUID version 5, RFC 9562, 5.5).

    >>> execution_uid("request-1") == execution_uid("request-1") != execution_uid("request-2")
    True
    """
    return str(uuid.uuid5(NAMESPACE, f"run/{run}"))


def _shortened(text: str | None) -> str | None:
    return None if text is None or not text.strip() else cut(text)


def _json(document: dict[str, object]) -> str:
    return msgspec.json.encode(document).decode()
