"""Pages as a browser would open them, on a database of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from core.flows.context import Context
from dashboard.sentences.transcript import STEPS
from tests.dashboard.worlds import context_at

APP = Path(__file__).resolve().parents[2] / "dashboard" / "app.py"

Open = Callable[..., AppTest]

_MARKUP = (
    "![i](",
    "$x^2$",
    "<script",
    "<b>",
    ":material/home:",
    "$\\alpha",
    ":smile:",
    ":red[x]",
    "](javascript",
)

_RENDERED: Final = ("body", "label", "help", "caption", "captions", "delta")
"""Fields that Streamlit renders as Markdown, in elements and in blocks; collapsed labels are among them."""
_WITH_OPTIONS: Final = ("radio", "button_group")
"""Widgets whose options are Markdown, too."""


@pytest.fixture(scope="package", autouse=True)
def components_looked_for_once() -> Iterator[None]:
    """Streamlit reads once, as on a server, what is stated of packages: for each page it takes too long."""
    with pytest.MonkeyPatch.context() as patching:
        found = cache(manifest_scanner.scan_component_manifests)
        patching.setattr(manifest_scanner, "scan_component_manifests", found)
        yield


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of the database that the pages read."""
    path = tmp_path / "pages.db"
    monkeypatch.setenv("ARMSCOPE_DATABASE", str(path))
    monkeypatch.delenv("ARMSCOPE_LEARNER", raising=False)
    return path


@pytest.fixture
def context(database: Path) -> Context:
    return context_at(database)


@pytest.fixture
def open_page(database: Path) -> Open:
    """Open a page by name, with query parameters; fails where the page or a panel failed."""

    def opened(name: str = "overview", **query: str | list[str]) -> AppTest:
        page = AppTest.from_file(str(APP), default_timeout=300)
        for key, value in query.items():
            page.query_params[key] = value
        if name == "overview":
            page.run()
        else:
            page.switch_page(f"app_pages/{name}.py").run()
            page.switch_page(
                f"app_pages/{name}.py"
            )  # now that it is known which pages there are: ValueError for others
        check(page)
        return page

    return opened


def check(page: AppTest) -> None:
    """Neither the page nor one of its panels failed."""
    assert not page.exception
    assert not [text for text in texts(page) if "could not be shown" in text]


def at(page: AppTest, name: str) -> AppTest:
    """Return the page at an address, be it in the navigation or not."""
    page._page_hash = calc_hash(name)
    page.run()
    check(page)
    return page


def press(page: AppTest, label: str) -> AppTest:
    """Press the button with this label, or the first whose label begins so."""
    exact = [button for button in page.button if button.label == label]
    next(button for button in (*exact, *page.button) if button.label.startswith(label)).click().run()
    check(page)
    return page


def labels(page: AppTest) -> list[str]:
    return [button.label for button in page.button]


def is_said(page: AppTest, words: str) -> bool:
    """Return whether a text on the page has these words, escaped or not."""
    return any(words.replace("\\", "") in text.replace("\\", "") for text in texts(page))


def unfold(page: AppTest, key: str) -> AppTest:
    """Open a popover whose content is made only while it is open."""
    page.session_state[key] = True
    return page.run()


def heads(page: AppTest) -> list[str]:
    """Heads of the sections, without their notes."""
    return [str(head.value).partition(" :small[")[0] for head in page.header]


def texts(page: AppTest) -> list[str]:
    """Everything on the page that Streamlit reads as Markdown."""
    return [
        str(element.value)
        for kind in (page.title, page.header, page.subheader, page.markdown)
        for element in kind
    ]


def said(page: AppTest) -> str:
    """All of these texts."""
    return "\n".join(texts(page))


def is_text_only(page: AppTest) -> bool:
    """Whether nothing of what hostile ids hold is read as markup anywhere on the page."""
    is_read = any(foreign in text for text in rendered(page) for foreign in _MARKUP)
    return not is_read and not any(one.faults for one in _steps(page))


def rendered(page: AppTest) -> list[str]:
    """Everything on the page that is Markdown: texts, labels, collapsed ones too, help, options."""
    found: list[str] = []
    waiting: list[Any] = [page._tree]
    while waiting:
        node = waiting.pop()
        waiting += getattr(node, "children", {}).values()
        own = getattr(node, "proto", None)
        if own is None or getattr(node, "type", "") in {"text", "code", "json", "arrow_data_frame", "html"}:
            continue
        for part in (own, *(one for _, one in own.ListFields() if hasattr(one, "ListFields"))):
            for name, value in ((field.name, value) for field, value in part.ListFields()):
                if name in _RENDERED:
                    found += [value] if isinstance(value, str) else map(str, value)
                elif name == "options" and getattr(node, "type", "") in _WITH_OPTIONS:
                    found += [one if isinstance(one, str) else one.content for one in value]
    return found


def steps(page: AppTest) -> str:
    """Return the texts of the steps on a page, as one reads them."""
    return "\n".join(one.text for one in _steps(page))


def _steps(page: AppTest) -> list[Steps]:
    bodies = [str(one.proto.body) for one in page.get("html")]
    return [Steps.of(one) for one in bodies if STEPS in one and "<style>" not in one]


class Steps(HTMLParser):
    """HTML of steps: its text, and each tag or attribute that is no part of them."""

    TAGS: Final = re.compile(
        "[ou]l|li|div|span|p|b|small|mark|details|summary|pre|code|[bht]r|table|thead|tbody|t[hd]|blockquote|strong|em|s"
    )

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.text = ""

    @classmethod
    def of(cls, body: str) -> Steps:
        read = cls()
        read.feed(body)
        read.close()
        return read

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {"class", "style", "title", "start"}
        bad = [name for name, value in attrs if name not in own or (name == "style" and "(" in (value or ""))]
        self.faults += [tag] * (not self.TAGS.fullmatch(tag)) + bad
        self.text += "\n" * (tag in {"br", "p", "li", "pre"})

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.faults.append(data)
