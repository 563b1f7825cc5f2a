"""Commands and tables of environments, their episodes, comparisons of models, credit to arms, and scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.doors.cli.program.app import (
    Asking,
    Fields,
    answer,
    command,
    context_of,
    group,
    reads,
    writes,
    written,
)
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import Verbs
from core.explained import episodes as tables
from core.records.arm import MICRO
from core.records.counts import number_of
from core.records.episode_credit import CreditAnswer
from core.records.observation import epoch_words

if TYPE_CHECKING:
    from core.flows.context import Context
    from core.flows.queries import (
        EnvironmentDesign,
        EnvironmentSummary,
        EpisodeView,
        ModelComparison,
    )
    from core.records.answers import ScaleAnswer
    from core.records.episode_page import EpisodePage

Ends = tuple[float, float] | None
EPISODES = group(
    "episodes", words="List environments and episodes, show, compare or credit them, or declare a scale."
)
PREVIEW = "It would be: {scale} Nothing was declared."
FILTERS = {"environment": "E", "split": "S", "task": "T", "model": "M"}
_SHOWN_SHARES: Final = 20


@reads(
    "list",
    inside=EPISODES,
    takes="episodes",
    examples=["episodes", "episodes list --environment tau2/airline --model gpt-4.1"],
    options=FILTERS,
    omit=("with_design",),
)
def _say_environments(rows: Sequence[EnvironmentSummary]) -> None:
    say_table(tables.ENVIRONMENTS, rows)
    for one in rows:
        _say_notes(one)


@reads(
    "each",
    inside=EPISODES,
    takes="episode_list",
    examples=["episodes each --environment sums --outcome success --limit 20"],
    options=FILTERS,
    omit=("cursor", "direction", "since"),
)
def _say_page(page: EpisodePage) -> None:
    say_table(tables.EPISODES, page.rows)
    if page.onward is not None:
        say("There are more: --limit shows them.")


@command(
    "lint", inside=EPISODES, examples=["episodes lint", "episodes lint sums"], options={"environment": "E"}
)
def lint_environments(
    line: typer.Context,
    values: Fields,
    name: Annotated[
        str | None, typer.Argument(metavar="ENVIRONMENT", help=words("lint", "environment"))
    ] = None,
) -> None:
    environment = name or values["environment"]
    findings: tuple[EnvironmentDesign, ...] = Verbs.lint.call(context_of(line), environment=environment)
    answer(line, findings, lambda: say_findings(findings))


@command(
    "compare",
    inside=EPISODES,
    examples=["episodes compare wiki-search --models gpt-4.1 gpt-4.1-mini"],
    options={
        "environment": "ENVIRONMENT",
        "compared": typer.Option("--by"),
        "paired": typer.Option("--paired/--unpaired"),
    },
)
def compare_models(
    line: typer.Context,
    values: Fields,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help="More models after the two of --models.")
    ] = None,
    models: Annotated[
        tuple[str, str] | None,
        typer.Option("--models", metavar="A B", help=words("compare", "models")),
    ] = None,
) -> None:
    comparison: ModelComparison = Verbs.compare.call(
        context_of(line), models=[*(models or ()), *(more or ())], **values
    )
    answer(line, comparison, lambda: say_comparison(comparison))


def say_credit(context: Context, values: Fields) -> None:
    """Write the shares of a credit, and the arms that it would move."""
    from core.flows import queries

    preview = queries.preview_credit(context, **values)
    say(credited(preview.answer, will=True))
    for share in preview.answer.shares[:_SHOWN_SHARES]:
        say(f"  {share.weight_micro / MICRO:.4g} of an observation for {share.arm} in run {share.run}")
    for moved in preview.effects:
        say(f"  {moved.arm}: mean {moved.before.mean:.4f} to {moved.after.mean:.4f}")


@writes(
    "credit",
    inside=EPISODES,
    takes="credit_episode",
    asks=Asking("a credit", "credited", say_credit),
    examples=["episodes credit sums/s-17 --rule referenced"],
    options={"uid": "UID", "rule": typer.Option("--rule")},
)
def _credited(credit: CreditAnswer) -> str:
    return credited(credit)


@command(
    "declare",
    inside=EPISODES,
    examples=["episodes declare sums --scale 0 2 --threshold 1.5 --base total"],
    options={"environment": "ENVIRONMENT", "threshold": "X", "gamma": "G"},
    omit=("lo", "hi", "step_lo", "step_hi"),
)
def declare_scale(
    line: typer.Context,
    *,
    values: Fields,
    scale: Annotated[
        tuple[float, float] | None,
        typer.Option("--scale", metavar="LO HI", help="The lowest and the highest total."),
    ] = None,
    step_scale: Annotated[
        tuple[float, float] | None,
        typer.Option("--step-scale", metavar="LO HI", help="The lowest and the highest payment of a step."),
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show the effect, and declare nothing.")] = False,
) -> None:
    values = {**values, **_ends("", scale), **_ends("step_", step_scale)}
    context = context_of(line)
    if preview:
        shown: ScaleAnswer = Verbs.preview_declare.call(context, **values)
        answer(line, shown, lambda: say(PREVIEW.format(scale=declared(shown))))
        return
    result: ScaleAnswer = Verbs.declare.call(context, **values)
    written(line, context, result, declared(result), act=result.id)


def _ends(prefix: str, ends: Ends) -> dict[str, float]:
    return {} if ends is None else {f"{prefix}lo": ends[0], f"{prefix}hi": ends[1]}


def _say_notes(one: EnvironmentSummary) -> None:
    if one.n_off_scale and one.guess is not None:
        unknown = "" if one.declared else "what is a success is not known until one is declared: "
        say(
            f"{one.environment}: {one.n_off_scale:,} of {number_of(one.n, 'episode')} come to something outside "
            f"{one.scale.lo:g} to {one.scale.hi:g} ({one.guess.lowest:g} to {one.guess.highest:g}); {unknown}"
            f"armscope episodes declare {one.environment} --scale {one.guess.lo:g} {one.guess.hi:g} --threshold X"
        )
    if len(one.models) > 1:
        say(
            f"{one.environment}: {len(one.models)} models together ({', '.join(one.models)}); --model selects one, "
            f"armscope episodes compare {one.environment} compares them."
        )
    if one.findings:
        say(
            f"{one.environment}: {', '.join(one.findings)} in the newest {number_of(one.looked_at, 'episode')}; "
            f"armscope episodes lint {one.environment} shows where."
        )


@reads("show", inside=EPISODES, takes="episode", examples=["episodes show sums/s-17"], options={"uid": "UID"})
def _say_episode(one: EpisodeView) -> None:
    total = "nothing was paid" if one.total is None else f"total {one.total:g}"
    success = "a success" if one.success else "no success"
    if one.success is None:
        success = "whether it is a success is not known"
    say(
        f"{one.uid}: {one.environment}, {one.status}, {number_of(one.n_steps, 'step')}, {total}; {success} "
        f"({one.scale.base} above {one.scale.threshold:g})."
    )
    named = [(name, getattr(one, name)) for name in ("model", "task", "split", "variant", "at")]
    known = [f"{'when' if name == 'at' else name} {value}" for name, value in named if value is not None]
    if known:
        say(f"  {', '.join(known)}")
    say_table(tables.STEPS.only("number", "name", "reward", "running", "notes"), one.steps)
    for part in one.parts:
        say(f"  {part.kind} {part.name}: {part.value:g}")
    for run in one.runs:
        say(f"  run {run}")
    if one.credit is not None:
        stale = "" if one.credit.fits else "; by now the same rule would say something else"
        say(
            f"  {one.credit.id} ({one.credit.rule}) credits {number_of(len(one.credit.shares), 'share')}{stale}"
        )


def say_findings(designs: Sequence[EnvironmentDesign]) -> None:
    """Write the payment patterns of each environment, and its findings with steps as evidence."""
    for one in designs:
        named = ", ".join(f"{known.pattern} ({known.certainty:.0%} sure)" for known in one.patterns)
        say(
            f"{one.environment}: {named or 'no pattern is certain'}, by the newest {one.looked_at:,} of "
            f"{number_of(one.n, 'episode')}."
        )
        for finding in one.findings:
            say(f"  {finding.kind} ({finding.certainty:.0%} sure): {finding.seen} {finding.advice}")
            shown = ", ".join(f"{uid} step {number}" for uid, number in finding.steps[:3])
            say(f"    {shown}{' and more' if len(finding.steps) > 3 else ''}")
        if not one.findings:
            say("  No problem was found.")


def say_comparison(comparison: ModelComparison) -> None:
    """Write the models, then every pair on their common tasks or on all episodes."""
    say_table(tables.MODELS, comparison.models)
    say_table(tables.model_pairs(comparison.compared), comparison.pairs)
    if comparison.first_attempts:
        say(comparison.first_attempts)
    if not comparison.paired:
        say(
            "Unpaired: by all episodes of each model, so a difference may be that of the tasks they attempted."
        )


def declared(answer: ScaleAnswer) -> str:
    """Return the result of a declaration."""
    scale = answer.scale
    return (
        f"{answer.environment} pays {scale.lo:g} to {scale.hi:g}; "
        f"success is a {scale.base} above {scale.threshold:g}: "
        f"{answer.successes:,} of {number_of(answer.episodes, 'episode')} (before {answer.successes_before:,})."
    )


def credited(answer: CreditAnswer, *, will: bool = False) -> str:
    """Return the result of a credit, or the reason for none."""
    if answer.id is None:
        return f"{answer.why} Nothing {'would be' if will else 'was'} credited."
    if answer.repeated:
        effect = "would change" if will else "was changed"
        return f"{answer.id} credits {answer.episode} so already; nothing {effect}."
    replaced = f"; it replaces {answer.replaces}" if answer.replaces else ""
    if answer.reward is None:
        return f"{answer.episode} is credited to no arm{replaced}."
    arms = number_of(len({share.arm for share in answer.shares}), "arm")
    worth = f"{answer.episode}, worth {answer.reward:.4g}"
    late = epoch_words(answer.counted_in)
    return f"{worth}, {'would be' if will else 'is'} shared by {arms}{replaced}. {late}".rstrip()
