"""The tables of sentences are those of the sources, and every sentence is short and plain."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from pkgutil import iter_modules
from typing import Final

import pytest

from core import explained
from core.explained.table import Table as Described
from tests.language import BANNED, ROOT, nodes_of, sources
from tests.wording import FOLDER, Table, tables

MOST_ASSERTED = 318
"""Sentences of five or more words that tests outside the tables assert; the limit only falls."""

CLAIMS = re.compile(r"\b(useful\w*|useless\w*|helps|helpful\w*|harm\w*|worth\w*|beneficial)\b", re.IGNORECASE)
"""Words that need a trial, an experiment or a named break-even."""

ALLOWED_CLAIMS = (
    "what the episode was worth",
    "the episode is worth",
    "this episode was worth",
    ", worth",
    "success at the end stays worth more",
    "is worth nothing",
    "does no harm",
    "second's worth",
    "Helpful and correct",
    "helps to understand them",
    "the step that helps",
    "shows whether it helps",
    "whether an arm helps",
    "the arm still helps on these tasks",
    "can say that an arm helps or harms",
    "what trials show together: harms first, then helps",
    "verdict: helps, harms, no difference, open",
    "verdicts that an arm harms",
    "trials of arms that harm and are used often",
    "is used often and harms",
    "--fail-on harms",
    "because its arm harms",
    "harms its sessions",
    "an arm harms",
    "an arm that harms",
    "arms that harm",
    "web_search` helps and",
    "memory_search` harms",
    "whether offering the arm helps, harms",
    "whether offering it helps",
    "its failures prove harm",
    "experiments that a harm stopped",
    "stop by itself for the harm of",
    "Proven harm of offering",
    "those that harm and are used often",
    "Stop experiments whose harm is proven",
    "*helps* or *harms* by a trial",
    "each arm that helps or harms",
    "the arms that help or harm",
    "arms harm by a trial",
    "harmful arm",
)
"""Texts about rewards, files and answers, which say nothing of an arm, and verdicts of trials and experiments."""

BY_HAND: Final = {
    "widgets/episodes.py",
    "widgets/overview/changes.py",
    "widgets/posteriors.py",
    "widgets/rewards/many.py",
    "widgets/run/story.py",
}
"""Files of pages whose tables are not described yet, or have a column of a kind of its own; the list only shrinks."""


@pytest.fixture(scope="module")
def now() -> dict[str, Table]:
    return tables()


@pytest.mark.parametrize("name", ["errors", "pages", "commands"])
def test_the_table_is_that_of_the_sources(now: dict[str, Table], name: str) -> None:
    stored = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert now[name] == stored, "reworded? python -m tests.wording --write"


@pytest.mark.parametrize("name", ["errors", "pages", "commands"])
def test_no_sentence_has_a_banned_word(now: dict[str, Table], name: str) -> None:
    assert [text for lines in now[name].values() for text in lines if BANNED.search(text)] == []


def test_sentences_are_asserted_in_the_tables_alone() -> None:
    asserted = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Assert) and _has_sentence(node.test)
    ]
    assert len(asserted) <= MOST_ASSERTED, len(asserted)


def _has_sentence(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) and len(one.value.split()) >= 5
        for one in ast.walk(node)
    )


def test_each_field_of_a_record_has_one_head() -> None:
    """A field has one head at every door, and no two columns of a table share one."""
    for module in (
        importlib.import_module(f"core.explained.{one.name}") for one in iter_modules(explained.__path__)
    ):
        for name, table in vars(module).items():
            assert not isinstance(table, Described) or len({*table.heads}) == len(table.heads), name
    heads: dict[tuple[str, str], set[str]] = {}
    for record, field, head in _described():
        heads.setdefault((record, field), set()).add(head)
    assert len(heads) > 200
    assert {field: several for field, several in heads.items() if len(several) > 1} == {}


def _described() -> Iterator[tuple[str, str, str]]:
    """Yield record, field and head of each field that core, a page or the report describes."""
    for path in sources("core", "dashboard"):
        for node in nodes_of(path):
            of = node.annotation if isinstance(node, ast.AnnAssign) else None
            of = node.returns if isinstance(node, ast.FunctionDef) else of
            record = None if of is None else re.search(r"\bTable\[(.+?)\]+$", ast.unparse(of))
            if record is not None and not record[1].startswith("tuple"):
                yield from ((record[1], *field) for field in _heads_in(node))


def _heads_in(node: ast.AST) -> Iterator[tuple[str, str]]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in {"Table", "plus"}:
            for word in call.keywords:
                head = word.value.args[0] if isinstance(word.value, ast.Call) and word.value.args else None
                if word.arg is not None and isinstance(head, ast.Constant):
                    yield word.arg, str(head.value)


def test_pages_take_columns_from_descriptions() -> None:
    """No further page writes heads and widths by hand."""
    files = {
        path.relative_to(ROOT / "dashboard").as_posix()
        for path in sources("dashboard")
        if re.search(r"column_config\.\w+Column\b|_WIDTHS: Final = \{", path.read_text(encoding="utf-8"))
    }
    assert files == {*BY_HAND, "widgets/tables.py"}


def test_no_text_of_the_product_takes_use_for_benefit(now: dict[str, Table]) -> None:
    texts = [text for table in now.values() for lines in table.values() for text in lines]
    of_trials = {"changelog.md", "does-it-help.md"}
    guide = [path for path in (ROOT / "core/guide").glob("*.md") if path.name not in of_trials]
    texts += [line for path in [*guide, ROOT / "README.md"] for line in path.read_text("utf-8").splitlines()]
    texts += [
        node.value
        for folder in ("dashboard", "core/explained", "core/doors", "core/flows")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]
    claims = [text for text in texts if CLAIMS.search(_without_allowed(text))]
    assert claims == []


def _without_allowed(text: str) -> str:
    for phrase in ALLOWED_CLAIMS:
        text = text.replace(phrase, "")
    return re.sub(r"`(not_)?worth`", "", text)
