"""The recipe "A page", followed: a file, a row, its tests; then the page is there, or the page of an error is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.recipes.copy import Copy, recipe

_MOST_CHANGED: Final = 3

_PAGE: Final = '''"""Goals: what is to be reached."""

from __future__ import annotations

from dashboard.reading import reading
from dashboard.widgets.parts import no_arms
from dashboard.widgets.parts import panel
from dashboard.widgets.parts import muted, section, sentence


def page() -> None:
    here = reading()
    if here.frame.n_arms == 0:
        no_arms("What is to be reached")
        return
    sentence(("Nobody has set a goal.",), here.tokens)
    with panel("Goals"):
        section("Goals")
        muted("None.")


page()
'''
_ROW: Final = '    Page(name="goals", title="Goals", group=_MANAGE, needs="reset"),\n'
_BEFORE_IT: Final = '    RESET := Page(name="reset", title="Reset", group=_MANAGE, needs="reset"),\n'
_TESTS: Final = '''"""Goals: where there are data, where they can't be opened, and for whom the page is."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.records.actor import Actor, Role
from tests.dashboard.conftest import APP, Open, check, heads
from tests.dashboard.worlds import keys, world
from tests.journeys.everywhere import ADDRESSES


def test_it_shows_what_is_there(open_page: Open, database: Path) -> None:
    world(database, keys(3), 5)
    page = open_page("goals")
    assert page.title[0].value == "Nobody has set a goal."
    assert heads(page) == ["Goals"]


def test_data_that_cannot_be_opened_are_said_so_at_its_address_too(database: Path) -> None:
    database.write_bytes(b"this is no database" * 100)
    page = AppTest.from_file(str(APP), default_timeout=300).run()
    for opened in (page, page.switch_page("app_pages/goals.py").run()):
        check(opened)
        assert opened.title[0].value == "The data cannot be opened."


@pytest.mark.parametrize("role", ["viewer", "reviewer"])
def test_who_may_not_reset_has_no_such_page(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    world(database, keys(3), 5)
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="vi", role=role))
    with pytest.raises(ValueError, match="registered"):
        open_page("goals")


def test_the_journeys_visit_it() -> None:
    assert ADDRESSES["goals"] == {}
'''


@pytest.mark.long
def test_a_page_is_a_file_and_a_row(tmp_path: Path) -> None:
    copy, read = Copy(tmp_path), recipe("A page")
    copy.add("dashboard/app_pages/goals.py", _PAGE)
    copy.insert("dashboard/pages.py", _ROW, after=_BEFORE_IT)
    copy.add("tests/dashboard/test_goals.py", _TESTS)

    assert copy.new() == {"dashboard/app_pages/goals.py", "tests/dashboard/test_goals.py"}
    assert copy.changed() == {"dashboard/pages.py"}
    assert len(copy.changed()) <= _MOST_CHANGED
    assert all(
        named in read for named in ("`dashboard/app_pages/`", "`dashboard/pages.py`", "`tests/dashboard/`")
    )

    own, of_every = "tests/dashboard/test_goals.py", "tests/dashboard/test_pages.py"
    copy.passes(own, of_every, "tests/test_architecture.py", "-k", "goals or what_a_page_shows")
