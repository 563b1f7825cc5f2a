"""Training exports: the request, and the manifest of the file."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypedDict, get_args

import msgspec
from msgspec import Meta

from core.records.evaluation import Blocker, Thresholds

TrainingFormat = Literal["reward_jsonl", "sft_jsonl", "preference_jsonl", "trace_jsonl", "reward_csv"]
"""All that was judged; what is good enough to fine-tune on; a chosen answer beside a rejected one; all pairs, judged
or not; all that was judged, as a table."""
TRAINING_FORMATS: Final[tuple[TrainingFormat, ...]] = get_args(TrainingFormat)
Pairing = Literal["prompt", "layer"]
"""Property that a chosen and a rejected answer must share: the instruction, or the layer."""

MANIFEST_END: Final = ".manifest.json"


class TrainingQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The request of an export; an empty filter selects all.

    >>> TrainingQuery(format="sft_jsonl").pairing
    'prompt'
    """

    format: TrainingFormat
    pairing: Pairing = "prompt"
    include_reward: bool = True
    with_secrets: bool = False
    adapters: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()
    raters: tuple[str, ...] = ()
    rubrics: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None


class TrainingOptions(TypedDict, total=False):
    """Filters of the rows of a training export; a filter that is left out passes all."""

    adapters: Annotated[tuple[str, ...], Meta(description="Only these adapters.", extra={"default": ()})]
    layers: Annotated[tuple[str, ...], Meta(description="Only these layers.", extra={"default": ()})]
    executions: Annotated[tuple[str, ...], Meta(description="Only these executions.", extra={"default": ()})]
    raters: Annotated[tuple[str, ...], Meta(description="Only these raters.", extra={"default": ()})]
    rubrics: Annotated[tuple[str, ...], Meta(description="Only these rubrics.", extra={"default": ()})]
    since_ms: Annotated[int | None, Meta(description="Only evaluations from this time on.")]
    until_ms: Annotated[int | None, Meta(description="Only evaluations before this time.")]


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of judged pairs that did not become lines, by the first reason that holds.

    ``not_eligible`` for this format by the thresholds in force; ``no_text``: not stored; ``other_shape``: texts that
    are no JSON objects; ``second_opinion``: the pair is there already, by another rater; ``secret``: it seems to hold
    one; ``not_best``: others of the group were preferred; ``no_other``: the group has no answer to compare;
    ``same_answer``: chosen and rejected are equal; ``claimed``: only a token that ``trusted_graders`` does not name
    reports the rater. ``hidden`` counts evaluations by others of open items of a blind queue.
    """

    not_eligible: int = 0
    no_text: int = 0
    other_shape: int = 0
    second_opinion: int = 0
    secret: int = 0
    not_best: int = 0
    no_other: int = 0
    same_answer: int = 0
    claimed: int = 0
    hidden: int = 0


class Suspicion(msgspec.Struct, frozen=True, kw_only=True):
    """A likely secret: its line in the file (None = the row was left out), execution, layer and kinds; never the
    text.
    """

    line: int | None
    execution: str
    layer: str
    kinds: tuple[str, ...]


class RubricRows(msgspec.Struct, frozen=True, kw_only=True):
    """A rubric's version ("" = none was named), whether it is defined here, and how many evaluations are by it."""

    version: str
    defined: bool
    evaluations: int


class RatersAgree(msgspec.Struct, frozen=True, kw_only=True):
    """Krippendorff's alpha over pairs that raters share; None where it is undefined, with the reason in ``missing``.

    ``of`` is outcome, label or signed_score; the interval holds with probability 0.95.
    """

    of: str
    alpha: float | None
    lower: float | None
    upper: float | None
    missing: str | None
    raw: float | None
    items: int


class SuggestedWeight(msgspec.Struct, frozen=True, kw_only=True):
    """Suggested weight of a rater by the agreement with all others; None = they share too little."""

    rater: str
    kind: str
    weight: float | None
    alpha: float | None
    lower: float | None
    upper: float | None
    items: int


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Lines to learn from and lines to be asked about: no session and no instruction has lines in both.

    ``test_lines`` are ranges of lines, both ends included, counted from 1; all others are to learn from.
    """

    share: float
    train: int
    test: int
    test_lines: tuple[tuple[int, int], ...]


class TrainingManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Content and origin of a training file.

    ``rows`` are lines without the header of a table. ``evaluations`` counts those that were examined; blockers are
    counted over all of them. ``claimed`` counts, by token, those whose rater a token reported; agreement, weights and
    disputes leave them out. ``duplicates`` are lines with the texts of an earlier line. ``disputed`` are pairs on
    whose outcome raters differ. ``suspicions`` lists the first thousand of ``suspicions_count``.
    """

    armscope: str
    file: str
    sha256: str
    size_bytes: int
    made_at: str | None
    made_by: str
    learner: str
    origin: str
    revision: int
    query: TrainingQuery
    thresholds: Thresholds
    rows: int
    evaluations: int
    claimed: dict[str, int]
    left_out: LeftOut
    sft_blockers: dict[Blocker, int]
    preference_blockers: dict[Blocker, int]
    rubrics: tuple[RubricRows, ...]
    duplicates: int
    disputed: int
    agreement: tuple[RatersAgree, ...]
    suggested_weights: tuple[SuggestedWeight, ...]
    split: Split
    suspicions: tuple[Suspicion, ...]
    suspicions_count: int


class TrainingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``manifest_file`` None = none was written; what it says is in ``manifest`` all the same."""

    file: str
    rows: int
    manifest_file: str | None
    manifest: TrainingManifest
