"""Sessions: the list, and the runs of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import Fields, Format, answer, command, context_of, rows_or, say_compacted
from core.doors.cli.program.spelling import words
from core.doors.documents import sessions as sessions_document
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.times import iso

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.records.run_page import RunsOfSession, SessionRow
    from core.records.transcript import Message


@command(
    examples=["sessions --limit 10", "sessions --model gpt-4.1 --from 2026-01-26 --format nl"],
    options={
        "limit": typer.Option("--limit", metavar="N"),
        "from_": typer.Option("--from", metavar="TIME"),
        "to": typer.Option("--to", metavar="TIME"),
    },
)
def sessions(line: typer.Context, fields: Fields, format_name: Format = None) -> None:
    context = context_of(line)
    rows: Sequence[SessionRow] = verb("sessions").call(context, **fields)
    heads = ("session", "last run", "runs", "observed", "unfinished", "tokens")
    cells = [
        (
            one.session,
            iso(one.last_ms) or "unknown",
            f"{one.n_runs:,}",
            f"{one.n_observed:,}",
            f"{one.n_unfinished:,}",
            f"{one.tokens:,}" if one.n_tokens else "unknown",
        )
        for one in rows
    ]
    document = sessions_document(context, rows)

    def list_sessions() -> None:
        say_table(heads, cells, numbers=(2, 3, 4, 5))
        say_compacted(context)

    rows_or(line, format_name, document, list_sessions)


@command(
    examples=["session chat-3004", "session chat-3004 --texts --json"],
    options={"limit": typer.Option("--limit", metavar="N"), "texts": typer.Option("--texts")},
)
def session(
    line: typer.Context, name: Annotated[str, typer.Argument(help=words("session", "name"))], fields: Fields
) -> None:
    operation, context = verb("session"), context_of(line)
    one: RunsOfSession = operation.call(context, name=name, **fields)
    answer(line, operation.plain(context, one), lambda: _say(one))


def _say(one: RunsOfSession) -> None:
    shown = "" if len(one.rows) == one.row.n_runs else f", the first {len(one.rows):,} of them here"
    say(f"Session {one.row.session}: {one.row.n_runs:,} runs{shown}.", "")
    heads = ("run", "ended", "class", "outcome", "referenced", "tokens", "uid")
    runs = [
        (
            f"{run.run_no}",
            iso(run.at_ms) or "unknown",
            run.run_class,
            run.outcome,
            f"{run.n_referenced} of {run.n_arms}",
            "unknown" if run.tokens is None else f"{run.tokens:,}",
            run.uid,
        )
        for run in one.rows
    ]
    say_table(heads, runs, numbers=(0, 5))
    say("")
    arms = [(arm, f"{n_in:,}", f"{n_used:,}") for arm, n_in, n_used in one.arms]
    say_table(("arm", "prompts", "referenced"), arms, numbers=(1, 2))
    if one.transcripts is not None:
        _say_texts(one.transcripts)


def _say_texts(transcripts: Mapping[str, tuple[Message, ...]]) -> None:
    if not transcripts:
        say("", "No texts are kept of these runs, or you may not read them.")
    for uid, messages in transcripts.items():
        say("", f"Run {uid}:")
        for message in messages:
            result = "" if message.result is None else f" -> {message.result}"
            say(f"  {message.kind}{f' {message.name}' if message.name else ''}: {message.text}{result}")
