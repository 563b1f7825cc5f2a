"""Answers are kept under what they are of, and no others."""

from __future__ import annotations

from dashboard.reading import Cache


def test_an_answer_that_was_overtaken_is_given_but_not_kept() -> None:
    cache, revision = Cache(bound=4), [1]

    def ask() -> str:
        revision[0] += 1  # someone writes while the question is asked
        return f"of revision {revision[0]}"

    assert cache.get(1, ask, still=lambda: revision[0] == 1) == "of revision 2"
    assert len(cache) == 0
    assert cache.get(1, lambda: "of revision 1") == "of revision 1"
    assert cache.get(1, lambda: "another") == "of revision 1"
