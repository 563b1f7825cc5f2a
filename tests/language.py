"""Plain English, counted per file: ``python -m tests.language`` prints the counts, ``--write`` stores them as limits.

The four counts of a file are banned words in prose, bad openings of docstrings, long sentences, and banned parts of
identifiers. A long sentence has more than 25 words in the first paragraph of a docstring. `tests/test_language.py`
compares the counts with the limits in ``language.json``. A file without a limit has 0 of each.
"""

from __future__ import annotations

import ast
import gc
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
LIMITS: Final = Path(__file__).with_name("language.json")
BANNED: Final = re.compile(
    r"\b(told|tells?|telling|said|whoever|whomever|whatever|nobody|somebody|anybody|lest|anew"
    r"|stand(?:s|ing)?|be it)\b",
    re.IGNORECASE,
)
OPENING: Final = re.compile(r"(What|Whatever|How|Who|Whoever|Whose|Where|When|Whether|Which|Why|Of)\b")
TOKEN: Final = re.compile(
    r"(?P<comment>#[^\n]*)|(?i:\b[rbuf]{1,2})?(?P<quote>\"{3}|'{3}|[\"'])(?:[^\\]|\\.)*?(?P=quote)|(?P<name>\w+)",
    re.DOTALL,
)
"""A comment, a string or a name. `tokenize` finds the same in four times as long."""
MOST_WORDS: Final = 25
BANNED_NAMES: Final = frozenset(
    ["told", "said", "found", "wanted", "given", "made", "kept", "seen", "drawn", "sent", "asked"]
)
PUBLIC: Final = {
    "asked": "parameter of record_step and column of step texts: the text that was sent",
    "seen": "parameter of reward and reset, and JSON key: the revision that the caller looked at",
    "wanted": "parameter and JSON key of episode_list, evaluations, audit: the filter",
}
"""Public names that stay, with the reason; they are counted too. `tests/test_language.py` reads it."""


class Counts(NamedTuple):
    """The four counts of one file."""

    words: int
    openings: int
    long: int
    names: int


def counted(path: Path) -> Counts:
    """Return the counts of a Python file."""
    words = openings = long = 0
    for kind, text in prose(path):
        words += len(BANNED.findall(text))
        if kind == "docstring":
            openings += OPENING.match(text) is not None
            long += sum(len(one.split()) > MOST_WORDS for one in sentences(text.split("\n\n")[0]))
    return Counts(words, openings, long, sum(banned_names(path).values()))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return the nodes of a file, its module first; each file is read once."""
    gc.disable()  # many nodes and no garbage: to look for it takes twice as long as to parse
    try:
        return [*ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path)))]
    finally:
        gc.enable()


def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    tree = nodes_of(path)[0]
    assert isinstance(tree, ast.Module)
    return tree


def prose(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the kind and text of docstrings, comments, and strings of four or more words."""
    first = set()
    for node in nodes_of(path):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text is not None:
                first.add(id(node.body[0].value))  # type: ignore[attr-defined]  # a docstring is an expression
                yield "docstring", text
    for comment in tokens(path, "comment"):
        yield "comment", comment
    for node in nodes_of(path):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and id(node) not in first and len(value.split()) >= 4:
            yield "string", value


def tokens(path: Path, kind: str) -> list[str]:
    """Return the comments or the names of a file."""
    return [token[kind] for token in TOKEN.finditer(path.read_text(encoding="utf-8")) if token[kind]]


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph."""
    return re.split(r"(?<=[.!?])\s+", " ".join(text.split()))


def banned_names(path: Path) -> Counter[str]:
    """Return the identifiers with banned parts, each with the number of those parts over all its uses."""
    uses = Counter(tokens(path, "name"))
    return Counter({name: n_banned_parts(name) * n for name, n in uses.items() if n_banned_parts(name)})


@cache
def n_banned_parts(name: str) -> int:
    """Return the number of banned words in an identifier."""
    return sum(part in BANNED_NAMES for part in parts_of(name))


def parts_of(name: str) -> list[str]:
    """Return the words of an identifier, in lower case.

    >>> parts_of("_FoundRun"), parts_of("n_seen_calls")
    (['found', 'run'], ['n', 'seen', 'calls'])
    """
    return [
        word.lower()
        for part in name.split("_")
        for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", part)
    ]


def sources(*folders: str) -> list[Path]:
    """Return the Python files of these folders, sorted; by default those of core and dashboard."""
    return sorted(
        path for folder in folders or ("core", "dashboard") for path in (ROOT / folder).rglob("*.py")
    )


def all_counts() -> dict[str, Counts]:
    """Return the counts of each file that has any, tests included."""
    files = sources("core", "dashboard", "tests")
    counts = {path.relative_to(ROOT).as_posix(): counted(path) for path in files}
    return {path: one for path, one in counts.items() if any(one)}


def total(counts: Mapping[str, Counts], *, tests: bool = False) -> Counts:
    """Return the sums of the source's counts, or of those of the tests."""
    rows = [one for path, one in counts.items() if path.startswith("tests/") == tests]
    return Counts(*(sum(column) for column in zip(*rows, strict=True)))


def rooms() -> dict[str, tuple[int, float, int]]:
    """Return number, mean and maximum length of the docstrings' sentences in each room, such as ``core/flows``."""
    lengths: dict[str, list[int]] = {}
    for path in sources():
        room = "/".join(path.relative_to(ROOT).parts[:2])
        for kind, text in prose(path):
            if kind == "docstring":
                plain = re.sub(r"(?ms)^>>>.*?(?=\n\n|\Z)", "", text)
                lengths.setdefault(room, []).extend(
                    len(one.split())
                    for paragraph in plain.split("\n\n")
                    for one in sentences(paragraph)
                    if one
                )
    return {room: (len(ns), sum(ns) / len(ns), max(ns)) for room, ns in lengths.items() if ns}


def main() -> None:
    """Print the counts; with ``--write`` store them as limits."""
    counts = all_counts()
    if "--write" in sys.argv:
        text = ",\n".join(f"  {json.dumps(path)}: {json.dumps(one)}" for path, one in sorted(counts.items()))
        LIMITS.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    for part, totals in (("source", total(counts)), ("tests", total(counts, tests=True))):
        sys.stdout.write("{}: words {}, openings {}, long sentences {}, names {}\n".format(part, *totals))
    for room, (n_sentences, mean, longest) in sorted(rooms().items()):
        sys.stdout.write(f"{room}: {n_sentences} sentences, {mean:.1f} words on average, longest {longest}\n")


if __name__ == "__main__":
    main()
