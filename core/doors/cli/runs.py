"""Runs: the latest runs, and the decisions of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import Fields, Format, answer, command, context_of, rows_or, say_compacted
from core.doors.cli.program.completion import arm_ids
from core.doors.cli.program.spelling import words
from core.doors.documents import runs as runs_document
from core.doors.terminal import say, say_table
from core.doors.verbs import verb
from core.records.times import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.flows import queries
    from core.records.run_page import RunRow


@command(
    examples=[
        "runs --limit 10",
        "runs --model gpt-4.1 --status error --from 2026-01-26",
        "runs --class baseline --class selected --format nl",
        "runs --since 0 --limit 1000 --format nl",
    ],
    options={
        "limit": typer.Option("--limit", metavar="N"),
        "arm": typer.Option("--arm", metavar="ARM", autocompletion=arm_ids),
        "session": typer.Option("--session", metavar="NAME"),
        "since": typer.Option("--since", metavar="MARK"),
        "from_": typer.Option("--from", metavar="TIME"),
        "to": typer.Option("--to", metavar="TIME"),
    },
)
def runs(line: typer.Context, given: Fields, format_name: Format = None) -> None:
    context = context_of(line)
    latest: Sequence[RunRow] = verb("runs").call(context, **given)
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
        say_table(heads, rows, numbers=(0, 4, 5, 6))
        say_compacted(context)

    rows_or(line, format_name, document, list_runs)


@command("run", examples=["run request-1", "run 3012 --json"])
def explain_run(
    line: typer.Context,
    uid: Annotated[str, typer.Argument(help=words("run", "name"))],
) -> None:
    """Each arm has its evidence, its observed reward, and the change that would have flipped the decision."""
    run_verb, context = verb("run"), context_of(line)
    story: queries.RunStory = run_verb.call(context, name=uid)
    answer(line, run_verb.plain(context, story), lambda: _say(story))


def _say(story: queries.RunStory) -> None:
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
    say_table(heads, rows, numbers=(3, 4, 5))
    if story.guidance is not None:
        say("", *story.guidance.splitlines())
