"""Cheapest prompt: what the arms of a session cost in full, drawn for each run, and held, at the rates of a cache.

A model call pays the whole prompt. What the provider's cache has is paid at the price of a cached read, the rest at
the price of a cache write. A full prompt is always the same, so other sessions may have left it in the cache. A held
prompt is written once per span: runs of a session without a long pause. A prompt that is drawn for each run is
written once a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from core.columns import Ints

PromptKind = Literal["full", "redrawn", "held"]
READ_RATIO: Final = 0.1
WRITE_RATIO: Final = 1.25
"""Assumed prices of a cached read and of a cache write, as parts of the input price: Claude's list ratios."""


@dataclass(frozen=True, kw_only=True)
class PromptRates:
    """Observed rates: spans of sessions without a long pause, their runs, and the model calls of these.

    ``warm_share`` is the share of spans that began while another session had used the cache not long before.
    """

    n_spans: int
    runs_per_session: float
    calls_per_run: float
    warm_share: float


@dataclass(frozen=True, kw_only=True)
class PromptCosts:
    """Cost of a session's arms by kind of prompt, in input tokens at the full price, and the cheapest kind."""

    rates: PromptRates
    cost: Mapping[PromptKind, float]
    read_ratio: float
    write_ratio: float

    @property
    def cheapest(self) -> PromptKind:
        """The kind that costs least; of equal ones the first of held, redrawn and full."""
        return min(("held", "redrawn", "full"), key=self.cost.__getitem__)


def prompt_rates(session: Ints, at_ms: Ints, n_calls: Ints, idle_ms: int) -> PromptRates:
    """Return the rates of some runs.

    Parameters
    ----------
    session : array of int, shape (n_runs,)
        Number of each run's session.
    at_ms : array of int, shape (n_runs,)
        End of each run in milliseconds.
    n_calls : array of int, shape (n_runs,)
        Model calls of each run, 1 or more.
    idle_ms : int
        Milliseconds after which the cache has forgotten a prompt.

    Returns
    -------
    PromptRates

    Examples
    --------
    >>> rates = prompt_rates(np.array([1, 1, 2, 1]), np.array([0, 10, 15, 90]), np.array([1, 3, 1, 1]), 20)
    >>> rates.n_spans, round(rates.runs_per_session, 3), rates.calls_per_run, round(rates.warm_share, 3)
    (3, 1.333, 1.5, 0.333)
    """
    if not len(session):
        return PromptRates(n_spans=0, runs_per_session=0.0, calls_per_run=0.0, warm_share=0.0)
    by_time = np.argsort(at_ms, kind="stable")
    pause = np.empty(len(at_ms), dtype=np.int64)
    pause[by_time] = np.diff(at_ms[by_time], prepend=at_ms[by_time[0]] - idle_ms - 1)
    order = np.lexsort((at_ms, session))
    own = np.diff(at_ms[order], prepend=at_ms[order[0]])
    is_first = np.concatenate(([True], session[order][1:] != session[order][:-1])) | (own > idle_ms)
    begins = order[is_first]
    return PromptRates(
        n_spans=len(begins),
        runs_per_session=len(session) / len(begins),
        calls_per_run=float(n_calls.mean()),
        warm_share=float((pause[begins] <= idle_ms).mean()),
    )


def prompt_costs(
    rates: PromptRates,
    full_tokens: float,
    chosen_tokens: float,
    *,
    read_ratio: float = READ_RATIO,
    write_ratio: float = WRITE_RATIO,
) -> PromptCosts:
    """Return the expected cost of the arms of one session.

    Parameters
    ----------
    rates : PromptRates
        Runs of a session and calls of a run.
    full_tokens : float
        Tokens of all arms.
    chosen_tokens : float
        Tokens of the arms in a selected prompt.
    read_ratio : float, optional
        Price of a cached read, as a part of the input price.
    write_ratio : float, optional
        Price of a cache write, as a part of the input price.

    Returns
    -------
    PromptCosts

    Examples
    --------
    With one run per span, a held prompt that is 34 % smaller beats a warm full one from 23 calls a run on.

    >>> def cheapest(calls):
    ...     rates = PromptRates(n_spans=9, runs_per_session=1.0, calls_per_run=calls, warm_share=1.0)
    ...     return prompt_costs(rates, 100, 66).cheapest
    >>> cheapest(22), cheapest(23)
    ('full', 'held')
    """
    runs, calls = rates.runs_per_session, rates.calls_per_run
    written = write_ratio - read_ratio
    in_all = runs * calls * read_ratio
    return PromptCosts(
        rates=rates,
        cost={
            "full": full_tokens * (in_all + (1 - rates.warm_share) * written),
            "redrawn": chosen_tokens * (in_all + runs * written),
            "held": chosen_tokens * (in_all + written),
        },
        read_ratio=read_ratio,
        write_ratio=write_ratio,
    )
