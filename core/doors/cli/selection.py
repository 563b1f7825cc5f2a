"""Selection: the arms of the next prompt, and the tokens that selecting saves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import Fields, answer, command, context_of
from core.doors.terminal import say, say_facts, say_table
from core.doors.verbs import verb
from core.errors import InvalidInput
from core.files import read_file
from core.records.arm import Arm
from core.records.savings_words import figure
from core.records.view import View

if TYPE_CHECKING:
    from core.records.selection import Selection
    from core.statistics.savings import Comparison, Savings


@command(
    examples=["select --budget 8000", "select --arms arms.json --k 12 --json"],
    options={
        "session": "NAME",
        "budget_tokens": typer.Option("--budget", metavar="N", min=0),
        "k": typer.Option("--k", metavar="N", min=0),
    },
)
def select(
    line: typer.Context,
    *,
    arms: Annotated[
        Path | None,
        typer.Option(
            "--arms", metavar="FILE", help="JSON list of ids or {key, token_cost}; default: all known arms."
        ),
    ] = None,
    values: Fields,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="To draw the same again.")
    ] = None,
) -> None:
    """Each arm has its draw, rank, reason and cost. Nothing is stored, unless a selection holds in its session."""
    context = context_of(line)
    if seed is not None:
        context = replace(context, entropy=lambda: seed)
    offered = None if arms is None else _read_arms(arms)
    result: Selection = verb("select").call(context, arms=offered, **values)
    rows = [
        (
            "in" if one.included else "out",
            one.arm,
            one.reason.replace("_", " "),
            f"{one.rank}",
            "" if one.draw is None else f"{one.draw:.3f}",
            f"{one.token_cost:,}",
        )
        for one in result.decisions
    ]

    def tell() -> None:
        say_table(("", "arm", "why", "rank", "draw", "tokens"), rows, numbers=(3, 4, 5))
        say("", f"A {result.run_class} run with {result.tokens:,} tokens of arms; seed {result.seed}.")
        if result.guidance:
            say(*result.guidance.splitlines())

    answer(line, result, tell)


def _read_arms(file: Path) -> list[Arm]:
    try:
        listed = msgspec.json.decode(read_file(file, "--arms"), type=list[str | Arm])
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise InvalidInput(
            f"--arms must name a JSON file with a list of ids or of objects with key and token_cost, "
            f"got {file}: {problem}.",
            next_step='Write it like ["tool:fs:Read", {"key": "tool:web:search", "token_cost": 120}].',
        ) from problem
    return [arm if isinstance(arm, Arm) else Arm(key=arm) for arm in listed]


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
    answer(line, operation.plain(context, result), lambda: _say_savings(result))


def _say_savings(result: Savings) -> None:
    overall = result.overall
    say_facts([*result.facts, *_proof(result)])
    say("", "How it is computed (more: armscope help savings):")
    say_facts(
        [
            ("mean run", figure(overall.saved_percent)),
            ("typical run", figure(overall.typical_percent)),
            ("counted up to a cap", figure(overall.capped_percent)),
            ("the source's formula", _plain_formula(overall)),
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


def _plain_formula(overall: Comparison) -> str:
    """Return the formula of the sources over all runs: (baseline mean - selected mean) / baseline mean."""
    means = overall.baseline.mean_tokens, overall.selected.mean_tokens
    if overall.plain_percent is None or None in means:
        return "no figure"
    return f"{overall.plain_percent:.1f}% ({means[0]:,.0f} and {means[1]:,.0f} tokens a run)"
