"""Tables of the sentences that people read: ``python -m tests.wording --write`` updates them after a rewording.

``errors.json`` has messages and next steps by error code. ``pages.json`` has the sentences of the dashboard by
page. ``commands.json`` has help and output by file of commands. A value in a sentence is written ``{}``.
`tests/test_wording.py` compares the tables with the sources. So a rewording is one edit.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core import errors
from tests.language import ROOT, nodes_of, sources, tree_of

FOLDER: Final = Path(__file__).with_name("wording")
LEAST_WORDS: Final = 4
CODES: Final = {
    name: kind.code
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, errors.ArmscopeError)
}
Table = dict[str, list[str]]


def tables() -> dict[str, Table]:
    """Return the three tables, by the name of their file."""
    return {
        "errors": _errors(),
        "pages": _by_file("dashboard", "dashboard"),
        "commands": _by_file("core", "core/doors/cli", "core/explained"),
    }


def _errors() -> Table:
    table: dict[str, set[str]] = {}
    for path in sources("core", "dashboard"):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CODES:
                step = next((word.value for word in node.keywords if word.arg == "next_step"), None)
                parts = [*map(template, node.args[:1]), *([] if step is None else [template(step)])]
                if all(part is not None for part in parts):
                    table.setdefault(CODES[node.func.id], set()).add(" → ".join(map(str, parts)))
    return {code: sorted(lines) for code, lines in sorted(table.items())}


def _by_file(base: str, *folders: str) -> Table:
    """Return the sentences of each file, and the help of its commands."""
    table: Table = {}
    for path in sources(*folders):
        if lines := sorted({*_sentences(tree_of(path)), *_helps(tree_of(path))}):
            table[path.relative_to(ROOT / base).with_suffix("").as_posix()] = lines
    return table


def _helps(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(map(_is_command, node.decorator_list)):
            yield from filter(None, (ast.get_docstring(node) or "").split("\n\n"))


def _is_command(decorator: ast.expr) -> bool:
    return any(name in ast.dump(decorator) for name in ("'command'", "'reads'", "'writes'"))


def _sentences(tree: ast.AST) -> Iterator[str]:
    """Yield the string templates of four or more words that are no docstring and no part of another."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        text = template(node)
        if text is None:
            yield from _sentences(node)
        elif len(text.split()) >= LEAST_WORDS:
            yield " ".join(text.split())


def template(node: ast.AST) -> str | None:
    """Return the text of a string or f-string with ``{}`` for its values; None for another node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            "{}" if isinstance(one, ast.FormattedValue) else str(template(one)) for one in node.values
        )
    return None


def main() -> None:
    """Write the tables."""
    FOLDER.mkdir(exist_ok=True)
    for name, table in tables().items():
        text = json.dumps(table, indent=1, ensure_ascii=False, sort_keys=True)
        if "--write" in sys.argv:
            (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        sys.stdout.write(f"{name}: {sum(map(len, table.values()))} sentences under {len(table)} names\n")


if __name__ == "__main__":
    main()
