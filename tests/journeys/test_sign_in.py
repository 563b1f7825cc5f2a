"""People sign in by a real identity provider: in, an act, a role taken away, out, and a cookie that was copied."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from core import open_learner
from tests.bench.servers import free_port
from tests.journeys.below import KINDS, PATH, nginx, proxied
from tests.journeys.provider import CLIENT, CLIENT_SECRET, PASSWORD, USER, Provider, providing
from tests.journeys.server import Served, armscope, ask, fields, serving
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS, run_lines

pytestmark = pytest.mark.browser

COOKIE_SECRET: Final = "only-for-a-journey-and-long-enough-for-it"
_KNOCK: Final = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "am91cm5leXMgb2YgYXJtcw==",
    "Sec-WebSocket-Version": "13",
}


@pytest.fixture(scope="module")
def signing_in(tmp_path_factory: pytest.TempPathFactory, provider_python: Path) -> Iterator[Served]:
    """A dashboard on which people sign in, and one operator whom no one meets."""
    folder, port = tmp_path_factory.mktemp("signing in"), free_port()
    with _signing_in(folder, provider_python, port, f"http://localhost:{port}") as server:
        yield server


@contextmanager
def _signing_in(folder: Path, provider_python: Path, port: int, url: str, *more: str) -> Iterator[Served]:
    redirect = f"{url}/oauth2callback"
    with providing(folder, provider_python, redirect) as provider:
        lines = folder / "runs.jsonl"
        lines.write_bytes(run_lines(ARMS, 12))
        database = folder / "journey.db"
        with open_learner(database) as learner:
            learner.import_files(lines)
        _let_in(database, "olga", provider.issuer, "nobody")
        auth = _secrets(folder, provider, redirect)
        with serving(folder, None, "--port", str(port), *more, auth=auth) as server:
            provider.answers()  # two processes take their seconds to start
            yield server


def _secrets(folder: Path, provider: Provider, redirect: str) -> Path:
    path = folder / "auth.toml"
    path.write_text(
        f"""[auth]
redirect_uri = "{redirect}"
cookie_secret = "{COOKIE_SECRET}"
client_id = "{CLIENT}"
client_secret = "{CLIENT_SECRET}"
server_metadata_url = "{provider.metadata}"

[auth.client_kwargs]
prompt = "consent"
""",
        "utf-8",
    )
    return path


def _let_in(database: Path, name: str, issuer: str, subject: str) -> None:
    armscope(database, "member", "add", name, "--issuer", issuer, "--subject", subject, "--role", "operator")


def test_somebody_signs_in_acts_loses_a_role_and_signs_out(signing_in: Served, chromium: Browser) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    visit = Visit(context.new_page(), signing_in.url)
    page = visit.page
    try:
        # In: who is not known yet is told what to hand to an operator, and comes in with the next load.
        _sign_in(visit, signing_in)

        # An act is theirs.
        visit.go("posteriors").go("rewards")
        visit.page.get_by_label("Arm", exact=True).fill(ARMS[0])
        page.keyboard.press("Enter")
        visit.settle()
        page.get_by_role("radio", name="Accepted").click()
        visit.settle()
        page.get_by_role("button", name="Send reward").click()
        visit.settle()
        (given,) = (one for one in _acts(signing_in) if one["action"] == "reward")
        assert given["actor"] == "jo"

        # A role taken away shows at the next rerun.
        visit.go("reset")
        armscope(signing_in.database, "member", "role", "jo", "viewer")
        page.get_by_test_id("stMain").get_by_text("Named arms").click()
        expect(visit.title()).to_have_text("Reset is not open to you.")
        visit.check()

        # Out, and with it every copy of the cookie.
        cookie = "; ".join(f"{one['name']}={one['value']}" for one in context.cookies(signing_in.url))
        assert ask(signing_in, "/", Cookie=cookie)[0] == 200
        page.get_by_role("button", name="Viewer").click()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/*logout*")
        assert ask(signing_in, "/", Cookie=cookie)[0] == 401
        knock = {"Origin": signing_in.url, "Cookie": cookie, **_KNOCK}
        assert ask(signing_in, "/_stcore/stream", **knock)[0] == 403
    finally:
        context.close()


def _sign_in(visit: Visit, served: Served) -> None:
    """Open a page, sign in, be added as a member, and come to the page that was opened."""
    page = visit.page
    page.goto(f"{visit.url}/reset")
    expect(page.get_by_role("heading")).to_have_text("Sign in to armscope.")
    page.get_by_role("link", name="Sign in").click()
    page.locator("input[name=login]").fill(USER)
    page.get_by_role("button", name="Continue").click()
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_role("heading")).to_have_text("No operator has added you yet.")
    said = shlex.split(page.locator("code").inner_text())
    issuer, subject = (said[said.index(f"--{name}") + 1] for name in ("issuer", "subject"))
    _let_in(served.database, "jo", issuer, subject)
    visit.complaints.clear()  # the browser notes every answer that is a refusal
    page.reload()
    page.wait_for_url("**/reset")  # the address that was opened first
    visit.settle()
    assert "Reset" in visit.heading()


@pytest.mark.long
@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "removed"])
@pytest.mark.parametrize("kind", KINDS)
def test_below_a_path_of_a_proxy_people_sign_in_and_out(
    tmp_path: Path, provider_python: Path, chromium: Browser, kind: str, keeps: bool
) -> None:
    port = free_port()
    near = f"http://127.0.0.1:{port}"
    with ExitStack() as leaving:
        if kind == "nginx":
            url = leaving.enter_context(nginx(tmp_path, near, keeps=keeps))
        else:
            proxy = leaving.enter_context(proxied(near, keeps=keeps, forwards=True))
            url = proxy.url
        options = ("--base-path", PATH, "--proxy", "127.0.0.1")
        server = leaving.enter_context(_signing_in(tmp_path, provider_python, port, url, *options))
        assert server.url == url
        _sign_in_and_out(server, chromium)
        assert kind == "nginx" or proxy.strays == []


def _sign_in_and_out(server: Served, chromium: Browser) -> None:
    """Sign in, come to a page and act, and sign out; all cookies stay below the path."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        visit = Visit(context.new_page(), server.url)
        _sign_in(visit, server)
        visit.go("posteriors").check()
        cookies = [one for one in context.cookies() if str(one["name"]).startswith("_streamlit_user")]
        assert {one["path"] for one in cookies} == {PATH}
        cookie = "; ".join(f"{one['name']}={one['value']}" for one in cookies)
        assert ask(server, f"{PATH}/runs", Cookie=cookie)[0] == 200
        visit.page.get_by_role("button", name="Operator").click()
        visit.page.get_by_role("button", name="Sign out").click()
        visit.page.wait_for_url("**/*logout*")
        assert ask(server, f"{PATH}/runs", Cookie=cookie)[0] == 401


def test_nothing_is_answered_to_who_has_not_signed_in(signing_in: Served) -> None:
    for path in ("/", "/runs", "/media/x", "/component/x/y", "/_stcore/health", "/_stcore/upload_file/a/b"):
        assert ask(signing_in, path)[0] == 401, path
    assert ask(signing_in, "/_stcore/stream", Origin=signing_in.url, **_KNOCK)[0] == 403
    assert ask(signing_in, "/api/v1/learners")[0] == 401
    assert ask(signing_in, "/healthz")[0] == 200
    # A browser is believed for no proxy, also on this machine.
    forwarded = {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https"}
    assert ask(signing_in, "/", **forwarded)[0] == 401


def test_no_secret_is_in_what_the_server_wrote(signing_in: Served) -> None:
    for log in signing_in.folder.glob("serve*"):
        for secret in (COOKIE_SECRET, CLIENT_SECRET, PASSWORD):
            assert secret.encode() not in log.read_bytes()


def _acts(served: Served) -> list[dict[str, object]]:
    entries = fields(served.armscope("audit"))["entries"]
    assert isinstance(entries, list)
    return entries
