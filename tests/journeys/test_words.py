"""Words in view, folds closed: pages that were rebuilt have at most two thirds of those at commit 77e7b91e."""

from __future__ import annotations

from typing import Final

import pytest

from tests.journeys.conftest import Come
from tests.journeys.server import Served

pytestmark = pytest.mark.browser

WORDS_BEFORE: Final[dict[str, tuple[dict[str, str], int]]] = {
    "run": ({"run": "2518"}, 741),
    "confidence": ({}, 378),
    "environment": ({"environment": "code/migrations"}, 458),
    "evaluations": ({}, 387),
    "settings": ({}, 362),
}
"""By page: its address, and the words of its main pane at 1280 px on the demo of that commit."""


@pytest.mark.parametrize("name", WORDS_BEFORE)
def test_a_third_of_the_words_is_gone(come: Come, demo: Served, name: str) -> None:
    query, n_before = WORDS_BEFORE[name]
    visit = come(demo).open(name, **query)
    words = visit.page.get_by_test_id("stMain").inner_text().split()
    assert len(words) <= n_before * 2 / 3, len(words)
