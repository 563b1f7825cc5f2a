"""A trial: the same tasks with and without an arm. Its plan, the cells that ran, and what they show.

A cell is one run of a task: its repeat and its side. A block is a task with all its cells. Cells hold names, digests
and numbers, and no text of a task, an arm or an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Final, Literal, TypedDict, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from core.errors import InvalidInput
from core.records.arm import check_key
from core.records.estimate import Estimate
from core.records.limits import (
    LAST_MS,
    MAX_COUNT,
    MAX_LABEL_CHARS,
    MAX_TOKENS,
    Count,
    Label,
    Millis,
    Tokens,
    number,
    shown,
    text,
    whole,
)
from core.records.line_checks import FactOfLine, check_id, check_storable

Metric = Literal["success", "cost"]
TrialSide = Literal["with", "without"]
TRIAL_SIDES: Final[tuple[TrialSide, ...]] = get_args(TrialSide)
TrialWord = Literal["helps", "harms", "no_difference", "open"]
End = Literal["ended", "limit", "fault"]
"""End of a cell: by itself; by a limit that belongs to the task; by a fault outside the agent, so it is missing."""
Presence = Literal["called", "loaded", "listed", "absent", "unknown"]
"""The arm in a cell: *called* implies *loaded*, and *loaded* implies *listed*."""
Open = Literal[
    "few_tasks",
    "wide",
    "missing",
    "not_followed",
    "not_used",
    "could_not_tell",
    "one_side",
    "another_model",
    "another_version",
    "another_grader",
    "another_day",
    "screen",
]
"""The reason for an open verdict. ``few_tasks``: planned tasks are left. ``could_not_tell``: too easy or too hard.

``screen``: each side left out a random half of the arms, which names candidates and gives no verdict.
"""
Past = Literal["text", "model"]
"""The change that makes a verdict one of the past."""
CellKey = tuple[str, str, str, int, TrialSide, int]
MOST_TASKS: Final = 5_000
MOST_REPEATS: Final = 100
MOST_CELLS: Final = 100_000
MOST_MONEY_PICO: Final = 10**18
"""A million dollars."""
_MOST_OF_CELL: Final = {
    "tokens": MAX_TOKENS,
    "money_pico": MOST_MONEY_PICO,
    "used": MAX_COUNT,
    "at_ms": LAST_MS,
}
NOT_GRADED: Final = "not graded"
"""Error of a cell whose grade may come later."""
OUT_WITH: Final = "1"
"""Digit of an arm in a half: it is left out on the side "with"."""
PREFIX_CHARS: Final = 14
"""Characters of a session id that all runs of a plan share."""


class TrialTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task by its name in the harness. ``digest`` is of its folder or text, ``cluster`` of its prompt.

    An empty one is unknown. Tasks of one cluster have equal prompts, so they count as one.
    """

    name: str
    digest: Label = ""
    cluster: Label = ""

    def __post_init__(self) -> None:
        text("A task's name", self.name, MAX_LABEL_CHARS, lowest=1)


class TrialPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of a trial, fixed before it starts. ``tasks`` are in their seeded order.

    ``smallest`` is the smallest effect of interest: points of success, or per cent of tokens. ``arms`` holds more
    than one arm where each is left out in turn (``--each``); otherwise only the arm itself. ``digests`` are of the
    arms' texts, in that order; '' = unknown. ``halves`` has digits for each task where each side leaves out half of
    the arms: an arm with a 1 is left out on the side "with", and an arm with a 0 on the side "without".
    ``retest`` is the word of an earlier trial that chose the tasks, those first whose sides differed.
    """

    arms: tuple[str, ...]
    digests: tuple[str, ...]
    tasks: tuple[TrialTask, ...]
    seed: str
    repeats: int = 3
    smallest: float = 15.0
    metric: Metric = "success"
    model: Label = ""
    harness: Label = ""
    grader: Label = ""
    grader_digest: Label = ""
    workers: int = 1
    halves: tuple[str, ...] = ()
    retest: TrialWord | None = None

    def __post_init__(self) -> None:
        for arm in self.arms:
            check_key(arm)
        for name, values in (("arms", self.arms), ("tasks", tuple(one.name for one in self.tasks))):
            if not values or len(set(values)) < len(values):
                raise InvalidInput(
                    f"A trial's {name} must be one or more different ones, got {len(values):,}.",
                    next_step="Name each once.",
                )
        if len(self.digests) != len(self.arms):
            raise InvalidInput(
                f"A trial must have a digest for each arm, got {len(self.digests)} for {len(self.arms)}.",
                next_step="Plan it again.",
            )
        if self.halves and [*map(len, self.halves)] != [len(self.arms)] * len(self.tasks):
            raise InvalidInput(
                f"Halves must have {len(self.arms)} digits for each task, got {shown(self.halves)}.",
                next_step="Plan it again.",
            )
        for name in ("model", "harness", "grader", "grader_digest"):
            text(name, getattr(self, name), MAX_LABEL_CHARS)
        whole("tasks", len(self.tasks), MOST_TASKS, lowest=1)
        whole("repeats", self.repeats, MOST_REPEATS, lowest=1)
        whole("workers", self.workers, MOST_REPEATS, lowest=1)
        # Session ids follow from the text of a plan, so equal plans have one text.
        force_setattr(self, "smallest", number("smallest", self.smallest, lowest=1, highest=100))


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One run of a task on one side.

    ``arm`` is what this side leaves out ('' = the only arm of the trial, or none is known). ``attempt`` counts the
    attempts of the whole block, from 1. ``grade`` is from 0 to 1; None = not graded. ``checks`` are the grades of the
    parts of the grade, by name. ``used`` counts the calls of the arm; None = unknown. ``session`` finds its run.
    """

    task: str
    repeat: int
    side: TrialSide
    arm: Label = ""
    attempt: int = 1
    grade: float | None = None
    graded_by: Label = ""
    checks: dict[str, float] = {}
    end: End = "ended"
    error: Label = ""
    tokens: Tokens | None = None
    money_pico: int | None = None
    presence: Presence = "unknown"
    used: int | None = None
    model: Label = ""
    version: Label = ""
    at_ms: Millis | None = None
    session: Label = ""

    def __post_init__(self) -> None:
        text("A cell's task", self.task, MAX_LABEL_CHARS, lowest=1)
        whole("repeat", self.repeat, MOST_REPEATS, lowest=1)
        whole("attempt", self.attempt, MOST_REPEATS, lowest=1)
        if self.grade is not None:
            number("A grade", self.grade, lowest=0, highest=1)
        for name, value in self.checks.items():
            text("A check's name", name, MAX_LABEL_CHARS, lowest=1)
            number("A check", value, lowest=0, highest=1)
        for name, highest in _MOST_OF_CELL.items():
            if (value := getattr(self, name)) is not None:
                whole(name, value, highest)

    @property
    def key(self) -> CellKey:
        """The name of the cell in its trial: arm, model, task, repeat, side and attempt."""
        return self.arm, self.model, self.task, self.repeat, self.side, self.attempt


class TrialResults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The cells of one source, as they were read. ``source`` names its format, ``about`` the arm in its words.

    ``alone``: the harness loads the arm alone, without the other tools. ``rescored`` names the sides whose grades
    were made again. ``plan`` is the number of the plan that the file names; None = none. ``notes`` are sentences for
    people about what was left out.
    """

    source: str
    cells: tuple[Cell, ...]
    arm: Label = ""
    about: Label = ""
    plan: Count | None = None
    harness: Label = ""
    alone: bool = False
    rescored: tuple[TrialSide, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        whole("cells", len(self.cells), MOST_CELLS)
        if self.plan is not None:
            whole("plan", self.plan, MAX_COUNT)


def session_prefix(plan: TrialPlan) -> str:
    """Return the beginning of the session ids of a plan's runs, by which any import knows them."""
    content = _chosen(plan) | {"tasks": [_chosen(one) for one in plan.tasks]}
    digest = blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=12).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-"


def _chosen(record: TrialPlan | TrialTask) -> dict[str, object]:
    """Return the fields that differ from their defaults, so that a new field changes no digest."""
    fields = {one.name: one.default for one in msgspec.structs.fields(record)}
    return {name: getattr(record, name) for name in fields if getattr(record, name) != fields[name]}


class TrialLine(FactOfLine, frozen=True, tag="trial"):
    """A fact of a trial: a plan, or the results that were read, then with the id of their plan's line ("" = none)."""

    id: str
    plan: TrialPlan | None = None
    results: TrialResults | None = None
    of: str = ""

    def __post_init__(self) -> None:
        check_id(self.id)
        check_storable(of=self.of, by=self.by)
        if (self.plan is None) == (self.results is None):
            raise InvalidInput(
                f"A line of a trial must have a plan or results, got {'none' if self.plan is None else 'both'} "
                f"(id {self.id!r}).",
                next_step="Write one line for each.",
            )


@dataclass(frozen=True, kw_only=True)
class PairedTask:
    """A task's mean grades on both sides, of its whole block. ``could_tell``: not always or never solved by both."""

    task: str
    n_repeats: int
    with_arm: float
    without: float
    could_tell: bool


@dataclass(frozen=True, kw_only=True)
class BySide:
    """A count on each side, of cells: with the arm, and without it."""

    with_arm: int
    without: int


@dataclass(frozen=True, kw_only=True)
class TrialFigures:
    """The results of a trial for one arm and one model. Effects are in points of success, or per cent of cost.

    ``like_these`` is of tasks like these, valid at every reading. Its limits count each missing cell against each
    side in turn. Its ``prob`` is what Holm's procedure leaves this arm and model. ``whole_only`` is that of whole
    blocks alone; None where none is missing. ``these`` is of these tasks, at the planned end.
    ``tokens`` and ``money`` are the per cent that the arm adds to the cost of a task. ``n_costs`` counts the tasks
    with known tokens on both sides. ``p_value`` is that of "no effect", valid at every reading. ``shrunk`` is the
    effect drawn towards those of the other arms of the plan. ``missing_ms`` are the first and the last time of a
    missing run; None where none is known. ``n_used`` runs with the arm used it; None where none says.
    """

    arm: str
    model: str
    word: TrialWord
    why: Open | None
    like_these: Estimate
    these: Estimate | None
    whole_only: Estimate | None
    tokens: Estimate
    money: Estimate
    n_costs: int
    p_value: float
    shrunk: float | None
    tasks: tuple[PairedTask, ...]
    n_planned: int | None
    n_attempts_again: BySide
    missing: BySide
    missing_ms: tuple[int, int] | None
    not_followed: BySide
    n_used: int | None
    n_could_not_tell: int
    left_out_checks: tuple[str, ...]
    alone: bool


# Requests and answers


class TrialOptions(TypedDict, total=False):
    """Options of a plan about how its tasks run."""

    model: Annotated[str, Meta(description="The model that runs the tasks.", extra={"default": ""})]
    harness: Annotated[str, Meta(description="The harness that runs them.", extra={"default": ""})]
    grader: Annotated[str, Meta(description="Name of what grades the runs.", extra={"default": ""})]
    grader_digest: Annotated[str, Meta(description="Digest of what grades the runs.", extra={"default": ""})]
    workers: Annotated[int, Meta(description="Runs at the same time.", extra={"default": 1})]


class TasksNeeded(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that a plan needs at one base rate of success; None = more than a plan may have.

    Each pair is for an effect that is equal in all tasks, and for one that differs between tasks as much as it is
    large. ``effect`` are for *helps* or *harms* at the smallest effect, ``none`` for *no difference* above it.
    ``base_rate`` is None where the plan is about cost.
    """

    base_rate: float | None
    effect: tuple[int | None, int | None]
    none: tuple[int | None, int | None]


class TrialPrice(msgspec.Struct, frozen=True, kw_only=True):
    """Price of all cells of a plan by recorded runs of its model; None = unknown, so run three pilot runs a side.

    ``money`` is in the learner's currency. ``n_runs`` recorded runs gave the mean.
    """

    n_cells: int
    n_runs: int
    money: float | None = None
    tokens: int | None = None


class TrialPlanned(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded plan; ``id`` is what `undo` takes, and None in a preview.

    ``spread_tasks`` recorded tasks gave the spread of difficulty; 0 = a default spread. ``notes`` name tasks of one
    prompt, and tasks of one name with different contents.
    """

    id: str | None
    plan: TrialPlan
    needed: tuple[TasksNeeded, ...]
    spread_tasks: int
    price: TrialPrice
    notes: tuple[str, ...] = ()


class TrialVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one arm and model, and why their verdict is of the past: the arm's text or the model is another.

    ``retest`` is the word of the earlier trial whose tasks were tested again.
    ``arm`` is its key, else the words of the source for it. ``smallest`` is in points of success, or per cent of
    tokens.
    """

    trial: str
    arm: str
    figures: TrialFigures
    metric: Metric
    smallest: float
    planned: bool
    past: Past | None = None
    retest: TrialWord | None = None


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trial of a list: its id, arms, latest source, tasks and cells, and the verdicts so far."""

    trial: str
    arms: tuple[str, ...]
    about: str
    source: str
    planned: bool
    at_ms: int
    n_tasks: int
    n_cells: int
    verdicts: tuple[TrialVerdict, ...] = ()


class TrialStory(msgspec.Struct, frozen=True, kw_only=True):
    """One trial: its row, plan, its price now, readings by the ids of their acts, and the runs of its sessions.

    ``tried`` has the last attempt of each task with a fault.
    """

    row: TrialRow
    plan: TrialPlan | None
    price: TrialPrice | None
    readings: tuple[str, ...]
    n_runs: int
    tried: dict[str, int] = {}


class TrialRead(msgspec.Struct, frozen=True, kw_only=True):
    """The change by results that were read; ``id`` None = none, because all cells were known.

    ``n_new`` cells are new, ``n_regraded`` have another grade. ``n_runs`` recorded runs are of the trial.
    """

    id: str | None
    trial: str
    n_new: int
    n_regraded: int
    n_runs: int
    row: TrialRow
    notes: tuple[str, ...] = ()
