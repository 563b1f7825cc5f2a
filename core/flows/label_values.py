"""Label values: the effect of one label of a candidate, in tokens of the next prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Final

import numpy as np

from core.columns import ArmColumns, Floats, Ints
from core.statistics.value import MOST_ARMS, chance_wrong, label_values
from core.store import reads
from core.store.queues import Placed
from core.store.reads.arms import places_by_number
from core.store.reads.reviewable import Candidate, arms_referenced, corrections
from core.store.transaction import Snapshot, SnapshotKey

_SEED: Final = 0
"""Fixed seed, as for chances of inclusion: an arm has one value for every reader."""
_MOST_CACHED: Final = 4
_CACHE: Final[dict[tuple[SnapshotKey, tuple[int, ...]], Floats]] = {}
_LOCK: Final = Lock()


def values_of_labels(snapshot: Snapshot, candidates: Sequence[Candidate]) -> list[float]:
    """Return the value of a label of each candidate.

    A candidate that is an arm in a run has the value of that arm. A run has the sum over its referenced arms. Each
    value is multiplied by the chance that the detector was wrong, if it reported anything. At most 200 arms are
    compared, those with the most candidates; labels of other arms count as 0.
    """
    parts = _parts(snapshot, candidates)
    columns = reads.arm_columns(snapshot)
    at = places_by_number(snapshot, columns).tolist()
    counted = Counter(arm_no for _, arm_no, _, _ in parts if at[arm_no] >= 0)
    arms = np.array(sorted(at[arm_no] for arm_no, _ in counted.most_common(MOST_ARMS)), dtype=np.int64)
    values = dict(zip(arms.tolist(), _values(snapshot, columns, arms).tolist(), strict=True))
    wrong = _DetectorErrors(snapshot)
    values_of = [0.0] * len(candidates)
    for index, arm_no, kind, where in parts:
        values_of[index] += values.get(at[arm_no], 0.0) * wrong.chance(kind, where)
    return values_of


def _parts(snapshot: Snapshot, candidates: Sequence[Candidate]) -> list[tuple[int, int, str, str]]:
    """Return (index of the candidate, arm, type, location of the evidence) of every label."""
    runs = {one.about: index for index, one in enumerate(candidates) if not one.arm_no}
    of_runs = arms_referenced(snapshot, [about.run_no for about in runs])
    parts = [(runs[Placed(0, 0, run_no, 0)], arm_no, kind, where) for run_no, arm_no, kind, where in of_runs]
    own = [(index, one.arm_no, one.type, one.where) for index, one in enumerate(candidates) if one.arm_no]
    return own + parts


def _values(snapshot: Snapshot, columns: ArmColumns, arms: Ints) -> Floats:
    """Return the values of arms by their indexes, cached per revision."""
    key = snapshot.moment, tuple(arms.tolist())
    with _LOCK:
        values = _CACHE.get(key)
    if values is None:
        candidates = reads.candidates(snapshot, columns)
        values = label_values(columns, snapshot.settings, arms, seed=_SEED, candidates=candidates)
        with _LOCK:
            while len(_CACHE) >= _MOST_CACHED:
                del _CACHE[next(iter(_CACHE))]
            _CACHE[key] = values
    return values


class _DetectorErrors:
    """Share of wrong detections by type of arm and location of the evidence."""

    def __init__(self, snapshot: Snapshot) -> None:
        past = corrections(snapshot)
        self._types = {kind: at for at, kind in enumerate(sorted({kind for kind, _, _ in past}))}
        self._wheres = {where: at for at, where in enumerate(sorted({where for _, where, _ in past}))}
        judged = np.zeros((len(self._types) + 1, len(self._wheres) + 1), dtype=np.int64)
        wrong = judged.copy()
        for kind, where, was_wrong in past:
            at = self._types[kind], self._wheres[where]
            judged[at] += 1
            wrong[at] += was_wrong
        self._chances = chance_wrong(judged, wrong)

    def chance(self, kind: str, where: str) -> float:
        """Return the chance of an error. It is 1 without evidence: such a label corrects nothing, it only adds."""
        if not where:
            return 1.0
        # The last row and column are those without corrections: they use the wider group.
        return float(self._chances[self._types.get(kind, -1), self._wheres.get(where, -1)])
