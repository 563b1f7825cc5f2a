"""Sides: two sets of runs side by side: beliefs by source, selection, bill and failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from core.flows.context import Context
from core.maths.posterior.beta import interval
from core.maths.statistics.savings.shares import difference, share
from core.records.alike import alike
from core.records.arm import MICRO
from core.records.estimate import Estimate
from core.records.model_kinds import price_offers
from core.records.observation import SOURCE_OF, SOURCES, Source
from core.records.run_query import ALL_RUNS, RunSide, side_of
from core.records.sides import ComparedArm, ComparedSides, SideArm, SideRuns, SourceShift
from core.store import reads
from core.store.reads.compared import (
    ArmSums,
    NamedArm,
    RunSums,
    SideFilter,
    arm_sums,
    automatic,
    ledger_parts,
    named_arms,
    run_sums,
)
from core.store.reads.ledger import KindSum
from core.store.reads.runs import find_run, missing_run
from core.store.transaction import Snapshot

_FEWEST: Final = 10
"""With fewer sessions on a side, or runs without one, the difference has no interval."""
_PROB: Final = 0.05
"""Chance that any arm is taken for different where none is."""


class _SideSums(NamedTuple):
    """Sums of one side as they were read."""

    runs: RunSums
    arms: dict[int, ArmSums]
    ledger: dict[int, list[KindSum]]


def compare_sides(
    context: Context,
    a: Annotated[RunSide, Meta(description="One side: filters as of runs, or a run.")] = ALL_RUNS,
    b: Annotated[RunSide, Meta(description="The other side, likewise.")] = ALL_RUNS,
    *,
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of arms.")] = 50,
) -> ComparedSides:
    """Compare two sets of runs: each arm's shift by source, selection, bill and failures.

    Shifts are of present epochs. Rewards about no run belong to a side that is a span of time.
    """
    with context.reading() as snapshot:
        left = _read(snapshot, _chosen(snapshot, a))
        right = left if a == b else _read(snapshot, _chosen(snapshot, b))
        numbers = {number for one in (left, right) for number in (*one.arms, *one.ledger)}
        named = named_arms(snapshot, sorted(numbers))
    n_a, n_b = max(left.runs.n_runs, 1), max(right.runs.n_runs, 1)

    evidence = {arm.arm_no: _evidence(arm, left, right) for arm in named}

    def order(arm: NamedArm) -> tuple[bool, float, float, str]:
        a, b = _counts(arm, left), _counts(arm, right)
        known = evidence[arm.arm_no]
        return known is None, -abs(known or 0.0), -abs(b.n_in / n_b - a.n_in / n_a), arm.key

    first = sorted(named, key=order)[:limit]
    compared = [abs(one) for one in evidence.values() if one is not None]
    beyond = NormalDist().inv_cdf(1 - _PROB / 2 / max(len(compared), 1))
    unpriced = reads.unpriced_models(snapshot)
    return ComparedSides(
        a=_side(left.runs),
        b=_side(right.runs),
        failures=_failures(left.runs, right.runs),
        arms=tuple(
            ComparedArm(arm=one.key, a=on_a, b=on_b, evidence=evidence[one.arm_no])
            for one, on_a, on_b in zip(first, _arms(first, left), _arms(first, right), strict=True)
        ),
        n_arms=len(named),
        n_compared=len(compared),
        n_different=sum(one > beyond for one in compared),
        unpriced_models=unpriced,
        price_offers=price_offers(unpriced, snapshot.settings.prices),
        currency=snapshot.settings.currency,
    )


def _chosen(snapshot: Snapshot, side: RunSide) -> SideFilter:
    scope = side_of(side, lambda: reads.last_run_ms(snapshot))
    if side.run is None:
        return SideFilter(scope.filters, scope.view, scope.session)
    run = find_run(snapshot, side.run)
    if run is None:
        raise missing_run(snapshot, side.run)
    return SideFilter(scope.filters, scope.view, scope.session, run.run_no)


def _read(snapshot: Snapshot, chosen: SideFilter) -> _SideSums:
    runs, arms, rows = snapshot.together(
        lambda: run_sums(snapshot, chosen),
        lambda: arm_sums(snapshot, chosen),
        lambda: ledger_parts(snapshot, chosen),
    )
    ledger: dict[int, list[KindSum]] = defaultdict(list)
    for one in rows:
        ledger[one.arm_no].append(one)
    return _SideSums(runs, {one.arm_no: one for one in arms}, ledger)


def _counts(arm: NamedArm, side: _SideSums) -> ArmSums:
    return side.arms.get(arm.arm_no) or ArmSums(arm.arm_no, 0, 0, 0, 0)


def _added(counts: ArmSums, side: _SideSums) -> tuple[int, int]:
    """Return what all sources add to alpha and beta, in millionths."""
    ledger = side.ledger.get(counts.arm_no, ())
    success, failure = automatic(counts, ledger)
    return (
        success + sum(one.success_micro for one in ledger),
        failure + sum(one.failure_micro for one in ledger),
    )


def _evidence(arm: NamedArm, a: _SideSums, b: _SideSums) -> float | None:
    """Return the difference of both means over its standard error; None: a side has no observation."""
    added = [_added(_counts(arm, side), side) for side in (a, b)]
    if not all(map(any, added)):
        return None
    beliefs = [_belief(arm, one) for one in added]
    means = [alpha / (alpha + beta) for alpha, beta in beliefs]
    variances = [mean * (1 - mean) / (sum(one) + 1) for mean, one in zip(means, beliefs, strict=True)]
    return (means[1] - means[0]) / sqrt(sum(variances))


def _belief(arm: NamedArm, added: tuple[int, int]) -> tuple[float, float]:
    return (arm.alpha_micro + added[0]) / MICRO, (arm.beta_micro + added[1]) / MICRO


def _arms(arms: Sequence[NamedArm], side: _SideSums) -> list[SideArm]:
    beliefs = [_belief(arm, _added(_counts(arm, side), side)) for arm in arms]
    limits = interval([alpha for alpha, _ in beliefs], [beta for _, beta in beliefs])
    return [
        _arm(arm, side, alpha / (alpha + beta), (float(lower), float(upper)))
        for arm, (alpha, beta), lower, upper in zip(arms, beliefs, *limits, strict=True)
    ]


def _arm(arm: NamedArm, side: _SideSums, mean: float, limits: tuple[float, float]) -> SideArm:
    counts = _counts(arm, side)
    added = _added(counts, side)
    ledger = side.ledger.get(arm.arm_no, ())
    sums: dict[Source, tuple[int, int]] = {"detector": automatic(counts, ledger)}
    for one in ledger:
        success, failure = sums.get(SOURCE_OF[one.kind], (0, 0))
        sums[SOURCE_OF[one.kind]] = success + one.success_micro, failure + one.failure_micro
    return SideArm(
        n_in=counts.n_in,
        n_used=counts.n_used,
        n_observed=counts.n_observed,
        alpha_micro=added[0],
        beta_micro=added[1],
        mean=mean,
        lower=limits[0],
        upper=limits[1],
        selected=share(counts.n_in, side.runs.n_runs),
        shifts=tuple(SourceShift(source, *sums[source]) for source in SOURCES if any(sums.get(source, ()))),
    )


def _side(runs: RunSums) -> SideRuns:
    return alike(SideRuns, runs, failed=share(runs.n_failed, runs.n_runs))


def _failures(a: RunSums, b: RunSums) -> Estimate:
    """Return the difference of failed shares in points with Newcombe's interval, by effective runs of sessions."""
    if not a.n_runs or not b.n_runs:
        return Estimate(value=None, lower=None, upper=None, missing="few_runs")
    worths = [one.n_runs / _alike(one) for one in (b, a)]
    hits = [one.n_failed / one.n_runs * worth for one, worth in zip((b, a), worths, strict=True)]
    result = difference(hits[0], worths[0], hits[1], worths[1], prob=0.95)
    has_few = min(a.n_sessions, b.n_sessions) < _FEWEST
    limits = (None, None) if has_few else (result.lower, result.upper)
    value, lower, upper = (None if one is None else 100 * one for one in (result.value, *limits))
    is_known = min(a.n_runs, b.n_runs) >= _FEWEST
    missing = "few_sessions" if has_few and is_known else result.missing
    return Estimate(value=value, lower=lower, upper=upper, missing=missing)


def _alike(runs: RunSums) -> float:
    """Return by how much more the share varies than if each run were a session by itself; at least 1."""
    p, n, m = runs.n_failed / runs.n_runs, runs.n_runs, runs.n_sessions
    if p in {0.0, 1.0} or m < 2:
        return 1.0
    spread = runs.failed_squared - 2 * p * runs.runs_by_failed + p * p * runs.runs_squared
    return max(1.0, spread * m / (m - 1) / (n * p * (1 - p)))
