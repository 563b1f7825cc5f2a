"""Missed use: a random run of each session that had an arm, and the rate of those that needed it without a use."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from core.errors import InvalidInput
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.previewed_items import frozen
from core.flows.queues import add_queue, missed_use, missed_use_of, propose_queue, queues, rubrics
from core.flows.review import next_item, submit, view_item
from core.flows.trials.plan import read_trial
from core.installed.answer import spared
from core.records.arm import Arm
from core.records.inventory import CarriedItem, InstalledItem, ItemUse, MachineInventory
from core.records.review import NEEDED, QueueAsks
from core.records.run import Inventory, Run
from core.records.run_query import RunFilter
from tests.dashboard.conftest import Open, texts
from tests.flows.test_trials import results_of
from tests.worlds import a_run, context_at

A = "tool:other:a"
ASKS = QueueAsks(source="unused", wanted=RunFilter(arm=A), limit=60)
BY_NAME = Inventory(kind="declared", arms=(Arm(key="tool:other:b"),), named=(Arm(key=A),))


def worlds(
    seed: int, n: int = 200, *, need: float = 0.5, missed: float = 0.3, alike: float = 0.5
) -> list[Run]:
    """Return runs in sessions of one to three; the uid of one that needed the arm begins with ``need``.

    A session's runs need the arm alike with the chance ``alike``. A part of them has the arm by name.
    """
    random, runs = Random(seed), list[Run]()
    for session in range(n):
        first = random.random() < need
        for number in range(random.choice((1, 1, 2, 3))):
            is_needed = first if random.random() < alike else random.random() < need
            calls = ("a",) if is_needed and random.random() >= missed else ()
            uid = f"{'need' if is_needed else 'free'}-{session}-{number}"
            inventory = BY_NAME if session % 2 else None
            runs.append(replace(a_run(uid, calls=calls, inventory=inventory), session=f"s{session}"))
    return runs


def judged(context: Context, queue: str, at_most: int = 1_000) -> int:
    """Answer the items by what the uid says; return how many."""
    taken = next_item(context, queue)
    for n in range(at_most):
        if taken.item is None:
            return n
        level = 2 if taken.item.subject.run.startswith("need") else 1
        taken = submit(context, queue, taken.item.item, level=level).next
    return at_most


def test_a_queue_asks_about_one_run_of_each_session_that_did_not_use_the_arm(tmp_path: Path) -> None:
    context, runs = context_at(tmp_path / "a.db"), worlds(1)
    record_all(context, runs)
    queue = add_queue(context, "missed", replace(ASKS, limit=20))
    (row,) = queues(context)
    sessions = [one.session for one in runs]
    subjects = [view_item(context, queue.id, number).subject for number in range(1, queue.n_items + 1)]
    by_uid = {one.uid: one for one in runs}
    assert {(one.arm, bool(by_uid[one.run].calls)) for one in subjects} == {(A, False)}
    assert max(Counter(by_uid[one.run].session for one in subjects).values()) == 1
    used, chance = row.asks.used, row.asks.chance
    assert used is not None
    assert chance is not None
    assert (row.asks.order, row.asks.about, row.rubric) == ("random", "arm", NEEDED.version)
    assert used + round(queue.n_items / chance) == len(set(sessions))


def test_the_answers_move_no_arm_and_are_counted_once(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    record_all(context, worlds(2))
    before = queries.posteriors(context)
    queue = add_queue(context, "missed", ASKS)
    assert missed_use(context)[A].rate.value is None
    assert judged(context, queue.id, 40) == 40
    shown = missed_use(context)[A]
    (row,) = queues(context)
    assert row.missed == shown
    assert (shown.n_judged, shown.n_items, shown.queue) == (40, 60, queue.id)
    assert row.asks.used is not None
    n_used = row.asks.used * (row.asks.chance or 0) * 40 / 60
    assert shown.rate.value == pytest.approx(shown.n_needed / (shown.n_needed + n_used))
    assert shown.is_frequent
    assert queries.posteriors(context) == before, "an answer says nothing of what the arm did"
    low = QueueAsks(source="low", about="arm", below=1.0)
    with pytest.raises(InvalidInput, match="got none of the source low"):
        add_queue(context, "low", low)
    assert queries.verify(context).clean
    export_file(context, tmp_path / "all.jsonl")
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "all.jsonl"])
    assert missed_use(other)[A] == shown, "a file has all of it"
    undo(context, queue.id)
    assert missed_use(context) == {}
    assert [one.rubric for one in rubrics(context)] == [NEEDED]


def test_people_who_are_divided_did_not_find_it_needed(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    record_all(context, [a_run(f"need-{number}", calls=()) for number in range(12)])
    queue = add_queue(context, "missed", ASKS, n_reviewers=2)
    for number in range(12):
        for rater, outcome in (("ann", "success"), ("bob", "success" if number else "failure")):
            evaluate(context, f"need-{number}", outcome, arm=A, rubric=NEEDED.version, rater=rater)  # type: ignore[arg-type]
    shown = missed_use(context)[A]
    assert (shown.n_judged, shown.n_needed, shown.queue) == (12, 11, queue.id)
    assert (shown.rate.value, shown.rate.upper) == (1, 1)


@pytest.mark.parametrize(("need", "missed"), [(0.5, 0.3), (0.3, 0.15), (0.8, 0.6)])
def test_the_interval_covers_the_planted_rate(tmp_path: Path, need: float, missed: float) -> None:
    covered = list[bool]()
    for world in range(20):
        context = context_at(tmp_path / f"{world}.db")
        record_all(context, worlds(world, 150, need=need, missed=missed))
        with context.reading() as snapshot:
            for seed in range(10):
                sample = frozen(snapshot, replace(ASKS, seed=str(seed), limit=(20, 60, 150)[seed % 3]))
                uids: dict[int, str] = dict(
                    snapshot.rows("SELECT run_no, uid FROM run WHERE learner_id = ?", [])
                )
                answers = [uids[one.about.run_no].startswith("need") for one in sample.items]
                lower, upper = missed_use_of(sample.asks, answers, len(answers)).limits or (0, 1)
                covered.append(lower <= missed <= upper)
        context.store.close()
    assert sum(covered) >= 0.95 * len(covered)


def test_nothing_proposes_to_take_out_what_is_missed() -> None:
    named = {"name": "pdf", "agent": "a", "path": "", "state": "in full", "carried": 9}
    items = [
        InstalledItem(kind="skill", **named),  # type: ignore[arg-type]
        InstalledItem(kind="skill", **named | {"name": "other"}),  # type: ignore[arg-type]
        InstalledItem(kind="server", **named | {"name": "git"}),  # type: ignore[arg-type]
    ]
    carried = [
        CarriedItem(item=one, use=ItemUse(offered=90), at_most=0.1, proposal="by name", why="")
        for one in items
    ]
    whole = MachineInventory(
        sentence="", notes=(), items=tuple(carried), sessions=90, oldest_ms=None, loaded=3, used=0, carried=27
    )
    after = spared(whole, {"skill:pdf:main", "tool:other:mcp__git__log"})
    assert [one.proposal for one in after.items] == [None, "by name", None]
    assert [one.use is None for one in after.items] == [True, False, True], (
        "nor does a list of what can go out"
    )


def test_the_page_of_an_arm_says_it_and_never_excludes(open_page: Open, database: Path) -> None:
    context = context_at(database)
    record_all(context, worlds(3))
    queue = add_queue(context, "missed", ASKS)
    read_trial(context, replace(results_of(solves="without"), arm=A))
    assert any(one.key == "do exclusion" for one in open_page("arm", arm=A).button)
    judged(context, queue.id)
    page = open_page("arm", arm=A)
    (sentence,) = (text for text in texts(page) if text.startswith("Missed use"))
    shape = (
        r"Missed use: \d+% of the sessions that needed it \(\d+–\d+%, the exact 95% interval by Clopper and Pearson;"
        r" one run a session, 60 of 60 judged in queue-1\). \*\*Say better when to use it.\*\*"
    )
    assert re.fullmatch(shape, sentence)
    assert not any(one.key == "do exclusion" for one in page.button)


def test_an_arm_that_is_always_used_or_not_named_has_no_queue(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    record_all(context, [a_run("r1")])
    with pytest.raises(InvalidInput, match="got none of the source unused"):
        add_queue(context, "missed", ASKS)
    with pytest.raises(InvalidInput, match="The source unused must come with an arm, got none"):
        propose_queue(context, QueueAsks(source="unused"))
    with pytest.raises(InvalidInput, match="rubric must be left out of the source unused, got 'v2'"):
        add_queue(context, "missed", ASKS, rubric="v2")
