"""Policies: which runs were selected by equal settings and limits, in the order of time.

A policy changes by an act on settings that select, or where the median limit of the latest 25 selections leaves that
of the policy by a fifth. Then it begins with the first of these that left. Equal settings and limits are one policy,
so an undo returns to the earlier one. A run whose selection is unknown belongs to the policy of its time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.columns import UNKNOWN, Floats, Ints, SessionRuns

HEADLINE_ERROR: Final = 0.025
"""Probability that the headline is ever wrong, over all policies."""
FIRST_SHARE: Final = 6 / math.pi**2
"""Share of the first policy in this error; policy j has it divided by the square of j."""
LATEST: Final = 25
"""Selections whose median limit is the one in force."""
_FIFTH: Final = 0.2


@dataclass(frozen=True, kw_only=True)
class Policies:
    """The policy of each run, numbered from 0 in the order of their first run, and the limits of each policy.

    ``limits`` are tokens and arms (infinite = unlimited). ``present`` is the policy of the latest selection.
    """

    of_run: Ints
    limits: tuple[tuple[float, float], ...]
    present: int

    def __len__(self) -> int:
        return len(self.limits)

    def error(self, number: int) -> float:
        """Return the share of the error of the headline that a policy has."""
        return HEADLINE_ERROR * FIRST_SHARE / (number + 1) ** 2


def policies(runs: SessionRuns) -> Policies:
    """Return the policies of runs."""
    order = np.lexsort((runs.revision, runs.hour))
    settings = runs.settings[order]
    limits = np.stack([runs.budget_tokens, runs.k], axis=-1)[order].astype(np.float64)
    limits = np.where(limits == 0, np.inf, limits)
    label = np.full(len(order), UNKNOWN)
    names: list[tuple[int, float, float]] = []
    for number in np.unique(settings[settings != UNKNOWN]).tolist():
        rows = np.flatnonzero(settings == number)
        own, own_limits = _by_limit(limits[rows])
        label[rows] = own + len(names)
        names += [(number, *one) for one in own_limits]
    if not names:
        return Policies(of_run=np.zeros(len(order), dtype=np.int64), limits=((np.inf, np.inf),), present=0)
    label = _filled(label)
    first = np.array([np.flatnonzero(label == one)[0] for one in range(len(names))])
    rank = np.argsort(np.argsort(first))
    of_run = np.empty(len(order), dtype=np.int64)
    of_run[order] = rank[label]
    sorted_names = [names[one] for one in np.argsort(first).tolist()]
    return Policies(
        of_run=of_run,
        limits=tuple((tokens, arms) for _, tokens, arms in sorted_names),
        present=int(rank[label[-1]]),
    )


def _filled(label: Ints) -> Ints:
    """Return the labels, with that of the run before where one is unknown, or of the next at the start."""
    known = np.flatnonzero(label != UNKNOWN)
    at = np.searchsorted(known, np.arange(len(label)), side="right") - 1
    return np.asarray(label[known[np.maximum(at, 0)]])


def _by_limit(limits: Floats) -> tuple[Ints, list[tuple[float, float]]]:
    """Return the policy of each selection of equal settings by its limits, and the limits of each policy."""
    n = len(limits)
    first = _pair(np.median(limits[:LATEST], axis=0))
    if (limits == limits[0]).all():
        return np.zeros(n, dtype=np.int64), [first]
    windows = np.lib.stride_tricks.sliding_window_view(limits, min(LATEST, n), axis=0)
    medians = np.median(windows, axis=-1)
    medians = np.concatenate([np.repeat(medians[:1], n - len(medians), axis=0), medians])
    label, known, now = np.zeros(n, dtype=np.int64), [first], 0
    for at in range(n):
        if not _is_near(medians[at], known[now]):
            since = max(at - LATEST + 1, 0)
            before, now = now, _place(known, _pair(medians[at]))
            away = [one for one in range(since, at) if not _is_near(limits[one], known[before])]
            label[min(away, default=at) : at][label[min(away, default=at) : at] == before] = now
        label[at] = now
    used, label = np.unique(label, return_inverse=True)
    return label, [known[one] for one in used.tolist()]


def _place(known: list[tuple[float, float]], limits: tuple[float, float]) -> int:
    """Return the place of a policy near these limits, which is a new one where there is none."""
    near = [place for place, one in enumerate(known) if _is_near(np.array(limits), one)]
    if near:
        return near[0]
    known.append(limits)
    return len(known) - 1


def _is_near(limits: Floats, of: tuple[float, float]) -> bool:
    """Return whether both limits lie within a fifth of those of a policy."""
    return all(
        one == other or (np.isfinite(other) and abs(one - other) <= _FIFTH * other)
        for one, other in zip(limits.tolist(), of, strict=True)
    )


def _pair(limits: Floats) -> tuple[float, float]:
    tokens, arms = limits.tolist()
    return tokens, arms
