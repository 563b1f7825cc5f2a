"""Lines of our own loss-free export: what a learner holds besides runs, and runs with what was decided.

Their order is the order of learning. ``revision`` is the counter of the learner they were written by: it
groups what was recorded together and never orders anything in another learner.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from core.errors import InvalidInput
from core.records.achieved import OutcomeLine
from core.records.arm import MICRO, Prior, check_key
from core.records.corrections import Target, check_text
from core.records.episode import Episode, ScaleLine
from core.records.episode_credit import CreditLine
from core.records.evaluation_lines import (
    BrowserLine,
    ChoiceLine,
    EvaluationLine,
    ExecutionLine,
    LayerLine,
    RubricLine,
    without_texts,
)
from core.records.evidence import Outcome, Reference
from core.records.experiment import AssignmentLine, ExperimentLine
from core.records.learner import LearnerSettings
from core.records.limits import MAX_COUNT, Count, Label, Millis, Tokens
from core.records.line_checks import FactOfLine, KeyedLine, KindLine, check_id, check_number, check_storable
from core.records.observation import Kind, check_reason, check_request_key, check_reward
from core.records.queue_lines import QueueLine, SkippedLine
from core.records.run import Phase, Run
from core.records.trial import TrialLine

LINES_VERSION: Final = 1
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
"""64 bits in hexadecimal: as a number, readers that know only floats would round them."""
Pseudocount = Annotated[float, msgspec.Meta(gt=0, le=MAX_COUNT)]

LEFT_OUT: Final = "left out"
"""Reason of a skipped item in a line without texts: the field must not be empty."""


class LearnerLine(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="learner"
):
    """First line of an export, with the learner that the lines belong to.

    ``origin`` identifies its database and learner. ``texts`` False: excerpts and texts by people are left out.
    ``hidden`` counts the evaluations that the caller was not allowed to read yet. ``head`` is that of its chain.
    """

    armscope: Literal[1]
    name: str
    origin: str | None = None
    settings: LearnerSettings | None = None
    texts: bool | msgspec.UnsetType = msgspec.UNSET
    hidden: int | msgspec.UnsetType = msgspec.UNSET
    head: str | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_storable(name=self.name, origin=self.origin)
        if self.head is not msgspec.UNSET:
            check_storable(head=self.head)


class ArmLine(KindLine, frozen=True, kw_only=True, tag="arm"):
    """A declared or seen arm. ``prior`` None = the learner's prior for its type."""

    key: str
    label: str | None = None
    token_cost: Tokens | None = None
    prior: Prior | None = None

    def __post_init__(self) -> None:
        check_key(self.key)
        if self.token_cost is not None and self.token_cost < 0:
            raise InvalidInput(
                f"token_cost must be 0 or more, got {self.token_cost} (arm {self.key!r}).",
                next_step="Leave it out when the cost is unknown.",
            )
        check_storable(label=self.label)


class RewardContext(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False
):
    """Context that every exported observation carries."""

    lagged: bool = True
    reason: str | None = None
    by: str | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        check_storable(by=self.by, run=self.run)


class RewardReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Request and answer under an idempotency key, so that a repeat gets the same answer elsewhere.

    ``asked`` is the digest of the request without times. ``run`` is the run as the caller named it. The rest is the
    posterior after the reward, and whether the reward was finer than a millionth.
    """

    asked: Digest
    alpha: Pseudocount
    beta: Pseudocount
    mean: Annotated[float, msgspec.Meta(ge=0, le=1)]
    pulls: Count
    run: Label | None = None
    rounded: bool = False


class RewardLine(KindLine, frozen=True, kw_only=True, tag="reward"):
    """A row of the ledger.

    ``observation`` is its kind. All kinds but ``carried`` have a ``reward``; a carried belief has its sums and pulls
    instead. ``key`` is the caller's idempotency key, ``reply`` the stored answer. Without a reply the line itself is
    the request. ``id`` is what `undo` took in the database that wrote it. ``whole``: a reward of its whole run.
    """

    id: str
    arm: str
    observation: Kind
    reward: float | None = None
    weight_micro: int = MICRO
    success_micro: int | None = None
    failure_micro: int | None = None
    pulls: int | None = None
    at_ms: Millis | None = None
    revision: Count | None = None
    key: str | None = None
    reply: RewardReply | None = None
    undone: bool = False
    whole: bool = False
    context: RewardContext = RewardContext()

    def __post_init__(self) -> None:
        check_key(self.arm)
        check_id(self.id)
        check_request_key(self.key)
        check_reason(self.context.reason)
        check_number("weight_micro", self.weight_micro, lowest=1)
        if self.key is None:
            if self.reply is not None:
                raise InvalidInput(
                    f"A reply must come with the key it was given to, got none (id {self.id!r}).",
                    next_step="Give the key, or leave the reply out.",
                )
        elif self.observation not in {"feedback", "correction"}:
            raise InvalidInput(
                f"A key must come with feedback or a correction, got {self.observation} (id {self.id!r}).",
                next_step="Leave it out: the id alone identifies the line.",
            )
        if self.observation == "carried":
            for name in ("success_micro", "failure_micro", "pulls"):
                value = getattr(self, name)
                if value is None:
                    raise InvalidInput(
                        f"A carried belief must have {name}, got none (id {self.id!r}).",
                        next_step="Give success_micro, failure_micro and pulls.",
                    )
                check_number(name, value)
        elif self.reward is None:
            raise InvalidInput(
                f"A reward line must have a reward, got none (id {self.id!r}).",
                next_step="Give a number from 0 to 1; only carried beliefs go without.",
            )
        else:
            check_reward(self.reward)


class ResetLine(FactOfLine, frozen=True, tag="reset"):
    """A boundary between epochs: the arms it was for, where they restart and why."""

    id: str
    arms: tuple[str, ...]
    target: Target = "uniform"
    reason: str | None = None
    scope: str | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        check_reason(self.reason)
        check_storable(scope=self.scope, by=self.by)
        for key in self.arms:
            check_key(key)


class RepairLine(FactOfLine, frozen=True, tag="repair"):
    """Automatic observations of some arms in a span, taken back.

    ``outcomes`` has a text per run's uid, with a character per arm: 1 = referenced, 0 = not, - = not taken back.
    ``reports`` are ids of reports of agents. ``observations`` counted when it was made.

    >>> RepairLine(id="r1", arms=("tool:fs:Read",), since_ms=0, until_ms=9, outcomes={"run-1": "0"}).undone
    False
    """

    id: str
    arms: tuple[str, ...]
    since_ms: Millis
    until_ms: Millis
    observations: Count = 0
    outcomes: dict[str, str] = msgspec.field(default_factory=dict)
    reports: tuple[str, ...] = ()
    reason: str | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        check_reason(self.reason)
        check_storable(by=self.by)
        for key in self.arms:
            check_key(key)
        for run, marks in self.outcomes.items():
            check_storable(run=run)
            if len(marks) != len(self.arms) or not {*marks} <= {*"01-"}:
                raise InvalidInput(
                    f"Outcomes of a repair must have one of 0, 1 and - per arm, got {marks[:40]!r} (id {self.id!r}).",
                    next_step=f"Give {len(self.arms)} characters, in the order of arms.",
                )
        for report in self.reports:
            check_storable(report=report)


class NoteLine(KeyedLine, frozen=True, tag="note"):
    """A note about an arm; ``text`` None = left out or erased.

    >>> NoteLine(id="n1", arm="tool:fs:Read", text="slow on Mondays").undone
    False
    """

    id: str
    arm: str
    text: str | None

    def __post_init__(self) -> None:
        check_key(self.arm)
        if self.text is not None:
            check_text(self.text)
        check_storable(by=self.by)
        check_id(self.id)
        check_request_key(self.key)


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it was recorded, with the verdict that stood and the evidence that was kept.

    Its calls are not kept, their number is; ``run.referenced`` names what was recognised, so that nothing has
    to be detected or judged again.
    """

    run: Run
    outcome: Outcome
    phase: Phase = "active"
    references: tuple[Reference, ...] = ()
    n_calls: Count = 0
    n_real_calls: Count = 0
    revision: Count | None = None

    def __post_init__(self) -> None:
        check_number("n_calls", self.n_calls)
        check_number("n_real_calls", self.n_real_calls)


def digest_text(digest: int) -> str:
    """Return a signed 64-bit digest in the notation of lines.

    >>> digest_text(-1), digest_of("000000000000000a")
    ('ffffffffffffffff', 10)
    """
    return digest.to_bytes(8, "big", signed=True).hex()


def digest_of(text: str) -> int:
    """Return the digest in a line's notation."""
    return int.from_bytes(bytes.fromhex(text), "big", signed=True)


def carried_prefix(arm: str) -> str:
    """Return the common prefix of the ids of an arm's carried beliefs; a digest of the content follows it.

    >>> carried_prefix("tool:fs:Read")
    'carried/1a572997d764b854/'
    """
    return f"carried/{hashlib.sha256(arm.encode()).hexdigest()[:16]}/"


FactLine = (
    RewardLine
    | ResetLine
    | RepairLine
    | NoteLine
    | RubricLine
    | BrowserLine
    | EvaluationLine
    | ChoiceLine
    | QueueLine
    | SkippedLine
    | ScaleLine
    | CreditLine
    | OutcomeLine
    | TrialLine
    | ExperimentLine
    | AssignmentLine
)
"""Lines of what people did, one for each kind of fact that goes from one learner to another; each has an ``id`` and
says whether it is ``undone``.
"""
ContentLine = LearnerLine | ArmLine | LayerLine | ExecutionLine | Episode | FactLine
"""Lines of a file other than runs."""
LedgerLine = ContentLine | RunLine
PlacedLine = tuple[int, LedgerLine]
"""A line and its revision."""


# Lines without texts


def line_without_texts(line: LedgerLine) -> LedgerLine:
    """Return the line for a caller who may not read texts. Names, times and numbers stay.

    Texts are excerpts, notes, reasons, feedback, instructions, responses, and requests and answers of episode steps.
    A key goes with the texts of its request. Without them no caller could send the same request again.
    """
    stripped = line
    match line:
        case LearnerLine():
            stripped = replace(line, texts=False)
        case RunLine():
            stripped = _run_without(line)
        case RewardLine() if line.context.reason is not None:
            stripped = replace(line, context=replace(line.context, reason=None))
        case ResetLine() | RepairLine():
            stripped = replace(line, reason=None)
        case NoteLine():
            stripped = replace(line, text=None, key=None)
        case EvaluationLine() if line.feedback is not None:
            stripped = replace(line, feedback=None, key=None)
        case ChoiceLine():
            stripped = replace(line, feedback=None)
        case SkippedLine():
            stripped = replace(line, reason=LEFT_OUT)
        case ExecutionLine():
            stripped = without_texts(line)
        case Episode():
            stripped = line.without_texts()
    return stripped


def _run_without(line: RunLine) -> RunLine:
    run = line.run
    if run.texts or run.prompt is not None or run.reply is not None:
        run = replace(run, texts=(), prompt=None, reply=None)
    references = tuple(Reference(arm=one.arm, where=one.where) for one in line.references)
    return replace(line, run=run, references=references)
