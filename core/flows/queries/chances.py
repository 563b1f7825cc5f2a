"""Chances of inclusion: the probability that an arm is in the next prompt of a run that offers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from core.columns import UNKNOWN, ArmColumns, CandidateRuns, CandidateSets
from core.flows.context import Context
from core.maths.statistics.inclusion import Chance, Chances, inclusion_chances
from core.records.judgement import LimitInForce
from core.records.learner import LearnerSettings
from core.store import reads
from core.store.transaction import Snapshot

_SEED = 0
"""Fixed seed. An arm has one chance for all readers, and before and after differ by the change only."""


@dataclass(frozen=True, kw_only=True)
class Inclusion:
    """Chance of each arm by id. ``of`` names the kind of the ``n_runs`` runs that supply the candidates, at most 25
    of each of ``n_programs`` programs. ``limits`` are those of each program's runs. ``assigned`` are the number
    of runs that are left out, as an experiment assigned their sessions, and their share of all runs.
    """

    arms: Mapping[str, Chance]
    n_runs: int
    of: CandidateRuns
    n_simulations: int = 0
    n_programs: int = 1
    limits: tuple[tuple[LimitInForce, ...], ...] = ()
    assigned: tuple[int, float] = (0, 0.0)

    @cached_property
    def chances(self) -> Mapping[str, float]:
        """The chances alone. An arm that none of the runs offered is missing."""
        return {key: one.chance for key, one in self.arms.items() if one.chance is not None}


def inclusion(context: Context) -> Inclusion:
    """Return every arm's chance of inclusion and the runs that supply the candidates."""
    with context.reading() as snapshot:
        return inclusion_in(snapshot, reads.arm_columns(snapshot))


def inclusion_in(snapshot: Snapshot, columns: ArmColumns) -> Inclusion:
    """Return the chances of a snapshot. ``columns`` hold all its arms as of now."""
    candidates = reads.candidates(snapshot, columns)
    chances = simulated(columns, snapshot.settings, candidates)
    limits = [_limits_in_force(candidates, snapshot.settings, n) for n in range(candidates.n_programs)]
    program = candidates.program_of(len(columns))
    arms = {
        key: replace(one, limits=limits[number])
        for key, one, number in zip(columns.keys, chances.of_arms(), program.tolist(), strict=True)
    }
    for key in (key for key, cost in zip(columns.keys, columns.token_cost, strict=True) if cost == UNKNOWN):
        if any(limit.budget_tokens for limit in arms[key].limits):
            arms[key] = _without_cost(arms[key])
    return Inclusion(
        arms=arms,
        n_runs=0 if candidates.of == "none" else candidates.n_all_runs,
        of=candidates.of,
        n_simulations=chances.n_simulations,
        n_programs=candidates.n_programs,
        limits=tuple(limits),
        assigned=reads.assigned_runs(snapshot),
    )


def _limits_in_force(
    candidates: CandidateSets, settings: LearnerSettings, program: int
) -> tuple[LimitInForce, ...]:
    """Return the limits of the latest runs of a program, the most frequent first."""
    counted: Counter[tuple[int, int]] = Counter()
    for own, number, n_runs in zip(candidates.limits, candidates.program, candidates.n_runs, strict=True):
        if number == program:
            limited = own.over(settings)
            counted[limited.budget_tokens, limited.k] += n_runs
    return tuple(
        LimitInForce(budget_tokens=budget, k=k, share=n / counted.total())
        for (budget, k), n in counted.most_common()
    )


def _without_cost(chance: Chance) -> Chance:
    """Return the chance without the break-even of an arm whose cost is unknown: it is packed as if it had none."""
    if chance.no_break_even in {"not_offered", "excluded"}:
        return chance
    return replace(chance, break_even_mean=None, no_break_even="unknown_cost")


def simulated(columns: ArmColumns, settings: LearnerSettings, candidates: CandidateSets) -> Chances:
    """Return the chance of each arm with its standard error, aligned. An arm without candidates has NaN."""
    return inclusion_chances(columns, settings, seed=_SEED, candidates=candidates)
