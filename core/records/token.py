"""A token: the secret by which a program acts, its scopes and its end."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final
from zlib import crc32

import msgspec

from core.errors import InvalidInput
from core.records.actor import SCOPES, TOKENS, Actor, Grant, Scope
from core.records.limits import text

BEGINNING: Final = "arms_"
SECRET_BITS: Final = 256
MAX_TOKEN_NAME_CHARS: Final = 100
MAX_LEARNERS: Final = 100
DEFAULT_DAYS: Final = 90
MAX_DAYS: Final = 365

_DIGITS: Final = digits + ascii_uppercase + ascii_lowercase
_SECRET_CHARS: Final = 43
_CHECK_CHARS: Final = 6


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
