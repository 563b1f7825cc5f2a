"""Episodes: what environments paid on average and how often it was a success; and one episode, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from core.episodes import Sums, discounted, running, totals_of
from core.errors import NotFound
from core.flows.context import Context
from core.records.episode import Base, Part, Scale, StepKind, StepNote
from core.records.limits import shown
from core.records.times import iso
from core.statistics.savings.shares import wilson
from core.store.environments import environments
from core.store.episodes import find_episode

_PROB: Final = 0.95


@dataclass(frozen=True, kw_only=True)
class SuccessRate:
    """Share of episodes above the threshold, with Wilson's interval; of those with a reward to go by, ``of_paid``."""

    rate: float
    lower: float
    upper: float
    prob: float
    of_paid: float
    threshold: float
    base: Base


@dataclass(frozen=True, kw_only=True)
class EnvironmentSeen:
    """An environment: ``average`` is of those of its ``n`` episodes that have a reward to go by, None where none has;
    then there is no rate of success either.
    """

    environment: str
    n: int
    n_finished: int
    without_reward: int
    average: float | None
    success: SuccessRate | None
    scale: Scale
    declared: bool


@dataclass(frozen=True, kw_only=True)
class StepSeen:
    """A step, what had been paid up to it (None: nothing yet), and whether its reward is off the declared scale."""

    number: int
    kind: StepKind
    name: str
    reward: float | None
    running: float | None
    finished: bool
    refused: bool
    note: StepNote | None
    out_of_scale: bool
    at: str | None
    n_chars_in: int | None
    n_chars_out: int | None
    extra: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EpisodeSeen:
    """An episode: ``normalised`` is where what success goes by lies on the scale, None outside it, or without one."""

    uid: str
    environment: str
    split: str | None
    task: str | None
    variant: str | None
    model: str | None
    at: str | None
    status: Literal["finished", "unfinished", "incomplete"]
    n_steps: int
    n_paid: int
    total: float | None
    final: float | None
    discounted: float | None
    normalised: float | None
    success: bool
    scale: Scale
    steps: tuple[StepSeen, ...]
    parts: tuple[Part, ...]
    runs: tuple[str, ...]


def episodes(
    context: Context, *, environment: str | None = None, model: str | None = None
) -> tuple[EnvironmentSeen, ...]:
    """Environments by name, each with what its episodes came to, by the scale in force."""
    with context.reading() as snapshot:
        return tuple(
            _seen(one.name, one.sums, one.scale, declared=one.declared)
            for one in environments(snapshot, model=model)
            if environment in {None, one.name}
        )


def _seen(name: str, sums: Sums, scale: Scale, *, declared: bool) -> EnvironmentSeen:
    success = None
    if sums.n_paid:
        lower, upper = wilson(sums.successes, sums.n, _PROB)
        success = SuccessRate(
            rate=sums.successes / sums.n,
            lower=lower,
            upper=upper,
            prob=_PROB,
            of_paid=sums.successes / sums.n_paid,
            threshold=scale.threshold,
            base=scale.base,
        )
    return EnvironmentSeen(
        environment=name,
        n=sums.n,
        n_finished=sums.n_finished,
        without_reward=sums.n - sums.n_paid,
        average=float(sums.reward_sum / sums.n_paid) if sums.n_paid else None,
        success=success,
        scale=scale,
        declared=declared,
    )


def episode(context: Context, uid: str) -> EpisodeSeen:
    """One episode that stands; raises `NotFound`."""
    with context.reading() as snapshot:
        found = find_episode(snapshot, uid)
        if found is None:
            raise NotFound(
                f"There is no episode {shown(uid)} in learner {snapshot.name!r}.",
                next_step="Use the uid that its recording names; armscope export writes them all.",
            )
        line, scale = found
    sums = totals_of(line.steps)
    rewards = [None if step.refused else step.reward for step in line.steps]
    counted = [step.reward for step in line.steps if not step.refused]
    reached = sums.base(scale)
    return EpisodeSeen(
        uid=line.uid,
        environment=line.environment,
        split=line.split,
        task=line.task,
        variant=line.variant,
        model=line.model,
        at=iso(line.at_ms),
        status=line.status,
        n_steps=sums.n_steps,
        n_paid=sums.n_paid,
        total=None if sums.total is None else float(sums.total),
        final=None if sums.final is None else float(sums.final),
        discounted=discounted(counted, scale.gamma),
        normalised=None if reached is None else scale.normalised(float(reached)),
        success=sums.succeeded(scale),
        scale=scale,
        steps=tuple(
            StepSeen(
                number=step.number,
                kind=step.kind,
                name=step.name,
                reward=step.reward,
                running=None if so_far is None else float(so_far),
                finished=step.finished,
                refused=step.refused,
                note=step.note,
                out_of_scale=step.reward is not None and not scale.allows(step.reward),
                at=iso(step.at_ms),
                n_chars_in=step.n_chars_in,
                n_chars_out=step.n_chars_out,
                extra=step.extra,
            )
            for step, so_far in zip(line.steps, running(rewards), strict=True)
        ),
        parts=line.parts,
        runs=line.runs,
    )
