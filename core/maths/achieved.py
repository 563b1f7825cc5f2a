"""Outcome of a run from the facts of its sources, and the one source that a comparison uses. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import numpy as np

from core.columns import UNKNOWN, Bools, Floats
from core.maths.episodes import written
from core.maths.evaluate import grader_kind
from core.records.achieved import SOLVED, Achieved, OutcomeSource
from core.records.episode import Scale
from core.records.evaluation import EvaluationOutcome

_SOLVED: Final = written(SOLVED)


def mean(values: Iterable[float]) -> float:
    """Return the mean of some outcomes, the same in any order.

    >>> mean([0.1, 0.2, 0.3]) == mean([0.3, 0.1, 0.2])
    True
    """
    known = list(values)
    return math.fsum(known) / len(known)


def paid(total: Decimal, scale: Scale | None = None) -> float | None:
    """Return the outcome of an amount that an environment paid: its place on the scale, or None outside the scale.

    Without a declared scale it is 1 strictly above .9, and else 0.

    >>> paid(Decimal("0.9")), paid(Decimal("0.91")), paid(Decimal(1), Scale(hi=4)), paid(Decimal(5), Scale(hi=4))
    (0.0, 1.0, 0.25, None)
    """
    return float(total > _SOLVED) if scale is None else scale.normalised(float(total))


def stated(reward: str | None) -> int:
    """Return the outcome from the reward that the source of a run states; -1 = it states none.

    >>> stated("0.95"), stated("0.5"), stated(None)
    (1, 0, -1)
    """
    return UNKNOWN if reward is None else int(paid(written(reward)) or 0)


def judged(outcome: EvaluationOutcome, score: float | None) -> float:
    """Return what an evaluation says of its run: the score of a success, else 1; 0 for a failure.

    >>> judged("success", 0.0), judged("success", None), judged("failure", 0.8)
    (0.0, 1.0, 0.0)
    """
    if outcome == "failure":
        return 0.0
    return 1.0 if score is None else score


def judge_source(rater: str, model: str) -> OutcomeSource:
    """Return the source of an evaluation: a model is a grader. An evaluation without a name counts as a person's."""
    return "grader" if grader_kind(rater, model) == "model" else "person"


def in_order(values: Mapping[OutcomeSource, float], order: Sequence[OutcomeSource]) -> Achieved | None:
    """Return the outcome that a run shows: that of the first source in the order that is known.

    >>> in_order({"thumb": 0.0, "grader": 0.5}, ("program", "grader", "thumb"))
    Achieved(value=0.5, source='grader')
    """
    return next((Achieved(values[source], source) for source in order if source in values), None)


def source_to_compare(
    values: Mapping[OutcomeSource, Floats],
    order: Sequence[OutcomeSource],
    is_baseline: Bools,
    is_by_coin: Bools,
    in_sample: Bools | None = None,
) -> OutcomeSource | None:
    """Return the one source whose outcomes a comparison uses on both sides; None where no outcome is known.

    A source is worth the smaller of its shares of known outcomes: of the baseline runs and of the selected runs that
    our own selection drew, or of all of them where it drew none. Of a side with a random sample for review the larger
    one of two shares counts: that of all, and that of the sample. The source worth most is used, of equal ones the
    first in the order.

    Parameters
    ----------
    values
        Shape (n,) for each source; NaN where unknown.
    order
        The order of sources in force; others are not used.
    is_baseline, is_by_coin, in_sample
        Shape (n,). ``in_sample`` marks the runs of random samples; None = none.

    Examples
    --------
    >>> nan, flags = np.nan, np.array([True, True, False, False])
    >>> known = {"program": np.array([nan, nan, 1, 1]), "thumb": np.array([0, nan, nan, 1])}
    >>> source_to_compare(known, ("program", "thumb"), flags, flags | True)
    'thumb'
    """
    sides = [side & is_by_coin if is_by_coin.any() else side for side in (is_baseline, ~is_baseline)]
    samples = [side if in_sample is None else side & in_sample for side in sides]
    known = {source: ~np.isnan(values[source]) for source in order if source in values}
    worth = {
        source: (
            min(
                max(_share(one, side), _share(one, of_it)) for side, of_it in zip(sides, samples, strict=True)
            ),
            float(one.mean()),
        )
        for source, one in known.items()
        if one.any()
    }
    return max(worth, key=worth.__getitem__, default=None)


def _share(known: Bools, side: Bools) -> float:
    return float(known[side].mean()) if side.any() else 0.0
