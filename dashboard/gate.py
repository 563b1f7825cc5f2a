"""Gate of a server with sign-in: only active sessions get an answer.

Streamlit serves media, components and web sockets without a check. So every path needs a session, except the sign-in
and Streamlit's own scripts and styles. Programs use the HTTP doors with a token. Streamlit's code reads the cookie.
The members decide whether its session is active.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.user_info import generate_login_redirect_url
from streamlit.web.server.server_util import AUTH_COOKIE_NAME, get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value

from core.doors.http.guard import SAFE_METHODS
from core.errors import StoreError, Unidentified
from core.flows.identity import note_denied
from core.records.actor import Actor
from core.records.member import Session, session_of
from dashboard import who
from dashboard.pages import PAGES
from dashboard.reading import opened
from dashboard.sentences.sign_in import SignInMessage, SignInState, button, next_step, refused
from dashboard.sign_in import SignIn, session_ms
from dashboard.sign_in_page import sign_in_page
from dashboard.wording import Words

SIGN_IN: Final = "/sign-in"
_SIGN_OUT: Final = "/auth/logout"
_BACK: Final = "/oauth2callback"
_OPEN: Final = frozenset({"/auth/login", _BACK, _SIGN_OUT})
"""Streamlit's paths for sign-in and sign-out."""
_SCRIPTS: Final = "/static/"
_SPLIT: Final = b"chunks-"
_REQUESTED: Final = "armscope-wanted"
"""Cookie with the address that was requested before sign-in."""
_MOST_REQUESTED: Final = 2_000
_REQUESTED_S: Final = 600
PERSON: Final = "armscope.person"
"""Key of the signed-in person, issuer and subject, in an admitted request's scope."""
ACTOR: Final = "armscope.actor"
"""Key of the same person as an actor."""
_PAGES: Final = frozenset(f"/{page.name}" for page in PAGES)
_BY_OWN_PAGE: Final = frozenset({"same-origin", "none"})


class Presented(NamedTuple):
    """A request's cookie: its session, or the reason why it has none."""

    session: Session | None
    state: SignInState = "out"


class Gate:
    """Lets through who has a session that holds, and shows the others the way in."""

    def __init__(self, app: ASGIApp, sign_in: SignIn) -> None:
        self._app = app
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        if self._sign_in.is_encrypted or scope["scheme"] in {"https", "wss"}:
            send = _encrypted(send)
        scope = {**scope}
        refusal = await self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send(
                {"type": "websocket.close", "code": 1008}
            )  # answered with a 403, as no handler accepted it
        else:
            refusal.headers["cache-control"] = "no-store"
            await refusal(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer in place of a page, or None for an admitted request."""
        path = scope["path"]
        if scope["type"] == "http":
            if path == _SIGN_OUT and Headers(scope=scope).get("sec-fetch-site", "none") not in _BY_OWN_PAGE:
                return PlainTextResponse("Sign out on a page of armscope.\n", status_code=403)
            code = QueryParams(scope["query_string"]).get("error") if path == _BACK else None
            if code is not None:  # Streamlit would lead back to the sign-in page without a word
                return self._way_in(refused(code), None, 401)
            if path in _OPEN or path.startswith(_SCRIPTS):
                return None
            if path.startswith(f"{SIGN_IN}/"):
                return self._to_provider(path.removeprefix(f"{SIGN_IN}/"))
        presented = self._presented(HTTPConnection(scope).cookies)
        try:
            actor, state = await to_thread(_admitted, presented)
        except StoreError:
            return PlainTextResponse("The members can't be read just now. Try again.\n", status_code=503)
        if presented.session is not None and state is None:
            scope[PERSON] = (presented.session.issuer, presented.session.subject)
            scope[ACTOR] = actor
        return self._answer(scope, presented.session, state)

    def _answer(self, scope: Scope, session: Session | None, state: SignInState | None) -> Response | None:
        is_sign_in = scope["path"] == SIGN_IN
        if state is None:
            start = RedirectResponse(f"{self._sign_in.path}/", status_code=303)
            return start if is_sign_in else _to_requested(scope, self._sign_in.path)
        if is_sign_in or (scope["type"] == "http" and is_for_people(scope)):
            message = next_step(state, session, session_ms())
            return _wanting(scope, self._way_in(message, session, 200 if is_sign_in else 401))
        return PlainTextResponse("Sign in first.\n", status_code=401)

    def _presented(self, cookies: Mapping[str, str]) -> Presented:
        try:
            signed = cookies.get(AUTH_COOKIE_NAME, "").encode("latin-1")
        except UnicodeError:
            return Presented(None)
        decoded = decode_signed_value(get_cookie_secret(), AUTH_COOKIE_NAME, signed)
        if decoded is None:
            return Presented(None)
        if decoded.startswith(_SPLIT):
            # Its parts are signed one by one: those of two sign-ins of one account could be put together so that
            # they name another user.
            return Presented(None, "large")
        claims = json.loads(decoded)
        is_ours = claims.get("origin") == self._sign_in.origin and claims.get("is_logged_in") is True
        return Presented(session_of(claims) if is_ours else None)

    def _way_in(self, message: SignInMessage, session: Session | None, status: int) -> Response:
        path = self._sign_in.path
        links = [
            (button(name, is_first=session is None), f"{self._sign_in.origin}{path}{SIGN_IN}/{quote(name)}")
            for name in self._sign_in.providers
        ]
        if session is not None:
            links.append((Words("Sign out"), f"{path}{_SIGN_OUT}"))
        return HTMLResponse(sign_in_page(message, links), status_code=status)

    def _to_provider(self, name: str) -> Response:
        if name not in self._sign_in.providers:
            return PlainTextResponse("There is nothing here.\n", status_code=404)
        return RedirectResponse(generate_login_redirect_url(name), status_code=303)


def _admitted(presented: Presented) -> tuple[Actor, SignInState | None]:
    """Return the actor of the presented cookie, or why it admits no one."""
    if presented.session is None:
        return who.NO_USER, presented.state
    context = opened()
    try:
        return who.acting(context, presented.session).actor, None
    except Unidentified:
        note_denied(context.store, None, "identify", context.clock())
        return who.NO_USER, who.sign_in_state(context, presented.session)


def is_for_people(scope: Scope) -> bool:
    """Return whether a person waits for this page."""
    headers = Headers(scope=scope)
    is_page = headers.get("sec-fetch-dest") == "document" or "text/html" in headers.get("accept", "")
    return is_page and scope["method"] in SAFE_METHODS


def _wanting(scope: Scope, page: Response) -> Response:
    """Return the sign-in page with a note of the requested address; only for our own pages."""
    query = scope["query_string"].decode("latin-1")
    address = quote(f"{scope['path']}?{query}" if query else scope["path"])
    if scope["path"] in _PAGES and len(address) <= _MOST_REQUESTED:
        page.set_cookie(_REQUESTED, address, max_age=_REQUESTED_S, httponly=True, samesite="lax")
    return page


def _to_requested(scope: Scope, path: str) -> Response | None:
    """Redirect once to the address that was requested before sign-in; None without one."""
    requested = HTTPConnection(scope).cookies.get(_REQUESTED) if scope["type"] == "http" else None
    if not requested or scope["path"] != "/" or scope["query_string"]:
        return None
    address = unquote(requested)
    there = address if address.partition("?")[0] in _PAGES else "/"
    onward = RedirectResponse(f"{path}{there}", status_code=303)
    onward.delete_cookie(_REQUESTED)
    return onward


def _encrypted(send: Send) -> Send:
    """Mark all cookies to be sent by TLS only."""

    async def send_secure(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            cookies = headers.getlist("set-cookie")
            del headers["set-cookie"]
            for cookie in cookies:
                attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
                headers.append("set-cookie", cookie if "secure" in attributes else f"{cookie}; Secure")
        await send(message)

    return send_secure
