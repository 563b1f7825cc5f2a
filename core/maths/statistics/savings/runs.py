"""Compared runs, coded by group and stratum, from usage and sessions; and a test whether classes are random draws.

The sums of an amount cover every run of the usage. The sums by session cover `SessionRuns`, which may be a random
sample of sessions. A run without a session counts as a session of its own.

A claim needs runs that our own selection drew, with a stored probability. If classes are such draws, nothing that was
known before a draw predicts it better than its probability does. Several gamblers bet on that. Each starts with 1 and
bets by earlier runs: of the same model or channel, of the same session, or the latest ones. Their mean wealth exceeds
500 with a probability of at most .002, however often one looks (Ville). So much wealth withholds the claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, repeat
from typing import Final, Literal

import numpy as np

from core.columns import (
    UNKNOWN,
    Bools,
    Floats,
    Ints,
    SessionRuns,
    UsageColumns,
    bucket_bounds,
    is_recorded_coin,
    plain_prob,
)
from core.maths.statistics.savings.cap import Capped, OwnCaps, bucket_of, capped, own_caps, relative_caps
from core.maths.statistics.savings.outcomes import CHECK_ERROR, MOSTLY_KNOWN
from core.maths.statistics.savings.ratio import Compared, compare, estimated
from core.maths.statistics.savings.sessions import SessionEntries, SessionSums
from core.maths.statistics.savings.sums import BASELINE, SELECTED, StratumSums
from core.records.alike import alike
from core.records.arm import MICRO
from core.records.estimate import Estimate
from core.records.times import DAY_HOURS

Imbalance = Literal["time", "model", "channel", "session"]

_GROUP: Final = {"baseline": BASELINE, "selected": SELECTED}
WEALTH: Final = 1 / CHECK_ERROR
"""Mean wealth that withholds a claim: the inverse of the probability of a false alarm."""
_WINDOWS: Final = (50, 400)
"""Latest runs that the gamblers on time look at."""
_PRIOR: Final = 10.0
"""Runs that the stored probability counts for in a gambler's prediction."""
_MOST: Final = 0.9
"""Most of the distance to a sure prediction that a gambler stakes, so that none is ruined."""

TokenAmount = Callable[[Floats, Ints], Floats]
"""(tokens, cell) → amount; a cell is twice the stratum, plus the group."""

Hours = tuple[int, int] | None
"""Hours in which runs ended, without the second one; None = any or unknown."""

Stratum = tuple[str, str, int]
"""Model, channel, baseline probability in millionths (`core.columns.UsageColumns`)."""


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
    """Test by betting whether the classes of recorded draws follow their stored probabilities.

    * J. Ville, *Étude critique de la notion de collectif*, 1939: the bound at every look.
    * A. Ramdas and others, *Stat. Sci.* 38, 2023, 576 (doi:10.1214/23-STS894): tests by betting.
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
        ("session", _of_group(hit, prob, _previous_class(hit, runs.session[order]))),
    ]
    logs = np.array([_log_wealth(hit, prob, predicted) for _, predicted in bets])
    best = int(logs.argmax())
    wealth = float(np.exp(np.minimum(logs, 700.0)).mean())
    return Balance(n_draws=len(order), wealth=wealth, by=bets[best][0] if wealth >= WEALTH else None)


def _log_wealth(hit: Bools, prob: Floats, predicted: Floats) -> float:
    """Return the logarithm of a gambler's wealth after all bets; the wealth before them is 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gained = np.where(hit, predicted / prob, (1 - predicted) / (1 - prob))
    sure = (prob <= 0) | (prob >= 1)
    impossible = bool((sure & (hit != (prob >= 1))).any())
    return np.inf if impossible else float(np.log(gained[~sure]).sum())


def _prediction(prob: Floats, extra: Floats, n: Floats) -> Floats:
    """Return a prediction from ``extra`` hits above the expected among ``n`` earlier runs."""
    predicted = prob + extra / (n + _PRIOR)
    return np.clip(predicted, prob * (1 - _MOST), prob + (1 - prob) * _MOST)


def _of_latest(hit: Bools, prob: Floats, window: int) -> Floats:
    """Return the predictions by the latest runs before each."""
    above = np.concatenate(([0.0], np.cumsum(hit - prob)))
    at = np.arange(len(hit))
    since = np.maximum(at - window, 0)
    return _prediction(prob, above[at] - above[since], (at - since).astype(np.float64))


def _of_group(hit: Bools, prob: Floats, group: Ints) -> Floats:
    """Return the predictions by all earlier runs of the same group."""
    order = np.argsort(group, kind="stable")
    # A running sum minus the sum at the start of the group leaves the group's earlier runs.
    above, sorted_groups = np.cumsum((hit - prob)[order]), group[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_groups[1:] != sorted_groups[:-1])))
    n_earlier = np.arange(len(hit)) - np.repeat(starts, np.diff(np.append(starts, len(hit))))
    before = np.concatenate(([0.0], above))
    earlier = before[np.arange(len(hit))] - np.repeat(before[starts], np.diff(np.append(starts, len(hit))))
    extra, n = np.empty(len(hit)), np.empty(len(hit))
    extra[order], n[order] = earlier, n_earlier
    return _prediction(prob, extra, n)


def _coded(names: tuple[str, ...], order: Ints) -> Ints:
    return np.asarray(np.unique(np.array(names, dtype=np.str_)[order], return_inverse=True)[1])


def _previous_class(hit: Bools, session: Ints) -> Ints:
    """Return the class of the run before in the same session: 0 none, 1 selected, 2 baseline."""
    order = np.argsort(session, kind="stable")
    follows = np.concatenate(([False], session[order][1:] == session[order][:-1]))
    state = np.zeros(len(hit), dtype=np.int64)
    state[order[1:]] = np.where(follows[1:], 1 + hit[order[:-1]], 0)
    return state


@dataclass(frozen=True, kw_only=True)
class RunAmount:
    """Amount by which runs are compared: its sums, and the same by session (None: no `SessionRuns` were given).

    ``varied`` has the sums for the variance where a cap is estimated from the same runs. They include the effect of
    each run on the cap. Then ``sessions`` have these sums, too.
    """

    sums: StratumSums
    sessions: SessionSums | None
    is_log: bool = False
    varied: StratumSums | None = None

    def strata(self, mask: Bools) -> RunAmount:
        """Return the same of some strata."""
        if mask.all():
            return self
        return RunAmount(
            sums=self.sums.strata(mask),
            sessions=None if self.sessions is None else self.sessions.strata(mask),
            is_log=self.is_log,
            varied=None if self.varied is None else self.varied.strata(mask),
        )

    def compared(self, weight: Floats | None = None) -> Compared:
        """Compare both groups at one mix of strata."""
        return compare(self.sums, self.sessions, weight=weight, varied=self.varied, is_log=self.is_log)


class ComparedRuns:
    """The runs that are compared, however they end; ``ended_well``: only those that ended normally."""

    def __init__(
        self, usage: UsageColumns, sampled: SessionRuns | None = None, *, ended_well: bool = False
    ) -> None:
        self._usage = usage
        self.group = _groups(usage.run_class)
        self._status = np.array(usage.status, dtype=np.str_)
        self.is_compared = self.group >= 0
        self.is_completed = self.is_compared & (self._status == "completed")
        self._is_taken = self.is_completed if ended_well else self.is_compared
        self.is_known = self._is_taken & (usage.bucket != UNKNOWN)
        strata = sorted(set(compress(_names(usage), self.is_compared.tolist())))
        places = {name: index for index, name in enumerate(strata)}
        self.stratum = np.maximum(_numbered(usage, places), 0)
        self.models = np.array([model for model, _, _ in strata], dtype=np.str_)
        self.channels = np.array([channel for _, channel, _ in strata], dtype=np.str_)
        self.strata: tuple[Stratum, ...] = tuple(strata)
        self.n_strata = len(strata)
        self.is_randomised = is_recorded_coin(np.array([prob for *_, prob in strata], dtype=np.int64))
        self.is_declared = ~self.is_randomised & (np.array([prob for *_, prob in strata]) != UNKNOWN)
        self._runs = sampled
        pairs = {pair: index for index, pair in enumerate(sorted({name[:2] for name in strata}))}
        self._pair = np.array([pairs[name[:2]] for name in strata], dtype=np.int64)
        self._sampled = None if sampled is None else _SampledRuns(sampled, places, ended_well=ended_well)
        self._capped: dict[tuple[bytes, int | None, Hours], RunAmount] = {}
        self._caps: dict[tuple[bytes, Hours], tuple[Ints, OwnCaps]] = {}

    @cached_property
    def balance(self) -> Balance:
        """The bets against the coin of the runs with known sessions."""
        return Balance(n_draws=0, wealth=1.0, by=None) if self._runs is None else balance(self._runs)

    @property
    def everything(self) -> Bools:
        """All strata."""
        return np.ones(self.n_strata, dtype=np.bool_)

    # Amounts

    @cached_property
    def tokens(self) -> RunAmount:
        """Tokens, where they are known."""
        usage = self._usage
        sums = self._sums(self.is_known, usage.n, usage.tokens, usage.tokens_squared)
        return RunAmount(
            sums=sums, sessions=self._by_session(lambda runs: runs.tokens(lambda tokens, _: tokens))
        )

    @cached_property
    def logs(self) -> RunAmount:
        """Natural logarithms of tokens."""
        usage = self._usage
        sums = self._sums(self.is_known, usage.n, usage.log, usage.log_squared)
        logs = self._by_session(lambda runs: runs.tokens(lambda tokens, _: np.log(tokens)))
        return RunAmount(sums=sums, sessions=logs, is_log=True)

    def capped(self, mask: Bools, against: int | None = None, hours: Hours = None) -> RunAmount:
        """Return tokens up to the caps of each group, over some strata, whose runs alone say where the caps lie.

        ``against``: runs with unknown tokens count too, at the cap in this group and as nothing in the other.
        ``hours``: of the runs that ended in these alone.
        """
        key = (mask.tobytes(), against, hours)
        if key not in self._capped:
            self._capped[key] = self._capped_over(mask, against, hours)
        return self._capped[key]

    def always(self, mask: Bools, error: float, hours: Hours = None) -> tuple[Compared, Estimate]:
        """Return the comparison of capped tokens, and its figure with the interval that holds at every look."""
        amount = self.capped(mask, hours=hours)
        result, sure = amount.compared(), 1 - error
        return result, estimated(
            amount.sums, result, result.saved_percent, result.always_percent_limits(sure), sure
        )

    def _capped_over(self, mask: Bools, against: int | None, hours: Hours) -> RunAmount:
        usage, pair = self._usage, self._pair
        rows, caps = self._own_caps(mask, hours)
        cell = pair[self.stratum[rows]] * 2 + self.group[rows]
        n, bucket, cap = usage.n[rows], usage.bucket[rows], caps.cap[cell]
        cut = capped(n, usage.tokens[rows], usage.tokens_squared[rows], bucket, cap)
        moved = caps.moved_sums(n, cut, usage.log[rows], cell)

        def amount(tokens: Floats, at: Ints) -> Floats:
            return caps.moved(tokens, pair[at // 2] * 2 + at % 2)

        def assumed(at: Ints) -> Floats:
            cap = caps.cap[pair[at // 2] * 2 + at % 2]
            return np.where((at % 2 == against) & np.isfinite(cap), cap, 0.0)

        sums, varied = self._added(rows, n, cut.total, cut.squares), self._added(rows, n, *moved)
        if against is not None:
            unknown = self._unknown_as(assumed, mask)
            sums, varied = sums.plus(unknown), varied.plus(unknown)
        filled = None if against is None else assumed
        return RunAmount(
            sums=sums,
            sessions=self._by_session(lambda runs: runs.tokens(amount, mask, filled, hours)),
            varied=varied,
        ).strata(mask)

    def _unknown_as(self, assumed: Callable[[Ints], Floats], mask: Bools) -> StratumSums:
        """Return the sums of runs with unknown tokens, each with an amount that is assumed for its cell."""
        unknown = self._is_taken & (self._usage.bucket == UNKNOWN)
        rows = np.flatnonzero(unknown & np.append(mask, values=False)[self.stratum])
        n, amount = self._usage.n[rows], assumed(self.stratum[rows] * 2 + self.group[rows])
        return self._added(rows, n, n * amount, n * amount**2)

    @cached_property
    def is_mostly_known(self) -> bool:
        """True if tokens are known for most runs of each group, over strata in which some are known."""
        n_known = self.tokens.sums.n
        n = self.table(self._usage.n, self._is_taken)[n_known.sum(-1) > 0].sum(0)
        return bool((n_known.sum(0) >= MOSTLY_KNOWN * n).all())

    def mean_cap(self, mask: Bools, group: int) -> float:
        """Return the cap of a group, over its runs with known tokens in some strata."""
        rows, caps = self._own_caps(mask, None)
        own = rows[self.group[rows] == group]
        of_run = caps.cap[self._pair[self.stratum[own]] * 2 + group]
        return float(np.average(of_run, weights=self._usage.n[own]))

    def _own_caps(self, mask: Bools, hours: Hours) -> tuple[Ints, OwnCaps]:
        """Return the rows with known tokens in some strata, and the caps that they give."""
        key = (mask.tobytes(), hours)
        if key not in self._caps:
            inside = self.is_known & np.append(mask, values=False)[self.stratum]
            rows = np.flatnonzero(inside & is_within(self._usage.hour, hours))
            cell = self._pair[self.stratum[rows]] * 2 + self.group[rows]
            counts, first = self._by_class(rows, cell)
            logs = np.bincount(cell, self._usage.log[rows], len(counts)).astype(np.float64).reshape(-1, 2)
            self._caps[key] = rows, own_caps(counts.reshape(-1, 2, counts.shape[-1]), first, logs)
        return self._caps[key]

    @cached_property
    def commonly_capped(self) -> StratumSums:
        """Tokens up to the cap that both groups share."""
        return self._sums(self.is_known, self._usage.n, self._cut.total, self._cut.squares)

    @cached_property
    def above(self) -> StratumSums:
        """Runs above the cap that both groups share."""
        return self._sums(self.is_known, self._usage.n, self._cut.n_above, self._cut.n_above)

    @cached_property
    def durations(self) -> RunAmount:
        """Durations in milliseconds, where they are known, whether or not the tokens are."""
        usage = self._usage
        sums = self._sums(self._is_taken, usage.n_timed, usage.duration_ms, usage.duration_squared)
        return RunAmount(sums=sums, sessions=self._by_session(_SampledRuns.durations))

    @cached_property
    def ends(self) -> list[RunAmount]:
        """1 for each run that ended with an error, that did not end normally, and with unknown tokens."""
        n, hits = self._usage.n, (self._status == "error", ~self.is_completed, self._usage.bucket == UNKNOWN)
        sessions = [None] * len(hits) if self._sampled is None else self._sampled.ends()
        return [
            RunAmount(sums=self._sums(self.is_compared, n, n * hit, n * hit), sessions=one)
            for hit, one in zip(hits, sessions, strict=True)
        ]

    def _by_session(self, ask: Callable[[_SampledRuns], SessionSums]) -> SessionSums | None:
        return None if self._sampled is None else ask(self._sampled)

    def _sums(self, rows: Bools, n: Ints, total: Ints | Floats, squares: Ints | Floats) -> StratumSums:
        return self._added(np.flatnonzero(rows), n[rows], total[rows], squares[rows])

    def table(self, amount: Ints | Floats, rows: Bools) -> Floats:
        """Return an amount of some rows, added up by stratum and group."""
        return self._tables(np.flatnonzero(rows), amount[rows])[0]

    def _added(self, rows: Ints, *amounts: Ints | Floats) -> StratumSums:
        n, total, squares = self._tables(rows, *amounts)
        return StratumSums(n=n, total=total, squares=squares)

    def _tables(self, rows: Ints, *amounts: Ints | Floats) -> list[Floats]:
        """Return amounts, an entry for each of some rows, added up by stratum and group."""
        code = self.stratum[rows] * 2 + self.group[rows]
        size = self.n_strata * 2
        added = [np.bincount(code, weights=amount.astype(np.float64), minlength=size) for amount in amounts]
        return [np.asarray(one, dtype=np.float64).reshape(-1, 2) for one in added]

    @cached_property
    def by_status(self) -> dict[str, Floats]:
        """Runs by stratum and group: all, and those of each status."""
        counts = {"all": self.table(self._usage.n, self.is_compared)}
        for one in ("completed", "aborted", "error"):
            counts[one] = self.table(self._usage.n, self.is_compared & (self._status == one))
        return counts

    @cached_property
    def truncated(self) -> Floats:
        """Baseline runs that had to leave arms out, by stratum and group."""
        return self.table(self._usage.n_truncated, self.is_compared)

    @property
    def n_sampled(self) -> int:
        """Number of runs in the sample of sessions; 0 without one."""
        return 0 if self._sampled is None else len(self._sampled)

    def tokens_until(self, days: Ints) -> SessionSums | None:
        """Return cumulative tokens by session at the end of each day; days are the first axis."""
        return self._by_session(lambda runs: runs.tokens_until(days, self.n_strata * 2))

    # The cap

    @cached_property
    def caps(self) -> tuple[Floats, Floats]:
        """Cap that both groups share in each model and channel, and the median there."""
        counts, first = self._by_class(
            self.is_known, self._pair[self.stratum[self.is_known]] * 2 + self.group[self.is_known]
        )
        return relative_caps(counts.reshape(-1, 2, counts.shape[-1]).sum(1), first)

    def _by_class(self, rows: Bools | Ints, cell: Ints) -> tuple[Floats, int]:
        """Return runs by model, channel and group, and by size class, and the first class."""
        n_cells = 2 * (int(self._pair.max(initial=0)) + 1)
        bucket = self._usage.bucket[rows]
        first = int(bucket.min()) if len(bucket) else 0
        n_classes = int(bucket.max(initial=first)) - first + 1
        counts = np.bincount(
            cell * n_classes + bucket - first, weights=self._usage.n[rows], minlength=n_cells * n_classes
        )
        return np.asarray(counts, dtype=np.float64).reshape(n_cells, n_classes), first

    @cached_property
    def _cut(self) -> Capped:
        usage = self._usage
        cap = np.full(len(usage), np.inf)
        cap[self.is_known] = self.caps[0][self._pair][self.stratum[self.is_known]]
        return capped(usage.n, usage.tokens, usage.tokens_squared, usage.bucket, cap)

    # How far they lie apart

    @cached_property
    def largest(self) -> Floats:
        """Largest run of each stratum, in medians of its model and channel, by its size class."""
        result = np.zeros(self.n_strata)
        stratum, bucket = self.stratum[self.is_known], self._usage.bucket[self.is_known]
        lower = np.array([bucket_bounds(one)[0] for one in range(int(bucket.max(initial=-1)) + 1)])
        np.maximum.at(result, stratum, lower[bucket])
        return result / np.where(result > 0, self.caps[1][self._pair], 1.0)

    @cached_property
    def duration_spread(self) -> tuple[StratumSums, Floats]:
        """Logarithms of durations, and the longest run of each stratum as a multiple of its median, in the sample."""
        if self._sampled is None:
            nothing = np.zeros((self.n_strata, 2))
            return StratumSums(n=nothing, total=nothing, squares=nothing), np.zeros(self.n_strata)
        return self._sampled.duration_spread(self.n_strata)


class _SampledRuns:
    """The runs of `SessionRuns` in the compared strata, one entry per run, coded as the usage is."""

    def __init__(self, runs: SessionRuns, places: Mapping[Stratum, int], *, ended_well: bool) -> None:
        stratum = _numbered(runs, places)
        mask = stratum >= 0
        self._stratum = stratum[mask]
        self._cell = self._stratum * 2 + _groups(runs.run_class)[mask]
        self._entries = SessionEntries(self._cell, runs.session[mask], complete=runs.is_all)
        self._hour = runs.hour[mask]
        self._day = np.where(self._hour == UNKNOWN, UNKNOWN, self._hour // DAY_HOURS)
        self._status = np.array(runs.status, dtype=np.str_)[mask]
        self._taken = (self._status == "completed") | (not ended_well)
        self._tokens, self._duration_ms = runs.tokens[mask], runs.duration_ms[mask]

    def __len__(self) -> int:
        return len(self._cell)

    def tokens(
        self,
        amount: TokenAmount,
        mask: Bools | None = None,
        unknown: Callable[[Ints], Floats] | None = None,
        hours: Hours = None,
    ) -> SessionSums:
        """Return an amount computed from the tokens of each run and its cell, if they are known.

        ``mask``: of these strata alone; ``hours``: of the runs that ended in these. ``unknown``: the amount of the
        others, from their cells.
        """
        rows, known = self._taken & is_within(self._hour, hours), self._tokens != UNKNOWN
        if unknown is None:
            rows = rows & known
        if mask is not None:
            rows = rows & mask[self._stratum]
        amounts = amount(np.where(known, self._tokens, 1)[rows].astype(np.float64), self._cell[rows])
        if unknown is not None:
            amounts = np.where(known[rows], amounts, unknown(self._cell[rows]))
        return self._added(rows, amounts)

    def durations(self) -> SessionSums:
        """Return the durations in milliseconds, where they are known."""
        rows = self._taken & (self._duration_ms != UNKNOWN)
        return self._added(rows, self._duration_ms[rows].astype(np.float64))

    def ends(self) -> list[SessionSums]:
        """Return 1 for each run that failed, that did not end normally, and of unknown tokens."""
        hits = (self._status == "error", np.isin(self._status, ("aborted", "error")), self._tokens == UNKNOWN)
        return [self._added(None, hit.astype(np.float64)) for hit in hits]

    def _added(self, rows: Bools | None, amount: Floats) -> SessionSums:
        chosen = np.arange(len(self)) if rows is None else np.flatnonzero(rows)
        return self._entries.sums(chosen, amount)

    def tokens_until(self, days: Ints, n_cells: int) -> SessionSums:
        """Return the tokens up to and including each of some days; days are the first axis."""
        dated = (self._day != UNKNOWN) & (self._day <= days.max(initial=UNKNOWN))
        rows = np.flatnonzero(self._taken & (self._tokens != UNKNOWN) & dated)
        place = np.searchsorted(days, self._day[rows])
        return self._entries.until(place, rows, self._tokens[rows].astype(np.float64), (len(days), n_cells))

    def duration_spread(self, n_strata: int) -> tuple[StratumSums, Floats]:
        """Return the logarithms of durations, and the largest of each stratum in its medians; 0 counts as 1 ms."""
        rows = self._taken & (self._duration_ms != UNKNOWN)
        amount, stratum = np.maximum(self._duration_ms[rows], 1).astype(np.float64), self._stratum[rows]
        cell, log = self._cell[rows], np.log(amount)
        parts = [
            np.bincount(cell, weights=part, minlength=2 * n_strata) for part in (log * 0 + 1, log, log**2)
        ]
        n, total, squares = (np.asarray(part, dtype=np.float64).reshape(-1, 2) for part in parts)
        largest = np.zeros(n_strata)
        for index in np.unique(stratum).tolist():
            own = amount[stratum == index]
            largest[index] = own.max() / np.median(own)
        return StratumSums(n=n, total=total, squares=squares), largest


def is_within(hour: Ints, hours: Hours) -> Bools:
    """Return which hours lie in the span."""
    return np.ones(len(hour), dtype=np.bool_) if hours is None else (hour >= hours[0]) & (hour < hours[1])


def _names(runs: UsageColumns | SessionRuns) -> Iterator[Stratum]:
    return zip(runs.model, runs.channel, runs.prob_micro.tolist(), strict=True)


def _numbered(runs: UsageColumns | SessionRuns, places: Mapping[Stratum, int]) -> Ints:
    """Return the number of the stratum of each row; -1 = it is in none."""
    return np.fromiter(map(places.get, _names(runs), repeat(-1)), dtype=np.int64, count=len(runs))


def _groups(run_class: tuple[str, ...]) -> Ints:
    """Return the group of each class; -1 = neither."""
    return np.fromiter(map(_GROUP.get, run_class, repeat(-1)), dtype=np.int64, count=len(run_class))


def as_usage(runs: SessionRuns) -> UsageColumns:
    """Return the runs as usage, a row each, with their amounts as tokens."""
    known = runs.tokens != UNKNOWN
    amount = np.where(known, runs.tokens, 0)
    log = np.where(known, np.log(np.maximum(runs.tokens, 1)), 0.0)
    zeros = np.zeros(len(runs), dtype=np.int64)
    return alike(
        UsageColumns,
        runs,
        outcome=("observed",) * len(runs),
        bucket=np.where(known, bucket_of(np.maximum(amount, 1)), UNKNOWN),
        n=zeros + 1,
        n_truncated=zeros,
        tokens=amount,
        tokens_squared=amount.astype(np.float64) ** 2,
        log=log,
        log_squared=log**2,
        n_timed=zeros,
        duration_ms=zeros,
        duration_squared=zeros.astype(np.float64),
    )
