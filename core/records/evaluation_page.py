"""Pages of evaluations: their rows, their filter, and the start of the next page."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from core.errors import InvalidInput
from core.records.counts import number_in
from core.records.evaluation import (
    BLOCKERS,
    EVALUATION_OUTCOMES,
    GRADER_KINDS,
    LABELS,
    Blocker,
    EvaluationOutcome,
    GraderKind,
    Label,
    Subject,
)
from core.records.limits import MAX_LABEL_CHARS, shown, text

EvaluationState = Literal["counts", "superseded", "undone"]
"""It counts, a later one with its key superseded it, or it was undone."""

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "kind": GRADER_KINDS,
    "outcome": EVALUATION_OUTCOMES,
    "label": LABELS,
    "blocker": BLOCKERS,
}


class Grader(NamedTuple):
    """The author of an evaluation: the model if one is named, else the rater ("" = unknown)."""

    kind: GraderKind
    name: str


class EvaluationFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter of evaluations; None = any. Checked when made.

    ``rater`` is the name of a grader, person or model ("" = none named). ``rubric`` is a version ("" = none).
    ``label`` and ``blocker`` follow the thresholds in force. ``layer`` is a uid or URI, ``run`` a uid or number.
    ``arm`` also matches evaluations of full runs that credit it. Times are UTC milliseconds; ``until_ms`` is
    exclusive. ``counting`` False includes superseded and undone ones.

    >>> EvaluationFilter(rater="mara", outcome="success").counting
    True
    """

    rater: Annotated[
        str | None,
        Meta(description="Only those of this grader; empty: of an unknown one."),
    ] = None
    kind: Annotated[GraderKind | None, Meta(description="Only those of this kind of grader.")] = None
    rubric: Annotated[str | None, Meta(description="Only those by this rubric version; empty: by none.")] = (
        None
    )
    outcome: Annotated[EvaluationOutcome | None, Meta(description="Only those with this outcome.")] = None
    label: Annotated[Label | None, Meta(description="Only those with this label.")] = None
    blocker: Annotated[
        Blocker | None, Meta(description="Only those that this blocks from training data.")
    ] = None
    layer: Annotated[str | None, Meta(description="Only those of this layer, by uid or URI.")] = None
    run: Annotated[str | None, Meta(description="Only those of this run, by uid or number.")] = None
    arm: Annotated[str | None, Meta(description="Only those that credit this arm.")] = None
    since_ms: int | None = None
    until_ms: int | None = None
    counting: Annotated[bool, Meta(description="Leave out superseded and undone ones.")] = True

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise InvalidInput(
                    f"{name} must be one of {', '.join(allowed)}, got {shown(value)}.",
                    next_step="Choose one of those, or leave it out.",
                )
        for name in ("rater", "rubric", "layer", "run", "arm"):
            value = getattr(self, name)
            if value is not None:
                text(name, value, MAX_LABEL_CHARS)


ANY_EVALUATION: Final = EvaluationFilter()


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation with its grade by the thresholds in force.

    ``score`` is as sent; 0 is not None. ``feedback`` None = none, or hidden from this caller. A name is None where
    none was sent. ``arms`` counts the arms that it moves now. ``actor`` recorded it; ``claimed_by`` is the token that
    named the rater. ``browser`` is a browser without sign-in whose own name no operator confirmed: the rater is
    the machine's user. ``revision`` changed it last; a list with ``since`` goes on from its ``mark``.
    """

    id: str
    subject: Subject
    run_no: int | None
    outcome: EvaluationOutcome
    score: float | None
    feedback: str | None
    rater: str | None
    model: str | None
    rubric: str | None
    grader: Grader
    signed_score: float
    label: Label
    sft_blockers: tuple[Blocker, ...]
    preference_blockers: tuple[Blocker, ...]
    supersedes: str | None
    state: EvaluationState
    arms: int
    actor: str
    at_ms: int
    claimed_by: str | None = None
    browser: str | None = None
    revision: int = 0
    mark: str | None = None

    @property
    def undone(self) -> bool:
        """True if it was undone."""
        return self.state == "undone"

    @property
    def number(self) -> int:
        """Position of the row among all, by which the next page begins."""
        return number_in(self.id)


class EvaluationPage(NamedTuple):
    """Evaluations, the latest first. ``onward`` is the number that the next page comes before, None at the end."""

    rows: tuple[Evaluation, ...]
    onward: int | None
