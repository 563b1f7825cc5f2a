"""Identity: a secret or a session → who acts. It is asked for every request, so what is revoked is over at once."""

from __future__ import annotations

from contextlib import suppress

from core.errors import InvalidInput, StoreError, Unidentified
from core.records.actor import Actor
from core.records.learner import INSTALLATION
from core.records.member import Session, check_email
from core.records.times import HOUR_MS
from core.records.token import digest_of, is_well_formed
from core.store.members import (
    Found,
    clear_roles,
    end_sessions,
    give_role,
    invitation,
    mark_removed,
    member_by_subject,
    n_operators,
    settle_member,
)
from core.store.store import Store
from core.store.tokens import note_use, token_by_digest
from core.store.transaction import Facts, Transaction

SESSION_MS = 12 * HOUR_MS
"""How long a session lasts that nobody ends."""


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


def actor_of_member(
    store: Store,
    issuer: str,
    subject: str,
    *,
    issued_ms: int,
    now_ms: int,
    session_ms: int = SESSION_MS,
) -> Actor:
    """Who acts in a session that an identity provider began at ``issued_ms`` (its ``iat``, in milliseconds).

    Raises `Unidentified`, in the words for a token, for who is no member, and for a session that is older than
    ``session_ms`` or began before the member signed out or was removed.
    """
    with store.reading(INSTALLATION) as snapshot:
        found = member_by_subject(snapshot, issuer, subject)
    if found is None or found.member.removed_ms is not None:
        raise unidentified()
    if issued_ms < found.not_before_ms or now_ms - issued_ms >= session_ms:
        raise unidentified()
    return found.member.actor


def actor_of_session(store: Store, session: Session, *, now_ms: int, session_ms: int = SESSION_MS) -> Actor:
    """Who acts in a session, as `actor_of_member`; who comes for the first time takes their invitation by it.

    Raises `Unidentified`, also where the invitation's session is none that holds.
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
        # Whoever has an account anywhere may come and go: who is not invited costs a read, and no write.
        if not _is_invited(store, session, now_ms) or now_ms - session.issued_ms >= session_ms:
            raise
    take_invitation(
        store, session.issuer, session.subject, email=session.email, email_verified=True, now_ms=now_ms
    )
    return known()


def is_member(store: Store, session: Session) -> bool:
    """Whether whoever signed in is a member, be this session of theirs over or not."""
    with store.reading(INSTALLATION) as snapshot:
        found = member_by_subject(snapshot, session.issuer, session.subject)
    return found is not None and found.member.removed_ms is None


def take_invitation(
    store: Store, issuer: str, subject: str, *, email: str, email_verified: bool, now_ms: int
) -> Actor:
    """Who acts after signing in for the first time, if an invitation waits for their verified address at that issuer.

    It is taken once; from then on issuer and subject say who they are. A member who is there is who they are. Who was
    removed, and is invited again, comes back under the name they had.

    Raises `Unidentified`, in the words for a token, where there is no such invitation, or none any more.
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
    found = store.write(INSTALLATION, work, actor=stranger, now_ms=now_ms)
    if found is None:
        raise unidentified()
    return found


def sign_out(store: Store, actor: Actor, *, now_ms: int, issued_ms: int = 0) -> None:
    """End every session of the member who acts, the one that began at ``issued_ms`` too: a copied cookie dies with
    them.
    """

    def work(txn: Transaction) -> None:
        end_sessions(txn, actor.member, issued_ms=issued_ms)
        txn.audit("member_sign_out", None, {"member": f"member-{actor.member}", "name": actor.name})

    if actor.member:
        store.write(INSTALLATION, work, actor=actor, now_ms=now_ms)


def has_operator(store: Store) -> bool:
    """Whether any member can sign in who is an operator of all learners."""
    with store.reading(INSTALLATION) as snapshot:
        return n_operators(snapshot) > 0


def unidentified() -> Unidentified:
    """The one error for whoever can't be told, which says nothing of why."""
    return Unidentified(
        "A token or session that holds is needed, got none.",
        next_step="Sign in again, or ask an operator for a token.",
    )


def _invitation(facts: Facts, issuer: str, email: str, now_ms: int) -> Found | None:
    """The invitation of an address, if it can still be taken."""
    try:
        found = invitation(facts, issuer, check_email(email))
    except InvalidInput:  # what a provider calls an address is whatever it likes
        return None
    return found if found is not None and now_ms < (found.member.invited_until_ms or 0) else None


def _is_invited(store: Store, session: Session, now_ms: int) -> bool:
    with store.reading(INSTALLATION) as snapshot:
        return _invitation(snapshot, session.issuer, session.email, now_ms) is not None


def note_denied(store: Store, actor: Actor | None, action: str, now_ms: int) -> None:
    """Count a refusal, by actor (None: nobody knows who), action and minute since 1970 UTC.

    The first of a minute is on disk when this returns, all others within a second of the next: a flood costs one
    write a second. A store that can't be written to keeps the refusal from nobody.
    """
    with suppress(StoreError):
        store.refusals.note(store, "" if actor is None else actor.name, action, now_ms)
