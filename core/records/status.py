"""Status: a learner in one answer, and the state of a server among the servers of one database."""

from __future__ import annotations

from typing import Literal

import msgspec

from core.records.counts import number_of
from core.records.currency import DOLLAR
from core.records.judgement import JudgementName
from core.records.learner import Mode
from core.records.run import Phase
from core.records.saving import Outcomes, SavingsVerdict
from core.records.times import Moment


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that `compact` deleted: their number, the end of the first and of the last, and the last compaction."""

    runs: int
    first: Moment | None
    last: Moment | None
    at: Moment | None

    @property
    def words(self) -> str:
        """The sentence that names the deleted part, for answers that read single runs."""
        return (
            f"compact deleted {number_of(self.runs, 'old run')}, which ended by {self.last or 'an unknown time'}:"
            " lists and comparisons of runs leave them out, beliefs and sums count them."
        )


def left_out_words(n_compacted: int) -> str:
    """Return the sentence about the compacted runs that an export lacks; there are some.

    >>> left_out_words(1)
    'The file lacks 1 compacted run, so it is not loss-free: only sums are left of it.'
    """
    them = "it" if n_compacted == 1 else "them"
    lacks = f"The file lacks {number_of(n_compacted, 'compacted run')}"
    return f"{lacks}, so it is not loss-free: only sums are left of {them}."


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Baseline against selected runs; intervals are of 95 %, for one look, and None where there is none.

    ``truncated_runs`` of the baseline runs left arms out. ``savings_percent`` is the plain figure,
    ``capped_savings_percent`` the one that ``verdict`` rests on. ``headline`` is the one that pages name first.
    ``compared_runs`` (baseline, selected) are behind the figures, ``uncompared_runs`` have known tokens and no
    counterpart. ``formula_savings_percent`` is the source's formula, of the averages above as they are. ``outcome``
    is what selected runs achieve beside baseline runs.
    """

    baseline_runs: int
    selected_runs: int
    baseline_avg_tokens: float | None
    selected_avg_tokens: float | None
    savings_percent: float | None
    interval: tuple[float, float] | None
    truncated_runs: int
    typical_savings_percent: float | None
    typical_interval: tuple[float, float] | None
    capped_savings_percent: float | None
    capped_interval: tuple[float, float] | None
    compared_runs: tuple[int, int]
    uncompared_runs: int
    formula_savings_percent: float | None
    verdict: SavingsVerdict
    headline: Literal["plain", "capped"]
    outcome: Outcomes


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """Savings in money, by the bills of runs, in ``currency``; the interval is of 95 %, for one look.

    ``compared_runs`` are those of ``savings_percent``, which is counted as ``headline`` names. ``unbilled_runs`` have
    no exact bill: their model has no price, or the split of their tokens is unknown. ``unpriced_models`` have no
    price, and ``price_offers`` names the priced model that differs from one only in spelling. ``estimated``: a price
    or a split is assumed. ``at_least``: a bill is a lower bound. Then ``verdict`` is never ``proven``. With
    ``estimated``, ``costs_more`` is a warning. ``cache_bound`` is the interval, at every look, of the share saved if
    baseline runs had found their definitions in a cache that another run left; null where sessions share none.
    """

    savings_percent: float | None
    interval: tuple[float, float] | None
    verdict: SavingsVerdict
    estimated: bool
    headline: Literal["plain", "capped"]
    baseline_avg: float | None
    selected_avg: float | None
    saved: float | None
    saved_interval: tuple[float, float] | None
    compared_runs: tuple[int, int]
    uncompared_runs: int
    unbilled_runs: int
    unpriced_models: tuple[str, ...]
    price_offers: dict[str, str] = {}
    at_least: bool = False
    cache_bound: tuple[float, float] | None = None
    currency: str = DOLLAR


class SpoolCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that could not be recorded on this machine: they wait to be sent, were rejected, or were dropped."""

    waiting: int = 0
    rejected: int = 0
    dropped: int = 0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A learner in one answer; ``mode`` is its detection's, times are ISO 8601 UTC, None = unknown.

    ``judged`` counts arms by a judgement that is an alarm. ``offers`` are selections
    that clients received, and ``offers_unobserved`` those without a report so far: they count against no arm.
    ``open_to_others``: files of the database that other users of this machine can read. ``servers``: those of a
    cluster with the tables, empty for one server. ``standing``: the server's role and its standbys, None for a file.
    ``read_database`` is the standby for pages, None without one; ``read_standing`` its state, None for the reason
    ``read_problem``. ``spool`` counts the runs of agents on this machine that are not recorded yet.
    ``head`` is that of the chain of acts: kept elsewhere, it shows a later change of the past. ``compacted``: the
    runs whose rows are deleted, None without any; ``runs`` counts them. ``unprovable``: the last act up to which
    nothing proves the facts, because a person accepted a difference; None: all are. ``damage``: what the last check
    or backup on this machine found, None without any.
    """

    database: str
    learner: str
    phase: Phase
    mode: Mode
    runs: int
    observed: int
    skipped: dict[str, int]
    empty: int
    arms: int
    pulls: int
    judged: dict[JudgementName, int]
    offers: int
    offers_unobserved: int
    tokens: int
    baseline: Baseline
    money: Money | None
    revision: int
    first_run: Moment | None
    last_run: Moment | None
    open_to_others: tuple[str, ...]
    servers: tuple[str, ...] = ()
    standing: ServerState | None = None
    read_database: str | None = None
    read_standing: ServerState | None = None
    read_problem: str | None = None
    spool: SpoolCounts = SpoolCounts()
    head: str | None = None
    compacted: Compacted | None = None
    unprovable: int | None = None
    damage: str | None = None


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """A server's role: the primary takes writes, a standby follows it.

    ``synchronous``: the primary answers an act only when a standby has it; None for a standby. ``standbys`` counts
    those that receive the primary's writes; None for a standby. ``lag_s`` is the delay of a standby in seconds, or of
    the primary's slowest standby; None = unknown or no standby.
    """

    role: Literal["primary", "standby"]
    synchronous: bool | None = None
    standbys: int | None = None
    lag_s: float | None = None
