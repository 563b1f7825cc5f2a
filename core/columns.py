"""Columns: arrays that the store returns and the statistics take.

All arrays of one object are aligned and one-dimensional; counts and amounts are int64.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Context, Decimal
from functools import cached_property
from itertools import compress
from typing import Any, Final, Literal, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.records.arm import MICRO, ArmType
from core.records.bill import AT_LEAST, ESTIMATED
from core.records.evaluation_page import Grader
from core.records.learner import LearnerSettings
from core.records.observation import KINDS
from core.records.times import DAY_HOURS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_OF_ALL_ROWS: Final = frozenset(("is_all", "achieved_source", "n_samples"))
UNKNOWN = -1
"""Value of an unknown cost, time, hour or bucket in an integer column."""
ASSIGNED: Final = -2
"""Coin and session of a run whose session an experiment assigned: no coin decided its class."""
CandidateRuns = Literal["chosen", "latest", "none"]
"""Whose candidates they are: of runs that armscope chose, of the latest runs of any class, or of no run at all."""
DECLARED_COIN: Final = 1 << 20
"""Added to a baseline probability in millionths that a file declares. Our own selection did not draw that run."""
HELD_COIN: Final = 1 << 21
"""Added likewise to the probability of a coin that belongs to a hold: runs of a session share it."""
IN_SAMPLE: Final = 2
"""Mark of a run that is in the latest random sample for review."""
WHOLE_DIGITS: Final = 32
"""Length of the digest of metadata, before those of its members."""
_UNSURE: Final = 1e-6
"""Distance from the middle of two millionths within which another machine's logarithm might round the other way."""
_EXACT: Final = Context(prec=40)


def array_of(kind: object, values: Sequence[float | None]) -> Floats | Ints:
    """Return the array of an annotated kind (`Floats` or `Ints`) for its JSON values; None is NaN."""
    if kind == Ints:
        return np.array(values, dtype=np.int64)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _left_out() -> Any:  # noqa: ANN401 - an array
    """Return no column: it gets the ``value`` of its field's metadata in every row."""
    return ()


@dataclass(frozen=True, kw_only=True)
class _Columns:
    def __post_init__(self) -> None:
        for one in fields(self):
            column = getattr(self, one.name)
            if "value" in one.metadata and (type(column) is tuple or len(column) != len(self)):
                object.__setattr__(self, one.name, np.full(len(self), one.metadata["value"]))

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def where(self, mask: Bools) -> Self:
        """Return the rows in ``mask`` (one flag per row), with what is of all rows as it is."""
        inside = mask.tolist()
        columns = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in _OF_ALL_ROWS
        }
        selected: dict[str, Any] = {
            name: tuple(compress(value, inside)) if isinstance(value, tuple) else value[mask]
            for name, value in columns.items()
        }
        return replace(self, **selected)


@dataclass(frozen=True, kw_only=True)
class ArmColumns(_Columns):
    """Columns of every arm of a learner with its counts in the present epoch, sorted by id.

    ``prior_*`` is the arm's own prior, ``base_*`` the prior its epoch began with; both, like ``success`` and
    ``failure``, in millionths. ``pulls`` are whole; ``part_micro`` is what observations of weight below 1 add beyond
    them, 0 to 999,999 millionths of a pull. ``token_cost`` and ``last_at_ms`` are -1 where unknown. ``n_named`` runs
    had the arm by name, and ``n_loaded`` of them found it; 0 where not given.
    """

    keys: tuple[str, ...]
    types: tuple[ArmType, ...]
    prior_alpha_micro: Ints
    prior_beta_micro: Ints
    base_alpha_micro: Ints
    base_beta_micro: Ints
    success_micro: Ints
    failure_micro: Ints
    pulls: Ints
    part_micro: Ints
    inclusions: Ints
    token_cost: Ints
    epoch: Ints
    last_at_ms: Ints
    n_named: Ints = field(default_factory=_left_out, metadata={"value": 0})
    n_loaded: Ints = field(default_factory=_left_out, metadata={"value": 0})

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Index of each arm by id, built once."""
        return {key: index for index, key in enumerate(self.keys)}

    @property
    def pulls_micro(self) -> Ints:
        """The exact sum of each arm's pulls, in millionths."""
        return self.pulls * MICRO + self.part_micro

    @property
    def n_pulls(self) -> int:
        """Pulls of all the arms together: the whole part of their exact sum."""
        return int(self.pulls_micro.sum()) // MICRO

    def exact_pulls(self, index: int) -> float | None:
        """Return the exact sum of an arm's pulls, or None if it is whole."""
        if not self.part_micro[index]:
            return None
        return (int(self.pulls[index]) * MICRO + int(self.part_micro[index])) / MICRO

    @property
    def alpha(self) -> Floats:
        return (self.base_alpha_micro + self.success_micro) / 1e6

    @property
    def beta(self) -> Floats:
        return (self.base_beta_micro + self.failure_micro) / 1e6


@dataclass(frozen=True, kw_only=True)
class LedgerSums:
    """Sums of the counting ledger rows of arms in their present epoch.

    ``n``, ``success_micro`` and ``failure_micro`` have the shape (n_kinds, n_arms), kinds in the order of `KINDS`.
    ``replaced`` counts the automatic observations that corrections replace, by arm; ``replaced_successes`` those of
    them that were references.
    """

    n: Ints
    success_micro: Ints
    failure_micro: Ints
    replaced: Ints
    replaced_successes: Ints

    @classmethod
    def none(cls, n_arms: int) -> LedgerSums:
        """Return the sums of no rows."""
        by_kind, by_arm = (len(KINDS), n_arms), n_arms
        return cls(
            n=np.zeros(by_kind, dtype=np.int64),
            success_micro=np.zeros(by_kind, dtype=np.int64),
            failure_micro=np.zeros(by_kind, dtype=np.int64),
            replaced=np.zeros(by_arm, dtype=np.int64),
            replaced_successes=np.zeros(by_arm, dtype=np.int64),
        )

    def of(self, places: Sequence[int]) -> LedgerSums:
        """Return the sums of the arms at these indexes."""
        at = np.array(places, dtype=np.int64)
        return LedgerSums(**{field.name: getattr(self, field.name)[..., at] for field in fields(self)})


@dataclass(frozen=True, kw_only=True)
class ManualRewards:
    """Feedback and corrections that count in the present epochs of their arms, by time.

    ``actor`` and ``arm`` are indexes into ``actors`` and the arms' columns. ``number`` is that of the reward's act.
    """

    actors: tuple[str, ...]
    actor: Ints
    arm: Ints
    success_micro: Ints
    failure_micro: Ints
    at_ms: Ints
    number: Ints


class OwnLimits(NamedTuple):
    """Limits that requests gave with their selection, 0 = unlimited; None = that of the settings."""

    budget_tokens: int | None = None
    k: int | None = None
    min_pulls: int | None = None

    def over(self, settings: LearnerSettings) -> LearnerSettings:
        """Return the settings with these limits in force."""
        own = {name: value for name, value in self._asdict().items() if value is not None}
        return msgspec.structs.replace(settings, **own) if own else settings


@dataclass(frozen=True, kw_only=True)
class CandidateSets:
    """Sets of arms that competed in some runs under some limits: each distinct pair once, with its number of runs.

    ``places`` are indexes of the arms in their columns, ascending. ``program`` numbers the program of each set, and
    ``shares`` are the shares of the next runs that it represents; without them all sets are of one program, by runs.
    Without ``limits`` the settings limit every set.

    >>> sets = CandidateSets(places=(np.array([0, 1]), np.array([1])), n_runs=(20, 5), of="chosen")
    >>> sets.n_offering(3).tolist(), sets.n_all_runs
    ([20, 25, 0], 25)
    """

    places: tuple[Ints, ...]
    n_runs: tuple[int, ...]
    of: CandidateRuns
    program: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    limits: tuple[OwnLimits, ...] = ()

    def __post_init__(self) -> None:
        if not self.limits:
            object.__setattr__(self, "limits", (OwnLimits(),) * len(self.n_runs))
        if not self.program:
            object.__setattr__(self, "program", (0,) * len(self.n_runs))
        if not self.shares:
            shares = tuple(n / self.n_all_runs for n in self.n_runs)
            object.__setattr__(self, "shares", shares)

    @classmethod
    def everything(cls, n_arms: int) -> CandidateSets:
        """Return one set of every arm: the assumption before any run."""
        return cls(places=(np.arange(n_arms),), n_runs=(1,), of="none")

    @property
    def n_all_runs(self) -> int:
        """Number of runs read, those without candidates included."""
        return sum(self.n_runs)

    def n_offering(self, n_arms: int) -> Ints:
        """Return the number of runs that offered each arm."""
        counts = np.zeros(n_arms, dtype=np.int64)
        for places, n_runs in zip(self.places, self.n_runs, strict=True):
            counts[places] += n_runs
        return counts

    @property
    def n_programs(self) -> int:
        """Number of programs whose runs were read."""
        return len(set(self.program))

    def program_of(self, n_arms: int) -> Ints:
        """Return the number of each arm's program; that of the first for an arm that none offered."""
        result = np.zeros(n_arms, dtype=np.int64)
        for places, number in zip(self.places, self.program, strict=True):
            result[places] = number
        return result

    def n_beside(self, n_arms: int) -> Ints:
        """Return the number of runs read of each arm's program; of all for an arm that none offered."""
        counts = np.full(n_arms, self.n_all_runs, dtype=np.int64)
        of_program = [
            sum(n for n, one in zip(self.n_runs, self.program, strict=True) if one == number)
            for number in range(self.n_programs)
        ]
        for places, number in zip(self.places, self.program, strict=True):
            counts[places] = of_program[number]
        return counts

    def offered(self, n_arms: int) -> Floats:
        """Return the share of the next runs that offer each arm."""
        shares = np.zeros(n_arms)
        for places, share in zip(self.places, self.shares, strict=True):
            shares[places] += share
        return shares


def is_recorded_coin(prob_micro: Ints) -> Bools:
    """Return whether our own selection drew the class, for each probability.

    >>> is_recorded_coin(np.array([-1, 0, 100_000, DECLARED_COIN + 100_000, HELD_COIN + 100_000])).tolist()
    [False, True, True, False, True]
    """
    return np.asarray((prob_micro >= 0) & (prob_micro & DECLARED_COIN == 0))


def is_held_coin(prob_micro: Ints) -> Bools:
    """Return whether the coin belongs to a hold, for each probability.

    >>> is_held_coin(np.array([-1, 100_000, HELD_COIN + 100_000, HELD_COIN + DECLARED_COIN])).tolist()
    [False, False, True, True]
    """
    return np.asarray((prob_micro >= 0) & (prob_micro & HELD_COIN != 0))


def plain_prob(prob_micro: Ints) -> Ints:
    """Return the probabilities alone, -1 where there is none.

    >>> plain_prob(np.array([-1, 0, HELD_COIN + DECLARED_COIN + 100_000])).tolist()
    [-1, 0, 100000]
    """
    return np.where(prob_micro < 0, UNKNOWN, prob_micro & (DECLARED_COIN - 1))


@dataclass(frozen=True, kw_only=True)
class UsageColumns(_Columns):
    """Runs added up by time, class, model, channel, status, outcome, baseline probability and size.

    ``hour`` counts hours since 1970 UTC, -1 = unknown time; that of a whole day is its first. ``prob_micro`` is the
    probability with which the coin made a baseline run, in millionths, -1 where none was stored, `ASSIGNED` where an
    experiment assigned the session. A probability that only a file declares is larger by `DECLARED_COIN`, that of a
    hold by `HELD_COIN`. ``bucket`` is the size class of the tokens (`token_bucket`), -1 = unknown usage; ``tokens``
    and ``tokens_squared``, and the sums of their natural logarithms and of the squares of these, are over the row's
    ``n`` runs (0 where unknown). ``n_truncated`` of them left arms out though they were baseline runs. ``n_timed``
    have a known duration, summed in ``duration_ms`` and its squares. ``model`` and ``channel`` are "" where unknown.
    """

    hour: Ints
    run_class: tuple[str, ...]
    model: tuple[str, ...]
    channel: tuple[str, ...]
    status: tuple[str, ...]
    outcome: tuple[str, ...]
    prob_micro: Ints
    bucket: Ints
    n: Ints
    n_truncated: Ints
    tokens: Ints
    tokens_squared: Floats
    log: Floats
    log_squared: Floats
    n_timed: Ints
    duration_ms: Ints
    duration_squared: Floats

    @property
    def unassigned(self) -> UsageColumns:
        """The runs whose session no experiment assigned."""
        mask = self.prob_micro != ASSIGNED
        return self if mask.all() else self.where(mask)


@dataclass(frozen=True, kw_only=True)
class SessionRuns(_Columns):
    """Runs whose class a coin decided, with the sessions they are of; none of a session that was assigned.

    ``session`` numbers the sessions; a run without one has a number of its own. ``draw`` numbers the draws; a draw
    that several runs share has one number. ``hour``, ``prob_micro``, ``tokens``, ``duration_ms`` and ``bill_pico``
    are -1 where unknown, as in `UsageColumns`. Bills are in 10⁻¹² dollars, with the marks of `core.records.bill`.
    ``achieved`` are the outcomes from 0 to 1, NaN where unknown. All are of one source, ``achieved_source``; "" where
    none is known. ``settings`` numbers the settings that selected, ``revision`` is that of the selection, and
    ``budget_tokens`` and ``k`` are its limits (0 = unlimited); -1 where unknown. ``bound_pico`` are the bills if
    baseline runs had read their definitions from a cache that another run left; -1 where sessions share none.
    ``sampled`` is of the latest random sample for review: 2 = drawn, 1 = could have been, 0 = recorded later.
    ``n_samples`` counts the samples so far.
    ``is_all``: none is missing; else they are sessions drawn at random, with all their runs.
    """

    session: Ints
    draw: Ints
    hour: Ints
    run_class: tuple[str, ...]
    model: tuple[str, ...]
    channel: tuple[str, ...]
    status: tuple[str, ...]
    prob_micro: Ints
    tokens: Ints
    duration_ms: Ints
    bill_pico: Ints
    bill_marks: Ints
    achieved: Floats = field(default_factory=_left_out, metadata={"value": math.nan})
    achieved_source: str = ""
    settings: Ints = field(default_factory=_left_out, metadata={"value": UNKNOWN})
    revision: Ints = field(default_factory=_left_out, metadata={"value": UNKNOWN})
    budget_tokens: Ints = field(default_factory=_left_out, metadata={"value": UNKNOWN})
    k: Ints = field(default_factory=_left_out, metadata={"value": UNKNOWN})
    bound_pico: Ints = field(default_factory=_left_out, metadata={"value": UNKNOWN})
    sampled: Ints = field(default_factory=_left_out, metadata={"value": 0})
    n_samples: int = 0
    is_all: bool = True

    @cached_property
    def is_selected(self) -> Bools:
        """True for each run of the class ``selected``."""
        return np.fromiter(map("selected".__eq__, self.run_class), dtype=np.bool_, count=len(self))

    @property
    def is_billed(self) -> Bools:
        """True for each run whose bill is known and no lower bound."""
        return np.asarray((self.bill_pico != UNKNOWN) & (self.bill_marks & AT_LEAST == 0))

    @property
    def is_estimated(self) -> Bools:
        """True for each run whose bill assumes a price or a split."""
        return np.asarray(self.bill_marks & ESTIMATED != 0)


@dataclass(frozen=True, kw_only=True)
class ExperimentSessions(_Columns):
    """Assigned sessions of an experiment, in the order of their assignment.

    ``chance`` is that of the side with the arm. ``has_ended``: the time in which a session counts is over.
    ``is_settled``: it is over, and all outcomes are known or can come no more. ``followed``: the arm was in or out as
    the side says. ``success`` is the mean of the known outcomes, and ``known`` the share of runs whose outcome is
    known. ``failures`` is a share of the runs. ``tokens``, ``money_pico`` and ``duration_ms`` are totals. NaN where
    unknown. ``in_sample``: it was drawn to be judged. ``sample_odds`` are the stored chance of the side with the
    arm to be drawn over that of the other side; NaN where it could not be drawn.
    """

    with_arm: Bools
    chance: Floats
    has_ended: Bools
    is_settled: Bools
    has_run: Bools
    followed: Bools
    success: Floats
    known: Floats
    failures: Floats
    tokens: Floats
    money_pico: Floats
    duration_ms: Floats
    in_sample: Bools = field(default_factory=_left_out, metadata={"value": False})
    sample_odds: Floats = field(default_factory=_left_out, metadata={"value": math.nan})


@dataclass(frozen=True, kw_only=True)
class ArmDays:
    """Sums of one arm by day, ordered by epoch and day, in millionths. ``part_micro`` are those of observations of
    weight below 1, which are no whole ``pulls``.

    ``day`` counts days since 1970 UTC, -1 = unknown, which comes first in its epoch. ``success_micro`` and
    ``failure_micro`` of a day may be negative where a correction took away what an earlier day had given.
    """

    epoch: Ints
    day: Ints
    inclusions: Ints
    pulls: Ints
    part_micro: Ints
    success_micro: Ints
    failure_micro: Ints

    @property
    def pulls_micro(self) -> Ints:
        """The exact sum of the pulls of each entry, in millionths."""
        return self.pulls * MICRO + self.part_micro


@dataclass(frozen=True, kw_only=True)
class RecentDays:
    """Sums of arms by day in their present epochs, lately, in any order; an arm may have several entries a day.

    ``arm`` is the arm's index in its columns. Amounts are in millionths. ``day`` counts days since 1970 UTC; -1
    (unknown) holds all observations without a time.
    """

    arm: Ints
    day: Ints
    success_micro: Ints
    failure_micro: Ints

    def less(self, given: ArmHours) -> RecentDays:
        """Return the days without other sums of the same arms, and without those that nothing is left of."""
        if not len(given.arm):
            return self
        day, arm, (success, failure) = _left(self, self.day, given, given.hour // DAY_HOURS)
        return RecentDays(arm=arm, day=day, success_micro=success, failure_micro=failure)


@dataclass(frozen=True, kw_only=True)
class ArmSessions:
    """Sums of some arms by session in their present epochs, one entry per arm and session, in any order.

    ``arm`` is the arm's index in its columns, ``day`` that of the first of these observations, amounts are in
    millionths. A run without a session is one of its own, and so is what one client reported on one day. Only
    automatic observations count. ``stratum`` numbers the models and channels; a session of two strata is one of
    each. Sessions were read from ``since_day`` on, some of that day perhaps not; all of them where it is None.
    """

    arm: Ints
    day: Ints
    stratum: Ints
    success_micro: Ints
    failure_micro: Ints
    since_day: int | None


@dataclass(frozen=True, kw_only=True)
class SessionSums:
    """Moments of some arms over their sessions in their present epochs, aligned with the columns.

    With ``n`` observations in a session and ``good`` as their sum of rewards: ``n_sessions`` counts the sessions, the
    others are sums over them. Observations of runs whose inventory was inferred are left out of all these.
    ``n_known`` and ``n_inferred`` count automatic observations of runs by their inventory, ``n_known_sessions`` the
    sessions with the former, and ``known_known`` is the sum of their squares. Arms that were not read have 0
    everywhere.
    """

    n_sessions: Floats
    n: Floats
    good: Floats
    n_n: Floats
    n_good: Floats
    good_good: Floats
    n_known: Floats
    n_inferred: Floats
    n_known_sessions: Floats
    known_known: Floats

    @classmethod
    def of(cls, n_arms: int, places: Ints, sums: Floats) -> SessionSums:
        """Return the sums of the arms at these indexes, one row each, in the order of the fields."""
        names = cls.__dataclass_fields__
        table = np.zeros((len(names), n_arms))
        table[:, places] = sums.reshape(-1, len(names)).T
        return cls(**dict(zip(names, table, strict=True)))


@dataclass(frozen=True, kw_only=True)
class JoinedArms:
    """Arms that joined the prompt lately, next to one older arm, over the latter's observed runs since.

    A newcomer was in the prompt of ``n_with``; in these the older arm was referenced ``n_used`` times, the newcomer
    ``n_joined_used`` times. Our own draws left the newcomer out of ``n_out`` runs, which referenced the older arm
    ``n_out_used`` times. ``first_day`` is the newcomer's (days since 1970 UTC).
    """

    keys: tuple[str, ...]
    n_with: Ints
    n_used: Ints
    n_joined_used: Ints
    n_out: Ints
    n_out_used: Ints
    first_day: Ints


@dataclass(frozen=True, kw_only=True)
class ArmHours(_Columns):
    """Sums of some arms by hour (since 1970 UTC) in their present epochs, one entry per arm and hour, ascending by
    hour. ``arm`` is the arm's index in its columns. Amounts are in millionths. They are negative where a correction
    in that hour removed an earlier amount.
    """

    arm: Ints
    hour: Ints
    success_micro: Ints
    failure_micro: Ints

    def less(self, given: ArmHours) -> ArmHours:
        """Return the hours without other sums of the same arms, and without those that nothing is left of."""
        if not len(given.arm):
            return self
        hour, arm, (success, failure) = _left(self, self.hour, given, given.hour)
        return ArmHours(arm=arm, hour=hour, success_micro=success, failure_micro=failure)

    def of(self, *places: int) -> ArmHours:
        """Return the hours of some of the arms."""
        return self.where(np.isin(self.arm, places))


def _left(
    mine: RecentDays | ArmHours, at: Ints, other: ArmHours, other_at: Ints
) -> tuple[Ints, Ints, list[Ints]]:
    """Return the times and arms, ascending, of which something is left without the other sums, and what is left."""
    arm = np.append(mine.arm, other.arm)
    n_arms = int(arm.max(initial=0)) + 1
    keys, row = np.unique((np.append(at, other_at) - UNKNOWN) * n_arms + arm, return_inverse=True)
    sums = np.zeros((2, len(keys)), dtype=np.int64)
    np.add.at(sums[0], row, np.append(mine.success_micro, -other.success_micro))
    np.add.at(sums[1], row, np.append(mine.failure_micro, -other.failure_micro))
    left = np.flatnonzero(sums.any(axis=0))
    return keys[left] // n_arms + UNKNOWN, keys[left] % n_arms, [total[left] for total in sums]


@dataclass(frozen=True, kw_only=True)
class MixDays:
    """Runs by day (since 1970 UTC), model and channel, "" where unknown."""

    day: Ints
    model: tuple[str, ...]
    channel: tuple[str, ...]
    n: Ints


@dataclass(frozen=True, kw_only=True)
class FeedDays:
    """Runs by day (since 1970 UTC) of each channel and model, imports by day of each source and importer."""

    kind: tuple[Literal["channel", "model", "source", "importer"], ...]
    name: tuple[str, ...]
    day: Ints
    n: Ints


@dataclass(frozen=True, kw_only=True)
class EvaluationColumns:
    """Columns of evaluations in the order of arrival.

    ``item`` numbers what was judged from 0: a layer in an execution, an execution, a run, an arm in a run; -1 where
    it was a layer as such, of which every judgement is one of its own. ``grader`` and ``rubric`` are places in
    ``graders`` and ``rubrics``; ``score`` is in [0, 1], NaN where none was given. ``is_named`` says whether a grader,
    and ``has_rubric`` whether a version, is named by more than white space; ``is_claimed`` whether a token named the
    rater.
    """

    item: Ints
    grader: Ints
    rubric: Ints
    is_success: Bools
    score: Floats
    is_named: Bools
    has_rubric: Bools
    is_claimed: Bools
    graders: tuple[Grader, ...]
    rubrics: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.item)

    @property
    def signed_score(self) -> Floats:
        """The score that was given, below 0 for a failure; NaN where none was."""
        return np.where(self.is_success, self.score, -self.score)


@dataclass(frozen=True, kw_only=True)
class EpisodeColumns:
    """Columns of active episodes, in any order.

    ``environment``, ``split``, ``task`` and ``model`` are indexes of the names next to them, -1 unknown; a task of
    the same name in another environment, split or variant is another one. ``at_ms`` is -1 where unknown; ``total``
    and ``final`` are NaN where none was paid, and in a ``broken`` episode, which counts as finished.
    """

    environment: Ints
    split: Ints
    task: Ints
    model: Ints
    at_ms: Ints
    finished: Bools
    broken: Bools
    total: Floats
    final: Floats
    environments: tuple[str, ...]
    splits: tuple[str, ...]
    tasks: tuple[str, ...]
    models: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.environment)

    def where(self, mask: Bools) -> EpisodeColumns:
        """Return the episodes in ``mask`` (one flag per episode), under the same names."""
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return replace(
            self, **{name: value[mask] for name, value in values.items() if not isinstance(value, tuple)}
        )


@dataclass(frozen=True, kw_only=True)
class StepColumns:
    """The steps of some episodes, one episode after the other, each in the order of its numbers.

    ``episode`` is the index of a step's episode among those requested; ``reward`` NaN = none; ``tool``, ``action``
    (the same tool with the same arguments) and ``meta`` are codes, the first an index in ``tools``; -1 unknown, as in
    ``n_chars``, the length of what was sent. ``parts`` have a value for each episode, NaN where it has none, and so
    have ``members`` of the metadata at its end: codes, -1 where it has none.
    """

    episode: Ints
    number: Ints
    reward: Floats
    finished: Bools
    refused: Bools
    tool: Ints
    action: Ints
    meta: Ints
    n_chars: Ints
    tools: tuple[str, ...]
    parts: Mapping[str, Floats]
    members: Mapping[str, Ints]


def coded(values: Iterable[Hashable]) -> tuple[Ints, tuple[Any, ...]]:
    """Return a number for each value in order of first appearance, -1 for None, and the distinct values.

    >>> codes, values = coded(["a", None, "b", "a"])
    >>> codes.tolist(), values
    ([0, -1, 1, 0], ('a', 'b'))
    """
    items = list(values)
    distinct = dict.fromkeys(items)
    known = tuple(value for value in distinct if value is not None)
    if len(distinct) < 2:  # all alike
        return np.full(len(items), 0 if known else UNKNOWN), known
    places = {value: index for index, value in enumerate(known)} | {None: UNKNOWN}
    return np.fromiter(map(places.__getitem__, items), np.int64, len(items)), known


def coded_metadata(
    digests: Sequence[str | None], ended: Iterable[int], n: int
) -> tuple[Ints, dict[str, Ints]]:
    """Return codes of metadata for each step, and codes of each of its members for each of ``n`` episodes.

    ``ended`` are the indexes of the episodes that the steps ended, -1 for other steps. A code of -1 is unknown.
    Members of a single episode are left out.

    >>> whole, members = coded_metadata(["a" * 32 + " " + "b" * 32, None, "a" * 32 + " " + "b" * 32], [0, -1, 1], 2)
    >>> whole.tolist(), [codes.tolist() for codes in members.values()]
    ([0, -1, 0], [[0, 0]])
    """
    codes, known = coded(digests)
    if all(len(one) == WHOLE_DIGITS for one in known):
        return codes, {}
    by_name: dict[str, dict[int, str]] = {}
    for digest, episode in zip(digests, ended, strict=True):
        if digest is not None and episode != UNKNOWN:
            for member in digest.split()[1:]:
                by_name.setdefault(member[:8], {})[episode] = member
    members = {
        name: coded(values.get(episode) for episode in range(n))[0]
        for name, values in by_name.items()
        if len(values) > 1
    }
    whole = coded(one[:WHOLE_DIGITS] for one in known)[0]
    return np.where(codes == UNKNOWN, UNKNOWN, whole[codes]), members


def token_bucket(tokens: int | None) -> int:
    """Return the size class of a token count: eight equal steps to each power of two, in exact integers.

    >>> token_bucket(None), token_bucket(1), token_bucket(1024), token_bucket(1152)
    (-1, 0, 80, 81)
    """
    if tokens is None or tokens <= 0:
        return UNKNOWN
    power = tokens.bit_length() - 1
    fraction = (tokens << 3 >> power) & 7
    return power * 8 + fraction


def log_micro(tokens: int) -> int:
    """Return the natural logarithm of a token count in millionths, the same on every machine.

    >>> log_micro(1), log_micro(1000)
    (0, 6907755)
    """
    micro = math.log(tokens) * 1e6
    if abs(micro % 1 - 0.5) > _UNSURE:
        return round(micro)
    return int((_EXACT.ln(Decimal(tokens)) * 1_000_000).to_integral_value())


def bucket_bounds(bucket: int) -> tuple[float, float]:
    """Return the lower (inclusive) and upper (exclusive) token count of a size class.

    >>> bucket_bounds(80)
    (1024.0, 1152.0)
    """
    power, fraction = divmod(bucket, 8)
    step = 2.0**power / 8
    return 2.0**power + fraction * step, 2.0**power + (fraction + 1) * step


def ints(values: Sequence[int]) -> Ints:
    """Return whole numbers as an array; a known length halves the cost of a short one."""
    return np.fromiter(values, np.int64, len(values))
