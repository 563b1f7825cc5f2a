"""Sign-in under attack as it is served: ``armscope serve`` and ``oidc-provider``, over HTTP and in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from core import open_learner
from core.flows.context import open_context
from core.flows.members import remove_member
from core.settings import Settings
from tests.bench.servers import free_port
from tests.dashboard.attacks import ATTACKS, MEMBER, PEOPLE, Site
from tests.dashboard.signed_in import SECRET
from tests.journeys.conftest import is_again
from tests.journeys.node_provider import NodeProvider, providing
from tests.journeys.provider import CLIENT, CLIENT_SECRET
from tests.journeys.server import serving
from tests.journeys.world import ARMS, run_lines

pytestmark = pytest.mark.long


def secrets_file(folder: Path, provider: NodeProvider, redirect: str) -> Path:
    path = folder / "auth.toml"
    told = {
        "redirect_uri": redirect,
        "cookie_secret": SECRET,
        "client_id": CLIENT,
        "client_secret": CLIENT_SECRET,
        "server_metadata_url": provider.metadata,
    }
    lines = [f'{name} = "{value}"' for name, value in told.items()]
    path.write_text("\n".join(["[auth]", *lines, "[auth.client_kwargs]", 'prompt = "login"', ""]), "utf-8")
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, node_provider: None) -> Iterator[Site]:
    folder, port = tmp_path_factory.mktemp("attacked"), free_port()
    redirect, database = f"http://localhost:{port}/oauth2callback", folder / "journey.db"
    lines = folder / "runs.jsonl"
    lines.write_bytes(run_lines(ARMS, 4))
    with open_learner(database) as learner:
        learner.import_files(lines)
    context = open_context(Settings.from_environment({}, database=str(database)))
    with providing(folder, redirect, PEOPLE) as provider:
        made = Site(url=f"http://localhost:{port}", provider=provider, context=context)
        made.let_in("olga", "operator")
        made.let_in(MEMBER)
        auth = secrets_file(folder, provider, redirect)
        with serving(folder, None, "--port", str(port), auth=auth):
            yield made
    for log in folder.glob("serve*"):
        assert not [secret for secret in (SECRET, CLIENT_SECRET) if secret.encode() in log.read_bytes()]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.__name__)
def test_an_attack_fails(attack: Callable[[Site], None], site: Site) -> None:
    attack(site)


@pytest.mark.browser
def test_a_member_who_is_removed_sees_nothing_more_at_the_next_rerun(
    site: Site, chromium: Browser, request: pytest.FixtureRequest
) -> None:
    person = "ann again" if is_again(request) else "ann"
    site.let_in(person)
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    try:
        page.goto(f"{site.url}/posteriors")
        page.get_by_role("link", name="Sign in").click()
        page.locator("input[name=login]").fill(person)
        page.locator("input[name=password]").fill("any")
        page.get_by_role("button", name="Sign-in").click()
        page.get_by_role("button", name="Continue").click()
        page.wait_for_url("**/posteriors")
        expect(page.get_by_role("heading", level=1)).to_contain_text("too little known to judge")
        remove_member(site.context, person)
        page.get_by_test_id("stTopNavLink").first.click()  # a rerun over the same web socket
        expect(page.get_by_role("heading", level=1)).to_have_text("No operator has added you yet.")
        expect(page.get_by_test_id("stMain").get_by_text(ARMS[0])).to_have_count(0)
    finally:
        context.close()
