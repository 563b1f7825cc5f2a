"""A fallen arm and the arms that joined the prompt then → which of them took its work.

Nothing conditions a mean on what else was in the prompt, so an arm whose work a new one does looks as if it
drifted. Whether it did is seen within runs: with the newcomer and without it, and, where it joined all of them, in
whether the older arm is left alone just where the newcomer is used.
"""

from __future__ import annotations

from typing import Final

from core.columns import JoinedArms
from core.statistics.change.shift import Shift
from core.statistics.change.splits import MIN_BEFORE, MIN_CHANGE
from core.statistics.counting import chance_of_at_most

NEAR_DAYS: Final = 7
"""An arm may have brought a change about if it joined within so many days of it; of a small one the day is vague."""

_SURE: Final = 0.01
_LIKELY: Final = 0.05


def rivals(shift: Shift, joined: JoinedArms) -> tuple[str, ...]:
    """Return the arms that took a fallen arm's work, the largest share first; none if it fell by itself.

    Where at least 10 runs went without a newcomer since, the older arm must have kept its mean in these and have a
    lower one next to the newcomer (Fisher's exact test). Otherwise both must be used in the same run less often than
    two that know nothing of each other; or the newcomer is used as often as the older arm was, and that not at all.

    Parameters
    ----------
    shift : Shift
        An arm's fall.
    joined : JoinedArms
        How often it and each other arm were in the same runs since.

    Returns
    -------
    tuple of str
        Ids of arms.

    References
    ----------
    R. A. Fisher, *Statistical Methods for Research Workers*, 1934, section 21.02: the exact test.
    """
    took = [index for index in range(len(joined.keys)) if shift.fell and _took(shift, joined, index)]
    took.sort(key=lambda index: -int(joined.n_joined_used[index] - joined.n_both_used[index]))
    return tuple(joined.keys[index] for index in took)


def _took(shift: Shift, joined: JoinedArms, index: int) -> bool:
    n_with, n_used = int(joined.n_with[index]), int(joined.n_used[index])
    n_without, used_without = joined.n_all - n_with, joined.n_all_used - n_used
    if n_with < MIN_BEFORE:
        return False
    if n_without >= MIN_BEFORE:
        holds = _holds(shift, n_without, used_without)
        return holds and _fewer(n_used, n_with, used_without, n_without) <= _SURE
    n_joined, n_both = int(joined.n_joined_used[index]), int(joined.n_both_used[index])
    if shift.to_nothing:
        return n_joined / n_with >= shift.mean_before - MIN_CHANGE
    return _fewer(n_both, n_joined, n_used - n_both, n_with - n_joined) <= _SURE


def _holds(shift: Shift, n_without: int, used_without: int) -> bool:
    """Return whether the older arm is as useful as before where the newcomer is absent."""
    if used_without / n_without > shift.mean_before - MIN_CHANGE:
        return True
    used_before = round(shift.mean_before * shift.n_before)
    return _fewer(used_without, n_without, used_before, shift.n_before) > _LIKELY


def _fewer(used: int, n: int, other_used: int, other_n: int) -> float:
    """Return the chance of so few or fewer uses of the first, if both were used equally often."""
    if n == 0 or other_n == 0:
        return 1.0
    return float(chance_of_at_most(used, n + other_n, used + other_used, n))
