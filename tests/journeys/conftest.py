"""A browser and served dashboards for the journeys; the browser is Debian's, nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from core.demo import build
from core.settings import database_at
from tests.chromium import find_chromium
from tests.engine import address_of, running
from tests.journeys import provider
from tests.journeys.node_provider import installed as install_node_provider
from tests.journeys.server import Served, serving
from tests.journeys.visit import Visit
from tests.journeys.world import ARMS, episode_lines, run_lines

_SWITCHES: Final = (
    "--headless",
    # Pages live for seconds: what compiling their scripts well costs, running them never gives back.
    "--js-flags=--no-opt --no-maglev",
    # A new tab goes to the process that has parsed the site's scripts, see `parked`, and has them from it: what is
    # parsed while it still comes would be parsed again for each tab.
    "--process-per-site",
    "--disable-features=ScriptStreaming,BackgroundResourceFetch",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_STARVED: Final = ("Timeout", "timeout", "what was waited for did not happen")
"""How a journey ends that waited for a minute."""

Beginning = Callable[[bytes | None], Served]
Come = Callable[..., Visit]
Parked = Callable[[BrowserContext, Served], None]
Profiles = Callable[..., BrowserContext]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a journey go once more that ran out of patience: a machine that has much else to do can keep a browser
    from everything for a minute. Whatever else fails has failed, and so has what runs out of patience twice.
    """
    for item in items:
        if item.get_closest_marker("browser") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=list(_STARVED)))


def lines() -> bytes:
    """Seven arms in forty runs, some of which were episodes."""
    return run_lines(ARMS, 40) + episode_lines()


def is_again(request: pytest.FixtureRequest) -> bool:
    """Whether the journey goes once more, on what its first try left half done."""
    return getattr(request.node, "execution_count", 1) > 1


@pytest.fixture(autouse=True, scope="package")
def databases(engine_asked: None) -> Iterator[None]:
    """What a dashboard of many modules shows goes with the last."""
    yield
    if cluster := running():
        cluster.forget()


# Of this package, not of the session: Playwright's event loop must not outlive the journeys.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    found = find_chromium()
    if found is None:
        pytest.skip("needs Debian's Chromium: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(_SWITCHES))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard on seven arms in forty runs, for journeys that change nothing."""
    with serving(tmp_path_factory.mktemp("served"), lines()) as server:
        yield server


@pytest.fixture(scope="package")
def lent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard that one module after the other has for itself; see `beginning`."""
    with serving(tmp_path_factory.mktemp("lent"), run_lines(ARMS, 4)) as server:
        yield server


@pytest.fixture(scope="package")
def beginning(lent: Served, chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Beginning:
    """Have that dashboard with these lines (None: with nothing): what others did there, and in the browser, is gone.

    A server takes seconds to start; it goes on with another database in a moment.
    """

    def begun(content: bytes | None) -> Served:
        lent.begin_anew(content, tmp_path_factory.mktemp("beginning"))
        for context in chromium.contexts:
            context.clear_cookies()
        return lent

    return begun


@pytest.fixture(scope="module")
def changed(beginning: Beginning) -> Served:
    """The same as `served`, in whatever state the journeys of one module have brought it to."""
    return beginning(lines())


@pytest.fixture
def changing(changed: Served, beginning: Beginning, request: pytest.FixtureRequest) -> Served:
    """The same as `served`, for journeys that change what is believed; one that goes once more begins again."""
    return beginning(lines()) if is_again(request) else changed


@pytest.fixture(scope="package")
def profiles(chromium: Browser) -> Iterator[Profiles]:
    """One browser profile for each kind of window, so that Streamlit's scripts are loaded once."""
    with ExitStack() as leaving:

        @cache
        def profile(width: int, *, dark: bool, place: int) -> BrowserContext:
            context = chromium.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if dark else "light",
                reduced_motion="reduce",  # what turns while one waits keeps a core busy that draws nothing else
            )
            leaving.callback(context.close)
            return context

        yield profile


@pytest.fixture(scope="package")
def parked() -> Parked:
    """A tab on every site of a profile that stays when those of the journeys have gone, and shows no page: with the
    last tab goes the process, and the next would parse a megabyte of scripts again.
    """
    sites: set[tuple[BrowserContext, str]] = set()

    def park(context: BrowserContext, server: Served) -> None:
        site = context, urlsplit(server.url).hostname or ""
        if site not in sites:
            context.new_page().goto(f"{server.url}/_stcore/health")
            sites.add(site)

    return park


@pytest.fixture
def come(profiles: Profiles, parked: Parked) -> Iterator[Come]:
    """Come to a dashboard in a tab of one's own; what went wrong there is told at the end."""
    visits: list[Visit] = []

    def arrived(server: Served, *, width: int = 1280, dark: bool = False, place: int = 0) -> Visit:
        context = profiles(width, dark=dark, place=place)
        parked(context, server)
        visits.append(Visit(context.new_page(), server.url))
        return visits[-1]

    yield arrived
    try:
        for visit in visits:
            if not visit.page.is_closed():
                visit.check()
    finally:
        for visit in visits:
            visit.page.close()


@pytest.fixture(scope="package")
def provider_python() -> Path:
    """A Python that has an identity provider."""
    found = provider.installed()
    if found is None:
        pytest.skip(f"needs an identity provider from the package index: {provider.PACKAGE}")
    return found


@pytest.fixture(scope="package")
def node_provider() -> None:
    """An identity provider that runs in Node is installed."""
    missing = install_node_provider()
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard on the made-up world, where something needs a look."""
    folder = tmp_path_factory.mktemp("demo")
    build(database_at(address_of(folder / "journey.db")))
    with serving(folder) as server:
        yield server
