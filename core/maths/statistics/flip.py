"""Recorded selection → what would have flipped each arm, from the recorded draws alone.

No draw is repeated. The order in which the budget was filled, the costs, the draws and the budget are in the
record, so the packer itself (`core.maths.packing.fill`) says what another draw, rank, cost, budget or number of arms
would have done to one arm while all others stayed as they were. Along the order the remaining budget never
grows, so the ranks at which an arm fits are a run from the front; that is all the closed forms need.

What the record doesn't hold is left open: pulls (they order the under-explored arms) and a limit ``k`` that was
never reached, unless the caller knows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from core.columns import UNKNOWN, Bools, Floats, Ints
from core.maths.packing import fill
from core.records.selection import FIXED_OUT, Selection

_CELLS: Final = 2_000_000
"""Budgets tried times arms: with few arms every budget that changes something is tried, up to `_STEPS`."""
_STEPS: Final = 512
_LEAVING: Final = 2_000
"""Arms in by draw for which a flip is computed; each costs a packing of its own."""
NO_RANK: Final = 0


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A selection by rank. The first ``n_seeds`` are seeds; a draw decides about the arms from ``n_ahead`` on.

    ``k`` 0 = unlimited; None = not recorded and not reached: at least ``k_sure`` arms would have been let in.
    """

    keys: tuple[str, ...]
    cost: Ints
    included: Bools
    draw: Floats
    n_seeds: int
    n_ahead: int
    budget_tokens: int
    k: int | None
    k_sure: int

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def before(self) -> Ints:
        """Number of arms that were in when each one's turn came."""
        return _before(self.included)

    @property
    def left(self) -> Ints | None:
        """Tokens left when each one's turn came; None without a budget."""
        return None if self.budget_tokens == 0 else _left(self.cost, self.included, self.budget_tokens)

    @cached_property
    def replays(self) -> bool:
        """True if the packer repeats this result from this order, these costs and this budget."""
        packed = fill(self.cost, self.n_seeds, self.budget_tokens, self.k or 0)
        return bool(np.array_equal(packed, self.included))


@dataclass(frozen=True, kw_only=True)
class Flips:
    """Thresholds that would have flipped each arm, by rank, all else being equal.

    For an arm that was left out: ``budget`` is the least budget that takes it in (-1: none below
    ``budget_tried``, or none at all where that is None), ``cost`` the highest cost at which it fits at its own
    rank (-1: none), ``rank`` the last rank at which it fits (0: none, not even right behind the seeds),
    ``draw`` the least draw that brings it there (NaN: none can) and ``k`` the least number of arms that lets it
    in (0: the number didn't keep it out, or no number would do).

    For an arm that a draw brought in: ``rank`` is the first rank at which it no longer fits, ``draw`` the
    highest draw that leaves it there; 0 and NaN where it fits anywhere.
    """

    budget: Ints
    budget_tried: int | None
    cost: Ints
    rank: Ints
    draw: Floats
    k: Ints


def recorded(selection: Selection, *, k: int | None = None) -> Recorded:
    """Return a selection by rank; ``k`` is the limit that was in force, None if it is unknown.

    A limit that was reached is read off the record. Arms that a setting or an experiment excluded are left out: the
    packer never came to them.

    Parameters
    ----------
    selection : Selection
        A selection that was handed out.
    k : int or None, optional
        Limit of arms in force, 0 for none; None where it isn't known.

    Returns
    -------
    Recorded
        Its decisions by rank, as arrays.
    """
    candidates = (decision for decision in selection.decisions if decision.reason not in FIXED_OUT)
    rows = sorted(candidates, key=lambda decision: decision.rank)
    included = np.array([row.included for row in rows], dtype=np.bool_)
    reasons = [row.reason for row in rows]
    n_in = int(included.sum())
    before = _before(included)
    if selection.run_class not in {"selected", "fallback"}:
        k = 0
    elif "k" in reasons:
        k = n_in
    blocked = [int(before[index]) + 1 for index, reason in enumerate(reasons) if reason == "budget"]
    draw = np.array([np.nan if row.draw is None else row.draw for row in rows], dtype=np.float64)
    return Recorded(
        keys=tuple(row.arm for row in rows),
        cost=np.array([row.token_cost for row in rows], dtype=np.int64),
        included=included,
        draw=draw,
        n_seeds=reasons.count("seed"),
        n_ahead=reasons.index("draw") if "draw" in reasons else len(rows),
        budget_tokens=selection.budget_tokens,
        k=k,
        k_sure=max([n_in, *blocked]),
    )


def flips(record: Recorded) -> Flips | None:
    """Return what would have flipped each arm, or None if the record does not replay.

    Parameters
    ----------
    record : Recorded
        A selection by rank.

    Returns
    -------
    Flips or None
        Thresholds aligned with the ranks.
    """
    if not record.replays:
        return None
    budget, tried = _least_budgets(record)
    rank, draw = _coming_in(record)
    _going_out(record, rank, draw)
    return Flips(
        budget=budget,
        budget_tried=tried,
        cost=_highest_costs(record),
        rank=rank,
        draw=draw,
        k=_least_numbers(record),
    )


def _before(packed: Bools) -> Ints:
    counted: Ints = np.cumsum(packed) - packed
    return counted


def _left(cost: Ints, packed: Bools, budget_tokens: int) -> Ints:
    spent = cost * packed
    left: Ints = budget_tokens - (np.cumsum(spent) - spent)
    return left


def _room(record: Recorded, before: Ints) -> Bools:
    """Return whether the limit of arms leaves room for one more after so many."""
    return before < record.k if record.k else np.ones(len(before), dtype=np.bool_)


def _highest_costs(record: Recorded) -> Ints:
    """Return the cost at which an arm would have fit at its own rank: the tokens left, if there was room."""
    if record.left is None:
        return np.full(len(record), UNKNOWN, dtype=np.int64)
    fits = ~record.included & _room(record, record.before) & (record.left >= 0)
    return np.where(fits, record.left, UNKNOWN)


def _least_numbers(record: Recorded) -> Ints:
    """Return the limit of arms that would have let in those it kept out: fill without a limit, and count."""
    least = np.zeros(len(record), dtype=np.int64)
    if not record.k:
        return least
    packed = fill(record.cost, record.n_seeds, record.budget_tokens, 0)
    excluded = packed & ~record.included
    least[excluded] = np.cumsum(packed)[excluded]
    return least


def _least_budgets(record: Recorded) -> tuple[Ints, int | None]:
    """Raise the budget from one that changes the packing to the next, and note when each arm comes in.

    Between two such budgets nothing changes: an arm that was blocked stays so until its own shortfall is made
    up, regardless of later arms. A larger budget may take in something large and leave less for an arm behind
    it, so the least budget is not simply its own shortfall; it is where no arm ahead of it falls short by less.
    """
    least = np.full(len(record), UNKNOWN, dtype=np.int64)
    if record.budget_tokens == 0:
        return least, None
    first = _first_to_come_in(record)
    least[first] = record.budget_tokens + _shortfall(record)[first]
    unsure = np.zeros(len(record), dtype=np.bool_)
    budget = record.budget_tokens
    for _ in range(min(_STEPS, max(_CELLS // max(len(record), 1), 32))):
        packed = fill(record.cost, record.n_seeds, budget, record.k or 0)
        before = _before(packed)
        fresh = packed & ~record.included & (least == UNKNOWN) & ~unsure
        if record.k is None:
            unsure |= fresh & (before >= record.k_sure)
            fresh &= before < record.k_sure
        least[fresh] = budget
        blocked = ~packed & _room(record, before)
        if not blocked.any():
            return least, None
        budget += int((record.cost - _left(record.cost, packed, budget))[blocked].min())
    return least, budget


def _shortfall(record: Recorded) -> Ints:
    return record.cost - _left(record.cost, record.included, record.budget_tokens)


def _first_to_come_in(record: Recorded) -> Bools:
    """Return the arms left out for the budget that fall short by less than every such arm ahead of them."""
    blocked = ~record.included & _room(record, record.before)
    short = np.where(blocked, _shortfall(record), np.iinfo(np.int64).max)
    least_ahead = np.concatenate(([np.iinfo(np.int64).max], np.minimum.accumulate(short)[:-1]))
    return blocked & (short < least_ahead)


def _coming_in(record: Recorded) -> tuple[Ints, Floats]:
    """Return the last rank at which each arm that was left out fits, and the least draw that brings it there."""
    rank = np.full(len(record), NO_RANK, dtype=np.int64)
    draw = np.full(len(record), np.nan)
    out = np.flatnonzero(~record.included)
    if not len(out):
        return rank, draw
    n_places = int(_room(record, record.before).sum())  # room runs out once and for all
    left = record.left
    if left is None:
        n_fitting = np.full(len(out), n_places)
    else:
        n_fitting = np.minimum(np.searchsorted(-left, -record.cost[out], side="right"), n_places)
    rank[out] = np.where(n_fitting > record.n_seeds, n_fitting, NO_RANK)
    for index, index_after in zip(out.tolist(), n_fitting.tolist(), strict=True):
        if index >= record.n_ahead and index_after > record.n_ahead:
            draw[index] = _draw_beside(record, index, index_after - 1, ahead=True)
    return rank, draw


def _draw_beside(record: Recorded, index: int, of: int, *, ahead: bool) -> float:
    """Return the draw nearest to that of another arm that puts one ahead of it, or behind; equal ones go by id."""
    other = float(record.draw[of])
    is_first = record.keys[index] < record.keys[of]
    draw = other if is_first == ahead else float(np.nextafter(other, np.inf if ahead else -np.inf))
    return draw if 0 <= draw <= 1 else float("nan")


def _going_out(record: Recorded, rank: Ints, draw: Floats) -> None:
    """Add the same for arms that a draw brought in: pack the others without each of them, and insert it again."""
    if record.budget_tokens == 0 and record.k == 0:
        return
    by_draw = np.flatnonzero(record.included[record.n_ahead :]) + record.n_ahead
    for index in by_draw[:_LEAVING].tolist():
        last = _first_misfit(record, index)
        if last is not None:
            rank[index] = last + 1
            draw[index] = _draw_beside(record, index, last, ahead=False)


def _first_misfit(record: Recorded, index: int) -> int | None:
    """Return the first index behind its own where an arm does not fit, all others keeping their order; None: it fits
    anywhere.

    Indexes are those of the whole order, so the arm would follow the one that is there now.
    """
    cost = np.delete(record.cost, index)
    packed = fill(cost, record.n_seeds, record.budget_tokens, record.k or 0)
    n_before = np.concatenate(([0], np.cumsum(packed)))
    is_out = ~_room(record, n_before)
    if record.budget_tokens:
        spent = np.concatenate(([0], np.cumsum(cost * packed)))
        is_out |= record.budget_tokens - spent < record.cost[index]
    misfits = np.flatnonzero(is_out[index:])
    if not len(misfits):
        return None
    last = index + int(misfits[0])
    is_unsure = record.k is None and int(n_before[last - 1]) >= record.k_sure
    return None if is_unsure else last
