"""Rollup: the contribution of facts to the sums, additive and exact, and its addition to the caches.

A rollup is a sum, so it has a difference. A change of the caches is the sum of the facts after it less the sum
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import add
from typing import Final, NamedTuple, TypeVar

import numpy as np

from core.columns import UNKNOWN, Floats, Ints, log_micro, token_bucket
from core.records.arm import MICRO
from core.records.evidence import INCLUDED, NAMED, OBSERVED, REFERENCED
from core.records.observation import Kind, part_micro
from core.records.times import DAY_HOURS, HOUR_MS
from core.store.engine.dialect import GREATEST
from core.store.transaction import Facts, Transaction

_PART_BITS: Final = 32
_PART: Final = 1 << _PART_BITS
_PART_MASK: Final = _PART - 1
_HALF: Final = MICRO // 2

SumKey = TypeVar("SumKey")

ArmHour = tuple[int, int, int]
"""hour, arm number, epoch"""

ArmDay = tuple[int, int, int]
"""arm number, epoch, day"""

UsageHour = tuple[int, str, str, str, str, str, int, int]
"""hour (or day), class, model, channel, status, outcome, baseline probability in millionths, bucket"""

USAGE_SUMS: Final = (
    "n",
    "n_truncated",
    "tokens",
    "tokens_squared_high",
    "tokens_squared_low",
    "log_micro",
    "log_squared_micro",
    "n_timed",
    "duration_ms",
    "duration_squared_high",
    "duration_squared_low",
)
"""Sums of a usage row, in the order of its columns."""

ARM_SUMS: Final = (
    "inclusions",
    "pulls",
    "part_micro",
    "success_micro",
    "failure_micro",
    "n_named",
    "n_loaded",
)
"""Sums of an arm, in the order of `Rollup.arms`."""
SUM_OF_ARM: Final = ", ".join(f"sum({name})" for name in ARM_SUMS)
NO_SUMS: Final = (0,) * len(ARM_SUMS)
HOUR_KEY: Final = ("hour", "arm_no", "epoch")
DAY_KEY: Final = ("arm_no", "epoch", "day")
_MOVED: Final = {
    **{name: f"{name} + ?" for name in (*ARM_SUMS, "seen")},
    "last_at_ms": f"{GREATEST}(last_at_ms, ?)",
    "changed": "?",
}
USAGE_KIND: Final = ("class", "model", "channel", "status", "outcome", "prob_micro", "bucket")

_REWARDED: Final = OBSERVED | REFERENCED
_LOADED: Final = NAMED | REFERENCED
_COUNTS: Final = tuple(
    (
        int(flag & INCLUDED > 0),
        int(flag & OBSERVED > 0),
        int(flag & _REWARDED == _REWARDED),
        int(flag & NAMED > 0),
        int(flag & _LOADED == _LOADED),
    )
    for flag in range(256)
)


class RunFacts(NamedTuple):
    """The facts of one run for the usage rollup."""

    at_ms: int | None
    run_class: str
    model: str | None
    channel: str | None
    status: str
    outcome: str
    tokens: int | None
    duration_ms: int | None
    prob_micro: int
    truncated: bool


class Rollup:
    """Sums by arm, epoch and hour, and by hour and kind of run.

    ``arms`` values are [inclusions, pulls, part of a pull, success, failure, runs by name, of these those that loaded
    it]; ``usage`` values follow the columns of
    ``usage_hour``; ``last`` holds the time of the newest counted observation of an arm in an epoch.
    """

    def __init__(self) -> None:
        self.arms: dict[ArmHour, list[int]] = {}
        self.usage: dict[UsageHour, list[int]] = {}
        self.last: dict[tuple[int, int], int] = {}

    def add(self, key: ArmHour, *amounts: int) -> None:
        """Add the amounts of `Rollup.arms` at one place."""
        sums = self.arms.get(key)
        if sums is None:
            self.arms[key] = list(amounts)
            return
        inclusions, pulls, part, success, failure, named, loaded = amounts
        sums[0] += inclusions
        sums[1] += pulls
        sums[2] += part
        sums[3] += success
        sums[4] += failure
        sums[5] += named
        sums[6] += loaded

    def saw(self, arm_no: int, epoch: int, at_ms: int | None) -> None:
        """Note that an observation of this time counts."""
        if at_ms is not None and at_ms > self.last.get((arm_no, epoch), UNKNOWN):
            self.last[arm_no, epoch] = at_ms

    def add_observation(
        self, key: ArmHour, kind: Kind, pulls: int, amounts: tuple[int, int], at_ms: int
    ) -> None:
        """Add one row of the ledger; its amounts are success and failure."""
        part = part_micro(kind, pulls, sum(amounts))
        self.add(key, 0, pulls, part, *amounts, 0, 0)
        if pulls or part:  # a carried belief may be all seed and no pull
            self.saw(key[1], key[2], at_ms)

    def correct(
        self, key: ArmHour, amounts: tuple[int, int], instead_of: tuple[int, int], pulls: int = 0
    ) -> None:
        """Let success and failure count in the place of others; by itself that is no pull."""
        self.add(key, 0, pulls, 0, amounts[0] - instead_of[0], amounts[1] - instead_of[1], 0, 0)
        if not any(self.arms[key]):
            del self.arms[key]

    def add_outcomes(
        self,
        arm_nos: Sequence[int],
        epochs: Sequence[int],
        hour: int,
        flags: Sequence[bytes],
        last_at_ms: int | None,
    ) -> None:
        """Add runs of one hour with the same arms, a row of flags each; ``last_at_ms`` ends the last observed one."""
        for arm_no, epoch, counts in zip(arm_nos, epochs, _counted(flags), strict=True):
            n_in, n_observed, n_used, n_named, n_loaded = counts
            key = (hour, arm_no, epoch)
            amounts = (n_in, n_observed, 0, n_used * MICRO, (n_observed - n_used) * MICRO, n_named, n_loaded)
            if key in self.arms:
                self.add(key, *amounts)
            elif n_in or n_named:
                self.arms[key] = list(amounts)
            if n_observed:
                self.saw(arm_no, epoch, last_at_ms)

    def add_run(self, run: RunFacts) -> None:
        """Add one run to the usage rollup (a prompt that nothing answered too, under its own outcome)."""
        # One pass with few calls: there may be hundreds of thousands of runs.
        at_ms, run_class, model, channel, status, outcome, tokens, duration_ms, prob, truncated = run
        hour = UNKNOWN if at_ms is None else at_ms // HOUR_MS
        key = (
            hour,
            run_class,
            model or "",
            channel or "",
            status,
            outcome,
            prob,
            token_bucket(tokens),
        )
        sums = self.usage.get(key)
        if sums is None:
            sums = self.usage[key] = [0] * len(USAGE_SUMS)
        sums[0] += 1
        sums[1] += truncated
        if tokens is not None:
            square, log = tokens * tokens, log_micro(tokens)
            sums[2] += tokens
            sums[3] += square >> _PART_BITS
            sums[4] += square & _PART_MASK
            sums[5] += log
            sums[6] += (log * log + _HALF) // MICRO
        if duration_ms is not None:
            square = duration_ms * duration_ms
            sums[7] += 1
            sums[8] += duration_ms
            sums[9] += square >> _PART_BITS
            sums[10] += square & _PART_MASK

    def arm_days(self) -> dict[ArmDay, list[int]]:
        """``arms`` by day instead of hour; days whose hours cancel out vanish."""
        if len({hour for hour, _, _ in self.arms}) < 2:  # a run: no two of its sums are of one day
            return {
                (arm_no, epoch, hour // DAY_HOURS): sums
                for (hour, arm_no, epoch), sums in self.arms.items()
                if any(sums)
            }
        return _added_up(
            ((arm_no, epoch, hour // DAY_HOURS), sums) for (hour, arm_no, epoch), sums in self.arms.items()
        )

    def usage_days(self) -> dict[UsageHour, list[int]]:
        """``usage`` by day instead of hour; days whose hours cancel out vanish."""
        return _added_up(((at[0] // DAY_HOURS, *at[1:]), sums) for at, sums in self.usage.items())

    def minus(self, other: Rollup) -> Rollup:
        """Return the difference of two rollups; entries without a difference vanish."""
        rest = Rollup()
        rest.arms = _difference(self.arms, other.arms)
        rest.usage = _difference(self.usage, other.usage)
        return rest


def _counted(flags: Sequence[bytes]) -> Iterable[tuple[int, int, int, int, int]]:
    """Return how often each key was included, observed, observed and referenced, by name, and loaded by name."""
    if len(flags) == 1:  # arrays pay from about five runs on
        return [_COUNTS[flag] for flag in flags[0]]
    table = np.frombuffer(b"".join(flags), dtype=np.uint8).reshape(len(flags), -1)
    included = np.count_nonzero(table & INCLUDED, axis=0).tolist()
    observed = np.count_nonzero(table & OBSERVED, axis=0).tolist()
    rewarded = np.count_nonzero((table & _REWARDED) == _REWARDED, axis=0).tolist()
    named = np.count_nonzero(table & NAMED, axis=0).tolist()
    loaded = np.count_nonzero((table & _LOADED) == _LOADED, axis=0).tolist()
    return zip(included, observed, rewarded, named, loaded, strict=True)


def hour_of(at_ms: int | None) -> int:
    """The hour a time falls in, counted since 1970 UTC; -1 = unknown."""
    return UNKNOWN if at_ms is None else at_ms // HOUR_MS


def prob_micro(prob: float) -> int:
    """A probability in millionths, to the nearest."""
    return round(prob * MICRO)


def joined(high: Ints, low: Ints) -> Floats:
    """Sums of squares from their two parts, rounded once: each part is below 2**53.

    >>> joined(np.array([1]), np.array([5]))
    array([4.2949673e+09])
    """
    return high.astype(np.float64) * _PART + low


def _added_up(parts: Iterable[tuple[SumKey, list[int]]]) -> dict[SumKey, list[int]]:
    """Return the sums by key, without those that cancel out."""
    sums: dict[SumKey, list[int]] = {}
    for key, amounts in parts:
        known = sums.get(key)
        sums[key] = list(amounts) if known is None else list(map(add, known, amounts))
    return {key: amounts for key, amounts in sums.items() if any(amounts)}


def _difference(left: dict[SumKey, list[int]], right: dict[SumKey, list[int]]) -> dict[SumKey, list[int]]:
    taken = ((key, [-amount for amount in amounts]) for key, amounts in right.items())
    return _added_up(chain(left.items(), taken))


def merged(rollups: Iterable[Rollup]) -> Rollup:
    """The sum of several rollups."""
    whole = Rollup()
    for rollup in rollups:
        for key, amounts in rollup.arms.items():
            whole.add(key, *amounts)
        for usage_key, amounts in rollup.usage.items():
            sums = whole.usage.setdefault(usage_key, [0] * len(USAGE_SUMS))
            for index, amount in enumerate(amounts):
                sums[index] += amount
        for (arm_no, epoch), at_ms in rollup.last.items():
            whole.saw(arm_no, epoch, at_ms)
    return whole


# Writing


def apply(txn: Transaction, rollup: Rollup) -> None:
    """Add a rollup to the caches, in key order; the newest times only grow here.

    In a part of an import the rollup is added to the staged sums.
    """
    if txn.segment is not None:
        stage(txn, rollup)
        for key, at_ms in rollup.last.items():
            txn.newest[key] = max(at_ms, txn.newest.get(key, UNKNOWN))
        return
    _apply_rollups(txn, "arm", rollup)
    apply_posteriors(txn, rollup)
    if rollup.usage:
        _apply_usage(txn, "usage_hour", "hour", rollup.usage)
        _apply_usage(txn, "usage_day", "day", rollup.usage_days())


def stage(facts: Facts, rollup: Rollup) -> None:
    """Add a rollup, whose epochs are segments of an import, to what is staged."""
    _apply_rollups(facts, "staged", rollup)
    _apply_usage(facts, "staged_usage", "hour", rollup.usage)


def _apply_rollups(facts: Facts, of: str, rollup: Rollup) -> None:
    _apply_arms(facts, f"{of}_hour", HOUR_KEY, rollup.arms)
    _apply_arms(facts, f"{of}_day", DAY_KEY, rollup.arm_days())


def _apply_arms(
    facts: Facts, table: str, key: tuple[str, ...], sums: Mapping[tuple[int, int, int], list[int]]
) -> None:
    """Add to one of the rollups of arms; a row that nothing is left of goes."""
    flat = chain.from_iterable([(*sum_key, *sums[sum_key]) for sum_key in sorted(sums)])
    upsert = adding(table, key, ARM_SUMS)
    facts.connection.insert(table, (*key, *ARM_SUMS), facts.learner_id, flat, upsert=upsert)
    emptied = [(facts.learner_id, *sum_key) for sum_key, amounts in sums.items() if min(amounts) < 0]
    if emptied:
        facts.connection.many(_dropping(table, key, ARM_SUMS), emptied)


@lru_cache
def adding(table: str, key: tuple[str, ...], sums: tuple[str, ...]) -> str:
    """Return the ON CONFLICT clause for a row of a rollup."""
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in sums)
    return f"ON CONFLICT (learner_id, {', '.join(key)}) DO UPDATE SET {added}"


@lru_cache
def _dropping(table: str, key: tuple[str, ...], sums: tuple[str, ...]) -> str:
    """Delete a row of a rollup that nothing is left of."""
    condition = " AND ".join(f"{name} = ?" for name in key)
    nothing = " AND ".join(f"{name} = 0" for name in sums)
    return f"DELETE FROM {table} WHERE learner_id = ? AND {condition} AND {nothing}"


def apply_posteriors(txn: Transaction, rollup: Rollup) -> None:
    """Move present epochs; ``seen`` counts all epochs. UPDATE, because an upsert's CHECK reads the difference."""
    arm_nos = sorted({arm_no for _, arm_no, _ in rollup.arms})
    epochs = dict(zip(arm_nos, txn.current_epochs(arm_nos), strict=True))
    moved: dict[int, tuple[int, ...]] = {}
    for (_, arm_no, epoch), sums in rollup.arms.items():
        more = seen_increase(sums)
        amounts = (*sums, more) if epoch == epochs[arm_no] else (*NO_SUMS, more)
        before = moved.get(arm_no)
        moved[arm_no] = amounts if before is None else tuple(map(add, before, amounts))
    rows = []
    for arm_no in arm_nos:
        last = rollup.last.get((arm_no, epochs[arm_no]), UNKNOWN)
        rows.append((*moved[arm_no], last, txn.revision, txn.learner_id, arm_no))
    txn.connection.amend("posterior", _MOVED, ("arm_no",), rows)


def seen_increase(sums: Sequence[int]) -> int:
    """Return the increase of an arm's ``seen`` by its sums: only 0 has a meaning, and none of them falls below."""
    inclusions, pulls, part, _, _, named, _ = sums
    return inclusions + pulls + part + named


def _apply_usage(facts: Facts, table: str, unit: str, usage: Mapping[UsageHour, list[int]]) -> None:
    if not usage:
        return
    flat = chain.from_iterable([(*kind, *usage[kind]) for kind in sorted(usage)])
    key = (unit, *USAGE_KIND)
    upsert = adding(table, key, USAGE_SUMS)
    facts.connection.insert(table, (*key, *USAGE_SUMS), facts.learner_id, flat, upsert=upsert)
    emptied = [(facts.learner_id, *kind) for kind, sums in usage.items() if sums[0] < 0]
    if emptied:
        facts.connection.many(_dropping(table, key, USAGE_SUMS[:1]), emptied)
