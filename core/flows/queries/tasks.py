"""Tasks of an environment: its variants, and the difficulty of each task by the rewards of its episodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from core.errors import NotFound
from core.flows.context import Context
from core.records.limits import shown
from core.store.environments import TaskPaid, environment_no_of, paid_by_task, variants_of
from core.store.transaction import Facts

_PERCENTILES: Final = (1, 10, 25, 50, 75, 90, 99)


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
        return _number(snapshot, environment)


def variants(context: Context, environment: str) -> list[str]:
    """List the variants of an environment that episodes name, sorted; raise `NotFound` for an unknown one."""
    with context.reading() as snapshot:
        return variants_of(snapshot, _number(snapshot, environment))


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
        for acts, one in paid_by_task(snapshot, _number(snapshot, environment)):
            if all(
                requested in (None, value)
                for requested, value in ((split, one.split), (variant, one.variant), (model, acts))
            ):
                groups[one.split, one.variant, one.task].append(one)
    order = sorted(groups, key=lambda key: [(part is not None, part or "") for part in key])
    difficulties = [_difficulty(groups[key]) for key in order]
    return [one for one in difficulties if one is not None]


def _number(facts: Facts, environment: str) -> int:
    number = environment_no_of(facts, environment)
    if number is None:
        raise NotFound(
            f"There is no environment {shown(environment)} in learner {facts.name!r}.",
            next_step="Use a name that armscope episodes lists.",
        )
    return number


def _difficulty(episodes: Sequence[TaskPaid]) -> TaskDifficulty | None:
    first = episodes[0]
    paid = [one.total for one in episodes if one.total is not None]
    if not paid:
        return None
    return TaskDifficulty(
        task=first.task,
        split=first.split,
        variant=first.variant,
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
