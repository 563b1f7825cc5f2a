"""Search: arms, runs, sessions and everything else with a name, by words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import answer, command, context_of
from core.doors.cli.program.spelling import words as described
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.search import MAX_SEARCH_HITS
from core.records.times import iso

if TYPE_CHECKING:
    from core.records.search import SearchAnswer

NOTHING = "Nothing was found in {searched}."


@command(examples=["search chat-3004", "search pages --kind arm --kind note --limit 5"])
def search(
    line: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help=described("search", "words"))],
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help=described("search", "kinds")),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, max=MAX_SEARCH_HITS, help=described("search", "limit")),
    ] = 10,
) -> None:
    result: SearchAnswer = verb("search").call(
        context_of(line), words=" ".join(words), kinds=tuple(kind or ()), limit=limit
    )
    answer(line, result, lambda: _say(result))


def _say(result: SearchAnswer) -> None:
    rows = [
        (
            one.kind,
            one.id,
            iso(one.at_ms) or "",
            " · ".join(filter(None, (_name(one.title, one.id), one.about))),
        )
        for one in result.hits
    ]
    if not rows:
        say(NOTHING.format(searched=", ".join(f"{kind}s" for kind in result.searched)))
        return
    say_table(("kind", "id", "newest", "about"), rows)
    for one in result.hits:
        if one.excerpt:
            say(f"{one.id}: {one.excerpt}")
    if result.more:
        say(f"More hits: {', '.join(result.more)}. Raise --limit, or add a word.")


def _name(title: str, id: str) -> str:
    return "" if title == id else title
