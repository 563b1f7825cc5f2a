"""Since: the position in a learner's history from which a list goes on.

A row has the revision that changed it last. A mark names that position, and the head of the learner's chain that was
read with it. A restored or another database has no link with that head, so that a mark of it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from core.errors import InvalidInput, NotApplicable
from core.records.limits import shown
from core.records.run_page import RunRow
from core.store.erased import Erased
from core.store.links import link_numbered
from core.store.transaction import Snapshot

_MARK: Final = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{16,64})(?:/([0-9]{1,18})(?:\.([0-9]{1,18}))?)?")
_SHOWN_DIGITS: Final = 16
END: Final = 1 << 62
"""Beyond the number of every row."""


class Position(NamedTuple):
    """The last change that the caller has seen: its revision, and the number of its row."""

    revision: int
    number: int


START: Final = Position(0, 0)


def mark_of(snapshot: Snapshot, position: Position) -> str | None:
    """Return a position as callers keep it; None while the learner has no chain."""
    if snapshot.head is None:
        return None
    link_no, _, head = snapshot.head.partition(":")
    return f"{link_no}:{head[:_SHOWN_DIGITS]}/{position.revision}.{position.number}"


def position_of(snapshot: Snapshot, since: object) -> Position:
    """Return the position that 0, a mark or a head names; raises `InvalidInput` for one of another database."""
    text = str(since)
    if text == "0":
        return START
    match = _MARK.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"since must be 0, a row's mark or a head that status shows, got {shown(since)}.",
            next_step=f"{_instead(snapshot, text)} For a time, use from, such as 2026-11-01.",
        )
    link = link_numbered(snapshot.connection, snapshot.learner_id, int(match[1]))
    revision = None if match[3] is None else int(match[3])
    if link is None or not link.head.hex().startswith(match[2]) or (revision or 0) > snapshot.revision:
        raise InvalidInput(
            f"since must be of this database and its history, got {shown(since)}, which learner"
            f" {shown(snapshot.name)} never had.",
            next_step="It is of another database, or of a state before a restore. Send 0 and load all rows again.",
        )
    if revision is None:
        return Position(link.revision, END)
    return Position(revision, END if match[4] is None else int(match[4]))


def after_of(snapshot: Snapshot, since: object, hidden: Collection[int]) -> Position | None:
    """Return the position of a list that may hide evaluations; None without ``since``.

    A hidden evaluation opens without a change of its own, so that a list of changes could leave it out.
    """
    if since is not None and hidden:
        raise NotApplicable(
            f"since lists changes only to callers who may see all of them; {len(hidden):,} evaluations are hidden.",
            next_step="Judge what is open to you in blind queues, or list without since.",
        )
    return None if since is None else position_of(snapshot, since)


def marked_runs(snapshot: Snapshot, rows: Sequence[RunRow]) -> tuple[RunRow, ...]:
    """Return rows with their marks, and whether their texts are erased."""
    erased = Erased.of(snapshot.connection, snapshot.learner_id)
    return tuple(
        row._replace(
            erased=erased.takes(row.uid, row.session),
            mark=mark_of(snapshot, Position(row.revision, row.run_no)),
        )
        for row in rows
    )


def _instead(snapshot: Snapshot, text: str) -> str:
    """Return the next step for a ``since`` that is no mark; of a plain revision, the mark to send."""
    if snapshot.head is None or not text.isdecimal() or not 0 < int(text) <= snapshot.revision:
        return "Send 0 for all rows."
    link_no, _, head = snapshot.head.partition(":")
    return f"If revision {text} is of this database, send {link_no}:{head[:_SHOWN_DIGITS]}/{text}."
