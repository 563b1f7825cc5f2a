"""Worth: what one label of each candidate could change, in tokens of the next prompt."""

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
from core.store.transaction import Moment, Snapshot

_SEED: Final = 0
"""As chances of inclusion have it: an arm has one value, whoever asks."""
_MOST_KEPT: Final = 4
_KEPT: Final[dict[tuple[Moment, tuple[int, ...]], Floats]] = {}
_KEEPING: Final = Lock()


def label_worth(snapshot: Snapshot, found: Sequence[Candidate]) -> list[float]:
    """What a label of each candidate is worth: of an arm in a run its own value, of a run that of the arms it
    referenced, each times the chance that the detector was wrong where it said something.

    At most 200 arms are compared, those that most candidates are about; labels of others count as worth nothing.
    """
    parts = _parts(snapshot, found)
    columns = reads.arm_columns(snapshot)
    at = places_by_number(snapshot, columns).tolist()
    counted = Counter(arm_no for _, arm_no, _, _ in parts if at[arm_no] >= 0)
    arms = np.array(sorted(at[arm_no] for arm_no, _ in counted.most_common(MOST_ARMS)), dtype=np.int64)
    values = dict(zip(arms.tolist(), _values(snapshot, columns, arms).tolist(), strict=True))
    wrong = _Wrong(snapshot)
    worth = [0.0] * len(found)
    for place, arm_no, kind, seen in parts:
        worth[place] += values.get(at[arm_no], 0.0) * wrong.chance(kind, seen)
    return worth


def _parts(snapshot: Snapshot, found: Sequence[Candidate]) -> list[tuple[int, int, str, str]]:
    """(place of the candidate, arm, type, where it was seen) of every label that candidates stand for."""
    runs = {one.about: place for place, one in enumerate(found) if not one.arm_no}
    of_runs = arms_referenced(snapshot, [about.run_no for about in runs])
    parts = [(runs[Placed(0, 0, run_no, 0)], arm_no, kind, place) for run_no, arm_no, kind, place in of_runs]
    own = [(place, one.arm_no, one.type, one.place) for place, one in enumerate(found) if one.arm_no]
    return own + parts


def _values(snapshot: Snapshot, columns: ArmColumns, arms: Ints) -> Floats:
    """Values of arms, by places in their columns, kept by moment."""
    key = snapshot.moment, tuple(arms.tolist())
    with _KEEPING:
        kept = _KEPT.get(key)
    if kept is None:
        candidates = reads.candidates(snapshot, columns)
        kept = label_values(columns, snapshot.settings, arms, seed=_SEED, candidates=candidates)
        with _KEEPING:
            while len(_KEPT) >= _MOST_KEPT:
                del _KEPT[next(iter(_KEPT))]
            _KEPT[key] = kept
    return kept


class _Wrong:
    """How often the detector was wrong, by type of arm and place of the evidence."""

    def __init__(self, snapshot: Snapshot) -> None:
        past = corrections(snapshot)
        self._types = {kind: at for at, kind in enumerate(sorted({kind for kind, _, _ in past}))}
        self._places = {place: at for at, place in enumerate(sorted({place for _, place, _ in past}))}
        judged = np.zeros((len(self._types) + 1, len(self._places) + 1), dtype=np.int64)
        wrong = judged.copy()
        for kind, place, was_wrong in past:
            at = self._types[kind], self._places[place]
            judged[at] += 1
            wrong[at] += was_wrong
        self._chances = chance_wrong(judged, wrong)

    def chance(self, kind: str, place: str) -> float:
        """1 where the detector said nothing: then a label corrects nothing, it only adds."""
        if not place:
            return 1.0
        # The last row and column are those that nobody has looked at yet: they lean on what is wider.
        return float(self._chances[self._types.get(kind, -1), self._places.get(place, -1)])
