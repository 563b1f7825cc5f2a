"""Search of a learner: everything with a name, and the texts that the reader may see.

A caller without permission for texts causes no read of them, so neither count nor time depends on them. A reviewer
causes reads of the texts of their own items alone.
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
    TEXT_KINDS,
    SearchAnswer,
    SearchHit,
    SearchKind,
    lowered,
    page_link,
    search_text,
    search_words,
)
from core.store.reads.search import (
    NameMatch,
    SessionName,
    matching_arms,
    matching_environments,
    matching_episodes,
    matching_notes,
    matching_queues,
    matching_runs,
    matching_sessions,
    matching_texts,
    session_names,
)
from core.store.review import open_runs
from core.store.transaction import Snapshot

EXCERPT_CHARS: Final = 160
_ITEMS_READ: Final = 500
"""Newest runs among a reviewer's items whose texts are searched."""
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
            description="Kinds to search, all by default: arm, run, session, episode, environment, queue, note, text."
        ),
    ] = (),
    limit: Annotated[
        int, Meta(ge=1, le=MAX_SEARCH_HITS, description="Maximum number of hits of each kind.")
    ] = 10,
) -> SearchAnswer:
    """Search arms, runs, sessions, episodes, environments, queues, notes and kept texts by names and words."""
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
            if kind in (kinds or SEARCH_KINDS) and kind not in _closed(context, snapshot)
        )
        if not parts:
            return SearchAnswer(words=words, hits=(), searched=searched)
        has_sessions = {"run", "session"} & {*searched}
        request = _SearchInput(
            snapshot=snapshot,
            text=search_text(words),
            words=parts,
            sessions=session_names(snapshot, parts) if has_sessions else (),
            limit=limit + 1,
            among=open_runs(snapshot, context.actor.name, _ITEMS_READ)
            if "text" in searched and not snapshot.shows_texts
            else None,
        )
        matches = snapshot.together(*[partial(_SEARCHES[kind], request) for kind in searched])
    hits = [hit for every in matches for hit in every[:limit]]
    more = [kind for kind, every in zip(searched, matches, strict=True) if len(every) > limit]
    return SearchAnswer(words=words, hits=tuple(hits), more=tuple(more), searched=searched)


def _closed(context: Context, snapshot: Snapshot) -> frozenset[SearchKind]:
    """Return the kinds that the caller may not read, or that are not kept. A reviewer reads texts of own items."""
    has_texts = snapshot.settings.keep_texts and (snapshot.shows_texts or context.may("judge"))
    return TEXT_KINDS - ({"note"} if snapshot.shows_words else set()) - ({"text"} if has_texts else set())


class _SearchInput(NamedTuple):
    """The words of a search, the sessions in which some of them occur, and the runs whose texts a reviewer reads."""

    snapshot: Snapshot
    text: str
    words: Sequence[str]
    sessions: Sequence[SessionName]
    limit: int
    among: Sequence[int] | None = None


_Search = Callable[[_SearchInput], list[SearchHit]]


def _runs(request: _SearchInput) -> list[SearchHit]:
    matches = matching_runs(request.snapshot, request.text, request.words, request.sessions, request.limit)
    return [_hit("run", request, one) for one in matches]


def _sessions(request: _SearchInput) -> list[SearchHit]:
    matches = matching_sessions(request.snapshot, request.words, request.sessions, request.limit)
    return [_hit("session", request, one) for one in matches]


def _notes(request: _SearchInput) -> list[SearchHit]:
    return [
        SearchHit(
            kind="note",
            id=one.id,
            title=one.arm,
            link=page_link("arm", one.arm, request.snapshot.name),
            at_ms=one.at_ms,
            excerpt=excerpt_of(one.text, request.words),
        )
        for one in matching_notes(request.snapshot, request.words, request.limit)
    ]


def _texts(request: _SearchInput) -> list[SearchHit]:
    """Return runs and episodes by their kept texts."""
    return [
        SearchHit(
            kind="text",
            id=one.id,
            title=one.id,
            about=one.kind,
            link=page_link(one.kind, one.id, request.snapshot.name),
            at_ms=one.at_ms,
            excerpt=excerpt_of(one.text, request.words),
        )
        for one in matching_texts(request.snapshot, request.words, request.limit, among=request.among)
    ]


def _named(kind: SearchKind, read: Callable[[Snapshot, Sequence[str], int], list[NameMatch]]) -> _Search:
    """Return the search of a kind whose hits have a page of their own."""
    return lambda request: [
        _hit(kind, request, one) for one in read(request.snapshot, request.words, request.limit)
    ]


def _hit(kind: SearchKind, request: _SearchInput, match: NameMatch) -> SearchHit:
    return SearchHit(
        kind=kind,
        id=match.id,
        title=match.title or match.id,
        about=match.about,
        link=page_link(kind, match.id, request.snapshot.name),
        at_ms=match.at_ms,
    )


_SEARCHES: Final[dict[SearchKind, _Search]] = {
    "arm": _named("arm", matching_arms),
    "run": _runs,
    "session": _sessions,
    "episode": _named("episode", matching_episodes),
    "environment": _named("environment", matching_environments),
    "queue": _named("queue", matching_queues),
    "note": _notes,
    "text": _texts,
}


def excerpt_of(text: str, parts: Sequence[str]) -> str:
    """Return the part of a text around the first of some words, on one line.

    >>> excerpt_of("a" * 200 + " slow on Mondays", ["mondays"])[:9]
    '… aaaaaaa'
    """
    plain = " ".join(text.split())
    folded = lowered(plain)
    at = min((at for part in parts if (at := folded.find(part)) >= 0), default=0)
    start = max(0, at - _BEFORE) if len(plain) > EXCERPT_CHARS else 0
    end = start + EXCERPT_CHARS
    return f"{'… ' if start else ''}{plain[start:end].strip()}{' …' if end < len(plain) else ''}"
