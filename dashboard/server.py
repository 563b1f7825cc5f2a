"""The dashboard as one ASGI application: Streamlit, its collector frozen after the imports, safe headers."""

from __future__ import annotations

import gc
import importlib
import logging
import pkgutil
import re
import secrets
import socket
import sys
import time
from asyncio import BaseTransport, Lock, create_task, sleep, to_thread
from asyncio.trsock import TransportSocket
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from threading import Thread
from typing import Any, Final

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from streamlit import cli_util, runtime
from streamlit import logger as streamlit_logger
from streamlit.runtime import app_session
from streamlit.runtime.scriptrunner import get_script_run_ctx
from uvicorn.config import HTTP_PROTOCOLS

from core.doors.alerting import Watch
from core.doors.http import openclaw
from core.doors.http.app import Api, BelowPath, Incoming
from core.doors.http.connections import bounded_protocol, raise_limit
from core.doors.http.guard import PATIENCE_S, has_proxy_headers, host_of
from core.doors.http.observed import OTHER, Observed
from core.doors.http.proxied import Proxied
from core.doors.http.refusals import Full, TooLarge, refused
from core.doors.http.serving import doors, is_door_path
from core.doors.logs import acting, start_log
from core.doors.service import Service
from core.errors import ArmscopeError, Denied
from core.flows.identity import note_denied
from core.records.actor import Action, Actor, may
from core.records.member import session_of
from core.settings import LogFormat, LogLevel, base_path, set_variables
from dashboard import who
from dashboard.configuration import PACKAGE, STREAMLITS, options, own_names
from dashboard.gate import ACTOR, PERSON, SIGN_IN, Gate, is_for_people
from dashboard.open_files import (
    Owners,
    Person,
    give_back,
    keep_sessions,
    quieten,
    sessions_allowed,
    sockets_allowed,
)
from dashboard.pages import OVERVIEW, PAGES
from dashboard.reading import meant_learner, opened
from dashboard.sentences.sign_in import full, no_page
from dashboard.sign_in import SignIn
from dashboard.sign_in_page import sign_in_page
from dashboard.start_page import start_page
from dashboard.who import BROWSER_COOKIE
from dashboard.widgets.frame.window import WIDTH_COOKIE

_OPENING_S: Final = 60
_INLINE: Final = " ".join(f"'sha256-{digest}'" for digest in start_page().scripts)
"""The scripts inside the page itself, which the policy lets run and no other."""
_POLICY: Final = (
    f"default-src 'self'; script-src 'self' {_INLINE}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws: wss: data: blob:; "
    "worker-src 'self' blob:; frame-ancestors 'none'; object-src 'none'; base-uri 'self'; form-action 'self'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)
_HINT: Final = "Sec-CH-Viewport-Width"
_HEAVY: Final = ("numpy", "pandas", "plotly.graph_objects", "scipy.special", "orjson", "pyarrow", "core")
_COLLECTED_AFTER: Final = 10_000
"""Objects made and still there before the collector looks at them."""
_TURN_S: Final = 0.0002
_SCRIPTS: Final = ("dashboard.app", "dashboard.commands")
"""Modules that run on import: the router, its pages, the command."""


_LOOKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_CLOSED: Final = "/_stcore/metrics"
"""Streamlit's path for the number of sessions; no page of ours needs it."""
_ROOT: Final = re.compile(rb"; path=/(?=;|$)", re.IGNORECASE)
_PLAIN: Final = {"ws": "http", "wss": "https"}
_NAMES: Final = STREAMLITS | {"", *(page.name for page in PAGES)}
_ASSETS: Final = frozenset(("/app/{rest}", "/component/{rest}", "/favicon.png", "/static/{rest}"))
"""Routes of files that belong to the program; a page asks for dozens."""
MOST_UPLOADED: Final = 1 << 30
"""Bytes of uploads that all pages hold together; one page may hold half of it."""
OWNERS: Final = Owners()
_LATER: Final = {"retry-after": "10"}
_UNREAD: Final = {"connection": "close"}
"""Headers of a refusal whose body was not read."""
_BY_FILES: Final[tuple[Action, ...]] = ("ingest", "reward")
"""Actions for which pages take files."""
_PAGES: Final = frozenset(("/", *(f"/{page.name}" for page in PAGES)))
_OPENCLAWS_PAGE: Final = f"{openclaw.PREFIX}/dashboard"


def template_of(path: str) -> str:
    """Return the route of a path of the pages; the rest of a path may be anything.

    >>> [template_of(path) for path in ("/", "/runs", "/media/a.csv", "/secret")]
    ['/', '/runs', '/media/{rest}', 'other']
    """
    first, _, rest = path.strip("/").partition("/")
    if first not in _NAMES and f"/{first}" != SIGN_IN:
        return OTHER
    return f"/{first}/{{rest}}" if rest else f"/{first}"


def names_this_machine(host: str) -> bool:
    """Return whether a Host header names this machine itself and nothing else.

    >>> [names_this_machine(host) for host in ("localhost:8501", "127.0.0.1", "[::1]:8501", "evil.example")]
    [True, True, True, False]
    >>> [names_this_machine(host) for host in ("localhost.", "me@127.0.0.1", "127.0.0.1:80.evil.example")]
    [False, False, False]
    """
    return host_of(host) in st.get_option("server.allowedHosts")


class OwnPages:
    """Answers only requests that name this machine; only its own pages may write and open web sockets.

    No foreign page gets through: neither one whose name is bound to this address, nor one of another server of this
    machine, which differs in the port alone. A page states its origin with every web socket and write, and with reads
    across origins. It must be scheme, name and port of the requested address. So a tunnel from another port works.
    """

    def __init__(self, app: ASGIApp, *, signs_in: bool = False) -> None:
        self._app = app
        self._signs_in = signs_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope, signs_in=self._signs_in) if scope["type"] in {"http", "websocket"} else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send(
                {"type": "websocket.close", "code": 1008}
            )  # before it was accepted: answered with a 403
        else:
            await refusal(scope, receive, send)


def _refusal(scope: Scope, *, signs_in: bool) -> PlainTextResponse | None:
    """Return the answer to a foreign request; None for the machine's own pages."""
    headers = Headers(scope=scope)
    host = ",".join(headers.getlist("host"))
    if not names_this_machine(host):
        return PlainTextResponse(
            "armscope answers by its own name only: use localhost, or the name in redirect_uri.\n",
            status_code=421,
        )
    if has_proxy_headers(headers) or (not signs_in and scope.get("http_version", "1.1") < "1.1"):
        return PlainTextResponse(
            "armscope takes no requests from a proxy, and none in HTTP/1.0: no user signs in here.\n",
            status_code=403,
        )
    origins = headers.getlist("origin")
    scheme = _PLAIN.get(scope["scheme"], scope["scheme"])
    may_be_silent = scope["type"] == "http" and scope["method"] in _LOOKING
    if origins != [f"{scheme}://{host}"] and not (may_be_silent and not origins):
        return PlainTextResponse("armscope answers its own pages only.\n", status_code=403)
    if scope["path"].rstrip("/") == _CLOSED:
        return PlainTextResponse("There is nothing here.\n", status_code=404)
    return None


class Beside:
    """Answers programs at the paths of the HTTP doors; pages answer everything else.

    The doors check callers themselves: programs send no Origin, which pages require. Where people sign in, no caller
    is the machine's user, so a program needs its token. OpenClaw's page has none and leads to the sign-in.
    """

    def __init__(self, app: ASGIApp, *, signs_in: bool = False, asks_tokens: bool = False) -> None:
        self._app = app
        self._signs_in = signs_in
        self._asks_tokens = signs_in or asks_tokens
        self._doors: Api | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_door_path(scope["path"]):
            await self._app(scope, receive, send)
        elif self._signs_in and scope["path"].rstrip("/") == _OPENCLAWS_PAGE:
            await RedirectResponse(f"{base_path()}{SIGN_IN}", status_code=303)(scope, receive, send)
        else:
            if self._doors is None:
                self._doors = await to_thread(_doors, signs_in=self._signs_in, asks_tokens=self._asks_tokens)
            await self._doors(scope, receive, send)


@cache
def _doors(*, signs_in: bool, asks_tokens: bool) -> Api:
    """Return the doors at a desk over the store that the pages read, too."""
    return doors(
        Service(store=opened().store, learner=meant_learner()),
        hosts=st.get_option("server.allowedHosts"),
        asks_tokens=asks_tokens,
        signs_in=signs_in,
    )


class SafeHeaders:
    """Adds the security headers that Streamlit doesn't send to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        # Other applications of the same host get none of the cookies, and lose none of theirs.
        path = f"; Path={base_path() or '/'}".encode()

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name, _ROOT.sub(path, value) if name == b"set-cookie" else value)
                    for name, value in message.get("headers", [])
                ]
                message["headers"] = [*headers, *_HEADERS]
            await send(message)

        await self._app(scope, receive, send_safely)


class Width:
    """Learns the width of the window.

    Chromium sends it in a client hint on request. The page's web socket carries no hints, so a cookie of this session
    stores the width. Other browsers only report whether they are a phone.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Headers(scope=scope)
        width, is_page = request.get(_HINT, ""), request.get("sec-fetch-dest") == "document"

        async def send_asking(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # A page the browser still has is answered without its kind (304), and says its width none the less.
                if is_page or headers.get("content-type", "").startswith("text/html"):
                    headers["accept-ch"] = headers["critical-ch"] = _HINT
                    if width.isdecimal() and len(width) < 6:
                        headers.append("set-cookie", f"{WIDTH_COOKIE}={width}; Path=/; SameSite=Strict")
            await send(message)

        await self._app(scope, receive, send_asking)


class Promptly:
    """Sends pages and answers at once, in pieces of any size.

    Streamlit's listening socket names no protocol, so asyncio does not recognise TCP and keeps Nagle's algorithm on.
    Small writes then wait some 40 ms for a delayed acknowledgement.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            connection = connection_of(receive)
            if connection is not None:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._app(scope, receive, send)


def connection_of(receive: Receive) -> TransportSocket | None:
    """Return the TCP connection behind a request or a web socket, where the server shows it; None elsewhere."""
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    connection = transport.get_extra_info("socket") if isinstance(transport, BaseTransport) else None
    is_tcp = isinstance(connection, TransportSocket) and connection.family in {
        socket.AF_INET,
        socket.AF_INET6,
    }
    return connection if is_tcp else None


class Sockets:
    """Bounds the web sockets, one for each open page, of all people and of one; hands their messages on in turn.

    A message starts a thread. Hundreds in one turn of the event loop would keep all other requests waiting.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: Counter[object] = Counter()
        self._most = sockets_allowed(raise_limit())
        self._turn = Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        person, most_of_person = scope.get(PERSON), self._most // 4
        of_person = 0 if person is None else self._open[person]
        is_full = self._open.total() >= self._most or of_person >= most_of_person
        is_socket = scope["type"] == "websocket"
        if is_full and is_socket:
            refusal = PlainTextResponse("Too many pages are open. Close some.\n", 503, _LATER)
            await WebSocket(scope, receive, send).send_denial_response(refusal)
        elif is_full and scope["type"] == "http" and scope["path"] in _PAGES and is_for_people(scope):
            again = [("Try again", base_path() + scope["path"])]
            page = sign_in_page(full(self._most, most_of_person), again)
            await HTMLResponse(page, 503, _LATER)(scope, receive, send)
        elif is_socket:
            self._open[person] += 1
            try:
                await self._app(scope, partial(self._in_turn, receive), send)
            finally:
                self._open[person] -= 1
                self._open += Counter()  # without those at 0
        else:
            await self._app(scope, receive, send)

    async def _in_turn(self, receive: Receive) -> Message:
        message = await receive()
        async with self._turn:
            await sleep(0)
        return message


class Files:
    """Answers files of pages and uploads to their person alone, and bounds the uploads held in memory.

    An upload needs the right to what pages take files for, before its bytes are read. Its bytes count as they arrive.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._coming: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first, _, rest = scope.get("path", "")[1:].partition("/")
        kind, _, of = rest.partition("/")
        is_upload = (first, kind) == ("_stcore", "upload_file")
        if scope["type"] != "http" or not (is_upload or first == "media"):
            await self._app(scope, receive, send)
            return
        session, person = of.partition("/")[0], scope.get(PERSON)
        owns = _person_of(session) == person if is_upload else OWNERS.has(rest, person)
        if person is not None and not owns:
            await PlainTextResponse("There is nothing here.\n", 404)(scope, receive, send)
        elif scope["method"] == "PUT":
            await self._take(session, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _take(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand an upload on piece by piece, or answer why it is refused."""
        incoming, n_bytes = Incoming(receive, PATIENCE_S, Headers(scope=scope)), 0

        async def counted() -> Message:
            nonlocal n_bytes
            message = await incoming()
            size = len(message.get("body", b""))
            n_bytes += size
            self._coming[session] += size
            self._check_room(session, 0)
            return message

        try:
            await to_thread(_check_right, scope.get(ACTOR))
            declared = Headers(scope=scope).get("content-length", "")[:20]
            if not declared.isdecimal() or not int(declared):
                await PlainTextResponse("An upload must declare its length.\n", 411)(scope, receive, send)
                return
            self._check_room(session, int(declared))
            await self._app(scope, counted, send)
        except ClientDisconnect:
            return
        except ArmscopeError as problem:
            answer = refused(problem)
            headers = {**_UNREAD, **({} if answer.status != 503 else _LATER)}
            words = f"{problem.problem} {problem.next_step}\n"
            await PlainTextResponse(words, answer.status, headers)(scope, receive, send)
        finally:
            self._coming[session] -= n_bytes
            self._coming += Counter()  # without those at 0

    def _check_room(self, session: str, n_bytes: int) -> None:
        """Raise `TooLarge` beyond the share of a page or a person, and `Full` beyond that of all together."""
        held, person = _uploaded() + self._coming, _person_of(session)
        own = held[session]
        if person is not None:
            own = sum(size for one, size in held.items() if one == session or _person_of(one) == person)
        if own + n_bytes > MOST_UPLOADED // 2:
            raise TooLarge(
                f"A person's pages must hold at most {MOST_UPLOADED >> 21} MiB of uploads, got more.",
                next_step="Remove files from open pages, or import them with the command armscope import FILE.",
            )
        if held.total() + n_bytes > MOST_UPLOADED:
            raise Full(
                f"All pages together must hold at most {MOST_UPLOADED >> 20} MiB of uploads, got more.",
                next_step="Try again later, or import the file with the command armscope import FILE.",
                wait_s=int(_LATER["retry-after"]),
            )


def _check_right(actor: Actor | None) -> None:
    """Raise `Denied`, and count it, for a signed-in person who may neither import nor reward anywhere."""
    if actor is None:
        return
    learners = [None, *(grant.learner for grant in actor.grants)]
    if any(may(actor, action, learner) for action in _BY_FILES for learner in learners):
        return
    context = opened()
    note_denied(context.store, actor, _BY_FILES[0], context.clock())
    raise Denied(
        "Uploading a file needs the right to import or to reward, which this member has not.",
        next_step="Ask an operator to import the file, or for another role.",
    )


def _person_of(session: str) -> Person | None:
    """Return whose page a session is, or None."""
    manager = getattr(runtime.get_instance(), "_session_mgr", None)
    known = None if manager is None else manager.get_session_info(session)
    claims = session_of(getattr(known.session, "_user_info", {})) if known is not None else None
    return None if claims is None else (claims.issuer, claims.subject)


def _person_here() -> Person | None:
    here = who.session_here() if get_script_run_ctx(suppress_warning=True) is not None else None
    return None if here is None else (here.issuer, here.subject)


def _uploaded() -> Counter[str]:
    storage = getattr(runtime.get_instance().uploaded_file_mgr, "file_storage", {})
    return Counter(
        {session: sum(len(file.data) for file in [*files.values()]) for session, files in [*storage.items()]}
    )


class Streamlits:
    """Hands requests on below the base path, where Streamlit has its routes.

    Streamlit answers an unknown path with a page that loads nothing; people get a sentence instead.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._path = base_path()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            path = scope["path"]
            first = path.lstrip("/").partition("/")[0]
            if scope["type"] == "http" and first not in _NAMES and is_for_people(scope):
                names = path.strip("/").split("/")
                under = "/".join(names[:-1] if names[-1] in _NAMES else names)
                page = sign_in_page(no_page(path, under), [("Overview", f"{self._path}/")])
                await HTMLResponse(page, status_code=404)(scope, receive, send)
                return
            raw: bytes = scope.get("raw_path") or path.encode()
            scope = {**scope, "path": f"{self._path}{path}", "raw_path": self._path.encode() + raw}
        await self._app(scope, receive, send)


def _to_the_start(request: Request) -> RedirectResponse:
    """Redirect the first page's other names to the root."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{base_path()}/{query}", status_code=308)


def _start(request: Request) -> Response:
    """Return the start of every page; the browser revalidates it each time."""
    page = start_page(base_path())
    known = page.tag in request.headers.get("if-none-match", "")
    answer = Response(
        b"" if known else page.html,
        status_code=304 if known else 200,
        media_type=None if known else "text/html",
        headers={"etag": page.tag, "cache-control": "no-cache"},
    )
    if BROWSER_COOKIE not in request.cookies:
        answer.set_cookie(BROWSER_COOKIE, secrets.token_urlsafe(24), httponly=True, samesite="strict")
    return answer


@asynccontextmanager
async def warm(_: object) -> AsyncIterator[None]:
    """Import what pages need before the first visitor, and leave all of it out of later collections.

    A collection holds the interpreter; over our imports it takes ten times as long as drawing a form. A rerun
    leaves some three thousand objects behind: what is due after each of them is not due four times in one.

    Pages and doors are threads of one interpreter. While a batch of runs comes in, a page that draws gets it back
    only when its turn comes, a dozen times in a rerun: turns are short, or each would cost it five milliseconds.
    """
    sys.setswitchinterval(_TURN_S)
    for name in (*_HEAVY, *_own_modules()):
        importlib.import_module(name)
    remember_names()
    storage = bound_handles()
    if who.people_sign_in() and runtime.exists():
        OWNERS.watch(runtime.get_instance().media_file_mgr, _person_here)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_AFTER, *gc.get_threshold()[1:])
    watch = Watch(lambda: replace(opened(), on_act=acting("alerts"))).start()
    giving_back = create_task(give_back(storage))
    yield
    giving_back.cancel()
    watch.stop()


def bound_handles() -> object:
    """Keep no more sessions of closed pages than the system grants handles for. Return their storage."""
    quieten()
    join_log()
    manager = getattr(runtime.get_instance(), "_session_mgr", None) if runtime.exists() else None
    storage = getattr(manager, "_session_storage", None)
    keep_sessions(storage, sessions_allowed(raise_limit()))
    return storage


def join_log() -> None:
    """Have the loggers of Streamlit and of its server write into the log of this process alone."""
    setattr(streamlit_logger, "setup_formatter", lambda logger: setattr(logger, "propagate", True))  # noqa: B010
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] in {"streamlit", "uvicorn", "websockets"} and name != "uvicorn.access":
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True


def remember_names() -> None:
    """Have Streamlit spell the names of the theme's options once, not all of them in every rerun."""
    spelt = getattr(app_session, "to_snake_case", None)
    if callable(spelt):
        setattr(app_session, "to_snake_case", cache(spelt))  # noqa: B010 - a private attribute of the session


def _own_modules() -> Iterator[str]:
    """Yield everything of ours that a page may import."""
    for module in pkgutil.walk_packages([str(PACKAGE)], "dashboard."):
        if not module.name.startswith(_SCRIPTS):
            yield module.name


def make_app(
    sign_in: SignIn | None = None, proxies: Sequence[str] = (), *, asks_tokens: bool = False
) -> st.App:
    """Return the application of this process; ``sign_in`` adds the gate for people behind these proxies.

    With ``asks_tokens`` programs need a token even where no user signs in.
    """
    signs_in = sign_in is not None
    path = base_path()
    middleware = [
        Middleware(BelowPath, path=path),
        Middleware(Observed, template=template_of, quiet=_ASSETS),
        Middleware(Promptly),
        Middleware(Beside, signs_in=signs_in, asks_tokens=asks_tokens),
    ]
    middleware += [Middleware(SafeHeaders), Middleware(OwnPages, signs_in=signs_in)]
    if sign_in is not None:
        middleware = [Middleware(Proxied, proxies=proxies), *middleware, Middleware(Gate, sign_in=sign_in)]
    return st.App(
        PACKAGE / "app.py",
        lifespan=warm,
        routes=[
            Route(f"{path}/{OVERVIEW.name}", _to_the_start),
            *(
                Route(f"{path}/{name}", _start)
                for name in ("", *(page.name for page in PAGES if page != OVERVIEW))
            ),
        ],
        middleware=[
            *middleware,
            Middleware(Width),
            *[Middleware(one) for one in (Sockets, Files, Streamlits)],
        ],
    )


def serve(
    *,
    address: str,
    port: int,
    opens: str | None,
    sign_in: SignIn | None = None,
    proxies: Sequence[str] = (),
    asks_tokens: bool = False,
    log: tuple[LogFormat, LogLevel] = ("text", "warning"),
) -> None:
    """Serve until stopped; ``opens`` is the address for a browser of this machine, None for none."""
    start_log(*log)
    names = [*own_names(address), *([] if sign_in is None else [sign_in.host])]
    config: dict[str, Any] = {
        **options(),
        "server.address": address,
        "server.allowedHosts": names,
        "server.baseUrlPath": base_path(),
        "server.port": port,
        # Otherwise Streamlit offers each page's reader to install files for agents, and writes them.
        "server.headless": True,
        # No other file: one of another application may lie where Streamlit would look.
        "secrets.files": [] if sign_in is None else [str(sign_in.file)],
    }
    # The server under Streamlit would believe any user name that a program of this machine sends.
    set_variables({"FORWARDED_ALLOW_IPS": ""})
    # Streamlit names no protocol to its server, which then takes this one.
    HTTP_PROTOCOLS["auto"] = bounded_protocol()  # type: ignore[assignment]
    if opens is not None:
        Thread(target=_open_browser, args=(opens, address, port), daemon=True).start()
    make_app(sign_in, proxies, asks_tokens=asks_tokens).run(config=config)


def _open_browser(url: str, address: str, port: int) -> None:
    """Open a browser once the server takes connections, or give up after a minute."""
    for _ in range(_OPENING_S * 10):
        with suppress(OSError), socket.create_connection((address, port), timeout=1):
            cli_util.open_browser(url)
            return
        time.sleep(0.1)
