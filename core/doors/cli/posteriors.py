"""Arms with their cost, prior and judgement, their versions and posteriors, those of the next prompt, and savings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from core.doors.cli.program.app import Fields, Format, answer, command, context_of, rows_or
from core.doors.terminal import mean_words, say, say_cells, say_facts, time_words
from core.doors.verbs import Verbs
from core.errors import InvalidInput
from core.files import read_file
from core.records.arm import Arm
from core.records.counts import number_of
from core.records.savings_words import figure
from core.records.view import View

if TYPE_CHECKING:
    from core.maths.statistics.savings import Comparison, Savings
    from core.records.judgement import Judgement


@command(examples=["arms --type tool", "arms --format tsv | cut -f 1", "arms --since 0 --format nl"])
def arms(line: typer.Context, filters: Fields, format_name: Format = None) -> None:
    from core import explained
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    result = Verbs.arms.call(context, judged=judged, **filters)
    rows = [
        (
            one.arm,
            "unknown" if one.token_cost is None else f"{one.token_cost:,}",
            f"{one.prior.alpha:g}, {one.prior.beta:g}",
            f"{one.pulls:,}",
            effective_cell(one.effective_pulls),
            explained.loads(one.loaded_sessions, one.typed_sessions),
            judgement_cell(judged.get(one.arm)),
        )
        for one in result
    ]
    heads = ("arm", "tokens", "prior", "pulls", "effective", "skill use", "judgement")
    rows_or(line, format_name, result, lambda: say_arms(heads, rows, judged, numbers=(1, 3, 4)))


@command(examples=["versions tool:web:search"])
def versions(line: typer.Context, values: Fields) -> None:
    from core import explained

    result = Verbs.versions.call(context_of(line), **values)
    rows = [
        (
            one.version,
            time_words(one.first_ms),
            time_words(one.last_ms),
            f"{one.runs:,}",
            f"{one.referenced:,}",
            f"{one.named:,}",
            f"{one.pulls:,}",
            mean_words(one.mean),
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
        )
        for one in result.versions
    ]
    heads = (
        "version",
        "first run",
        "last run",
        "in full",
        "used",
        "by name",
        "pulls",
        "mean",
        "95% interval, exact",
    )

    def words() -> None:
        say(explained.versions(result))
        if rows:
            say_cells(heads, rows, numbers=(3, 4, 5, 6, 7))

    answer(line, result, words)


def say_arms(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    judged: Mapping[str, Judgement],
    *,
    numbers: Collection[int],
) -> None:
    """Print a table of arms, with a warning below if some inventories were inferred from calls."""
    from core import explained

    say_cells(heads, rows, numbers=numbers)
    n_called = sum(one.called_only for one in judged.values())
    if n_called:
        say(f"{number_of(n_called, 'arm')} with an inferred inventory. {explained.ONLY_CALLED}")


def effective_cell(pulls: float | None) -> str:
    """Return effective pulls as the text of a table's cell: a dash where they are unknown."""
    return "-" if pulls is None else f"{round(pulls):,}"


def judgement_cell(judged: Judgement | None) -> str:
    """Return the judgement of an arm as the text of a table's cell; None: it is no longer listed."""
    from core import explained

    if judged is None:
        return "no longer listed"
    return explained.judgement(judged, since=time_words(judged.since_ms))


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
    from core import explained
    from core.flows import queries

    context = context_of(line)
    judged = queries.judgements(context)
    result = Verbs.posteriors.call(context, judged=judged, **filters)
    rows = [
        (
            one.arm,
            mean_words(one.mean),
            f"{one.interval.lower:.3f} to {one.interval.upper:.3f}",
            f"{one.pulls:,}",
            effective_cell(one.effective_pulls),
            f"{one.inclusions:,}",
            one.confidence.replace("_", " "),
            explained.chance_of(one),
            judgement_cell(judged.get(one.arm)),
        )
        for one in sorted(result, key=lambda one: (-one.mean, one.arm))
    ]
    heads = (
        "arm",
        "mean",
        "95% interval, exact",
        "pulls",
        "effective",
        "in runs",
        "confidence",
        "chance",
        "judgement",
    )
    rows_or(line, format_name, result, lambda: say_arms(heads, rows, judged, numbers=(1, 2, 3, 4, 5, 7)))


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
    result = Verbs.select.call(context, arms=offered, **values)
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
        say_cells(("", "arm", "why", "rank", "draw", "tokens"), rows, numbers=(3, 4, 5))
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
    operation = Verbs.savings
    result = operation.call(context, view=view)
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
        say_cells(("model", "baseline", "selected", "savings", "verdict"), rows, numbers=(1, 2))


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
