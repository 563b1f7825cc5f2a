"""Review: nothing is judged twice, nothing is lost, and what is hidden stays hidden."""

from __future__ import annotations

import json
import multiprocessing
import re
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from core.errors import Conflict, Denied, InvalidEvaluation, InvalidInput, NotFound
from core.flows import queries
from core.flows.context import Context, utc_now_ms
from core.flows.corrections import redo, undo
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record_all
from core.flows.queues import add_queue, add_rubric, assign, progress, propose_queue, queues
from core.flows.restore import copy_database
from core.flows.review import (
    draft,
    hold,
    keep_draft,
    my_last,
    next_item,
    put_off,
    release,
    requeue,
    skip_item,
    submit,
    take_back,
    view_item,
)
from core.flows.training import export_training
from core.records.actor import Actor
from core.records.parameters import EXPORT_FORMATS
from core.records.review import Draft, Level, NextItem, QueueAsks, ReviewItem, Rubric
from core.settings import Located
from core.store.review import hidden_evaluations
from tests.engine import located
from tests.store.forking import FORKING
from tests.worlds import START_MS, a_run, context_at
from tests.worlds.reviewers import QUEUE, Desk, desk_at, judge_all, n_done, reviewed_before, thirty


def item_of(given: NextItem) -> ReviewItem:
    assert given.item is not None
    return given.item


def taken(context: Context, queue: str = QUEUE) -> ReviewItem:
    return item_of(next_item(context, queue))


# Several at once


def _reviewer(place: Located, name: str, barrier: Barrier, told: multiprocessing.Queue[list[int]]) -> None:
    context = replace(context_at(place, name=name, role="reviewer"), clock=utc_now_ms)
    barrier.wait()
    told.put(judge_all(context))
    context.store.close()


@pytest.mark.parametrize("n_reviewers", [1, 2])
def test_processes_over_one_queue_judge_each_item_as_often_as_it_needs(
    tmp_path: Path, n_reviewers: int
) -> None:
    path = tmp_path / "a.db"
    desk = desk_at(path)
    add_queue(desk.context, "W", n_reviewers=n_reviewers)
    desk.context.store.close()
    names = ["ann", "bob", "cay"][: n_reviewers + 1]
    barrier, told = FORKING.Barrier(len(names)), FORKING.Queue()
    place = located(path)
    processes = [FORKING.Process(target=_reviewer, args=(place, name, barrier, told)) for name in names]
    for one in processes:
        one.start()
    judged = [number for _ in names for number in told.get(timeout=120)]
    for one in processes:
        one.join()
    assert sorted(judged) == sorted(list(range(1, 31)) * n_reviewers), "nothing twice by one, nothing lost"
    after = context_at(path)
    found = progress(after, QUEUE)
    assert (found.done, found.open, found.holders) == (30, 0, ())
    assert queries.verify(after).clean
    after.store.close()


def test_what_a_closed_window_held_is_given_to_others_when_its_time_is_over(desk: Desk) -> None:
    add_queue(desk.context, "W")
    gone, stays = desk.of("ann"), desk.of("bob")
    assert taken(gone).item == 1
    assert taken(stays).item == 2
    known = progress(stays, QUEUE)
    assert [(one.actor, one.item) for one in known.holders] == [("ann", 1)]
    assert known.holders[0].until_ms == START_MS + 600_000
    submit(stays, QUEUE, 2, level=4)
    assert taken(stays).item == 3, "nobody waits"
    desk.pass_minutes(10)
    submit(stays, QUEUE, 3, level=4)
    assert taken(stays).item == 1
    assert sorted([2, 3, *judge_all(stays)]) == list(range(1, 31))
    assert next_item(gone, QUEUE).item is None


def test_the_same_item_comes_back_after_a_reload_and_is_held_longer(desk: Desk) -> None:
    add_queue(desk.context, "W")
    ann = desk.of("ann")
    first = taken(ann)
    desk.pass_minutes(4)
    again = taken(ann)
    assert (again.item, again.hold_until_ms - first.hold_until_ms) == (first.item, 240_000)
    assert hold(ann, QUEUE, 1) == again.hold_until_ms
    release(ann, QUEUE, 1)
    assert taken(desk.of("bob")).item == 1
    with pytest.raises(Conflict, match="held by another reviewer"):
        hold(ann, QUEUE, 1)


def test_an_item_for_two_is_open_to_two_and_to_no_third(desk: Desk) -> None:
    add_queue(desk.context, "W", QueueAsks(limit=1), n_reviewers=2)
    ann, bob, cay = (desk.of(name) for name in ("ann", "bob", "cay"))
    assert taken(ann).state == taken(bob).state == "needs_review"
    assert next_item(cay, QUEUE).item is None
    submit(ann, QUEUE, 1, level=4)
    assert view_item(bob, QUEUE, 1).state == "needs_another"
    assert next_item(ann, QUEUE).item is None, "nobody is the second of themselves"
    sent = submit(bob, QUEUE, 1, level=1, seen="none")
    assert [(one.rater, one.outcome, one.score) for one in sent.meanwhile] == [("ann", "success", 1.0)]
    assert view_item(cay, QUEUE, 1).state == "done"


# While someone is typing


def test_a_hold_that_ran_out_is_told_and_what_was_typed_stays(desk: Desk) -> None:
    add_queue(desk.context, "W")
    ann, bob = desk.of("ann"), desk.of("bob")
    taken(ann)
    desk.pass_minutes(11)
    assert submit(ann, QUEUE, 1, level=4).hold_ran_out, "nobody had taken the place"
    assert taken(ann).item == 2
    desk.pass_minutes(11)
    assert taken(bob).item == 2
    with pytest.raises(Conflict, match=r"hold ended at .* held by another reviewer now. Nothing was sent"):
        submit(ann, QUEUE, 2, outcome="failure", score=0.7, feedback="wrong sum")
    assert draft(ann, QUEUE, 2) == Draft(outcome="failure", score=0.7, feedback="wrong sum")
    assert n_done(ann) == 1
    submit(bob, QUEUE, 2, level=4)
    with pytest.raises(Conflict, match="done with"):
        submit(ann, QUEUE, 2, level=1)
    sent = submit(ann, QUEUE, 2, level=1, anyway=True)
    assert sent.evaluation.outcome == "failure"
    assert draft(ann, QUEUE, 2) is None


def test_what_others_judged_meanwhile_is_said_before_anything_is_recorded(desk: Desk) -> None:
    add_queue(desk.context, "W", rubric="v1")
    ann = desk.of("ann")
    item = taken(ann)
    assert view_item(ann, QUEUE, 1, seen=item.seen).meanwhile == ()
    evaluate(desk.of("kim"), "r0", "success", score=0.5, rubric="v1")
    told = view_item(ann, QUEUE, 1, seen=item.seen)
    assert (told.meanwhile, told.seen, told.n_judged) == (("kim",), item.seen, 1)
    assert view_item(ann, QUEUE, 1, seen=view_item(ann, QUEUE, 1).seen).meanwhile == ()
    with pytest.raises(Conflict, match=r"judged success \(0.5\) by kim meanwhile"):
        submit(ann, QUEUE, 1, level=1, seen=item.seen)
    assert draft(ann, QUEUE, 1) == Draft(level=1)
    fresh = view_item(ann, QUEUE, 1)
    assert fresh.draft == Draft(level=1)
    sent = submit(ann, QUEUE, 1, level=1, seen=fresh.seen)
    assert sent.evaluation.outcome == "failure"
    assert queries.verify(desk.context).clean


def test_the_same_key_again_records_nothing_twice(desk: Desk) -> None:
    add_queue(desk.context, "W")
    ann = desk.of("ann")
    taken(ann)
    first = submit(ann, QUEUE, 1, level=4, key="k")
    again = submit(ann, QUEUE, 1, level=4, key="k")
    assert again.evaluation == first.evaluation
    assert item_of(again.next).item == item_of(first.next).item == 2
    with pytest.raises(Conflict, match="'k' already belongs to evaluation-"):
        submit(ann, QUEUE, 2, level=1, key="k")
    assert n_done(ann) == 1


def test_a_draft_is_ones_own_expires_and_leaves_the_database_by_no_way(desk: Desk, tmp_path: Path) -> None:
    add_queue(desk.context, "W")
    ann = desk.of("ann")
    keep_draft(ann, QUEUE, 1, Draft(feedback="half a thought"))
    assert taken(ann).draft == Draft(feedback="half a thought")
    assert view_item(desk.of("bob"), QUEUE, 1).draft is None
    export_file(desk.context, tmp_path / "all.jsonl")
    assert b"half a thought" not in (tmp_path / "all.jsonl").read_bytes()
    desk.pass_minutes(7 * 24 * 60)
    assert draft(ann, QUEUE, 1) is None
    keep_draft(ann, QUEUE, 1, Draft(level=2))
    keep_draft(ann, QUEUE, 1, None)
    assert draft(ann, QUEUE, 1) is None
    keep_draft(ann, QUEUE, 1, Draft(level=2))
    submit(ann, QUEUE, 1, level=4)
    assert draft(ann, QUEUE, 1) is None


# One's own way through it


def test_what_is_skipped_is_skipped_for_oneself_only(desk: Desk) -> None:
    add_queue(desk.context, "W", QueueAsks(limit=3))
    ann = desk.of("ann")
    taken(ann)
    assert item_of(put_off(ann, QUEUE, 1)).item == 2
    assert item_of(put_off(ann, QUEUE, 2, returns=True)).item == 3
    assert taken(desk.of("bob")).item == 1
    release(desk.of("bob"), QUEUE, 1)
    rest = submit(ann, QUEUE, 3, level=4).next
    assert item_of(rest).item == 2, "what was put off comes after all others"
    ended = submit(ann, QUEUE, 2, level=4).next
    assert (ended.item, ended.progress.skipped_by_me, ended.progress.left_for_me) == (None, 1, 0)
    assert requeue(ann, QUEUE) == 1
    assert taken(ann).item == 1


def test_what_is_assigned_comes_first_and_to_nobody_else(desk: Desk) -> None:
    add_queue(desk.context, "W", QueueAsks(limit=4))
    assert assign(desk.context, QUEUE, [3, 4], "ann") == 2
    assert assign(desk.context, QUEUE, [3, 4], "ann") == 0
    assert [judge_all(desk.of(name)) for name in ("ann", "bob")] == [[3, 4, 1, 2], []]
    add_queue(desk.context, "V", QueueAsks(source="filter", limit=2))
    assign(desk.context, "queue-2", [1], "ann")
    assert judge_all(desk.of("bob"), "queue-2") == [2]
    assert progress(desk.of("ann"), "queue-2").assigned_to_me == 1
    assign(desk.context, "queue-2", [1], None)
    assert judge_all(desk.of("bob"), "queue-2") == [1]
    with pytest.raises(InvalidInput, match="got 9"):
        assign(desk.context, QUEUE, [9], "ann")


def test_what_cannot_be_judged_is_done_with_after_two_people_or_an_operator(desk: Desk) -> None:
    add_queue(desk.context, "W", QueueAsks(limit=2))
    ann, bob = desk.of("ann"), desk.of("bob")
    said = skip_item(ann, QUEUE, 1, " cut off ")
    assert (said.id, said.state, item_of(said.next).item) == ("aside-1", "needs_review", 2)
    with pytest.raises(Conflict, match="by you already"):
        skip_item(ann, QUEUE, 1, "cut off")
    assert taken(bob).item == 1
    assert skip_item(bob, QUEUE, 1, "no text").state == "set_aside"
    assert progress(ann, QUEUE).set_aside == 1
    undo(bob, "aside-2")
    assert progress(ann, QUEUE).set_aside == 0
    assert skip_item(desk.context, QUEUE, 2, "a test run").state == "set_aside"
    with pytest.raises(Denied):
        undo(bob, "aside-3")
    with pytest.raises(Conflict, match="skipped meanwhile"):
        submit(ann, QUEUE, 2, level=3) if hold_is_over(desk) else None
    assert queries.verify(desk.context).clean


def hold_is_over(desk: Desk) -> bool:
    desk.pass_minutes(11)
    return True


def test_undoing_a_judgement_opens_its_item_and_redoing_closes_it(desk: Desk) -> None:
    add_queue(desk.context, "W")
    ann = desk.of("ann")
    judge_all(ann)
    latest = my_last(ann)
    assert len(latest) == 20
    assert (latest[0].uri, latest[0].queue, latest[0].item) == ("run:r29", QUEUE, 30)
    undo(ann, latest[0].id)
    assert (n_done(ann), taken(ann).item) == (29, 30)
    assert my_last(ann, 1)[0].undone
    redo(ann, latest[0].id)
    assert n_done(ann) == 30
    assert next_item(ann, QUEUE).item is None
    assert take_back(ann, [one.id for one in latest]).count == 20
    assert n_done(ann) == 10
    with pytest.raises(Denied):
        take_back(desk.of("bob"), ["evaluation-1"])
    assert queries.verify(desk.context).clean


def test_only_judgements_by_people_of_its_rubric_and_since_it_was_made_are_counted(desk: Desk) -> None:
    evaluate(desk.of("kim"), "r0", "success", rubric="v1")
    add_queue(desk.context, "W", QueueAsks(source="filter", limit=4), rubric="v1")
    assert n_done(desk.context) == 0
    evaluate(desk.of("kim"), "r1", "success", rubric="v2")
    evaluate(desk.of("kim"), "r2", "success", model="judge-1", rubric="v1")
    assert n_done(desk.context) == 0
    evaluate(desk.of("kim"), "r3", "success", rubric="v1")
    evaluate(desk.of("kim"), "r0", "failure", rubric="v1")
    assert n_done(desk.context) == 2
    desk.pass_minutes(-60)
    evaluate(desk.of("kim"), "r1", "success", rubric="v1")
    assert n_done(desk.context) == 3, "a clock that was set back loses nothing"


# Blind


def _takes_out(context: Context, folder: Path, *, told: set[str], n_hidden: int) -> None:
    """What someone's exports hold of evaluations, and say of those that are left out."""
    context = replace(context, actor=Actor(name=context.actor.name, role="operator"))
    for format in EXPORT_FORMATS:
        path = folder / f"{context.actor.name}.{format}"
        assert export_file(context, path, format).hidden == n_hidden
        shown = repr(pq.read_table(path).to_pylist()) if format == "parquet" else path.read_text()
        assert "judge-1" not in shown or "evaluation-2" in told
    head, *lines = map(json.loads, (folder / f"{context.actor.name}.jsonl").read_bytes().splitlines())
    assert head.get("hidden", 0) == n_hidden
    ids = {line["id"].rpartition("/")[2] for line in lines if line["kind"] == "evaluation"}
    assert ids == told
    fresh = context_at(folder / f"{context.actor.name}.db")
    assert import_files(fresh, [folder / f"{context.actor.name}.jsonl"]).rejected == ()
    assert queries.verify(fresh).clean
    fresh.store.close()
    made = export_training(context, folder / f"{context.actor.name}.rows", "reward_jsonl").manifest
    assert made.left_out.hidden == n_hidden


def test_while_an_item_of_a_blind_queue_is_open_nobody_reads_what_others_made_of_it(
    desk: Desk, tmp_path: Path
) -> None:
    add_queue(desk.context, "W", rubric="v1", n_reviewers=2, blind=True)
    ann, bob = desk.of("ann"), desk.of("bob")
    theirs = submit(ann, QUEUE, taken(ann).item, level=1).evaluation
    evaluate(desk.of("kim"), "r0", "failure", model="judge-1")

    def hidden(name: str) -> set[int]:
        with desk.context.reading() as snapshot:
            return set(hidden_evaluations(snapshot, name))

    assert hidden("bob") == set()
    item = taken(bob)
    assert (item.subject.run, item.n_judged, item.seen, item.state) == ("r0", None, "", "needs_another")
    assert hidden("bob") == {1, 2}
    undo(ann, theirs.id)
    redo(ann, theirs.id)
    desk.pass_minutes(11)
    assert hidden("bob") == {1, 2}, "the page still stands there"
    seen_by = {
        name: {entry.act for entry in queries.changes(desk.of(name), 50)} & {theirs.id, "evaluation-2"}
        for name in ("ann", "bob")
    }
    assert seen_by == {"ann": {theirs.id, "evaluation-2"}, "bob": set()}, "the log tells no more than pages"
    _takes_out(bob, tmp_path, told=set(), n_hidden=2)
    _takes_out(ann, tmp_path, told={theirs.id, "evaluation-2"}, n_hidden=0)
    sent = submit(bob, QUEUE, item.item, level=1)
    assert hidden("bob").isdisjoint({1, 2})
    assert sent.suggestion is not None
    assert (sent.suggestion.model, sent.suggestion.agrees) == ("judge-1", True)
    third = taken(bob)
    release(bob, QUEUE, third.item)
    assert hidden("bob") == set()


def test_two_browsers_of_a_person_never_hold_one_item_and_are_one_rater(desk: Desk) -> None:
    add_queue(desk.context, "W", rubric="v1", n_reviewers=2, blind=True)
    kim, lee, shell = (
        replace(desk.context, actor=Actor(name="ann", browser=browser)) for browser in ("kim 1", "lee 2", "")
    )
    theirs = submit(desk.of("bob"), QUEUE, taken(desk.of("bob")).item, level=1).evaluation
    first, second, third = taken(kim), taken(lee), taken(shell)
    assert len({first.item, second.item, third.item}) == 3
    assert taken(kim).item == first.item, "one's own comes again"
    assert kim.actor.holder in {one.actor for one in progress(lee, QUEUE).holders}
    with desk.context.reading() as snapshot:
        assert hidden_evaluations(snapshot, "ann") == {int(theirs.id.rpartition("-")[2])}
    with pytest.raises(Conflict, match="held by another"):
        hold(lee, QUEUE, first.item)
    submit(kim, QUEUE, first.item, level=3, seen=first.seen)
    release(shell, QUEUE, third.item)
    assert first.item not in judge_all(lee)
    assert {row.rater for row in queries.evaluations(desk.context)} == {"ann", "bob"}


def test_each_queue_holds_its_items_for_its_own_time(desk: Desk) -> None:
    """The next reviewer gets the item when the hold has ended, and the board of items expects no longer one."""
    add_queue(desk.context, "W", QueueAsks(limit=1, hold_minutes=1))
    first = taken(desk.context)
    assert first.hold_until_ms == desk.now_ms + 60_000
    assert next_item(desk.of("bob"), QUEUE).item is None
    desk.now_ms += 60_000
    assert taken(desk.of("bob")).item == first.item
    for minutes in (0, 1_441):
        with pytest.raises(InvalidInput, match="hold_minutes"):
            QueueAsks(hold_minutes=minutes)


def test_why_an_item_is_in_a_blind_queue_tells_nothing_of_others(desk: Desk) -> None:
    evaluate(desk.of("kim"), "r3", "success", score=0.1)
    evaluate(desk.of("lee"), "r3", "failure", score=0.1)
    for blind in (False, True):
        add_queue(desk.context, f"blind {blind}", QueueAsks(source="disagree"), blind=blind)
    assert view_item(desk.context, "queue-1", 1).why == "50% of 2 judgements differ"
    assert view_item(desk.context, "queue-2", 1).why == "raters disagree"


# Of an earlier version


def test_known_answers_repeats_and_an_order_by_information_stay_recorded(tmp_path: Path) -> None:
    copy_database(reviewed_before(tmp_path / "old.db"), tmp_path / "copy.db")
    there = context_at(tmp_path / "copy.db")
    informed, checked = queues(there)
    assert (informed.asks.order, informed.progress.total) == ("information", 6)
    assert (checked.progress.total, checked.progress.judged_by_me) == (10, 0)
    for rater, n in (("ann", 0), ("bob", 10)):
        assert len(judge_all(replace(there, actor=Actor(name=rater, role="reviewer")))) == n
    assert queues(there)[1].progress.done == 10
    with pytest.raises(InvalidInput, match="order must be one of oldest, lowest, disagreement"):
        propose_queue(there, informed.asks)
    export_file(there, tmp_path / "all.jsonl")
    assert facts_in(tmp_path / "all.jsonl")[0].count(b'"control":') == 3
    assert (tmp_path / "all.jsonl").read_bytes().count(b'"kind":"evaluation"') == 14 + 10
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "all.jsonl"])
    export_file(other, tmp_path / "again.jsonl")
    assert facts_in(tmp_path / "again.jsonl") == facts_in(tmp_path / "all.jsonl")
    for context in (there, other):
        undo(context, QUEUE)
        assert [row.progress.name for row in queues(context)] == ["Informed"]
        redo(context, QUEUE)
        assert queries.verify(context).clean


# As facts


def test_queues_travel_and_an_import_undone_is_as_if_never_read(desk: Desk, tmp_path: Path) -> None:
    add_rubric(desk.context, Rubric(version="v1"))
    made = add_queue(
        desk.context,
        "W",
        QueueAsks(limit=5),
        n_reviewers=2,
        blind=True,
        rubric="v1",
    )
    ann, bob = desk.of("ann"), desk.of("bob")
    assign(desk.context, QUEUE, [2], "bob")
    for item in (1, 3):
        submit(ann, QUEUE, item, level=4, anyway=True)
    submit(bob, QUEUE, 1, level=4, anyway=True)
    given = item_of(skip_item(desk.context, QUEUE, 4, "cut off").next)
    release(desk.context, QUEUE, given.item)  # what is open hides what others made of it
    taken(bob)
    record_all(desk.context, [a_run("r0", rank=3, calls=("b",), at_ms=START_MS)])  # its run goes on
    export_file(desk.context, tmp_path / "all.jsonl")
    there = context_at(tmp_path / "b.db")
    act = import_files(there, [tmp_path / "all.jsonl"]).id
    assert import_files(there, [tmp_path / "all.jsonl"]).id is None
    mine, theirs = (
        queues(one)[0] for one in (desk.of("nobody"), replace(there, actor=desk.of("nobody").actor))
    )
    assert replace_holds(mine) == replace_holds(theirs)
    assert [view_item(there, QUEUE, number).state for number in range(1, 6)] == [
        view_item(desk.context, QUEUE, number).state for number in range(1, 6)
    ]
    assert view_item(there, QUEUE, 2).assigned_to == view_item(desk.context, QUEUE, 2).assigned_to
    export_file(there, tmp_path / "again.jsonl")
    assert facts_in(tmp_path / "again.jsonl") == facts_in(tmp_path / "all.jsonl")
    undo(there, act)
    assert queues(there, undone=True) == ()
    with pytest.raises(NotFound):
        next_item(there, QUEUE)
    redo(there, act)
    assert queues(there)[0].progress.done == mine.progress.done
    assert queries.verify(there).clean
    undo(desk.context, made.id)
    assert queues(desk.context) == ()
    assert queues(desk.context, undone=True)[0].undone
    there.store.close()


def replace_holds(row: object) -> object:
    """A row without who holds what, which is no one's fact."""
    told = msgspec.to_builtins(row)
    del told["progress"]["holders"], told["progress"]["held_by_others"], told["progress"]["left_for_me"]
    return told


def facts_in(file: Path) -> list[bytes]:
    """Lines of queues and what was skipped, without the revision they were written by."""
    lines = [line for line in file.read_bytes().splitlines() if b'"kind":"review_' in line]
    return [re.sub(rb',"revision":\d+', b"", line) for line in lines]


def test_an_item_goes_with_its_run_and_comes_back_with_it(desk: Desk, tmp_path: Path) -> None:
    there = desk_at(tmp_path / "b.db", thirty()[:2])
    export_file(there.context, tmp_path / "two.jsonl")
    here = Desk(context=context_at(tmp_path / "c.db"))
    act = import_files(here.context, [tmp_path / "two.jsonl"]).id
    add_queue(here.context, "W")
    assert progress(here.context, QUEUE).total == 2
    undo(here.context, act)
    assert progress(here.context, QUEUE).total == 0
    assert next_item(here.context, QUEUE).item is None
    with pytest.raises(NotFound):
        submit(here.context, QUEUE, 1, level=3)
    redo(here.context, act)
    assert len(judge_all(here.context)) == 2
    assert queries.verify(here.context).clean


# Levels


def test_a_digit_is_an_outcome_with_its_score_and_none_is_absent(desk: Desk) -> None:
    levels = (
        Level(words="No", outcome="failure", score=0.9),
        Level(words="Yes", outcome="success", score=0.8),
    )
    add_rubric(desk.context, Rubric(version="v1", title="Answers", levels=levels))
    add_queue(desk.context, "W", rubric="v1")
    ann = desk.of("ann")
    item = taken(ann)
    assert (item.levels, item.rubric_version) == (levels, "v1")
    assert item.rubric is not None
    first = submit(ann, QUEUE, 1, level=1).evaluation
    assert (first.outcome, first.score) == ("failure", 0.9)
    second = submit(ann, QUEUE, 2, outcome="success", score=0).evaluation
    assert (second.outcome, second.score, second.warnings) == ("success", 0.0, ())
    for wrong in (
        Draft(),
        Draft(outcome="success"),
        Draft(score=0.5),
        Draft(level=3),
        Draft(level=1, outcome="success", score=1.0),
    ):
        with pytest.raises(InvalidEvaluation, match="level"):
            submit(ann, QUEUE, 3, level=wrong.level, outcome=wrong.outcome, score=wrong.score)
    for level in (0, 10):
        with pytest.raises(InvalidInput, match="level must be a whole number from 1 to 9"):
            submit(ann, QUEUE, 3, level=level)
    with pytest.raises(InvalidEvaluation, match=r"got 1\.2"):
        submit(ann, QUEUE, 3, outcome="success", score=1.2)
    assert n_done(ann) == 2


def test_what_is_not_there_is_said(desk: Desk) -> None:
    with pytest.raises(NotFound, match="There is no queue 'queue-9'"):
        next_item(desk.context, "queue-9")
    add_queue(desk.context, "W")
    add_queue(desk.context, "W", QueueAsks(source="filter"))
    with pytest.raises(NotFound, match="There are 2 queues 'W'"):
        next_item(desk.context, "W")
    with pytest.raises(NotFound, match="no item 31"):
        view_item(desk.context, QUEUE, 31)
    for reason in ("", "x" * 501):
        with pytest.raises(InvalidInput, match="reason must have 1 to 500"):
            skip_item(desk.context, QUEUE, 1, reason)


def test_a_queue_is_overdue_when_items_are_open_past_its_day(desk: Desk) -> None:
    add_queue(desk.context, "W", due_days=1)
    add_queue(desk.context, "V", QueueAsks(source="filter"), due_days=None)
    desk.pass_minutes(24 * 60)
    assert [one.overdue for one in queues(desk.context)] == [False, False]
    desk.pass_minutes(1)
    assert [(one.progress.name, one.overdue) for one in queues(desk.context)] == [("V", False), ("W", True)]
    judge_all(desk.of("ann"))
    assert not any(one.overdue for one in queues(desk.context))
    assert queues(desk.of("ann"))[1].progress.judged_by_me == 30


def test_ones_pace_is_the_median_of_what_lies_between(desk: Desk) -> None:
    add_queue(desk.context, "W")
    ann = desk.of("ann")
    given = next_item(ann, QUEUE)
    for seconds in (9, 11, 10, 3_000):
        assert given.progress.seconds_each is None
        given = submit(ann, QUEUE, item_of(given).item, level=3).next
        desk.now_ms += seconds * 1_000
    assert progress(ann, QUEUE).seconds_each == 10.0
