"""Clusters of linked things, and the part of the data (train or held out) that each whole cluster belongs to.

A model must not be tested on rows that share a session or an instruction with those it was trained on.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from core.columns import Bools, Ints
from core.errors import InvalidInput

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def held_out(left: Ints, right: Ints, share: float) -> Bools:
    """Return which links are held out, whole clusters at a time.

    A cluster is what links lead to from each other. Its least name, mixed, is a number drawn evenly; below ``share``
    it falls aside. So the same links fall alike in any order, in any process, and a cluster that nothing joins stays
    where it fell when others come.

    Parameters
    ----------
    left : array of int, shape (n_links,)
        What each link holds together, by a name that is a digest: 64 bits, those of the two sides apart.
    right : array of int, shape (n_links,)
        With what.
    share : float
        Of clusters that fall aside on average, in [0, 1].

    Returns
    -------
    array of bool, shape (n_links,)

    Raises
    ------
    InvalidInput
        Where the sides are not aligned, or the share is none.

    References
    ----------
    G. L. Steele, D. Lea and C. H. Flood, *OOPSLA* 2014, 453 (doi:10.1145/2660193.2660195): the mixing.

    Examples
    --------
    >>> result = held_out(np.array([1, 2, 2, 3]), np.array([10, 10, 11, 12]), 0.5)
    >>> len({bool(one) for one in result[:3]})
    1
    """
    if left.shape != right.shape or not 0 <= share <= 1:
        raise InvalidInput(
            f"Two sides must be aligned and a share from 0 to 1, got {left.shape}, {right.shape} and {share}.",
            next_step="Give both sides of every link.",
        )
    if not len(left):
        return np.zeros(0, dtype=np.bool_)
    names, index = np.unique(
        np.concatenate((left, right)).astype(np.int64).view(np.uint64), return_inverse=True
    )
    one, other = index[: len(left)], index[len(left) :]
    number = _mixed(names[_least(one, other, len(names))[one]]).astype(np.float64) / 2.0**64
    return np.asarray(number < share)


def _least(one: Ints, other: Ints, n_nodes: int) -> Ints:
    """Return the least member of each node's cluster."""
    links = scipy.sparse.coo_array((np.ones(len(one)), (one, other)), shape=(n_nodes, n_nodes))
    cluster = scipy.sparse.csgraph.connected_components(links, directed=False)[1]
    return np.asarray(np.unique(cluster, return_index=True)[1][cluster])


def _mixed(names: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers mixed to look evenly drawn: SplitMix64's last step.

    >>> _mixed(np.array([0, 1], dtype=np.uint64)).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    mixed = names + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))
