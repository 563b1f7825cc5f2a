"""People who may sign in, identified by issuer and subject, never by an address.

A bridge: a program that brings chat messages, and the members behind its senders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core.errors import InvalidInput
from core.records.actor import PERSON_ROLES, TOKENS, Actor, Grant, Role
from core.records.limits import LAST_MS, text
from core.records.times import DAY_MS

INVITED_MS: Final = 7 * DAY_MS
"""Lifetime of an invitation."""
MAX_MEMBER_CHARS: Final = 100
MAX_IDENTITY_CHARS: Final = 500

MAX_CHARS = 200


class MemberRow(msgspec.Struct, frozen=True, kw_only=True):
    """A listed member. ``name`` is the unique name by which they act.

    ``subject`` None = invited until ``invited_until_ms``, and not signed in yet. ``removed_ms`` None = still a
    member.
    """

    id: str
    name: str
    issuer: str
    subject: str | None
    email: str
    roles: tuple[Grant, ...]
    by: str
    at_ms: int
    invited_until_ms: int | None = None
    removed_ms: int | None = None

    @property
    def actor(self) -> Actor:
        """The actor after sign-in."""
        return Actor(name=self.name, role=None, grants=self.roles, member=self.number)

    @property
    def number(self) -> int:
        """The number in their id."""
        return int(self.id.removeprefix("member-"))


class MemberAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The changed member, and the tokens that ended with the change."""

    member: MemberRow
    revoked: tuple[str, ...] = ()


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Claims of an identity provider (``issuer``) about a signed-in person, ``issued_ms`` in UTC milliseconds.

    ``email`` is "" unless the provider has verified it.
    """

    issuer: str
    subject: str
    issued_ms: int
    email: str = ""


def session_of(claims: Mapping[str, object]) -> Session | None:
    """Return the session that an ID token's claims describe; None without person, issuer or time."""
    issuer, subject, issued, email = (claims.get(name) for name in ("iss", "sub", "iat", "email"))
    if not isinstance(issuer, str) or not isinstance(subject, str) or not issuer or not subject:
        return None
    if isinstance(issued, bool) or not isinstance(issued, int | float) or not 0 < issued < LAST_MS / 1000:
        return None
    is_verified = claims.get("email_verified") is True and isinstance(email, str)
    return Session(
        issuer=issuer, subject=subject, issued_ms=int(issued * 1000), email=str(email) if is_verified else ""
    )


def check_member_name(name: str) -> str:
    """Return a name that a person can act by: 1 to 100 printable characters that don't begin like a token's.

    >>> check_member_name("mara")
    'mara'
    """
    checked = text("A member's name", name, MAX_MEMBER_CHARS, lowest=1)
    if not checked.isprintable() or checked.strip() != checked or checked.startswith(TOKENS):
        raise InvalidInput(
            f"A member's name must be printable, without a blank at its ends, and not begin with {TOKENS}, got "
            f"{checked[:60]!r}.",
            next_step="Give it as colleagues write it.",
        )
    return checked


def check_identity(name: str, value: str) -> str:
    """Return an issuer or a subject, which are compared to the letter: 1 to 500 printable characters."""
    checked = text(name, value, MAX_IDENTITY_CHARS, lowest=1)
    if not checked.isprintable() or checked.strip() != checked:
        raise InvalidInput(
            f"{name} must be printable, without a blank at its ends, got {checked[:60]!r}.",
            next_step="Copy it as the identity provider writes it.",
        )
    return checked


def check_email(email: str) -> str:
    """Return an address as it is compared: in small letters, as far as they are plain ones.

    Others stay as they are, since some of them become plain letters when they are made small.

    >>> check_email("Mara@Example.com")
    'mara@example.com'
    """
    address = check_identity("An e-mail address", email)
    if not 0 < address.find("@") < len(address) - 1:
        raise InvalidInput(
            f"An e-mail address must be like mara@example.com, got {address[:60]!r}.",
            next_step="Write the one that the identity provider has verified.",
        )
    return "".join(char.lower() if char.isascii() else char for char in address)


def check_role(role: str) -> Role:
    """Return a role that a person can have."""
    for known in PERSON_ROLES:
        if role == known:
            return known
    raise InvalidInput(
        f"A member's role must be one of {', '.join(PERSON_ROLES)}, got {role[:60]!r}.",
        next_step="Choose the lowest that does, for example viewer.",
    )


class SenderRow(msgspec.Struct, frozen=True, kw_only=True):
    """The member behind a ``sender`` in a ``channel``; ``by`` declared it at ``at_ms``."""

    channel: str
    sender: str
    member: str
    by: str
    at_ms: int


def check_chat_name(name: str, value: str) -> str:
    """Return a channel or sender, which are compared to the letter: 1 to 200 printable characters.

    >>> check_chat_name("A channel", "slack")
    'slack'
    """
    checked = text(name, value, MAX_CHARS, lowest=1)
    if not checked.isprintable() or checked.strip() != checked:
        raise InvalidInput(
            f"{name} must be printable, without a blank at its ends, got {checked[:60]!r}.",
            next_step="Copy it as the bridge sends it.",
        )
    return checked
