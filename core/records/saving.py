"""A saving and what it buys: the facts beside the figures of tokens and money, each with its own word.

The answer of savings speaks of the present policy. One set of runs makes every figure of it: all runs that a coin
drew, with known usage, however they end.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from core.records.estimate import Estimate

SavingsVerdict = Literal["proven", "not_proven", "costs_more", "mixed", "no_interval", "no_figure"]
"""``mixed``: ordinary runs and runaway runs go different ways."""
OutcomeWord = Literal["as_much", "less", "open", "unknown"]
"""``as_much``: for sure not worse by more than the margin. ``less``: for sure worse. ``unknown``: no outcomes."""
CheckName = Literal["balance", "share", "unknown_usage", "lost", "follow_ups"]
CheckState = Literal["passed", "failed", "open"]
"""``open``: the check can't see a difference of five points yet, so it has not passed."""
Pair = tuple[float | None, float | None]
"""A figure of baseline runs and the same of selected runs."""


class ClassColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The two columns of a comparison, at the mix of strata of its selected runs: their difference is the one shown.

    ``tokens`` are plain means; capped and typical ones are in `ClassFigures`. Rates are shares from 0 to 1.
    """

    tokens: Pair
    duration_ms: Pair
    error_rate: Pair
    unfinished_rate: Pair


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of selected runs, less those of baseline runs: the guardrail.

    ``source`` is the one source of all outcomes ("": none). ``means`` (0 to 1) are those of sessions, at one mix of
    coins, and make ``difference``, in points. Its interval holds however often one looks. ``known`` are the runs with
    an outcome and ``n_runs`` all drawn ones (baseline, selected). ``of_judged``: the outcome is known for less than
    95 % of a side, so the figure is of judged runs, and a word of it holds with every missing run counted against it.
    ``sampled`` sides are random samples for review, so ``known`` and ``n_runs`` are of these.
    ``margin_points`` is what "as much" allows to be worse. ``more_judged`` judged baseline runs would make it "as
    much" where nothing differs and nothing else is missing; None: not computable.
    """

    word: OutcomeWord
    source: str
    means: Pair
    difference: Estimate
    known: tuple[int, int]
    n_runs: tuple[int, int]
    n_sessions: tuple[int, int]
    of_judged: bool
    margin_points: float
    more_judged: int | None
    sampled: tuple[bool, bool] = (False, False)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A check that can withhold a claim.

    ``difference`` in points has an interval that holds however often one looks; its value is None where the check
    bets and measures nothing. All checks together doubt a fair draw with a probability of at most 1 %.
    """

    name: CheckName
    state: CheckState
    difference: Estimate


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """Selections whose run never came, by class (baseline, selected).

    ``n_selections`` are those of which a row is left, in holds and offers; ``n_lost`` of them have no run. A
    selection without a row can't be counted. ``by_share`` is the part of the selected runs that the share of baseline
    runs suggests to be missing (0 to 1), with its interval.
    """

    n_selections: tuple[int, int]
    n_lost: tuple[int, int]
    by_share: Estimate


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One policy of selection: what decides which arms go in.

    ``number`` counts policies from 1 in the order of their first run; 0: unknown. ``budget_tokens`` and ``k`` are its
    limits in force (0 = unlimited). Hours count from 1970 UTC (-1: unknown). ``enough``: 30 sessions in each group
    (runs, where they come alone). ``saved_percent`` is the capped figure of its runs; its interval holds however
    often one looks, within ``error``, the policy's share of the error. ``means`` are tokens a run, capped.
    """

    number: int
    is_present: bool
    budget_tokens: int
    k: int
    first_hour: int
    last_hour: int
    n_runs: tuple[int, int]
    n_sessions: tuple[int, int]
    enough: bool
    error: float
    means: Pair
    saved_percent: Estimate
    verdict: SavingsVerdict


class PerSession(msgspec.Struct, frozen=True, kw_only=True):
    """Savings by session, which counts second runs that a cheaper first run needs.

    ``by_draw``: each session holds one selection, and "proven" needs this figure as well. Else selections change
    within a session: a follow-up may be counted to the other class, and the figure is by the class of the first run.
    ``means`` are tokens a session, ``runs`` the runs a session. ``saved_percent`` holds however often one looks.
    """

    by_draw: bool
    n_sessions: tuple[int, int]
    means: Pair
    runs: Pair
    saved_percent: Estimate
    money_percent: Estimate | None


class CostPerSolved(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a class for each task solved (outcome above .9): all its cost by its solved runs.

    In dollars where ``is_money``, else in tokens. ``cost`` has Fieller's interval by session. Its upper limit is None
    where it is open above ("at least"). Below ten solved runs there is no figure.
    """

    is_money: bool
    n_solved: int
    n_runs: int
    cost: Estimate


class SpanSaved(msgspec.Struct, frozen=True, kw_only=True):
    """A month of the saving: its selected runs times the difference of the two means is what they saved.

    ``means`` (tokens, or dollars) are the adjusted means at the month's mix of runs. ``saved`` is their difference
    times ``n_selected``. The months add up to the total. ``n_uncompared`` selected runs have no counterpart.
    """

    start_hour: int
    end_hour: int
    n_selected: int
    n_uncompared: int
    means: Pair
    saved: float | None


class WeekSaved(msgspec.Struct, frozen=True, kw_only=True):
    """A week by itself: its runs and its capped figure, with an interval for one look."""

    start_hour: int
    n_runs: tuple[int, int]
    saved_percent: Estimate


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A proven loss of one part of the runs: a model, a channel, or the last 28 days (``name`` is then "")."""

    part: Literal["model", "channel", "days"]
    name: str
    saved_percent: Estimate
