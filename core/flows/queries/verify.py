"""Verify: compare every cache with the replay of its facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from core.errors import StoreDamaged, StoreUnusable
from core.flows.context import Context
from core.flows.progress import ProgressCallback, Steps
from core.records.actor import may
from core.records.learner import INSTALLATION
from core.records.verification import Difference, Verification
from core.settings import DEFAULT_LEARNER, Located
from core.store import reads
from core.store.check import PASSES, Head, contradictions, differences, installation_differences, without_head
from core.store.damage import damage, guarded, words_of
from core.store.draws import Draws, unlike_draws
from core.store.engine.file_faults import damaged
from core.store.mending import unprovable_until
from core.upkeep import note_damage, note_upkeep


def problem_of(verification: Verification, database: Located) -> StoreDamaged:
    """Return the differences as one error."""
    return damaged(database, differences_in(verification))


def differences_in(verification: Verification) -> str:
    """Return the differences in words; there is at least one."""
    first = words_of(verification.differences[0][1])
    return f"{verification.n_differences:,} differences, the first: {first}"


def damage_in(context: Context) -> str | None:
    """Verify, and return the damage in words; None where there is none."""
    try:
        verification = verify(context, limit=1)
    except StoreUnusable as problem:
        note_damage(context.store.location, 1, context.clock())
        return problem.problem
    return None if verification.clean else differences_in(verification)


def verify(
    context: Context,
    *,
    head: Annotated[
        str | None, Meta(description="A head that was noted before; a chain must still have it.")
    ] = None,
    limit: Annotated[int, Meta(description="Maximum number of differences to list.")] = 100,
    progress: ProgressCallback | None = None,
) -> Verification:
    """Recompute every cache from the recorded facts, and compare.

    It covers every learner that the actor may read. ``progress`` counts runs. Raises `InvalidInput` for a ``head`` of
    another form than that of `status`.
    """
    requested = None if head is None else Head.parse(head)
    listed: list[tuple[str, Difference]] = []
    n_differences, draws = 0, Draws()
    # The default learner means the whole database, which may have others only.
    is_whole = context.may_be_empty or context.learner == DEFAULT_LEARNER
    with replace(context, may_be_empty=is_whole).reading() as snapshot:
        names = tuple(name for name in reads.learners(snapshot) if may(context.actor, "read", name))
        learners = [snapshot.of(name) for name in names]
        steps = Steps(PASSES * sum(reads.last_run_no(learner) for learner in learners), progress)
        checks = [("", damage(snapshot)), ("", installation_differences(snapshot.of(INSTALLATION)))]
        checks += [(learner.name, differences(learner, steps.take)) for learner in learners]
        checks += [(learner.name, contradictions(learner, steps.take)) for learner in learners]
        checks += [(learner.name, guarded("decision", unlike_draws(learner, draws))) for learner in learners]
        if requested is not None:
            checks.append(("", without_head(learners, requested)))
        for name, check in checks:
            for difference in check:
                n_differences += 1
                if len(listed) < limit:
                    listed.append((name, Difference(*map(str, difference))))
        servers = reads.servers(snapshot)
        until = {one.name: unprovable_until(one) for one in (snapshot.of(INSTALLATION), *learners)}
    if n_differences and requested is None:
        note_damage(context.store.location, n_differences, context.clock())
    elif not n_differences and may(context.actor, "read", None):
        note_upkeep(context.store.location, "verify", context.clock())
    return Verification(
        clean=not n_differences,
        learners=names,
        n_differences=n_differences,
        differences=tuple(listed),
        servers=servers,
        replayed=draws.replayed,
        not_replayed=draws.not_replayed,
        heads={learner.name: learner.head for learner in learners if learner.head is not None},
        unprovable={name: number for name, number in until.items() if number is not None},
    )
