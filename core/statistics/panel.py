"""Panel of comparable judgements: one of each grader for each item."""

from __future__ import annotations

import numpy as np

from core.columns import Bools, Ints


def panel(item: Ints, grader: Ints, *, is_known: Bools) -> Ints:
    """Return the rows of a panel: known graders and real items only, and of a grader's several judgements of an item
    the last.

    Parameters
    ----------
    item : array of int, shape (n_rows,)
        What was judged, 0 or more; -1 for what only one grader can judge.
    grader : array of int, shape (n_rows,)
        By whom, 0 to ``n_graders - 1``.
    is_known : array of bool, shape (n_graders,)
        Whether a grader is distinct from every other; a grader without any name is not.

    Returns
    -------
    array of int, shape (n_kept,)
        Indexes of the rows that are kept, ascending.

    Examples
    --------
    >>> item, grader = np.array([0, 0, 0, 1, -1]), np.array([0, 1, 0, 2, 0])
    >>> panel(item, grader, is_known=np.array([True, True, False])).tolist()
    [1, 2]
    """
    rows = np.flatnonzero((item >= 0) & is_known[grader]) if len(item) else np.zeros(0, dtype=np.int64)
    of_pair = (item[rows] * len(is_known) + grader[rows])[::-1]
    latest = np.unique(of_pair, return_index=True)[1]
    return np.sort(rows[len(rows) - 1 - latest])
