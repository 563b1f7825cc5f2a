"""Guide: the topics of the documentation, a Markdown file each.

`armscope help` prints them, the page Help shows them, and the README links to them.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from core.errors import NotFound

_FOLDER: Final = Path(__file__).parent
_NAMES: Final = (
    "start",
    "import",
    "python",
    "http",
    "mcp",
    "openclaw",
    "environments",
    "evaluation",
    "review",
    "savings",
    "settings",
    "variables",
    "people",
    "alerts",
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


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic: ``words`` is its first sentence."""

    name: str
    title: str
    words: str


@cache
def topics() -> tuple[Topic, ...]:
    """Return all topics in reading order."""
    return tuple(_topic(name) for name in _NAMES)


def read(name: str) -> str:
    """Return the Markdown of a topic, without the marks for generated tables and for tests.

    Raises `NotFound` for an unknown topic.

    >>> read("glossary").splitlines()[0]
    '# Glossary'
    """
    text = path_of(name).read_text(encoding="utf-8")
    return re.sub(r"^<!-- .*? -->\n|(?<=^```sh) long$", "", text, flags=re.MULTILINE)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a topic below one heading; ``anchor`` is "" for the part below the title."""

    topic: str
    anchor: str
    title: str
    text: str


@cache
def sections(name: str) -> tuple[Section, ...]:
    """Return the sections of a topic, split at its headings of the second level.

    >>> [section.anchor for section in sections("mcp")]
    ['', 'configure-a-client', 'tools', 'rights']
    """
    first, *rest = re.split(r"^## ", read(name), flags=re.MULTILINE)
    parts = [first.removeprefix("# "), *rest]
    pairs = [(title, text.strip()) for title, _, text in (part.partition("\n") for part in parts)]
    return tuple(
        Section(topic=name, anchor=anchor(title) if number else "", title=title, text=text)
        for number, (title, text) in enumerate(pairs)
    )


def search(query: str) -> tuple[Section, ...]:
    """Return the sections that contain every word of a query; those with a word in their title come first.

    >>> [match.anchor for match in search("standby synchronous commit")]
    ['measured']
    """
    words = query.casefold().split()
    if not words:
        return ()
    every = [section for topic in topics() for section in sections(topic.name)]
    matches = [one for one in every if all(word in f"{one.title} {one.text}".casefold() for word in words)]
    return tuple(sorted(matches, key=lambda one: not any(word in one.title.casefold() for word in words)))


def anchor(heading: str) -> str:
    """Return the anchor of a heading, in the form of GitHub.

    >>> anchor("Routes of /api/v1")
    'routes-of-apiv1'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def path_of(name: str) -> Path:
    """Return the file of a topic."""
    known = name.strip().lower()
    if known not in _NAMES:
        near = get_close_matches(known, _NAMES, n=3, cutoff=0.5)
        raise NotFound(
            f"topic must be one of the guide's, got {name[:60]!r}.",
            next_step=f"Did you mean {' or '.join(near)}?" if near else f"Name one of {', '.join(_NAMES)}.",
        )
    return _FOLDER / f"{known}.md"


def _topic(name: str) -> Topic:
    title, words = re.split(r"\n{2,}", read(name), maxsplit=2)[:2]
    first = re.split(r"(?<=[.]) ", " ".join(words.split()))[0]
    return Topic(name=name, title=title.removeprefix("# "), words=first)
