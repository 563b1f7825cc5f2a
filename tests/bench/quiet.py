"""Quiet months: how often the attention list says something false, and how surely it finds what is planted.

Months are played day by day into a learner, and the list is read at the end of every third day. A row is false where
nothing changed; it counts once for as long as it is shown. A row about arms counts again for other arms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from scipy.stats import chi2

from core.flows.context import Context
from core.statistics.overview import Attention
from tests.bench.harness import Row, Scale
from tests.flows.months import ARMS, PLANTED, QUIET, Plan, Played, looks
from tests.flows.world import context_at

_BURN_IN: Final = 27
_MONTH: Final = 30
_STEP: Final = 3
_SEED: Final = 1_000
_GOAL: Final = 0.1
_TRUE: Final = {"savings_not_proven", "no_baseline_runs"}
"""Said of these worlds rightly: few runs are baseline runs, and selecting saves nothing."""
_STEP_SIZE: Final = 0.3


def months(scale: Scale, folder: Path) -> list[Row]:
    """False rows of any kind a month, by world and over all of them; then the planted worlds."""
    worlds = list(QUIET.items())[: scale.n_quiet_worlds]
    found: Counter[str] = Counter()
    rows, n_months = [], 0
    for name, plan in worlds:
        kinds: Counter[str] = Counter()
        for seed in range(scale.n_quiet_seeds):
            kinds += _false_rows(_context(folder, f"{name}-{seed}"), plan, _SEED + seed, scale.n_quiet_months)
        n = scale.n_quiet_seeds * scale.n_quiet_months
        rows.append(_row(f"false rows a month, {name}", kinds, n))
        found, n_months = found + kinds, n_months + n
    rows.append(_row("false rows a month, all worlds", found, n_months, goal=_GOAL))
    return [*rows, *_planted(scale, folder)]


def _context(folder: Path, name: str) -> Context:
    return context_at(folder / f"{name.replace(' ', '-')}.db")


def _false_rows(context: Context, plan: Plan, seed: int, n_months: int) -> Counter[str]:
    days = range(_BURN_IN, _BURN_IN + _MONTH * n_months + 1, _STEP)
    counts: Counter[str] = Counter()
    shown: set[tuple[str, str]] = set()
    for _, items in looks(context, Played(plan, seed), days):
        named = {key for item in items if item.kind not in _TRUE for key in _keys(item)}
        counts.update(kind for kind, _ in named - shown)
        shown = named
    return counts


def _keys(item: Attention) -> set[tuple[str, str]]:
    """Return what a row is of: each of its arms where it has a row for each, else the kind alone."""
    return {(item.kind, item.arms[0] if len(item.arms) == 1 else "")}


def _row(name: str, kinds: Counter[str], n_months: int, goal: float | None = None) -> Row:
    n = kinds.total()
    low = float(chi2.ppf(0.025, 2 * n) / 2 / n_months) if n else 0.0
    high = float(chi2.ppf(0.975, 2 * n + 2) / 2 / n_months)
    which = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()) or "none"
    return Row(
        name=name,
        base=f"{n} rows in {n_months} months",
        figure=high,
        unit="/month",
        goal=goal,
        n=n_months,
        note=f"the upper end of {n / max(n_months, 1):.3f}, 95% {low:.3f} to {high:.3f} (Poisson, exact); {which}",
    )


def _planted(scale: Scale, folder: Path) -> list[Row]:
    """Share of worlds whose cause is one row, and of steps of .3 that are named, in one and in two channels."""
    wanted = {
        "mixabrupt": (57, "mix_changed"),
        "modelswitch": (57, "new_model"),
        "poisonpart": (57, "poisoned"),
        "allskills": (57, "poisoned"),
        "feedstop": (59, "feed_silent"),
    }
    rows = []
    for name, (day, kind) in wanted.items():
        hits = []
        for seed in range(scale.n_planted_seeds):
            (items,) = _at(_context(folder, f"{name}-{seed}"), PLANTED[name], seed, day)
            hits.append([item.kind for item in items] == [kind])
        rows.append(_share(f"planted {name}: one row, {kind}", hits))
    for name, channels in (("one channel", {"web": 1.0}), ("two channels", {"web": 0.6, "chat": 0.4})):
        plan = Plan(channels=lambda day, mix=channels: mix, factor=_stepped)  # type: ignore[misc]
        hits = []
        for seed in range(scale.n_planted_seeds):
            items = _at(_context(folder, f"{name}-{seed}"), plan, seed, 57)[0]
            hits.append(any(ARMS[0].key in item.arms for item in items if item.kind == "drifting"))
        rows.append(_share(f"a step of .3 in {name}, named after 12 days", hits))
    return rows


def _at(context: Context, plan: Plan, seed: int, day: int) -> list[Sequence[Attention]]:
    played = Played(plan, _SEED + seed)
    played.rates = np.where(np.arange(len(ARMS)) == 0, 0.75, played.rates)
    seen = [items for _, items in looks(context, played, range(day, day + 1))]
    return [[item for item in items if item.kind not in _TRUE] for items in seen]


def _stepped(day: int, channel: str, model: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.where((np.arange(len(ARMS)) == 0) & (day >= 46), 1 - _STEP_SIZE / 0.75, 1.0)


def _share(name: str, hits: list[bool]) -> Row:
    return Row(
        name=name,
        base=f"{sum(hits)} of {len(hits)} worlds",
        figure=sum(hits) / len(hits),
        unit="share",
        goal=None,
        n=len(hits),
    )
