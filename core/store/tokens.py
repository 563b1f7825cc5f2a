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
from core.store.transaction import Facts, Transaction

_COLUMNS: Final = "token_no, name, scopes, learners, by, at_ms, expires_ms, used_hour, revoked_ms, is_bridge"


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
    number = txn.number("token")
    txn.add_row(
        "token",
        token_no=number,
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
    return number


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
    return TokenMatch(token_actor(number, name, _scopes(scopes), _learners(learners)), used_hour)


def token_rows(facts: Facts) -> tuple[TokenRow, ...]:
    """Return all tokens, also ended ones, newest first."""
    rows = facts.rows(f"SELECT {_COLUMNS} FROM token WHERE learner_id = ? ORDER BY token_no DESC")
    return tuple(_row(*row) for row in rows)


def token_row(facts: Facts, name: str) -> TokenRow | None:
    """The token of an id (``token-3``) or, if none has it, of a name."""
    rows = facts.rows(
        f"SELECT {_COLUMNS} FROM token WHERE learner_id = ? AND (token_no = ? OR name = ?)"
        " ORDER BY name = ? LIMIT 1",
        [_number(name), name, name],
    )
    return _row(*rows[0]) if rows else None


def tokens_of_member(facts: Facts, member_no: int) -> tuple[TokenRow, ...]:
    """Return a member's tokens that are not revoked. Expired ones are included."""
    rows = facts.rows(
        f"SELECT {_COLUMNS} FROM token WHERE learner_id = ? AND member_no = ? AND revoked_ms = 0"
        " ORDER BY token_no",
        [member_no],
    )
    return tuple(_row(*row) for row in rows)


def revoke_token(txn: Transaction, token_id: str) -> None:
    """Revoke a token for good."""
    txn.connection.run(
        "UPDATE token SET revoked_ms = ? WHERE learner_id = ? AND token_no = ? AND revoked_ms = 0",
        [max(txn.now_ms, 1), txn.learner_id, _number(token_id)],
    )


def note_use(txn: Transaction, token_no: int, hour: int) -> None:
    """Note the hour of a use, if it is later than the stored one, or that comes from a clock that ran ahead."""
    txn.connection.run(
        "UPDATE token SET used_hour = ? WHERE learner_id = ? AND token_no = ? AND NOT used_hour BETWEEN ? AND ?",
        [hour, txn.learner_id, token_no, hour, hour + 1],
    )


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


def _row(  # noqa: PLR0917 - as the columns come
    number: int,
    name: str,
    scopes: str,
    learners: str,
    by: str,
    at_ms: int,
    expires_ms: int,
    used_hour: int,
    revoked_ms: int,
    is_bridge: int,
) -> TokenRow:
    return TokenRow(
        id=f"token-{number}",
        name=name,
        scopes=_scopes(scopes),
        learners=_learners(learners),
        by=by,
        at_ms=at_ms,
        expires_ms=expires_ms,
        used_hour_ms=None if used_hour < 0 else used_hour * HOUR_MS,
        revoked_ms=revoked_ms or None,
        is_bridge=is_bridge > 0,
    )


def _scopes(stored: str) -> tuple[Scope, ...]:
    return msgspec.json.decode(stored, type=tuple[Scope, ...])


def _learners(stored: str) -> tuple[str, ...] | None:
    return msgspec.json.decode(stored, type=tuple[str, ...] | None)
