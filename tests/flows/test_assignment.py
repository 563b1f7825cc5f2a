"""Assignment: a session has one side in one experiment, whichever way it selects, also if a process dies."""

from __future__ import annotations

import hmac
import json
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
from core.records.experiment import Assigned
from core.records.offer import Report
from core.records.run_query import View
from core.records.selection import Selection
from core.records.trial import Cell, TrialResults, TrialSide
from core.store.experiments import assign, side_of
from core.store.transaction import Transaction
from tests.engine import named
from tests.worlds import HOUR_MS, IN_PARTS, START_MS, chosen_among, context_at, is_clean
from tests.worlds.experiments import KEY, assigned_rows, sides_of, start_experiment, stop_experiment

ARMS = [Arm(key=f"tool:other:{name}", token_cost=10) for name in "abcdef"]
A, B = ARMS[0].key, ARMS[1].key
WITHOUT_A = ARMS[1:]
SIDES: tuple[TrialSide, TrialSide] = ("with", "without")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A learner with an experiment on the first arm."""
    built = context_at(tmp_path / "a.db")
    start_experiment(built, A)
    return built


def by_key(unit: str, share: float = 0.5) -> TrialSide:
    """Return the side of a unit, as the key has it."""
    first = hmac.digest(bytes.fromhex(KEY), unit.encode(), "sha256")[:8]
    return SIDES[int.from_bytes(first, "big") * 1_000_000 >= round(share * 1_000_000) << 64]


def carried(chosen: Selection) -> Assigned | None:
    return chosen.experiment or None


def decided(chosen: Selection, arm: str = A) -> tuple[bool, str]:
    return next((one.included, one.reason) for one in chosen.decisions if one.arm == arm)


def recorded(context: Context, uid: str, chosen: Selection, session: str | None = None) -> None:
    record(context, chosen_among(uid, chosen, session=session))


STEPS = st.tuples(
    st.sampled_from(
        [*["select"] * 4, "select others", "offer", "record", "start", "share", "stop", "exclude", "erase"]
    ),
    st.integers(0, 4),
)


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(STEPS, min_size=5, max_size=25), sticky=st.sampled_from(["run", "session"]))
def test_a_session_keeps_its_side_whatever_is_done(steps: Sequence[tuple[str, int]], sticky: str) -> None:
    with TemporaryDirectory() as folder, closing(context_at(Path(folder) / "a.db").store) as store:
        context = replace(context_at(Path(folder) / "a.db"), store=store)
        change(context, "sticky", sticky)
        change(context, "k", 3)
        number = start_experiment(context, A)
        of: dict[str, list[Selection]] = defaultdict(list)
        erased: set[str] = set()
        n_running = 1
        for at, (kind, which) in enumerate(steps):
            session = f"s{which}"
            if kind.startswith("select"):
                of[session].append(select(context, WITHOUT_A if "others" in kind else ARMS, session=session))
            elif kind == "offer":
                chosen = offer(context, ARMS, session=session).selection
                assert chosen is not None
                of[session].append(chosen)
            elif kind == "record" and of[session]:
                recorded(context, f"r{at}", of[session][-1], session)
            elif kind == "start" and n_running < 3:
                n_running += 1
                start_experiment(context, B)
            elif kind in {"share", "stop"}:
                stop_experiment(context, number, share=0.2 if kind == "share" else None)
            elif kind == "exclude":
                change(context, "excluded_arms", [] if which % 2 else [A])
            elif kind == "erase" and session in sides_of(context):
                erase(context, session=session)
                erased.add(session)
        rows = sides_of(context)
        for session, chosen_ones in of.items():
            known = {(one.experiment, one.side) for chosen in chosen_ones if (one := carried(chosen))}
            assert len(known) <= 1
            if session not in erased:
                assert {side for _, side in known} == {rows[name] for name in rows if name == session}
        check(context, of)


def check(context: Context, of: dict[str, list[Selection]]) -> None:
    """The store is as it says, and each run has what was handed out and replays."""
    verified = queries.verify(context)
    assert verified.clean, verified.differences
    assert not verified.not_replayed or any(one.later for all_of in of.values() for one in all_of)
    for row in queries.runs(context):
        assert queries.run(context, row.uid).replays is not False
    for chosen in (one for all_of in of.values() for one in all_of):
        assigned = carried(chosen)
        if assigned is None:
            continue
        assert chosen.run_class == "selected"
        assert chosen.baseline_prob == 0
        included, reason = (
            decided(chosen, assigned.arm)
            if assigned.arm in [one.arm for one in chosen.decisions]
            else (False, "excluded")
        )
        assert (included, reason) in {
            "with": [(True, "assigned"), (False, "k"), (False, "excluded")],
            "without": [(False, "held_out"), (False, "excluded")],
        }[assigned.side]
        name = assigned.arm.rpartition(":")[2]
        assert (assigned.side == "with") or f'"{name}"' not in str(chosen.guidance)


def test_the_side_is_that_of_the_key_and_sessions_from_before_have_none(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    recorded(context, "r", select(context, ARMS, session="of a run"), "of a run")
    offer(context, ARMS, session="of an offer")
    select(context.of_own_door(), ARMS, session="of no hold")
    change(context, "sticky", "session")
    select(context, ARMS, session="of a hold")
    task = TrialResults(
        source="x",
        arm=B,
        harness="h",
        cells=(
            Cell(task="t", repeat=1, side="with", session="of a trial"),
            Cell(task="t", repeat=1, side="without", session="u"),
        ),
    )
    read_trial(context, task)
    start_experiment(context, A)
    for session in ("of a run", "of an offer", "of a hold", "of a trial"):
        assert carried(select(context, ARMS, session=session)) is None, session
    sessions = ["of no hold", *(f"s{number}" for number in range(20))]
    for session in sessions:
        assert carried(select(context, WITHOUT_A, session=session)) is None
        first, again = (select(context, ARMS, session=f"{session}!") for _ in range(2))
        side = by_key(f"{session}!")
        assert (assigned := carried(first)) is not None
        assert (assigned.side, assigned.chance_micro, assigned.n_fitting) == (side, 500_000, 1)
        assert (
            decided(first) == decided(again) == (side == "with", "assigned" if side == "with" else "held_out")
        )
    assert sides_of(context) == {f"{session}!": by_key(f"{session}!") for session in sessions}
    assert is_clean(context)


def test_a_side_is_known_until_its_time_is_over(tmp_path: Path) -> None:
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
    assert decided(later)[1] not in {"assigned", "held_out"}
    assert len(assigned_rows(context)) == 1


# Without a session


def test_a_run_without_a_session_is_a_unit_by_its_seed(context: Context) -> None:
    for number in range(12):
        chosen = select(context, ARMS)
        assigned = carried(chosen)
        assert assigned is not None
        assert assigned.side == by_key(f"seed:{chosen.seed}")
        assert len(assigned_rows(context)) == number, "the row is the run's"
        recorded(context, f"r{number}", chosen)
        recorded(context, f"r{number}", chosen)
        row = assigned_rows(context)[-1]
        assert (row.session, row.run, row.side) == ("", f"r{number}", assigned.side)
    assert is_clean(context)


def test_a_session_that_is_named_later_has_the_side_of_its_first_selection(context: Context) -> None:
    chosen = [select(context, ARMS) for _ in range(8)]
    sides = {one.experiment.side for one in chosen if one.experiment}
    assert sides == {*SIDES}
    for number, one in enumerate(chosen):
        recorded(context, f"r{number}", one, "late")
    assert sides_of(context) == {"late": chosen[0].experiment.side if chosen[0].experiment else None}
    assert (answer := carried(select(context, ARMS, session="late"))) is not None
    assert answer.side == sides_of(context)["late"]
    recorded(context, "before", chosen_without(context), "known")
    recorded(context, "after", chosen[1], "known")
    assert "known" not in sides_of(context), "it had a run before"
    forged = next(one for one in chosen if one.experiment and one.experiment.side == "with")
    assert forged.experiment
    other = msgspec.structs.replace(forged.experiment, side="without")
    recorded(context, "forged", msgspec.structs.replace(forged, experiment=other), "forged")
    assert "forged" not in sides_of(context), "it is not the side of its seed"
    assert is_clean(context)


def chosen_without(context: Context) -> Selection:
    return select(context, WITHOUT_A)


# Offers


def test_an_offer_has_the_side_of_its_session_and_one_without_is_of_its_run(context: Context) -> None:
    for session in ("s1", "s1", "s2", None, None):
        chosen = offer(context, ARMS, session=session).selection
        assert chosen is not None
        assigned = carried(chosen)
        assert assigned is not None
        assert assigned.side == by_key(session or f"seed:{chosen.seed}")
        answer = report(context, Report(arm=chosen.included[-1], value=1.0, session=session))
        assert answer.run is not None
        story = queries.run(context, answer.run)
        assert story.selection is not None
        assert carried(story.selection) == assigned
    rows = assigned_rows(context)
    assert [row.session for row in rows] == ["s1", "s2", "", ""]
    assert [bool(row.run) for row in rows] == [False, False, True, True]
    for _ in range(3):
        offer(context, ARMS)  # closes those that nothing was reported of, two hours later
        later = replace(context, clock=lambda: START_MS + 50 * HOUR_MS)
    offer(later, ARMS)
    with context.store.reading(context.learner) as snapshot:
        assert used_in(snapshot, View()).left.n == (0, 0), "no coin decided them"
    assert is_clean(context)


# Imports


@pytest.mark.parametrize("is_staged", [False, True])
def test_an_import_writes_the_rows_of_sides_that_travelled(
    context: Context, tmp_path: Path, is_staged: bool
) -> None:
    chosen = [select(context, ARMS) for _ in range(9)]
    other = context_at(tmp_path / "b.db")
    for number, one in enumerate(chosen):
        recorded(other, f"r{number}", one, f"s{number // 2}" if number < 6 else None)
    export_file(other, tmp_path / "b.jsonl")
    pace = IN_PARTS if is_staged else context.pace
    imported = import_files(replace(context, pace=pace), [tmp_path / "b.jsonl"])
    expected = {f"s{number}": by_key(f"seed:{chosen[2 * number].seed}") for number in range(3)}
    expected |= {f"r{number}": by_key(f"seed:{chosen[number].seed}") for number in range(6, 9)}
    assert sides_of(context) == expected
    assert imported.id is not None
    undo(context, imported.id)
    import_files(replace(context, pace=pace), [tmp_path / "b.jsonl"])
    assert sides_of(context) == expected
    assert is_clean(context)


def test_verify_finds_a_side_that_is_not_that_of_its_coin(context: Context) -> None:
    for number in range(6):
        recorded(context, f"r{number}", select(context, ARMS, session=f"s{number}"), f"s{number}")
    assert is_clean(context)
    context.write("settings", lambda txn: txn.run("UPDATE assignment SET side = 'with' WHERE learner_id = ?"))
    differences = [one for _, one in queries.verify(context).differences]
    wrong = [one for one in differences if one.recomputed == "the side of its coin"]
    flipped = [row for row in assigned_rows(context) if by_key(row.session) == "without"]
    assert flipped
    assert len(wrong) <= len(flipped)
    assert {one.key for one in wrong} <= {str(1 + int(row.session[1:])) for row in flipped}


# Kills, and two processes


def child(work: Callable[[], object]) -> int:
    """Run something in a process of its own, and return the signal or code that ended it."""
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


@pytest.mark.parametrize("when", ["after the select", "in the write", "before the record"])
def test_a_session_whose_process_dies_keeps_its_side(context: Context, when: str) -> None:
    path = named(context.store)

    def selects(session: str) -> None:
        own = context_at(path)
        if when == "in the write":
            own.write("select", lambda txn: assigned_and_dead(txn, session))
        chosen = select(own, ARMS, session=session)
        if when == "before the record":
            own.write("ingest", die)
        die(chosen)

    for number in range(4):
        session = f"s{number}"
        assert ended(child(lambda session=session: selects(session))) == -signal.SIGKILL  # type: ignore[misc]
        n_rows = 0 if when == "in the write" else 1
        assert [row.session for row in assigned_rows(context)][number:] == [session] * n_rows
        chosen = select(context, ARMS, session=session)
        assert sides_of(context)[session] == by_key(session)
        recorded(context, f"r{number}", chosen, session)
        assert (again := carried(select(context, ARMS, session=session))) is not None
        assert again.side == by_key(session)
    assert len(assigned_rows(context)) == 4
    assert is_clean(context)


def assigned_and_dead(txn: Transaction, session: str) -> None:
    sided = side_of(txn, session, [A], seed=1, now_ms=txn.now_ms)
    assert sided is not None
    assign(txn, sided, session=session)
    die()


def test_two_processes_assign_a_session_once(context: Context, tmp_path: Path) -> None:
    path = named(context.store)
    sessions = [f"s{number}" for number in range(15)]

    def selects(number: int) -> None:
        own = replace(context_at(path), entropy=lambda: 1_000 * number)
        answer: dict[str, Any] = {}
        for at, session in enumerate(sessions):
            chosen = select(own, ARMS, session=session)
            answer[session] = msgspec.to_builtins(chosen.experiment)
            recorded(own, f"r{number}-{at}", chosen, session)
        (tmp_path / f"{number}.json").write_text(json.dumps(answer))

    numbers = [child(lambda number=number: selects(number)) for number in range(2)]  # type: ignore[misc]
    assert [ended(number) for number in numbers] == [0, 0]
    answer = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2)]
    assert answer[0] == answer[1]
    assert {session: one["side"] for session, one in answer[0].items()} == sides_of(context)
    assert sides_of(context) == {session: by_key(session) for session in sessions}
    assert is_clean(context)
