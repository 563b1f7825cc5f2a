"""Sign-in settings from the secrets file, and the check that they are complete and safe.

Without a file (``ARMSCOPE_AUTH``) every visitor is the user of this machine, and only this machine may connect. With
one, everyone signs in. Streamlit itself reads the file. This module checks what Streamlit does not: short secrets,
redirects without TLS, missing settings.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from core.doors.http.address import is_loopback
from core.doors.http.proxied import check_proxies
from core.errors import InvalidInput, InvalidSetting, NotInstalled
from core.flows.identity import SESSION_MS
from core.records.times import HOUR_MS
from core.settings import base_path, variable

FILE: Final = "ARMSCOPE_AUTH"
HOURS: Final = "ARMSCOPE_SESSION_HOURS"
LEAST_SECRET_BYTES: Final = 32
MOST_HOURS: Final = 30 * 24
_CALLBACK: Final = "/oauth2callback"
_OF_PROVIDERS: Final = ("client_id", "client_secret", "server_metadata_url")
_METADATA: Final = "/.well-known/openid-configuration"
_OF_REQUESTS: Final = frozenset(("client_kwargs", "authorize_params"))
"""Tables that are no providers."""
_DEFAULT: Final = "default"
_NEEDED: Final = {"authlib": "Authlib", "httpx": "httpx"}


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """The sign-in settings. ``origin`` is the scheme, name and port of the pages in a browser, ``path`` what follows.

    ``providers`` are the identity providers by Streamlit's names, ``issuers`` what they call themselves, as far as
    the address of their settings names it.
    """

    file: Path
    origin: str
    providers: tuple[str, ...]
    issuers: tuple[str, ...] = ()
    path: str = ""

    @property
    def is_shared(self) -> bool:
        """True if other users of this machine can read the file, and so sign cookies."""
        return bool(self.file.stat().st_mode & 0o077)

    @property
    def is_encrypted(self) -> bool:
        """True if pages use TLS, so that cookies must use nothing else."""
        return self.origin.startswith("https://")

    @property
    def host(self) -> str:
        """The name that pages have in a browser."""
        return urlsplit(self.origin).hostname or ""


def auth_file() -> Path | None:
    """Return the named secrets file, or None without sign-in."""
    named = variable(FILE)
    return Path(named).expanduser() if named else None


def session_ms() -> int:
    """Return the lifetime of a session in milliseconds."""
    text = variable(HOURS)
    if not text:
        return SESSION_MS
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not 0 < hours <= MOST_HOURS:
        raise InvalidSetting(
            f"{HOURS} must be a number of hours, above 0 and at most {MOST_HOURS}, got {text[:40]!r}.",
            next_step=f"Leave it out for {SESSION_MS // HOUR_MS} hours.",
        )
    return int(hours * HOUR_MS)


def read_sign_in(file: Path, *, port: int) -> SignIn:
    """Return the settings of the file, if complete; ``port`` replaces ``{port}`` in its redirect.

    Raises `InvalidSetting` for a missing or unsafe setting, `NotInstalled` where Streamlit lacks a package.
    """
    auth = _auth_of(file)
    session_ms()
    secret = auth.get("cookie_secret")
    if not isinstance(secret, str) or len(secret.encode()) < LEAST_SECRET_BYTES:
        raise _incomplete(
            f"cookie_secret must have {LEAST_SECRET_BYTES} bytes or more, got "
            f"{len(secret.encode()) if isinstance(secret, str) else 'none'}",
            'Make one: python -c "import secrets; print(secrets.token_urlsafe(48))"',
        )
    origin = _origin(auth.get("redirect_uri"), port)
    named: dict[str, Mapping[str, object]] = {
        name: table for name, table in auth.items() if isinstance(table, dict) and name not in _OF_REQUESTS
    }
    if any(name in auth for name in _OF_PROVIDERS) or not named:
        named = {_DEFAULT: auth, **named}
    for name, table in named.items():
        _check_provider(name, table)
    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise NotInstalled(
            f"Signing in needs {' and '.join(missing)}, not installed here.",
            next_step="Install with: pip install 'armscope[auth]'",
        )
    urls = [str(table["server_metadata_url"]) for table in named.values()]
    issuers = tuple(url.removesuffix(_METADATA) for url in urls if url.endswith(_METADATA))
    return SignIn(file=file, origin=origin, providers=tuple(named), issuers=issuers, path=base_path())


def check_address(address: str, proxies: Sequence[str], *, signs_in: bool) -> None:
    """Raise `InvalidInput` for an address at which strangers would pass as the machine's user."""
    if not signs_in and not is_loopback(address):
        raise InvalidInput(
            f"The address must be of this machine (127.0.0.1, ::1, localhost), got {address[:60]!r}: no user signs "
            "in here, and every client is the operator.",
            next_step=f"Name a secrets file with [auth] in {FILE}, or leave --address out and use an SSH tunnel.",
        )
    if not signs_in and proxies:
        raise InvalidInput(
            "A proxy can be named only where people sign in, got --proxy without: behind it everybody would be the "
            "operator.",
            next_step=f"Name a secrets file with [auth] in {FILE}, or leave --proxy out. For programs alone: "
            "armscope api --require-token --proxy ADDRESS.",
        )
    check_proxies(proxies)


def check_operator(*, has_one: bool) -> None:
    """Raise `InvalidInput` where people sign in, and no operator exists to admit them."""
    if not has_one:
        raise InvalidInput(
            "Where people sign in, one of them must be an operator of all learners, got none.",
            next_step="Make the first: armscope member add NAME --issuer URL --subject ID --role operator",
        )


def _auth_of(file: Path) -> Mapping[str, object]:
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except OSError as problem:
        raise InvalidSetting(
            f"{FILE} must name a file that can be read, got {str(file)[:200]!r} ({problem.strerror or problem}).",
            next_step="Name the secrets file with [auth] in it; armscope help people has one that works.",
        ) from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        # Its message quotes the line, which may hold a secret, so it is not shown.
        raise InvalidSetting(
            f"{FILE} must name a TOML file, got {str(file)[:200]!r}, which is none.",
            next_step="Look for a missing quotation mark; armscope help people has a file that works.",
        ) from problem
    auth = content.get("auth")
    if not isinstance(auth, dict):
        raise _incomplete(
            "there must be a table [auth], got none", "armscope help people has one that works."
        )
    return auth


def _origin(redirect: object, port: int) -> str:
    """Return scheme, name and port of the address to which a provider sends people back."""
    callback = f"{base_path()}{_CALLBACK}"
    parts = _split(redirect.replace("{port}", str(port)) if isinstance(redirect, str) else "")
    if parts is None or not _is_safe(parts) or parts.geturl() != f"{_origin_of(parts)}{callback}":
        raise _incomplete(
            f"redirect_uri must be https (or http on this machine) and end in {callback} right after the name, got "
            f"{str(redirect)[:120]!r}",
            f"Write it as the browser has it: https://armscope.example.com{callback}. Below a path of a proxy, give "
            "--base-path, too.",
        )
    return _origin_of(parts)


def _origin_of(parts: SplitResult) -> str:
    """Return an origin as a browser spells it: in small letters, without the default port."""
    name = parts.hostname or ""
    usual = parts.port in {None, {"https": 443, "http": 80}.get(parts.scheme)}
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}{'' if usual else f':{parts.port}'}"


def _check_provider(name: str, table: Mapping[str, object]) -> None:
    where = "[auth]" if name == _DEFAULT else f"[auth.{name}]"
    if not (name.isascii() and name.isalnum()):
        raise _incomplete(
            f"a provider's name must be letters and digits, got {name[:40]!r}", "Write it without _ and -."
        )
    for needed in _OF_PROVIDERS:
        value = table.get(needed)
        if not isinstance(value, str) or not value:
            raise _incomplete(f"{where} must have {needed}, got none", "The identity provider lists it.")
    parts = _split(str(table["server_metadata_url"]))
    if parts is None or not _is_safe(parts):
        raise _incomplete(
            f"server_metadata_url of {where} must be https (or http on this machine), got another",
            "It ends in /.well-known/openid-configuration.",
        )


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # says whether it is one
    except ValueError:
        return None
    return None if parts.username is not None or parts.password is not None else parts


def _is_safe(parts: SplitResult) -> bool:
    """Return whether the connection can't be read or changed on the way."""
    name = parts.hostname or ""
    return bool(name) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(name)))


def _incomplete(problem: str, next_step: str) -> InvalidSetting:
    return InvalidSetting(f"In the file that {FILE} names {problem}.", next_step=next_step)
