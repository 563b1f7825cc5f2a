"""Identity: a secret → who acts. It is asked for every request, so what is revoked is over at once, everywhere."""

from __future__ import annotations

from contextlib import suppress

from core.errors import StoreError, Unidentified
from core.records.actor import Actor
from core.records.learner import INSTALLATION
from core.records.times import HOUR_MS
from core.records.token import digest_of, is_well_formed
from core.store.denials import MINUTE_MS, count_denials
from core.store.store import Store
from core.store.tokens import note_use, token_by_digest


def actor_of_token(store: Store, secret: str, *, now_ms: int) -> Actor:
    """Who acts by a token's secret.

    Raises `Unidentified`, always in the same words, where it is none, unknown, expired or revoked.
    """
    found = None
    if is_well_formed(secret):
        with store.reading(INSTALLATION) as snapshot:
            found = token_by_digest(snapshot, digest_of(secret), now_ms)
    if found is None:
        raise unidentified()
    actor, hour = found.actor, now_ms // HOUR_MS
    if hour > found.used_hour:
        with suppress(StoreError):  # a disk that is full, or only read, keeps nobody out
            store.write(
                INSTALLATION, lambda txn: note_use(txn, actor.token, hour), actor=actor, now_ms=now_ms
            )
    return actor


def unidentified() -> Unidentified:
    """The one error for whoever can't be told, which says nothing of why."""
    return Unidentified(
        "A token or session that holds is needed, got none.",
        next_step="Sign in again, or ask an operator for a token.",
    )


def note_denied(store: Store, actor: Actor | None, action: str, now_ms: int) -> None:
    """Count a refusal, by actor (None: nobody knows who), action and minute."""
    name = "" if actor is None else actor.name
    who = Actor(name="nobody", role=None) if actor is None else actor
    store.write(
        INSTALLATION,
        lambda txn: count_denials(txn, now_ms // MINUTE_MS, name, action, 1),
        actor=who,
        now_ms=now_ms,
    )
