"""Episodes: environments and their episodes, comparisons of models, credit to arms, and scales."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from core.doors import episode_tables as tables
from core.doors.cli.program.app import Fields, answer, command, context_of, group, written
from core.doors.cli.program.spelling import Options, words
from core.doors.terminal import say
from core.doors.verbs import verb
from core.records.episode import Base
from core.records.episode_credit import CreditAnswer, CreditRule
from core.records.episode_page import EpisodeFilter, EpisodeOutcome

if TYPE_CHECKING:
    from core.flows.context import Context
    from core.flows.queries import EnvironmentDesign, EnvironmentSummary, EpisodeView, ModelComparison
    from core.records.answers import ScaleAnswer
    from core.records.episode_page import EpisodePage

Ends = tuple[float, float] | None
EPISODES = group(
    "episodes", words="List environments and episodes, show, compare or credit them, or declare a scale."
)
NEEDS_YES = "a credit without a terminal to ask on needs --yes; nothing was credited"
PREVIEW = "It would be: {scale} Nothing was declared."


class EpisodeOptions(Options, frozen=True, kw_only=True):
    """Options that filter episodes."""

    environment: Annotated[
        str | None, typer.Option("--environment", metavar="E", help=words("episodes", "environment"))
    ] = None
    split: Annotated[str | None, typer.Option("--split", metavar="S", help=words("episodes", "split"))] = None
    task: Annotated[str | None, typer.Option("--task", metavar="T", help=words("episodes", "task"))] = None
    model: Annotated[str | None, typer.Option("--model", metavar="M", help=words("episodes", "model"))] = None
    outcome: Annotated[
        EpisodeOutcome | None, typer.Option("--outcome", help=words("episodes", "outcome"))
    ] = None


Uid = Annotated[str, typer.Argument(metavar="UID", help=words("episode", "uid"))]
Environment = Annotated[str, typer.Argument(metavar="ENVIRONMENT", help=words("declare", "environment"))]


@command(
    "list",
    inside=EPISODES,
    takes="episodes",
    examples=["episodes", "episodes list --environment tau2/airline --model gpt-4.1"],
)
def list_environments(line: typer.Context, options: EpisodeOptions) -> None:
    rows: tuple[EnvironmentSummary, ...] = verb("episodes").call(
        context_of(line), **msgspec.structs.asdict(options)
    )
    answer(line, rows, lambda: tables.say_environments(rows, model=options.model))


@command(
    "each",
    inside=EPISODES,
    takes="episode_list",
    examples=["episodes each --environment sums --outcome success --limit 20"],
)
def list_episodes(
    line: typer.Context,
    options: EpisodeOptions,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help=words("episode_list", "limit"))
    ] = 50,
) -> None:
    episode_filter = EpisodeFilter(**msgspec.structs.asdict(options))
    page: EpisodePage = verb("episode_list").call(context_of(line), wanted=episode_filter, limit=limit)
    answer(line, page, lambda: tables.say_page(page))


@command("show", inside=EPISODES, takes="episode", examples=["episodes show sums/s-17"])
def show_episode(line: typer.Context, uid: Uid) -> None:
    one: EpisodeView = verb("episode").call(context_of(line), uid=uid)
    answer(line, one, lambda: tables.say_episode(one))


@command("lint", inside=EPISODES, examples=["episodes lint", "episodes lint sums"])
def lint_environments(
    line: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="ENVIRONMENT", help=words("lint", "environment"))
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", metavar="E", help=words("lint", "environment"))
    ] = None,
) -> None:
    findings: tuple[EnvironmentDesign, ...] = verb("lint").call(
        context_of(line), environment=name or environment
    )
    answer(line, findings, lambda: tables.say_findings(findings))


@command(
    "compare",
    inside=EPISODES,
    examples=["episodes compare wiki-search --models gpt-4.1 gpt-4.1-mini"],
)
def compare_models(
    line: typer.Context,
    environment: Environment,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help="More models after the two of --models.")
    ] = None,
    models: Annotated[
        tuple[str, str] | None,
        typer.Option("--models", metavar="A B", help=words("compare", "models")),
    ] = None,
    by: Annotated[
        Literal["reward", "success"], typer.Option("--by", help=words("compare", "compared"))
    ] = "reward",
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Use all episodes, also of tasks that only one attempted.")
    ] = False,
) -> None:
    comparison: ModelComparison = verb("compare").call(
        context_of(line),
        environment=environment,
        models=[*(models or ()), *(more or ())],
        compared=by,
        paired=not unpaired,
    )
    answer(line, comparison, lambda: tables.say_comparison(comparison))


@command(
    "credit",
    inside=EPISODES,
    takes="credit_episode",
    examples=["episodes credit sums/s-17 --rule referenced"],
)
def credit_episode(
    line: typer.Context,
    uid: Uid,
    rule: Annotated[CreditRule, typer.Option("--rule", help=words("credit_episode", "rule"))],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    context = context_of(line)
    if not yes:
        _confirm(context, uid, rule)
    credit: CreditAnswer = verb("credit_episode").call(context, uid=uid, rule=rule)
    if credit.id is None:  # no arm could be credited
        answer(line, credit, lambda: say(tables.credited(credit)))
        return
    written(line, context, credit, tables.credited(credit), act=credit.id)


@command(
    "declare",
    inside=EPISODES,
    examples=["episodes declare sums --scale 0 2 --threshold 1.5 --base total"],
)
def declare_scale(
    line: typer.Context,
    environment: Environment,
    scale: Annotated[
        tuple[float, float] | None,
        typer.Option("--scale", metavar="LO HI", help="The lowest and the highest total."),
    ] = None,
    step_scale: Annotated[
        tuple[float, float] | None,
        typer.Option("--step-scale", metavar="LO HI", help="The lowest and the highest payment of a step."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="X", help=words("declare", "threshold"))
    ] = None,
    base: Annotated[Base | None, typer.Option("--base", help=words("declare", "base"))] = None,
    gamma: Annotated[
        float | None, typer.Option("--gamma", metavar="G", help=words("declare", "gamma"))
    ] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show the effect, and declare nothing.")] = False,
) -> None:
    values: Fields = {
        "environment": environment,
        "threshold": threshold,
        "base": base,
        "gamma": gamma,
        **_ends("", scale),
        **_ends("step_", step_scale),
    }
    context = context_of(line)
    if preview:
        shown: ScaleAnswer = verb("preview_declare").call(context, **values)
        answer(line, shown, lambda: say(PREVIEW.format(scale=tables.declared(shown))))
        return
    declared: ScaleAnswer = verb("declare").call(context, **values)
    written(line, context, declared, tables.declared(declared), act=declared.id)


def _ends(prefix: str, ends: Ends) -> dict[str, float]:
    return {} if ends is None else {f"{prefix}lo": ends[0], f"{prefix}hi": ends[1]}


def _confirm(context: Context, uid: str, rule: CreditRule) -> None:
    from core.flows import queries

    if not sys.stdin.isatty():
        raise typer.BadParameter(NEEDS_YES)
    tables.say_credit(queries.preview_credit(context, uid, rule))
    typer.confirm("Go on?", abort=True)
