"""The gate before all paths, with cookies as Streamlit makes them: forged, old, replayed, copied, of others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import pytest
from starlette.types import Message, Receive, Scope, Send
from streamlit.runtime.secrets import secrets_singleton
from streamlit.web.server.server_util import AUTH_COOKIE_NAME
from streamlit.web.server.starlette import starlette_app_utils as signing

from core.doors.http.proxied import Proxied
from core.flows.audit import denials
from core.flows.context import Context
from core.flows.identity import actor_of_session, sign_out
from core.flows.members import remove_member, set_role, sign_out_member
from core.flows.tokens import create_token
from core.records.member import session_of
from dashboard import server
from dashboard.gate import Gate
from dashboard.server import Beside, OwnPages
from dashboard.sign_in import SignIn
from tests.dashboard.signed_in import ORIGIN, SECRET, auth_file, claims, let_in
from tests.dashboard.worlds import context_at

Claims = Mapping[str, object]
PEOPLES: Final = ("/", "/runs", "/reset", "/sign-in", "/nothing")
STREAMLITS: Final = (
    "/media/0a1b2c.csv",
    "/component/x/index.html",
    "/_stcore/stream",
    "/_stcore/health",
    "/_stcore/host-config",
    "/_stcore/upload_file/a/b",
    "/_stcore/bidi-components/x.js",
    "/app/static/x",
    "//media/x",
    "/static",
    "/Static/x.js",
    "/sign-in2",
    "/auth",
    "/auth/login/",
    "/auth/login/x",
)
OPEN: Final = ("/static/js/index.js", "/auth/login", "/oauth2callback")


@pytest.fixture
def context(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A database with a member, on whose pages people sign in."""
    monkeypatch.setenv("ARMSCOPE_AUTH", str(auth_file(tmp_path)))
    monkeypatch.setattr(
        secrets_singleton,
        "_secrets",
        {
            "auth": {
                "cookie_secret": SECRET,
                "redirect_uri": f"{ORIGIN}/oauth2callback",
                "client_id": "armscope",
                "client_secret": "x",
                "server_metadata_url": "https://id.example.com/x",
            }
        },
    )
    context = context_at(database)
    let_in(context, "jo", "viewer")
    return context


def cookie(said: Claims, *, secret: str = SECRET, name: str = AUTH_COOKIE_NAME, origin: str = ORIGIN) -> str:
    """A cookie as Streamlit sets it after a sign-in."""
    signed = signing.create_signed_value(secret, name, json.dumps({"origin": origin, **said}))
    return f"{AUTH_COOKIE_NAME}={signed.decode()}"


class Answer:
    """What came back; status 418: it was let through."""

    def __init__(self, told: Sequence[Message], seen: Sequence[Scope]) -> None:
        self.seen = seen
        self.status = told[0].get("status", 403)
        self.headers = [(name.decode(), value.decode()) for name, value in told[0].get("headers", ())]
        self.body = b"".join(message.get("body", b"") for message in told[1:]).decode()

    def all(self, name: str) -> list[str]:
        return [value for found, value in self.headers if found == name]


def ask(
    path: str = "/",
    *,
    query: str = "",
    kind: str = "http",
    method: str = "GET",
    scheme: str = "http",
    client: str = "192.0.2.9",
    proxies: Sequence[str] = (),
    origin: str = ORIGIN,
    below: str = "",
    around: Callable[[Any], Any] | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
    **headers: str,
) -> Answer:
    """One request to the gate, with nothing but an answer behind it."""
    seen: list[Scope] = []
    told: list[Message] = []

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept", "status": 418})
            return
        cookies = [(b"set-cookie", b"a=1; Path=/"), (b"set-cookie", b"b=2; Secure")]
        await send({"type": "http.response.start", "status": 418, "headers": cookies})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    sign_in = SignIn(file=Path("auth.toml"), origin=origin, providers=("default",), path=below)
    gate: Any = Gate(page, sign_in)
    app = Proxied(gate if around is None else around(gate), proxies)
    named = {"host": "armscope.example.com", "accept": "text/html", **more, **headers}
    scope: Scope = {
        "type": kind,
        "method": method,
        "scheme": scheme,
        "path": path,
        "query_string": query.encode(),
        "client": (client, 1),
        "headers": [
            (name.replace("_", "-").lower().encode(), value.encode()) for name, value in named.items()
        ],
    }
    asyncio.run(app(scope, receive, send))
    return Answer(told, seen)


def test_without_a_session_nothing_is_answered_but_the_way_in(context: Context) -> None:
    assert [ask(path).status for path in OPEN] == [418] * len(OPEN)
    for path in (*PEOPLES, *STREAMLITS):
        answer = ask(path)
        assert answer.status == (200 if path == "/sign-in" else 401), path
        assert f'href="{ORIGIN}/sign-in/default"' in answer.body
        assert answer.all("cache-control") == ["no-store"]
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask("/_stcore/upload_file/a/b", method=method).status == 401
    assert ask("/_stcore/stream", kind="websocket").status == 403
    assert ask("/static/x", kind="websocket").status == 403
    assert ask("/auth/login", kind="websocket").status == 403
    assert ask("/media/x", accept="*/*").body == "Sign in first.\n"


def test_who_has_a_session_that_holds_is_let_through(context: Context) -> None:
    mine = cookie(claims("u-jo"))
    for path in (*STREAMLITS, "/", "/runs"):
        assert ask(path, cookie=mine).status == 418
    assert ask("/_stcore/stream", kind="websocket", cookie=mine).status == 418
    answer = ask("/sign-in", cookie=mine)
    assert (answer.status, answer.all("location")) == (303, ["/"])


def test_a_cookie_counts_only_as_it_was_signed_for_here(context: Context) -> None:
    jo = claims("u-jo")
    whole = cookie(jo)
    value = whole.partition("=")[2]
    payload, _, signature = value.partition(".")
    told, _, mark = value.rpartition(".")
    forged = [
        cookie(jo, secret="another-secret-that-is-long-enough-as-well"),
        cookie(jo, secret=""),
        cookie(jo, name="_streamlit_user_tokens"),
        cookie(jo, origin="https://elsewhere.example.com"),
        cookie({**jo, "is_logged_in": False}),
        cookie({**jo, "is_logged_in": "true"}),
        cookie({**jo, "origin": "http://armscope.example.com"}),
        f"{AUTH_COOKIE_NAME}={json.dumps(jo)}",
        # The first of the mark: of the last two bits say nothing.
        f"{AUTH_COOKIE_NAME}={told}.{'A' if mark[0] != 'A' else 'B'}{mark[1:]}",
        f"{AUTH_COOKIE_NAME}={payload[:-2]}xx.{signature}",
        f"{AUTH_COOKIE_NAME}={payload}",
        f"{AUTH_COOKIE_NAME}=",
        f"{AUTH_COOKIE_NAME}=\\777\\777",
        f"_streamlit_user_1={value}",
    ]
    assert ask(cookie=whole).status == 418
    assert [ask(cookie=one).status for one in forged] == [401] * len(forged)
    # Of several of one name it is the last that Streamlit would take, and so it is here.
    assert ask(cookie=f"{whole}; {forged[0]}").status == 401


def test_parts_of_two_sign_ins_are_not_put_together(context: Context) -> None:
    """Each part of a cookie that is too long for one is signed by itself."""
    said = json.dumps({"origin": ORIGIN, **claims("u-jo")})
    parts = {
        AUTH_COOKIE_NAME: "chunks-2",
        f"{AUTH_COOKIE_NAME}_1": said[:40],
        f"{AUTH_COOKIE_NAME}_2": said[40:],
    }
    sent = "; ".join(
        f"{name}={signing.create_signed_value(SECRET, name, value).decode()}" for name, value in parts.items()
    )
    answer = ask(cookie=sent)
    assert answer.status == 401
    assert "sends more about you than fits into one cookie" in answer.body


def test_a_copied_cookie_dies_with_the_session(context: Context) -> None:
    said = claims("u-jo", ago_s=5)
    copied = cookie(said)
    assert ask(cookie=copied).status == 418
    session = session_of(said)
    assert session is not None
    now_ms = context.clock()
    actor = actor_of_session(context.store, session, now_ms=now_ms)
    sign_out(context.store, actor, now_ms=now_ms, issued_ms=session.issued_ms)
    for path, kind, status in (
        ("/", "http", 401),
        ("/media/x", "http", 401),
        ("/_stcore/stream", "websocket", 403),
    ):
        assert ask(path, kind=kind, cookie=copied).status == status
    assert "Your session is over." in ask(cookie=copied).body


@pytest.mark.parametrize(
    "end",
    [
        lambda context: remove_member(context, "jo"),
        lambda context: sign_out_member(context, "jo"),
    ],
)
def test_what_an_operator_ends_is_over_at_once(context: Context, end: Callable[[Context], object]) -> None:
    mine = cookie(claims("u-jo", ago_s=5))
    assert ask("/media/x", cookie=mine).status == 418
    end(context)
    assert ask("/media/x", cookie=mine).status == 401


def test_a_cookie_of_thirty_days_is_a_session_of_twelve_hours(context: Context) -> None:
    assert ask(cookie=cookie(claims("u-jo", ago_s=12 * 3600 - 60))).status == 418
    assert ask(cookie=cookie(claims("u-jo", ago_s=12 * 3600 + 1))).status == 401


def test_a_stranger_is_refused_told_what_to_hand_on_and_counted(context: Context) -> None:
    answer = ask(cookie=cookie(claims("<b>x</b>")))
    assert answer.status == 401
    assert "No operator has added you yet." in answer.body
    assert "&lt;b&gt;x&lt;/b&gt;" in answer.body
    assert "<b>" not in answer.body
    assert [(one.actor, one.action) for one in denials(context).denials] == [("", "identify")]


def test_who_is_a_member_of_nothing_gets_to_the_page_that_says_so(context: Context) -> None:
    set_role(context, "jo", None)
    assert ask(cookie=cookie(claims("u-jo"))).status == 418


def test_the_way_to_the_provider_is_streamlits_own(context: Context) -> None:
    answer = ask("/sign-in/default")
    assert answer.status == 303
    assert answer.all("location")[0].startswith("/auth/login?provider=")
    for name in ("google", "", "../auth/logout", "default/"):
        assert ask(f"/sign-in/{name}").status == 404


def test_who_followed_a_link_comes_to_its_page_after_signing_in(context: Context) -> None:
    mine = cookie(claims("u-jo"))
    (set_,) = ask("/runs", query="sort=%22a%22&arm=x").all("set-cookie")
    wanted = set_.partition(";")[0]
    assert "HttpOnly" in set_
    onward = ask("/", cookie=f"{mine}; {wanted}")
    assert (onward.status, onward.all("location")) == (303, ["/runs?sort=%22a%22&arm=x"])
    (gone,) = onward.all("set-cookie")
    assert "Max-Age=0" in gone, "once"
    assert ask("/", query="x=1", cookie=f"{mine}; {wanted}").status == 418, "somewhere else by now"
    assert ask("/runs", kind="websocket", cookie=f"{mine}; {wanted}").status == 418
    assert ask("/", cookie=wanted).status == 401, "it is no session"


def test_below_a_path_all_that_leads_on_leads_below_it(context: Context) -> None:
    below, mine = "/tools/armscope", cookie(claims("u-jo"))
    assert f'href="{ORIGIN}{below}/sign-in/default"' in ask("/runs", below=below).body
    assert f'href="{below}/auth/logout"' in ask(below=below, cookie=cookie(claims("u-stranger"))).body
    assert ask("/sign-in", below=below, cookie=mine).all("location") == [f"{below}/"]
    (set_,) = ask("/runs", query="arm=x", below=below).all("set-cookie")
    onward = ask("/", below=below, cookie=f"{mine}; {set_.partition(';')[0]}")
    assert onward.all("location") == [f"{below}/runs?arm=x"]
    for planted in ("//evil.example", "/auth/logout", f"{below}/runs"):
        wanted = f"armscope-wanted={quote(planted, safe='')}"
        assert ask("/", below=below, cookie=f"{mine}; {wanted}").all("location") == [f"{below}/"]


@pytest.mark.parametrize(
    "planted",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/auth/logout", "/runs/../auth/logout"],
)
def test_no_planted_note_leads_elsewhere(context: Context, planted: str) -> None:
    answer = ask("/", cookie=f"{cookie(claims('u-jo'))}; armscope-wanted={quote(planted, safe='')}")
    assert (answer.status, answer.all("location")) == (303, ["/"])
    assert not [one for one in ask(planted).all("set-cookie") if "wanted" in one]


def test_no_foreign_page_signs_anybody_out(context: Context) -> None:
    for said, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 418), ("none", 418)):
        assert ask("/auth/logout", sec_fetch_site=said).status == status


def test_who_is_sent_back_by_the_provider_is_told_so(context: Context) -> None:
    for query, code in (
        ("error=access_denied&state=x", "(access_denied)"),
        ("error=", None),
        ("error=%3Cscript%3E", None),
        (f"error={'a' * 41}", None),
        ("error_description=x&error=Access%20denied", None),
    ):
        answer = ask("/oauth2callback", query=query)
        assert (answer.status, answer.all("cache-control")) == (401, ["no-store"])
        assert "You were not signed in." in answer.body
        assert f'href="{ORIGIN}/sign-in/default"' in answer.body
        assert "<script>" not in answer.body
        assert "aaaa" not in answer.body
        assert ("refused it (" in answer.body) == (code is not None)
        assert code is None or code in answer.body
    assert ask("/oauth2callback", query="code=1&state=x").status == 418


def test_cookies_go_by_tls_alone_wherever_there_is_tls(context: Context) -> None:
    mine = cookie(claims("u-jo"))
    secure = ["a=1; Path=/; Secure", "b=2; Secure"]
    assert ask(cookie=mine).all("set-cookie") == secure
    assert ask("/oauth2callback").all("set-cookie") == secure
    near = "http://localhost:8501"
    assert ask("/oauth2callback", origin=near).all("set-cookie") == ["a=1; Path=/", "b=2; Secure"]
    assert ask("/oauth2callback", origin=near, scheme="https").all("set-cookie") == secure


# Behind a proxy


def test_only_a_named_proxy_is_believed_and_nobody_behind_it(context: Context) -> None:
    said = {
        "x_forwarded_proto": "https",
        "x_forwarded_host": "armscope.example.com",
        "x_forwarded_for": "10.0.0.7",
        "x_real_ip": "10.0.0.7",
        "forwarded": "for=10.0.0.7",
        "via": "1.1 proxy",
    }
    mine = cookie(claims("u-jo"))

    def seen(client: str, proxies: Sequence[str], kind: str = "http") -> tuple[str, str, set[bytes]]:
        answer = ask(
            "/runs",
            kind=kind,
            client=client,
            proxies=proxies,
            cookie=mine,
            more=said,
            host="10.0.0.1:8501",
        )
        (scope,) = answer.seen
        headers = dict(scope["headers"])
        return scope["scheme"], headers[b"host"].decode(), set(headers)

    known = {b"host", b"accept", b"cookie"}
    assert seen("10.0.0.7", ["10.0.0.7"]) == ("https", "armscope.example.com", known)
    assert seen("10.0.0.7", ["10.0.0.7"], "websocket") == ("wss", "armscope.example.com", known)
    assert seen("::1", ["0:0:0:0:0:0:0:1"]) == ("https", "armscope.example.com", known)
    assert seen("::ffff:10.0.0.7", ["10.0.0.7"]) == ("https", "armscope.example.com", known)
    assert seen("", ["10.0.0.7"]) == ("http", "10.0.0.1:8501", known)
    assert seen("192.0.2.9", ["10.0.0.7"]) == ("http", "10.0.0.1:8501", known)
    assert seen("127.0.0.1", []) == ("http", "10.0.0.1:8501", known)


def test_of_several_the_last_is_the_one_that_the_named_proxy_said(context: Context) -> None:
    answer = ask(
        cookie=cookie(claims("u-jo")),
        client="10.0.0.7",
        proxies=["10.0.0.7"],
        x_forwarded_proto="gopher, https",
        x_forwarded_host="evil.example, armscope.example.com",
    )
    (scope,) = answer.seen
    assert (scope["scheme"], dict(scope["headers"])[b"host"]) == ("https", b"armscope.example.com")


def test_a_page_behind_a_proxy_is_its_own_only_if_the_proxy_is_named(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamlit.get_option", lambda _: ["127.0.0.1", "armscope.example.com"])
    mine = cookie(claims("u-jo"))

    def connects(proxies: Sequence[str], page: str = ORIGIN, host: str = "armscope.example.com") -> int:
        answer = ask(
            "/_stcore/stream",
            kind="websocket",
            scheme="ws",
            client="10.0.0.7",
            proxies=proxies,
            around=OwnPages,
            cookie=mine,
            host=host,
            x_forwarded_proto="https",
            Origin=page,
        )
        return int(answer.status)

    assert connects(["10.0.0.7"]) == 418
    assert connects([]) == 403
    assert connects(["10.0.0.7"], "https://evil.example") == 403
    assert connects(["10.0.0.7"], host="evil.example") == 403


# Without sign-in, and beside it


@pytest.mark.parametrize("name", ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "via"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_where_nobody_signs_in_nothing_comes_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.setattr("streamlit.get_option", lambda _: ["127.0.0.1"])
    told: list[Message] = []

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("it came through")

    async def send(message: Message) -> None:
        told.append(message)

    async def receive() -> Message:
        return {}

    headers = {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1", name: "x"}
    scope: Scope = {
        "type": kind,
        "method": "GET",
        "scheme": "http" if kind == "http" else "ws",
        "path": "/",
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
    }
    asyncio.run(OwnPages(page)(scope, receive, send))
    assert told[0].get("status", told[0].get("code")) in {403, 1008}


@pytest.mark.parametrize(
    ("client", "forwarded", "known_as"),
    [
        ("10.0.0.7", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.7", "198.51.100.1, 203.0.113.9, 10.0.0.8", "203.0.113.9"),
        ("10.0.0.7", "203.0.113.9, nonsense", "10.0.0.7"),
        ("10.0.0.7", "", "10.0.0.7"),
        ("192.0.2.9", "203.0.113.9", "192.0.2.9"),
    ],
)
def test_a_forwarded_address_counts_from_a_named_proxy_alone(
    client: str, forwarded: str, known_as: str
) -> None:
    proxies, more = ["10.0.0.7", "10.0.0.8"], {"x-forwarded-for": forwarded} if forwarded else {}
    answer = ask(client=client, proxies=proxies, around=OwnScope, more=more)
    assert answer.headers == [("known-as", known_as)]


class OwnScope:
    """Answers with the address that a request is known by."""

    def __init__(self, app: object) -> None:
        pass

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"known-as", scope["client"][0].encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    ("version", "signs_in", "status"), [("1.0", False, 403), ("1.0", True, 418), ("1.1", False, 418)]
)
def test_an_older_http_is_refused_where_nobody_signs_in(version: str, status: int, *, signs_in: bool) -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    scope: Scope = {
        "type": "http", "method": "GET", "scheme": "http", "path": "/", "query_string": b"",
        "http_version": version, "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    asyncio.run(OwnPages(page, signs_in=signs_in)(scope, receive, send))
    assert told[0]["status"] == status


def test_programs_always_bring_a_token_and_no_cookie_is_one(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    server._doors.cache_clear()
    let_in(context, "olga", "operator")
    secret = create_token(context, "reader", scopes=("read",)).secret
    olga = cookie(claims("u-olga"))

    def beside(path: str, **headers: str) -> Answer:
        return ask(
            path, around=lambda gate: Beside(gate, signs_in=True), more={"host": "localhost", **headers}
        )

    path = "/api/v1/learners"
    assert beside(path).status == 401
    assert beside(path, cookie=olga).status == 401
    assert beside(path, authorization=f"Bearer {secret}").status == 200
    assert beside("/healthz").status == 200
    page = beside("/__openclaw__/api/learning/dashboard/")
    assert (page.status, page.all("location")) == (303, ["/sign-in"])
    server._doors.cache_clear()
