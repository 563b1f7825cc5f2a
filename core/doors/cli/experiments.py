"""Commands of experiments: plan one, start it, list and show verdicts, change its share, and stop it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from core.doors.cli.program.app import (
    Fields,
    command,
    context_of,
    group,
    reads,
    recorded,
)
from core.doors.cli.program.spelling import words
from core.doors.terminal import say
from core.doors.verbs import Verbs
from core.explained import experiments as explained

if TYPE_CHECKING:
    from core.records.experiment import (
        ExperimentChanged,
        ExperimentPlanned,
        ExperimentRow,
        ExperimentStarted,
    )

EXPERIMENTS = group(
    "experiment", words="List experiments with their verdicts, plan, start, show or stop one."
)


@reads(
    "plan",
    takes="plan_experiment",
    inside=EXPERIMENTS,
    examples=[
        "experiment plan tool:web:search",
        "experiment plan skill:own:pdf --metric tokens --smallest 5",
    ],
)
def _plan(planned: ExperimentPlanned) -> None:
    say(*explained.planned(planned))
    if not planned.refused:
        options = f"--metric {planned.metric} --share {planned.share} --smallest {planned.smallest}"
        say(f"Start it: armscope experiment start {shlex.quote(planned.arm)} {options}")


@command(
    "start",
    takes="start_experiment",
    inside=EXPERIMENTS,
    examples=[
        "experiment start tool:web:search",
        "experiment start skill:own:pdf --metric tokens --share 0.3",
    ],
)
def _start(
    line: typer.Context,
    *,
    arm: Annotated[str, typer.Argument(metavar="ARM", help=words("start_experiment", "arm"))],
    values: Fields,
) -> None:
    """Metric, source, smallest effect, chance, hours and days are fixed. It ends by itself."""
    context = context_of(line)
    result: ExperimentStarted = Verbs.start_experiment.call(context, arm=arm, **values)
    recorded(
        line, context, result, [*explained.planned(result.planned), "It runs until it ends or is stopped."]
    )


@command(
    "share",
    takes="share_experiment",
    inside=EXPERIMENTS,
    examples=["experiment share experiment-1 0.2"],
)
def _share(
    line: typer.Context,
    *,
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help=words("share_experiment", "experiment"))
    ],
    share: Annotated[float, typer.Argument(metavar="SHARE", help=words("share_experiment", "share"))],
    values: Fields,
) -> None:
    """Sessions that are assigned keep their side."""
    context = context_of(line)
    result: ExperimentChanged = Verbs.share_experiment.call(
        context, experiment=experiment, share=share, **values
    )
    recorded(line, context, result, [explained.changed(result)])


@command(
    "stop",
    takes="stop_experiment",
    inside=EXPERIMENTS,
    examples=["experiment stop tool:web:search", "experiment stop experiment-1 --decision exclude"],
)
def _stop(
    line: typer.Context,
    *,
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help=words("stop_experiment", "experiment"))
    ],
    values: Fields,
) -> None:
    """Nothing is deleted, and undo starts it again before its end."""
    context = context_of(line)
    result: ExperimentChanged = Verbs.stop_experiment.call(context, experiment=experiment, **values)
    recorded(line, context, result, [explained.changed(result)])


reads(
    "list",
    takes="experiments",
    inside=EXPERIMENTS,
    with_format=True,
    empty="No experiment yet. Plan one: armscope experiment plan ARM",
    examples=["experiment", "experiment list --arm skill:own:pdf"],
)(explained.EXPERIMENTS)


@reads("show", takes="experiment_result", inside=EXPERIMENTS, examples=["experiment show experiment-1"])
def _show(row: ExperimentRow) -> None:
    say(*explained.story(row))
