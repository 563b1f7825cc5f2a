"""Each source apart: what runs showed, what people and graders gave, and sums that add up to the belief."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.evaluate import evaluate
from core.flows.learn import record, record_all, reward, reward_all
from core.flows.review import take_back
from core.records.actor import Actor
from core.records.judgement import Judgement
from core.records.observation import RewardOrder
from core.records.run_query import View
from core.records.times import DAY_MS
from dashboard.sentences import Phrase
from dashboard.sentences import judgement as sentences
from tests.flows.sources import check_sources
from tests.worlds import START_MS, a_run

A, B = "tool:other:a", "tool:other:b"


def judged(context: Context, arm: str) -> Judgement:
    check_sources(context)
    return queries.judgements(context)[arm]


def title(one: Judgement) -> str:
    return "".join(part.text if isinstance(part, Phrase) else part for part in sentences.arm(one))


def means(one: Judgement) -> dict[str, tuple[int, float]]:
    return {part.source: (part.n, part.mean or 0.0) for part in one.sources if part.n}


# The table of the finding


def test_accepts_without_a_run_are_no_references(context: Context) -> None:
    reward(context, "skill:review:main", 1.0, create=True)
    for _ in range(29):
        reward(context, "skill:review:main", 1.0)
    found = judged(context, "skill:review:main")
    assert (found.n_observed, means(found)) == (0, {"person": (30, 1.0)})
    assert title(found).startswith("Observed in no")


def test_accepts_do_not_hide_that_a_tool_is_never_referenced(context: Context) -> None:
    record_all(context, [a_run(f"r{number}", arms=("a", "b"), calls=("a",)) for number in range(40)])
    for _ in range(40):
        reward(context, B, 1.0)
    found = judged(context, B)
    assert (found.name, found.n_referenced, found.n_observed) == ("never_referenced", 0, 40)
    assert means(found) == {"detector": (40, 0.0), "person": (40, 1.0)}
    assert "Not used once in 40" in title(found)


def test_rejections_do_not_make_an_arm_never_referenced(context: Context) -> None:
    reward(context, B, 0.0, create=True)
    for _ in range(29):
        reward(context, B, 0.0)
    assert judged(context, B).name != "never_referenced"


def test_failures_of_graders_are_no_runs(context: Context) -> None:
    for number in range(30):
        record(context, a_run(f"r{number}", arms=("a",)))
        evaluate(context, f"r{number}", "failure", score=0.9, rater="mara", arm=A)
    found = judged(context, A)
    assert (found.n_referenced, found.n_observed) == (30, 30)
    assert means(found) == {"detector": (30, 1.0), "grader": (30, 0.0)}


def test_a_prior_is_no_reference(context: Context) -> None:
    record_all(
        context,
        [a_run(f"r{at}", arms=("a", "b"), calls=("b", "a") if at < 2 else ("b",)) for at in range(22)],
    )
    found = judged(context, A)
    assert (found.n_referenced, found.n_observed) == (2, 22)
    assert "2 of 22" in title(found)
    assert "Believed used: 0.19." in title(found)


# Every kind, corrections, epochs, undo


# Random worlds


@pytest.mark.parametrize("seed", range(4))
def test_the_share_in_every_title_is_that_of_the_rows(context: Context, seed: int) -> None:
    """250 arms a world: runs, rewards, corrections and evaluations at random."""
    rng = np.random.default_rng(seed)
    names = [f"n{number}" for number in range(250)]
    rates = rng.beta(0.7, 1.2, len(names))
    runs = []
    for number in range(60):
        inside = rng.random(len(names)) < 0.5
        calls = [
            name
            for name, is_in, rate in zip(names, inside, rates, strict=True)
            if is_in and rng.random() < rate
        ]
        arms = [name for name, is_in in zip(names, inside, strict=True) if is_in]
        runs.append(a_run(f"r{number}", arms=arms, calls=calls[: rng.integers(0, 40)]))
    record_all(context, runs)
    by_run = {run.uid: [arm.key for arm in run.inventory.arms] for run in runs if run.calls}
    for _ in range(120):
        uid = str(rng.choice(list(by_run)))
        arm = str(rng.choice(by_run[uid]))
        value = float(rng.choice([0.0, 1.0, 0.37]))
        if rng.random() < 0.3:
            evaluate(context, uid, "success", score=value, rater="mara", arm=arm)
        else:
            reward(context, arm, value, run=uid, correct=bool(rng.random() < 0.5))
    check_sources(context)
    with context.reading() as snapshot:
        rows = snapshot.connection.rows(
            "SELECT a.key, sum(CASE WHEN o.flags & 4 <> 0 THEN 1 ELSE 0 END),"
            " sum(CASE WHEN o.flags & 6 = 6 THEN 1 ELSE 0 END) FROM outcome o JOIN arm a"
            " ON a.learner_id = o.learner_id AND a.arm_no = o.arm_no WHERE o.learner_id = ? GROUP BY a.key",
            [snapshot.learner_id],
        )
    found = queries.judgements(context)
    assert len(rows) == len(names)
    for arm, n, referenced in rows:
        used = f"Used in {referenced} of {n} runs" if referenced else f"Not used once in {n} runs"
        share = used if n else "Observed in no run"
        assert title(found[arm]).startswith(share) == bool(n or found[arm].pulls)


# What people gave, in the list of what needs a look


def month(context: Context, n_days: int = 30) -> None:
    record_all(
        context,
        [
            a_run(
                f"d{day}-{number}", calls=("a",) if number % 5 < 3 else ("b",), at_ms=START_MS + day * DAY_MS
            )
            for day in range(n_days)
            for number in range(10)
        ],
    )


def at(context: Context, at_ms: int, who: str = "rita") -> Context:
    return replace(context, actor=Actor(name=who, role="operator"), clock=lambda: at_ms)


def manual_rows(context: Context) -> list[tuple[str, str, tuple[str, ...], int]]:
    items = queries.overview(context).attention
    return [(one.kind, one.manual.actor, one.arms, one.count) for one in items if one.manual is not None]


def test_a_burst_is_one_row_with_its_undo(context: Context) -> None:
    month(context)
    before = queries.posteriors(context)
    for second in range(3):
        orders = [RewardOrder(arm=A, value=float(number % 10 == 0)) for number in range(100)]
        reward_all(at(context, START_MS + 20 * DAY_MS + second * 60_000), orders)
    assert manual_rows(context) == [("reward_burst", "rita", (A,), 300)]
    (row,) = [one.manual for one in queries.overview(context).attention if one.manual is not None]
    assert (row.minutes, round(row.before, 2)) == (2, 0.6)
    assert row.after == {one.arm: one.mean for one in queries.posteriors(context)}[A]
    assert take_back(context, row.acts).count == 300
    assert manual_rows(context) == []
    assert [one.mean for one in queries.posteriors(context)] == [one.mean for one in before]
    assert queries.verify(context).clean


def test_an_account_that_rejects_daily_is_one_row(context: Context) -> None:
    month(context)
    for day in range(5, 30):
        for who, value in (("rita", 0.0), ("ann", 0.6)):
            reward_all(at(context, START_MS + day * DAY_MS, who), [RewardOrder(arm=A, value=value)] * 3)
    assert manual_rows(context) == [("rewards_apart", "rita", (A,), 75)]
    view = View(until_ms=START_MS + 10 * DAY_MS)
    assert [one for one in queries.overview(context, view).attention if one.manual is not None] == []
