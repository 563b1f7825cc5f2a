"""People who may sign in, identified by issuer and subject, never by an address; and tokens of programs.

A bridge is a program that brings chat messages, with the members behind its senders. A token is the secret by which a
program acts, with its scopes and its end.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final
from zlib import crc32

import msgspec

from core.errors import InvalidInput
from core.records.actor import PERSON_ROLES, SCOPES, TOKENS, Actor, Grant, Role, Scope
from core.records.limits import LAST_MS, text
from core.records.times import DAY_MS

INVITED_MS: Final = 7 * DAY_MS
"""Lifetime of an invitation."""
MAX_MEMBER_CHARS: Final = 100
MAX_IDENTITY_CHARS: Final = 500
MAX_CHARS = 200
BEGINNING: Final = "arms_"
SECRET_BITS: Final = 256
MAX_TOKEN_NAME_CHARS: Final = 100
MAX_LEARNERS: Final = 100
DEFAULT_DAYS: Final = 90
MAX_DAYS: Final = 365
_DIGITS: Final = digits + ascii_uppercase + ascii_lowercase
_SECRET_CHARS: Final = 43
_CHECK_CHARS: Final = 6


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


def secret_of(bits: int) -> str:
    """Return the secret of 256 random bits: base 62 with a checksum that detects misread ones.

    >>> secret_of(5)
    'arms_00000000000000000000000000000000000000000054T5Af9'
    """
    body = BEGINNING + _in_base_62(bits, _SECRET_CHARS)
    return body + _checksum(body)


def is_well_formed(secret: str) -> bool:
    """Return whether a text has the form and checksum of a token.

    >>> is_well_formed(secret_of(5)), is_well_formed(secret_of(5)[:-1] + "0")
    (True, False)
    """
    size = len(BEGINNING) + _SECRET_CHARS + _CHECK_CHARS
    if len(secret) != size or not secret.isascii() or not secret.startswith(BEGINNING):
        return False
    return hmac.compare_digest(_checksum(secret[:-_CHECK_CHARS]), secret[-_CHECK_CHARS:])


def digest_of(secret: str) -> str:
    """Return the digest that is stored of a secret. The secret has 256 random bits, so a fast hash is enough."""
    return sha256(secret.encode()).hexdigest()


def _in_base_62(number: int, n_chars: int) -> str:
    digits = []
    for _ in range(n_chars):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


def _checksum(body: str) -> str:
    return _in_base_62(crc32(body.encode()), _CHECK_CHARS)


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is listed: never its secret. ``learners`` None: every one; ``used_hour_ms`` is when the hour
    began in which it was last used; ``is_bridge``: it may say who sent what it brings.
    """

    id: str
    name: str
    scopes: tuple[Scope, ...]
    learners: tuple[str, ...] | None
    by: str
    at_ms: int
    expires_ms: int
    used_hour_ms: int | None = None
    revoked_ms: int | None = None
    is_bridge: bool = False

    @property
    def actor(self) -> Actor:
        """The actor of the token."""
        return token_actor(int(self.id.removeprefix("token-")), self.name, self.scopes, self.learners)


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A new token: this once with its secret."""

    token: TokenRow
    secret: str


def token_actor(number: int, name: str, scopes: Sequence[Scope], learners: Sequence[str] | None) -> Actor:
    """Return the actor of a token.

    >>> token_actor(3, "ci", ("ingest",), ("support",)).name
    'token:ci'
    """
    return Actor(name=TOKENS + name, role=None, grants=granted_scopes(scopes, learners), token=number)


def granted_scopes(scopes: Sequence[Scope], learners: Sequence[str] | None) -> tuple[Grant, ...]:
    """Return the grants of scopes in learners (None = in every one)."""
    places: Sequence[str | None] = (None,) if learners is None else learners
    return tuple(Grant(role=scope, learner=learner) for learner in places for scope in scopes)


def check_token_name(name: str) -> str:
    """Return a token's name if it is 1 to 100 printable characters, without a blank at either end."""
    checked = text("A token's name", name, MAX_TOKEN_NAME_CHARS, lowest=1)
    if not checked.isprintable() or checked.strip() != checked:
        raise InvalidInput(
            f"A token's name must be printable, without a blank at its ends, got {checked[:60]!r}.",
            next_step="Name the program that will use it, for example ci-support.",
        )
    return checked


def check_scopes(scopes: Sequence[str]) -> tuple[Scope, ...]:
    """Return scopes, each once and in their usual order; there must be one at least."""
    strange = [scope for scope in scopes if scope not in SCOPES]
    if strange or not scopes:
        raise InvalidInput(
            f"A token's scopes must be one or more of {', '.join(SCOPES)}, got "
            f"{', '.join(repr(scope[:60]) for scope in strange) or 'none'}.",
            next_step="Choose the fewest that do, for example ingest.",
        )
    default: tuple[Scope, ...] = ("read", "ingest", "review", "operate", "texts")
    return tuple(scope for scope in default if scope in scopes)
