"""Runs × arms → what became of each arm in each run, for as many arms as a picture holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from core.columns import Bools, Floats, Ints
from core.records.arm import ARM_TYPES, MICRO, ArmType
from core.records.evidence import INCLUDED, OBSERVED, REFERENCED

CellState = Literal["absent", "left_out", "unjudged", "penalised", "rewarded"]
CELL_STATES: Final[tuple[CellState, ...]] = ("absent", "left_out", "unjudged", "penalised", "rewarded")
"""Absent: no part in the run. Left out: a selection left it out. Unjudged: in, but nothing was learned from the
run. Penalised: in and not referenced. Rewarded: in and referenced."""

RowChoice = Literal["most in", "last used"]


@dataclass(frozen=True, kw_only=True)
class Heatmap:
    """Arms (rows, grouped by type) × runs (columns, the newest last).

    ``state`` holds indexes in `CELL_STATES`, ``by_hand`` the latest reward that a person gave there (NaN: none).
    ``n_rest`` arms had a part in these runs and are not shown.
    """

    keys: tuple[str, ...]
    types: tuple[ArmType, ...]
    run_nos: tuple[int, ...]
    state: NDArray[np.int8]
    by_hand: Floats
    n_rest: int

    def newest(self, n_runs: int) -> Heatmap:
        """Return the heatmap of the newest runs alone."""
        first = max(len(self.run_nos) - n_runs, 0)
        return replace(
            self,
            run_nos=self.run_nos[first:],
            state=self.state[:, first:],
            by_hand=self.by_hand[:, first:],
        )

    def count(self, state: CellState) -> int:
        """Return the number of cells in a state."""
        return int((self.state == CELL_STATES.index(state)).sum())


def chosen_rows(n_in: Ints, last_used: Ints, n_used: Ints, *, by: RowChoice, at_most: int) -> Ints:
    """Return the indexes of the arms to show: those most often in, or those referenced most recently.

    Ties go to those in more often, then to those used more often, then to the smaller id.

    Parameters
    ----------
    n_in : array of int, shape (n_arms,)
        Runs each arm was in, 0 or more.
    last_used : array of int, shape (n_arms,)
        When it was last referenced: the larger the later.
    n_used : array of int, shape (n_arms,)
        Runs that referenced it, 0 or more.
    by : RowChoice
        Which arms to show.
    at_most : int
        How many, 1 or more.

    Returns
    -------
    array of int, shape (n_shown,)
        Indexes of arms, in this order.

    Examples
    --------
    >>> n_in, last_used, n_used = np.array([9, 2, 9]), np.array([0, 49, 3]), np.array([1, 1, 4])
    >>> chosen_rows(n_in, last_used, n_used, by="most in", at_most=2).tolist()
    [2, 0]
    >>> chosen_rows(n_in, last_used, n_used, by="last used", at_most=2).tolist()
    [1, 2]
    """
    keys = (-n_used, -n_in) if by == "most in" else (-n_used, -n_in, -last_used)
    return np.lexsort(keys)[:at_most]


def grouped(types: tuple[ArmType, ...], n_in: Ints) -> Ints:
    """Return the indexes of arms by type in its fixed order, within a type the most often in first.

    Parameters
    ----------
    types : tuple of ArmType, n_arms long
        Type of each arm.
    n_in : array of int, shape (n_arms,)
        Runs each was in, 0 or more.

    Returns
    -------
    array of int, shape (n_arms,)
        Indexes of arms.

    Examples
    --------
    >>> grouped(("file", "tool", "tool"), np.array([9, 1, 5])).tolist()
    [2, 1, 0]
    """
    kind = np.array([ARM_TYPES.index(name) for name in types], dtype=np.int64)
    return np.lexsort((-n_in, kind))


def heatmap(
    keys: tuple[str, ...],
    types: tuple[ArmType, ...],
    run_nos: tuple[int, ...],
    *,
    run: Ints,
    arm: Ints,
    flags: Ints,
    hand_run: Ints,
    hand_arm: Ints,
    hand_reward_micro: Ints,
    n_rest: int = 0,
) -> Heatmap:
    """Return the state of each arm in each run.

    ``run`` and ``arm`` are indexes among ``run_nos`` and ``keys``, aligned with ``flags``; pairs that are not
    named are absent. The ``hand_*`` arrays say what people gave, the latest last.

    Parameters
    ----------
    keys : tuple of str, n_arms long
        Ids of the rows.
    types : tuple of ArmType, n_arms long
        Their types.
    run_nos : tuple of int, n_runs long
        Numbers of the columns' runs.
    run : array of int, shape (n_pairs,)
        Index of each pair's run.
    arm : array of int, shape (n_pairs,)
        Index of each pair's arm.
    flags : array of int, shape (n_pairs,)
        Bits `INCLUDED`, `OBSERVED` and `REFERENCED`.
    hand_run : array of int, shape (n_given,)
        Index of the run that a person's reward is for.
    hand_arm : array of int, shape (n_given,)
        Index of its arm.
    hand_reward_micro : array of int, shape (n_given,)
        The reward in millionths, 0 to 1,000,000.
    n_rest : int, optional
        Arms that are not shown.

    Returns
    -------
    Heatmap
        A state, and perhaps a reward by hand, for each cell.
    """
    state = np.zeros((len(keys), len(run_nos)), dtype=np.int8)
    state[arm, run] = _states(flags)
    by_hand = np.full(state.shape, np.nan)
    by_hand[hand_arm, hand_run] = hand_reward_micro / MICRO  # of several for one cell NumPy keeps the last
    return Heatmap(keys=keys, types=types, run_nos=run_nos, state=state, by_hand=by_hand, n_rest=n_rest)


def _states(flags: Ints) -> Ints:
    was_in: Bools = flags & INCLUDED != 0
    judged: Bools = flags & OBSERVED != 0
    used: Bools = flags & REFERENCED != 0
    places = {name: index for index, name in enumerate(CELL_STATES)}
    return np.select(
        [~was_in, ~judged, used],
        [places["left_out"], places["unjudged"], places["rewarded"]],
        default=places["penalised"],
    )
