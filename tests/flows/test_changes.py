"""Changes of arms through the real flows: what is read of sessions and rivals, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from core import explained
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import reset
from core.flows.learn import record_all, reward
from core.flows.queries.judgement import changes_in
from core.flows.queries.overview import alarms
from core.maths.statistics.change import Shift
from core.maths.statistics.overview import Attention
from core.records.run import Call, Run
from core.records.run_query import View
from core.records.selection import Decision, Selection
from core.records.times import DAY_MS
from core.store import reads
from tests.worlds import HOUR_MS, START_MS, a_run, acting, context_at, tools
from tests.worlds.months import ARMS, FIRST_DAY, PLANTED, QUIET, Played, at_end_of, looks

OLD, NEW = "tool:other:search_b", "tool:other:search_a"
DAY_0 = START_MS - START_MS % DAY_MS
USUAL = {"savings_not_proven", "no_baseline_runs"}
"""What a learner without enough baseline runs says on all days."""
DAYS, RELEASE, PER_DAY = 56, 46, 28
AFTER, BEFORE = "tool:other:new", "tool:other:t0"


def shifts(context: Context, view: View = View()) -> tuple[Shift, ...]:  # noqa: B008 - frozen
    with context.reading() as snapshot:
        columns = queries.belief(context, View(until_ms=view.until_ms)).columns
        end_ms = reads.totals(snapshot).last_at_ms if view.until_ms is None else view.until_ms
        return changes_in(snapshot, columns, view, end_ms, lambda _: None)[0].shifts


def searched(
    *,
    joins: bool = True,
    share: float = 1.0,
    takes: float = 0.7,
    becomes: float | None = None,
    used_anyway: float = 0.0,
    seed: int = 3,
    by_us: bool = True,
) -> list[Run]:
    """600 runs over 30 days that search in four of five. From the middle on a newcomer is offered in a ``share`` of
    them and takes the work of so many (or is used ``used_anyway``, whatever the older one does); the need may change.
    """
    rng = np.random.default_rng(seed)
    runs = []
    for number in range(600):
        is_late = number >= 300
        is_offered = joins and is_late and rng.random() < share
        need = becomes if becomes is not None and is_late else 0.8
        calls = ["bash"]
        if rng.random() < need:
            calls.append("search_a" if is_offered and rng.random() < takes else "search_b")
        if is_offered and rng.random() < used_anyway:
            calls.append("search_a")
        arms = ("bash", "search_b", *(("search_a",) if is_offered else ()))
        run = a_run(f"r{number}", arms, calls, at_ms=DAY_0 + number * DAY_MS // 20)
        is_out = by_us and joins and is_late and not is_offered
        runs.append(left_out(run, NEW) if is_out else run)
    return runs


def left_out(run: Run, arm: str) -> Run:
    """Return the run as one whose own draw left an arm out."""
    rows = [
        Decision(arm=key, included=key != arm, reason="draw" if key != arm else "k", rank=rank, token_cost=0)
        for rank, key in enumerate([*(one.key for one in run.inventory.arms), arm], start=1)
    ]
    chosen = Selection(
        run_class="selected",
        decisions=tuple(rows),
        seed="1",
        baseline_prob=0.1,
        settings_hash="0" * 16,
        revision=0,
    )
    return msgspec.structs.replace(run, run_class="selected", excluded=(arm,), selection=chosen)


@pytest.mark.parametrize(
    ("share", "by_us", "kind"), [(1.0, True, "drifting"), (0.5, False, "drifting"), (0.5, True, "rival")]
)
@pytest.mark.parametrize("takes", [0.7, 1.0])
def test_a_fall_since_a_rival_joined_names_it(
    context: Context, share: float, by_us: bool, kind: str, takes: float
) -> None:
    """Runs that our own draws left the rival out of show that it takes most of the work, or all."""
    record_all(context, searched(share=share, takes=takes, by_us=by_us))
    (shift,) = shifts(context)
    assert (shift.arm, shift.kind) == (OLD, kind)
    assert (shift.rivals, shift.joined) == (((NEW,), ()) if kind == "rival" else ((), (NEW,)))
    assert abs(shift.since_ms - (DAY_0 + 15 * DAY_MS)) <= 2 * DAY_MS


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_drift_stays_one_when_something_joins_that_takes_no_work(context: Context, share: float) -> None:
    record_all(context, searched(share=share, takes=0.0, becomes=0.4, used_anyway=0.6))
    assert [(shift.arm, shift.kind) for shift in shifts(context)] == [(OLD, "drifting")]


def test_an_arm_of_the_same_day_is_nobodys_rival(context: Context) -> None:
    """Two that were there from the first day share the work all along; then the need falls."""
    rng = np.random.default_rng(1)
    runs = []
    for number in range(240):
        used = [] if rng.random() > (0.9 if number < 100 else 0.3) else [("search_a", "search_b")[number % 2]]
        runs.append(
            a_run(
                f"r{number}",
                ("bash", "search_a", "search_b"),
                ["bash", *used],
                at_ms=DAY_0 + number * 3 * HOUR_MS,
            )
        )
    record_all(context, runs)
    shown = shifts(context)
    assert len(shown) == 2
    assert {shift.kind for shift in shown} == {"drifting"}


def clustered(n_sessions: int, size: int) -> list[Run]:
    """The same 120 runs of 24 days, of which the last third fails, in sessions of one or of many."""
    return [
        Run(
            uid=f"r{number}",
            inventory=tools("bash", "a"),
            calls=(Call(name="bash"), *((Call(name="a"),) if number < 80 else ())),
            ended_at_ms=DAY_0 + number * DAY_MS // 5,
            session=f"s{number // size % n_sessions}",
        )
        for number in range(120)
    ]


def test_runs_of_a_few_sessions_prove_no_change(context: Context, tmp_path: Path) -> None:
    record_all(context, clustered(120, 1))
    assert [shift.arm for shift in shifts(context)] == ["tool:other:a"]
    few = context_at(tmp_path / "b.db")
    record_all(few, clustered(3, 40))
    assert shifts(few) == ()


def test_sessions_are_read_as_they_stand_in_the_present_epoch(context: Context) -> None:
    """Of the arm's runs since its reset, dated ones only; what people gave is no session."""
    runs = clustered(60, 2)
    record_all(context, runs[:40])
    reset(context, arms=["tool:other:a"])
    record_all(context, [*runs[40:60], msgspec.structs.replace(runs[60], ended_at_ms=None)])
    for person in ("mara", "jon"):
        for _ in range(2):
            reward(acting(context, name=person), "tool:other:a", 0.5)
    columns = queries.belief(context).columns
    with context.reading() as snapshot:
        walk = reads.walk(snapshot, columns)
        shown = reads.arm_sessions(snapshot, columns, np.array([columns.places["tool:other:a"]]), walk)
    n = (shown.success_micro + shown.failure_micro) / 1e6
    assert sorted(n.tolist()) == [2.0] * 10
    assert shown.since_day is None
    assert shown.success_micro.sum() == 20_000_000
    with context.reading() as snapshot:
        none = reads.arm_sessions(snapshot, columns, np.empty(0, dtype=np.int64), walk)
    assert len(none.arm) == 0


def test_as_of_an_earlier_day_a_later_change_is_not_known(context: Context) -> None:
    record_all(context, searched(joins=False, becomes=0.3))
    assert [shift.kind for shift in shifts(context)] == ["drifting"]
    assert shifts(context, View(until_ms=DAY_0 + 15 * DAY_MS)) == ()
    (early,) = shifts(context, View(until_ms=DAY_0 + 20 * DAY_MS))
    assert early.n_after <= 5 * 24


def test_what_people_give_is_no_change_of_the_arm(context: Context) -> None:
    """60 rejections of one arm and 60 corrections of another, all on the last days; their runs go on as before."""
    record_all(context, searched(joins=False))
    later = replace(context, clock=lambda: DAY_0 + 29 * DAY_MS)
    for number in range(60):
        reward(later, OLD, 0.0)
        reward(later, "tool:other:bash", 0.0, run=f"r{500 + number}")
    assert shifts(context) == ()
    assert shifts(context, View(until_ms=DAY_0 + 30 * DAY_MS)) == ()


def test_praise_does_not_hide_a_fall(context: Context) -> None:
    """The shift of the runs is the same, to the last digit, with and without 200 accepts by hand."""
    record_all(context, searched(joins=False, becomes=0.3))
    before = shifts(context)
    later = replace(context, clock=lambda: DAY_0 + 29 * DAY_MS)
    for _ in range(200):
        reward(later, OLD, 1.0)
    assert [shift.kind for shift in before] == ["drifting"]
    assert shifts(context) == before
    (early,) = shifts(context, View(until_ms=DAY_0 + 30 * DAY_MS))
    assert (early.n_after, early.mean_after) == (before[0].n_after, before[0].mean_after)


def in_channels(chat_later: float, *, becomes: float = 1.0, seed: int = 4) -> list[Run]:
    """900 runs over 30 days; chat needs the tool less, its share goes from .1 to another; all rates may change."""
    rng = np.random.default_rng(seed)
    runs = []
    for number in range(900):
        is_late = number >= 540
        is_chat = rng.random() < (chat_later if is_late else 0.1)
        rate = (0.25 if is_chat else 0.8) * (becomes if is_late else 1.0)
        run = a_run(
            f"r{number}",
            ("bash", "search_b"),
            ["bash", *(["search_b"] if rng.random() < rate else [])],
            at_ms=DAY_0 + number * DAY_MS // 30,
        )
        runs.append(msgspec.structs.replace(run, channel="chat" if is_chat else "web"))
    return runs


@pytest.mark.parametrize("seed", range(3))
def test_another_mix_of_channels_is_no_change_of_an_arm(context: Context, seed: int) -> None:
    record_all(context, in_channels(0.7, seed=seed))
    assert shifts(context) == ()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chat_later", [0.1, 0.5])
def test_a_change_in_every_channel_is_one_whatever_the_mix(
    context: Context, chat_later: float, seed: int
) -> None:
    record_all(context, in_channels(chat_later, becomes=0.5, seed=seed))
    (shown,) = shifts(context)
    assert (shown.arm, shown.kind) == (OLD, "drifting")
    assert abs(shown.since_ms - (DAY_0 + 18 * DAY_MS)) <= 3 * DAY_MS


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


def released(seed: int, *, with_new: str = "all", breaks: str = "AB", n_days: int = DAYS) -> list[Run]:
    """Runs of tasks A and B in equal parts. On one day a tool joins and an old tool breaks in some tasks.

    ``with_new``: the prompts that the new tool joins: all, those of "A", half at random ("half"), or none before the
    next noon ("noon").
    """
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.25, 0.8, 5)
    runs = []
    for number in range(n_days * PER_DAY):
        at = number / PER_DAY
        task, late = "AB"[int(rng.random() < 0.5)], at >= RELEASE
        used = [f"t{n}" for n in range(1, 5) if rng.random() < rates[n]]
        usual = {"A": (0.2, 0.05), "B": (0.9, 0.5)}[task]
        if rng.random() < usual[late and task in breaks]:
            used.append("t0")
        joins = {
            "all": late,
            "A": late and task == "A",
            "half": late and rng.random() < 0.5,
            "noon": at >= RELEASE + 0.5,
        }
        if joins[with_new] and rng.random() < (0.85 if task == "A" else 0.1):
            used.append("new")
        names = (*(f"t{n}" for n in range(5)), *(("new",) if joins[with_new] else ()))
        runs.append(a_run(f"r{number}", names, used or ["t1"], at_ms=DAY_0 + int(at * DAY_MS)))
    return runs


@pytest.mark.parametrize("with_new", ["all", "A", "half", "noon"])
@pytest.mark.parametrize("seed", range(4))
def test_a_coincidence_names_both_and_took_no_work(context: Context, with_new: str, seed: int) -> None:
    record_all(context, released(seed, with_new=with_new))
    judged = queries.judgements(context)
    assert "rival" not in {one.name for one in judged.values()}
    if judged[BEFORE].name == "drifting":
        assert judged[BEFORE].others == (AFTER,)
        assert explained.judgement(judged[BEFORE], since="then").startswith(
            explained.arm.JOINED.format("new")
        )
