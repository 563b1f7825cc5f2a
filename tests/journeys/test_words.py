"""Words and numbers in view, folds closed. Rebuilt pages have at most two thirds of the words at commit 77e7b91e."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.sync_api import Locator

from tests.journeys.conftest import Come
from tests.journeys.server import Served

pytestmark = pytest.mark.browser

WORDS_BEFORE: Final[dict[str, tuple[dict[str, str], int]]] = {
    "overview": ({}, 455),
    "run": ({"run": "2518"}, 741),
    "confidence": ({}, 378),
    "environment": ({"environment": "code/migrations"}, 458),
    "evaluations": ({}, 387),
    "settings": ({}, 362),
}
"""By page: its address, and the words of its main pane at 1280 px on the demo of that commit."""
N_FIRST: Final = 25
"""The most numbers of the first screen, beside axes."""
N_CLOSED: Final = 60
"""The most numbers of the overview with its folds closed."""
_TEXTS: Final = """
([app, most_px]) => {
  const walk = document.createTreeWalker(app, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    const range = document.createRange();
    range.selectNode(walk.currentNode);
    const box = range.getBoundingClientRect();
    const isShown = box.width && box.height && parent.checkVisibility({visibilityProperty: true});
    if (isShown && box.top < most_px && !parent.closest(".xtick, .ytick, style")) texts.push(walk.currentNode.data);
  }
  return texts;
}
"""


@pytest.mark.parametrize("name", WORDS_BEFORE)
def test_a_third_of_the_words_is_gone(come: Come, demo: Served, name: str) -> None:
    query, n_before = WORDS_BEFORE[name]
    visit = come(demo).open(name, **query)
    words = visit.page.get_by_test_id("stMain").inner_text().split()
    assert len(words) <= n_before * 2 / 3, len(words)


def test_the_first_screen_has_few_numbers(come: Come, demo: Served) -> None:
    visit = come(demo).open()
    app = visit.page.get_by_test_id("stApp")
    assert 3 <= n_numbers(app, 900) <= N_FIRST
    assert n_numbers(app, 10**6) <= N_CLOSED


def n_numbers(app: Locator, most_px: int) -> int:
    """The numbers in texts that begin above a line of the window, ticks of axes left out."""
    texts: list[str] = app.evaluate(f"app => ({_TEXTS})([app, {most_px}])")
    return len(re.findall(r"\d[\d,.]*", " ".join(texts)))
