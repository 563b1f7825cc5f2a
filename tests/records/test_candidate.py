"""What OpenClaw has at hand, as arms with its own costs."""

from __future__ import annotations

import json

import pytest

from core.errors import InvalidArm
from core.records.candidate import file_candidate, skill_candidate, tool_candidate

CATEGORIES = [
    ("runTests", "exec"),
    ("SHELL_do", "exec"),
    ("execute", "exec"),
    ("bash", "exec"),
    ("readiness", "fs"),
    ("GlobAll", "fs"),
    ("editor", "fs"),
    ("recall_notes", "memory"),
    ("remember", "memory"),
    ("memory_search", "memory"),
    ("searching", "web"),
    ("WebFetch", "web"),
    ("browser", "web"),
    ("fetch_page", "web"),
    ("reply_to", "messaging"),
    ("sendMail", "messaging"),
    ("messages", "messaging"),
    ("my_bash", "other"),
    ("prune", "other"),
]


@pytest.mark.parametrize(("name", "category"), CATEGORIES)
def test_a_tools_category_is_told_by_the_start_of_its_name(name: str, category: str) -> None:
    assert tool_candidate({"name": name}).category == category


def test_a_tool_costs_a_quarter_of_its_whole_definition() -> None:
    definition = {"name": "Read", "label": "Read 📖", "parameters": {"most": 2.0, "of": ["ä", None]}}
    written = json.dumps({**definition, "parameters": {"most": 2, "of": ["ä", None]}}, ensure_ascii=False)
    n_units = len(written.replace(": ", ":").replace(", ", ",")) + 1  # the book counts twice
    assert tool_candidate(definition).token_cost == -(-n_units // 4)


@pytest.mark.parametrize(("n_units", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (4001, 1001)])
def test_a_skill_costs_a_quarter_of_its_prompt(n_units: int, tokens: int) -> None:
    arm = skill_candidate("coding", n_units)
    assert (arm.key, arm.token_cost) == ("skill:coding:main", tokens)


@pytest.mark.parametrize(("content", "tokens"), [("", 0), ("abcd", 1), ("📖📖📖", 2)])
def test_a_file_costs_a_quarter_of_its_content(content: str, tokens: int) -> None:
    arm = file_candidate("docs/a:b.md", content)
    assert (arm.key, arm.token_cost) == ("file:workspace:docs/a:b.md", tokens)


@pytest.mark.parametrize("definition", [{}, {"name": 3}, {"name": ""}, {"name": "a\nb"}])
def test_a_tool_without_a_name_is_no_candidate(definition: dict[str, object]) -> None:
    with pytest.raises(InvalidArm):
        tool_candidate(definition)
