"""Savings: what selecting saves against baseline runs, and what is proven of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import answer, command, context_of
from core.doors.terminal import say, say_facts, say_table
from core.doors.verbs import verb
from core.records.savings_words import figure
from core.records.view import View

if TYPE_CHECKING:
    from core.statistics.savings import Comparison, Savings


@command(examples=["savings", "savings --model gpt-4.1 --json"])
def savings(
    line: typer.Context,
    model: Annotated[
        list[str] | None, typer.Option("--model", metavar="M", help="Only this model; repeatable.")
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", metavar="C", help="Only this channel; repeatable.")
    ] = None,
) -> None:
    context = context_of(line)
    view = View(models=tuple(model or ()), channels=tuple(channel or ()))
    operation = verb("savings")
    result: Savings = operation.call(context, view=view)
    answer(line, operation.plain(context, result), lambda: _say(result))


def _say(result: Savings) -> None:
    overall = result.overall
    say_facts([*result.facts, *_proof(result)])
    say("", "How it is computed (more: armscope help savings):")
    say_facts(
        [
            ("mean run", figure(overall.saved_percent)),
            ("typical run", figure(overall.typical_percent)),
            ("counted up to a cap", figure(overall.capped_percent)),
            ("the source's formula", _plain(overall)),
        ]
    )
    rows = [
        (one.model or "unknown", *(f"{n:,}" for n in one.n_compared), figure(one.shown), one.verdict)
        for one in result.by_model
    ]
    if len(rows) > 1:
        say("")
        say_table(("model", "baseline", "selected", "savings", "verdict"), rows, numbers=(1, 2))


def _proof(result: Savings) -> list[tuple[str, str]]:
    """Return how many more sessions or runs a proof takes, where none is made."""
    need = result.proof
    if need is None or need.n_sessions is None or need.n_runs is None:
        return []
    kind = "baseline sessions" if result.overall.in_sessions else "baseline runs"
    amount = f"about {need.n_sessions:,} more {kind}, {need.n_runs:,} runs in all"
    return [(f"proof of {need.saving_percent:.0f}%", f"{amount}, at the spread so far")]


def _plain(overall: Comparison) -> str:
    """Return the formula of the sources over all runs: (baseline mean - selected mean) / baseline mean."""
    means = overall.baseline.mean_tokens, overall.selected.mean_tokens
    if overall.plain_percent is None or None in means:
        return "no figure"
    return f"{overall.plain_percent:.1f}% ({means[0]:,.0f} and {means[1]:,.0f} tokens a run)"
