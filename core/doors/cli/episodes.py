"""Episodes: what environments paid: listed, shown step by step, looked over, compared, credited to arms; and a scale
declared.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from core.doors import episode_tables as tables
from core.doors.cli.program.app import Fields, answer, command, context_of, written
from core.doors.cli.program.spelling import words
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

Action = Literal["list", "each", "show", "lint", "compare", "credit", "declare"]
Ends = tuple[float, float] | None


@command(
    examples=[
        "episodes",
        "episodes --environment tau2/airline --model gpt-4.1",
        "episodes each --environment sums --outcome success --limit 20",
        "episodes show sums/s-17",
        "episodes lint sums",
        "episodes compare wiki-search --models gpt-4.1 gpt-4.1-mini",
        "episodes credit sums/s-17 --rule referenced",
        "episodes declare sums --scale 0 2 --threshold 1.5 --base total",
    ],
    words="List environments by what they paid, or their episodes; show one; look a reward over; compare models; "
    "credit one to arms of its runs; declare on what scale an environment pays.",
)
def episodes(
    line: typer.Context,
    action: Annotated[
        Action,
        typer.Argument(
            help="list environments, each of their episodes, show UID, lint [ENVIRONMENT], compare ENVIRONMENT, "
            "credit UID, or declare ENVIRONMENT."
        ),
    ] = "list",
    name: Annotated[str | None, typer.Argument(help="An episode's uid, or an environment.")] = None,
    more: Annotated[
        list[str] | None, typer.Argument(help="With compare: further models after the two of --models.")
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", metavar="E", help=words("episodes", "environment"))
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="S", help=words("episodes", "split"))
    ] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="T", help=words("episodes", "task"))] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M", help=words("episodes", "model"))
    ] = None,
    outcome: Annotated[
        EpisodeOutcome | None, typer.Option("--outcome", help=words("episodes", "outcome"))
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="With each: how many.")] = 50,
    models: Annotated[
        tuple[str, str] | None,
        typer.Option("--models", metavar="A B", help="With compare: these models; all there are without it."),
    ] = None,
    by: Annotated[
        Literal["reward", "success"], typer.Option("--by", help=words("compare", "compared"))
    ] = "reward",
    unpaired: Annotated[
        bool,
        typer.Option(
            "--unpaired", help="With compare: by all episodes, also of tasks that only one attempted."
        ),
    ] = False,
    scale: Annotated[
        tuple[float, float] | None,
        typer.Option("--scale", metavar="LO HI", help="With declare: the lowest and the highest total."),
    ] = None,
    step_scale: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--step-scale", metavar="LO HI", help="With declare: the lowest and the highest payment."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="X", help=words("declare", "threshold"))
    ] = None,
    base: Annotated[Base | None, typer.Option("--base", help=words("declare", "base"))] = None,
    gamma: Annotated[
        float | None, typer.Option("--gamma", metavar="G", help=words("declare", "gamma"))
    ] = None,
    rule: Annotated[CreditRule | None, typer.Option("--rule", help=words("credit_episode", "rule"))] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="With declare: say what it would come to, and declare nothing.")
    ] = False,
) -> None:
    wanted = EpisodeFilter(environment=environment, split=split, task=task, model=model, outcome=outcome)
    if action == "list":
        _list(line, wanted)
    elif action == "each":
        _each(line, wanted, limit)
    elif action == "show":
        _show(line, _named(name, "show takes a uid, for example: episodes show sums/1"))
    elif action == "lint":
        _lint(line, name or environment)
    elif action == "compare":
        chosen = [*(models or ()), *(more or ())]
        _compare(
            line,
            {
                "environment": _named(name, "compare takes an environment"),
                "models": chosen,
                "compared": by,
                "paired": not unpaired,
            },
        )
    elif action == "credit":
        _credit(line, _named(name, "credit takes a uid, for example: episodes credit sums/1"), rule, yes=yes)
    else:
        said = {
            "environment": _named(name, "declare takes an environment"),
            "threshold": threshold,
            "base": base,
            "gamma": gamma,
            **_ends("", scale),
            **_ends("step_", step_scale),
        }
        _declare(line, said, preview=preview)


def _named(name: str | None, otherwise: str) -> str:
    if name is None:
        raise typer.BadParameter(otherwise)
    return name


def _ends(of: str, ends: Ends) -> dict[str, float]:
    return {} if ends is None else {f"{of}lo": ends[0], f"{of}hi": ends[1]}


def _list(line: typer.Context, wanted: EpisodeFilter) -> None:
    asked = msgspec.structs.asdict(wanted)
    rows: tuple[EnvironmentSummary, ...] = verb("episodes").call(context_of(line), **asked)
    answer(line, rows, lambda: tables.say_environments(rows, model=wanted.model))


def _each(line: typer.Context, wanted: EpisodeFilter, limit: int) -> None:
    page: EpisodePage = verb("episode_list").call(context_of(line), wanted=wanted, limit=limit)
    answer(line, page, lambda: tables.say_page(page))


def _show(line: typer.Context, uid: str) -> None:
    one: EpisodeView = verb("episode").call(context_of(line), uid=uid)
    answer(line, one, lambda: tables.say_episode(one))


def _lint(line: typer.Context, environment: str | None) -> None:
    found: tuple[EnvironmentDesign, ...] = verb("lint").call(context_of(line), environment=environment)
    answer(line, found, lambda: tables.say_findings(found))


def _compare(line: typer.Context, asked: Fields) -> None:
    found: ModelComparison = verb("compare").call(context_of(line), **asked)
    answer(line, found, lambda: tables.say_comparison(found))


def _credit(line: typer.Context, uid: str, rule: CreditRule | None, *, yes: bool) -> None:
    if rule is None:
        raise typer.BadParameter("credit takes --rule equal, step, referenced or off")
    context = context_of(line)
    if not yes:
        _confirm(context, uid, rule)
    made: CreditAnswer = verb("credit_episode").call(context, uid=uid, rule=rule)
    if made.id is None:  # nobody could be
        answer(line, made, lambda: say(tables.credited(made)))
        return
    written(line, context, made, tables.credited(made), act=made.id)


def _confirm(context: Context, uid: str, rule: CreditRule) -> None:
    from core.flows import queries

    if not sys.stdin.isatty():
        raise typer.BadParameter("a credit without a terminal to ask on needs --yes; nothing was credited")
    tables.say_credit(queries.preview_credit(context, uid, rule))
    typer.confirm("Go on?", abort=True)


def _declare(line: typer.Context, said: Fields, *, preview: bool) -> None:
    context = context_of(line)
    if preview:
        shown: ScaleAnswer = verb("preview_declare").call(context, **said)
        answer(line, shown, lambda: say(f"It would be: {tables.declared(shown)} Nothing was declared."))
        return
    made: ScaleAnswer = verb("declare").call(context, **said)
    written(line, context, made, tables.declared(made), act=made.id)
