"""Arms with their cost, prior and judgement, their versions and posteriors, those of the next prompt, and savings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core import explained
from core.doors.cli.program.app import Fields, Format, answer, command, context_of, reads, rows_or
from core.doors.terminal import say, say_facts, say_table
from core.doors.verbs import Verbs
from core.errors import InvalidInput
from core.explained import arms as tables
from core.explained.table import Row, Table
from core.files import read_file
from core.records.arm import Arm
from core.records.counts import number_of
from core.records.run_query import View
from core.records.savings_words import figure

if TYPE_CHECKING:
    from core.maths.statistics.savings import Comparison, Savings
    from core.records.arm_summary import ArmVersions
    from core.records.judgement import JudgedPosterior, Judgement
    from core.records.selection import Selection


@command(examples=["arms --type tool", "arms --format tsv | cut -f 1", "arms --since 0 --format nl"])
def arms(line: typer.Context, filters: Fields, format_name: Format = None) -> None:
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    result: list[queries.JudgedArm] = Verbs.arms.call(context, judged=judged, **filters)
    rows_or(line, format_name, result, lambda: say_arms(tables.arms(judged), result, judged))


@reads("versions", examples=["versions tool:web:search"])
def _say_versions(result: ArmVersions) -> None:
    say(explained.versions(result))
    if result.versions:
        say_table(tables.VERSIONS, result.versions)


def say_arms(table: Table[Row], rows: Iterable[Row], judged: Mapping[str, Judgement]) -> None:
    """Print a table of arms, with a warning below if some inventories were inferred from calls."""
    say_table(table, rows)
    n_called = sum(one.called_only for one in judged.values())
    if n_called:
        say(f"{number_of(n_called, 'arm')} with an inferred inventory. {explained.ONLY_CALLED}")


@command(
    examples=[
        "posteriors",
        "posteriors --type skill --type file",
        "posteriors --format csv > beliefs.csv",
        "posteriors --since 0 --format nl",
    ],
    words=Verbs.posteriors.words,
    takes="arms",
)
def posteriors(line: typer.Context, filters: Fields, format_name: Format = None) -> None:
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    result: list[JudgedPosterior] = Verbs.posteriors.call(context, judged=judged, **filters)
    rows = sorted(result, key=lambda one: (-one.mean, one.arm))

    def write() -> None:
        say_arms(tables.posteriors(judged), rows, judged)
        limits = {one.limits for one in judged.values() if one.limits}
        if limits:
            say(f"Limits of the latest prompts: {'; '.join(sorted(map(explained.limits_words, limits)))}.")

    rows_or(line, format_name, result, write)


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
    """Each arm has its draw, rank, reason and cost. Only holds and sides of sessions are stored."""
    context = context_of(line)
    if seed is not None:
        context = replace(context, entropy=lambda: seed)
    offered = None if arms is None else _read_arms(arms)
    result: Selection = Verbs.select.call(context, arms=offered, **values)

    def write() -> None:
        say_table(tables.DECISIONS, result.decisions)
        say("", f"A {result.run_class} run with {result.tokens:,} tokens of arms; seed {result.seed}.")
        if result.guidance:
            say(*result.guidance.splitlines())

    answer(line, result, write)


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
    operation = Verbs.savings
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
    if len(result.by_model) > 1:
        say("")
        say_table(tables.SAVINGS, result.by_model)


def _proof(result: Savings) -> list[tuple[str, str]]:
    need = result.proof
    if need is None or need.n_sessions is None or need.n_runs is None:
        return []
    kind = "baseline sessions" if result.overall.in_sessions else "baseline runs"
    amount = f"about {need.n_sessions:,} more {kind}, {need.n_runs:,} runs in all"
    return [(f"proof of {need.saving_percent:.0f}%", f"{amount}, at the spread so far")]


def _plain_formula(overall: Comparison) -> str:
    """Return the saving by the formula of OpenClaw, over all runs: 1 - selected mean / baseline mean."""
    means = overall.baseline.mean_tokens, overall.selected.mean_tokens
    if overall.plain_percent is None or None in means:
        return "no figure"
    return f"{overall.plain_percent:.1f}% ({means[0]:,.0f} and {means[1]:,.0f} tokens a run)"
