"""Bridges: tokens whose chat messages act for members; operators of all learners map senders to members.

A sender without a member gets no answer. Removing a member removes its senders. The audit log does not contain
sender names, because they identify a person elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from core.errors import Conflict, NotApplicable, NotFound
from core.flows.context import Context
from core.records.actor import Actor
from core.records.learner import INSTALLATION
from core.records.member import MemberRow, SenderRow, check_chat_name
from core.store.members import MemberMatch, is_bridge, member_by_name, member_of_sender, sender_rows
from core.store.members import add_sender as store_sender
from core.store.members import remove_sender as drop_sender
from core.store.store import Store
from core.store.transaction import Detail, Transaction


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
