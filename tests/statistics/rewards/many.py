"""Many: planted environments as columns, a thousand episodes and more drawn from a pool."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from core.columns import Ints
from core.demo.environments import World, episodes
from core.maths.statistics.rewards.paid import Paid, columns_of

MANY: Final = 1_000
"""Episodes from which on worlds are drawn from a pool ten times as large: making each again would take an hour."""


def columns(world: World, n: int, seed: int) -> Paid:
    """So many episodes as columns."""
    if n < MANY:
        return columns_of(episodes(world, n, seed), world.scale)
    pool = _pool(world, 10 * n)
    return chosen_episodes(pool, np.random.default_rng([seed, n]).choice(pool.n, n, replace=False))


@lru_cache(maxsize=1)
def _pool(world: World, n: int) -> Paid:
    return columns_of(episodes(world, n, 0), world.scale)


def chosen_episodes(paid: Paid, places: Ints) -> Paid:
    """Some of the episodes, one after the other."""
    n_steps = np.diff(paid.starts)[places]
    starts = np.concatenate(([0], np.cumsum(n_steps)))
    steps = np.repeat(paid.starts[places] - starts[:-1], n_steps) + np.arange(int(starts[-1]))
    of_steps = ("number", "reward", "refused", "tool", "action", "meta", "n_chars")
    of_episodes = ("at_ms", "rank", "finished", "total", "final", "succeeded")
    return replace(
        paid,
        uids=tuple(paid.uids[place] for place in places.tolist()),
        starts=starts,
        parts={name: values[places] for name, values in paid.parts.items()},
        members={name: values[places] for name, values in paid.members.items()},
        **{name: getattr(paid, name)[steps] for name in of_steps},
        **{name: getattr(paid, name)[places] for name in of_episodes},
    )
