"""Frozen items of a queue or batch: counted and digested before a user confirms them.

The value of a label is its effect in tokens of the next prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from threading import Lock
from typing import Final, NamedTuple

import numpy as np

from core.columns import ArmColumns, Floats, Ints
from core.errors import Conflict, InvalidInput
from core.records.ledger_lines import digest_text
from core.records.request import digest
from core.records.review import QueueAsks, QueueProposal
from core.statistics.value import MOST_ARMS, chance_wrong, label_values
from core.store import reads
from core.store.queues import Placed
from core.store.reads.arms import places_by_number
from core.store.reads.reviewable import Candidate, arms_referenced, corrections, named_item, reviewable
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


_SHOWN: Final = 20
_AT_ONCE: Final = 8_192
_LAST: Final = 1 << 62
_numbers: Final = attrgetter("layer_no", "execution_no", "run_no", "arm_no")


class FrozenItem(NamedTuple):
    """One future item and the reason for it."""

    about: Placed
    why: str


def frozen(snapshot: Snapshot, asks: QueueAsks, *, blind: bool = False) -> list[FrozenItem]:
    """Return the present items of a query in order. With ``blind``, reasons reveal no judgements of others."""
    candidates = _filtered(reviewable(snapshot, asks), asks)
    if asks.order == "oldest":
        # Only named runs come in another order.
        oldest = (
            _first(candidates, asks.limit, _age) if asks.source == "runs" else islice(candidates, asks.limit)
        )
        return [FrozenItem(one.about, _reason(one, asks, blind=blind)) for one in sorted(oldest, key=_age)]
    return _ordered(snapshot, candidates, asks, blind=blind)


def proposed(snapshot: Snapshot, asks: QueueAsks) -> QueueProposal:
    """Return the count and the token of the present items of a query."""
    items = frozen(snapshot, asks)
    first = tuple(named_item(snapshot, one.about).subject for one in items[:_SHOWN])
    return QueueProposal(n=len(items), token=token_of(asks, items), first=first)


def token_of(asks: QueueAsks, items: Sequence[FrozenItem]) -> str:
    """Return the token of these items, independent of their order."""
    return digest_text(digest((asks, sorted(one.about for one in items))))


def check_token(asks: QueueAsks, items: Sequence[FrozenItem], token: str | None) -> None:
    """Raise `InvalidInput` without items, and `Conflict` if the token is of other items (None: unchecked)."""
    if not items:
        raise InvalidInput(
            f"There must be items to judge, got none of the source {asks.source} that pass the filter.",
            next_step="Widen the filter, or choose another source.",
        )
    if token is not None and token != token_of(asks, items):
        raise Conflict(
            f"The items must be those that were confirmed, got {len(items):,} items that are not all the same.",
            next_step="Review them again, and confirm the new count.",
        )


def _ordered(
    snapshot: Snapshot, candidates: Iterator[Candidate], asks: QueueAsks, *, blind: bool
) -> list[FrozenItem]:
    if asks.order == "information":
        return list(_by_value(snapshot, list(candidates), asks, blind=blind))
    first = _first(candidates, asks.limit, _lowest if asks.order == "lowest" else _most_divided)
    return [FrozenItem(one.about, _reason(one, asks, blind=blind)) for one in first]


def _first(
    candidates: Iterator[Candidate], n: int, key: Callable[[Candidate], tuple[float, ...]]
) -> list[Candidate]:
    """Return the first ``n`` by a key. The input has long sorted runs, which sorting exploits and a heap does not."""
    best: list[Candidate] = []
    while part := list(islice(candidates, max(n, _AT_ONCE))):
        best = sorted(best + part, key=key)[:n]
    return best


def _lowest(one: Candidate) -> tuple[float, ...]:
    score, at_ms = one.score, one.at_ms
    return (score is None, score or 0.0, _LAST if at_ms is None else at_ms, *_numbers(one))


def _most_divided(one: Candidate) -> tuple[float, ...]:
    return (-one.minority, *_age(one))


def _by_value(
    snapshot: Snapshot, candidates: list[Candidate], asks: QueueAsks, *, blind: bool
) -> Iterator[FrozenItem]:
    values = values_of_labels(snapshot, candidates)
    order = sorted(range(len(candidates)), key=lambda index: (-values[index], _age(candidates[index])))
    for index in order[: asks.limit]:
        effect = f"; a label could change about {values[index]:,.0f} tokens of the next prompt"
        yield FrozenItem(candidates[index].about, _reason(candidates[index], asks, blind=blind) + effect)


def _age(one: Candidate) -> tuple[int, ...]:
    return (_LAST if one.at_ms is None else one.at_ms), *_numbers(one)


def _filtered(candidates: Iterator[Candidate], asks: QueueAsks) -> Iterator[Candidate]:
    if asks.source == "unjudged":
        return (one for one in candidates if one.n_people == 0)
    if asks.source == "low":
        return (one for one in candidates if one.score is not None and one.score <= asks.below)
    return (one for one in candidates if one.minority > 0) if asks.source == "disagree" else candidates


def _reason(one: Candidate, asks: QueueAsks, *, blind: bool) -> str:
    """Return the reason as text that pages show unchanged."""
    if asks.source == "unjudged":
        return "no person has judged it"
    if asks.source == "low":
        return "it got little" if blind else f"it got {one.score:.2g}"
    if asks.source == "disagree":
        return "raters disagree" if blind else f"{one.minority:.0%} of {one.n_judged} judgements differ"
    return "picked by hand" if asks.source == "runs" else "it passes the filter"
