"""A dashboard whose pages come from a standby says so at the foot, and shows whoever acts what they did."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from streamlit.testing.v1 import AppTest

from core.flows.context import open_context
from core.flows.learn import record
from core.settings import Settings
from tests.dashboard.conftest import Open, check, texts
from tests.store.standby import Pair, pair
from tests.worlds import a_run

pytestmark = pytest.mark.own_engines


@pytest.fixture(scope="module")
def both() -> Iterator[Pair]:
    with pair(synchronous=False) as made:
        yield made


def test_the_foot_says_from_where_pages_are_read(
    both: Pair, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.ask_primary("CREATE DATABASE shown")
    here = both.server("shown").url
    monkeypatch.setenv("ARMSCOPE_DATABASE", here)
    monkeypatch.setenv("ARMSCOPE_READ_DATABASE", both.standby("shown").url)
    context = open_context(Settings.from_environment({}, database=here))
    record(context, a_run("first"))
    context.store.close()
    both.follow()
    page = open_page("rewards", reward_run="first", reward_arm="tool:other:a", reward_outcome="Accepted")
    for _ in range(20):  # the server itself writes to its log now and then
        if "level with the primary" in foot(page):
            break
        both.follow()
        page = open_page("rewards", reward_run="first", reward_arm="tool:other:a", reward_outcome="Accepted")
    # A busy machine may never be level for as long as a page takes.
    assert re.fullmatch(r"Read from: standby, (?:level with the primary|0\.\d s behind)\.", foot(page))
    with both.held_back():
        next(button for button in page.button if button.label == "Send reward").click().run()
        check(page)
        assert any("corrected this to 1 just now" in text for text in texts(page))
        assert foot(page).startswith("Read from: primary, asynchronous, 1 standby")


def foot(page: AppTest) -> str:
    (found,) = [text for text in texts(page) if "Read from: " in text]
    return f"Read from: {found.partition('Read from: ')[2].partition(' All times')[0]}"
