"""Identity: the actor of a secret or a session. Every request reads it, so a revocation takes effect at once.

`check_may_grant` keeps an actor from granting more than it may do itself.
"""

from __future__ import annotations

from contextlib import suppress

from core.errors import Denied, InvalidInput, StoreError, Unidentified
from core.records.actor import Actor, Grant, may_give
from core.records.learner import INSTALLATION
from core.records.member import Session, check_email, digest_of, is_well_formed
from core.records.times import HOUR_MS, MINUTE_MS
from core.store.members import (
    MemberMatch,
    clear_roles,
    end_sessions,
    give_role,
    invitation,
    mark_removed,
    member_by_subject,
    n_operators,
    note_use,
    settle_member,
    token_by_digest,
)
from core.store.store import Store
from core.store.transaction import Facts, Transaction

SESSION_MS = 12 * HOUR_MS
"""Maximum length of a session."""
_AHEAD_MS = 10 * MINUTE_MS
"""Maximum that the provider's clock, which dates a session, may be ahead of ours."""


def actor_of_token(store: Store, secret: str, *, now_ms: int) -> Actor:
    """Return the actor of a token's secret.

    Raises `Unidentified` with one fixed message for a malformed, unknown, expired or revoked secret.
    """
    row = None
    if is_well_formed(secret):
        with store.reading(INSTALLATION) as snapshot:
            row = token_by_digest(snapshot, digest_of(secret), now_ms)
    if row is None:
        raise Unidentified(
            "A token must be a valid one, got one that is unknown, revoked or expired.",
            next_step="Check that all of it was copied, or ask an operator for a token.",
        )
    actor, hour = row.actor, now_ms // HOUR_MS
    # The clock of another server may be ahead, so a note of the next hour is enough too.
    if not row.used_hour - 1 <= hour <= row.used_hour:
        with suppress(StoreError):  # a full or read-only disk must not prevent sign-in
            store.write(
                INSTALLATION, lambda txn: note_use(txn, actor.token, hour), actor=actor, now_ms=now_ms
            )
    return actor


def actor_of_member(
    store: Store,
    issuer: str,
    subject: str,
    *,
    issued_ms: int,
    now_ms: int,
    session_ms: int = SESSION_MS,
) -> Actor:
    """Return the actor of a session that an identity provider began at ``issued_ms`` (its ``iat``, in milliseconds).

    Raises `Unidentified` for a non-member, for a session older than ``session_ms``, and for one that began before the
    member signed out or was removed.
    """
    with store.reading(INSTALLATION) as snapshot:
        row = member_by_subject(snapshot, issuer, subject)
    if row is None or row.member.removed_ms is not None:
        raise unidentified()
    if issued_ms < row.not_before_ms or not _lasts(issued_ms, now_ms, session_ms):
        raise unidentified()
    return row.member.actor


def actor_of_session(store: Store, session: Session, *, now_ms: int, session_ms: int = SESSION_MS) -> Actor:
    """Return the actor of a session, like `actor_of_member`. A first sign-in takes the invitation.

    Raises `Unidentified`, also if the session itself is not valid.
    """

    def known() -> Actor:
        return actor_of_member(
            store,
            session.issuer,
            session.subject,
            issued_ms=session.issued_ms,
            now_ms=now_ms,
            session_ms=session_ms,
        )

    try:
        return known()
    except Unidentified:
        # Anyone can sign in at the provider, so a non-member must cost one read and no write.
        if not _is_invited(store, session, now_ms) or not _lasts(session.issued_ms, now_ms, session_ms):
            raise
    # A session has an address only if it is verified (`session_of`).
    take_invitation(
        store, session.issuer, session.subject, email=session.email, email_verified=True, now_ms=now_ms
    )
    return known()


def _lasts(issued_ms: int, now_ms: int, session_ms: int) -> bool:
    """Return whether a session still lasts; one of a clock that ran ahead ends when the clock is right again."""
    return -_AHEAD_MS <= now_ms - issued_ms < session_ms


def is_member(store: Store, session: Session) -> bool:
    """Return whether the user is a member, even if the session has ended."""
    with store.reading(INSTALLATION) as snapshot:
        row = member_by_subject(snapshot, session.issuer, session.subject)
    return row is not None and row.member.removed_ms is None


def take_invitation(
    store: Store, issuer: str, subject: str, *, email: str, email_verified: bool, now_ms: int
) -> Actor:
    """Return the actor of a first sign-in, if an invitation waits for the verified address at that issuer.

    It can be taken once. Issuer and subject identify the member from then on. An existing member keeps their name,
    and so does a removed member who is invited again. Raises `Unidentified` without a valid invitation.
    """

    def work(txn: Transaction) -> Actor | None:
        known = member_by_subject(txn, issuer, subject)
        if known is not None and known.member.removed_ms is None:
            return known.member.actor
        invited = _invitation(txn, issuer, email, txn.now_ms) if email_verified is True else None
        if invited is None or not subject:
            return None
        number = invited.member_no
        if known is not None:
            number = known.member_no
            mark_removed(txn, invited.member_no)
            clear_roles(txn, number)
            for grant in invited.member.roles:
                give_role(txn, number, grant.learner, grant.role)
        settle_member(txn, number, subject=subject, email=invited.member.email, invited_until_ms=0)
        now = member_by_subject(txn, issuer, subject)
        assert now is not None  # noqa: S101 - it was written just now
        txn.actor = now.member.actor
        txn.audit("member_join", None, {"member": now.member.id, "name": now.member.name})
        return txn.actor

    stranger = Actor(name="nobody", role=None)
    actor = store.write(INSTALLATION, work, actor=stranger, now_ms=now_ms)
    if actor is None:
        raise unidentified()
    return actor


def sign_out(store: Store, actor: Actor, *, now_ms: int, issued_ms: int = 0) -> None:
    """End every session of the acting member, including the one that began at ``issued_ms``.

    Copied cookies become invalid with them.
    """

    def work(txn: Transaction) -> None:
        end_sessions(txn, actor.member, issued_ms=issued_ms)
        txn.audit("member_sign_out", None, {"member": f"member-{actor.member}", "name": actor.name})

    if actor.member:
        store.write(INSTALLATION, work, actor=actor, now_ms=now_ms)


def has_operator(store: Store) -> bool:
    """Return whether a member who can sign in is an operator of all learners."""
    with store.reading(INSTALLATION) as snapshot:
        return n_operators(snapshot) > 0


def unidentified() -> Unidentified:
    """Return the one error for every session that is not valid; it does not reveal the reason."""
    return Unidentified(
        "A session must be a valid one of a member, got one that is not.",
        next_step="Sign in again, or ask an operator for a token.",
    )


def _invitation(facts: Facts, issuer: str, email: str, now_ms: int) -> MemberMatch | None:
    """Return the invitation of an address, if it can still be taken."""
    try:
        row = invitation(facts, issuer, check_email(email))
    except InvalidInput:  # a provider may send any text as an address
        return None
    return row if row is not None and now_ms < (row.member.invited_until_ms or 0) else None


def _is_invited(store: Store, session: Session, now_ms: int) -> bool:
    with store.reading(INSTALLATION) as snapshot:
        return _invitation(snapshot, session.issuer, session.email, now_ms) is not None


def note_denied(store: Store, actor: Actor | None, action: str, now_ms: int) -> None:
    """Count a refusal by actor (None: unidentified), action and minute since 1970 UTC.

    The first of a minute is on disk when this returns, all others within a second of the next. A flood costs one
    write per second. An unwritable store does not change the refusal.
    """
    with suppress(StoreError):
        store.refusals.note(store, "" if actor is None else actor.name, action, now_ms)


def check_may_grant(actor: Actor, grant: Grant) -> None:
    """Raise `Denied` unless the actor is a person who holds all that the grant includes."""
    if actor.token or not may_give(actor, grant):
        where = "every learner" if grant.learner is None else repr(grant.learner)
        raise Denied(
            f"Only a signed-in user who holds all of {grant.role} in {where} can grant it, got {actor.name}.",
            next_step="Grant less, or ask an operator of all learners.",
            action="members",
        )
