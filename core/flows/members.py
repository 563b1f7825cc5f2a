"""Members with their roles, and their senders in chats: operators of all learners add, change and remove them.

A bridge is a token whose chat messages act for members. A sender without a member gets no answer. Removing a member
removes its senders. The audit log does not contain sender names, because they identify a person elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from core.errors import Conflict, NotApplicable, NotFound
from core.flows.context import Context
from core.flows.identity import check_may_grant
from core.records.actor import Actor, Grant, PersonRole, Role, may_give
from core.records.learner import INSTALLATION
from core.records.member import (
    INVITED_MS,
    MemberAnswer,
    MemberRow,
    SenderRow,
    check_chat_name,
    check_email,
    check_identity,
    check_member_name,
    check_role,
)
from core.records.parameters import MemberName
from core.settings import check_learner
from core.store.members import (
    MemberMatch,
    clear_roles,
    end_sessions,
    forget_senders,
    give_role,
    invitation,
    is_bridge,
    mark_removed,
    member_by_name,
    member_by_number,
    member_by_subject,
    member_of_sender,
    member_rows,
    n_operators,
    revoke_token,
    sender_rows,
    settle_member,
    tokens_of_member,
)
from core.store.members import add_member as store_member
from core.store.members import add_sender as store_sender
from core.store.members import remove_sender as drop_sender
from core.store.store import Store
from core.store.transaction import Detail, Facts, Transaction


def add_member(
    context: Context,
    issuer: Annotated[str, Meta(description="The identity provider's name in its tokens (iss).")],
    subject: Annotated[str, Meta(description="The person's id at the provider (sub).")],
    name: Annotated[str, Meta(description="Name for their acts; it must be new.")],
    *,
    role: Annotated[PersonRole, Meta(description="Their role.")] = "viewer",
    learner: Annotated[str | None, Meta(description="In this learner only.")] = None,
    email: Annotated[str, Meta(description="Their e-mail address.")] = "",
) -> MemberAnswer:
    """Add a person by issuer and subject.

    ``name`` is the name of their acts and belongs to one person for good. A removed member returns under the earlier
    name. Raises `Conflict` for an existing member, and for a name that is taken.
    """
    issuer, subject = check_identity("An issuer", issuer), check_identity("A subject", subject)
    name, email = check_member_name(name), check_email(email) if email else ""
    grant = Grant(role=check_role(role), learner=None if learner is None else check_learner(learner))

    def work(txn: Transaction) -> MemberAnswer:
        check_may_grant(txn.actor, grant)
        known = member_by_subject(txn, issuer, subject)
        if known is not None and known.member.removed_ms is None:
            raise Conflict(
                f"A subject of {issuer[:60]!r} must be new, got that of the member {known.member.name!r}.",
                next_step="Change their role with: armscope member role",
            )
        if known is not None and known.member.name != name:
            raise Conflict(
                f"The name must be {known.member.name!r}, which that subject of {issuer[:60]!r} has here, got "
                f"{name!r}.",
                next_step="Use that name.",
            )
        if known is None:
            _refuse_taken(txn, name)
            number = store_member(txn, issuer=issuer, subject=subject, email=email, name=name)
        else:
            number = known.member_no
            settle_member(txn, number, subject=subject, email=email or known.member.email, invited_until_ms=0)
        give_role(txn, number, grant.learner, grant.role)
        return _answer(txn, "member_add", number, grant)

    return context.write_admin(work)


def invite_member(
    context: Context,
    issuer: Annotated[str, Meta(description="The identity provider's name in its tokens (iss).")],
    email: Annotated[str, Meta(description="The address that the provider has verified.")],
    *,
    name: Annotated[str | None, Meta(description="Name for their acts; default: the address.")] = None,
    role: Annotated[PersonRole, Meta(description="Their role.")] = "viewer",
    learner: Annotated[str | None, Meta(description="In this learner only.")] = None,
) -> MemberAnswer:
    """Invite a verified e-mail address to sign in within 7 days.

    The invitation works once. After that, issuer and subject identify the person. ``name`` (None: the address) is
    the name of their acts. Another invitation of the address replaces this one.
    """
    issuer, email = check_identity("An issuer", issuer), check_email(email)
    name = check_member_name(email if name is None else name)
    grant = Grant(role=check_role(role), learner=None if learner is None else check_learner(learner))

    def work(txn: Transaction) -> MemberAnswer:
        check_may_grant(txn.actor, grant)
        open_one = invitation(txn, issuer, email)
        until_ms = txn.now_ms + INVITED_MS
        if open_one is None or open_one.member.name != name:
            _refuse_taken(txn, name)
        if open_one is not None and open_one.member.name != name:
            mark_removed(txn, open_one.member_no)
            open_one = None
        if open_one is None:
            number = store_member(
                txn, issuer=issuer, subject="", email=email, name=name, invited_until_ms=until_ms
            )
        else:
            number = open_one.member_no
            for held in open_one.member.roles:
                give_role(txn, number, held.learner, None)
            settle_member(txn, number, subject="", email=email, invited_until_ms=until_ms)
        give_role(txn, number, grant.learner, grant.role)
        return _answer(txn, "member_invite", number, grant)

    return context.write_admin(work)


def set_role(
    context: Context,
    member: MemberName,
    role: Annotated[PersonRole | None, Meta(description="Their new role; null: no role there.")],
    *,
    learner: Annotated[str | None, Meta(description="In this learner only.")] = None,
) -> MemberAnswer:
    """Set the role of a member, in one learner or in every one.

    Their tokens that exceed the new role are revoked. Raises `NotApplicable` where no member would be left with
    this right.
    """
    kind: Role | None = None if role is None else check_role(role)
    scope = None if learner is None else check_learner(learner)

    def work(txn: Transaction) -> MemberAnswer:
        row = _member(txn, member)
        for held in (*row.member.roles, *(() if kind is None else (Grant(role=kind, learner=scope),))):
            check_may_grant(txn.actor, held)
        n_before = n_operators(txn)
        give_role(txn, row.member_no, scope, kind)
        _keep_an_operator(txn, n_before, row.member)
        return _answer(txn, "member_role", row.member_no, Grant(role=kind or "viewer", learner=scope), kind)

    return context.write_admin(work)


def remove_member(context: Context, member: MemberName) -> MemberAnswer:
    """Remove a member and revoke the tokens they created.

    Their sessions end, and so do their names in chats. Their acts stay, under their name. Raises `NotApplicable` for
    the last operator of all learners.
    """

    def work(txn: Transaction) -> MemberAnswer:
        row = _member(txn, member)
        n_before = n_operators(txn)
        for held in row.member.roles:
            check_may_grant(txn.actor, held)
            give_role(txn, row.member_no, held.learner, None)
        mark_removed(txn, row.member_no)
        forget_senders(txn, row.member_no)
        end_sessions(txn, row.member_no)
        _keep_an_operator(txn, n_before, row.member)
        return _answer(txn, "member_remove", row.member_no)

    return context.write_admin(work)


def restore_member(context: Context, earlier: MemberRow, *, current: MemberRow) -> MemberAnswer:
    """Restore the ``earlier`` roles and state (active, invited or removed) of a member.

    Tokens and sessions that were revoked stay revoked. Raises `Conflict` if the member is no longer as in
    ``current``.
    """

    def work(txn: Transaction) -> MemberAnswer:
        row = member_by_number(txn, current.number)
        if row is None or row.member != current or not _is_same_person(earlier, current):
            raise Conflict(
                f"Another user changed {current.name} meanwhile; nothing was undone.",
                next_step="Check the member's present state, and change it there.",
            )
        n_before = n_operators(txn)
        for held in (*current.roles, *earlier.roles):
            check_may_grant(txn.actor, held)
        clear_roles(txn, current.number)
        for grant in earlier.roles:
            give_role(txn, current.number, grant.learner, grant.role)
        if earlier.removed_ms is None:
            until_ms = earlier.invited_until_ms or 0
            settle_member(
                txn,
                current.number,
                subject=earlier.subject or "",
                email=earlier.email,
                invited_until_ms=until_ms,
            )
        else:
            mark_removed(txn, current.number)
            end_sessions(txn, current.number)
        _keep_an_operator(txn, n_before, row.member)
        return _answer(txn, "member_restore", current.number)

    return context.write_admin(work)


def _is_same_person(one: MemberRow, other: MemberRow) -> bool:
    return (one.id, one.name, one.issuer, one.subject) == (other.id, other.name, other.issuer, other.subject)


def sign_out_member(context: Context, member: MemberName) -> MemberAnswer:
    """End every session of a member; they may sign in again."""

    def work(txn: Transaction) -> MemberAnswer:
        row = _member(txn, member)
        end_sessions(txn, row.member_no)
        return _answer(txn, "member_sign_out", row.member_no)

    return context.write_admin(work)


def members(context: Context) -> tuple[MemberRow, ...]:
    """List members, invitations and removed members."""
    with context.reading_admin() as snapshot:
        return member_rows(snapshot)


def _member(facts: Facts, id_or_name: str) -> MemberMatch:
    """Return the member of an id or, if none has it, of a name. Removed members are excluded."""
    number = id_or_name.removeprefix("member-")
    is_number = number != id_or_name and number.isascii() and number.isdigit() and len(number) < 19
    row = member_by_number(facts, int(number)) if is_number else None
    row = row or member_by_name(facts, id_or_name)
    if row is None or row.member.removed_ms is not None:
        raise NotFound(
            f"There is no member {id_or_name[:60]!r}.", next_step="List them with: armscope member list"
        )
    return row


def _refuse_taken(facts: Facts, name: str) -> None:
    if member_by_name(facts, name) is not None:
        raise Conflict(
            f"A member's name must be new, because acts are stored under it, got {name!r}.",
            next_step="Use another name, for example with the family name.",
        )


def _keep_an_operator(facts: Facts, n_before: int, member: MemberRow) -> None:
    if n_before and not n_operators(facts):
        raise NotApplicable(
            f"{member.name} is the last operator of all learners, and one must stay.",
            next_step="Make another first: armscope member role NAME operator",
        )


def _answer(
    txn: Transaction, action: str, member_no: int, grant: Grant | None = None, role: Role | None = "viewer"
) -> MemberAnswer:
    """Revoke tokens that exceed the member's roles, write the audit entry, and return the member."""
    row = member_by_number(txn, member_no)
    assert row is not None  # noqa: S101 - it was written just now
    member = row.member
    exceeding = [
        token
        for token in tokens_of_member(txn, member_no)
        if not all(may_give(member.actor, one) for one in token.actor.grants)
    ]
    grant_detail = (
        {} if grant is None else {"role": None if role is None else grant.role, "learner": grant.learner}
    )
    txn.audit(action, None, {"member": member.id, "name": member.name, **grant_detail})
    for token in exceeding:
        revoke_token(txn, token.id)
        txn.audit("token_revoke", None, {"token": token.id, "name": token.name, "with": member.id})
    return MemberAnswer(member=member, revoked=tuple(token.id for token in exceeding))


# Senders in chats


def add_sender(
    context: Context,
    member: Annotated[str, Meta(description="The member, by name.")],
    channel: Annotated[str, Meta(description="The chat, as the bridge names it.")],
    sender: Annotated[str, Meta(description="The sender, as the bridge names them.")],
) -> SenderRow:
    """Map a sender in a chat to a member, for tokens that are bridges.

    A repeat changes nothing. Raises `NotFound` for an unknown member, `NotApplicable` for an invited one, and
    `Conflict` for a sender of another member.
    """
    channel, sender = check_chat_name("A channel", channel), check_chat_name("A sender", sender)

    def work(txn: Transaction) -> SenderRow:
        row = member_by_name(txn, member)
        if row is None or row.member.removed_ms is not None:
            raise NotFound(f"There is no member {member[:60]!r}.", next_step="Use the name of one.")
        if not _is_in(row.member):
            raise NotApplicable(
                f"{member} has not accepted the invitation yet.",
                next_step="Repeat this after the first sign-in.",
            )
        known = member_of_sender(txn, channel, sender)
        if known is not None and known.member_no != row.member_no:
            raise Conflict(
                f"A sender must belong to one member, got {member[:60]!r} for a sender of {known.member.name!r}.",
                next_step="Remove the sender first.",
            )
        if known is None:
            store_sender(txn, channel, sender, row.member_no)
            txn.audit("sender_add", None, {"member": row.member.id, "name": member, "channel": channel})
        return _row(txn, channel, sender)

    return context.write_admin(work)


def remove_sender(
    context: Context,
    channel: Annotated[str, Meta(description="The chat, as the bridge names it.")],
    sender: Annotated[str, Meta(description="The sender, as the bridge names them.")],
) -> SenderRow:
    """Remove a sender in a chat, and return the mapping.

    Raises `NotFound` for an unknown sender.
    """

    def work(txn: Transaction) -> SenderRow:
        row = member_of_sender(txn, channel, sender)
        if row is None:
            raise NotFound("There is no such sender in that channel.", next_step="List those there are.")
        was = _row(txn, channel, sender)
        drop_sender(txn, channel, sender)
        detail: Detail = {"member": row.member.id, "name": row.member.name, "channel": channel}
        txn.audit("sender_remove", None, detail)
        return was

    return context.write_admin(work)


def senders(context: Context) -> tuple[SenderRow, ...]:
    """List the chat senders of members, by channel."""
    with context.reading_admin() as snapshot:
        return sender_rows(snapshot)


def members_behind(store: Store, actor: Actor) -> Callable[[str, str], Actor | None] | None:
    """Return a function from channel and sender to the member, or None if the actor is no bridge.

    It reads the mapping for every message, so a change takes effect at once.
    """
    if not actor.token:
        return None
    with store.reading(INSTALLATION) as snapshot:
        if not is_bridge(snapshot, actor.token):
            return None

    def who(channel: str, sender: str) -> Actor | None:
        with store.reading(INSTALLATION) as snapshot:
            row: MemberMatch | None = member_of_sender(snapshot, channel, sender)
        return None if row is None or not _is_in(row.member) else row.member.actor

    return who


def _is_in(member: MemberRow) -> bool:
    return member.removed_ms is None and member.subject is not None


def _row(txn: Transaction, channel: str, sender: str) -> SenderRow:
    return next(one for one in sender_rows(txn) if (one.channel, one.sender) == (channel, sender))
