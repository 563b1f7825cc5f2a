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


Reliability = Literal[
    "reliable", "tentative", "too uncertain to judge", "low", "possibly by chance", "worse than chance"
]
"""Word for an agreement, by both ends of its interval (`Agreement.word`)."""


RELIABLE: Final = 0.8


TENTATIVE: Final = 0.667
"""Krippendorff's limits: conclusions may rely on it, or be drawn tentatively."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Agreement of raters on ``n_items`` items with two or more judgements.

    ``alpha`` is Krippendorff's, None for the reason ``missing``. ``lower`` and ``upper`` bound it with probability
    ``prob``, None for fewer than 10 items (``few_items``). ``raw`` is the share of exactly equal pairs among the
    ``n_pairs`` pairs of judgements of one item, None without pairs. It is high where nearly all is success, for any
    raters, so it never appears alone.
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
        """Reliability by the lower end, so that few items never look sure; None without an interval.

        Below `TENTATIVE` the upper end says whether it is low, or whether more items could show that it is not.
        """
        if self.lower is None or self.upper is None:
            return None
        if self.lower >= TENTATIVE:
            return "reliable" if self.lower >= RELIABLE else "tentative"
        if self.upper >= TENTATIVE:
            return "too uncertain to judge"
        if self.lower > 0:
            return "low"
        return "possibly by chance" if self.upper >= 0 else "worse than chance"


@dataclass(frozen=True, kw_only=True)
class GraderAgreement:
    """A model grader compared with the majority of people on the same items.

    ``counts[p][g]`` are items with outcome ``p`` by people and ``g`` by the grader (0 failure, 1 success). People
    were evenly divided on ``n_ties`` more items, and only the grader judged ``n_alone``: both are left out. ``hits``
    is the share of items with equal outcomes.
    """

    rater: int
    agreement: Agreement
    hits: Estimate
    counts: tuple[tuple[int, int], tuple[int, int]]
    n_ties: int
    n_alone: int


@dataclass(frozen=True, kw_only=True)
class GraderPair:
    """Agreement of two graders on the outcome of the items that both judged."""

    grader: Grader
    other: Grader
    agreement: Agreement


@dataclass(frozen=True, kw_only=True)
class GraderAgainstRest:
    """Agreement of one grader with all others on the outcome, and the weight it suggests (None: unknown)."""

    grader: Grader
    agreement: Agreement
    weight: float | None


@dataclass(frozen=True, kw_only=True)
class ModelAgainstPeople:
    """A model grader compared with the majority of people on the same items."""

    grader: Grader
    result: GraderAgreement


@dataclass(frozen=True, kw_only=True)
class AgreementReport:
    """Agreement of graders on ``n_items`` items that two or more of them judged.

    ``outcome`` uses the nominal metric, ``label`` the ordinal and ``score`` the interval one (the score of a failure
    is below 0). The latest judgement of each grader counts once per item. Evaluations of a layer as such and those
    without a grader's name are left out: ``n_panel`` of the ``n`` evaluations take part. The report names the
    `MOST_GRADERS` of the ``n_graders`` with most evaluations.
    """

    n: int
    n_panel: int
    n_items: int
    n_graders: int
    outcome: Agreement
    label: Agreement
    score: Agreement
    graders: tuple[GraderAgainstRest, ...]
    pairs: tuple[GraderPair, ...]
    models: tuple[ModelAgainstPeople, ...]
