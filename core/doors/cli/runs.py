"""Runs and their sessions, the rewards observed in them, two sets of them side by side, and a search by words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import Fields, Format, answer, command, context_of, rows_or, say_left_out
from core.doors.cli.program.spelling import words as described
from core.doors.documents import runs as runs_document
from core.doors.documents import sessions as sessions_document
from core.doors.terminal import mean_words, say, say_cells
from core.doors.verbs import Verbs
from core.errors import InvalidInput
from core.records.arm import MICRO
from core.records.limits import shown
from core.records.run_query import RunSide
from core.records.times import iso

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.flows import queries
    from core.flows.context import Context
    from core.records.run_page import RunsOfSession
    from core.records.search import SearchAnswer
    from core.records.sides import ComparedSides, SideArm, SideRuns
    from core.records.transcript import Message

_PICO = 10**12
FILTERS = tuple(one.encode_name for one in msgspec.structs.fields(RunSide))
NOTHING = "Nothing was found in {searched}."


@command(
    examples=[
        "runs --limit 10",
        "runs --model gpt-4.1 --status error --from 2026-01-26",
        "runs --class baseline --class selected --format nl",
        "runs --since 0 --limit 1000 --format nl",
    ],
    options={"arm": "ARM", "session": "NAME"},
)
def runs(line: typer.Context, given: Fields, format_name: Format = None) -> None:
    context = context_of(line)
    latest = Verbs.runs.call(context, **given)
    heads = ("run", "ended", "class", "outcome", "arms", "referenced", "tokens", "uid")
    rows = [
        (
            f"{one.run_no}",
            iso(one.at_ms) or "unknown",
            one.run_class,
            one.outcome,
            f"{one.n_arms}",
            f"{one.n_referenced}",
            "unknown" if one.tokens is None else f"{one.tokens:,}",
            one.uid,
        )
        for one in latest
    ]
    document = runs_document(context, latest)

    def list_runs() -> None:
        say_cells(heads, rows, numbers=(0, 4, 5, 6))
        say_left_out(context)

    rows_or(line, format_name, document, list_runs)


@command("run", examples=["run request-1", "run 3012 --json"], options={"name": "uid"})
def explain_run(line: typer.Context, values: Fields) -> None:
    """Each arm has its evidence, its observed reward, and the change that would have flipped the decision."""
    run_verb, context = Verbs.run, context_of(line)
    story = run_verb.call(context, **values)
    answer(line, run_verb.plain(context, story), lambda: _say_run(story))


def _say_run(story: queries.RunStory) -> None:
    from core import explained

    facts = story.facts
    tokens = "unknown" if facts.tokens is None else f"{facts.tokens:,}"
    say(
        f"Run {facts.run_no:,} ({facts.uid}), {facts.run_class}, {facts.status}, "
        f"{iso(facts.at_ms) or 'time unknown'}; {tokens} tokens, {facts.n_calls:,} calls."
    )
    say(explained.verdict(story))
    for line in (
        explained.bill(story),
        explained.standing(story),
        explained.not_decided(story),
        explained.not_offered(story),
    ):
        if line is not None:
            say(line)
    rows = [
        (
            explained.state(arm),
            arm.arm,
            explained.why(arm),
            explained.NONE if arm.rank is None else f"{arm.rank:,}",
            explained.NONE if arm.draw is None else f"{arm.draw:.3f}",
            explained.NONE if arm.token_cost is None else f"{arm.token_cost:,}",
            explained.evidence(arm, story),
            explained.observed(arm),
            explained.flip(arm, story),
        )
        for arm in story.arms
    ]
    heads = ("", "arm", "why", "rank", "draw", "tokens", "evidence", "observed", "what would have flipped it")
    say("")
    say_cells(heads, rows, numbers=(3, 4, 5))
    if story.guidance is not None:
        say("", *story.guidance.splitlines())


@command(
    examples=["sessions --limit 10", "sessions --model gpt-4.1 --from 2026-01-26 --format nl"],
)
def sessions(line: typer.Context, fields: Fields, format_name: Format = None) -> None:
    context = context_of(line)
    rows = Verbs.sessions.call(context, **fields)
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
        say_cells(heads, cells, numbers=(2, 3, 4, 5))
        say_left_out(context)

    rows_or(line, format_name, document, list_sessions)


@command(examples=["session chat-3004", "session chat-3004 --texts --json"])
def session(line: typer.Context, fields: Fields) -> None:
    operation, context = Verbs.session, context_of(line)
    one = operation.call(context, **fields)
    answer(line, operation.plain(context, one), lambda: _say_session(context, one))


def _say_session(context: Context, one: RunsOfSession) -> None:
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
    say_cells(heads, runs, numbers=(0, 5))
    say("")
    arms = [(arm, f"{n_in:,}", f"{n_used:,}") for arm, n_in, n_used in one.arms]
    say_cells(("arm", "prompts", "referenced"), arms, numbers=(1, 2))
    say_left_out(context)
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


@command(
    examples=["ledger --arm tool:web:search", "ledger --class selected --from 2026-01-26 --format csv"],
    options={"arm": "ARM", "run": "ID"},
)
def ledger(line: typer.Context, given: Fields, format_name: Format = None) -> None:
    rows = Verbs.ledger.call(context_of(line), **given)
    heads = ("reward of", "arm", "kind", "value", "run", "by", "at", "state")
    cells = [
        (
            one.id,
            one.arm,
            one.kind,
            f"{one.reward:g}",
            one.run or "none",
            one.actor,
            iso(one.at_ms) or "unknown",
            "undone" if one.undone else "counts" if one.counts else "superseded or inactive",
        )
        for one in rows
    ]
    rows_or(line, format_name, rows, lambda: say_cells(heads, cells, numbers=(3,)))


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
    result = operation.respond(context, request)

    def show() -> None:
        _say_sides(result)
        say_left_out(context)

    answer(line, result, show)


def _side(filters: Sequence[str]) -> dict[str, str | list[str]]:
    """Return the filters of a side; a filter that comes again has several values."""
    side: dict[str, list[str]] = {}
    for one in filters:
        name, sign, value = one.partition("=")
        if not sign or name not in FILTERS:
            raise InvalidInput(
                f"A side must be FILTER=VALUE with one of {', '.join(FILTERS)}, got {shown(one)}.",
                next_step="For example: armscope compare --a model=large --b model=small",
            )
        side.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in side.items()}


def _say_sides(result: ComparedSides) -> None:
    sides = (result.a, result.b)
    rows: list[tuple[str, ...]] = [
        ("runs", *(f"{one.n_runs:,}" for one in sides)),
        ("failed", *map(_failed, sides)),
        ("tokens a run", *(f"{one.tokens / one.n_tokens:,.0f}" if one.n_tokens else "-" for one in sides)),
        (
            "cost a run",
            *(f"${one.cost_pico / _PICO / one.n_costs:.4f}" if one.n_costs else "-" for one in sides),
        ),
    ]
    say_cells(("", "a", "b"), rows, numbers=(1, 2))
    one = result.failures
    if one.value is not None:
        limits = (
            "too few for an interval"
            if one.limits is None
            else f"95% interval {one.limits[0]:+.1f} to {one.limits[1]:+.1f}"
        )
        say(f"Failures of b less a: {one.value:+.1f} points, {limits}.")
    say("")
    heads = ("arm", "mean a", "mean b", "in a", "in b", "shift a: alpha, beta", "shift b: alpha, beta")
    arms = [
        (
            arm.arm,
            mean_words(arm.a.mean),
            mean_words(arm.b.mean),
            f"{arm.a.n_in:,}",
            f"{arm.b.n_in:,}",
            _shift(arm.a),
            _shift(arm.b),
        )
        for arm in result.arms
    ]
    say_cells(heads, arms, numbers=(1, 2, 3, 4))
    if result.n_arms > len(arms):
        say(
            f"These are the {len(arms):,} largest differences of {result.n_arms:,} arms. Raise --limit for more."
        )


def _failed(one: SideRuns) -> str:
    return "-" if one.failed.value is None else f"{one.n_failed:,} ({100 * one.failed.value:.1f}%)"


def _shift(side: SideArm) -> str:
    parts = [f"{one.source} {_amount(one.alpha_micro)}, {_amount(one.beta_micro)}" for one in side.shifts]
    return "; ".join(parts) or "-"


def _amount(micro: int) -> str:
    """Return millionths as an exact decimal.

    >>> _amount(1_500_000), _amount(-1)
    ('+1.5', '-0.000001')
    """
    whole, rest = divmod(abs(micro), MICRO)
    return f"{'-' if micro < 0 else '+'}{whole}{f'.{rest:06}'.rstrip('0') if rest else ''}"


@command(examples=["search chat-3004", "search pages --kind arm --kind note --limit 5"], omit=("kinds",))
def search(
    line: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help=described("search", "words"))],
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help=described("search", "kinds")),
    ] = None,
    *,
    values: Fields,
) -> None:
    fields: Fields = {"words": " ".join(words), "kinds": tuple(kind or ()), **values}
    result = Verbs.search.call(context_of(line), **fields)
    answer(line, result, lambda: _say_hits(result))


def _say_hits(result: SearchAnswer) -> None:
    rows = [
        (
            one.kind,
            one.id,
            iso(one.at_ms) or "",
            " · ".join(filter(None, (_title(one.title, one.id), one.about))),
        )
        for one in result.hits
    ]
    if not rows:
        say(NOTHING.format(searched=", ".join(f"{kind}s" for kind in result.searched)))
        return
    say_cells(("kind", "id", "newest", "about"), rows)
    for one in result.hits:
        if one.excerpt:
            say(f"{one.id}: {one.excerpt}")
    if result.more:
        say(f"More hits: {', '.join(result.more)}. Raise --limit, or add a word.")


def _title(title: str, id: str) -> str:
    return "" if title == id else title
