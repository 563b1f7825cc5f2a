"""Settings: an append-only log of changes. The value in force is that of the latest active change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from core.records.learner import SEEDS, LearnerSettings
from core.store.bills import bill_again
from core.store.tables import insert_into
from core.store.text_index import build_learner, clear_index
from core.store.transaction import Facts, Transaction, rebase

_LOG: Final = insert_into(
    "setting",
    "learner_id",
    "setting_no",
    "name",
    "value",
    "before",
    "actor",
    "at_ms",
    "revision",
    "undone",
)


def add_setting(txn: Transaction, name: str, value: object) -> int:
    """Log a change and put it in force; its number."""
    number = txn.number("setting")
    before = getattr(txn.settings, name)
    if value != before:
        txn.note_news()
    txn.connection.run(
        _LOG,
        [
            txn.learner_id,
            number,
            name,
            msgspec.json.encode(value).decode(),
            msgspec.json.encode(before).decode(),
            txn.actor.name,
            txn.now_ms,
            txn.revision,
            0,
        ],
    )
    enforce_settings(txn)
    return number


def import_setting(txn: Transaction, name: str, value: object) -> None:
    """Record a setting of an import into a learner that was empty before.

    The import's revision ties them together. A choice made here is never overruled.
    """
    logged = txn.connection.rows(
        "SELECT s.value, CASE WHEN i.import_no > 0 AND s.undone = 0 THEN 1 ELSE 0 END FROM setting s"
        " LEFT JOIN import i ON i.learner_id = s.learner_id AND i.revision = s.revision"
        " WHERE s.learner_id = ? AND s.name = ?",
        [txn.learner_id, name],
    )
    encoded = msgspec.json.encode(value).decode()
    news = not logged and txn.was_empty and value != getattr(txn.settings, name)
    if news or (logged and all(by_import and was == encoded for was, by_import in logged)):
        add_setting(txn, name, value)


@contextmanager
def moving_setting(txn: Transaction, number: int, since: int) -> Iterator[None]:  # noqa: ARG001 - all are folded
    """Update the setting in force around a change of a setting's state."""
    yield
    enforce_settings(txn)


def enforce_settings(txn: Transaction) -> None:
    """Fold the log into the settings in force; changed priors move the bases, changed prices the bills."""
    settings = folded_settings(txn)
    priors_moved = settings.priors != txn.settings.priors
    prices_before, had_texts = txn.settings.prices, txn.settings.keep_texts
    txn.settings = settings
    txn.connection.run(
        "UPDATE learner SET settings = ? WHERE learner_id = ?",
        [msgspec.json.encode(settings).decode(), txn.learner_id],
    )
    if priors_moved:
        arms = txn.connection.rows("SELECT arm_no FROM arm WHERE learner_id = ?", [txn.learner_id])
        rebase(txn, [arm_no for (arm_no,) in arms])
    if had_texts and not settings.keep_texts:
        clear_index(txn.connection, txn.learner_id)
    elif settings.keep_texts and not had_texts:
        build_learner(txn.connection, txn.learner_id)
    if settings.prices != prices_before:
        bill_again(txn, prices_before)


def folded_settings(txn: Facts, *, until_revision: int | None = None) -> LearnerSettings:
    """Return the settings at the start with the active changes in order; an imported one is active with its import.

    Default seed arms follow the detection mode in force. With ``until_revision`` only changes up to that one count,
    among those active today.
    """
    begun = txn.connection.row("SELECT sticky FROM learner WHERE learner_id = ?", [txn.learner_id])
    values: dict[str, object] = {} if begun is None else {"sticky": begun[0]}
    for name, value in txn.connection.rows(
        "SELECT name, value FROM setting WHERE learner_id = ? AND undone = 0 AND revision <= ? AND revision NOT IN"
        " (SELECT revision FROM import WHERE learner_id = ? AND undone = 1) ORDER BY setting_no",
        [txn.learner_id, 1 << 62 if until_revision is None else until_revision, txn.learner_id],
    ):
        values[name] = msgspec.json.decode(value)
    settings = msgspec.convert(values, LearnerSettings)
    if "seed_arms" in values:
        return settings
    return msgspec.structs.replace(settings, seed_arms=SEEDS[settings.mode])
