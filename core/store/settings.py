"""The log of settings, to which changes are only appended, and the bills that follow from prices.

The value in force is that of the latest active change. A bill is a cache of a run's tokens and the prices of its
time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

import msgspec

from core.records.bill import UNKNOWN_BILL, Bill, ModelPrices, Spent, bill_of
from core.records.learner import SEEDS, SELECTS, LearnerSettings
from core.store.caches import chunks
from core.store.engine import Row
from core.store.tables import beyond
from core.store.text_index import build_learner, clear_index
from core.store.transaction import Facts, Transaction, rebase
from core.store.version import APART_COLUMNS, SPENT_COLUMNS, TOKEN_COLUMNS, apart_of, spent_of, usage_rows

_BILL_CHUNK: Final = 5_000
"""Runs read at a time."""
_RUN_BILLS: Final = (
    f"SELECT run_no, bill_pico, bill_marks, model, at_ms, {', '.join(TOKEN_COLUMNS)} FROM run"
    " WHERE learner_id = ? AND run_no > ? ORDER BY run_no LIMIT ?"
)
_WRITE_BILL: Final = "UPDATE run SET bill_pico = ?, bill_marks = ? WHERE learner_id = ? AND run_no = ?"


def bill_again(txn: Transaction, before: Mapping[str, ModelPrices]) -> None:
    """Recompute the bills that changed prices concern, those of a staged import too."""
    now = txn.settings.prices
    models = {model for model in {*before, *now} if before.get(model) != now.get(model)}
    rows = [
        (*expected, txn.learner_id, run_no)
        for run_no, stored, expected in _bills(txn, now, models)
        if stored != expected
    ]
    for part in chunks(rows, _BILL_CHUNK):
        txn.connection.many(_WRITE_BILL, part)


def wrong_bills(facts: Facts) -> Iterator[tuple[int, Bill, Bill]]:
    """Return runs whose stored bill is not that of their tokens and prices: number, stored, expected."""
    return (row for row in _bills(facts, facts.settings.prices, None) if row[1] != row[2])


def _bills(
    facts: Facts, prices: Mapping[str, ModelPrices], models: set[str] | None
) -> Iterator[tuple[int, Bill, Bill]]:
    """Yield runs with the stored and the recomputed bill; with ``models`` only runs that have tokens of one."""
    last = 0
    while rows := facts.rows(_RUN_BILLS, [last, _BILL_CHUNK]):
        spent = spent_by_run(partial(_of_span, facts, [last, rows[-1][0]]))
        last = beyond(last, rows[-1][0])
        for run_no, pico, marks, model, at_ms, *tokens in rows:
            named = spent.get(run_no, ())
            if models is None or model in models or any(row.model in models for row in named):
                known = (
                    bill_of(named or usage_rows(*tokens), model, at_ms, prices) if prices else UNKNOWN_BILL
                )
                yield run_no, Bill(pico, marks), known


def _of_span(facts: Facts, span: list[int], sql: str) -> list[Row]:
    return facts.rows(f"{sql} AND run_no > ? AND run_no <= ?", span)


def spent_by_run(rows_of: Callable[[str], Iterable[Row]]) -> dict[int, tuple[Spent, ...]]:
    """Return the rows of the bills of some runs: those of which ``rows_of`` completes a statement."""
    rows: dict[int, tuple[Spent, ...]] = defaultdict(tuple)
    for table, columns, read in (
        ("spent", SPENT_COLUMNS, spent_of),
        ("spent_apart", APART_COLUMNS, apart_of),
    ):
        for run_no, *row in rows_of(f"SELECT run_no, {', '.join(columns)} FROM {table} WHERE learner_id = ?"):
            rows[run_no] += read([row])
    return rows


def add_setting(txn: Transaction, name: str, value: object) -> int:
    """Log a change and put it in force; its number."""
    number = txn.number("setting")
    before = getattr(txn.settings, name)
    if value != before:
        txn.note_news()
    txn.add_row(
        "setting",
        setting_no=number,
        name=name,
        value=msgspec.json.encode(value).decode(),
        before=msgspec.json.encode(before).decode(),
        actor=txn.actor.name,
        at_ms=txn.now_ms,
        revision=txn.revision,
        undone=0,
    )
    enforce_settings(txn)
    return number


def import_setting(txn: Transaction, name: str, value: object) -> None:
    """Record a setting of an import into a learner that was empty before.

    The import's revision ties them together. A choice made here is never overruled.
    """
    logged = txn.rows(
        "SELECT s.value, CASE WHEN i.import_no > 0 AND s.undone = 0 THEN 1 ELSE 0 END FROM setting s"
        " LEFT JOIN import i ON i.learner_id = s.learner_id AND i.revision = s.revision"
        " WHERE s.learner_id = ? AND s.name = ?",
        [name],
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
    """Fold the log into the settings in force; changed priors move the bases, prices the bills."""
    settings = folded_settings(txn)
    priors_moved = settings.priors != txn.settings.priors
    outcomes_moved = settings.outcome_from != txn.settings.outcome_from
    prices_before, had_texts = txn.settings.prices, txn.settings.keep_texts
    txn.settings = settings
    txn.connection.run(
        "UPDATE learner SET settings = ? WHERE learner_id = ?",
        [msgspec.json.encode(settings).decode(), txn.learner_id],
    )
    if priors_moved:
        rebase(txn, txn.column("SELECT arm_no FROM arm WHERE learner_id = ?"))
    if outcomes_moved and txn.segment is None:
        txn.connection.run("UPDATE run SET changed = ? WHERE learner_id = ?", [txn.revision, txn.learner_id])
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
    rows = txn.rows(
        "SELECT name, value FROM setting WHERE learner_id = ? AND undone = 0 AND revision <= ? AND revision NOT IN"
        " (SELECT revision FROM import WHERE learner_id = ? AND undone = 1) ORDER BY setting_no",
        [1 << 62 if until_revision is None else until_revision, txn.learner_id],
    )
    return _settings_of(_begun(txn), {name: msgspec.json.decode(value) for name, value in rows})


def _begun(txn: Facts) -> dict[str, object]:
    """Return the settings of the start that are not the default."""
    rows = txn.rows("SELECT sticky FROM learner WHERE learner_id = ?")
    return {"sticky": rows[0][0]} if rows else {}


def _settings_of(begun: Mapping[str, object], values: Mapping[str, object]) -> LearnerSettings:
    """Return the settings with these values and those of the start."""
    settings = msgspec.convert({**begun, **values}, LearnerSettings)
    if "seed_arms" in values:
        return settings
    return msgspec.structs.replace(settings, seed_arms=SEEDS[settings.mode])


class SettingsInForce(NamedTuple):
    """From which revision on which settings selected: equal ones have one number."""

    revision: list[int]
    number: list[int]


def settings_in_force(txn: Facts) -> SettingsInForce:
    """Return the settings that select, in the order of their revisions, as they were at the time.

    An act counts until the revision of its undo, and again from that of the undo of this.
    """
    rows, undos, begun = txn.together(
        lambda: txn.rows_in(
            "SELECT setting_no, name, value, revision FROM setting WHERE learner_id = ? AND name IN ({})",
            SELECTS,
        ),
        lambda: txn.rows(
            "SELECT undo_no, kind, no, revision FROM undo WHERE learner_id = ? AND kind IN ('setting', 'undo')"
        ),
        lambda: _begun(txn),
    )
    if not rows:
        return SettingsInForce([0], [0])
    events = sorted(
        [(revision, 0, number, name, value) for number, name, value, revision in rows]
        + [(revision, 1, number, kind, no) for number, kind, no, revision in undos]
    )
    acts: dict[int, tuple[str, str]] = {}
    gone: set[tuple[str, int]] = set()
    undone: dict[int, tuple[str, int]] = {}
    numbers = {_selecting(begun, {}): 0}
    result = SettingsInForce([0], [0])
    for revision, is_undo, number, name, value in events:
        if is_undo:
            undone[number] = (name, value)
            _take_back(undone[number], gone, undone)
        else:
            acts[number] = (name, value)
        values = dict(act for no, act in sorted(acts.items()) if ("setting", no) not in gone)
        result.revision.append(revision)
        result.number.append(numbers.setdefault(_selecting(begun, values), len(numbers)))
    return result


def _selecting(begun: Mapping[str, object], stored: Mapping[str, str]) -> bytes:
    """Return the settings that select, so that equal ones are equal; the order of arms does not matter."""
    settings = _settings_of(begun, {name: msgspec.json.decode(value) for name, value in stored.items()})
    values = (getattr(settings, name) for name in SELECTS)
    return msgspec.json.encode([sorted(value) if isinstance(value, tuple) else value for value in values])


def _take_back(act: tuple[str, int], gone: set[tuple[str, int]], undone: dict[int, tuple[str, int]]) -> None:
    """Mark an act as taken back; what an undo had taken back counts again."""
    gone.add(act)
    while act[0] == "undo" and act[1] in undone:
        act = undone[act[1]]
        gone ^= {act}
