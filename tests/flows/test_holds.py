"""Holds: within a session the coin, the draw, the arms and their order stay, until the session was idle."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import explained, open_learner
from core.columns import HELD_COIN, UNKNOWN, is_held_coin, plain_prob
from core.errors import InvalidInput, InvalidSetting, UnknownLearner
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.learners import create_learner
from core.flows.offers import offer
from core.flows.queries.savings import used_in
from core.flows.select import select
from core.flows.settings import change, change_all, in_force
from core.flows.trials.plan import read_trial
from core.maths.policy import on_offer
from core.maths.statistics.cheapest import READ_RATIO, WRITE_RATIO
from core.maths.statistics.savings.baseline import baseline_share
from core.maths.statistics.savings.runs import ComparedRuns
from core.records.arm import Arm
from core.records.learner import LearnerSettings
from core.records.run import Call, Run, Usage
from core.records.run_query import View
from core.records.selection import Decision, Selection
from core.records.trial import Cell, TrialResults
from tests.worlds import START_MS, a_run, chosen_among, context_at
from tests.worlds.usage import Counted, sessions_of, usage_of

MINUTE_MS = 60_000
KEYS = [f"tool:other:t{number:02}" for number in range(30)]
ARMS = [Arm(key=key, token_cost=10) for key in KEYS]
N_FIT = 24
BUDGET = 10 * N_FIT

N_SESSIONS, N_RUNS = 40, 6


@dataclass
class Clock:
    now_ms: int = START_MS

    def __call__(self) -> int:
        return self.now_ms

    def pass_minutes(self, minutes: float) -> None:
        self.now_ms += round(minutes * MINUTE_MS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def context(tmp_path: Path, clock: Clock) -> Context:
    """An empty database, and a door of our own."""
    return replace(context_at(tmp_path / "a.db"), clock=clock, entropy=count(1).__next__).of_own_door()


def choose(context: Context, arms: list[Arm] | None = None, session: str | None = "s1") -> Selection:
    return select(context, ARMS if arms is None else arms, session=session, budget_tokens=BUDGET)


def stored(context: Context, uid: str) -> Selection:
    """The selection of a recorded run, with its guidance text."""
    story = queries.run(context, uid)
    assert story.selection is not None
    return msgspec.structs.replace(story.selection, guidance=story.guidance)


def run_with(uid: str, chosen: Selection, session: str | None = "s1", at_ms: int = START_MS) -> Run:
    return chosen_among(
        uid,
        chosen,
        session=session,
        calls=(Call(name=chosen.included[0].rpartition(":")[2]),),
        ended_at_ms=at_ms,
    )


def test_a_session_has_one_prompt_and_sessions_differ(context: Context, clock: Clock) -> None:
    first = choose(context)
    assert first.held_since_ms == START_MS
    assert len(first.included) == N_FIT
    for number in range(8):
        clock.pass_minutes(4)
        again = choose(context)
        assert again == first, "coin, seed, draws, arms and order"
        record(context, run_with(f"r{number}", again, at_ms=clock.now_ms))
    assert stored(context, "r7") == first
    assert len({choose(context, session=f"other {number}").included for number in range(8)}) == 8
    assert queries.verify(context).clean


@pytest.mark.parametrize("session", [None, "", "s1"])
def test_the_way_of_the_source_draws_on_each_request(context: Context, session: str | None) -> None:
    if session:
        change(context, "sticky", "run")
    drawn = [choose(context, session=session) for _ in range(8)]
    assert len({one.included for one in drawn}) == 8
    assert {one.held_since_ms for one in drawn} == {msgspec.UNSET}


def test_our_doors_create_learners_that_hold_and_other_programs_do_not(tmp_path: Path) -> None:
    own = context_at(tmp_path / "own.db").of_own_door()
    assert in_force(own).sticky == "session", "before it is created, too"
    record(own, a_run("r"))
    create_learner(own, "second")
    assert {in_force(own.of(name)).sticky for name in ("default", "second")} == {"session"}
    assert queries.setting_changes(own) == (), "it is no change of a setting"
    other = context_at(tmp_path / "other.db")
    offer(other, ARMS, session="s1")
    assert in_force(other).sticky == "run"
    assert choose(other.of_own_door()).held_since_ms is msgspec.UNSET, "a learner keeps what it began with"
    with open_learner(tmp_path / "door.db") as learner:
        assert learner.settings.sticky == "session"
        assert learner.select(["tool:fs:Read"], session="s1").held_since_ms is not msgspec.UNSET
        with learner.run(["tool:fs:Read"], session="s1") as run:
            assert run.selection == learner.select(["tool:fs:Read"], session="s1")


def test_a_hold_ends_when_its_session_was_idle(context: Context, clock: Clock) -> None:
    first = choose(context)
    clock.pass_minutes(5)
    assert choose(context) == first
    clock.pass_minutes(5)
    assert choose(context) == first, "it was used five minutes ago"
    clock.pass_minutes(5 + 1 / MINUTE_MS)
    second = choose(context)
    assert second.held_since_ms == clock.now_ms
    assert second.included != first.included
    change(context, "hold_minutes", 60)
    clock.pass_minutes(59)
    assert choose(context) == second
    clock.pass_minutes(30)
    record(context, run_with("long", second, at_ms=clock.now_ms))
    clock.pass_minutes(59)
    assert choose(context) == second, "the run used the cache until it ended"
    for wrong in (0, 1_441):
        with pytest.raises(InvalidSetting, match="hold_minutes must be a whole number from 1 to 1,440"):
            change(context, "hold_minutes", wrong)


def test_later_selections_only_read(context: Context, clock: Clock) -> None:
    first = choose(context)
    revision = queries.revision(context)
    clock.pass_minutes(0.2)
    assert choose(context) == first
    assert queries.revision(context) == revision
    clock.pass_minutes(0.2)
    assert choose(context) == first
    assert queries.revision(context) != revision, "its use is noted, so that the hold goes on"


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_candidates_that_come_later_are_appended_by_a_draw_of_their_own(
    context: Context, rate: float
) -> None:
    change(context, "baseline_rate", rate)
    few = ARMS[:20]
    first = choose(context, few)
    change(context, "baseline_rate", 1 - rate)
    grown = choose(context)
    assert grown.run_class == first.run_class == ("baseline" if rate else "selected")
    assert grown.baseline_prob == rate, "the coin belongs to the hold"
    assert grown.included[:20] == first.included
    assert len(grown.included) == N_FIT
    assert [one.reason for one in grown.decisions[N_FIT:]] == ["budget"] * 6
    assert grown.later is not msgspec.UNSET
    (draw,) = grown.later
    assert draw.n_arms == 10
    assert draw.seed != grown.seed == first.seed
    assert choose(context) == grown
    assert choose(context, few) == msgspec.structs.replace(first, later=grown.later)
    repeated = choose(context, list(reversed(ARMS)))
    assert repeated.keep([one.key for one in reversed(ARMS)]) == list(grown.included), (
        "in the order of the hold"
    )


def test_a_seed_that_comes_later_is_in_beyond_the_budget(context: Context) -> None:
    choose(context)
    seed = Arm(key="tool:fs:Read", token_cost=50)
    grown = choose(context, [*ARMS, seed])
    assert grown.decisions[-1].reason == "seed"
    assert grown.included == (*choose(context).included[: N_FIT - 5], seed.key)


@given(
    costs=st.lists(st.integers(0, 50), min_size=1, max_size=12),
    later=st.lists(st.integers(-1, 90), min_size=12, max_size=12),
    offered=st.lists(st.booleans(), min_size=12, max_size=12),
    budget=st.integers(0, 200),
    k=st.integers(0, 12),
    n_seeds=st.integers(0, 3),
    excluded=st.sets(st.integers(0, 13)),
    is_baseline=st.booleans(),
)
def test_what_holds_is_the_front_of_the_hold_that_fits(
    *,
    costs: list[int],
    later: list[int],
    offered: list[bool],
    budget: int,
    k: int,
    n_seeds: int,
    excluded: set[int],
    is_baseline: bool,
) -> None:
    """Law: what is in is the held order from its front, as long as it fits; seeds are in, excluded arms out."""
    rows = tuple(
        Decision(
            arm=KEYS[at],
            included=at < n_seeds or at % 3 != 1,
            reason="seed" if at < n_seeds else "budget" if at % 3 == 1 else "draw",
            rank=at + 1,
            token_cost=cost,
        )
        for at, cost in enumerate(costs)
    )
    held = Selection(
        run_class="baseline" if is_baseline else "selected",
        decisions=rows,
        seed="1",
        baseline_prob=0.5,
        settings_hash="",
        revision=1,
    )
    now = {KEYS[at]: later[at] for at in range(len(costs)) if offered[at]}
    out = tuple(KEYS[at] for at in sorted(excluded))
    heeded = LearnerSettings(budget_tokens=budget, k=k, excluded_arms=out)
    chosen = on_offer(held, now, heeded)
    offered_now = [one.arm for one in rows if one.arm in now]
    gone = [arm for arm in offered_now if arm in out]
    assert [one.arm for one in chosen.decisions] == [*(arm for arm in offered_now if arm not in out), *gone]
    assert [one.rank for one in chosen.decisions] == list(range(1, len(now) + 1))
    assert [(one.included, one.reason) for one in chosen.decisions if one.arm in out] == [
        (False, "excluded")
    ] * len(gone)
    left_out = [one for one in chosen.decisions if not one.included and one.arm not in out]
    assert chosen.truncated == (is_baseline and bool(left_out))
    in_hold = [one for one in rows if one.included and one.arm in now and one.arm not in out]
    seeds = [one.arm for one in in_hold if one.reason == "seed"]
    others = [one.arm for one in in_hold if one.reason != "seed"]
    assert chosen.included == (*seeds, *others[: len(chosen.included) - len(seeds)])

    def fits(arms: list[str]) -> bool:
        tokens = sum(max(now[arm], 0) for arm in arms if now[arm] != UNKNOWN)
        return (not budget or tokens <= budget) and (is_baseline or not k or len(arms) <= k)

    kept = list(chosen.included)
    assert fits(kept) or kept == seeds
    if len(kept) < len(in_hold):
        assert not fits([*seeds, *others[: len(kept) - len(seeds) + 1]])
    assert on_offer(chosen, now, heeded) == chosen


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_an_arm_that_is_excluded_leaves_the_hold_and_comes_back_with_the_undo(
    context: Context, rate: float
) -> None:
    change(context, "baseline_rate", rate)
    seed = Arm(key="tool:fs:Read", token_cost=10)
    first = choose(context, [*ARMS, seed])
    drawn = first.included[1]
    act = change_all(context, {"seed_arms": (), "excluded_arms": [seed.key, drawn, "tool:other:unknown"]})[
        1
    ].id
    without = choose(context, [*ARMS, seed])
    assert without.included == tuple(arm for arm in first.included if arm not in {seed.key, drawn})
    assert [one.arm for one in without.decisions[-2:]] == [seed.key, drawn]
    assert {one.reason for one in without.decisions[-2:]} == {"excluded"}
    assert without.guidance is not None
    assert "Read" in without.guidance
    record(context, run_with("without", without))
    assert stored(context, "without") == without
    story = queries.run(context, "without")
    assert not story.differs
    assert {explained.why(one) for one in story.arms if one.arm in {seed.key, drawn}} == {explained.EXCLUDED}
    later = Arm(key="tool:other:later", token_cost=0)
    change(context, "excluded_arms", [seed.key, drawn, later.key])
    grown = choose(context, [*ARMS, seed, later])
    assert grown.included == without.included
    assert grown.decisions[-1].reason == "excluded"
    record(context, run_with("fresh", choose(context, [*ARMS, seed], session=None)))
    fresh = queries.run(context, "fresh")
    assert fresh.replays
    flips = [explained.flip(one, fresh) for one in fresh.arms if one.reason == "excluded"]
    assert len(flips) == 2
    assert all(words.startswith("nothing") for words in flips)
    assert queries.verify(context).clean
    undo(context, queries.setting_changes(context)[0].id)
    undo(context, act or "")
    assert choose(context, [*ARMS, seed]).included == first.included, "nothing is drawn again"


def test_an_arm_that_is_not_offered_keeps_its_position(context: Context) -> None:
    first = choose(context)
    gone = first.included[3]
    without = choose(context, [arm for arm in ARMS if arm.key != gone])
    assert without.included == tuple(key for key in first.included if key != gone)
    assert choose(context) == first
    with pytest.raises(InvalidInput, match="what the selection decided on"):
        without.keep([gone])


def test_a_passive_learner_holds_nothing(context: Context) -> None:
    first = choose(context)
    act = change(context, "phase", "passive")
    assert choose(context).run_class == "passive"
    undo(context, str(act.id))
    assert choose(context) == first


def test_a_change_is_an_act_that_is_undone_and_an_export_has_it(context: Context, tmp_path: Path) -> None:
    choose(context)
    act = str(change(context, "sticky", "run").id)
    assert choose(context).held_since_ms is msgspec.UNSET
    undo(context, act)
    assert in_force(context).sticky == "session"
    assert queries.verify(context).clean
    assert exported(context, tmp_path / "began.jsonl", sticky="run").sticky == "session"
    redo(context, act)
    assert exported(context, tmp_path / "changed.jsonl", sticky="session").sticky == "run"
    preview = queries.preview_settings(context, {"sticky": "session"})
    assert (preview.before.sticky, preview.after.sticky) == ("run", "session")


def exported(context: Context, path: Path, *, sticky: str) -> LearnerSettings:
    """The settings of an export in another learner, which begins with another value."""
    record(context, a_run(path.stem))
    export_file(context, path)
    other = context_at(path.with_suffix(".db"))
    other = other.of_own_door() if sticky == "session" else other
    act = import_files(other, [path]).id
    settings = in_force(other)
    assert settings == in_force(context)
    undo(other, act)
    assert in_force(other).sticky == sticky
    redo(other, act)
    assert queries.verify(other).clean
    return settings


def test_a_run_of_a_hold_comes_back_from_an_export(context: Context, tmp_path: Path) -> None:
    choose(context, ARMS[:20])
    grown = choose(context)
    record(context, run_with("r", grown))
    export_file(context, tmp_path / "all.jsonl")
    other = context_at(tmp_path / "other.db")
    import_files(other, [tmp_path / "all.jsonl"])
    assert stored(other, "r") == stored(context, "r") == grown


def test_erasing_a_session_leaves_its_hold_under_a_number(context: Context) -> None:
    first = choose(context, session="mara at home")
    erase(context, session="mara at home")
    assert "mara at home" not in holds_of(context)
    assert choose(context, session="mara at home") == first
    assert "mara at home" not in holds_of(context)
    assert queries.verify(context).clean


def test_an_ended_hold_keeps_its_coin_and_times(context: Context, clock: Clock) -> None:
    first = choose(context)
    clock.pass_minutes(6)
    choose(context, session="s2")
    rows = list(holds_of(context).values())
    coin = (first.run_class, 100_000, first.seed, first.revision)
    assert rows[0] == ("s1", START_MS, START_MS, *coin, "")
    assert [row[0] for row in rows if row[-1]] == ["s2"]


@pytest.mark.of_file
def test_verify_names_a_hold_whose_coin_is_not_that_of_its_selection(
    context: Context, tmp_path: Path
) -> None:
    choose(context)
    with sqlite3.connect(tmp_path / "a.db") as driver:
        driver.execute("UPDATE hold SET prob_micro = 500000")
    ((_, difference),) = queries.verify(context).differences
    assert difference.table == "hold"


def test_what_cannot_be_held_is_refused(context: Context) -> None:
    with pytest.raises(InvalidInput, match="A session"):
        choose(context, session="x" * 10_000)
    with pytest.raises(UnknownLearner):
        select(context.of("nobody"), session="s1")
    assert select(context, session="s1").decisions == (), "nothing is known yet"


def test_a_preview_names_the_cheapest_prompt_at_the_rates_of_the_learner(
    context: Context, clock: Clock
) -> None:
    assert queries.preview_settings(context, {"sticky": "run"}).prompt_costs is None, "no run has a session"
    for number in range(4):
        clock.pass_minutes(30)
        for run in range(6):
            clock.pass_minutes(1)
            chosen = choose(context, session=f"s{number}")
            record(context, run_with(f"r{number} {run}", chosen, f"s{number}", clock.now_ms))
    costs = queries.preview_settings(context, {"sticky": "run", "budget_tokens": BUDGET}).prompt_costs
    assert costs is not None
    assert (costs.rates.n_spans, costs.rates.runs_per_session) == (4, 6.0)
    assert (costs.rates.calls_per_run, costs.rates.warm_share) == (2.0, 0.0)
    assert costs.cheapest == "held"
    assert queries.preview_settings(context, {"k": 3}).prompt_costs is None
    quick = queries.preview_settings(context, {"hold_minutes": 60}).prompt_costs
    assert quick is not None
    assert quick.rates.warm_share == 0.75, "all but the first session begin within an hour of another"
    assert (quick.read_ratio, quick.write_ratio) == (READ_RATIO, WRITE_RATIO)
    prices = {"m": {"input": 2, "cache_read": 1, "cache_write_5m": 3, "cache_write_1h": 8, "output": 9}}
    change(context, "prices", prices)
    short, long = (
        queries.preview_settings(context, {"hold_minutes": minutes}).prompt_costs for minutes in (4, 60)
    )
    assert short is not None is not long
    assert (short.read_ratio, short.write_ratio) == (0.5, 1.5)
    assert (long.read_ratio, long.write_ratio) == (0.5, 4.0)


def compared(context: Context, clock: Clock, sticky: str) -> None:
    """Sessions of some runs each, every second one of them without its name in the record."""
    for number in range(N_SESSIONS):
        clock.pass_minutes(10)
        for run in range(N_RUNS):
            chosen = choose(context, session=f"{sticky} {number}")
            session = None if number % 2 else f"{sticky} {number}"
            uid = f"{sticky} {number} {run}"
            record(context, replace_usage(run_with(uid, chosen, session, clock.now_ms), 1_000 + run))


def replace_usage(run: Run, tokens: int) -> Run:
    return msgspec.structs.replace(run, usage=Usage(total=tokens), model="m")


def test_savings_keep_holds_apart_and_count_each_coin_once(context: Context, clock: Clock) -> None:
    change(context, "baseline_rate", 0.5)
    compared(context, clock, "session")
    change(context, "sticky", "run")
    compared(context, clock, "run")
    assert queries.verify(context).clean
    with context.reading() as snapshot:
        used = used_in(snapshot, View())
    held = is_held_coin(used.sessions.prob_micro)
    assert int(held.sum()) == int((~held).sum()) == N_SESSIONS * N_RUNS
    assert set(plain_prob(used.usage.prob_micro).tolist()) == {500_000}
    runs = ComparedRuns(used.usage, used.sessions)
    assert [(model, is_held_coin(np.array([prob])).item()) for model, _, prob in runs.strata] == [
        ("m", False),
        ("m", True),
    ]
    assert runs.is_randomised.all(), "a coin of a hold is a coin of ours"
    by_session = {
        number: {
            run_class
            for own, run_class in zip(used.sessions.session, used.sessions.run_class, strict=True)
            if own == number
        }
        for number in set(used.sessions.session[held].tolist())
    }
    assert len(by_session) == N_SESSIONS, "one cluster a hold, though its session was not named"
    assert {len(classes) for classes in by_session.values()} == {1}
    share = queries.savings(context).share
    assert share.n_runs == N_SESSIONS + N_SESSIONS * N_RUNS
    assert share.expected == 0.5
    only = queries.savings(context, View(models=("other",))).share
    assert only.n_runs == 0


def test_selections_whose_run_never_came_are_counted_by_class(context: Context, clock: Clock) -> None:
    """A hold of the last day may still get its run."""
    change(context, "baseline_rate", 0.5)
    classes = []
    for number in range(60):
        clock.pass_minutes(60)
        chosen = choose(context, session=f"s{number}")
        classes.append(chosen.run_class)
        if chosen.run_class == "baseline" or number % 3:
            record(context, replace_usage(run_with(f"r{number}", chosen, None, clock.now_ms), 1_000))
    lost = queries.savings(context).lost
    due = classes[: lost.n_selections[0] + lost.n_selections[1]]
    assert 33 <= len(due) <= 36
    assert lost.n_selections == (due.count("baseline"), due.count("selected"))
    assert lost.n_lost == (0, sum(of == "selected" for of in due[::3]))
    assert queries.savings(context, View(since_ms=START_MS)).lost.n_selections == (0, 0)
    cells = [Cell(task=f"t{at}", repeat=1, side="with", session=f"s{at}") for at in range(0, 60, 3)]
    read_trial(context, TrialResults(source="lines", cells=tuple(cells)))
    assert queries.savings(context).lost.n_lost == (0, 0), "those of a trial's sessions are no losses"


@pytest.mark.parametrize("seed", range(3))
def test_a_fair_coin_of_holds_is_not_called_off(tmp_path: Path, seed: int) -> None:
    """By runs, 60 sessions of 30 runs at 10 % would be off in a third of all worlds."""
    dice = np.random.default_rng(seed)
    n_off = 0
    for _ in range(60):
        coins = dice.random(60) < 0.1
        runs = [
            Counted(
                run_class="baseline" if coin else "selected",
                prob=0.1 + HELD_COIN / 1e6,
                session=str(number),
                draw=str(number),
            )
            for number, coin in enumerate(coins.tolist())
            for _ in range(30)
        ]
        share = baseline_share(usage_of(runs), sessions_of(runs))
        assert (share.n_runs, share.n_baseline) == (60, int(coins.sum()))
        n_off += share.off
    assert n_off <= 3


def holds_of(context: Context) -> dict[object, tuple[object, ...]]:
    """The stored rows of holds by session."""
    columns = "session, began_ms, used_ms, class, prob_micro, seed, revision, choice"
    with context.store.database.reading() as connection:
        rows = connection.rows(f"SELECT {columns} FROM hold ORDER BY session")
    return {row[0]: tuple(row) for row in rows}
