"""Sign-in under attack: Streamlit's own sign-in behind our gate, at a provider that can lie."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from streamlit.runtime.secrets import secrets_singleton
from streamlit.web.server.starlette.starlette_auth_routes import create_auth_routes
from streamlit.web.server.starlette.starlette_server_config import SESSION_COOKIE_NAME

from dashboard.gate import Gate
from dashboard.sign_in import read_sign_in
from tests.dashboard.attacks import ATTACKS, MEMBER, PEOPLE, Site
from tests.dashboard.own_provider import CLIENT, CLIENT_SECRET, LIES, OwnProvider, providing
from tests.dashboard.signed_in import SECRET, auth_file
from tests.dashboard.worlds import context_at


@pytest.fixture(scope="module")
def provider() -> Iterator[OwnProvider]:
    with providing() as found:
        found.people = {name: dict(claims) for name, claims in PEOPLE.items()}
        yield found


async def _page(_: Request) -> PlainTextResponse:
    return PlainTextResponse("a page")


@pytest.fixture
def site(
    provider: OwnProvider, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """The routes of Streamlit's sign-in behind the gate, at a real socket."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://localhost:{listening.getsockname()[1]}"
    auth = {
        "redirect_uri": f"{url}/oauth2callback",
        "cookie_secret": SECRET,
        "client_id": CLIENT,
        "client_secret": CLIENT_SECRET,
        "server_metadata_url": provider.metadata,
    }
    file = auth_file(tmp_path, **auth)
    monkeypatch.setenv("ARMSCOPE_AUTH", str(file))
    monkeypatch.setattr(secrets_singleton, "_secrets", {"auth": auth})
    # Each of its clients would read the certificates of all authorities, which takes longer than the sign-in.
    for name in ("httpx", "httpx2"):  # Authlib takes the newer one where it is installed
        if find_spec(name) is not None:
            clients = import_module(f"{name}._transports.default")
            monkeypatch.setattr(clients, "create_ssl_context", cache(clients.create_ssl_context))
    context = context_at(database)
    made = Site(url=url, provider=provider, context=context)
    made.let_in("olga", "operator")
    made.let_in(MEMBER)
    session = Middleware(
        SessionMiddleware, secret_key=SECRET, same_site="lax", session_cookie=SESSION_COOKIE_NAME
    )
    app = Starlette(routes=[*create_auth_routes(""), Route("/", _page)], middleware=[session])
    gate = Gate(app, read_sign_in(file, port=1))  # the address in the file has no {port} to replace
    server = uvicorn.Server(uvicorn.Config(gate, lifespan="off", log_level="error", proxy_headers=False))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield made
    provider.forge = None
    server.should_exit = True
    thread.join()
    listening.close()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.__name__)
def test_an_attack_fails(attack: Callable[[Site], None], site: Site) -> None:
    attack(site)


def test_no_lie_of_a_token_lets_anybody_in(site: Site, provider: OwnProvider) -> None:
    for name, lie in LIES.items():
        provider.forge = lie
        with site.browsers() as (browser,):
            browser.sign_in(MEMBER)
            assert not browser.is_in, name
            assert "_streamlit_user" not in browser.cookies(), name
    provider.forge = None
    with site.browsers() as (browser,):
        browser.sign_in(MEMBER)
        assert browser.is_in, "it is the lie that is refused"
