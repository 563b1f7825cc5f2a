"""Agreement: how far graders give the same judgements of the same items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from core.records.estimate import Estimate
from core.records.evaluation_page import Grader

Metric = Literal["nominal", "ordinal", "interval"]
"""How far two values lie apart: different or not (outcomes), by the ranks between them (labels), by the square of
their difference (scores).
"""


NoAgreement = Literal["no_pairs", "no_variation", "few_items"]
"""Why there is no alpha: no item has two judgements, all that are paired say the same; or no interval of it."""


Reliability = Literal["reliable", "tentative", "not reliable"]


RELIABLE: Final = 0.8


TENTATIVE: Final = 0.667
"""Krippendorff's limits: conclusions may rely on it, or be drawn tentatively."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far raters agree on ``n_items`` items that have two or more judgements.

    ``alpha`` is Krippendorff's, None where ``missing`` says why; ``lower`` and ``upper`` bound it with probability
    ``prob``, None for fewer than 10 items (``few_items``). ``raw`` is the share of the ``n_pairs`` pairs of
    judgements of one item that are exactly equal, None without pairs: high where nearly all is success, whoever
    judges, which is why it never stands alone.
    """

    metric: Metric
    alpha: float | None
    lower: float | None
    upper: float | None
    prob: float
    missing: NoAgreement | None
    raw: float | None
    n_items: int
    n_pairs: int

    @property
    def word(self) -> Reliability | None:
        """Told by the lower end, so that few items never sound sure; None without an interval."""
        if self.lower is None:
            return None
        if self.lower >= RELIABLE:
            return "reliable"
        return "tentative" if self.lower >= TENTATIVE else "not reliable"


@dataclass(frozen=True, kw_only=True)
class GraderAgreement:
    """A model grader beside what most people said of the same items.

    ``counts[said][judged]`` are items that people held to be ``said`` and the grader judged ``judged`` (0 failure,
    1 success). On ``n_ties`` more items people were divided evenly, on ``n_alone`` nobody else judged: both are
    left out. ``hits`` is the share of items on which it says what people say.
    """

    rater: int
    agreement: Agreement
    hits: Estimate
    counts: tuple[tuple[int, int], tuple[int, int]]
    n_ties: int
    n_alone: int


@dataclass(frozen=True, kw_only=True)
class TwoGraders:
    """How far two graders agree on the outcome of what both judged."""

    grader: Grader
    other: Grader
    agreement: Agreement


@dataclass(frozen=True, kw_only=True)
class GraderBesideRest:
    """How far one grader agrees with all others on the outcome, and the weight that this suggests (None: unknown)."""

    grader: Grader
    agreement: Agreement
    weight: float | None


@dataclass(frozen=True, kw_only=True)
class ModelBesidePeople:
    """A model grader beside the outcome that most people gave to the same things."""

    grader: Grader
    result: GraderAgreement


@dataclass(frozen=True, kw_only=True)
class AgreementReport:
    """How far graders agree on ``n_items`` things of which two or more judged each.

    ``outcome`` is by the nominal, ``label`` by the ordinal, ``score`` (that of a failure below 0) by the interval
    metric. Each grader counts once for each thing, with the latest judgement. A layer judged as such is no thing
    that somebody else can judge again, and who isn't named is no grader: ``n_panel`` of the ``n`` evaluations take
    part. Of ``n_graders`` the `MOST_GRADERS` who judged most are named.
    """

    n: int
    n_panel: int
    n_items: int
    n_graders: int
    outcome: Agreement
    label: Agreement
    score: Agreement
    graders: tuple[GraderBesideRest, ...]
    pairs: tuple[TwoGraders, ...]
    models: tuple[ModelBesidePeople, ...]
