"""Browsers without sign-in: one rater until an operator confirms their names, and again after the undo."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import redo, undo
from core.flows.erase import erase
from core.flows.evaluate import evaluate
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.maintenance import backup
from core.flows.queues import actor_of_browser, add_queue, browsers, confirm_browser, progress
from core.flows.restore import copy_database
from core.flows.review import judge_batch, my_last, next_item, propose_batch, submit
from core.flows.training import export_training
from core.records.actor import NOT_SIGNED_IN, Actor
from core.records.evaluation_page import EvaluationFilter
from core.records.review import BatchAnswer, QueueAsks
from tests.worlds import context_at
from tests.worlds.reviewers import LAYER, QUEUE, Desk, executed, judge_all

KIM, LEE = "kim 3f2a91", "lee 99aa00"


def here(context: Context, browser: str) -> Context:
    """A page of a browser, as the dashboard opens it."""
    own = replace(context, actor=Actor(name="ann", browser=browser))
    return replace(own, actor=actor_of_browser(own, own.actor))


def raters(context: Context) -> set[str]:
    """The raters of whatever is read: lists, statistics, filters and rows by rater agree."""
    listed = {one.rater for one in queries.evaluations(context, limit=1_000)}
    watched = {one.grader.name for one in queries.bias_watch(context).by_grader}
    named = {one.name for one in queries.evaluated(context)[0]}
    assert listed == watched == named
    for name in listed:
        found = queries.evaluations(context, EvaluationFilter(rater=name), limit=1_000)
        assert {one.rater for one in found} == {name}
    return {name for name in listed if name}


def shared(context: Context) -> tuple[int, int]:
    """Graders and items of the panel from which agreement is computed."""
    report = queries.agreement(context)
    return report.n_graders, sum(pair.agreement.n_items for pair in report.pairs)


def judged_in_two(desk: Desk) -> None:
    """Kim and Lee judge three runs each in their browsers, not through a queue."""
    for browser, first in ((KIM, 0), (LEE, 3)):
        for number, score in enumerate((0.9, 0.8, 0.2), first):
            evaluate(
                here(desk.context, browser),
                f"r{number}",
                "success" if score > 0.5 else "failure",
                score=score,
                rubric="v1",
            )


def test_a_name_counts_as_a_rater_only_while_an_operator_confirms_it(desk: Desk) -> None:
    """Before, the machine's user is the one rater; after the undo again; and each judgement keeps its browser."""
    judged_in_two(desk)
    assert (raters(desk.context), shared(desk.context)) == ({"ann"}, (1, 0))
    assert {one.browser for one in queries.evaluations(desk.context)} == {KIM, LEE}
    act = confirm_browser(desk.context, LEE)
    assert (act.name, act.n_judged, raters(desk.context)) == ("lee", 3, {"ann", "lee"})
    assert {one.browser for one in queries.evaluations(desk.context)} == {KIM, None}
    undo(desk.context, act.id)
    assert raters(desk.context) == {"ann"}
    redo(desk.context, act.id)
    assert raters(desk.context) == {"ann", "lee"}
    assert queries.verify(desk.context).clean


def test_two_confirmed_browsers_are_two_raters_of_one_item(desk: Desk) -> None:
    add_queue(desk.context, "W", QueueAsks(limit=4), rubric="v1", n_reviewers=2)
    for browser in (KIM, LEE):
        next_item(here(desk.context, browser), QUEUE)
    kept = [confirm_browser(desk.context, browser).id for browser in (KIM, LEE)]
    for browser in (KIM, LEE):
        judge_all(here(desk.context, browser))
    assert progress(desk.context, QUEUE).done == 4
    assert (raters(desk.context), shared(desk.context)) == ({"kim", "lee"}, (2, 4))
    assert [one.outcome for one in my_last(here(desk.context, KIM))] == ["success"] * 4
    for act in kept:
        undo(desk.context, act)
    assert (raters(desk.context), shared(desk.context)) == ({"ann"}, (1, 0)), "one rater again, with 4 items"
    assert progress(desk.context, QUEUE).done == 0, "two raters are needed, and one has judged"
    assert next_item(here(desk.context, KIM), QUEUE).item is None, "ann has judged them all"


def test_who_replaces_the_judgement_of_another_browser_is_told_and_an_undo_returns_it(desk: Desk) -> None:
    evaluate(here(desk.context, KIM), "r0", "success", score=1.0, rubric="v1")
    asks = QueueAsks(source="runs", runs=("r0",))

    def judged(browser: str) -> BatchAnswer:
        page = here(desk.context, browser)
        token = propose_batch(page, asks).token
        return judge_batch(page, asks, token, outcome="failure", score=0.9, rubric="v1")

    def counted() -> list[tuple[str | None, str]]:
        return [
            (one.browser, one.outcome) for one in queries.evaluations(desk.context) if one.state == "counts"
        ]

    assert counted() == [(KIM, "success")]
    answer = judged(LEE)
    assert (answer.replaced, counted()) == ((KIM,), [(LEE, "failure")])
    again = judged(LEE)
    assert again.replaced == (), "one's own"
    for act in (*again.acts, *answer.acts):
        undo(desk.context, act)
    assert counted() == [(KIM, "success")]
    assert queries.verify(desk.context).clean


def test_the_same_name_in_two_browsers_is_one_rater(desk: Desk) -> None:
    other = "kim 777777"
    for browser, run in ((KIM, "r0"), (other, "r1"), (LEE, "r2")):
        evaluate(here(desk.context, browser), run, "success", score=0.9)
        confirm_browser(desk.context, browser)
    assert raters(desk.context) == {"kim", "lee"}


def test_a_browser_that_takes_another_name_is_not_signed_in_again(desk: Desk) -> None:
    evaluate(here(desk.context, KIM), "r0", "success")
    confirm_browser(desk.context, KIM)
    assert here(desk.context, KIM).actor.name == "kim"
    renamed = here(desk.context, "lee 3f2a91")
    assert (renamed.actor.name, renamed.actor.holder.endswith(NOT_SIGNED_IN)) == ("ann", True)
    stranger = here(desk.context, "kim 123456")
    assert stranger.actor.name == "ann", "a name without the browser proves nothing"


def test_whoever_sends_a_rater_from_a_browser_is_the_rater(desk: Desk) -> None:
    evaluate(here(desk.context, KIM), "r0", "success", rater="somebody else")
    assert raters(desk.context) == {"ann"}


def test_a_list_names_who_waits_first_and_what_each_counts_as(desk: Desk) -> None:
    add_queue(desk.context, "W")
    next_item(here(desk.context, "zoe 000001"), QUEUE)
    next_item(here(desk.context, "000002"), QUEUE)
    evaluate(here(desk.context, KIM), "r0", "success")
    act = confirm_browser(desk.context, KIM)
    rows = browsers(desk.context)
    assert [(one.browser, one.person, one.id, one.n_judged) for one in rows] == [
        ("zoe 000001", "ann", None, 0),
        (KIM, "ann", act.id, 1),
    ]
    assert confirm_browser(desk.context, KIM).id == act.id, "a repeat is the same act"


# It travels


def by_export(context: Context, folder: Path) -> Context:
    export_file(context, folder / "all.jsonl")
    other = context_at(folder / "other.db")
    import_files(other, [folder / "all.jsonl"])
    return other


def by_copy(context: Context, folder: Path) -> Context:
    copy_database(context.store.location, folder / "copy.db")
    return context_at(folder / "copy.db")


def by_backup(context: Context, folder: Path) -> Context:
    backup(context, folder / "backup.db")
    return context_at(folder / "backup.db")


@pytest.mark.parametrize("travel", [by_export, by_copy, by_backup])
def test_a_confirmation_and_its_browser_travel(
    desk: Desk, tmp_path: Path, travel: Callable[[Context, Path], Context]
) -> None:
    judged_in_two(desk)
    act = confirm_browser(desk.context, LEE)
    undo(desk.context, confirm_browser(desk.context, KIM).id)
    other = travel(desk.context, tmp_path)
    assert raters(other) == raters(desk.context) == {"ann", "lee"}
    assert [(one.browser, one.name, one.n_judged) for one in browsers(other)] == [
        (one.browser, one.name, one.n_judged) for one in browsers(desk.context)
    ]
    assert queries.verify(other).clean
    undo(other, next(one.id for one in browsers(other) if one.id) or act.id)
    assert raters(other) == {"ann"}
    other.store.close()


def test_training_rows_name_the_rater_that_counts_and_are_known_again(desk: Desk, tmp_path: Path) -> None:
    """A row made before the confirmation names ann, one made after it kim; here both are the same evaluation."""
    execution = executed(desk, tmp_path, "a")[0]
    evaluate(here(desk.context, KIM), execution, "success", score=1.0, rubric="v1")

    def rows(name: str) -> list[str]:
        export_training(desk.context, tmp_path / name, format="reward_jsonl")
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        return [json.loads(one)["reward"]["rater"] for one in lines]

    assert rows("before.jsonl") == ["ann"]
    confirm_browser(desk.context, KIM)
    assert rows("after.jsonl") == ["kim"]
    for name in ("before.jsonl", "after.jsonl"):
        import_files(desk.context, [tmp_path / name])
    assert len(queries.evaluations(desk.context)) == 1


def test_a_layer_was_judged_last_by_the_rater_that_counts(desk: Desk) -> None:
    evaluate(here(desk.context, KIM), f"kairos://layer/{LAYER}", "success", create=True)
    assert [one.rater for one in queries.layers(desk.context).judged] == ["ann"]
    confirm_browser(desk.context, KIM)
    assert [one.rater for one in queries.layers(desk.context).judged] == ["kim"]


def test_erasing_a_person_reaches_the_name_of_a_browser(desk: Desk, tmp_path: Path) -> None:
    add_queue(desk.context, "W")
    evaluate(here(desk.context, KIM), "r0", "success")
    next_item(here(desk.context, KIM), QUEUE)
    confirm_browser(desk.context, KIM)
    erase(desk.context, rater="kim")
    assert "kim" not in json.dumps([str(one) for one in browsers(desk.context)])
    assert progress(desk.context, QUEUE).holders == ()
    assert raters(desk.context) != {"ann"}, "it stays a rater of its own, as a number"
    assert queries.verify(desk.context).clean
    backup(desk.context, tmp_path / "copy.db")
    assert b"kim" not in (tmp_path / "copy.db").read_bytes()


def test_a_confirmation_moves_what_lists_go_on_from(desk: Desk) -> None:
    evaluate(here(desk.context, KIM), "r0", "success")
    (known,) = queries.evaluations(desk.context)
    assert queries.evaluations(desk.context, since=known.mark) == ()
    confirm_browser(desk.context, KIM)
    assert [one.rater for one in queries.evaluations(desk.context, since=known.mark)] == ["kim"]


def test_a_judgement_after_the_withdrawal_counts_as_the_users(desk: Desk) -> None:
    """A page may still act under the confirmed name while an operator withdraws it."""
    add_queue(desk.context, "W", rubric="v1")
    next_item(here(desk.context, KIM), QUEUE)
    act = confirm_browser(desk.context, KIM)
    page = here(desk.context, KIM)
    item = next_item(page, QUEUE).item
    assert item is not None
    undo(desk.context, act.id)
    submit(page, QUEUE, item.item, level=4)
    assert raters(desk.context) == {"ann"}
