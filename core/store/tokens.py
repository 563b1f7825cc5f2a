"""Tokens: rows ↔ records; only the digest of a secret is stored.

They belong to learner 0, which holds the facts about the installation.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from core.records.actor import Actor, Scope
from core.records.times import HOUR_MS
from core.records.token import TokenRow, token_actor
from core.store.mapped import FLAG, Mapped, Stored, none_is, numbered
from core.store.transaction import Facts, Transaction

_decode_scopes: Final = msgspec.json.Decoder(tuple[Scope, ...]).decode
_decode_learners: Final = msgspec.json.Decoder[tuple[str, ...] | None](tuple[str, ...] | None).decode
_TOKENS: Final = Mapped(
    TokenRow,
    "token",
    id=numbered("token"),
    scopes=Stored(read=_decode_scopes),
    learners=Stored(read=_decode_learners),
    used_hour_ms=Stored("used_hour", lambda hour: None if hour < 0 else hour * HOUR_MS),
    revoked_ms=none_is(0),
    is_bridge=FLAG,
)


class TokenMatch(NamedTuple):
    """A valid token: who acts by it, and the hour of its last use."""

    actor: Actor
    used_hour: int


def add_token(
    txn: Transaction,
    digest: str,
    name: str,
    *,
    scopes: Sequence[Scope],
    learners: Sequence[str] | None,
    expires_ms: int,
    is_bridge: bool = False,
) -> int:
    """Add a token; return its number. A bridge may name the sender of what it sends."""
    return txn.add_numbered(
        "token",
        digest=digest,
        name=name,
        scopes=msgspec.json.encode(scopes).decode(),
        learners=msgspec.json.encode(learners).decode(),
        member_no=txn.actor.member,
        by=txn.actor.name,
        at_ms=txn.now_ms,
        expires_ms=expires_ms,
        used_hour=-1,
        revoked_ms=0,
        is_bridge=int(is_bridge),
    )


def token_by_digest(facts: Facts, digest: str, now_ms: int) -> TokenMatch | None:
    """The token of a secret with this digest, if it holds: neither revoked nor expired."""
    row = facts.row(
        "SELECT token_no, name, scopes, learners, used_hour, expires_ms, revoked_ms, digest FROM token"
        " WHERE learner_id = ? AND digest = ?",
        [digest],
    )
    if row is None:
        return None
    number, name, scopes, learners, used_hour, expires_ms, revoked_ms, stored = row
    if not hmac.compare_digest(stored, digest) or revoked_ms or now_ms >= expires_ms:
        return None
    return TokenMatch(
        token_actor(number, name, _decode_scopes(scopes), _decode_learners(learners)), used_hour
    )


def token_rows(facts: Facts) -> tuple[TokenRow, ...]:
    """Return all tokens, also ended ones, newest first."""
    return _TOKENS.rows(facts, "ORDER BY token_no DESC")


def token_row(facts: Facts, name: str) -> TokenRow | None:
    """The token of an id (``token-3``) or, if none has it, of a name."""
    return _TOKENS.row(
        facts, "AND (token_no = ? OR name = ?) ORDER BY name = ? LIMIT 1", [_number(name), name, name]
    )


def tokens_of_member(facts: Facts, member_no: int) -> tuple[TokenRow, ...]:
    """Return a member's tokens that are not revoked. Expired ones are included."""
    return _TOKENS.rows(facts, "AND member_no = ? AND revoked_ms = 0 ORDER BY token_no", [member_no])


def revoke_token(txn: Transaction, token_id: str) -> None:
    """Revoke a token for good."""
    txn.set_row(
        "token", "token_no = ? AND revoked_ms = 0", [_number(token_id)], revoked_ms=max(txn.now_ms, 1)
    )


def note_use(txn: Transaction, token_no: int, hour: int) -> None:
    """Note the hour of a use, if it is later than the stored one, or that comes from a clock that ran ahead."""
    where = "token_no = ? AND NOT used_hour BETWEEN ? AND ?"
    txn.set_row("token", where, [token_no, hour, hour + 1], used_hour=hour)


def _number(token_id: str) -> int:
    """
    >>> _number("token-12"), _number("ci")
    (12, -1)
    """
    digits = token_id.removeprefix("token-")
    return (
        int(digits)
        if digits != token_id and digits.isascii() and digits.isdigit() and len(digits) < 19
        else -1
    )
