"""The language only gets plainer: no count of `tests.language` may rise, and the totals stay below their goals."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict

import pytest

from tests.language import (
    BANNED_NAMES,
    LIMITS,
    PUBLIC,
    ROOT,
    Counts,
    all_counts,
    nodes_of,
    parts_of,
    sources,
    total,
    tree_of,
)

GOALS = Counts(words=130, openings=26, long=134, names=441)
"""Of 2,594, 1,325, 134 and 8,835 at the beginning: 5 % of the words and names, 2 % of the openings."""
GOALS_OF_TESTS = Counts(words=578, openings=346, long=27, names=8431)
"""The same of the tests; these limits only fall."""
HOUSE_WORDS = frozenset(["standing", "telling", "wanted", "told", "stands", "nobody"])
MOST_HOUSE_WORDS = 200
"""Of 570 at 77e7b91e; names of columns and JSON keys are counted too."""
MOST_SHARED_TYPE_NAMES = 64
"""Type names with more than one meaning outside ``formats/``; the limit only falls."""


@pytest.fixture(scope="module")
def counts() -> dict[str, Counts]:
    return all_counts()


def test_no_file_gets_worse(counts: dict[str, Counts]) -> None:
    limits = json.loads(LIMITS.read_text(encoding="utf-8"))
    worse = {
        path: (*now, "limits", *limits.get(path, (0, 0, 0, 0)))
        for path, now in counts.items()
        if any(one > limit for one, limit in zip(now, limits.get(path, (0, 0, 0, 0)), strict=True))
    }
    assert worse == {}, (
        "words, openings, long sentences, names; python -m tests.language --write lowers limits"
    )


@pytest.mark.parametrize(("goals", "tests"), [(GOALS, False), (GOALS_OF_TESTS, True)])
def test_the_totals_meet_the_goals(counts: dict[str, Counts], goals: Counts, tests: bool) -> None:
    totals = total(counts, tests=tests)
    assert all(now <= goal for now, goal in zip(totals, goals, strict=True)), totals


def test_few_house_words_are_left() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources())
    counter = Counter[str]()
    for word, n_uses in Counter(re.findall(r"[A-Za-z_]+", text)).items():
        counter.update(
            {part: n_uses * parts_of(word).count(part) for part in HOUSE_WORDS & {*parts_of(word)}}
        )
    assert counter.total() <= MOST_HOUSE_WORDS, counter


def test_the_public_names_that_stay_are_banned_ones_in_use() -> None:
    for name, reason in PUBLIC.items():
        assert set(parts_of(name)) & BANNED_NAMES, name
        assert len(reason.split()) > 3, name


def test_one_type_name_means_one_thing() -> None:
    """Foreign formats name their own shapes; everywhere else a name that a search finds twice misleads."""
    homes = defaultdict(set)
    for path in sources():
        module = path.relative_to(ROOT).as_posix()
        if module.startswith("core/formats/"):
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].add(module)
    shared = {name: sorted(modules) for name, modules in homes.items() if len(modules) > 1}
    assert len(shared) <= MOST_SHARED_TYPE_NAMES, shared


def test_a_module_has_no_other_name() -> None:
    """A module docstring begins with "Word:" only where Word is in the module's path."""
    prefixed = [
        path
        for path in sources()
        if (text := ast.get_docstring(tree_of(path)))
        and text.split()[0].endswith(":")
        and text.split()[0].rstrip(":").lower() not in path.relative_to(ROOT).as_posix().lower()
    ]
    assert prefixed == []
