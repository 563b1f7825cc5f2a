"""Missed use: a random run of each session that had an arm, and the rate of those that needed it without a use."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from core.errors import InvalidInput
from core.flows import queries
from core.flows.corrections import undo
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.previewed_items import frozen
from core.flows.queues import add_queue, missed_use, missed_use_of, propose_queue, queues
from core.flows.review import view_item
from core.flows.trials.plan import read_trial
from core.installed.answer import spared
from core.records.arm import Arm
from core.records.inventory import CarriedItem, InstalledItem, ItemKind, ItemUse, MachineInventory
from core.records.review import NEEDED, QueueAsks
from core.records.run import Inventory, Run
from core.records.run_query import RunFilter
from tests.dashboard.conftest import Open, texts
from tests.flows.test_trials import results_of
from tests.worlds import a_run, context_at
from tests.worlds.reviewers import judge_all

A = "tool:other:a"
ASKS = QueueAsks(source="unused", wanted=RunFilter(arm=A), limit=60)
BY_NAME = Inventory(kind="declared", arms=(Arm(key="tool:other:b"),), named=(Arm(key=A),))


def world(seed: int, need: float = 0.5, missed: float = 0.3) -> list[Run]:
    """Return runs in 150 sessions of one to three; the uid of one that needed the arm begins with ``need``.

    Half of the runs need the arm just if their session does. Every other session has the arm by name.
    """
    random, runs = Random(seed), list[Run]()
    for session in range(150):
        first = random.random() < need
        for number in range(random.choice((1, 1, 2, 3))):
            is_needed = first if random.random() < 0.5 else random.random() < need
            calls = ("a",) if is_needed and random.random() >= missed else ()
            uid = f"{'need' if is_needed else 'free'}-{session}-{number}"
            run = a_run(uid, calls=calls, inventory=BY_NAME if session % 2 else None)
            runs.append(replace(run, session=f"s{session}"))
    return runs


def test_one_run_of_each_session_is_asked_about_and_answers_move_no_arm(tmp_path: Path) -> None:
    context, by_uid = context_at(tmp_path / "a.db"), {one.uid: one for one in world(1)}
    record_all(context, [*by_uid.values()])
    before = queries.posteriors(context)
    queue = add_queue(context, "missed", ASKS)
    (row,) = queues(context)
    asks = row.asks
    assert (asks.order, asks.about, row.rubric, queue.n_items) == ("random", "arm", NEEDED.version, 60)
    n_sessions = len({one.session for one in by_uid.values()})
    assert (asks.used or 0) + round(60 / (asks.chance or 1)) == n_sessions
    subjects = [view_item(context, queue.id, number).subject for number in range(1, 61)]
    assert {(one.arm, bool(by_uid[one.run].calls)) for one in subjects} == {(A, False)}
    assert max(Counter(by_uid[one.run].session for one in subjects).values()) == 1
    assert missed_use(context)[A].rate.value is None
    assert len(judge_all(context, queue.id, level=2)) == 60
    for one in subjects[:20]:
        evaluate(context, one.run, "failure", arm=A, rubric=NEEDED.version)
    shown = missed_use(context)[A]
    assert (shown.n_judged, shown.n_needed, queues(context)[0].missed) == (60, 40, shown)
    assert shown.rate.value == pytest.approx(40 / (40 + (asks.used or 0) * (asks.chance or 0)))
    assert queries.posteriors(context) == before, "an answer says nothing of what the arm did"
    assert propose_queue(context, QueueAsks(source="low", about="arm", below=1.0)).n == 0
    assert queries.verify(context).clean
    export_file(context, tmp_path / "all.jsonl")
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "all.jsonl"])
    assert missed_use(other)[A] == shown, "a file has all of it"
    undo(context, queue.id)
    assert missed_use(context) == {}


@pytest.mark.parametrize(("need", "missed"), [(0.5, 0.3), (0.3, 0.15), (0.8, 0.6)])
def test_the_interval_covers_the_planted_rate(tmp_path: Path, need: float, missed: float) -> None:
    covered = list[bool]()
    for seed in range(25):
        context = context_at(tmp_path / f"{seed}.db")
        record_all(context, world(seed, need, missed))
        with context.reading() as snapshot:
            rows = snapshot.rows("SELECT run_no, uid FROM run WHERE learner_id = ?", [])
            needed = {run_no for run_no, uid in rows if uid.startswith("need")}
            for limit in (20, 40, 80, 150):
                sample = frozen(snapshot, replace(ASKS, seed=f"{seed} {limit}", limit=limit))
                answers = [one.about.run_no in needed for one in sample.items]
                lower, upper = missed_use_of(sample.asks, answers, len(answers)).limits or (0, 1)
                covered.append(lower <= missed <= upper)
        context.store.close()
    assert sum(covered) >= 0.95 * len(covered)


def test_nothing_proposes_to_take_out_what_is_missed() -> None:
    kinds: dict[str, ItemKind] = {"pdf": "skill", "other": "skill", "git": "server"}
    items = [
        CarriedItem(
            item=InstalledItem(agent="a", kind=kind, name=name, path="", state="in full", carried=9),
            use=ItemUse(offered=90),
            at_most=0.1,
            proposal="by name",
            why="",
        )
        for name, kind in kinds.items()
    ]
    whole = MachineInventory(
        sentence="", notes=(), items=tuple(items), sessions=90, oldest_ms=None, loaded=3, used=0, carried=27
    )
    after = spared(whole, {"skill:pdf:main", "tool:other:mcp__git__log"}).items
    assert [(one.proposal, one.use is None) for one in after] == [
        (None, True),
        ("by name", False),
        (None, True),
    ]


def test_the_page_of_an_arm_says_it_and_never_excludes(open_page: Open, database: Path) -> None:
    context = context_at(database)
    record_all(context, world(3))
    queue = add_queue(context, "missed", ASKS)
    read_trial(context, results_of(solves="without", arm=A))
    assert any(one.key == "do exclusion" for one in open_page("arm", arm=A).button)
    judge_all(context, queue.id, level=2)
    page = open_page("arm", arm=A)
    (sentence,) = (text for text in texts(page) if text.startswith("Missed use"))
    assert "60 of 60 judged" in sentence
    assert "**Say better" in sentence
    assert not any(one.key == "do exclusion" for one in page.button)


def test_a_sample_needs_an_arm_with_an_unused_run_and_no_rubric(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    record_all(context, [a_run("r1")])
    for asks, rubric, problem in (
        (ASKS, "", "got none of the source unused"),
        (QueueAsks(source="unused"), "", "The source unused must come with an arm, got none"),
        (ASKS, "v2", "rubric must be left out of the source unused, got 'v2'"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            add_queue(context, "missed", asks, rubric=rubric)
