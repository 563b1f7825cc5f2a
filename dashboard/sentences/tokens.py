"""Sentences about tokens: scopes and lifetimes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.records.actor import Scope
from core.records.member import TokenRow
from core.records.times import DAY_MS
from dashboard import wording
from dashboard.sentences import Phrase, Sentence, composed
from dashboard.wording import Words

SCOPE_WORDS: Final[dict[Scope, str]] = {
    "read": "reads beliefs, runs, savings and evaluations, without any texts",
    "ingest": "selects arms and records runs, and reads nothing",
    "review": "reads, rewards and evaluates, and takes back what it gave",
    "operate": "reads and reviews, and resets, changes settings and takes back any act",
    "texts": "reads kept texts, notes and reasons, and exports for training",
}
"""Words for the permissions of each scope."""
_SOON_DAYS: Final = 7


def tokens(rows: Sequence[TokenRow], now_ms: int) -> Sentence:
    """Return how many tokens are active, and which need attention."""
    live = [one for one in rows if is_in_force(one, now_ms)]
    if not rows:
        return composed(
            "No program has a token yet.",
        )
    if not live:
        return composed("No token is active", f"; {wording.things(len(rows), 'token')} ended.")
    n_soon = sum(one.expires_ms < now_ms + _SOON_DAYS * DAY_MS for one in live)
    n_unused = sum(one.used_hour_ms is None for one in live)
    looks = [
        f"{wording.number_word(n)} {words}"
        for n, words in (
            (n_soon, f"end{'s' if n_soon == 1 else ''} within a week"),
            (n_unused, f"{'was' if n_unused == 1 else 'were'} never used"),
        )
        if n
    ]
    return composed(
        Phrase(wording.things(len(live), "token")),
        f" {'is' if len(live) == 1 else 'are'} in force{'; ' if looks else ''}{wording.listed(looks)}.",
    )


def is_in_force(one: TokenRow, now_ms: int) -> bool:
    """Return whether a program can act by it."""
    return one.revoked_ms is None and now_ms < one.expires_ms


def state(one: TokenRow, now_ms: int) -> str:
    """Return the end of a token, or the time since which it is invalid, as plain text."""
    if one.revoked_ms is not None:
        return f"revoked {wording.day(one.revoked_ms, year_of_ms=now_ms)}"
    return "expired" if now_ms >= one.expires_ms else "in force"


def used(one: TokenRow, now_ms: int) -> Words:
    """Return the hour of its last use, as plain text."""
    if one.used_hour_ms is None:
        return Words("never")
    return f"{wording.minute(one.used_hour_ms, year_of_ms=now_ms)[:-3]} h"
