"""Design: whether a coin of ours drew the classes, and whether they look drawn.

A claim needs runs that our own selection drew, with a stored probability. If classes are such draws, nothing that was
known before a draw predicts it better than its probability does. Several gamblers bet on that. Each starts with 1 and
stakes on what the past of the same model, channel, session or time says. Their mean wealth is above 1,000 with a
probability of at most .001, however often one looks (Ville). So much wealth withholds the claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from core.columns import Bools, Floats, Ints, SessionRuns, is_recorded_coin, plain_prob
from core.records.arm import MICRO

Imbalance = Literal["time", "model", "channel", "session"]

WEALTH: Final = 1_000.0
"""Mean wealth that withholds a claim: the inverse of the probability of a false alarm."""
_WINDOWS: Final = (50, 400)
"""Latest runs that the gamblers on time look at."""
_PRIOR: Final = 10.0
"""Runs that the stored probability counts for in a gambler's prediction."""
_MOST: Final = 0.9
"""Most of the distance to a sure prediction that a gambler stakes, so that none is ruined."""


@dataclass(frozen=True, kw_only=True)
class Balance:
    """Wealth of the gamblers against the coin of ``n_draws`` recorded draws, and who of them won most."""

    n_draws: int
    wealth: float
    by: Imbalance | None

    @property
    def fails(self) -> bool:
        """Return whether the classes do not look like draws of the coin."""
        return self.wealth >= WEALTH


def balance(runs: SessionRuns) -> Balance:
    """Return how much better than by its stored probability the class of each recorded draw can be predicted.

    References
    ----------
    * J. Ville, *Étude critique de la notion de collectif*, 1939: the bound at every look.
    * A. Ramdas and others, *Stat. Sci.* 38, 2023, 576 (doi:10.1214/23-STS894): tests by betting.

    Examples
    --------
    >>> n, dice = 600, np.random.default_rng(1)
    >>> def runs(chosen):
    ...     names = tuple(np.where(chosen, "baseline", "selected").tolist())
    ...     alone, unknown = np.arange(n), np.full(n, -1)
    ...     return SessionRuns(session=alone, draw=alone, hour=alone, run_class=names, model=("m",) * n,
    ...         channel=("",) * n, status=("completed",) * n, prob_micro=np.full(n, 300_000), tokens=unknown,
    ...         duration_ms=unknown, bill_pico=unknown, bill_marks=unknown)
    >>> balance(runs(dice.random(n) < 0.3)).fails, balance(runs(np.arange(n) < 0.3 * n)).fails
    (False, True)
    """
    classes = np.array(runs.run_class, dtype=np.str_)
    recorded = is_recorded_coin(runs.prob_micro) & np.isin(classes, ("baseline", "selected"))
    order = np.flatnonzero(recorded)[np.argsort(runs.hour[recorded], kind="stable")]
    order = order[np.sort(np.unique(runs.draw[order], return_index=True)[1])]  # the first run of each draw
    if not len(order):
        return Balance(n_draws=0, wealth=1.0, by=None)
    hit, prob = classes[order] == "baseline", plain_prob(runs.prob_micro[order]) / MICRO
    bets: list[tuple[Imbalance, Floats]] = [
        *(("time", _of_latest(hit, prob, window)) for window in _WINDOWS),
        ("model", _of_group(hit, prob, _coded(runs.model, order))),
        ("channel", _of_group(hit, prob, _coded(runs.channel, order))),
        ("session", _of_group(hit, prob, _state(hit, runs.session[order]))),
    ]
    logs = np.array([_log_wealth(hit, prob, predicted) for _, predicted in bets])
    best = int(logs.argmax())
    wealth = float(np.exp(np.minimum(logs, 700.0)).mean())
    return Balance(n_draws=len(order), wealth=wealth, by=bets[best][0] if wealth >= WEALTH else None)


def _log_wealth(hit: Bools, prob: Floats, predicted: Floats) -> float:
    """Return the logarithm of what bets at the odds of the coin have made of 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gained = np.where(hit, predicted / prob, (1 - predicted) / (1 - prob))
    sure = (prob <= 0) | (prob >= 1)
    impossible = bool((sure & (hit != (prob >= 1))).any())
    return np.inf if impossible else float(np.log(gained[~sure]).sum())


def _staked(prob: Floats, extra: Floats, n: Floats) -> Floats:
    """Return a prediction from ``extra`` hits above the expected among ``n`` earlier runs."""
    predicted = prob + extra / (n + _PRIOR)
    return np.clip(predicted, prob * (1 - _MOST), prob + (1 - prob) * _MOST)


def _of_latest(hit: Bools, prob: Floats, window: int) -> Floats:
    """Return the predictions by the latest runs before each."""
    above = np.concatenate(([0.0], np.cumsum(hit - prob)))
    at = np.arange(len(hit))
    since = np.maximum(at - window, 0)
    return _staked(prob, above[at] - above[since], (at - since).astype(np.float64))


def _of_group(hit: Bools, prob: Floats, group: Ints) -> Floats:
    """Return the predictions by all earlier runs of the same group."""
    order = np.argsort(group, kind="stable")
    above, sorted_groups = np.cumsum((hit - prob)[order]), group[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_groups[1:] != sorted_groups[:-1])))
    place = np.arange(len(hit)) - np.repeat(starts, np.diff(np.append(starts, len(hit))))
    before = np.concatenate(([0.0], above))
    earlier = before[np.arange(len(hit))] - np.repeat(before[starts], np.diff(np.append(starts, len(hit))))
    extra, n = np.empty(len(hit)), np.empty(len(hit))
    extra[order], n[order] = earlier, place
    return _staked(prob, extra, n)


def _coded(names: tuple[str, ...], order: Ints) -> Ints:
    return np.asarray(np.unique(np.array(names, dtype=np.str_)[order], return_inverse=True)[1])


def _state(hit: Bools, session: Ints) -> Ints:
    """Return the class of the run before in the same session: 0 none, 1 selected, 2 baseline."""
    order = np.argsort(session, kind="stable")
    follows = np.concatenate(([False], session[order][1:] == session[order][:-1]))
    state = np.zeros(len(hit), dtype=np.int64)
    state[order[1:]] = np.where(follows[1:], 1 + hit[order[:-1]], 0)
    return state
