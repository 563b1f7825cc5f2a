"""Rewards of an environment by value, time, split, task and model, its design, and models compared.

Its variants are listed, and the difficulty of each task by the rewards of its episodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

import numpy as np
from msgspec import Meta, Struct

from core.columns import UNKNOWN, Bools, EpisodeColumns, Floats, Ints
from core.errors import InvalidInput
from core.flows.context import Context
from core.flows.queries.episodes import (
    design_of,
    environment_summary,
    hacked,
    matching_environments,
    of_environment,
    rate_of,
    reached_by,
    summed,
)
from core.maths.statistics.overview import PaidWrong
from core.maths.statistics.rewards.contest import contest, first_attempts, stops_at_success, unpaired
from core.maths.statistics.rewards.lint import MIN_EPISODES
from core.maths.statistics.rewards.progress import Progress, falls, progress
from core.maths.statistics.rewards.spread import Bar, distribution, guess
from core.maths.statistics.rewards.summary import Attempts
from core.records.alike import alike
from core.records.environment import (
    Design,
    EnvironmentDesign,
    EnvironmentSummary,
    ModelComparison,
    ModelPair,
    ModelSummary,
    SuccessRate,
)
from core.records.episode import Finding, Scale
from core.records.episode_page import EpisodeFilter, EpisodeOutcome
from core.records.estimate import Estimate
from core.records.limits import shown
from core.records.parameters import Compared
from core.store.environments import (
    TaskPaid,
    declared_scales,
    paid_by_task,
    sums_of_environment,
    variants_of,
)
from core.store.reads.episodes import environment_names, episode_columns
from core.store.transaction import Snapshot

GroupKind = Literal["split", "task", "model"]
MOST_GROUPS: Final = 100
"""Maximum number of groups of one kind. Of more tasks, those with the lowest average are shown."""

_PERCENTILES: Final = (1, 10, 25, 50, 75, 90, 99)


@dataclass(frozen=True, kw_only=True)
class EpisodeGroup:
    """Episodes of one split, task or model (None: unknown)."""

    kind: GroupKind
    name: str | None
    n: int
    without_reward: int
    average: Estimate
    success: SuccessRate | None


@dataclass(frozen=True, kw_only=True)
class EpisodesLeftOut:
    """Episodes that are left out of an average, or of what is charted by time."""

    without_reward: int
    broken: int
    unfinished: int
    off_scale: int
    untimed: int


@dataclass(frozen=True, kw_only=True)
class EnvironmentStory:
    """All figures of an environment. ``groups`` shows the first hundred of ``n_groups`` of each kind."""

    summary: EnvironmentSummary
    design: Design
    distribution: tuple[Bar, ...]
    progress: Progress
    attempts: tuple[Attempts, ...]
    groups: tuple[EpisodeGroup, ...]
    n_groups: dict[GroupKind, int]
    left_out: EpisodesLeftOut


def environment(
    context: Context,
    name: str,
    *,
    split: str | None = None,
    task: str | None = None,
    model: str | None = None,
    outcome: EpisodeOutcome | None = None,
) -> EnvironmentStory:
    """Return one environment with the episodes that pass the filters; raise `NotFound` for an unknown one."""
    filters = EpisodeFilter(environment=name, split=split, task=task, model=model, outcome=outcome)
    with context.reading() as snapshot:
        (number,) = matching_environments(snapshot, name)
        declared = declared_scales(snapshot)
        scale = declared.get(number, Scale())
        rows = of_environment(episode_columns(snapshot, number), name, scale, filters)
        design = design_of(snapshot, number, scale)
    summary = environment_summary(name, rows, scale, declared=number in declared, design=design)
    reached = reached_by(rows, scale)
    groups, n_groups = _groups(rows, scale, is_known=summary.success is not None)
    return EnvironmentStory(
        summary=summary,
        design=design,
        distribution=distribution(reached, scale),
        progress=progress(rows.at_ms, reached, reached > scale.threshold, rows.task),
        attempts=summed(rows, scale).attempts,
        groups=groups,
        n_groups=n_groups,
        left_out=EpisodesLeftOut(
            without_reward=summary.without_reward,
            broken=summary.broken,
            unfinished=summary.n - summary.n_finished,
            off_scale=summary.n_off_scale,
            untimed=int((rows.at_ms == UNKNOWN).sum()),
        ),
    )


def _groups(
    rows: EpisodeColumns, scale: Scale, *, is_known: bool
) -> tuple[tuple[EpisodeGroup, ...], dict[GroupKind, int]]:
    groups: list[EpisodeGroup] = []
    counts: dict[GroupKind, int] = {}
    kinds: tuple[tuple[GroupKind, Ints, tuple[str, ...]], ...] = (
        ("split", rows.split, rows.splits),
        ("model", rows.model, rows.models),
        ("task", rows.task, rows.tasks),
    )
    for kind, codes, names in kinds:
        group_codes = np.unique(codes)
        counts[kind] = len(group_codes)
        chosen = (
            _least_paid(codes, reached_by(rows, scale)) if len(group_codes) > MOST_GROUPS else group_codes
        )
        for code in chosen.tolist():
            members = rows.where(codes == code)
            one = summed(members, scale)
            groups.append(
                EpisodeGroup(
                    kind=kind,
                    name=None if code == UNKNOWN else names[code],
                    n=one.n,
                    without_reward=one.without_reward,
                    average=one.average,
                    success=rate_of(one, scale) if is_known else None,
                )
            )
    return tuple(groups), counts


def _least_paid(codes: Ints, reached: Floats) -> Ints:
    """Return the groups with the lowest averages. A group without a paid episode is the lowest."""
    group_codes, group = np.unique(codes, return_inverse=True)
    paid = ~np.isnan(reached)
    count = np.bincount(group[paid], minlength=len(group_codes))
    total = np.bincount(group[paid], weights=reached[paid], minlength=len(group_codes))
    average = np.divide(total, count, out=np.full(len(group_codes), -np.inf), where=count > 0)
    return np.asarray(group_codes[np.argsort(average, kind="stable")[:MOST_GROUPS]])


def lint(
    context: Context, environment: Annotated[str | None, Meta(description="Only this environment.")] = None
) -> tuple[EnvironmentDesign, ...]:
    """Report how environments pay, and the steps that show a problem.

    Raises `NotFound` for an unknown environment.
    """
    with context.reading() as snapshot:
        names, scales = snapshot.together(
            lambda: matching_environments(snapshot, environment), lambda: declared_scales(snapshot)
        )

        def linted(number: int) -> EnvironmentDesign:
            one, sums = snapshot.together(
                lambda: design_of(snapshot, number, scales.get(number, Scale())),
                lambda: sums_of_environment(snapshot, number),
            )
            return alike(EnvironmentDesign, one, environment=names[number], n=sums.n)

        numbers = sorted(names, key=names.__getitem__)
        designs = snapshot.together(*[partial(linted, number) for number in numbers])
        return tuple(one for one in designs if one.n)


def paid_wrong(snapshot: Snapshot) -> tuple[PaidWrong, ...]:
    """Return environments whose reward looks hacked, and those whose success rate fell."""
    names, columns, declared = snapshot.together(
        lambda: environment_names(snapshot),
        lambda: episode_columns(snapshot),
        lambda: declared_scales(snapshot),
    )
    examined: list[tuple[str, EpisodeColumns, Scale, bool]] = []
    checks: list[Callable[[], tuple[Finding, int] | None]] = []
    for number, name in sorted(names.items(), key=lambda one: one[1]):
        scale = declared.get(number, Scale())
        rows = of_environment(columns, name, scale, EpisodeFilter(environment=name))
        if len(rows) >= MIN_EPISODES and scale.base != "none":
            examined.append((name, rows, scale, number in declared))
            checks.append(partial(hacked, snapshot, number, scale))
    problems: list[PaidWrong] = []
    for (name, rows, scale, is_declared), finding in zip(examined, snapshot.together(*checks), strict=True):
        if finding is not None:
            problems.append(PaidWrong(environment=name, n=finding[1], evidence=finding[0].seen))
        fell = _fell(name, rows, scale)
        if fell is not None and (is_declared or guess(reached_by(rows, scale), scale) is None):
            problems.append(fell)
    return tuple(problems)


def _fell(name: str, rows: EpisodeColumns, scale: Scale) -> PaidWrong | None:
    """Return an entry if success falls within tasks, and fell from the first segment to the last."""
    reached = reached_by(rows, scale)
    succeeded = np.where(np.isnan(reached), np.nan, reached > scale.threshold)
    if not falls(rows.at_ms, succeeded, rows.task):
        return None
    course = progress(rows.at_ms, reached, reached > scale.threshold, rows.task)
    shares = [one.success.value for one in course.stretches]
    if len(shares) < 2 or shares[0] is None or shares[-1] is None:
        return None
    if shares[-1] >= shares[0]:
        return None
    n = sum(one.n for one in course.stretches)
    return PaidWrong(environment=name, n=n, before=shares[0], after=shares[-1])


def compare(
    context: Context,
    environment: Annotated[str, Meta(description="The environment.")],
    *,
    models: Annotated[Sequence[str], Meta(description="Only these models; default: all.")] = (),
    compared: Annotated[Compared, Meta(description="The quantity that is compared.")] = "reward",
    paired: Annotated[
        bool, Meta(description="Compare common tasks only; false: episodes of all tasks.")
    ] = True,
) -> ModelComparison:
    """Compare models on the tasks of an environment that two of them attempted.

    ``paired`` False compares the episodes of all tasks, and marks the answer so. Where a model's attempts at a task
    end with its first success, first attempts are compared, and ``stopped`` names the model.

    Raises `NotFound` for an unknown environment. Raises `InvalidInput` for fewer than two models, for a model
    without episodes, and for two models without a common task.
    """
    with context.reading() as snapshot:
        (number,) = matching_environments(snapshot, environment)
        declared = declared_scales(snapshot).get(number)
        rows = episode_columns(snapshot, number)
    scale = declared or Scale()
    names = tuple(dict.fromkeys(models or sorted(rows.models)))
    _check_models(names, rows, environment)
    codes = {rows.models.index(name): index for index, name in enumerate(names)}
    model_codes = np.array(
        [codes.get(code, UNKNOWN) for code in range(len(rows.models))] + [UNKNOWN], dtype=np.int64
    )
    model, reached = model_codes[rows.model], reached_by(rows, scale)
    value = (
        reached if compared == "reward" else np.where(np.isnan(reached), np.nan, reached > scale.threshold)
    )
    is_known = declared is not None or guess(reached, scale) is None
    stopped = _stopped(rows, model, reached > scale.threshold, len(names))
    if stopped:
        known = np.flatnonzero((model != UNKNOWN) & (rows.task != UNKNOWN) & ~np.isnan(reached))
        cell = model[known] * (int(rows.task.max(initial=0)) + 1) + rows.task[known]
        later = known[~first_attempts(cell, rows.at_ms[known])]
        model[later] = UNKNOWN
    pairs = (contest if paired else unpaired)(model, rows.task, value, n_models=len(names))
    return ModelComparison(
        environment=environment,
        compared=compared,
        paired=paired,
        models=tuple(
            _model(name, rows.where(model == index), scale, is_known=is_known)
            for index, name in enumerate(names)
        ),
        pairs=tuple(alike(ModelPair, pair, one=names[pair.one], other=names[pair.other]) for pair in pairs),
        stopped=tuple(names[index] for index in stopped),
    )


def _stopped(rows: EpisodeColumns, model: Ints, succeeded: Bools, n_models: int) -> list[int]:
    """Return the models whose attempts at a task end with the first success."""
    known = (model != UNKNOWN) & (rows.task != UNKNOWN) & ~rows.broken
    each = [known & (model == index) for index in range(n_models)]
    return [
        index
        for index, mine in enumerate(each)
        if stops_at_success(succeeded[mine], rows.task[mine], rows.at_ms[mine])
    ]


def _check_models(names: Sequence[str], rows: EpisodeColumns, environment: str) -> None:
    there = ", ".join(rows.models) or "none that is known"
    if len(names) < 2:
        raise InvalidInput(
            f"Two models or more must be named to be compared, got {len(names)}.",
            next_step=f"Name two of those with episodes in {shown(environment)}: {there}.",
        )
    for name in names:
        if name not in rows.models:
            raise InvalidInput(
                f"A model that is compared must have episodes in {shown(environment)}, got {shown(name)}.",
                next_step=f"Those with episodes there: {there}.",
            )


def _model(name: str, rows: EpisodeColumns, scale: Scale, *, is_known: bool) -> ModelSummary:
    totals = summed(rows, scale)
    return ModelSummary(
        model=name,
        n=totals.n,
        n_tasks=len(np.unique(rows.task[rows.task != UNKNOWN])),
        average=totals.average,
        success=rate_of(totals, scale) if is_known else None,
    )


class TaskDifficulty(Struct, frozen=True, kw_only=True):
    """Rewards of the ``n`` episodes of one task: average, lowest and highest of the paid ones.

    ``response_chars`` are mean and percentiles of the characters that the agent sent per episode (None: unknown).
    """

    task: str
    split: str | None
    variant: str | None
    n: int
    average: float
    lowest: float
    highest: float
    response_chars: Mapping[str, float | None]


def environment_no(context: Context, environment: str) -> int:
    """Return the number of an environment; raise `NotFound` for an unknown one."""
    with context.reading() as snapshot:
        (number,) = matching_environments(snapshot, environment)
        return number


def variants(context: Context, environment: str) -> list[str]:
    """List the variants of an environment that episodes name, sorted; raise `NotFound` for an unknown one."""
    with context.reading() as snapshot:
        (number,) = matching_environments(snapshot, environment)
        return variants_of(snapshot, number)


def task_difficulty(
    context: Context,
    environment: str,
    *,
    split: str | None = None,
    variant: str | None = None,
    model: str | None = None,
) -> list[TaskDifficulty]:
    """List the tasks with a paid episode by split, variant and name; raise `NotFound` for an unknown environment.

    Tasks without a split or variant come first.
    """
    groups: dict[tuple[str | None, str | None, str], list[TaskPaid]] = defaultdict(list)
    with context.reading() as snapshot:
        (number,) = matching_environments(snapshot, environment)
        for acts, one in paid_by_task(snapshot, number):
            if all(
                requested in (None, value)
                for requested, value in ((split, one.split), (variant, one.variant), (model, acts))
            ):
                groups[one.split, one.variant, one.task].append(one)
    order = sorted(groups, key=lambda key: [(part is not None, part or "") for part in key])
    difficulties = [_difficulty(groups[key]) for key in order]
    return [one for one in difficulties if one is not None]


def _difficulty(episodes: Sequence[TaskPaid]) -> TaskDifficulty | None:
    first = episodes[0]
    paid = [one.total for one in episodes if one.total is not None]
    if not paid:
        return None
    return alike(
        TaskDifficulty,
        first,
        n=len(episodes),
        average=sum(paid) / len(paid),
        lowest=min(paid),
        highest=max(paid),
        response_chars=_spread([one.n_chars for one in episodes if one.n_chars is not None]),
    )


def _spread(lengths: Sequence[int]) -> dict[str, float | None]:
    names = ["mean", *(f"p{share}" for share in _PERCENTILES)]
    if not lengths:
        return dict.fromkeys(names)
    values = [np.mean(lengths), *np.percentile(lengths, _PERCENTILES)]
    return {name: float(one) for name, one in zip(names, values, strict=True)}
