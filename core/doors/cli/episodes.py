"""Episodes: what environments paid: listed, one shown step by step, and the scale of one declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from core.doors.cli.program.app import answer, command, context_of, written
from core.doors.cli.program.spelling import words
from core.doors.terminal import say, say_table
from core.doors.verbs import DeclareInput, EpisodeInput, EpisodesInput, verb
from core.records.counts import number_of
from core.records.episode import Base

if TYPE_CHECKING:
    from core.flows.episode import ScaleAnswer
    from core.flows.queries import EnvironmentSeen, EpisodeSeen


@command(
    examples=[
        "episodes",
        "episodes --environment tau2/airline --model gpt-4.1",
        "episodes show sums/s-17",
        "episodes declare sums --scale 0 2 --threshold 1.5 --base total",
    ],
    words="List environments by what they paid, show an episode, or declare on what scale an environment pays.",
)
def episodes(
    line: typer.Context,
    action: Annotated[
        Literal["list", "show", "declare"], typer.Argument(help="list, show UID, or declare ENVIRONMENT.")
    ] = "list",
    name: Annotated[str | None, typer.Argument(help="An episode's uid, or an environment.")] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", metavar="E", help=words(EpisodesInput, "environment"))
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M", help=words(EpisodesInput, "model"))
    ] = None,
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
        float | None, typer.Option("--threshold", metavar="X", help=words(DeclareInput, "threshold"))
    ] = None,
    base: Annotated[Base | None, typer.Option("--base", help=words(DeclareInput, "base"))] = None,
    gamma: Annotated[
        float | None, typer.Option("--gamma", metavar="G", help=words(DeclareInput, "gamma"))
    ] = None,
) -> None:
    if action == "list":
        wanted = EpisodesInput(environment=environment, model=model)
        rows: tuple[EnvironmentSeen, ...] = verb("episodes").call(context_of(line), wanted)
        answer(line, rows, lambda: _say_environments(rows))
        return
    if name is None:
        needs = "a uid, for example: episodes show sums/1" if action == "show" else "an environment"
        raise typer.BadParameter(f"{action} takes {needs}")
    context = context_of(line)
    if action == "show":
        one: EpisodeSeen = verb("episode").call(context, EpisodeInput(uid=name))
        answer(line, one, lambda: _say_episode(one))
        return
    lo, hi = scale or (None, None)
    step_lo, step_hi = step_scale or (None, None)
    said = DeclareInput(
        environment=name,
        lo=lo,
        hi=hi,
        step_lo=step_lo,
        step_hi=step_hi,
        threshold=threshold,
        base=base,
        gamma=gamma,
    )
    made: ScaleAnswer = verb("declare").call(context, said)
    written(line, context, made, _declared(made), act=made.id)


def _declared(made: ScaleAnswer) -> str:
    scale = made.scale
    return (
        f"{made.environment} pays {scale.lo:g} to {scale.hi:g}; success is a {scale.base} above {scale.threshold:g}: "
        f"{made.successes:,} of {number_of(made.episodes, 'episode')} (before {made.successes_before:,})."
    )


def _say_environments(rows: tuple[EnvironmentSeen, ...]) -> None:
    heads = ("environment", "episodes", "unpaid", "average", "success", "95 %", "above", "scale")
    table = [
        (
            one.environment,
            f"{one.n:,}",
            f"{one.without_reward:,}",
            "none paid" if one.average is None else f"{one.average:.4g}",
            "" if one.success is None else f"{one.success.rate:.0%}",
            "" if one.success is None else f"{one.success.lower:.0%} to {one.success.upper:.0%}",
            f"{one.scale.threshold:g} ({one.scale.base})",
            f"{one.scale.lo:g} to {one.scale.hi:g}{'' if one.declared else ' (usual)'}",
        )
        for one in rows
    ]
    say_table(heads, table, numbers=(1, 2, 3, 4))


def _say_episode(one: EpisodeSeen) -> None:
    total = "nothing was paid" if one.total is None else f"total {one.total:g}"
    success = "a success" if one.success else "no success"
    say(
        f"{one.uid}: {one.environment}, {one.status}, {number_of(one.n_steps, 'step')}, {total}; {success} "
        f"({one.scale.base} above {one.scale.threshold:g})."
    )
    table = [
        (
            str(step.number),
            step.name or step.kind,
            "none" if step.reward is None else f"{step.reward:g}",
            "" if step.running is None else f"{step.running:g}",
            ", ".join(
                word
                for word, is_said in (
                    ("finished", step.finished),
                    ("refused", step.refused),
                    ("out of scale", step.out_of_scale),
                    (step.note or "", step.note is not None),
                )
                if is_said
            ),
        )
        for step in one.steps
    ]
    say_table(("step", "what", "reward", "so far", ""), table, numbers=(0, 2, 3))
    for run in one.runs:
        say(f"  run {run}")
