"""Search: what was looked for in a learner, and what was found, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args
from urllib.parse import quote, urlencode

import msgspec

SearchKind = Literal["arm", "run", "session", "episode", "environment", "queue", "note", "text"]
SEARCH_KINDS: Final[tuple[SearchKind, ...]] = get_args(SearchKind)
"""Kinds in the order of the answer; ``text`` is a run or an episode by its kept texts."""
TEXT_KINDS: Final[frozenset[SearchKind]] = frozenset({"note", "text"})
"""Kinds that show texts, which only some may read."""
MAX_SEARCH_HITS: Final = 100
"""Hits of each kind."""
MAX_SEARCH_WORDS: Final = 8
"""Words that are looked for one by one. What follows the last of them is part of it."""
PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "arm": ("arm", "arm"),
    "run": ("run", "run"),
    "session": ("session", "session"),
    "episode": ("episode", "episode"),
    "environment": ("environment", "environment"),
    "queue": ("review", "queue"),
}
"""Page of each kind, and the parameter of its address."""
_LOWER: Final = str.maketrans({chr(upper): chr(upper + 32) for upper in range(ord("A"), ord("Z") + 1)})


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """One hit. ``id`` is its id, ``title`` its name, and ``about`` what distinguishes it from others.

    ``link`` is its page below the address of the pages. ``at_ms`` is the newest time that is known of it, in UTC
    milliseconds. ``excerpt`` is the part of its text around the words.
    """

    kind: SearchKind
    id: str
    title: str
    about: str = ""
    link: str
    at_ms: int | None = None
    excerpt: str | None = None


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Hits by kind. ``more`` lists kinds that have more hits, and ``searched`` those that the caller may read."""

    words: str
    hits: tuple[SearchHit, ...]
    more: tuple[SearchKind, ...] = ()
    searched: tuple[SearchKind, ...] = ()


def search_words(text: str) -> tuple[str, ...]:
    r"""Return the words to look for, in lower case as databases know it: A to Z alone.

    Every character is literal; only white space and U+0000 separate words. From the last of `MAX_SEARCH_WORDS` on,
    the rest is one.

    >>> search_words(' "Chat-3004"\0OR  é*')
    ('"chat-3004"', 'or', 'é*')
    """
    words = search_text(text).split(maxsplit=MAX_SEARCH_WORDS - 1)
    return tuple(dict.fromkeys(lowered(one.rstrip()) for one in words))


def search_text(text: str) -> str:
    r"""Return a text as a database can be asked for it: without U+0000 and halves of characters.

    >>> search_text(" a\0b\ud83d ")
    'a b?'
    """
    return text.replace("\0", " ").encode("utf-8", "replace").decode().strip()


def lowered(text: str) -> str:
    """Return a text with A to Z in lower case, as both engines of databases do it.

    >>> lowered("RÉSUMÉ")
    'rÉsumÉ'
    """
    return text.translate(_LOWER)


def page_link(page: str, id: str, learner: str) -> str:
    """Return the page of an object below the address of the pages.

    >>> page_link("run", "a/b", "default")
    'run?run=a%2Fb&learner=default'
    """
    name, parameter = PAGES[page]
    return f"{name}?{urlencode({parameter: id, 'learner': learner}, quote_via=quote, safe='')}"
