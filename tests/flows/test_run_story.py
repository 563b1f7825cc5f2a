"""One run explained: selected, imported, taken back, told twice, judged by hand; and what would have flipped it."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from core import explained
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.queries import RunArm, RunStory
from core.flows.select import select
from core.flows.settings import change
from core.guidance import guidance
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, Status
from core.records.selection import Selection
from dashboard.sentences import runs as page
from tests.worlds import START_MS, a_run, chosen_among, lines_file, run_line

OFFERED = [
    Arm(key="tool:fs:Read", token_cost=100),
    *(Arm(key=f"tool:other:t{place}", token_cost=40 + 30 * place) for place in range(8)),
    Arm(key="skill:plan:main", token_cost=60),
]


def selected(
    context: Context, uid: str, *, budget: int = 300, k: int | None = None, calls: tuple[str, ...] = ("Read",)
) -> Selection:
    """A run with what the policy chose for it."""
    chosen = select(context, OFFERED, budget_tokens=budget, k=k)
    record(
        context,
        chosen_among(
            uid,
            chosen,
            OFFERED,
            ended_at_ms=START_MS,
            calls=tuple(Call(name=name) for name in calls),
            texts=("The plan skill says so.",),
        ),
    )
    return chosen


def arm_of(story: RunStory, key: str) -> RunArm:
    return next(arm for arm in story.arms if arm.arm == key)


def test_every_arm_of_a_selection_is_explained_as_it_was_decided(context: Context) -> None:
    change(context, "baseline_rate", 0.0)
    change(context, "min_pulls", 0)
    chosen = selected(context, "one")
    story = queries.run(context, "one")
    assert story.selection == msgspec.structs.replace(chosen, guidance=None)
    assert story.guidance == chosen.guidance == guidance(chosen.excluded)
    assert (story.replays, story.k, story.differs) == (True, 0, ())
    assert [arm.arm for arm in story.arms] == [row.arm for row in chosen.decisions]
    for arm, row in zip(story.arms, chosen.decisions, strict=True):
        assert (arm.in_prompt, arm.reason, arm.rank, arm.draw) == (
            row.included,
            row.reason,
            row.rank,
            row.draw,
        )
        assert explained.why(arm)
        assert explained.flip(arm, story)
    read, plan = arm_of(story, "tool:fs:Read"), story.arms
    assert (read.reason, read.where, read.reward) == ("seed", "call", 1.0)
    assert explained.flip(read, story) == "nothing: a seed is always in"
    for arm in plan:
        if arm.reason == "budget":
            assert arm.flip is not None
            assert arm.flip.budget is not None
            assert f"{arm.flip.budget - 300:,} token" in explained.flip(arm, story)
            assert arm.flip.cost == arm.budget_left


def test_a_limit_on_arms_is_told_from_the_settings_whose_hash_was_kept(context: Context) -> None:
    change(context, "baseline_rate", 0.0)
    change(context, "min_pulls", 0)
    change(context, "k", 9)
    selected(context, "nine")
    change(context, "k", 0)
    assert queries.run(context, "nine").k == 9, "of its revision, not of today"
    selected(context, "own", k=7, budget=0)
    assert queries.run(context, "own").k == 7, "it was reached, so the record says it"
    selected(context, "unknown", k=9, budget=200)
    story = queries.run(context, "unknown")
    assert story.k is None, "a call's own limit that was not reached is in no log"
    assert story.replays


def test_a_baseline_run_speaks_of_the_random_order(context: Context) -> None:
    change(context, "baseline_rate", 1.0)
    selected(context, "base", budget=250)
    story = queries.run(context, "base")
    assert story.selection is not None
    assert story.selection.truncated
    out = [arm for arm in story.arms if arm.reason == "budget"]
    said = " ".join(explained.flip(arm, story) for arm in out)
    assert "in the random order" in said
    assert "draw" not in said


@pytest.mark.parametrize(
    ("calls", "status", "words"),
    [
        (("a",), "completed", "Observed: 1 real tool call, so every arm in the prompt was judged. 1 of 3"),
        (("a",), "error", "That it failed later doesn't matter."),
        ((), "completed", "Nothing was learned: no real tool call, and a run without one is conversation."),
        (("message",), "completed", "no real tool call, only 1 of meta tools"),
        ((), "aborted", "it was aborted before one"),
        ((), "error", "it failed before one"),
    ],
)
def test_the_verdict_names_its_tier(
    context: Context, calls: tuple[str, ...], status: Status, words: str
) -> None:
    record(context, a_run("r", calls=calls, status=status))
    assert words in explained.verdict(queries.run(context, "r"))


def test_an_imported_run_says_that_it_has_no_decisions(context: Context, tmp_path: Path) -> None:
    import_files(context, [lines_file(tmp_path / "a.jsonl", run_line("i"))])
    story = queries.run(context, "i")
    assert story.selection is None
    assert "its source records no decisions" in (explained.not_decided(story) or "")
    assert {explained.why(arm) for arm in story.arms} == {explained.NONE}
    assert [explained.observed(arm) for arm in story.arms] == ["● 1.0", "× 0.0", "× 0.0"]
    assert [explained.evidence(arm, story) for arm in story.arms][:2] == ["called", "not called in 1 call"]
    assert explained.sources(story) is None


@pytest.mark.parametrize("folder", ["claude-code", "tau-bench"])
def test_calls_alone_are_no_claim_about_the_prompt(context: Context, shared_data: Path, folder: str) -> None:
    """Every imported run, where its inventory is inferred from calls and where its source lists it."""
    import_files(context, [shared_data / folder])
    for row in queries.runs(context, 1_000):
        story = queries.run(context, row.uid)
        is_inferred = story.facts.inventory == "inferred"
        words = f"{explained.verdict(story)} {explained.not_decided(story)}"
        assert ("every arm" in words or "is known (" in words) != is_inferred
        title = "".join(part if isinstance(part, str) else str(part.text) for part in page.run(story))
        assert (explained.NOT_RECORDED in words) == (explained.NOT_RECORDED in title) == is_inferred
        if is_inferred and story.facts.outcome == "observed":
            rewarded = sum(arm.reward == 1 for arm in story.arms)
            assert f"Called: {rewarded} tool" in words
            assert f"{rewarded} tool" in title


def test_a_run_whose_import_was_undone_has_its_story(context: Context, tmp_path: Path) -> None:
    told = import_files(context, [lines_file(tmp_path / "a.jsonl", run_line("i"))])
    undo(context, told.id)
    story = queries.run(context, "i")
    assert not story.facts.standing
    assert "This run counts nowhere: import-1 was undone." in (explained.sources(story) or "")


def test_of_several_tellings_the_longest_is_shown(context: Context, tmp_path: Path) -> None:
    import_files(context, [lines_file(tmp_path / "a.jsonl", run_line("g"))])
    longer = import_files(context, [lines_file(tmp_path / "b.jsonl", run_line("g", "ab", rank=3))])
    story = queries.run(context, "g")
    assert [(one.import_no, one.is_active, one.undone) for one in story.sources] == [
        (1, False, False),
        (2, True, False),
    ]
    assert "Imported 2 times (import-1, import-2)" in (explained.sources(story) or "")
    assert story.n_referenced == 2
    undo(context, longer.id)
    story = queries.run(context, "g")
    assert story.n_referenced == 1
    assert "import-2 (undone)" in (explained.sources(story) or "")


def test_an_empty_prompt_is_explained(context: Context) -> None:
    record(context, Run(uid="e", inventory=Inventory(kind="declared", arms=()), empty=True))
    story = queries.run(context, "e")
    assert story.arms == ()
    assert explained.verdict(story).startswith("An empty prompt")
    assert explained.not_decided(story) == "Nothing answered this prompt; no arm was put to the test."


def test_what_people_said_is_shown_with_its_ledger_row(context: Context) -> None:
    record(context, a_run("r"))
    reward(context, "tool:other:b", 0.25, run="r", correct=True, reason="it helped")
    reward(context, "tool:other:a", 0.0, run="r")
    undo(context, reward(context, "tool:other:a", 0.75, run="r").id)
    story = queries.run(context, "r")
    assert explained.observed(arm_of(story, "tool:other:b")) == (
        "◆ 0.25 corrected by hand (reward-1, was 0.0)"
    )
    assert explained.observed(arm_of(story, "tool:other:a")) == "● 1.0; ◆ 0.0 by hand (reward-2)"
    told = [explained.ledger_row(row) for row in arm_of(story, "tool:other:a").by_hand]
    assert "(undone)" in told[0]
    assert explained.ledger_row(arm_of(story, "tool:other:b").by_hand[0]).endswith(": it helped")


def test_a_prompt_that_differs_from_its_selection_is_named(context: Context) -> None:
    change(context, "baseline_rate", 0.0)
    chosen = select(context, OFFERED, budget_tokens=300)
    record(
        context,
        Run(
            uid="d",
            inventory=Inventory(kind="declared", arms=tuple(OFFERED)),
            selection=chosen,
            run_class=chosen.run_class,
            calls=(Call(name="Read"),),
        ),
    )
    story = queries.run(context, "d")
    assert set(story.differs) == set(chosen.excluded)
    assert story.replays, "the selection itself is what it was"


def test_runs_before_and_after_in_time(context: Context) -> None:
    for number in (3, 1, 2):
        record(context, a_run(f"r{number}", at_ms=START_MS + number))
    record(context, a_run("timeless", at_ms=None))
    beside = {
        name: (queries.run(context, name).older, queries.run(context, name).newer)
        for name in ("r1", "r2", "r3")
    }
    assert beside == {"r1": ("timeless", "r2"), "r2": ("r1", "r3"), "r3": ("r2", None)}
    assert queries.run(context, "#2").facts.uid == "r1", "by number"


def test_a_written_draw_is_enough(context: Context) -> None:
    change(context, "baseline_rate", 0.0)
    change(context, "min_pulls", 0)
    for number in range(12):
        selected(context, f"r{number}")
        story = queries.run(context, f"r{number}")
        for arm in story.arms:
            if arm.flip is None or arm.flip.draw is None:
                continue
            said = explained.flip(arm, story)
            limit = "at least" if arm.reason == "budget" else "at most"
            written = float(said.split(f"draw of {limit} ")[1].split(" ")[0].rstrip(","))
            assert arm.draw is not None
            enough = written >= arm.flip.draw if limit == "at least" else written <= arm.flip.draw
            assert enough
            assert math.isclose(written, arm.flip.draw, abs_tol=0.001)
