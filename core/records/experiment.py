"""Experiment: what a start fixes, the acts on it, the assignment of sessions, figures, requests and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from core.errors import InvalidInput
from core.records.achieved import OutcomeSource
from core.records.arm import MICRO, check_key
from core.records.estimate import Estimate
from core.records.limits import LAST_MS, MAX_COUNT, MAX_LABEL_CHARS, Count, Label, Millis, number, text, whole
from core.records.line_checks import FactOfLine, check_id, check_storable
from core.records.trial import BySide, TrialSide, TrialWord

SessionMetric = Literal["success", "failures", "tokens", "money", "duration"]
"""Measures of a session: means of its runs (success, failures), and totals of its runs (the others)."""
METRICS: Final[tuple[SessionMetric, ...]] = get_args(SessionMetric)
IN_POINTS: Final[frozenset[SessionMetric]] = frozenset({"success", "failures"})
"""Metrics whose effects are points; those of the others are per cent of the side without the arm."""
OtherWord = Literal["more", "less", "open"]
"""Word for a measure that the experiment was not started for."""
ExperimentOpen = Literal["few_sessions", "wide", "not_known", "not_followed", "runs_differ", "one_side"]
"""The reason for an open verdict. ``few_sessions``: planned sessions are left. ``not_known``: unknown outcomes could
change the verdict. ``runs_differ``: the sides differ in their share of sessions without a run, or in number.
"""
ExperimentForm = Literal["start", "share", "stop"]
Decision = Literal["end", "keep", "exclude"]
ExperimentState = Literal["running", "stopped", "ended", "undone", "read_only"]
"""``read_only``: it came from another learner, without its key."""
DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
MOST_RUNNING: Final = 3
"""Most experiments of a learner that run at the same time."""
MOST_DAYS: Final = 60
"""Days after which an experiment ends, at the latest; a plan that takes more proposes a trial."""
MOST_PLANNED: Final = 1_000_000
"""Sessions of a plan where no smaller number has the power."""
_LEAST_SHARE: Final = 0.05
_MOST_HOURS: Final = 24 * 14
_MOST_WAIT_DAYS: Final = 60


class ExperimentPlan(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Plan of an experiment, fixed at its start.

    ``share`` is the chance of the side *with*. ``smallest`` is the smallest effect of interest: points for success
    and failures, per cent for the others. ``source`` is that of outcomes. A session counts for ``hours`` after its
    assignment, with outcomes known within ``days`` more. ``n_planned`` sessions have a power of .8. ``cap`` is, by
    metric, the total above which a session counts as the cap; a metric is missing where too little is known.
    ``digest`` is that of the arm's text; '' = unknown. From ``ends_ms`` on, no new session is assigned.
    """

    arm: str
    metric: SessionMetric
    ends_ms: Millis
    n_planned: Count
    share: float = 0.5
    smallest: float = 10.0
    source: OutcomeSource | None = None
    hours: int = 24
    days: int = 7
    cap: dict[SessionMetric, float] = {}
    digest: Label = ""
    is_seed: bool = False

    def __post_init__(self) -> None:
        check_key(self.arm)
        force_setattr(self, "share", check_share(self.share))
        force_setattr(self, "smallest", number("smallest", self.smallest, lowest=1, highest=100))
        whole("hours", self.hours, _MOST_HOURS, lowest=1)
        whole("days", self.days, _MOST_WAIT_DAYS)
        whole("n_planned", self.n_planned, MAX_COUNT, lowest=1)
        whole("ends_ms", self.ends_ms, LAST_MS)
        for name, value in self.cap.items():
            number(f"The cap of {name}", value, lowest=0, highest=1e24)
        if self.source is not None and self.metric != "success":
            raise InvalidInput(
                f"A source of outcomes must come with the metric success, got {self.source} with {self.metric}.",
                next_step="Leave it out, or choose success.",
            )


def check_share(share: object) -> float:
    """Return the chance of the side *with*, if each side keeps a chance of at least .05.

    >>> check_share(0.5)
    0.5
    """
    return number("share", share, lowest=_LEAST_SHARE, highest=1 - _LEAST_SHARE)


class ExperimentAct(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A later act on an experiment: another share for new sessions, or a stop with the decision about its arm.

    ``harms`` names the metric whose proven harm stopped it; then no person did.
    """

    share: float | None = None
    decision: Decision | None = None
    harms: SessionMetric | None = None

    def __post_init__(self) -> None:
        if self.share is not None:
            force_setattr(self, "share", check_share(self.share))


class ExperimentLine(FactOfLine, frozen=True, tag="experiment"):
    """A start with its plan, or a later act with the id of the line of its start in ``of``."""

    id: str
    form: ExperimentForm
    plan: ExperimentPlan | None = None
    act: ExperimentAct | None = None
    of: str = ""

    def __post_init__(self) -> None:
        check_id(self.id)
        check_storable(of=self.of, by=self.by)
        if (self.form == "start") != (self.plan is not None) or (self.form == "start") == bool(self.of):
            raise InvalidInput(
                f"A line of an experiment must be a start with its plan, or an act with its start, got {self.form} "
                f"(id {self.id!r}).",
                next_step="Write one line for each.",
            )


class Assigned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The side of a session in an experiment, as a selection carries it.

    ``experiment`` is the id of the line of its start. ``chance_micro`` is the chance of the side *with*, in
    millionths. ``n_fitting`` experiments fitted, and one was chosen with equal chance. ``in_force`` is False once
    the time of the session is over: its arm is decided as elsewhere. It is False, too, for a session without a row,
    which began in the process of an assigned one.
    """

    experiment: Label
    arm: str
    side: TrialSide
    chance_micro: Annotated[int, Meta(ge=1, lt=MICRO)]
    n_fitting: Annotated[int, Meta(ge=1, le=MOST_RUNNING)] = 1
    in_force: bool = True

    def __post_init__(self) -> None:
        check_key(self.arm)
        text("An experiment's id", self.experiment, MAX_LABEL_CHARS, lowest=1)


class AssignmentLine(FactOfLine, frozen=True, tag="assignment"):
    """The assignment of a session, or of a run without one. ``of`` is the id of the line of the start."""

    id: str
    of: str
    side: TrialSide
    chance_micro: Annotated[int, Meta(ge=1, lt=MICRO)]
    session: str = ""
    run: str = ""
    n_fitting: Annotated[int, Meta(ge=1, le=MOST_RUNNING)] = 1

    def __post_init__(self) -> None:
        check_id(self.id)
        check_storable(of=self.of, by=self.by, session=self.session, run=self.run)
        if bool(self.session) == bool(self.run):
            raise InvalidInput(
                f"An assignment must be of a session or of a run, got {'both' if self.run else 'neither'} "
                f"(id {self.id!r}).",
                next_step="Name the session, or the run that has none.",
            )


# Figures


@dataclass(frozen=True, kw_only=True)
class MetricFigures:
    """A measure of both sides. ``effect`` is with less without: in points, or in per cent of the side without.

    ``means`` are those of a session: with the arm, and without it, totals up to the cap. Success and failures are
    from 0 to 1, tokens are tokens, money is in the learner's currency, duration in seconds. None = unknown. ``n`` are
    the sessions that count.
    """

    metric: SessionMetric
    word: OtherWord
    effect: Estimate
    means: tuple[float | None, float | None]
    n: BySide


@dataclass(frozen=True, kw_only=True)
class ExperimentFigures:
    """The results of an experiment. Counts are sessions by side.

    ``pending`` are assigned and not counted yet. ``without_run`` are counted and had no run. ``not_followed`` had a
    run in which the arm was not as their side says. ``unknown`` have no outcome. ``is_bounded``: unknown outcomes
    count against each side in turn. ``is_sampled``: judged sessions, a random sample of their side, count alone.
    ``n_late`` runs came after the time of their session; they change nothing.
    """

    word: TrialWord
    why: ExperimentOpen | None
    metric: MetricFigures
    others: tuple[MetricFigures, ...]
    assigned: BySide
    pending: BySide
    without_run: BySide
    not_followed: BySide
    unknown: BySide
    is_bounded: bool = False
    is_sampled: bool = False
    n_late: int = 0

    @property
    def harmed(self) -> SessionMetric | None:
        """The metric whose harm stops the experiment: its own one, or failures."""
        if self.word == "harms":
            return self.metric.metric
        rises = any(one.metric == "failures" and one.word == "more" for one in self.others)
        return "failures" if rises else None


# Requests and answers


class ExperimentOptions(TypedDict, total=False):
    """Options of an experiment, fixed at its start."""

    metric: Annotated[
        SessionMetric, Meta(description="The measure that gets the verdict.", extra={"default": "success"})
    ]
    share: Annotated[
        float, Meta(description="Chance of the side with the arm, .05 to .95.", extra={"default": 0.5})
    ]
    smallest: Annotated[
        float,
        Meta(
            description="Smallest effect of interest: points for success and failures, else per cent.",
            extra={"default": 10.0},
        ),
    ]
    source: Annotated[
        OutcomeSource | None,
        Meta(description="Source of outcomes. Default: the first of the setting outcome_from that is known."),
    ]
    hours: Annotated[
        int, Meta(description="Hours after its assignment in which a session counts.", extra={"default": 24})
    ]
    days: Annotated[
        int,
        Meta(description="Further days in which its outcomes may become known.", extra={"default": 7}),
    ]


class ExperimentPlanned(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, days and costs that an experiment would take.

    ``n_needed`` sessions that offer the arm have a power of .8; None = more than can be planned. ``used_share`` is
    the share of recent sessions that offer the arm in which it is used. ``sessions_a_day`` offer it, and ``days``
    are needed at this rate; None = unknown. ``n_baseline`` is the number of baseline runs that it costs. ``n_past``
    sessions gave the spread, and ``past_days`` the rate. ``proposes_trial``: it takes more than 60 days, or more than
    can be planned. Then ``feasible`` is a smallest effect that 60 days are enough for; None = there is none.
    ``refused`` are the reasons that prevent a start.
    """

    arm: str
    metric: SessionMetric
    smallest: float
    share: float
    n_needed: int | None
    used_share: float | None
    sessions_a_day: float | None
    days: float | None
    n_baseline: int
    n_past: int
    past_days: float
    proposes_trial: bool
    feasible: float | None = None
    refused: tuple[str, ...] = ()


class ExperimentRow(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with its state and figures. ``nth`` counts the experiments on its arm, from 1.

    ``share`` is that of new sessions now. ``harms`` names the metric whose proven harm stopped it. ``acts`` are the
    ids of its later acts. ``n_open`` assigned sessions keep their side until their time is over. Where none counts
    yet, the first counts by ``counts_ms``. ``is_excluded``: a setting keeps the arm out of every prompt.
    """

    experiment: str
    nth: int
    plan: ExperimentPlan
    state: ExperimentState
    at_ms: int
    share: float
    figures: ExperimentFigures
    stopped_ms: int | None = None
    harms: SessionMetric | None = None
    decision: Decision | None = None
    actor: str = ""
    acts: tuple[str, ...] = ()
    n_open: int = 0
    counts_ms: int | None = None
    is_excluded: bool = False


class ExperimentStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded start; ``id`` is what `undo` takes, and None in a preview."""

    id: str | None
    planned: ExperimentPlanned
    plan: ExperimentPlan


class ExperimentChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded act on an experiment; ``id`` is what `undo` takes, None in a preview.

    ``n_open`` assigned sessions keep their side until their time is over. ``excluded``: the arm is in no prompt now.
    """

    id: str | None
    experiment: str
    n_open: int
    excluded: bool = False
