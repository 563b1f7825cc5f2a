"""Behind a proxy: its base path changes nothing else, and only the named proxy's headers are accepted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from core.doors.http.app import Api, BelowPath
from core.doors.http.proxied import Proxied, check_proxies
from core.doors.http.serving import ROUTES, check_base_path, doors
from core.doors.service import Service
from core.errors import InvalidInput, InvalidSetting
from core.flows.tokens import create_token
from core.flows.webhooks import add_webhook
from core.records.alert import page_url
from core.settings import BASE_PATH
from dashboard.configuration import STREAMLITS, checked_base_path
from dashboard.pages import PAGES
from tests.conformance.qortex_calls import OPERATOR, desk_at
from tests.doors.http.asking import Asking
from tests.worlds import context_at

BASES = st.sampled_from(["/armscope", "/tools/armscope", "/a.b~c"])
RAW = st.text("/abcA.%~-", max_size=12).map(lambda text: f"/{quote(text)}")
FORWARDED = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https", "Host": "localhost"}


def seen(base: str, raw: str, kind: str = "http") -> tuple[str, str]:
    """The path, and the path as sent, that the application gets."""
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    scope: Scope = {"type": kind, "path": unquote(raw), "raw_path": raw.encode()}
    asyncio.run(BelowPath(app, base)(scope, receive, send))
    return scopes[0]["path"], scopes[0]["raw_path"].decode()


@given(BASES, RAW, st.sampled_from(["http", "websocket"]))
def test_kept_or_removed_it_is_the_same_request(base: str, raw: str, kind: str) -> None:
    assert seen(base, base + raw, kind) == seen(base, raw, kind) == seen("", raw, kind) == (unquote(raw), raw)


@pytest.mark.parametrize(
    "raw", ["/armscopes", "/armscope%2Fruns", "/%61rmscope/runs", "/Armscope/", "/x/armscope/"]
)
def test_nothing_else_is_removed(raw: str) -> None:
    assert seen("/armscope", raw) == (unquote(raw), raw)


def test_the_path_alone_is_the_root() -> None:
    assert seen("/armscope", "/armscope") == ("/", "/")


def test_a_path_that_begins_like_one_of_ours_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {route.path.split("/")[1] for route in ROUTES}
    for name in names:
        for path in (f"/{name}", f"/{name}/x"):
            with pytest.raises(InvalidSetting, match="must not begin like a path of armscope"):
                check_base_path(path)
    for name in ({page.name for page in PAGES} | STREAMLITS | {"sign-in"}) - {"_stcore"}:
        monkeypatch.setenv(BASE_PATH, f"/{name}/x")
        with pytest.raises(InvalidSetting, match="must not begin like a path of armscope"):
            checked_base_path()
    monkeypatch.setenv(BASE_PATH, "/armscope/runs")
    assert checked_base_path() == "/armscope/runs"


def test_programs_and_links_follow_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BASE_PATH, "/tools/armscope")
    with desk_at(tmp_path) as service:
        asking = Asking(app=cast("Api", BelowPath(doors(service), "/tools/armscope")))
        for prefix in ("", "/tools/armscope"):
            assert asking.get(f"{prefix}/api/v1/version").status == 200
            assert asking.get(f"{prefix}/api/v1/openapi.json").document["servers"] == [
                {"url": "/tools/armscope"}
            ]
        asking.close()
        context = service.context(OPERATOR, "o")
        row = add_webhook(context, "https://hooks.example/a")
        assert page_url(row.pages, None) == "http://127.0.0.1:8501/tools/armscope/settings"
        own = add_webhook(context, "https://hooks.example/b", pages="https://board.example/x")
        assert page_url(own.pages, None) == "https://board.example/x/settings"


def test_a_named_proxy_passes_requests_on_and_each_still_needs_a_token(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    secret = create_token(context, "agent", scopes=["read"]).secret
    app = Proxied(
        doors(Service(store=context.store, learner=None), asks_tokens=True), ["127.0.0.1"], is_strict=True
    )
    signed = {**FORWARDED, "Authorization": f"Bearer {secret}"}
    named, other = (TestClient(app, client=(address, 1)) for address in ("127.0.0.1", "127.0.0.2"))
    assert named.get("/api/v1/learners", headers=signed).status_code == 200
    assert named.get("/api/v1/learners", headers=FORWARDED).status_code == 401
    refused = other.get("/api/v1/learners", headers=signed)
    assert refused.status_code == 403
    assert "--proxy" in refused.text
    assert "nginx.conf" in refused.text
    context.store.close()


def test_a_proxy_is_named_by_its_address() -> None:
    check_proxies(["10.0.0.7", "::1"])
    with pytest.raises(InvalidInput, match="by its address"):
        check_proxies(["proxy.example"])
