"""Guide: the topics of the documentation, a Markdown file each.

`armscope help` prints them, the page Help shows them, and the README links to them. A heading may be followed by
``<!-- words: a, b -->``: other words that readers use for the section. Both doors use `search`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from math import log1p
from pathlib import Path
from typing import Final

import msgspec

from core.errors import NotFound

_FOLDER: Final = Path(__file__).parent
NAMES: Final = (
    "start",
    "import",
    "prune",
    "does-it-help",
    "python",
    "data",
    "loops",
    "langchain",
    "langgraph",
    "openai-agents",
    "pydantic-ai",
    "http",
    "mcp",
    "proxy",
    "claude-code",
    "openclaw",
    "environments",
    "evaluation",
    "review",
    "savings",
    "settings",
    "variables",
    "people",
    "alerts",
    "team",
    "operations",
    "growing",
    "promises",
    "commands",
    "errors",
    "glossary",
    "house",
    "recipes",
    "changelog",
)
"""Topics in the order in which they are read."""
_WITH_ENTRIES: Final = ("import", "settings", "variables", "alerts", "team", "errors", "glossary")
"""Topics whose rows of tables are results by themselves."""
_FIELD: Final = "field"
"""Head of a table of a line's fields. Their names are everyday words, which other topics explain."""
_FILES: Final = "files"
"""Section of the topic `team` with the files for production."""
_RARELY: Final = frozenset({"changelog", "house", "recipes"})
"""Topics that come last in a search."""
_WORDS: Final = re.compile(r"^<!-- words: (.*) -->\n", re.MULTILINE)
_TABLE: Final = re.compile(r"^\|(.+)\|\n\|[-:| ]+\|\n((?:\|.*\|\n?)+)", re.MULTILINE)
_SILENT: Final = frozenset(
    re.findall(
        r"\w+",
        "a about an and any are armscope at be by can do does for from get guide happen happens has have help how i "
        "if in is it its me mine much my need no of on or our put see should so such than that the their them "
        "then there these they this to topic up use want was we what when where which who why will with would you",
    )
)
"""Words of a query that say nothing about its subject."""
_PREFIX: Final = 3
"""Letters from which the beginning of a word matches it."""


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic: ``words`` is its first sentence."""

    name: str
    title: str
    words: str


@cache
def topics() -> tuple[Topic, ...]:
    """Return all topics in reading order."""
    return tuple(_topic(name) for name in NAMES)


def read(name: str) -> str:
    """Return the Markdown of a topic, without the marks for generated tables and for tests.

    Raises `NotFound` for an unknown topic.

    >>> read("glossary").splitlines()[0]
    '# Glossary'
    """
    return _unmarked(path_of(name).read_text(encoding="utf-8"))


def _unmarked(text: str) -> str:
    marks = r"^<!-- .*? -->\n|(?<=^```sh) long$|(?<=^```python) long$"
    return re.sub(marks, "", text, flags=re.MULTILINE)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a topic below one heading, or a row of a table in it.

    ``anchor`` is that of the heading, "" for the part below the title. ``words`` are other words for it.
    """

    topic: str
    anchor: str
    title: str
    text: str
    words: tuple[str, ...] = ()
    is_entry: bool = False


@cache
def sections(name: str) -> tuple[Section, ...]:
    """Return the sections of a topic, split at its headings of the second level.

    >>> [section.anchor for section in sections("mcp")]
    ['', 'configure-a-client', 'tools', 'rights']
    """
    first, *rest = re.split(r"^## ", path_of(name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return tuple(
        _section(name, part, is_first=not number)
        for number, part in enumerate([first.removeprefix("# "), *rest])
    )


def _section(topic: str, part: str, *, is_first: bool) -> Section:
    title, _, text = part.partition("\n")
    words = [word.strip() for line in _WORDS.findall(text) for word in line.split(",")]
    return Section(
        topic=topic,
        anchor="" if is_first else anchor(title),
        title=title,
        text=_unmarked(text).strip(),
        words=(*words, topic) if is_first else tuple(words),
    )


def entries(name: str) -> Iterator[Section]:
    """Yield the rows of a topic's tables: the first cell is the title, and all words in it find the row.

    >>> next(entry.text for entry in entries("glossary") if entry.title == "seed")
    'an arm that is always in the prompt'
    """
    for section in sections(name):
        for heads, rows in _TABLE.findall(section.text):
            names = _cells(heads)
            if names[0] == _FIELD:
                continue
            for key, *cells in map(_cells, rows.splitlines()):
                title = re.sub(r"[`*]", "", key)
                lines = [f"{head}: {cell}" for head, cell in zip(names[1:], cells, strict=False) if cell]
                yield Section(
                    topic=name,
                    anchor=section.anchor,
                    title=title,
                    text="\n".join(lines).removeprefix("meaning: "),
                    words=tuple(word.strip() for word in title.split(",")),
                    is_entry=True,
                )


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def terms(text: str) -> list[str]:
    """Return the words of a text in the form in which they are compared: without case, plural and endings.

    >>> terms("Sub-paths, behind nginx"), terms("baseline_rate")
    (['sub', 'path', 'behind', 'nginx'], ['baselin', 'rate'])
    """
    return [_stem(word) for word in re.findall(r"[^\W_]+", text.casefold())]


def _stem(word: str) -> str:
    if word.endswith("s") and not word.endswith(("ss", "us")) and len(word) > _PREFIX:
        word = f"{word[:-3]}y" if word.endswith("ies") else word[:-1]
    ending = next((one for one in ("ing", "ed", "e") if word.endswith(one)), "")
    return word[: len(word) - len(ending)] if len(word) - len(ending) > _PREFIX else word


def _together(text: str) -> set[str]:
    """Return a text without spaces and marks, as it is and by its terms."""
    return {"".join(re.findall(r"[^\W_]+", text.casefold())), "".join(terms(text))}


class _Indexed(msgspec.Struct, frozen=True):
    """A section with the weight of each term in it. ``names``: its title and words, each without spaces."""

    section: Section
    names: frozenset[str]
    in_names: frozenset[str]
    weights: Mapping[str, float]


@cache
def _index() -> tuple[_Indexed, ...]:
    every = [section for topic in topics() for section in sections(topic.name)]
    rows = [entry for topic in _WITH_ENTRIES for entry in entries(topic)]
    return tuple(map(_indexed, (*every, *rows)))


def _indexed(section: Section) -> _Indexed:
    counts = Counter(terms(section.text))
    length = sum(counts.values())
    weights = {term: 2 * n / (n + 1 + length / 200) for term, n in counts.items()}
    names = (section.title, *section.words)
    around = () if section.is_entry else (sections(section.topic)[0].title,)
    for weight, texts in ((1, around), (3, section.words), (3, (section.title,))):
        for term in {term for text in texts for term in terms(text)}:
            weights[term] = weights.get(term, 0.0) + weight
    scale = 0.3 if section.topic in _RARELY else 0.7 if section.is_entry else 1.0
    return _Indexed(
        section=section,
        names=frozenset(form for name in names for form in _together(name)),
        in_names=frozenset(term for name in (*names, *around) for term in terms(name)),
        weights={term: scale * weight for term, weight in weights.items()},
    )


class Match(msgspec.Struct, frozen=True):
    """A section that a query finds; ``score`` orders them.

    ``share`` is how much of the query is in the section, and ``named`` how much is in its names, from 0 to 1. The
    whole query as a name is 2, and 3 if it is written like that.
    """

    section: Section
    score: float
    share: float
    named: float

    @property
    def is_answer(self) -> bool:
        """True if the section is about the query, and does not merely mention some of its words."""
        return self.share >= 1 or self.named >= 0.5


def search(query: str, topic: str | None = None) -> list[Match]:
    """Return the sections that a query finds, the best first; of ``topic`` all with any word of it.

    >>> search("synchronous standbys")[0].section.anchor
    'standby'
    """
    query_words = subject(query)
    names = {"".join(query_words): 2.0} | dict.fromkeys(_together(query), 3.0)
    worth = {term: _worth(term) for term in query_words}
    index = [one for one in _index() if topic in {None, one.section.topic}]
    matches = [one for each in index if (one := _match(each, worth, names)).score > 0]
    matches.sort(key=lambda one: (-max(one.named, 1.0), one.named > 1 and one.section.is_entry, -one.score))
    least = 0.0 if topic else max((one.score for one in matches), default=0.0) / 4
    return [one for one in matches if one.score >= least]


def spelled(query: str) -> str:
    """Return a query with words of the guide in place of those that are only similar to some.

    >>> spelled("stikcy sessions")
    'sticky sessions'
    """
    for word in re.findall(r"[^\W_]+", query.casefold()):
        if word in _SILENT or any(_alike(_stem(word), term) for one in _index() for term in one.weights):
            continue
        if close := get_close_matches(word, _vocabulary(), n=1, cutoff=0.75):
            query = re.sub(rf"\b{re.escape(word)}\b", close[0], query, flags=re.IGNORECASE)
    return query


@cache
def _vocabulary() -> frozenset[str]:
    """Return all words in titles and other names of sections."""
    return frozenset(
        word
        for one in _index()
        for name in (one.section.title, *one.section.words)
        for word in re.findall(r"[^\W_]+", name.casefold())
    )


def subject(query: str) -> list[str]:
    """Return the terms of a query that say something; single letters only if there is nothing else.

    Two words that the guide writes as one are one.

    >>> subject("What does it do behind a sub path?")
    ['behind', 'subpath']
    """
    every = re.findall(r"[^\W_]+", query.casefold())
    words = [word for word in every if word not in _SILENT]
    long = [word for word in words if len(word) > 1] or words or every
    pairs = {first + second for first, second in pairwise(long)} & _vocabulary()
    apart = [word for word in long if not any(pair.startswith(word) or pair.endswith(word) for pair in pairs)]
    return list(dict.fromkeys(map(_stem, (*apart, *sorted(pairs)))))


@cache
def _worth(term: str) -> float:
    """Return the weight of a term: the rarer, the more."""
    index = _index()
    n = sum(any(_alike(term, word) for word in one.weights) for one in index)
    return log1p(len(index) / (1 + n))


@cache
def _alike(term: str, word: str) -> bool:
    """Return whether a word of the guide is the term, or one begins like the other."""
    if min(len(term), len(word)) < _PREFIX:
        return term == word
    return word.startswith(term) or (len(word) > _PREFIX + 1 and term.startswith(word))


def _match(one: _Indexed, worth: Mapping[str, float], names: Mapping[str, float]) -> Match:
    score = known = named = 0.0
    for term, value in worth.items():
        alike = [word for word in one.weights if _alike(term, word)]
        score += value * max(
            (one.weights[word] * (1 if word == term else 0.7) for word in alike), default=0.0
        )
        known += value * bool(alike)
        named += value * any(word in one.in_names for word in alike)
    whole = sum(worth.values()) or 1.0
    by_name = max((value for name, value in names.items() if name in one.names), default=0.0)
    return Match(one.section, score * known / whole, known / whole, by_name or named / whole)


def deploy_files() -> tuple[Section, ...]:
    """Return the rows about the files for production: title, file and use."""
    return tuple(one for one in entries("team") if one.anchor == _FILES)


def deploy_file(name: str) -> tuple[str, str]:
    """Return the name and the text of a file for production, by any of its names.

    Raises `NotFound` for an unknown one.

    >>> deploy_file("systemd")[0]
    'armscope.service'
    """
    files = {one.title: re.findall(r"file: `(.+)`", one.text)[0] for one in deploy_files()}
    by_file = [short for short, file in files.items() if name.casefold() == file.casefold()]
    titles = [one.section.title for one in search(name, "team") if one.section.title in files]
    if not (chosen := [*by_file, *titles][:1]):
        raise NotFound(
            f"There is no file {name[:60]!r} for production.",
            next_step=f"Name one of {', '.join(files)}: armscope help deploy NAME",
        )
    file = files[chosen[0]]
    return file, (_FOLDER / "deploy" / file).read_text(encoding="utf-8")


def anchor(heading: str) -> str:
    """Return the anchor of a heading, in the form of GitHub.

    >>> anchor("Routes of /api/v1")
    'routes-of-apiv1'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def path_of(name: str) -> Path:
    """Return the file of a topic."""
    known = name.strip().lower()
    if known not in NAMES:
        near = get_close_matches(known, NAMES, n=3, cutoff=0.5)
        raise NotFound(
            f"topic must be one of the guide's, got {name[:60]!r}.",
            next_step=f"Did you mean {' or '.join(near)}?" if near else f"Name one of {', '.join(NAMES)}.",
        )
    return _FOLDER / f"{known}.md"


def _topic(name: str) -> Topic:
    title, words = re.split(r"\n{2,}", read(name), maxsplit=2)[:2]
    first = re.split(r"(?<=[.]) ", " ".join(words.split()))[0]
    return Topic(name=name, title=title.removeprefix("# "), words=first)
