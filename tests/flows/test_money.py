"""Money behind every door: the planted world in which tokens are saved and money is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from core.doors.cli import app
from core.doors.python import Learner, open_learner
from core.flows import queries
from core.records.arm import Arm
from core.records.bill import Spent
from core.records.run import Call, Run, Usage
from core.records.selection import Selection
from dashboard.sentences import Phrase, Sentence, gain
from dashboard.sentences import overview as sentences
from tests.worlds import START_MS, chosen_among, put_empty_database
from tests.worlds.caches import FULL, share_a_cache

ARMS = [Arm(key=f"tool:other:t{number}", token_cost=250) for number in range(30)]
TEN_MINUTES_MS = 600_000


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    ticks, seeds = count(), np.random.default_rng(7)
    put_empty_database(tmp_path / "a.db")
    clock, entropy = (lambda: START_MS + next(ticks) * TEN_MINUTES_MS), (lambda: int(seeds.integers(1 << 40)))
    with open_learner(tmp_path / "a.db", clock=clock, entropy=entropy) as learner:
        for name, value in {"baseline_rate": 0.3, "budget_tokens": 100_000, "k": 12}.items():
            learner.change(name, value)
        yield learner


def run_of(chosen: Selection, number: int, chance: np.random.Generator, *, split: bool) -> Run:
    """A run whose prompt is read from the cache if it has every arm, else written again."""
    prefix = 250 * len(chosen.included) + 12_000 + int(chance.integers(0, 3_000))
    read, write = (prefix, 0) if len(chosen.included) == len(ARMS) else (0, prefix)
    return chosen_among(
        f"r{number}",
        chosen,
        calls=(Call(name="t1"), Call(name=f"t{chance.integers(0, 5)}")),
        usage=Usage(input=400, output=300, cache_read=read, cache_write=write),
        bill=(Spent(input=400, output=300, cache_read=read, cache_write_5m=write),) if split else (),
        session=f"s{number // 2}",
        model="m",
        channel="api",
        ended_at_ms=START_MS + number * TEN_MINUTES_MS,
    )


def play(learner: Learner, prices: object, *, split: bool = True, n_runs: int = 300) -> None:
    learner.change("prices", prices)
    chance = np.random.default_rng(11)
    for first in range(0, n_runs, 20):
        learner.record_runs(
            [run_of(learner.select(ARMS), first + at, chance, split=split) for at in range(20)]
        )


def text_of(parts: Sentence) -> str:
    return "".join(part.text if isinstance(part, Phrase) else part for part in parts)


def test_tokens_are_saved_and_money_is_lost(learner: Learner, tmp_path: Path) -> None:
    play(learner, {"m": FULL})
    saved, seen = queries.savings(learner.context), queries.overview(learner.context)
    money = saved.money
    assert money is not None
    assert (saved.overall.verdict, money.verdict, money.is_estimated) == ("proven", "costs_more", False)
    assert money.baseline_mean == pytest.approx(0.0120, rel=0.02)
    assert money.selected_mean == pytest.approx(0.0678, rel=0.02)
    first = text_of(sentences.overview(seen, queries.savings(learner.context)))
    assert first.startswith("Choosing arms costs ")
    assert first.index("more money") < first.index("of tokens")
    assert "), proven. Choosing arms saves " in text_of(gain.headline(saved))
    (row,) = [item for item in seen.attention if item.kind == "costs_more"]
    assert row.severity == "critical"
    assert sentences.attention(row, saved, min_pulls=5).claim == "Selecting costs more money"

    def said(*words: str) -> str:
        answer = CliRunner().invoke(app, ["--database", str(tmp_path / "a.db"), *words])
        assert answer.exit_code == 0, answer.output
        return answer.output

    for command in ("savings", "status"):
        assert "no: it costs more, proven" in said(command)
        told = json.loads(said(command, "--json"))["money"]
        assert (told["verdict"], told["estimated"]) == ("costs_more", False)
        assert told["savings_percent"] == money.shown.value


def test_assumed_prices_and_splits_warn_and_prove_nothing(learner: Learner) -> None:
    play(learner, {"m": 3.0}, split=False)
    saved = queries.savings(learner.context)
    assert saved.money is not None
    assert (saved.money.verdict, saved.money.is_estimated) == ("costs_more", True)
    first = text_of(gain.headline(saved)).partition(" Choosing arms saves")[0]
    assert first.endswith("; not proven, since bills are estimated.")
    learner.change("prices", {"m": {**FULL, "cache_read": 30}})
    dearer = queries.savings(learner.context).money
    assert dearer is not None
    assert (dearer.verdict, dearer.reason) == ("not_proven", "estimated")
    assert (dearer.shown.lower or 0) > 0


def test_an_unknown_split_has_no_money_and_says_why(learner: Learner) -> None:
    learner.change("prices", {"m": FULL})
    for number in range(60):
        chosen = learner.select(ARMS)
        run = run_of(chosen, number, np.random.default_rng(number), split=False)
        learner.record_runs([replace(run, usage=Usage(total=9_000))])
    money = queries.savings(learner.context).money
    assert money is not None
    assert (money.verdict, money.shown.value, money.n_unbilled) == ("no_figure", None, 60)
    assert "money" not in text_of(
        sentences.overview(queries.overview(learner.context), queries.savings(learner.context))
    )


def test_a_draw_that_keeps_baseline_prompts_cold_proves_nothing(learner: Learner) -> None:
    """The full prompt on every request would cost less than half of what selecting costs."""
    for _ in share_a_cache(learner, gap_s=80):
        pass
    money = queries.savings(learner.context).money
    assert money is not None
    assert money.capped_percent.value is not None
    assert money.capped_percent.value > 20
    assert (money.verdict, money.reason) == ("not_proven", "cache")
    assert money.bound_percent is not None
    assert money.bound_percent.upper is not None
    assert money.bound_percent.upper < 0


def test_sessions_that_share_no_cache_have_no_bound(learner: Learner) -> None:
    for _ in share_a_cache(learner, gap_s=36_000):
        pass
    money = queries.savings(learner.context).money
    assert money is not None
    assert (money.verdict, money.bound_percent) == ("proven", None)
