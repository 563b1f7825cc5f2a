"""Texts of steps: requests and answers of an environment, stored while the setting ``keep_texts`` was on.

A text belongs to the step with exactly this content, in any version of its episode. Later versions share it, and it
is shown while its step is active. Erased texts are not stored again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from core.records.episode import Step
from core.store.text_index import drop_indexed, index_step_texts
from core.store.texts import storable
from core.store.transaction import Facts, Transaction

_COLUMNS: Final = ("episode_no", "step_no", "digest", "asked", "answered")
_FILLING: Final = (
    "ON CONFLICT (learner_id, episode_no, step_no, digest) DO UPDATE"
    " SET asked = coalesce(step_text.asked, excluded.asked),"
    " answered = coalesce(step_text.answered, excluded.answered)"
    " WHERE (step_text.asked IS NULL AND excluded.asked IS NOT NULL)"
    " OR (step_text.answered IS NULL AND excluded.answered IS NOT NULL)"
)
_PUT: Final = (
    f"INSERT INTO step_text (learner_id, {', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?) {_FILLING}"
)
Digest = Callable[[Step], int]
"""Digest of a step's content, among those of its number."""


def keep_step_texts(
    txn: Transaction, number: int, steps: Sequence[Step], *, uid: str, runs: Sequence[str], digest: Digest
) -> None:
    """Store the texts of an episode's steps, where the setting allows it and they were not erased."""
    if not txn.settings.keep_texts:
        return
    with_texts = [step for step in steps if step.has_texts]
    if not with_texts or is_erased_episode(txn, uid, runs):
        return
    rows = [
        (txn.learner_id, number, step.number, digest(step), storable(step.asked), storable(step.answered))
        for step in with_texts
    ]
    if txn.connection.n_changed(_PUT, rows):
        txn.note_news()
        index_step_texts(txn.connection, txn.learner_id, number, chain.from_iterable(row[4:] for row in rows))


def is_erased_episode(txn: Transaction, uid: str, runs: Sequence[str]) -> bool:
    """Return whether an episode must come without texts, by itself or by one of its runs."""
    if not txn.erased:
        return False
    if txn.erased.has("episode", uid) or any(txn.erased.takes(run, None) for run in runs):
        return True
    rows = txn.connection.rows_in(
        "SELECT uid, session FROM run WHERE learner_id = ? AND uid IN ({})", [txn.learner_id], runs
    )
    return any(txn.erased.takes(*row) for row in rows)


def with_step_texts(facts: Facts, number: int, steps: Sequence[Step], digest: Digest) -> Iterator[Step]:
    """Steps of an episode, with what is kept of their texts for who may read them."""
    if not facts.shows_texts:
        yield from steps
        return
    by_step = {
        (step_no, digest): (request, answered)
        for step_no, digest, request, answered in facts.connection.rows(
            "SELECT step_no, digest, asked, answered FROM step_text WHERE learner_id = ? AND episode_no = ?",
            [facts.learner_id, number],
        )
    }
    for step in steps:
        texts = by_step.get((step.number, digest(step))) if by_step else None
        yield step if texts is None else replace(step, asked=texts[0], answered=texts[1])


def drop_step_texts(txn: Transaction, numbers: Sequence[int]) -> int:
    """Remove the texts of episodes; how many steps had some."""
    rows = txn.connection.rows_in(
        "SELECT step_no FROM step_text WHERE learner_id = ? AND episode_no IN ({})",
        [txn.learner_id],
        numbers,
    )
    txn.connection.run_in(
        "DELETE FROM step_text WHERE learner_id = ? AND episode_no IN ({})", [txn.learner_id], numbers
    )
    drop_indexed(txn.connection, txn.learner_id, "episode", numbers)
    return len(rows)
