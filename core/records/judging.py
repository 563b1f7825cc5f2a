"""Judging: what somebody asks to be recorded of what an agent did, and what they are answered."""

from __future__ import annotations

from typing import Final, Literal, TypedDict, get_args

import msgspec

from core.errors import InvalidEvaluation
from core.records.arm import check_key
from core.records.evaluation import Blocker, EvaluationOutcome, GraderKind, Label
from core.records.limits import MAX_LABEL_CHARS, shown, text
from core.records.observation import check_request_key
from core.records.request import digest

MAX_NAME_CHARS: Final = 200
MAX_FEEDBACK_CHARS: Final = 5_000
Graders = Literal["all", "model", "human"]
"""Whose judgements move an arm where several have judged it in one run."""
Crediting = Literal["none", "equal", "referenced"]
"""Which arms of a run share the judgement of the run as a whole."""
_NAMES: Final = ("rater", "model", "rubric")
_SUBJECTS: Final = ("layer", "execution", "run")
_OUTCOMES: Final = get_args(EvaluationOutcome)


class JudgingOptions(TypedDict, total=False):
    """What may be said with a judgement beside what is judged, and how; `core.flows.evaluate` says what it means."""

    score: float | None
    feedback: str | None
    rater: str | None
    model: str | None
    rubric: str | None
    arm: str | None
    key: str | None
    create: bool


class EvaluationOrder(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One judgement as a caller asks for it; checked when made.

    It is about a ``layer`` (its uid or URI) with or without an ``execution``, about an execution, about a ``run``
    (uid or number), or about an ``arm`` in a run. ``score`` None is absent, which 0 is not; so is a name (of the
    rater, the model, the rubric), which KAIROS tells from "". ``create`` makes a layer
    or execution nobody has named before.

    >>> EvaluationOrder(run="request-1", outcome="success", score=0.9, rater="mara").score
    0.9
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
        if self.outcome not in _OUTCOMES:
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
    """What is judged, by the names it has everywhere: uids of layer, execution and run, and the arm's id.

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
        """How it is named in answers."""
        if self.layer:
            return f"kairos://layer/{self.layer}" + (
                f"?execution_id={self.execution}" if self.execution else ""
            )
        if self.execution:
            return f"execution:{self.execution}"
        return f"run:{self.run}#{self.arm}" if self.arm else f"run:{self.run}"


class EvaluationAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was recorded, its grade, and what it may be used for.

    ``supersedes`` is the judgement it took the place of; ``observation`` the first reward that follows from it and
    ``arms`` how many arms it moves. ``warnings`` say what was kept as it came and is likely not meant.
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
    rated_at: str
    warnings: tuple[str, ...] = ()


def evaluation_payload(subject: Subject, order: EvaluationOrder) -> int:
    """Digest of what was asked, whichever names the caller used for what it is about."""
    said = (order.outcome, order.score, order.feedback, order.rater, order.model, order.rubric)
    return digest(("evaluation", msgspec.structs.astuple(subject), said))


def check_score(score: object) -> float:
    """Return a score if it is a number from 0 to 1.

    >>> check_score(0)
    0.0
    """
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise InvalidEvaluation(
            f"score must be a number from 0 to 1, got {shown(score)}.",
            next_step="Leave it out where there is none; 0 is a score.",
        )
    return abs(float(score))


def check_feedback(feedback: str | None) -> str | None:
    """Return feedback if it has 1 to 5,000 characters; None = there is none.

    >>> check_feedback("half an answer")
    'half an answer'
    """
    if feedback is None:
        return None
    return text("feedback", feedback, MAX_FEEDBACK_CHARS, lowest=1, error=InvalidEvaluation)
