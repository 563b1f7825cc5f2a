"""Plans and results of trials: plan, read, list and show.

Cells of one trial are those of its readings, the later ones over the earlier ones. A reading belongs to its plan. One
without a plan goes on with the trial whose cells it has all, as a file does that grew or was graded again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final, Unpack

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from core.errors import InvalidInput, UnknownAct
from core.files import read_file
from core.flows.context import Context
from core.flows.trials import program
from core.formats.strict import digest_of
from core.formats.trial_files import TaskNames
from core.maths.achieved import paid
from core.maths.episodes import written
from core.maths.statistics.trials import SMALLEST, figures
from core.maths.statistics.trials.cells import grade_of
from core.maths.statistics.trials.verdict import (
    USUAL_CONCENTRATION,
    difficulty,
    tasks_needed,
)
from core.records.arm import check_key
from core.records.counts import number_of
from core.records.currency import PICO
from core.records.limits import listed, shown
from core.records.parameters import ArmKey, Preview, completed
from core.records.times import DAY_MS
from core.records.trial import (
    NOT_GRADED,
    Cell,
    CellKey,
    Metric,
    Past,
    TrialLine,
    TrialOptions,
    TrialPlan,
    TrialPlanned,
    TrialPrice,
    TrialRead,
    TrialResults,
    TrialRow,
    TrialSide,
    TrialStory,
    TrialTask,
    TrialVerdict,
    TrialWord,
)
from core.store.environments import declared_scales
from core.store.reads import arm_number
from core.store.reads.arm_story import version_counts
from core.store.transaction import Facts, Transaction
from core.store.trials import (
    TrialFact,
    add_trial,
    attempts_of,
    cost_of_runs,
    model_days,
    trial_facts,
    trial_runs,
    undone_trials,
)

ENVIRONMENT: Final = "environment:"
"""Beginning of a source of tasks that names an environment."""
_RECENT_DAYS: Final = 30
_SOLVED: Final = 0.5
_MOST_TASK_BYTES: Final = 16 << 20
_OF_RETEST: Final = ("repeats", "smallest", "metric", "model", "harness", "grader", "grader_digest")
"""Fields that a retest takes over from the plan before it."""
_OWN: Final = "own"
"""Id of a line of this learner, whose facts have none."""
_NO_RESULTS: Final = TrialResults(source="", cells=())
_SOURCE: Final = attrgetter("source", "arm", "about", "harness")
"""Parts that the results of one file have in common."""


# Tasks


def tasks_in(path: Path) -> tuple[TrialTask, ...]:
    """Return the tasks of a folder, one for each folder in it, or of a file with a task in each line.

    A line is a name, or JSON with ``name`` and perhaps ``prompt``. Raises `InvalidInput` where there is no task.
    """
    if path.is_dir():
        folders = sorted(one for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
        tasks = [_task_of_folder(one) for one in folders]
    else:
        lines = read_file(path, "--tasks", max_bytes=_MOST_TASK_BYTES).decode("utf-8-sig").splitlines()
        tasks = [_task_of_line(line.strip()) for line in lines if line.strip()]
    if not tasks:
        raise InvalidInput(
            f"--tasks must have a task, got none in {shown(str(path))}.",
            next_step="Name a folder with a folder for each task, or a file with a task in each line.",
        )
    return tuple(tasks)


def _task_of_folder(folder: Path) -> TrialTask:
    prompt = folder / "prompt.md"
    cluster = file_digest(prompt) if prompt.is_file() else ""
    return TrialTask(name=folder.name, digest=program.digest_of(folder), cluster=cluster)


class _Line(msgspec.Struct):
    name: str
    prompt: str = ""


def _task_of_line(line: str) -> TrialTask:
    if not line.startswith("{"):
        return TrialTask(name=line)
    try:
        task = msgspec.json.decode(line, type=_Line)
    except msgspec.DecodeError as problem:
        raise InvalidInput(
            f"A task's line must be a name, or a JSON object with a name, got {shown(line)}.",
            next_step="Write one task in each line.",
        ) from problem
    cluster = digest_of(task.prompt.encode()) if task.prompt else ""
    return TrialTask(name=task.name, digest=digest_of(line.encode()), cluster=cluster)


def file_digest(path: Path) -> str:
    """Return the digest of a file, such as what grades the runs."""
    return digest_of(path.read_bytes())


def _distinct(tasks: Iterable[TrialTask]) -> tuple[list[TrialTask], list[str]]:
    """Return the tasks under different names, and notes about those of one name or one prompt."""
    names, clusters = TaskNames(), defaultdict[str, list[str]](list)
    named = {name: replace(one, name=name) for one in tasks if (name := names.task(one.name, one.digest))}
    for name, task in named.items():
        clusters[task.cluster or name].append(name)
    alike = [", ".join(one) for one in clusters.values() if len(one) > 1]
    notes = [f"Tasks {one} have one prompt: they count as one task." for one in alike]
    return list(named.values()), [*names.notes, *notes]


# Planning


def plan_trial(
    context: Context,
    arm: ArmKey,
    tasks: Annotated[Sequence[TrialTask], Meta(description="The tasks, each with its name.")] = (),
    *,
    environment: Annotated[
        str | None, Meta(description="The tasks of recorded episodes of this environment.")
    ] = None,
    each: Annotated[Sequence[str], Meta(description="Leave out each of these arms in turn, too.")] = (),
    repeats: Annotated[int | None, Meta(description="Runs of each task on each side. Default: 3.")] = None,
    smallest: Annotated[
        float | None,
        Meta(description="Smallest effect of interest: points of success, or per cent of cost. Default: 15."),
    ] = None,
    metric: Annotated[Metric | None, Meta(description="What the trial compares. Default: success.")] = None,
    halves: Annotated[
        bool, Meta(description="Leave out a random half of the arms on each side, to find candidates.")
    ] = False,
    retest: Annotated[
        str | None,
        Meta(
            description="Test the tasks of this trial again, those first whose sides differed. What is not named "
            "stays as it was planned."
        ),
    ] = None,
    preview: Preview = False,
    **options: Unpack[TrialOptions],
) -> TrialPlanned:
    """Plan a trial: the same tasks with and without an arm.

    The answer has the tasks that a verdict needs, and the price by recorded runs. The plan holds names and digests,
    and no texts. `undo` reverts it. Raises `InvalidInput` where there are no tasks.
    """
    arms = tuple(dict.fromkeys((arm, *listed("each", each))))
    if halves and len(arms) == 1:
        raise InvalidInput(
            f"Halves must be of several arms, got {arm} alone.", next_step="Name the others with each."
        )
    seed, ways = context.entropy(), completed(TrialOptions, options)

    def work(txn: Transaction) -> tuple[TrialPlanned, list[tuple[int, int]]]:
        again, flipped, earlier, before = _of_trial(txn, arm, retest)
        of_plan = {} if before is None else {name: getattr(before, name) for name in _OF_RETEST}
        named = {**ways, "repeats": repeats, "smallest": smallest, "metric": metric}
        named["grader"] = ways["grader"] or environment
        if named["grader"]:
            of_plan["grader_digest"] = ""
        chosen, notes = _distinct([*tasks, *_of_environment(txn, environment)] or again)
        dice = np.random.default_rng(seed)
        order = dice.permutation(len(chosen)).tolist()
        order.sort(key=lambda index: chosen[index].name not in flipped)
        coins = dice.integers(2, size=(len(chosen) if halves else 0, len(arms)))
        plan = TrialPlan(
            arms=arms,
            digests=tuple(_version(txn, key) for key in arms),
            tasks=tuple(chosen[index] for index in order),
            seed=str(seed),
            halves=tuple("".join(map(str, row)) for row in coins.tolist()),
            retest=earlier,
            **of_plan | {name: one for name, one in named.items() if one not in {None, ""}},
        )
        number = add_trial(txn, TrialLine(id=_OWN, plan=plan), txn.own)
        txn.audit("trial", f"trial-{number}", {"form": "plan"})
        planned = TrialPlanned(
            id=f"trial-{number}",
            plan=plan,
            needed=(),
            spread_tasks=0,
            price=_price(txn, plan),
            notes=tuple(notes),
        )
        return planned, _attempts(txn, plan)

    done = context.rehearse if preview else context.write
    planned, attempts = done("ingest", work, create=True)
    fitted = difficulty(*np.array(attempts, dtype=np.int64).reshape(-1, 2).T)
    needed = tasks_needed(  # after the write: it takes its time
        planned.plan.smallest,
        metric=planned.plan.metric,
        repeats=planned.plan.repeats,
        concentration=USUAL_CONCENTRATION if fitted is None else fitted,
        n_together=len(arms),
    )
    return replace(
        planned,
        id=None if preview else planned.id,
        needed=needed,
        spread_tasks=0 if fitted is None else len(attempts),
    )


def _of_environment(txn: Transaction, environment: str | None) -> list[TrialTask]:
    if not environment:
        return []
    names = sorted({task for _, task, _ in attempts_of(txn, environment, "")})
    if not names:
        raise InvalidInput(
            f"There is no episode with a task in environment {environment[:80]!r}.",
            next_step="Name one that armscope episodes lists, or name the tasks.",
        )
    return [TrialTask(name=name) for name in names]


def _of_trial(
    facts: Facts, arm: str, name: str | None
) -> tuple[Sequence[TrialTask], set[str], TrialWord | None, TrialPlan | None]:
    """Return an earlier trial of an arm: its tasks, the names of those whose sides differed, its word, its plan."""
    if name is None:
        return (), set(), None, None
    trial = _named(facts, _trials(facts), name)
    row = _row(facts, trial)
    earlier = [one.figures for one in row.verdicts if one.figures.arm in ("", arm)]
    pairs = {task.task: task for one in earlier for task in one.tasks}
    if not pairs or arm not in row.arms:
        raise InvalidInput(
            f"A retest must be of an earlier trial of {arm} with results, got {shown(name)}.",
            next_step="See armscope trial list.",
        )
    tasks = [TrialTask(name=name) for name in pairs] if trial.plan is None else trial.plan.tasks
    flipped = {name for name, one in pairs.items() if one.with_arm != one.without}
    return tasks, flipped, earlier[0].word, trial.plan


def _version(facts: Facts, arm: str) -> str:
    """Return the digest of an arm's text as the latest run had it; '' = unknown."""
    arm_no = arm_number(facts, arm)
    counts = [] if arm_no is None else version_counts(facts, arm_no)
    return max(counts, key=lambda one: (one.last_ms or 0, one.version)).version if counts else ""


def _attempts(facts: Facts, plan: TrialPlan) -> list[tuple[int, int]]:
    """Return solved and all recorded attempts by task, of this model and grader, where there are two or more."""
    scales = declared_scales(facts)
    by_task: dict[str, list[float]] = defaultdict(list)
    for environment_no, task, total in attempts_of(facts, plan.grader, plan.model):
        value = None if total is None else paid(written(float(total)), scales.get(environment_no))
        if value is not None:
            by_task[task].append(value)
    return [
        (sum(one > _SOLVED for one in values), len(values)) for values in by_task.values() if len(values) > 1
    ]


def _price(facts: Facts, plan: TrialPlan) -> TrialPrice:
    """Return the price of all cells, by the mean of recorded runs of the model."""
    n_sides = 2 if plan.halves else 1 + len(plan.arms)
    n_cells = len(plan.tasks) * plan.repeats * n_sides
    n_runs, pico, tokens = cost_of_runs(facts, plan.model)
    return TrialPrice(
        n_cells=n_cells,
        n_runs=n_runs,
        money=None if pico is None else pico * n_cells / PICO,
        tokens=None if tokens is None else round(tokens * n_cells),
    )


# Trials of a learner


@dataclass
class _Study:
    """A trial: its first fact, its plan if it has one, its readings and their cells by key."""

    first: TrialFact
    plan: TrialPlan | None
    readings: list[TrialFact] = field(default_factory=list)
    cells: dict[CellKey, Cell] = field(default_factory=dict)
    latest: TrialResults = _NO_RESULTS

    def goes_on_with(self, results: TrialResults) -> bool:
        """Return whether results have all runs of this trial, or it all of theirs, with other grades at most."""
        theirs = {one.key: one for one in results.cells}
        shared = self.cells.keys() & theirs.keys()
        return len(shared) == min(len(self.cells), len(theirs)) and all(
            _is_same_run(self.cells[key], theirs[key], results.rescored) for key in shared
        )


def _is_same_run(known: Cell, cell: Cell, rescored: Collection[TrialSide]) -> bool:
    """Return whether cells of one key are one run, of which the grade may change.

    A run without session, time and usage is known by its grade alone, where it has one and was not rescored.
    """
    usage = (known.at_ms, known.tokens, known.money_pico)
    has_name = bool(known.session) or usage.count(None) < len(usage)
    if not (has_name or cell.side in rescored or None in (known.grade, cell.grade)):
        return known == cell
    graded = replace(known, grade=cell.grade, graded_by=cell.graded_by, checks=cell.checks)
    is_early = _waits(known) or _waits(cell)
    return cell == (replace(graded, end=cell.end, error=cell.error) if is_early else graded)


def _waits(cell: Cell) -> bool:
    """Return whether a run has ended, and its first grade may come."""
    return cell.grade is None and (cell.end == "ended" or cell.error == NOT_GRADED)


def _merged(known: Mapping[CellKey, Cell], results: TrialResults) -> tuple[dict[CellKey, Cell], list[str]]:
    """Return the cells that results change, and notes about those that the known ones stay for.

    The first run of a key counts. Its first grade counts, and another one where both sides were graded again.
    """
    changed: dict[CellKey, Cell] = {}
    again: dict[CellKey, Cell] = {}
    n_others = 0
    for one in results.cells:
        old = known.get(one.key)
        if old is None:
            changed[one.key] = one
        elif not _is_same_run(old, one, results.rescored):
            n_others += 1
        elif old != one:
            (changed if _waits(old) else again)[one.key] = one
    graded = [one for one in known.values() if grade_of(one) is not None and one.side not in results.rescored]
    is_whole = all(one.key in again and again[one.key].graded_by not in {one.graded_by, ""} for one in graded)
    notes = [f"{number_of(n_others, 'run')} of known cells left out: the first run of a cell counts."]
    notes = notes if n_others else []
    if is_whole:
        return changed | again, notes
    if again:
        notes.append(
            f"{number_of(len(again), 'other grade')} left out: grades change where both sides were graded again."
        )
    return changed, notes


def _trials(facts: Facts) -> list[_Study]:
    """Return the trials of a learner, the oldest first. Readings of an undone plan are in none."""
    known, undone = trial_facts(facts), undone_trials(facts)
    plans = {one.line_id: _Study(one, one.content) for one in known if isinstance(one.content, TrialPlan)}
    trials = [*plans.values()]
    for fact in known:
        if isinstance(fact.content, TrialPlan) or fact.plan in undone:
            continue
        trial = plans.get(fact.plan) or _continued(trials, fact.content)
        if trial is None:
            trial = _Study(fact, None)
            trials.append(trial)
        trial.readings.append(fact)
        trial.latest = fact.content
        trial.cells |= _merged(trial.cells, fact.content)[0]
    place = {one.number: place for place, one in enumerate(known)}
    return sorted(trials, key=lambda one: place[one.first.number])


def _continued(trials: Sequence[_Study], results: TrialResults) -> _Study | None:
    alike = (one for one in reversed(trials) if one.plan is None and _SOURCE(one.latest) == _SOURCE(results))
    return next((one for one in alike if one.goes_on_with(results)), None)


def _named(facts: Facts, trials: Sequence[_Study], name: str) -> _Study:
    """Return the trial of an id such as trial-3, or of its number."""
    number = name.removeprefix("trial-").removeprefix("#")
    for one in trials:
        if number in {str(fact.number) for fact in (one.first, *one.readings)}:
            return one
    undone = undone_trials(facts)
    hidden = {str(one): one for one in undone.values()}
    hidden |= {str(one.number): undone[one.plan] for one in trial_facts(facts) if one.plan in undone}
    if number in hidden:
        raise UnknownAct(
            f"Trial {number} is undone{'' if str(hidden[number]) == number else ' with its plan'}.",
            next_step=f"It comes back with: armscope redo trial-{hidden[number]}",
        )
    raise UnknownAct(
        f"There is no trial {name[:80]!r} in this learner.",
        next_step="Use an id that armscope trial list shows.",
    )


# Reading


def read_trial(
    context: Context,
    results: Annotated[TrialResults, Meta(description="The cells of the results, with their source.")],
    *,
    plan: Annotated[
        str | None, Meta(description="The plan: its id or number. Default: the one that the results name.")
    ] = None,
    arm: Annotated[str | None, Meta(description="The arm, where the results don't name it.")] = None,
    preview: Preview = False,
) -> TrialRead:
    """Read the results of a trial, and return its verdicts.

    Reading a file again, grown or whole, changes nothing else. Runs of the cells' sessions teach nothing from then
    on, also if they were recorded before. `undo` reverts it. Raises `UnknownAct` for an unknown plan, and
    `InvalidInput` where the results are of another arm.
    """
    if arm is not None:
        check_key(arm)

    def work(txn: Transaction) -> TrialRead:
        named = plan or (None if results.plan is None else str(results.plan))
        stored = replace(results, plan=None, notes=(), arm=arm or results.arm)
        trials = _trials(txn)
        trial = _continued(trials, stored) if named is None else _planned(txn, trials, named, stored)
        before = {} if trial is None else dict(trial.cells)
        act, (changed, notes) = None, _merged(before, stored)
        if trial is None or before | changed != before:
            of = trial.first.line_id if trial is not None and trial.plan is not None else ""
            number = add_trial(txn, TrialLine(id=_OWN, results=stored, of=of), txn.own)
            act = f"trial-{number}"
            txn.audit("trial", act, {"form": "reading"})
            trial = _named(txn, _trials(txn), act)
        return TrialRead(
            id=act,
            trial=trial.first.id,
            n_new=len(trial.cells.keys() - before.keys()),
            n_regraded=sum(before[key].grade != trial.cells[key].grade for key in before),
            n_runs=len(trial_runs(txn, [one.number for one in trial.readings])),
            row=_row(txn, trial),
            notes=(*results.notes, *notes, *_of_other_models(trial)),
        )

    if preview:
        return replace(context.rehearse("ingest", work, create=True), id=None)
    return context.write("ingest", work, create=True)


def _planned(facts: Facts, trials: Sequence[_Study], name: str, results: TrialResults) -> _Study:
    trial = _named(facts, trials, name)
    if trial.plan is None:
        raise UnknownAct(
            f"Trial {trial.first.id} has no plan.", next_step="Name a plan that armscope trial list shows."
        )
    if results.arm and results.arm not in trial.plan.arms:
        raise InvalidInput(
            f"The results must be of an arm of {trial.first.id} ({', '.join(trial.plan.arms)}), got {results.arm}.",
            next_step="Name the plan that they belong to; nothing was read.",
        )
    if others := sorted(
        {one.graded_by for one in results.cells} - {trial.plan.grader, ""} if trial.plan.grader else ()
    ):
        raise InvalidInput(
            f"The results must be graded by {trial.plan.grader}, as {trial.first.id} plans, got {shown(others[0])}.",
            next_step="A changed grader is another plan: plan the trial again with it; nothing was read.",
        )
    return trial


def _of_other_models(trial: _Study) -> list[str]:
    model = "" if trial.plan is None else trial.plan.model
    others = sorted({one.model for one in trial.cells.values()} - {model, ""}) if model else []
    return [f"{trial.first.id} plans {model}, and its runs are of {', '.join(others)}."] if others else []


# Verdicts


def trials(
    context: Context, *, arm: Annotated[str | None, Meta(description="Only trials of this arm.")] = None
) -> tuple[TrialRow, ...]:
    """List the trials with their verdicts, newest first."""
    with context.reading() as snapshot:
        rows = [_row(snapshot, one) for one in reversed(_trials(snapshot))]
    return tuple(one for one in rows if arm is None or arm in one.arms)


def trial_result(
    context: Context,
    trial: Annotated[str, Meta(description="The trial: its id, such as trial-3, or number.")],
) -> TrialStory:
    """Return one trial: its plan, its readings, and what it shows of each arm and model.

    Raises `UnknownAct`.
    """
    with context.reading() as snapshot:
        one = _named(snapshot, _trials(snapshot), trial)
        faulty = {cell.task for cell in one.cells.values() if cell.end == "fault"}
        attempts = sorted((cell.attempt, cell.task) for cell in one.cells.values() if cell.task in faulty)
        return TrialStory(
            row=_row(snapshot, one),
            plan=one.plan,
            price=None if one.plan is None else _price(snapshot, one.plan),
            readings=tuple(fact.id for fact in one.readings),
            n_runs=len(trial_runs(snapshot, [fact.number for fact in (one.first, *one.readings)])),
            tried={task: attempt for attempt, task in attempts},
        )


def _row(facts: Facts, trial: _Study) -> TrialRow:
    named = dict.fromkeys([trial.latest.arm, *(cell.arm for cell in trial.cells.values())])
    arms = tuple(filter(None, named)) if trial.plan is None else trial.plan.arms
    return TrialRow(
        trial=trial.first.id,
        arms=arms,
        about=trial.latest.about,
        source=trial.latest.source,
        planned=trial.plan is not None,
        at_ms=(trial.readings or [trial.first])[-1].at_ms,
        n_tasks=len({one.task for one in trial.cells.values()}),
        n_cells=len(trial.cells),
        verdicts=_verdicts(facts, trial, arms) if trial.cells else (),
    )


def _verdicts(facts: Facts, trial: _Study, arms: Sequence[str]) -> tuple[TrialVerdict, ...]:
    plan = trial.plan
    shown = figures([*trial.cells.values()], plan, alone=trial.latest.alone)
    day = trial.readings[-1].at_ms // DAY_MS
    metric = "success" if plan is None else plan.metric
    named = [one.arm or "".join(arms[:1]) for one in shown]
    return tuple(
        TrialVerdict(
            trial=trial.first.id,
            arm=arm or trial.latest.about,
            figures=one,
            metric=metric,
            smallest=SMALLEST if plan is None else plan.smallest,
            planned=plan is not None,
            past=_past(facts, arm, one.model, plan, day),
            retest=None if plan is None else plan.retest,
        )
        for arm, one in zip(named, shown, strict=True)
    )


def _past(facts: Facts, arm: str, model: str, plan: TrialPlan | None, day: int) -> Past | None:
    """Return the change that makes a verdict one of the past: of the arm's text, or of the model in use."""
    digests = {} if plan is None else dict(zip(plan.arms, plan.digests, strict=True))
    tried = digests.get(arm, "")
    if tried and (now := _version(facts, arm)) and now != tried:
        return "text"
    days = model_days(facts)
    recent = max((last for _, last in days.values()), default=0) - _RECENT_DAYS
    is_used = model in days and days[model][1] > recent
    is_newer = any(first > day for name, (first, _) in days.items() if name != model)
    return "model" if model and is_newer and not is_used else None
