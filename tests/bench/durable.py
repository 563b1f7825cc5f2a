"""Durable: one run, one reward, a batch of rewards, each on disk when it returns, against the driver alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from core.flows.context import Context
from core.flows.learn import record, record_all, reward, reward_all
from core.records.observation import RewardOrder
from core.records.run import Inventory, Run
from tests.bench import bare
from tests.bench.harness import Row, Scale, pairs
from tests.bench.worlds import N_ARMS, context_at, runs

N_OBSERVED: Final = 18
_WARM: Final = 20

_PARTS: dict[int, Inventory] = {}


def one_run(scale: Scale, folder: Path) -> list[Row]:
    """30 arms, 18 of them in the prompt and observed."""
    n = scale.n_durable_pairs + 1
    told = [partly(run) for run in runs(_WARM + n)]
    warm = _warmed(folder / "warm.db", told[:_WARM])
    twin = context_at(bare.copied(warm, folder / "twin.db"))
    for run in told[_WARM:]:
        record(twin, run)
    twin.store.close()
    acts = bare.acts_of_runs(folder / "twin.db", after=_WARM)
    context = context_at(bare.copied(warm, folder / "ours.db"))
    driver = bare.connect(bare.copied(warm, folder / "base.db"))
    timed = pairs(
        lambda number: bare.write(driver, acts[number]),
        lambda number: record(context, told[_WARM + number]),
        n - 1,
        collect=False,
    )
    _close(context, driver)
    _check(folder)
    return [timed.row("one run, durable", "the same rows as driver statements", 1.7)]


def one_reward(scale: Scale, folder: Path) -> list[Row]:
    """One manual reward with its audit entry."""
    n = scale.n_durable_pairs + 1
    asked = orders(n)
    warm = _warmed(folder / "warm.db", list(runs(_WARM)))
    twin = context_at(bare.copied(warm, folder / "twin.db"))
    for order in asked:
        reward(twin, order.arm, order.value, reason=order.reason)
    twin.store.close()
    acts = bare.acts_of_rewards(folder / "twin.db")
    context = context_at(bare.copied(warm, folder / "ours.db"))
    driver = bare.connect(bare.copied(warm, folder / "base.db"))
    timed = pairs(
        lambda number: bare.write(driver, acts[number]),
        lambda number: reward(context, asked[number].arm, asked[number].value, reason=asked[number].reason),
        n - 1,
        collect=False,
    )
    _close(context, driver)
    _check(folder)
    return [timed.row("one reward, durable, audited", "the same rows as driver statements", 1.6)]


def batch_of_rewards(scale: Scale, folder: Path) -> list[Row]:
    """Many rewards in one transaction, each with its audit entry and its answer."""
    n = scale.n_batch_rewards
    batches = [orders(n, seed=number) for number in range(scale.n_batch_pairs + 1)]
    warm = _warmed(folder / "warm.db", list(runs(_WARM)))
    twin = context_at(bare.copied(warm, folder / "twin.db"))
    for batch in batches:
        reward_all(twin, batch)
    twin.store.close()
    single = bare.acts_of_rewards(folder / "twin.db")
    acts = [bare.joined(single[number * n : (number + 1) * n]) for number in range(len(batches))]
    context = context_at(bare.copied(warm, folder / "ours.db"))
    driver = bare.connect(bare.copied(warm, folder / "base.db"))
    timed = pairs(
        lambda number: bare.write(driver, acts[number]),
        lambda number: reward_all(context, batches[number]),
        scale.n_batch_pairs,
    )
    _close(context, driver)
    _check(folder)
    return [timed.row(f"{n:,} rewards in one batch", "the same rows as driver statements, one batch", 2.0)]


def _warmed(path: Path, told: list[Run]) -> Path:
    context = context_at(path)
    record_all(context, told)
    context.store.close()
    return path


def partly(run: Run) -> Run:
    """The run with its last arms left out of the prompt."""
    arms = run.inventory.arms
    kept = _PARTS.setdefault(id(run.inventory), Inventory(kind="declared", arms=arms[:N_OBSERVED]))
    excluded = tuple([arm.key for arm in arms[N_OBSERVED:N_ARMS]])
    return msgspec.structs.replace(run, inventory=kept, excluded=excluded, calls=run.calls)


def orders(n: int, *, seed: int = 0) -> list[RewardOrder]:
    """Rewards of arms drawn by the seed."""
    random = Random(seed)
    return [
        RewardOrder(
            arm=f"tool:other:tool_{random.randrange(N_ARMS):05}",
            value=random.randrange(101) / 100,
            reason="seen in review",
        )
        for _ in range(n)
    ]


def _close(context: Context, driver: sqlite3.Connection) -> None:
    context.store.close()
    driver.close()


def _check(folder: Path) -> None:
    different = bare.differing(folder / "base.db", folder / "ours.db")
    if different:
        raise AssertionError(f"base and ours must write the same, but differ in {', '.join(different)}")
