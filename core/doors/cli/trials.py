"""Commands of trials and experiments: plan one, read its results, start or stop it, list and show verdicts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from core.doors.cli.program.app import (
    Fields,
    answer,
    command,
    context_of,
    group,
    reads,
    recorded,
    writes,
)
from core.doors.cli.program.spelling import words
from core.doors.terminal import say
from core.doors.verbs import Verbs
from core.errors import InvalidInput
from core.explained import experiments, trials
from core.records.counts import number_of

if TYPE_CHECKING:
    from core.records.experiment import (
        ExperimentChanged,
        ExperimentPlanned,
        ExperimentRow,
        ExperimentStarted,
    )
    from core.records.trial import TrialPlanned, TrialRead, TrialStory, TrialVerdict

TRIALS: Final = group("trial", words="List trials with their verdicts, plan one, read results, or show one.")
_FAILING: Final = ("harms", "open", "missing")
_FAILED: Final = 3
"""Exit code where a verdict is one that ``--fail-on`` names."""

EXPERIMENTS: Final = group(
    "experiment", words="List experiments with their verdicts, plan, start, show or stop one."
)


@command(
    "plan",
    takes="plan_trial",
    inside=TRIALS,
    omit=("environment", "grader_digest"),
    examples=[
        "trial plan skill:own:pdf --tasks tasks/",
        "trial plan tool:web:search --tasks environment:sums --model large --smallest 10",
        "trial plan skill:own:pdf --retest trial-1",
    ],
)
def _plan(
    line: typer.Context,
    *,
    arm: Annotated[str, typer.Argument(metavar="ARM", help=words("plan_trial", "arm"))],
    tasks: Annotated[
        str,
        typer.Option(
            "--tasks",
            metavar="FOLDER|FILE|environment:NAME",
            help="A folder for each task, a file with a task in each line, or the tasks of an environment.",
        ),
    ] = "",
    values: Fields,
) -> None:
    """The plan holds names and digests alone. It starts nothing."""
    from core.flows.trials.plan import ENVIRONMENT, file_digest, tasks_in

    context = context_of(line, create=True)
    grader = Path(values.get("grader", ""))
    if values.get("grader") and grader.is_file():
        values |= {"grader": grader.name, "grader_digest": file_digest(grader)}
    if tasks.startswith(ENVIRONMENT):
        values["environment"] = tasks.removeprefix(ENVIRONMENT)
    elif tasks:
        values["tasks"] = tasks_in(Path(tasks))
    result: TrialPlanned = Verbs.plan_trial.call(context, arm=arm, **values)
    recorded(line, context, result, trials.planned(result))


@command(
    "read",
    takes="read_trial",
    inside=TRIALS,
    omit=("results",),
    examples=[
        "trial read results.jsonl --plan trial-1",
        "trial read --with runs/with --without runs/without --arm skill:own:pdf --fail-on harms",
    ],
)
def _read(
    line: typer.Context,
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="RESULTS", help="A file or folder of results with both sides."),
    ] = None,
    with_arm: Annotated[
        Path | None, typer.Option("--with", metavar="PATH", help="Runs with the arm, in any format.")
    ] = None,
    without: Annotated[
        Path | None, typer.Option("--without", metavar="PATH", help="Runs without it.")
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option("--fail-on", metavar="harms,open,missing", help="End with 3 where one of them holds."),
    ] = "",
    values: Fields,
) -> None:
    """It ends with 0, or with 3 where a verdict is one that --fail-on names."""
    from core.flows.trials.results import read_results, read_sides

    reasons = [one.strip() for one in fail_on.split(",") if one.strip()]
    if strange := sorted({*reasons} - {*_FAILING}):
        raise typer.BadParameter(f"--fail-on takes {', '.join(_FAILING)}, got {strange[0]!r}")
    if file is not None and with_arm is None and without is None:
        results = read_results(file)
    elif file is None and with_arm is not None and without is not None:
        results = read_sides(with_arm, without, arm=values.get("arm") or "")
    else:
        raise typer.BadParameter("name RESULTS, or two folders with --with and --without")
    context = context_of(line, create=True)
    result: TrialRead = Verbs.read_trial.call(context, results=results, **values)
    recorded(line, context, result, [_counted(result), *trials.verdicts(result.row), *result.notes])
    if _fails(result.row.verdicts, reasons):
        raise typer.Exit(_FAILED)


def _counted(result: TrialRead) -> str:
    again = "" if not result.n_regraded else f", {result.n_regraded:,} graded again"
    runs = "" if not result.n_runs else f" {number_of(result.n_runs, 'recorded run')} of it teach nothing."
    return f"{result.trial}: {number_of(result.n_new, 'new run')} read{again}.{runs}"


def _fails(verdicts: Iterable[TrialVerdict], reasons: Iterable[str]) -> bool:
    """Return whether a reason holds for a verdict: its word, or runs that are missing."""
    reasons = {*reasons}
    return any(
        one.figures.word in reasons
        or ("missing" in reasons and one.figures.missing.with_arm + one.figures.missing.without > 0)
        for one in verdicts
    )


reads(
    "list",
    takes="trials",
    inside=TRIALS,
    with_format=True,
    empty="No trial yet. Plan one: armscope trial plan ARM --tasks FOLDER",
    examples=["trial", "trial list --arm skill:own:pdf"],
)(trials.TRIALS)


@reads("show", takes="trial_result", inside=TRIALS, examples=["trial show trial-1"])
def _show(story: TrialStory) -> None:
    say(trials.story(story), *trials.verdicts(story.row))
    if story.readings:
        say(f"Read by {', '.join(story.readings)}.")


@command(
    "script",
    inside=TRIALS,
    words="Write the program that runs a plan, for you to read and to start.",
    examples=[
        "trial script 1 --harness claude --tasks tasks/",
        "trial script 1 --harness command --tasks tasks/ --command 'python /srv/agent.py'",
    ],
)
def _script(
    line: typer.Context,
    *,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan: its id or number.")],
    harness: Annotated[str, typer.Option("--harness", metavar="claude|command", help="What runs the tasks.")],
    tasks: Annotated[
        Path | None, typer.Option("--tasks", metavar="FOLDER", help="The folder with a folder for each task.")
    ] = None,
    agent: Annotated[
        str, typer.Option("--command", metavar="COMMAND", help="Your command; for claude another name of it.")
    ] = "",
    grade: Annotated[
        str, typer.Option("--grade", metavar="COMMAND", help="Grades a run; default: the task's own program.")
    ] = "",
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="File to write; default: trial-N.py.")
    ] = None,
) -> None:
    """The program holds no key, and shows what it would run before it starts anything."""
    from core.flows.new_file import new_file
    from core.flows.trials.script import script

    context = context_of(line)
    story: TrialStory = Verbs.trial_result.call(context, trial=plan)
    if story.plan is None or story.price is None:
        raise InvalidInput(
            f"{story.row.trial} must be a plan, and has none.", next_step="See armscope trial list."
        )
    number = int(story.row.trial.removeprefix("trial-"))
    text = script(
        story.plan,
        number,
        harness=harness,
        tasks=tasks,
        command=shlex.split(agent),
        grade=shlex.split(grade),
        price_usd=None if story.price.money is None else story.price.money / story.price.n_cells,
    )
    file = to or Path(f"trial-{number}.py")
    is_there = file.exists() and file.read_bytes() == text.encode()
    if file.exists() and not is_there:
        raise InvalidInput(
            f"The file must not exist yet, got {file}.",
            next_step="Name another one with --to; nothing was overwritten.",
        )
    if not is_there:
        with new_file(file) as program:
            program.write(text.encode())
    start = f"Read it, and see what it would run: python {shlex.quote(str(file))}"
    answer(line, {"file": str(file)}, lambda: say(f"Wrote {file}. Nothing was started.", start))


@command(
    "plan",
    takes="plan_experiment",
    inside=EXPERIMENTS,
    examples=[
        "experiment plan tool:web:search",
        "experiment plan skill:own:pdf --metric tokens --smallest 5",
    ],
)
def _plan_experiment(
    line: typer.Context,
    *,
    arm: Annotated[str, typer.Argument(metavar="ARM", help=words("plan_experiment", "arm"))],
    values: Fields,
) -> None:
    """Nothing is recorded."""
    result: ExperimentPlanned = Verbs.plan_experiment.call(context_of(line), arm=arm, **values)
    way = "Start it all the same" if result.proposes_trial else "Start it"
    if result.feasible is not None:
        way, values = "Start it with that effect", {**values, "smallest": result.feasible}
    options = [f"--{name} {shlex.quote(str(value))}" for name, value in values.items() if value is not None]
    start = " ".join(["armscope experiment start", shlex.quote(arm), *options])
    ways = [] if result.refused else [f"{way}: {start}"]
    answer(line, result, lambda: say(*experiments.planned(result), *ways))


@writes(
    "start",
    takes="start_experiment",
    inside=EXPERIMENTS,
    examples=[
        "experiment start tool:web:search",
        "experiment start skill:own:pdf --metric tokens --share 0.3",
    ],
)
def _start(result: ExperimentStarted) -> list[str]:
    """Metric, source, smallest effect, chance, hours and days are fixed. It ends by itself."""
    look = f"See its result: armscope experiment show {result.id}"
    lines = [*experiments.planned(result.planned), experiments.until(result.plan)]
    return [*lines, "Nothing was recorded." if result.id is None else look]


@writes(
    "share",
    takes="share_experiment",
    inside=EXPERIMENTS,
    examples=["experiment share experiment-1 0.2"],
)
def _share(result: ExperimentChanged) -> str:
    """Sessions that are assigned keep their side."""
    return experiments.changed(result)


@writes(
    "stop",
    takes="stop_experiment",
    inside=EXPERIMENTS,
    examples=["experiment stop tool:web:search", "experiment stop experiment-1 --decision exclude"],
)
def _stop(result: ExperimentChanged) -> str:
    """Nothing is deleted, and undo starts it again before its end."""
    return experiments.changed(result)


reads(
    "list",
    takes="experiments",
    inside=EXPERIMENTS,
    with_format=True,
    empty="No experiment yet. Plan one: armscope experiment plan ARM",
    examples=["experiment", "experiment list --arm skill:own:pdf"],
)(experiments.EXPERIMENTS)


@reads("show", takes="experiment_result", inside=EXPERIMENTS, examples=["experiment show experiment-1"])
def _show_experiment(row: ExperimentRow) -> None:
    say(*experiments.story(row))
    if row.state not in {"read_only", "undone"}:
        ways = [f"armscope undo {one}" for one in (*row.acts[::-1], row.experiment)]
        say(f"Take back an act: {', '.join(ways)}")
