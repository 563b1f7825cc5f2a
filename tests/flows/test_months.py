"""What the attention list says of months with a planted cause, and of quiet ones."""

from __future__ import annotations

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import reward
from core.flows.queries.overview import alarms
from core.maths.statistics.overview import Attention
from core.records.times import DAY_MS
from tests.worlds.months import ARMS, FIRST_DAY, PLANTED, QUIET, Played, at_end_of, looks

USUAL = {"savings_not_proven", "no_baseline_runs"}
"""What a learner without enough baseline runs says on all days."""


def rows_at(context: Context, world: str, *ends: int, seed: int) -> list[tuple[Attention, ...]]:
    """Rows at the end of these days of a world, without the usual ones."""
    plan = PLANTED[world] if world in PLANTED else QUIET[world]
    seen = [
        rows
        for _, rows in looks(
            context, Played(plan, seed), range(ends[0], ends[-1] + 1, (ends[-1] - ends[0]) or 1)
        )
    ]
    return [tuple(row for row in rows if row.kind not in USUAL) for rows in seen]


@pytest.mark.parametrize(("world", "seed"), [("mixabrupt", 31), ("mixabrupt", 32), ("mix", 33)])
def test_another_mix_is_one_row_that_names_the_channel(context: Context, world: str, seed: int) -> None:
    ((row,),) = rows_at(context, world, 57, seed=seed)
    assert row.cause is not None
    assert (row.kind, row.severity, row.cause.of, row.cause.name) == (
        "mix_changed",
        "notice",
        "channel",
        "chat",
    )
    assert row.cause.before < 0.2
    assert row.cause.after > 0.35
    judged = queries.judgements(context)
    assert {one.name for one in judged.values()}.isdisjoint({"drifting", "rising", "poisoned"})


@pytest.mark.parametrize("seed", [34, 35])
def test_a_new_model_is_one_row_that_names_it(context: Context, seed: int) -> None:
    ((row,),) = rows_at(context, "modelswitch", 54, seed=seed)
    assert row.cause is not None
    assert (row.kind, row.severity, row.cause.name) == ("new_model", "warning", "m2")
    assert row.since_ms == (FIRST_DAY + 45) * DAY_MS
    assert set(row.arms) == {arm.key for arm in ARMS[:8]}


@pytest.mark.parametrize("seed", [36, 37])
def test_one_type_that_falls_by_one_factor_is_poisoned(context: Context, seed: int) -> None:
    ((row,),) = rows_at(context, "poisonpart", 57, seed=seed)
    assert (row.kind, row.severity) == ("poisoned", "critical")
    assert all(arm.startswith("skill:") for arm in row.arms)
    assert len(row.arms) >= 4
    assert row.evidence is not None
    assert row.evidence.mean_before is not None
    assert 0.1 < row.evidence.mean / row.evidence.mean_before < 0.35
    assert [(one.kind, one.object) for one in alarms(at_end_of(context, 57))] == [("poisoned", "skill")]


@pytest.mark.parametrize("seed", [38, 39, 40])
def test_a_channel_that_stops_is_named_with_what_was_due(context: Context, seed: int) -> None:
    played = Played(PLANTED["feedstop"], seed)
    found = {
        day: [row for row in rows if row.kind == "feed_silent"]
        for day, rows in looks(context, played, range(49, 60, 10))
    }
    assert found[50] == []
    (row,) = found[60]
    (feed,) = row.feeds
    assert (feed.kind, feed.name, row.count) == ("channel", "slack", 12)
    assert feed.since_ms == (FIRST_DAY + 48) * DAY_MS
    assert 150 < feed.expected < 240
    (alarm,) = alarms(at_end_of(context, 59))
    assert (alarm.kind, alarm.object, alarm.count) == ("feed_silent", "channel slack", 12)


@pytest.mark.parametrize("seed", [41, 42])
def test_a_months_end_is_one_row_the_first_time_and_none_the_second(context: Context, seed: int) -> None:
    first, second = rows_at(context, "monthend", 28, 58, seed=seed)
    (row,) = first
    assert row.kind == "fell_together"
    assert len(row.arms) >= 3
    assert second == ()


def test_rejections_by_a_person_are_no_poison(context: Context) -> None:
    """From day 52 two skills are in no prompt, and one person rejects each of them 15 times a day."""
    rows_at(context, "two left out", 59, seed=43)
    for number in range(8 * 15):
        later = at_end_of(context, 51 + number // 15)
        for arm in ARMS[5:7]:
            reward(later, arm.key, 0.0)
    rows = queries.overview(at_end_of(context, 59)).attention
    assert {row.kind for row in rows} <= USUAL | {"rewards_apart"}, "the row about the person names them"


@pytest.mark.parametrize("world", ["no weekend", "three channels, one rare", "sessions alike"])
def test_a_quiet_month_needs_no_look(context: Context, world: str) -> None:
    rows = rows_at(context, world, 45, 59, seed=44)
    assert {row.kind for one in rows for row in one} == set()
