"""Training exports: what was asked for, and what is said of the file that came of it."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from core.records.evaluation import Blocker, Thresholds

TrainingFormat = Literal["reward_jsonl", "sft_jsonl", "preference_jsonl", "trace_jsonl", "reward_csv"]
"""All that was judged; what is good enough to fine-tune on; a chosen answer beside a rejected one; all pairs, judged
or not; all that was judged, as a table."""
TRAINING_FORMATS: Final[tuple[TrainingFormat, ...]] = get_args(TrainingFormat)
Pairing = Literal["prompt", "layer"]
"""What makes a chosen and a rejected answer belong together: the same instruction, or the same layer."""


class TrainingQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; of filters nothing = all.

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


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Judged pairs that did not become lines, by the first reason that holds.

    ``not_eligible`` for this format, by the thresholds in force; ``no_text``: they were not kept; ``other_shape``:
    texts that are no JSON objects; ``second_opinion``: the pair is there already, by what another rater said of it;
    ``secret``: they seem to hold one; ``not_best``: others of the group were preferred; ``no_other``: the group has
    no answer to set against it; ``same_answer``: what is chosen and rejected is the same; ``claimed``: who rated is
    only claimed, by a token that the setting ``trusted_graders`` doesn't name. ``hidden`` are all evaluations by
    others of what is open, in a queue that is blind, to whoever asks.
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
    """What looks like a secret: in which line of the file (None: it was held back), of which execution and layer, and
    of what kinds; never the text itself.
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
    """Krippendorff's alpha of what raters said of the same pairs; None where it is undefined, ``missing`` says why.

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
    """What a rater's word may weigh, by how far it agrees with all others; None: too little is shared to say."""

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
    """What is in a training file, and how it came about.

    ``rows`` are lines (without the heads of a table), ``evaluations`` those that were looked at, blockers are counted
    over all of them. ``claimed`` counts those of which a token said who rated, by its name: no agreement, weight or
    dispute here is by them. ``duplicates`` are lines whose texts stand in an earlier line, ``disputed`` pairs on
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
