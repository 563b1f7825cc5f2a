"""Runs: the latest ones, and why each arm was in one run's prompt or left out, as the page of the run says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program import Format, answer, command, context_of, rows_or
from core.doors.terminal import say, say_table
from core.records.times import iso

if TYPE_CHECKING:
    from core.flows import queries


@command(examples=["runs --limit 10", "runs --limit 1000 --format nl"])
def runs(
    line: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="How many, newest first.")
    ] = 50,
    format_name: Format = None,
) -> None:
    """The latest runs."""
    from core.flows import queries

    found = [
        {
            "run": one.run_no,
            "uid": one.uid,
            "ended_at": iso(one.at_ms),
            "model": one.model,
            "channel": one.channel,
            "class": one.run_class,
            "status": one.status,
            "outcome": one.outcome,
            "tokens": one.tokens,
            "arms": one.n_arms,
            "referenced": one.n_referenced,
        }
        for one in queries.runs(context_of(line), limit)
    ]
    heads = ("run", "ended", "class", "outcome", "arms", "referenced", "tokens", "uid")
    rows = [
        (
            f"{one['run']}",
            f"{one['ended_at'] or 'unknown'}",
            f"{one['class']}",
            f"{one['outcome']}",
            f"{one['arms']}",
            f"{one['referenced']}",
            "unknown" if one["tokens"] is None else f"{one['tokens']:,}",
            f"{one['uid']}",
        )
        for one in found
    ]
    rows_or(line, format_name, found, lambda: say_table(heads, rows, numbers=(0, 4, 5, 6)))


@command("run", examples=["run request-1", "run 3012 --json"])
def explain_run(
    line: typer.Context,
    uid: Annotated[str, typer.Argument(help="The run's uid or number.")],
) -> None:
    """Why each arm was in a run's prompt or left out.

    Beside each arm stands what was seen of it, and what would have flipped it.
    """
    from core.flows import queries

    story = queries.run(context_of(line), uid)
    answer(line, _document(story), lambda: _say(story))


def _document(story: queries.RunStory) -> dict[str, object]:
    """The story with the words that the page says, for programs."""
    from core import explained

    facts = msgspec.to_builtins(story.facts)
    chosen = story.selection
    return {
        **facts,
        "ended_at": iso(story.facts.at_ms),
        "verdict": explained.verdict(story),
        "selection": None
        if chosen is None
        else {
            name: getattr(chosen, name)
            for name in ("seed", "budget_tokens", "baseline_prob", "settings_hash")
        },
        "replays": story.replays,
        "arms": [
            {
                "arm": arm.arm,
                "in_prompt": arm.in_prompt,
                "reason": arm.reason,
                "why": explained.why(arm),
                "rank": arm.rank,
                "draw": arm.draw,
                "token_cost": arm.token_cost,
                "budget_left": arm.budget_left,
                "referenced": arm.referenced,
                "where": arm.where,
                "excerpt": arm.excerpt,
                "reward": arm.reward,
                "by_hand": [msgspec.to_builtins(row) for row in arm.by_hand],
                "flip": explained.flip(arm, story),
            }
            for arm in story.arms
        ],
        "guidance": story.guidance,
        "older": story.older,
        "newer": story.newer,
    }


def _say(story: queries.RunStory) -> None:
    from core import explained

    facts = story.facts
    tokens = "unknown" if facts.tokens is None else f"{facts.tokens:,}"
    say(
        f"Run {facts.run_no:,} ({facts.uid}), {facts.run_class}, {facts.status}, "
        f"{iso(facts.at_ms) or 'time unknown'}; {tokens} tokens, {facts.n_calls:,} calls."
    )
    say(explained.verdict(story))
    for line in (explained.standing(story), explained.not_decided(story), explained.not_offered(story)):
        if line is not None:
            say(line)
    rows = [
        (
            "in" if arm.in_prompt else "out",
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
