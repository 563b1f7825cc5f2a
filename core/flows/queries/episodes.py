"""Episodes: environments with their average rewards and success rates, a page of episodes, one step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from core.columns import UNKNOWN, EpisodeColumns, Floats
from core.errors import InvalidInput, NotApplicable, NotFound
from core.flows.context import Context
from core.flows.credit import active_episode, split_of
from core.maths.episodes import discounted, running, totals_of
from core.maths.statistics.rewards.lint import AGAIN, TOLERANCE, findings_in
from core.maths.statistics.rewards.paid import Paid
from core.maths.statistics.rewards.pattern import patterns
from core.maths.statistics.rewards.spread import guess
from core.maths.statistics.rewards.summary import RewardSummary, summary
from core.records.alike import alike
from core.records.environment import Design, EnvironmentSummary, SuccessRate
from core.records.episode import Episode, Finding, Scale, Step
from core.records.episode_page import (
    ANY_EPISODE,
    CreditView,
    EpisodeCursor,
    EpisodeFilter,
    EpisodeOutcome,
    EpisodePage,
    EpisodeView,
    StepView,
)
from core.records.limits import shown
from core.records.run_page import Direction, RunRow
from core.records.run_query import Since
from core.records.times import iso
from core.store.environments import declared_scales
from core.store.episode_credits import credit_of
from core.store.episodes import episodes_beside, runs_of_episode
from core.store.reads.episodes import (
    Newest,
    alike_columns,
    changed_episodes,
    environment_names,
    episode_page,
    is_paid_again,
    near_environments,
    newest_episodes,
    runs_without_episode,
    step_columns,
)
from core.store.reads.log import position_of
from core.store.reads.run_story import arms_in_runs
from core.store.reads.runs import rows_of
from core.store.transaction import Facts, Snapshot

DESIGN_EPISODES: Final = 1_000
LISTED_EPISODES: Final = 200
DESIGN_STEPS: Final = 50_000
"""Maximum numbers of newest episodes, and of their steps, that a design is computed from.

The first is for one environment, the second for each in a list. From a hundred episodes on, nine of ten planted flaws
are detected.
"""


@dataclass(frozen=True, kw_only=True)
class RunsWithoutEpisode:
    """Rewarded runs without an episode; ``command`` reads files of those formats again, whose names aren't stored."""

    n: int
    formats: tuple[str, ...]
    command: str


@dataclass(frozen=True, kw_only=True)
class ArmOfEpisode:
    """An arm in the runs of an episode: number of prompts with it, and of runs that referenced it."""

    arm: str
    n_in: int
    n_used: int


@dataclass(frozen=True, kw_only=True)
class RunsOfEpisode:
    """The latest of the ``n`` active runs of an episode, and their arms, most used first."""

    n: int
    rows: tuple[RunRow, ...]
    arms: tuple[ArmOfEpisode, ...]


def episodes(
    context: Context,
    *,
    environment: Annotated[str | None, Meta(description="Only this environment.")] = None,
    split: Annotated[str | None, Meta(description="Only episodes of this split.")] = None,
    task: Annotated[str | None, Meta(description="Only attempts at this task.")] = None,
    model: Annotated[str | None, Meta(description="Only episodes of this model.")] = None,
    outcome: Annotated[EpisodeOutcome | None, Meta(description="Only episodes with this outcome.")] = None,
    with_design: Annotated[
        bool, Meta(description="Include patterns and findings, which need the steps.")
    ] = True,
) -> tuple[EnvironmentSummary, ...]:
    """List environments with the rewards and successes of their episodes.

    The active scale decides what is a success. Raises `NotFound` for an unknown environment.
    """
    filters = EpisodeFilter(environment=environment, split=split, task=task, model=model, outcome=outcome)
    with context.reading() as snapshot:
        names = matching_environments(snapshot, environment)
        only = next(iter(names)) if environment is not None else None
        columns, scales = snapshot.together(
            lambda: alike_columns(snapshot, names, only), lambda: declared_scales(snapshot)
        )

        def summarised(number: int, rows: EpisodeColumns) -> EnvironmentSummary:
            scale = scales.get(number, Scale())
            design = design_of(snapshot, number, scale, most=LISTED_EPISODES) if with_design else None
            return environment_summary(names[number], rows, scale, declared=number in scales, design=design)

        summaries = []
        for number, name in sorted(names.items(), key=lambda one: one[1]):
            rows = of_environment(columns, name, scales.get(number, Scale()), filters)
            if len(rows) or (number in scales and filters == EpisodeFilter(environment=environment)):
                summaries.append(partial(summarised, number, rows))
        return snapshot.together(*summaries)


def matching_environments(snapshot: Snapshot, name: str | None) -> dict[int, str]:
    """Return all environments by number, or the one of this name; raise `NotFound` for an unknown one."""
    names = environment_names(snapshot)
    if name is None:
        return names
    matches = {number: known for number, known in names.items() if known == name}
    if not matches:
        near = near_environments(snapshot, name)
        raise NotFound(
            f"There is no environment {shown(name)} in learner {snapshot.name!r}.",
            next_step=f"Did you mean {', '.join(near)}?" if near else "List them with armscope episodes.",
        )
    return matches


def of_environment(
    columns: EpisodeColumns, name: str, scale: Scale, filters: EpisodeFilter
) -> EpisodeColumns:
    """Return the episodes of an environment that pass the filters."""
    keep = columns.environment == _name_code(columns.environments, name)
    for value, codes, names in (
        (filters.split, columns.split, columns.splits),
        (filters.model, columns.model, columns.models),
    ):
        if value is not None:
            keep &= codes == _name_code(names, value)
    if filters.task is not None:  # several are of one name, in other splits
        keep &= np.isin(columns.task, [at for at, one in enumerate(columns.tasks) if one == filters.task])
    if filters.outcome is not None:
        reached = reached_by(columns, scale)
        keep &= {
            "success": reached > scale.threshold,
            "no_success": reached <= scale.threshold,
            "unpaid": np.isnan(reached) & ~columns.broken,
            "broken": columns.broken,
            "unfinished": ~columns.finished,
        }[filters.outcome]
    return columns.where(keep)


def _name_code(names: tuple[str, ...], name: str) -> int:
    """Return the index of a name, or a code that no row has."""
    return names.index(name) if name in names else UNKNOWN - 1


def reached_by(columns: EpisodeColumns, scale: Scale) -> Floats:
    """Return the reward that decides success, per episode; NaN for an unpaid one, or one that is left out."""
    reached = scale.reached(columns.total, columns.final)
    return np.full(len(columns.total), np.nan) if reached is None else reached


def summed(columns: EpisodeColumns, scale: Scale) -> RewardSummary:
    """Return average and success of episodes; ``without_reward`` counts broken ones too."""
    reached = reached_by(columns, scale)
    return summary(reached, reached > scale.threshold, columns.finished, columns.task)


def rate_of(totals: RewardSummary, scale: Scale) -> SuccessRate | None:
    """Return the success rate of a summary; None if no episode was paid."""
    success = totals.success
    if success.value is None:
        return None
    own = {"threshold": scale.threshold, "base": scale.base}
    return alike(SuccessRate, success, rate=success.value, of_paid=success.value, **own)


def environment_summary(
    name: str, rows: EpisodeColumns, scale: Scale, *, declared: bool, design: Design | None
) -> EnvironmentSummary:
    """Return the summary of an environment's episodes."""
    totals, reached = summed(rows, scale), reached_by(rows, scale)
    off = guess(reached, scale)
    is_known = declared or off is None
    return EnvironmentSummary(
        environment=name,
        n=totals.n,
        n_finished=totals.n - totals.unfinished,
        without_reward=totals.without_reward - int(rows.broken.sum()),
        broken=int(rows.broken.sum()),
        n_off_scale=0 if off is None else off.n_outside,
        average=totals.average,
        success=rate_of(totals, scale) if is_known else None,
        n_tasks=totals.n_tasks,
        models=tuple(sorted(rows.models[code] for code in np.unique(rows.model) if code != UNKNOWN)),
        pattern=() if design is None else tuple(one.pattern for one in design.patterns),
        findings=() if design is None else tuple(one.kind for one in design.findings),
        looked_at=0 if design is None else design.looked_at,
        scale=scale,
        declared=declared,
        guess=off,
    )


def design_of(
    snapshot: Snapshot, environment_no: int, scale: Scale, *, most: int = DESIGN_EPISODES
) -> Design:
    """Return a reward's pattern and findings, from the newest episodes."""
    newest = newest_episodes(snapshot, environment_no, most=most, most_steps=DESIGN_STEPS)
    paid = _paid(snapshot, newest, scale)
    return Design(patterns=patterns(paid), findings=findings_in(paid), looked_at=len(newest))


def hacked(snapshot: Snapshot, environment_no: int, scale: Scale) -> tuple[Finding, int] | None:
    """Return the finding of `design_of` that a reward looks hacked, and the number of episodes.

    Few environments pay one action again and again. Two queries find them, so the steps of all others are not read:
    those steps are most of the cost of a design.
    """
    newest = newest_episodes(snapshot, environment_no, most=DESIGN_EPISODES, most_steps=DESIGN_STEPS)
    if not is_paid_again(snapshot, [one.number for one in newest], often=AGAIN, tolerance=TOLERANCE):
        return None
    findings = findings_in(_paid(snapshot, newest, scale))
    return next(((one, len(newest)) for one in findings if one.kind == "hacking"), None)


def _paid(snapshot: Snapshot, newest: list[Newest], scale: Scale) -> Paid:
    steps = step_columns(snapshot, [one.number for one in newest])
    counts = np.bincount(steps.episode, minlength=len(newest))
    total, final = (np.array([getattr(one, of) for one in newest]) for of in ("total", "final"))
    return alike(
        Paid,
        steps,
        scale=scale,
        uids=tuple(one.uid for one in newest),
        starts=np.concatenate(([0], np.cumsum(counts))),
        at_ms=np.array([one.at_ms for one in newest], dtype=np.int64),
        rank=-np.arange(len(newest)),
        finished=np.array([one.finished for one in newest], dtype=np.bool_),
        total=total,
        final=final,
        succeeded=(total if scale.base == "total" else final) > scale.threshold,
    )


def episode_list(
    context: Context,
    wanted: Annotated[EpisodeFilter, Meta(description="Only episodes that pass this filter.")] = ANY_EPISODE,
    *,
    cursor: Annotated[EpisodeCursor | None, Meta(description="Position from which the page starts.")] = None,
    direction: Annotated[Direction, Meta(description="Whether to page to older or newer rows.")] = "older",
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of episodes.")] = 50,
    since: Annotated[
        Since, Meta(description="Only rows changed since, oldest change first: 0, a row's mark, or a head.")
    ] = None,
) -> EpisodePage:
    """List single episodes, newest first.

    Raises `NotFound` for an unknown environment.
    """
    if since is not None and wanted.outcome is not None:
        raise InvalidInput(
            f"since must come without an outcome, got {shown(wanted.outcome)}: it follows from the scale in force.",
            next_step="Leave the outcome out, and compare the rewards of the rows.",
        )
    with context.reading() as snapshot:
        matching_environments(snapshot, wanted.environment)
        if since is not None:
            rows = changed_episodes(snapshot, wanted, position_of(snapshot, since), limit=limit)
            return EpisodePage(rows=rows, onward=None)
        return episode_page(snapshot, wanted, cursor=cursor, direction=direction, limit=limit)


def without_episode(context: Context) -> RunsWithoutEpisode:
    """Count the runs with a reward from their source and without an episode."""
    with context.reading() as snapshot:
        n_by_format = runs_without_episode(snapshot)
    return RunsWithoutEpisode(
        n=sum(n_by_format.values()), formats=tuple(n_by_format), command="armscope import SOURCE"
    )


def episode(context: Context, uid: Annotated[str, Meta(description="The episode's uid.")]) -> EpisodeView:
    """Show one active episode, step by step.

    Raises `NotFound`.
    """
    with context.reading() as snapshot:
        line, declared = active_episode(snapshot, uid)
        scale = declared or Scale()
        credit = _credit_view(snapshot, line, scale)
        older, newer = episodes_beside(snapshot, uid)
    sums = totals_of(line.steps, broken=line.broken)
    rewards = [None if step.refused else step.reward for step in line.steps]
    counted = [step.reward for step in line.steps if not step.refused]
    reached = sums.base(scale)
    normalised = None if reached is None else scale.normalised(float(reached))
    is_known = reached is not None and (declared is not None or normalised is not None)
    return alike(
        EpisodeView,
        line,
        at=iso(line.at_ms),
        n_steps=sums.n_steps,
        n_paid=sums.n_paid,
        total=None if sums.total is None else float(sums.total),
        final=None if sums.final is None else float(sums.final),
        discounted=discounted(counted, scale.gamma),
        normalised=normalised,
        success=sums.succeeded(scale) if is_known else None,
        scale=scale,
        declared=declared is not None,
        steps=tuple(
            alike(
                StepView,
                step,
                running=None if so_far is None else float(so_far),
                out_of_scale=step.reward is not None and not scale.step_lo <= step.reward <= scale.step_hi,
                at=iso(step.at_ms),
                same_as=first,
            )
            for step, so_far, first in zip(
                line.steps, running(rewards), _first_alike(line.steps), strict=True
            )
        ),
        credit=credit,
        older=older,
        newer=newer,
    )


def _first_alike(steps: Sequence[Step]) -> Iterator[int | None]:
    """Yield for each step the number of the first earlier one with the same name and arguments."""
    firsts: dict[tuple[str, str], int] = {}
    for step in steps:
        first = None
        if step.args_digest is not None:
            first = firsts.setdefault((step.name, step.args_digest), step.number)
        yield None if first == step.number else first


def _credit_view(facts: Facts, line: Episode, scale: Scale) -> CreditView | None:
    credit = credit_of(facts, line.uid)
    if credit is None:
        return None
    try:
        now = split_of(facts, line, scale, credit.rule)
        fits = (now.reward, now.credit_shares(facts.blind)) == (credit.reward, credit.shares)
    except NotApplicable:
        fits = False
    return CreditView(
        id=f"credit-{credit.number}",
        rule=credit.rule,
        reward=credit.reward,
        shares=credit.shares,
        by=credit.actor,
        at=iso(credit.at_ms),
        fits=fits,
    )


def episode_runs(context: Context, uid: str) -> RunsOfEpisode:
    """Return at most 50 runs of an episode, and the part of arms in them."""
    with context.reading() as snapshot:
        numbers = [one for one in runs_of_episode(snapshot, uid) if one not in snapshot.blind]
        shown_here = numbers[:50]
        arms = arms_in_runs(snapshot, shown_here)
        counts = zip(arms.keys, arms.n_in.tolist(), arms.n_used.tolist(), strict=True)
        parts = (ArmOfEpisode(arm=arm, n_in=n_in, n_used=n_used) for arm, n_in, n_used in counts)
        return RunsOfEpisode(
            n=len(numbers),
            rows=tuple(rows_of(snapshot, shown_here)),
            arms=tuple(sorted(parts, key=lambda arm: (-arm.n_used, -arm.n_in, arm.arm))),
        )
