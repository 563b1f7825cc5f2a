from __future__ import annotations

from typing import get_args

import numpy as np

from core.columns import UNKNOWN, ArmColumns
from core.maths.statistics.overview import AttentionKind, Overview, overview
from core.maths.statistics.savings import savings
from core.maths.statistics.summary import summarise
from core.records.learner import LearnerSettings
from tests.worlds.columns import arms
from tests.worlds.usage import Counted, group, usage_of

DAY = 20_000
HOUR = DAY * 24
MS_A_DAY = 86_400_000


def overview_of(
    runs: list[Counted],
    columns: ArmColumns | None = None,
    settings: LearnerSettings | None = None,
    recent: list[int] | None = None,
) -> Overview:
    heeded = LearnerSettings() if settings is None else settings
    held = arms([]) if columns is None else columns
    usage = usage_of(runs)
    saved = savings(usage, baseline_rate=heeded.baseline_rate, n_arms=len(held))
    included = None if recent is None else np.array(recent, dtype=np.int64)
    return overview(held, summarise(held), usage, saved, heeded, recent_inclusions=included)


def kinds(page: Overview) -> list[tuple[str, str, int]]:
    return [(item.kind, item.severity, item.count) for item in page.attention]


def many(counts: list[tuple[int, int]], last_at_ms: list[int] | None = None) -> ArmColumns:
    return arms(
        [f"tool:other:t{place:02d}" for place in range(len(counts))],
        successes=[good for good, _ in counts],
        failures=[bad for _, bad in counts],
        last_at_ms=last_at_ms,
    )


def test_an_empty_learner_needs_no_look() -> None:
    page = overview_of([])
    assert (page.n_runs, page.n_arms, page.n_pulls, page.data_end_ms) == (0, 0, 0, None)
    assert page.attention == ()


def test_arms_still_included_but_long_unobserved_are_stale() -> None:
    end = HOUR * 3_600_000
    columns = many(
        [(30, 0)] * 4, last_at_ms=[end - 15 * MS_A_DAY, end - 16 * MS_A_DAY, end - 13 * MS_A_DAY, UNKNOWN]
    )
    page = overview_of([Counted(hour=HOUR, run_class="imported")], columns)
    stale = next(item for item in page.attention if item.kind == "stale_arms")
    assert (stale.severity, stale.arms) == ("warning", ("tool:other:t01", "tool:other:t00"))
    left_out = overview_of([Counted(hour=HOUR, run_class="imported")], columns, recent=[3, 0, 3, 3])
    assert next(item for item in left_out.attention if item.kind == "stale_arms").arms == ("tool:other:t00",)
    assert page.data_end_ms == end


def test_everything_that_needs_a_look_is_listed_worst_first() -> None:
    runs = group("baseline", list(range(500, 540))) + group("selected", list(range(900, 1_300)))
    fair, unfair = (
        [Counted(run_class=run.run_class, tokens=run.tokens, prob=prob) for run in runs]
        + [Counted(tokens=None)] * 3
        for prob in (0.1, 0.5)
    )
    page = overview_of(fair, many([(0, 1), (0, 0), (9, 9)]))
    rest = [("under_explored", "notice", 2), ("unknown_usage", "info", 3)]
    assert kinds(page) == [("costs_more", "critical", 440), *rest]
    assert ("baseline_share_off", "warning", 440) in kinds(overview_of(unfair))
    assert page.attention[1].arms == ("tool:other:t01", "tool:other:t00")
    assert {item.kind for item in page.attention} <= set(get_args(AttentionKind))


def test_savings_are_called_unproven_only_while_something_is_selected() -> None:
    proven = group("baseline", list(range(900, 940)), prob=0.5)
    proven += group("selected", list(range(300, 340)), prob=0.5)
    assert kinds(overview_of(proven)) == []
    assert kinds(overview_of(proven[:20] + proven[40:])) == [("savings_not_proven", "notice", 60)]
    assert kinds(overview_of(group("selected", [5, 6]))) == [("no_baseline_runs", "notice", 2)]
    assert kinds(overview_of(group("imported", [5, 6]))) == [], "nobody tosses a coin for them"
    passive = overview_of(group("passive", [5, 6, 7]), settings=LearnerSettings(phase="passive"))
    assert kinds(passive) == [("passive", "info", 3)]


def test_mostly_unknown_usage_is_a_warning() -> None:
    runs = [*[Counted(run_class="selected", tokens=None)] * 3, Counted(run_class="selected")]
    assert ("unknown_usage", "warning", 3) in kinds(overview_of(runs))
