"""Episodes → columns: every step of an environment's episodes one after the other, and what each episode came to.

How many bootstrap samples of episodes agree that a share is on its side of a bound is computed exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Final

import numpy as np
import scipy

from core.columns import UNKNOWN, Bools, Floats, Ints, coded, coded_metadata
from core.errors import InvalidInput
from core.maths.episodes import totals_of
from core.records.episode import Episode, Finding, FindingKind, Scale

MOST_STEPS: Final = 50
"""Steps that a finding shows."""


@dataclass(frozen=True, kw_only=True)
class Paid:
    """The episodes of one environment, and their steps.

    Of each step, shape (n_steps,), in the order of episodes and numbers: ``number``, ``reward`` (NaN = none, which is
    not 0), ``refused``, ``tool`` (an index in ``tools``), ``action`` and ``meta`` (codes: the same tool with the same
    arguments, the same metadata; -1 unknown) and ``n_chars`` (length of what was sent, -1 unknown).

    Of the environment its ``scale``. Of each episode, shape (n_episodes,): ``uids``, ``at_ms`` (-1 unknown), ``rank``
    (greater is later), ``finished``, ``total`` and ``final`` (NaN = none), ``succeeded`` by that scale, and ``parts``
    (NaN = absent) and ``members`` of the metadata at its end (codes, -1 absent) by name. The steps of episode
    ``i`` are those from ``starts[i]`` until ``starts[i + 1]``; ``starts`` has shape (n_episodes + 1,).
    """

    scale: Scale
    uids: tuple[str, ...]
    starts: Ints
    at_ms: Ints
    rank: Ints
    finished: Bools
    total: Floats
    final: Floats
    succeeded: Bools
    number: Ints
    reward: Floats
    refused: Bools
    tool: Ints
    tools: tuple[str, ...]
    action: Ints
    meta: Ints
    n_chars: Ints
    parts: Mapping[str, Floats] = field(default_factory=dict)
    members: Mapping[str, Ints] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps = [self.reward, self.number, self.refused, self.tool, self.action, self.meta, self.n_chars]
        whole: list[Sized] = [self.at_ms, self.rank, self.finished, self.total, self.final, self.succeeded]
        whole += [*self.parts.values(), *self.members.values()]
        if (
            {len(column) for column in whole} > {self.n}
            or {len(column) for column in steps} != {int(self.starts[-1])}
            or len(self.starts) != self.n + 1
        ):
            raise InvalidInput(
                f"Columns of {self.n} episodes with {int(self.starts[-1])} steps must be aligned.",
                next_step="Give every column a value for each episode, or for each step.",
            )

    @property
    def n(self) -> int:
        """Episodes."""
        return len(self.uids)

    @cached_property
    def episode(self) -> Ints:
        """Index of each step's episode, shape (n_steps,)."""
        return np.repeat(np.arange(self.n), np.diff(self.starts))

    @cached_property
    def last(self) -> Ints:
        """Index of each episode's last step that counts, -1 if none does; shape (n_episodes,)."""
        result = np.full(self.n, UNKNOWN)
        counts = np.flatnonzero(~self.refused)
        result[self.episode[counts]] = counts
        return result

    @cached_property
    def is_last(self) -> Bools:
        """True for each step that ended its episode, shape (n_steps,)."""
        result = np.zeros(len(self.reward), dtype=np.bool_)
        result[self.last[self.finished & (self.last >= 0)]] = True
        return result

    @cached_property
    def is_midway(self) -> Bools:
        """True for each step that counts and could be followed by another, shape (n_steps,)."""
        return np.asarray(~self.refused & ~self.is_last)

    @cached_property
    def pays_midway(self) -> Bools:
        """True for each step midway that is paid more than 0, shape (n_steps,)."""
        return np.asarray(self.is_midway & (self.reward > 0))

    @cached_property
    def n_midway(self) -> Ints:
        """Steps midway, by episode."""
        return self.counted(self.is_midway)

    def counted(self, mask: Bools) -> Ints:
        """Return the number of steps of each episode in the mask, shape (n_episodes,)."""
        return np.bincount(self.episode[mask], minlength=self.n)

    def added(self, mask: Bools, values: Floats) -> Floats:
        """Return the sum of the values of each episode's steps in the mask, shape (n_episodes,)."""
        return np.bincount(self.episode[mask], weights=values[mask], minlength=self.n).astype(np.float64)

    @cached_property
    def last_reward(self) -> Floats:
        """Reward of each episode's ending step; NaN without such a step, or where it has no reward."""
        result = np.full(self.n, np.nan)
        ends = np.flatnonzero(self.is_last)
        result[self.episode[ends]] = self.reward[ends]
        return result

    def shown(self, places: Ints, most: int) -> tuple[tuple[str, int], ...]:
        """Return the steps at these indexes by their episode's uid and their number, at most ``most`` of them.

        Of more steps, the first of each episode come before the others, so that more episodes are named.
        """
        first = places[:most]
        if len(places) > most:
            firsts = np.unique(self.episode[places], return_index=True)[1]
            others = np.setdiff1d(np.arange(len(places)), firsts)
            first = places[np.sort(np.concatenate((firsts, others))[:most])]
        return tuple(
            (self.uids[episode], number)
            for episode, number in zip(self.episode[first].tolist(), self.number[first].tolist(), strict=True)
        )


def columns_of(episodes: Sequence[Episode], scale: Scale) -> Paid:
    """Return episodes as columns, without those that broke. If any has no time, all rank in the given order."""
    episodes = [one for one in episodes if not one.broken]
    totals = [totals_of(one.steps) for one in episodes]
    steps = [step for one in episodes for step in one.steps]
    tool, tools = coded(step.name for step in steps)
    times = [UNKNOWN if one.at_ms is None else one.at_ms for one in episodes]
    end_of = (
        index if step.finished and not step.refused else UNKNOWN
        for index, one in enumerate(episodes)
        for step in one.steps
    )
    meta, members = coded_metadata([step.meta_digest for step in steps], end_of, len(episodes))
    names = list(dict.fromkeys(part.name for one in episodes for part in one.parts))
    return Paid(
        scale=scale,
        uids=tuple(one.uid for one in episodes),
        starts=np.cumsum([0, *(len(one.steps) for one in episodes)]),
        at_ms=np.array(times, dtype=np.int64),
        rank=np.array(range(len(times)) if UNKNOWN in times else times, dtype=np.int64),
        finished=np.array([one.finished for one in totals], dtype=np.bool_),
        total=_numbers(one.total for one in totals),
        final=_numbers(one.final for one in totals),
        succeeded=np.array([one.succeeded(scale) for one in totals], dtype=np.bool_),
        number=np.array([step.number for step in steps], dtype=np.int64),
        reward=_numbers(step.reward for step in steps),
        refused=np.array([step.refused for step in steps], dtype=np.bool_),
        tool=tool,
        tools=tools,
        action=coded(None if step.args_digest is None else (step.name, step.args_digest) for step in steps)[
            0
        ],
        meta=meta,
        n_chars=np.array(
            [UNKNOWN if n is None else n for n in (step.n_chars_in for step in steps)], dtype=np.int64
        ),
        members=members,
        parts={name: _numbers(_part(one, name) for one in episodes) for name in names},
    )


def _numbers(values: Iterable[float | Decimal | None]) -> Floats:
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)


def _part(episode: Episode, name: str) -> float | None:
    return next((part.value for part in episode.parts if part.name == name), None)


def bootstrap_share(hits: int, n: int, least: float) -> float:
    """Return the share of bootstrap samples of ``n`` episodes in which at least a share ``least`` are hits.

    A sample draws ``n`` episodes with replacement. So its hits are binomial with the observed share ``hits / n``, and
    the result is exact without drawing samples.

    B. Efron, *Ann. Stat.* 7, 1979, 1 (doi:10.1214/aos/1176344552).
    """
    if not n:
        return 0.0
    needed = math.ceil(least * n - 1e-9)
    return 1.0 - float(scipy.special.bdtr(needed - 1, n, hits / n)) if needed else 1.0


def finding_of(
    paid: Paid, *, kind: FindingKind, certainty: float, text: str, steps: Ints, advice: str
) -> Finding:
    """Return a finding with the first of the steps at these indexes."""
    shown = paid.shown(steps, MOST_STEPS)
    return Finding(kind=kind, certainty=certainty, seen=text, steps=shown, advice=advice)


def ranked(one: Floats, other: Floats) -> float:
    """Return the rank correlation; 0 where nothing varies."""
    if not np.ptp(one) or not np.ptp(other):
        return 0.0
    return float(np.corrcoef(scipy.stats.rankdata(one), scipy.stats.rankdata(other))[0, 1])
