"""A small identity provider of the tests' own: it asks no one anything, and can lie in its tokens."""

from __future__ import annotations

import json
import secrets
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from joserfc import jws, jwt
from joserfc.jwk import OctKey, RSAKey

CLIENT: Final = "armscope"
CLIENT_SECRET: Final = "only the client and the provider know it"
Claims = dict[str, Any]
Forge = Callable[["OwnProvider", Claims], str]
"""Makes a token of claims that are right."""

_FAR_S: Final = 10_000


@dataclass
class OwnProvider:
    """Codes by their requests, people by their names, and how the next tokens are forged."""

    issuer: str = ""
    people: dict[str, Claims] = field(default_factory=dict)
    codes: dict[str, Claims] = field(default_factory=dict)
    forge: Forge | None = None
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "1"}, private=True))
    other: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "1"}, private=True))

    @property
    def metadata(self) -> str:
        return f"{self.issuer}/.well-known/openid-configuration"

    def approve(self, request: str, person: str) -> str:
        """The address to which a person is sent back who signs in for this request."""
        query = dict(parse_qsl(urlsplit(request).query))
        code = secrets.token_urlsafe(16)
        self.codes[code] = {**query, "person": person}
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def signed(self, claims: Claims) -> str:
        """A token as it should be."""
        return jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.key)

    def document(self) -> Claims:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
        }

    def keys(self) -> Claims:
        return {"keys": [dict(self.key.as_dict(private=False))]}

    def redeemed(self, form: Mapping[str, str], authorization: str) -> Claims | None:
        """The tokens of a code, once, for the client that can prove that it asked for it."""
        asked = self.codes.pop(form.get("code", ""), None)
        name, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        is_client = (unquote(name), unquote(secret).replace("+", " ")) == (CLIENT, CLIENT_SECRET)
        if asked is None or not is_client or form.get("redirect_uri") != asked["redirect_uri"]:
            return None
        digest = sha256(form.get("code_verifier", "").encode()).digest()
        if urlsafe_b64encode(digest).rstrip(b"=").decode() != asked.get("code_challenge"):
            return None
        now_s = int(time.time())
        claims = {
            **{
                "iss": self.issuer,
                "aud": CLIENT,
                "iat": now_s,
                "exp": now_s + 300,
                "nonce": asked.get("nonce"),
            },
            **{"sub": asked["person"], **self.people.get(asked["person"], {})},
        }
        token = (self.forge or OwnProvider.signed)(self, claims)
        return {"access_token": secrets.token_urlsafe(8), "token_type": "Bearer", "id_token": token}


class _Handler(BaseHTTPRequestHandler):
    provider: OwnProvider
    wbufsize = -1
    """An answer goes in one piece."""

    def do_GET(self) -> None:
        found = {
            "/.well-known/openid-configuration": self.provider.document,
            "/jwks": self.provider.keys,
        }.get(self.path)
        self._answer(404 if found is None else 200, {} if found is None else found())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[-1] for name, values in parse_qs(body).items()}
        tokens = self.provider.redeemed(form, self.headers.get("authorization", ""))
        self._answer(400 if tokens is None else 200, tokens or {"error": "invalid_grant"})

    def _answer(self, status: int, document: Claims) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def providing() -> Iterator[OwnProvider]:
    """A provider that answers at a port of its own."""
    provider = OwnProvider()
    handler = type("Handler", (_Handler,), {"provider": provider})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        provider.issuer = f"http://localhost:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()


# Lies


def _changed(**changes: object) -> Forge:
    """Signed as it should be, with these claims (None: without them)."""

    def forge(provider: OwnProvider, claims: Claims) -> str:
        told = {name: value for name, value in {**claims, **changes}.items() if value is not None}
        return provider.signed(told)

    return forge


def _of_nobody(provider: OwnProvider, claims: Claims) -> str:
    parts = [{"alg": "none"}, claims]
    told = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*told, ""])


def _of_another_key(provider: OwnProvider, claims: Claims) -> str:
    return jwt.encode({"alg": "RS256", "kid": "1"}, claims, provider.other)


def _by_secret(secret: Callable[[OwnProvider], bytes]) -> Forge:
    """Signed with a text that is known to others, as if it were a secret."""

    def forge(provider: OwnProvider, claims: Claims) -> str:
        key = OctKey.import_key(secret(provider))
        return jws.serialize_compact({"alg": "HS256"}, json.dumps(claims).encode(), key)

    return forge


def _of_other_claims(provider: OwnProvider, claims: Claims) -> str:
    """The claims of someone else under a signature that was made for these."""
    head, _, mark = provider.signed(claims).split(".")
    other = urlsafe_b64encode(json.dumps({**claims, "sub": "olga"}).encode()).rstrip(b"=").decode()
    return f"{head}.{other}.{mark}"


LIES: Final[Mapping[str, Forge]] = {
    "another nonce": _changed(nonce="another"),
    "no nonce": _changed(nonce=None),
    "another audience": _changed(aud="another"),
    "several audiences, of another": _changed(aud=[CLIENT, "another"], azp="another"),
    "another issuer": _changed(iss="https://elsewhere.example.com"),
    "no issuer": _changed(iss=None),
    "no subject": _changed(sub=None),
    "over": lambda provider, claims: _changed(exp=claims["iat"] - _FAR_S)(provider, claims),
    "of the future": lambda provider, claims: _changed(
        iat=claims["iat"] + _FAR_S, exp=claims["iat"] + 2 * _FAR_S
    )(provider, claims),
    "signed by nobody": _of_nobody,
    "signed with another key": _of_another_key,
    "signed with the client's secret": _by_secret(lambda _: CLIENT_SECRET.encode()),
    "signed with the public key": _by_secret(lambda provider: provider.key.as_pem(private=False)),
    "of other claims": _of_other_claims,
    "no token": lambda *_: "nonsense",
}
