"""Below a path of a proxy that keeps it in requests or removes it: pages, their web socket, files, programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, expect

from core.client import Client
from dashboard.pages import PAGES
from tests.journeys.below import PATH, proxied
from tests.journeys.server import Served, serving
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS, run_lines

pytestmark = pytest.mark.browser
FORMS = pytest.mark.parametrize("keeps", [True, False], ids=["kept", "removed"])


@pytest.fixture(scope="module")
def below(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Served]:
    """A dashboard that knows the path."""
    folder = tmp_path_factory.mktemp("below")
    with serving(folder, run_lines(ARMS, 12), "--base-path", f"{PATH.strip('/')}/") as server:
        yield server


@pytest.mark.parametrize(
    "keeps", [True, pytest.param(False, marks=pytest.mark.long)], ids=["kept", "removed"]
)
def test_a_dashboard_below_a_path_works_as_at_the_root(below: Served, chromium: Browser, keeps: bool) -> None:
    assert below.url.endswith(PATH)
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    with proxied(below.url, keeps=keeps) as proxy:
        visit = Visit(context.new_page(), proxy.url)
        page = visit.page
        try:
            visit.open().go("posteriors")
            assert page.url.split("?")[0] == f"{proxy.url}/posteriors"
            assert visit.rows()
            visit.open("runs", span="all")  # a deep link
            page.reload()
            assert visit.settle().rows()
            if keeps:
                return
            visit.go("data")
            file = below.put(run_lines(ARMS, 3, first=100 * (2 + keeps)), f"{keeps}.jsonl")
            page.locator("input[type=file]").first.set_input_files(file)
            page.get_by_role("button", name="Import 1 file").click()
            visit.toasted("3 new runs")
            visit.settle()
            page.get_by_role("link", name="Overview").first.click()
            page.wait_for_url(f"{proxy.url}/*")
            visit.settle()
        finally:
            visit.check()
            assert {one["path"] for one in context.cookies()} == {PATH}
            context.close()
            assert proxy.strays == []


@pytest.mark.long
@FORMS
def test_every_page_opens_below_a_path(below: Served, chromium: Browser, keeps: bool) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    with proxied(below.url, keeps=keeps) as proxy:
        visit = Visit(context.new_page(), proxy.url)
        for one in PAGES:
            visit.open(one.name).check()
        context.close()
        assert proxy.strays == []


@FORMS
def test_programs_are_answered_below_a_path(below: Served, keeps: bool) -> None:
    with proxied(below.url, keeps=keeps) as proxy:
        with Client(proxy.url, learner="default") as learner:
            learner.record(f"by-{keeps}", arms=[ARMS[0]], calls=[])
            learner.run(f"by-{keeps}")  # raises if it isn't there
        with urlopen(f"{proxy.url}/api/v1/openapi.json") as answer:
            assert json.load(answer)["servers"] == [{"url": PATH}]
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        with urlopen(Request(f"{proxy.url}/mcp", json.dumps(call).encode(), headers)) as answer:
            assert "qortex_learning_select" in answer.read().decode()


def test_an_address_without_a_page_is_not_found(served: Served) -> None:
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{served.url}/nosuchpage", headers={"Accept": "text/html"}))
    assert refused.value.code == 404
    assert "no page at" in refused.value.read().decode()


def test_a_server_that_does_not_know_the_path_says_so(served: Served, chromium: Browser) -> None:
    for keeps in (True, False):
        context = chromium.new_context()
        with proxied(served.url, keeps=keeps) as proxy:
            page = context.new_page()
            for name in ("/", "/runs"):
                page.goto(f"{proxy.url}{name}")
                expect(page.locator("body")).to_contain_text(f"--base-path {PATH}")
            context.close()
