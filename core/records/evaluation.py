"""An evaluation: the order of a caller, the answer, the grade, and its part in the quality of a layer.

A score is stored as sent; 0 is a score. Label, flags and blockers are a `Grade`. It is computed from the evaluation
and the thresholds in force at each read.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict, get_args

import msgspec
from msgspec import Meta

from core.errors import InvalidEvaluation, InvalidInput
from core.records.arm import check_key
from core.records.limits import MAX_LABEL_CHARS, number, shown, text
from core.records.observation import CountedIn, check_request_key, digest
from core.records.parameters import RequestKey
from core.records.times import Moment

EvaluationOutcome = Literal["success", "failure"]
Label = Literal["rejected", "bronze", "silver", "gold"]
"""From the lowest to the highest."""
GraderKind = Literal["human", "model", "unknown"]
Blocker = Literal[
    "missing_rubric_version",
    "missing_evaluator_identity",
    "outcome_not_success",
    "score_below_sft_threshold",
    "score_below_preference_threshold",
]
"""Reasons against an export for training, in the order of their report."""

EVALUATION_OUTCOMES: Final[tuple[EvaluationOutcome, ...]] = get_args(EvaluationOutcome)
LABELS: Final[tuple[Label, ...]] = get_args(Label)
GRADER_KINDS: Final[tuple[GraderKind, ...]] = get_args(GraderKind)
BLOCKERS: Final[tuple[Blocker, ...]] = get_args(Blocker)

MAX_NAME_CHARS: Final = 200
MAX_FEEDBACK_CHARS: Final = 5_000
Graders = Literal["all", "model", "human"]
"""Graders whose evaluation moves an arm, where several evaluated it in one run."""
Crediting = Literal["none", "equal", "referenced"]
"""Arms of a run that share the evaluation of the full run."""
_NAMES: Final = ("rater", "model", "rubric")
_SUBJECTS: Final = ("layer", "execution", "run")

StepOutcome = Literal["success", "partial", "failure"]
QualityWord = Literal["excellent", "high", "standard", "basic", "below_threshold"]
StepQualityWord = Literal["excellent", "high", "standard", "basic"]


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Lowest scores, 0 to 1, for three uses: fine-tuning (and the label silver), preference pairs, the label gold.

    Raises `InvalidInput` for another value.

    >>> Thresholds().sft, Thresholds(gold=0.9).gold
    (0.65, 0.9)
    """

    sft: float = 0.65
    preference: float = 0.70
    gold: float = 0.85

    def __post_init__(self) -> None:
        for name in ("sft", "preference", "gold"):
            value = number(f"The threshold {name}", getattr(self, name), lowest=0, highest=1)
            msgspec.structs.force_setattr(self, name, value)


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """Consequences of an evaluation (`core.maths.evaluate.grade`).

    ``normalized_score`` is from 0 to 1. ``signed_score`` is the same number, negative for a failure.
    ``quality_bonus`` is added to a layer's quality. Blockers have the order of `Blocker`; without one the evaluation
    may be exported.
    """

    normalized_score: float
    signed_score: float
    quality_bonus: float
    grader_kind: GraderKind
    label: Label
    sft_blockers: tuple[Blocker, ...]
    preference_blockers: tuple[Blocker, ...]

    @property
    def exportable_for_sft(self) -> bool:
        return not self.sft_blockers

    @property
    def exportable_for_preference(self) -> bool:
        return not self.preference_blockers


class JudgingOptions(TypedDict, total=False):
    """Options of an evaluation, next to its subject and outcome; `core.flows.evaluate` explains them."""

    score: Annotated[float | None, Meta(description="0 to 1; of a failure, the grader's certainty.")]
    feedback: Annotated[str | None, Meta(description="A remark, 1 to 5,000 characters.")]
    rater: Annotated[str | None, Meta(description="The rater; without a model, the caller.")]
    model: Annotated[str | None, Meta(description="The model that judged.")]
    rubric: Annotated[str | None, Meta(description="The version of the rubric.")]
    arm: Annotated[str | None, Meta(description="The arm's id, where one arm of the run is judged.")]
    key: RequestKey
    create: Annotated[
        bool, Meta(description="Create an unknown layer or execution.", extra={"default": False})
    ]


class EvaluationOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One evaluation as a caller sends it; checked when made.

    Its subject is a ``layer`` (uid or URI) with or without an ``execution``, an execution, a ``run`` (uid or number),
    or an ``arm`` in a run. ``score`` None = no score; 0 is one. Names (rater, model, rubric) may be None or "", which
    KAIROS distinguishes. ``create`` makes an unknown layer or execution.
    """

    outcome: EvaluationOutcome
    layer: str | None = None
    execution: str | None = None
    run: str | None = None
    arm: str | None = None
    score: float | None = None
    feedback: str | None = None
    rater: str | None = None
    model: str | None = None
    rubric: str | None = None
    key: str | None = None
    create: bool = False

    def __post_init__(self) -> None:
        if self.outcome not in EVALUATION_OUTCOMES:
            raise InvalidEvaluation(
                f"outcome must be success or failure, got {shown(self.outcome)}.",
                next_step="Write it in small letters; nothing was recorded.",
            )
        if self.score is not None:
            msgspec.structs.force_setattr(self, "score", check_score(self.score))
        check_feedback(self.feedback)
        for names, lowest, highest in ((_NAMES, 0, MAX_NAME_CHARS), (_SUBJECTS, 1, MAX_LABEL_CHARS)):
            for name in names:
                value = getattr(self, name)
                if value is not None:
                    text(name, value, highest, lowest=lowest, error=InvalidEvaluation)
        if self.key is not None:
            check_request_key(self.key)
        self._check_subject()

    def _check_subject(self) -> None:
        if self.arm is not None:
            check_key(self.arm)
        if self.layer is None and self.execution is None and self.run is None:
            raise InvalidEvaluation(
                "An evaluation must name what it judges, got nothing.",
                next_step="Name a layer, an execution or a run, or an arm in a run.",
            )
        if self.arm is not None and (self.run is None or self.layer is not None):
            raise InvalidEvaluation(
                f"An arm must be judged in a run, got {self.arm[:60]!r} without one.",
                next_step="Name the run; a reward needs none.",
            )


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The subject of an evaluation: uids of layer, execution and run, and the id of the arm.

    >>> Subject(run="request-1", arm="tool:fs:Read").uri
    'run:request-1#tool:fs:Read'
    >>> Subject(layer="0000000b-1111-4222-8333-000000015445").uri
    'kairos://layer/0000000b-1111-4222-8333-000000015445'
    """

    layer: str = ""
    execution: str = ""
    run: str = ""
    arm: str = ""

    @property
    def uri(self) -> str:
        """The name of the subject in answers."""
        if self.layer:
            return f"kairos://layer/{self.layer}" + (
                f"?execution_id={self.execution}" if self.execution else ""
            )
        if self.execution:
            return f"execution:{self.execution}"
        return f"run:{self.run}#{self.arm}" if self.arm else f"run:{self.run}"


class EvaluationAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The recorded evaluation, its grade, and its permitted uses.

    ``supersedes`` is the evaluation that it replaces. ``observation`` is the first reward that follows from it;
    ``arms`` counts the arms that it moves, ``counted_in`` their observations by epoch. ``warnings`` name values that
    were stored as sent and are likely mistakes.
    """

    id: str
    uri: str
    outcome: EvaluationOutcome
    score: float | None
    signed_score: float
    quality_bonus: float
    grader_kind: GraderKind
    label: Label
    exportable_for_sft: bool
    exportable_for_preference: bool
    sft_blockers: tuple[Blocker, ...]
    preference_blockers: tuple[Blocker, ...]
    supersedes: str | None
    observation: str | None
    arms: int
    rated_at: Moment
    warnings: tuple[str, ...] = ()
    counted_in: tuple[CountedIn, ...] = ()


def evaluation_payload(subject: Subject, order: EvaluationOrder) -> int:
    """Digest of what was asked, whichever names the caller used for what it is about."""
    content = (order.outcome, order.score, order.feedback, order.rater, order.model, order.rubric)
    return digest(("evaluation", msgspec.structs.astuple(subject), content))


def check_score(score: object) -> float:
    """Return a score if it is a number from 0 to 1."""
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise InvalidEvaluation(
            f"score must be a number from 0 to 1, got {shown(score)}.",
            next_step="Leave it out where there is none; 0 is a score.",
        )
    return abs(float(score))


def check_feedback(feedback: str | None) -> str | None:
    """Return feedback if it has 1 to 5,000 characters; None = there is none."""
    if feedback is None:
        return None
    return text("feedback", feedback, MAX_FEEDBACK_CHARS, lowest=1, error=InvalidEvaluation)


class Rated(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An active evaluation, as quality counts it.

    ``score``, ``rater`` and ``model`` None = not sent. A model named "" still takes precedence over the rater, see
    `core.maths.quality.evaluator`. ``at_ms`` is in UTC milliseconds.
    """

    outcome: EvaluationOutcome
    score: float | None
    rater: str | None
    model: str | None
    at_ms: int
    feedback: str | None = None


class ModelHistory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Numbers of ratings and successes by one evaluator of a layer.

    ``rank`` is its position among the layer's evaluators by first evaluation, from 0. Rates are summed in that order.
    """

    model: str
    rank: int
    attempts: int = 0
    successes: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.attempts:
            raise InvalidInput(
                f"successes must be from 0 to {self.attempts}, the attempts of {self.model!r}, got {self.successes}.",
                next_step="Count every success among the attempts.",
            )

    @property
    def rate(self) -> float:
        """Successes by attempts, 0 without any."""
        return self.successes / self.attempts if self.attempts else 0.0


class Quality(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The sums of a layer's evaluations in the order of their revisions; each member is a column.

    ``last_rated_ms`` is in UTC milliseconds, None = never. ``last_rater`` and ``usage_context`` "" = none.
    """

    retrievals: int = 0
    successes: int = 0
    failures: int = 0
    bonus: float = 0.0
    last_rated_ms: int | None = None
    last_rater: str = ""
    usage_context: str = ""


class Update(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The contribution of one evaluation to its layer, and equally to the head of the layer's adapter.

    ``bonus`` is the sum of ``basic``, ``implementation`` and ``signed_score``, in that order. ``history`` is the
    evaluator's history on the layer after it. A head has no history of other layers.
    """

    outcome: EvaluationOutcome
    bonus: float
    basic: float
    implementation: int
    signed_score: float
    rated_ms: int
    rater: str
    usage_context: str
    history: ModelHistory


class ImplementationBonus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Points for an evaluator's attempt: ``final`` is a whole number from 0 to 25, with its parts."""

    final: int
    comparative: float
    rarity: float
    rare_success: bool


class QualityScore(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Score of a layer's description: four parts of 0 to 10 points, their sum and its label."""

    specificity: int
    expert_value: int
    broad_utility: int
    longevity: int
    total: int
    quality: QualityWord


class StepQuality(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A layer's points after an execution of an outcome, and their word."""

    score: int
    quality: StepQualityWord
