"""Runs and their sessions, the rewards observed in them, two sets of them side by side, and a search by words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core import explained
from core.doors.cli.program.app import Fields, answer, command, context_of, reads, say_left_out
from core.doors.cli.program.spelling import words as described
from core.doors.terminal import say, say_table
from core.doors.verbs import Verbs, grouped
from core.errors import InvalidInput
from core.explained import runs as tables
from core.records.limits import shown
from core.records.run_query import RunSide
from core.records.times import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.flows import queries
    from core.flows.context import Context
    from core.records.run_page import RunsOfSession
    from core.records.search import SearchAnswer
    from core.records.sides import ComparedSides

FILTERS = tuple(one.encode_name for one in msgspec.structs.fields(RunSide))
NOTHING = "Nothing was found in {searched}."


reads(
    "runs",
    with_format=True,
    with_left_out=True,
    examples=[
        "runs --limit 10",
        "runs --model gpt-4.1 --status error --from 2026-01-26",
        "runs --class baseline --class selected --format nl",
        "runs --since 0 --limit 1000 --format nl",
    ],
    options={"arm": "ARM", "session": "NAME"},
)(tables.LISTED)


@reads("run", examples=["run request-1", "run 3012 --json"], options={"name": "uid"})
def _say_run(story: queries.RunStory) -> None:
    """Each arm has its evidence, its observed reward, and the change that would have flipped the decision."""
    facts = story.facts
    tokens = "unknown" if facts.tokens is None else f"{facts.tokens:,}"
    say(
        f"Run {facts.run_no:,} ({facts.uid}), {facts.run_class}, {facts.status}, "
        f"{iso(facts.at_ms) or 'time unknown'}; {tokens} tokens, {facts.n_calls:,} calls."
    )
    say(explained.verdict(story), explained.achieved(story))
    for line in (
        explained.bill(story),
        explained.sources(story),
        explained.not_decided(story),
        explained.side(story),
        explained.not_offered(story),
    ):
        if line is not None:
            say(line)
    say("")
    say_table(tables.arms_of(story), story.arms)
    if story.guidance is not None:
        say("", *story.guidance.splitlines())


reads(
    "sessions",
    with_format=True,
    with_left_out=True,
    examples=["sessions --limit 10", "sessions --model gpt-4.1 --from 2026-01-26 --format nl"],
)(tables.SESSIONS)


@command(examples=["session chat-3004", "session chat-3004 --texts --json"])
def session(line: typer.Context, fields: Fields) -> None:
    operation, context = Verbs.session, context_of(line)
    one: RunsOfSession = operation.call(context, **fields)
    answer(line, operation.plain(context, one), lambda: _say_session(context, one))


def _say_session(context: Context, one: RunsOfSession) -> None:
    shown = "" if len(one.rows) == one.row.n_runs else f", the first {len(one.rows):,} of them here"
    say(f"Session {one.row.session}: {one.row.n_runs:,} runs{shown}.", "")
    say_table(tables.RUNS_OF_SESSION, one.rows)
    say("")
    say_table(tables.ARMS_OF_SESSION, one.arms)
    say_left_out(context)
    if one.transcripts is not None:
        if not one.transcripts:
            say("", "No texts are kept of these runs, or you may not read them.")
        for uid, messages in one.transcripts.items():
            say("", f"Run {uid}:")
            for message in messages:
                result = "" if message.result is None else f" -> {message.result}"
                say(f"  {message.kind}{f' {message.name}' if message.name else ''}: {message.text}{result}")


reads(
    "ledger",
    with_format=True,
    examples=["ledger --arm tool:web:search", "ledger --class selected --from 2026-01-26 --format csv"],
    options={"arm": "ARM", "run": "ID"},
)(tables.LEDGER)


@command(
    examples=["compare --a model=large --b model=small", "compare --a to=2026-01-30 --b from=2026-01-31"],
    takes="compare_sides",
)
def compare(
    line: typer.Context,
    a: Annotated[
        list[str] | None,
        typer.Option("--a", metavar="FILTER=VALUE", help=described("compare_sides", "a")),
    ] = None,
    b: Annotated[
        list[str] | None,
        typer.Option("--b", metavar="FILTER=VALUE", help=described("compare_sides", "b")),
    ] = None,
    *,
    values: Fields,
) -> None:
    operation = Verbs.compare_sides
    request = operation.decode({"a": _side(a or ()), "b": _side(b or ()), **values})
    context = context_of(line)
    result: ComparedSides = operation.respond(context, request)

    def show() -> None:
        _say_sides(result)
        say_left_out(context)

    answer(line, result, show)


def _side(filters: Sequence[str]) -> dict[str, str | list[str]]:
    """Return the filters of a side; a filter that comes again has several values."""
    side: list[tuple[str, str]] = []
    for one in filters:
        name, sign, value = one.partition("=")
        if not sign or name not in FILTERS:
            raise InvalidInput(
                f"A side must be FILTER=VALUE with one of {', '.join(FILTERS)}, got {shown(one)}.",
                next_step="For example: armscope compare --a model=large --b model=small",
            )
        side.append((name, value))
    return grouped(side)


def _say_sides(result: ComparedSides) -> None:
    say_table(tables.SIDES, tables.sides_of(result))
    one = result.failures
    if one.value is not None:
        limits = (
            "too few for an interval"
            if one.limits is None
            else f"95% interval {one.limits[0]:+.1f} to {one.limits[1]:+.1f}"
        )
        say(f"Failures of b less a: {one.value:+.1f} points, {limits}.")
    say("")
    say_table(tables.ARMS_OF_SIDES, result.arms)
    say(f"{result.n_different:,} of {result.n_compared:,} compared arms differ by more than chance.")
    n_shown = len(result.arms)
    if result.n_arms > n_shown:
        say(f"These are the first {n_shown:,} of {result.n_arms:,} arms. Raise --limit for more.")


@command(
    examples=["search chat-3004", "search pages --kind arm --kind note --limit 5"],
    options={"kinds": typer.Option("--kind", metavar="KIND")},
)
def search(
    line: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help=described("search", "words"))],
    *,
    values: Fields,
) -> None:
    result: SearchAnswer = Verbs.search.call(context_of(line), words=" ".join(words), **values)
    answer(line, result, lambda: _say_hits(result))


def _say_hits(result: SearchAnswer) -> None:
    if not result.hits:
        say(NOTHING.format(searched=", ".join(f"{kind}s" for kind in result.searched)))
        return
    say_table(tables.LISTED_HITS, result.hits)
    for one in result.hits:
        if one.excerpt:
            say(f"{one.id}: {one.excerpt}")
    if result.more:
        say(f"More hits: {', '.join(result.more)}. Raise --limit, or add a word.")
