"""Tokens of programs: operators of all learners create, list and revoke them. The secret is shown once."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from core.errors import Conflict, InvalidInput, NotFound
from core.flows.context import Context
from core.flows.identity import check_may_grant
from core.records.actor import Scope
from core.records.limits import whole
from core.records.member import (
    DEFAULT_DAYS,
    MAX_DAYS,
    MAX_LEARNERS,
    SECRET_BITS,
    NewToken,
    TokenRow,
    check_scopes,
    check_token_name,
    digest_of,
    granted_scopes,
    secret_of,
)
from core.records.times import DAY_MS
from core.settings import check_learner
from core.store.members import add_token, token_row, token_rows
from core.store.members import revoke_token as store_revoked
from core.store.transaction import Detail, Transaction


def create_token(
    context: Context,
    name: Annotated[str, Meta(description="The program that will use it.")],
    scopes: Annotated[Sequence[Scope], Meta(description="What it allows.")],
    *,
    learners: Annotated[Sequence[str] | None, Meta(description="In these learners only.")] = None,
    days: Annotated[int, Meta(ge=1, le=MAX_DAYS, description="Days until it ends.")] = DEFAULT_DAYS,
    bridge: Annotated[bool, Meta(description="It passes on messages of a chat, with their senders.")] = False,
) -> NewToken:
    """Create a token for a program; only this answer has its secret.

    ``learners`` None = all of them. Raises `Conflict` for a name that a token has or had, and `Denied` for more
    rights than the actor has.
    """
    name = check_token_name(name)
    checked_scopes = check_scopes(scopes)
    learner_names = None if learners is None else _learner_names(learners)
    days = whole("A token's days", days, MAX_DAYS, lowest=1, example=90)
    secret = secret_of(secrets.randbits(SECRET_BITS))

    def work(txn: Transaction) -> NewToken:
        for grant in granted_scopes(checked_scopes, learner_names):
            check_may_grant(txn.actor, grant)
        if token_row(txn, name) is not None:
            raise Conflict(
                f"A token's name must be new, because acts are stored under it, got {name!r}.",
                next_step="Use another name, for example with the year.",
            )
        expires_ms = txn.now_ms + days * DAY_MS
        digest = digest_of(secret)
        add_token(
            txn,
            digest,
            name,
            scopes=checked_scopes,
            learners=learner_names,
            expires_ms=expires_ms,
            is_bridge=bridge,
        )
        row = token_row(txn, name)
        assert row is not None  # noqa: S101 - it was written just now
        where = None if learner_names is None else ", ".join(learner_names)
        detail: Detail = {
            "token": row.id,
            "name": name,
            "scopes": ", ".join(checked_scopes),
            "learners": where,
        }
        txn.audit("token_create", None, {**detail, "days": days, **({"bridge": True} if bridge else {})})
        return NewToken(token=row, secret=secret)

    return context.write_admin(work)


def tokens(context: Context) -> tuple[TokenRow, ...]:
    """List all tokens, ended ones too, without their secrets."""
    with context.reading_admin() as snapshot:
        return token_rows(snapshot)


def revoke_token(context: Context, token: Annotated[str, Meta(description="Its id or name.")]) -> TokenRow:
    """Revoke a token at once, for good.

    It ends in every process. Raises `NotFound` for an unknown token.
    """

    def work(txn: Transaction) -> TokenRow:
        row = token_row(txn, token)
        if row is None:
            raise NotFound(
                f"There is no token {token[:60]!r}.", next_step="List them with: armscope token list"
            )
        if row.revoked_ms is None:
            store_revoked(txn, row.id)
            txn.audit("token_revoke", None, {"token": row.id, "name": row.name})
        return token_row(txn, row.id) or row

    return context.write_admin(work)


def _learner_names(learners: Sequence[str]) -> tuple[str, ...]:
    if not 1 <= len(learners) <= MAX_LEARNERS:
        raise InvalidInput(
            f"A token must name 1 to {MAX_LEARNERS} learners, or be for every one, got {len(learners)}.",
            next_step="Name the learners it is for, or leave them out to mean all.",
        )
    return tuple(dict.fromkeys(check_learner(name) for name in learners))
