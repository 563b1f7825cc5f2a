"""Assignment: a session has one side in one experiment, whichever way it selects, also if a process dies."""

from __future__ import annotations

import json
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.erase import erase
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.offers import offer, report
from core.flows.queries.savings import used_in
from core.flows.select import select
from core.flows.settings import change
from core.flows.trials.plan import read_trial
from core.records.arm import Arm
from core.records.offer import Report
from core.records.run_query import View
from core.records.selection import Selection
from core.records.trial import Cell, TrialResults
from core.store.experiments import assign, side_of
from core.store.transaction import Transaction
from tests.engine import named
from tests.worlds import HOUR_MS, IN_PARTS, START_MS, chosen_among, context_at
from tests.worlds.experiments import (
    SIDES,
    assigned_rows,
    by_coin,
    carried,
    check_sides,
    sides_of,
    start_experiment,
    stop_experiment,
)

ARMS = [Arm(key=f"tool:other:{name}", token_cost=10) for name in "abcdef"]
A, B = ARMS[0].key, ARMS[1].key
STEPS = st.tuples(
    st.sampled_from(
        ("select",) * 4 + ("few", "offer", "record", "start", "share", "stop", "exclude", "erase")
    ),
    st.integers(0, 4),
)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A learner with an experiment on the first arm."""
    built = context_at(tmp_path / "a.db")
    start_experiment(built, A)
    return built


def recorded(context: Context, uid: str, chosen: Selection, session: str | None = None) -> None:
    record(context, chosen_among(uid, chosen, session=session))


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(STEPS, min_size=5, max_size=25), sticky=st.sampled_from(["run", "session"]))
def test_a_session_keeps_its_side_whatever_is_done(steps: Sequence[tuple[str, int]], sticky: str) -> None:
    with TemporaryDirectory() as folder, closing((context := context_at(Path(folder) / "a.db")).store):
        change(context, "sticky", sticky)
        change(context, "k", 3)
        start_experiment(context, A)
        of: dict[str, list[Selection]] = defaultdict(list)
        erased = set()
        for at, (kind, which) in enumerate(steps):
            session = f"s{which}"
            if kind in {"select", "few"}:
                of[session].append(select(context, ARMS[kind == "few" :], session=session))
            elif kind == "offer" and (chosen := offer(context, ARMS, session=session).selection) is not None:
                of[session].append(chosen)
            elif kind == "record" and of[session]:
                recorded(context, f"r{at}", of[session][-1], session)
            elif kind == "start" and not which:
                start_experiment(context, B)
            elif kind in {"share", "stop"}:
                stop_experiment(context, 1, share=0.2 if kind == "share" else None)
            elif kind == "exclude":
                change(context, "excluded_arms", [A][which % 2 :])
            elif kind == "erase" and session in sides_of(context):
                erase(context, session=session)
                erased.add(session)
        sides = check_sides(context)
        for session in of.keys() - erased:
            answer = {(one.experiment, one.side) for each in of[session] if (one := carried(each))}
            assert [side for _, side in answer] == [sides[one] for one in [session] if one in sides]
        for chosen in (one for each in of.values() for one in each if one.experiment):
            assert chosen.experiment
            reasons = {one.reason for one in chosen.decisions if one.arm == chosen.experiment.arm}
            allowed = {"assigned", "k"} if chosen.experiment.side == "with" else {"held_out"}
            assert reasons <= {*allowed, "excluded"}
            assert (chosen.run_class, chosen.baseline_prob) == ("selected", 0)
            name = chosen.experiment.arm[-1]
            assert chosen.experiment.side == "with" or f'"{name}"' not in str(chosen.guidance)


def test_the_side_is_that_of_the_key_and_sessions_from_before_have_none(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    recorded(context, "r", select(context, ARMS, session="of a run"), "of a run")
    offer(context, ARMS, session="of an offer")
    change(context, "sticky", "session")
    select(context, ARMS, session="of a hold")
    cells = tuple(Cell(task="t", repeat=1, side=side, session=f"trial {side}") for side in SIDES)
    read_trial(context, TrialResults(source="x", arm=B, harness="h", cells=cells))
    start_experiment(context, A)
    for session in ("of a run", "of an offer", "of a hold", "trial with"):
        assert carried(select(context, ARMS, session=session)) is None, session
    sessions = [f"s{number}" for number in range(20)]
    for session in sessions:
        both = [carried(select(context, ARMS, session=session)) for _ in range(2)]
        assert [one and (one.side, one.chance_micro, one.n_fitting) for one in both] == [
            (by_coin(session), 500_000, 1)
        ] * 2
    assert check_sides(context) == {session: by_coin(session) for session in sessions}
    context.write("settings", lambda txn: txn.run("UPDATE assignment SET side = 'with' WHERE learner_id = ?"))
    for session in sessions:
        recorded(context, f"of {session}", select(context, ARMS, session=session), session)
    wrong = [one.key for _, one in queries.verify(context).differences if "its coin" in one.recomputed]
    assert {*wrong} <= {str(at) for at, one in enumerate(sessions, 1) if by_coin(one) == "without"}
    assert wrong


def test_a_side_is_in_force_until_its_time_is_over(tmp_path: Path) -> None:
    now = [START_MS]
    context = replace(context_at(tmp_path / "a.db"), clock=lambda: now[0])
    start_experiment(context, A)
    first = carried(select(context, ARMS, session="s"))
    assert first is not None
    now[0] += 24 * HOUR_MS
    assert carried(select(context, ARMS, session="s")) == first
    now[0] += 1
    later = select(context, ARMS, session="s")
    assert carried(later) == msgspec.structs.replace(first, in_force=False)
    assert {one.reason for one in later.decisions} <= {"draw", "under_explored"}
    assert len(assigned_rows(context)) == 1


def test_a_run_without_a_session_is_a_unit_by_its_seed(context: Context) -> None:
    chosen = [select(context, ARMS) for _ in range(12)]
    assert not assigned_rows(context), "the row is the run's"
    for number, one in enumerate(chosen[:8]):
        for _ in range(2):
            recorded(context, f"r{number}", one)
    for number, one in enumerate(chosen[8:]):
        recorded(context, f"late {number}", one, "late")
    expected = {f"r{at}": by_coin(f"seed:{one.seed}") for at, one in enumerate(chosen[:8])}
    assert sides_of(context) == expected | {"late": by_coin(f"seed:{chosen[8].seed}")}
    recorded(context, "before", select(context, ARMS[1:]), "known")
    recorded(context, "after", chosen[1], "known")
    own = next(one for one in map(carried, chosen) if one is not None and one.side == "with")
    forged = msgspec.structs.replace(chosen[0], experiment=msgspec.structs.replace(own, side="without"))
    seeds = (one.seed for one in chosen if by_coin(f"seed:{one.seed}") == "with")
    recorded(context, "forged", msgspec.structs.replace(forged, seed=next(seeds)), "forged")
    assert sides_of(context).keys() == {*expected, "late"}, "it had a run before; no coin has that side"


def test_an_offer_has_the_side_of_its_session_and_one_without_is_of_its_run(context: Context) -> None:
    expected = {}
    for session in ("s1", "s1", "s2", None, None):
        chosen = offer(context, ARMS, session=session).selection
        assert chosen is not None
        answer = report(context, Report(arm=chosen.included[-1], value=1.0, session=session))
        expected[session or str(answer.run)] = by_coin(session or f"seed:{chosen.seed}")
    assert check_sides(context) == expected
    for clock in (context.clock, lambda: START_MS + 50 * HOUR_MS):  # closes those without a report
        offer(replace(context, clock=clock), ARMS)
    with context.store.reading(context.learner) as snapshot:
        assert used_in(snapshot, View()).left.n == (0, 0), "no coin decided them"


@pytest.mark.parametrize("is_staged", [False, True])
def test_an_import_writes_the_rows_of_sides_that_travelled(
    context: Context, tmp_path: Path, is_staged: bool
) -> None:
    chosen, other = [select(context, ARMS) for _ in range(9)], context_at(tmp_path / "b.db")
    for number, one in enumerate(chosen):
        recorded(other, f"r{number}", one, f"s{number // 2}" if number < 6 else None)
    export_file(other, tmp_path / "b.jsonl")
    here = replace(context, pace=IN_PARTS) if is_staged else context
    expected = {f"s{number}": by_coin(f"seed:{chosen[2 * number].seed}") for number in range(3)}
    expected |= {f"r{number}": by_coin(f"seed:{chosen[number].seed}") for number in range(6, 9)}
    for _ in range(2):
        imported = import_files(here, [tmp_path / "b.jsonl"])
        assert sides_of(context) == expected
        undo(context, str(imported.id))
        assert queries.verify(context).clean


# Kills, and two processes


def child(work: Callable[[], object]) -> int:
    """Run something in a process of its own."""
    number = os.fork()
    if number == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return number


def ended(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def assigned_and_dead(txn: Transaction, session: str) -> None:
    sided = side_of(txn, session, [A], seed=1, now_ms=txn.now_ms)
    assert sided is not None
    assign(txn, sided, session=session)
    die()


@pytest.mark.parametrize("when", ["in the write", "after the select", "before the record"])
def test_a_session_whose_process_dies_keeps_its_side(context: Context, when: str) -> None:
    def selects(session: str) -> None:
        own = context_at(named(context.store))
        if when == "in the write":
            own.write("select", lambda txn: assigned_and_dead(txn, session))
        select(own, ARMS, session=session)
        if when == "before the record":
            own.write("ingest", die)
        die()

    sessions = [f"s{number}" for number in range(4)]
    for session in sessions:
        n_before = len(assigned_rows(context))
        assert ended(child(partial(selects, session))) == -signal.SIGKILL
        assert len(assigned_rows(context)) - n_before == (when != "in the write")
        for number in range(2):
            recorded(context, f"{session}-{number}", select(context, ARMS, session=session), session)
    assert check_sides(context) == {session: by_coin(session) for session in sessions}


def test_two_processes_assign_a_session_once(context: Context, tmp_path: Path) -> None:
    sessions = [f"s{number}" for number in range(15)]

    def selects(number: int) -> None:
        own, answer = context_at(named(context.store)), {}
        for session in sessions:
            chosen = select(own, ARMS, session=session)
            answer[session] = chosen.experiment.side if chosen.experiment else None
            recorded(own, f"r{number}-{session}", chosen, session)
        (tmp_path / f"{number}.json").write_text(json.dumps(answer))

    children = [child(partial(selects, number)) for number in range(2)]
    assert [ended(number) for number in children] == [0, 0]
    sides = check_sides(context)
    assert sides == {session: by_coin(session) for session in sessions}
    assert [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2)] == [sides] * 2
