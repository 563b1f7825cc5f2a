"""Search of a learner: everything with a name, and the texts that the reader may see.

A caller without permission for texts causes no read of them, so neither count nor time depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from core.errors import InvalidInput
from core.flows.context import Context
from core.records.limits import shown, whole
from core.records.search import (
    MAX_SEARCH_HITS,
    SEARCH_KINDS,
    SearchAnswer,
    SearchHit,
    SearchKind,
    lowered,
    page_link,
    search_text,
    search_words,
)
from core.store.reads.search import (
    Found,
    SessionName,
    found_arms,
    found_environments,
    found_episodes,
    found_notes,
    found_queues,
    found_runs,
    found_sessions,
    session_names,
)
from core.store.transaction import Snapshot

EXCERPT_CHARS: Final = 160
_BEFORE: Final = 40
"""Characters of an excerpt before the first word."""


def search(
    context: Context,
    words: Annotated[
        str,
        Meta(
            description="Words that must all occur, in any case, each character literal; without any: no hit."
        ),
    ] = "",
    kinds: Annotated[
        Sequence[SearchKind],
        Meta(
            description="Kinds to search; none named: all: arm, run, session, episode, environment, queue, note."
        ),
    ] = (),
    limit: Annotated[
        int, Meta(ge=1, le=MAX_SEARCH_HITS, description="Maximum number of hits of each kind.")
    ] = 10,
) -> SearchAnswer:
    """Search arms, runs, sessions, episodes, environments, queues and notes by names, ids and words."""
    limit = whole("limit", limit, MAX_SEARCH_HITS, lowest=1)
    unknown = [kind for kind in kinds if kind not in SEARCH_KINDS]
    if unknown:
        raise InvalidInput(
            f"kinds must be of {', '.join(SEARCH_KINDS)}, got {shown(unknown[0])}.",
            next_step="Leave it out to search all.",
        )
    parts = search_words(words)
    with context.reading() as snapshot:
        searched = tuple(
            kind
            for kind in _SEARCHES
            if kind in (kinds or SEARCH_KINDS) and (kind != "note" or snapshot.shows_texts)
        )
        if not parts:
            return SearchAnswer(words=words, hits=(), searched=searched)
        has_sessions = {"run", "session"} & {*searched}
        asked = _Asked(
            snapshot=snapshot,
            text=search_text(words),
            words=parts,
            sessions=session_names(snapshot, parts) if has_sessions else (),
            limit=limit + 1,
        )
        found = snapshot.together(*[partial(_SEARCHES[kind], asked) for kind in searched])
    hits = [hit for every in found for hit in every[:limit]]
    more = [kind for kind, every in zip(searched, found, strict=True) if len(every) > limit]
    return SearchAnswer(words=words, hits=tuple(hits), more=tuple(more), searched=searched)


class _Asked(NamedTuple):
    """What is looked for, and the sessions in which some of the words occur."""

    snapshot: Snapshot
    text: str
    words: Sequence[str]
    sessions: Sequence[SessionName]
    limit: int


_Search = Callable[[_Asked], list[SearchHit]]


def _runs(asked: _Asked) -> list[SearchHit]:
    found = found_runs(asked.snapshot, asked.text, asked.words, asked.sessions, asked.limit)
    return [_hit("run", asked, one) for one in found]


def _sessions(asked: _Asked) -> list[SearchHit]:
    """Return sessions; their page is that of the newest run."""
    found = found_sessions(asked.snapshot, asked.words, asked.sessions, asked.limit)
    return [
        SearchHit(
            kind="session",
            id=one.id,
            title=one.id,
            about=one.about,
            link=page_link("run", newest, asked.snapshot.name),
            at_ms=one.at_ms,
        )
        for one, newest in found
    ]


def _notes(asked: _Asked) -> list[SearchHit]:
    return [
        SearchHit(
            kind="note",
            id=one.id,
            title=one.arm,
            link=page_link("arm", one.arm, asked.snapshot.name),
            at_ms=one.at_ms,
            excerpt=excerpt_of(one.text, asked.words),
        )
        for one in found_notes(asked.snapshot, asked.words, asked.limit)
    ]


def _named(kind: SearchKind, read: Callable[[Snapshot, Sequence[str], int], list[Found]]) -> _Search:
    """Return the search of a kind whose hits have a page of their own."""
    return lambda asked: [_hit(kind, asked, one) for one in read(asked.snapshot, asked.words, asked.limit)]


def _hit(kind: SearchKind, asked: _Asked, found: Found) -> SearchHit:
    return SearchHit(
        kind=kind,
        id=found.id,
        title=found.title or found.id,
        about=found.about,
        link=page_link(kind, found.id, asked.snapshot.name),
        at_ms=found.at_ms,
    )


_SEARCHES: Final[dict[SearchKind, _Search]] = {
    "arm": _named("arm", found_arms),
    "run": _runs,
    "session": _sessions,
    "episode": _named("episode", found_episodes),
    "environment": _named("environment", found_environments),
    "queue": _named("queue", found_queues),
    "note": _notes,
}


def excerpt_of(text: str, parts: Sequence[str]) -> str:
    """Return the part of a text around the first of some words, on one line.

    >>> excerpt_of("a" * 200 + " slow on Mondays", ["mondays"])[:9]
    '… aaaaaaa'
    """
    plain = " ".join(text.split())
    folded = lowered(plain)
    at = min((found for part in parts if (found := folded.find(part)) >= 0), default=0)
    start = max(0, at - _BEFORE) if len(plain) > EXCERPT_CHARS else 0
    end = start + EXCERPT_CHARS
    return f"{'… ' if start else ''}{plain[start:end].strip()}{' …' if end < len(plain) else ''}"
