"""What people say of arms: rewards and corrections, resets, settings; each taken back and given again."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import (
    ArmscopeError,
    Conflict,
    InvalidInput,
    UnknownArm,
    UnknownLearner,
)
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import note, redo, reset, undo
from core.flows.credit import credit_episode
from core.flows.episode import record_step
from core.flows.evaluate import evaluate
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.flows.select import select
from core.flows.settings import change
from core.records.arm import Arm
from core.records.episode_credit import CreditAnswer
from core.records.evaluation import EvaluationAnswer
from core.records.ledger_lines import NoteLine, ResetLine, RewardContext, RewardLine
from core.records.observation import epoch_words
from tests.formats.builders import lines, put
from tests.waiting import memory_folder
from tests.worlds import HOUR_MS, START_MS, a_run, chosen_among, context_at

A, B, C = (f"tool:other:{name}" for name in "abc")

_LATE = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(0, 1)),
        st.tuples(st.just("reset"), st.sampled_from([(A,), (B,), (A, B)])),
        st.tuples(st.just("reward"), st.tuples(st.sampled_from([A, B]), st.none() | st.integers(0, 9))),
    ),
    min_size=3,
    max_size=9,
)


@pytest.fixture
def context(context: Context) -> Context:
    """One observed run: a was used, b and c were not; and one that was skipped."""
    record(context, a_run("run-1"))
    record(context, a_run("talk", calls=()))
    return context


def belief(context: Context, arm: str = A) -> tuple[float, float, int]:
    (one,) = [one for one in queries.posteriors(context) if one.arm == arm]
    assert queries.verify(context).clean
    return one.alpha, one.beta, one.pulls


def everything(context: Context) -> bytes:
    return msgspec.json.encode(
        (queries.posteriors(context), queries.rewards(context, limit=99), queries.changes(context, 99))
    )


# Feedback


def test_every_verb_refuses_a_long_reason_or_key_by_the_same_sentence(context: Context) -> None:
    long = "x" * 2_001
    reasons: list[Callable[[], object]] = [
        lambda: reward(context, A, reason=long),
        lambda: reset(context, reason=long),
        lambda: ResetLine(id="1", arms=(), reason=long),
        lambda: RewardLine(
            id="1", arm=A, observation="feedback", reward=1, context=RewardContext(reason=long)
        ),
    ]
    keys: list[Callable[[], object]] = [
        lambda: reward(context, A, key=""),
        lambda: note(context, A, "slow", key=""),
        lambda: RewardLine(id="1", arm=A, observation="feedback", reward=1, key=""),
        lambda: NoteLine(id="1", arm=A, text="slow", key=""),
    ]
    assert {refusal_of(verb) for verb in reasons} == {
        "A reason must have at most 2,000 characters, got 2,001."
    }
    assert {refusal_of(verb) for verb in keys} == {"An idempotency key must have 1 to 200 characters, got 0."}
    assert "got 201" in refusal_of(lambda: reward(context, A, 1.0, key="x" * 201))
    assert reward(context, A, 1.0, reason="x" * 2_000, key="x" * 200).id == "reward-1"


def refusal_of(verb: Callable[[], object]) -> str:
    """The problem a verb is refused with."""
    with pytest.raises(InvalidInput) as refused:
        verb()
    return refused.value.problem


def test_an_unknown_arm_is_refused_with_what_may_have_been_meant(context: Context) -> None:
    before = everything(context)
    with pytest.raises(UnknownArm, match="Did you mean") as refused:
        reward(context, "tool:fs:a", 1.0)
    assert A in refused.value.problem
    assert "--create" in refused.value.next_step
    assert everything(context) == before


def test_only_the_verb_that_makes_arms_proposes_to_make_one(context: Context) -> None:
    near = "tool:fs:a"
    verbs: list[Callable[[], object]] = [
        lambda: note(context, near, "slow"),
        lambda: reset(context, arms=[near]),
        lambda: queries.arm_path(context, near),
    ]
    for verb in verbs:
        with pytest.raises(UnknownArm, match=f"Did you mean {A}") as refused:
            verb()
        assert refused.value.next_step == "Use an id that armscope arms lists."


def test_an_arm_is_made_on_purpose(context: Context) -> None:
    assert reward(context, "skill:new:main", 1.0, create=True).alpha == 4
    undo(context, "reward-1")
    assert belief(context, "skill:new:main") == (3, 1, 0), "made on purpose, it stays"


def test_an_arm_whose_import_is_undone_is_neither_suggested_nor_out_of_reach(
    context: Context, tmp_path: Path
) -> None:
    (tmp_path / "runs").write_bytes(
        lines([{"kind": "run", "uid": "x", "arms": ["tool:other:zz"], "calls": ["zz"]}])
    )
    undo(context, import_files(context, [tmp_path / "runs"]).id)
    with pytest.raises(UnknownArm) as refused:
        reward(context, "tool:other:zz", 1.0)
    assert "Did you mean tool:other:zz" not in refused.value.problem
    assert reward(context, "tool:other:zz", 1.0, create=True).pulls == 1
    assert belief(context, "tool:other:zz") == (4, 1, 1)


def test_text_that_is_no_unicode_is_refused(context: Context) -> None:
    before = everything(context)
    wrongs: list[dict[str, Any]] = [{"reason": "\udcff"}, {"run": "\udcff"}, {"key": "\udcff"}]
    for wrong in wrongs:
        with pytest.raises(ArmscopeError, match="Unicode"):
            reward(context, A, 1.0, **wrong)
    with pytest.raises(InvalidInput, match="Unicode"):
        record(context, a_run("\udcff"))
    assert everything(context) == before


def test_a_learner_nobody_recorded_under_is_named(context: Context) -> None:
    stranger = context.of("nobody")
    asks: list[Callable[[], object]] = [
        lambda: reward(stranger, A, 1.0, create=True),
        lambda: queries.status(stranger),
        lambda: reset(stranger),
        lambda: undo(stranger, "reward-1"),
    ]
    for ask in asks:
        with pytest.raises(UnknownLearner, match="known are default"):
            ask()
    assert queries.frame(context).learners == ("default",)


# About a run


def test_a_run_is_named_by_uid_or_number_and_a_uid_of_digits_goes_first(context: Context) -> None:
    for name in ("run-1", "1", "#1"):
        assert reward(context, A, 0.5, run=name).run == name
        row = queries.rewards(context)[0]
        assert (row.run, row.run_no) == ("run-1", 1)
    record(context, a_run("1"))
    reward(context, A, 0.5, run="1")
    assert queries.rewards(context)[0].run_no == 3


def test_what_was_replaced_says_by_what_until_that_is_undone(context: Context) -> None:
    first = reward(context, A, 0.0, run="run-1", correct=True)
    second = reward(context, A, 0.5, run="run-1", correct=True)
    newest, older = queries.rewards(context)
    assert (newest.id, newest.replaced_by) == (second.id, None)
    assert older.replaced_by is not None
    assert (older.id, older.counts, older.replaced_by.id) == (first.id, False, second.id)
    assert (older.replaced_by.reward, older.replaced_by.actor) == (0.5, "mara")
    before = belief(context)
    undo(context, first.id)
    assert belief(context) == before  # as its line says
    assert queries.rewards(context)[1].replaced_by is None  # undone is what it is now
    redo(context, first.id)
    undo(context, second.id)
    assert [row.replaced_by for row in queries.rewards(context)] == [None, None]


@pytest.mark.parametrize("correct", [True, False])
def test_two_people_on_one_outcome_are_told_of_each_other(context: Context, correct: bool) -> None:
    """Whoever sends what they saw nothing before is told what came in between, once."""
    first = reward(context, A, 0.5, run="run-1", correct=correct, seen="")
    before = everything(context)
    with pytest.raises(Conflict, match=rf"{A} in run 1 was .* 0\.5 by mara since\. Read it"):
        reward(context, A, 0.0, run="run-1", correct=correct, seen="")
    assert everything(context) == before
    second = reward(context, A, 0.0, run="run-1", correct=correct, seen=first.id, key="once")
    assert (
        reward(context, A, 0.0, run="run-1", correct=correct, seen="", key="once") == second
    )  # repeated, not new
    undo(context, second.id)
    reward(context, A, 1.0, run="run-1", correct=correct, seen=first.id)  # what was taken back is nothing new
    reward(context, A, 1.0, run="run-1", correct=correct)  # who says nothing of what they saw is not asked
    assert reward(context, B, 1.0, run="run-1", seen="").reward == 1.0


def test_an_arm_that_was_only_ever_left_out_can_be_made_on_purpose(context: Context) -> None:
    offered = [Arm(key=f"file:workspace:{name}", token_cost=60) for name in "xy"]
    chosen = select(context, offered, budget_tokens=100)
    (out,) = chosen.excluded
    told = chosen_among("chosen", chosen, offered)
    record(context, told)
    assert reward(context, out, 1.0, create=True).pulls == 1


# Keys


# Epochs


@settings(max_examples=15)
@given(_LATE)
def test_a_late_reward_names_its_epoch_and_whether_the_belief_moved(steps: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory(dir=memory_folder()) as folder:
        context = context_at(Path(folder) / "a.db")
        record(context, a_run("run-0"))
        n_runs = 1
        for kind, given in steps:
            if kind == "run":
                record(context, a_run(f"run-{n_runs}", calls=("a",) if given else ("b",)))
                n_runs += 1
            elif kind == "reset":
                reset(context, arms=given)
            else:
                arm, run = given
                before = belief(context, arm)
                named = None if run is None else f"run-{run % n_runs}"
                answer = reward(context, arm, 0.25, run=named)
                after = belief(context, arm)
                assert (answer.alpha, answer.beta, answer.pulls) == after
                assert answer.present == (after != before)
                assert answer.present == (answer.epoch == _epoch(context, arm))
                assert ("stays" in answer.effect) != answer.present


@settings(max_examples=15)
@given(st.lists(st.sampled_from(["run", "evaluate", "credit", (A,), (B,), (A, B)]), min_size=3, max_size=9))
def test_evaluations_and_credits_name_the_epochs_of_their_arms(steps: list[str | tuple[str, ...]]) -> None:
    with TemporaryDirectory(dir=memory_folder()) as folder:
        context = context_at(Path(folder) / "a.db")
        change(context, "evaluation_credit", "equal")
        ended: list[set[str]] = []
        for n, step in enumerate(("run", *steps)):
            answers: list[EvaluationAnswer | CreditAnswer] = []
            if step == "run":
                uid = f"run-{len(ended)}"
                record(context, a_run(uid))
                record_step(context, uid, environment="e", reward=1.0, finished=True, run=uid)
                ended.append(set())
            elif step == "evaluate":
                answers = [
                    evaluate(context, f"run-{at}", "success", rater=str(n)) for at in range(len(ended))
                ]
            elif step == "credit":
                answers = [
                    credit_episode(context, f"run-{at}", rule)
                    for at in range(len(ended))
                    for rule in ("off", "equal")
                ]
                answers = [one for one in answers if getattr(one, "shares", ())]
            else:
                reset(context, arms=list(step))
                ended = [one | {*step} for one in ended]
            for past, answer in zip(ended, answers, strict=bool(answers)):
                n_past = sum(one.observations for one in answer.counted_in if not one.present)
                assert n_past == len(past)
                assert sum(one.observations for one in answer.counted_in) == 3
                assert ("without effect" in epoch_words(answer.counted_in)) == bool(n_past)


def _epoch(context: Context, arm: str) -> int:
    return next(one.epoch for one in queries.posteriors(context) if one.arm == arm)


@pytest.mark.parametrize(("hours", "n_late"), [(-1, 1), (1_000, 0)])
def test_an_import_counts_runs_that_ended_before_a_reset(
    context: Context, tmp_path: Path, hours: int, n_late: int
) -> None:
    reset(context, arms=[A])
    ended = START_MS + hours * HOUR_MS
    run = {"kind": "run", "uid": "late", "arms": [A], "calls": ["a"], "ended_at_ms": ended}
    answer = import_files(context, [put(tmp_path, lines([run]), "late.jsonl")])
    assert sum("before a reset" in note for note in answer.notes) == n_late
    assert belief(context) == (2, 1, 1), "the order of recording decides"


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, {"file:workspace:n", A, B, C}),
        ({"types": ["tool"]}, {A, B, C}),
        ({"arms": [A]}, {A}),
        ({"arms": [A], "types": ["file"]}, {A, "file:workspace:n"}),
        ({"arms": [A, A], "types": ["tool", "tool"]}, {A, B, C}),
    ],
)
def test_a_reset_has_a_scope(context: Context, scope: dict[str, Any], expected: set[str]) -> None:
    reward(context, "file:workspace:n", 1.0, create=True)
    answer = reset(context, **scope)
    assert set(answer.arm_ids) == expected
    assert (answer.reset_count, answer.learner, answer.to) == (len(expected), "default", "uniform")
    for one in queries.posteriors(context):
        assert (one.pulls == 0) == (one.arm in expected)
        assert (one.epoch > 0) == (one.arm in expected)


# Undo


# Settings


def test_settings_are_a_log_of_which_the_latest_standing_counts(context: Context) -> None:
    ids = [change(context, "min_pulls", value).id for value in (1, 2, 3)]
    assert change(context, "min_pulls", 3).id is None, "it is in force already"
    assert ids == ["setting-1", "setting-2", "setting-3"]
    for act, left in (("setting-2", 3), ("setting-3", 1), ("setting-1", 5)):
        undo(context, act)
        assert queries.frame(context).settings.min_pulls == left
        assert queries.verify(context).clean
    redo(context, "setting-2")
    assert queries.frame(context).settings.min_pulls == 2


def test_a_prior_moves_every_belief_that_follows_it(context: Context) -> None:
    reset(context, arms=[B], target="uniform")
    reset(context, arms=[C], target="prior")
    changed = change(context, "priors", {"tool": {"alpha_micro": 500_000, "beta_micro": 2_000_000}})
    assert belief(context, A) == (1.5, 2, 1)
    assert belief(context, B) == (1, 1, 0), "reset to uniform, it follows no prior"
    assert belief(context, C) == (0.5, 2, 0)
    assert changed.id is not None
    undo(context, changed.id)
    assert [belief(context, arm) for arm in (A, B, C)] == [(4, 1, 1), (1, 1, 0), (3, 1, 0)]


def test_one_types_prior_leaves_the_others_as_they_are(context: Context) -> None:
    change(context, "priors", {"skill": {"alpha_micro": 9_000_000, "beta_micro": 1_000_000}})
    change(context, "priors", {"tool": {"alpha_micro": 2_000_000, "beta_micro": 1_000_000}})
    priors = queries.frame(context).settings.priors
    assert (priors.skill.alpha, priors.tool.alpha, priors.memory.alpha) == (9, 2, 3)
    undo(context, "setting-2")
    assert queries.frame(context).settings.priors.skill.alpha == 9


# Runs


@pytest.mark.parametrize(
    ("status", "outcome"), [("aborted", "aborted"), ("error", "error"), ("completed", "conversational")]
)
def test_runs_without_a_call_are_counted_by_their_reason(context: Context, status: str, outcome: str) -> None:
    before = queries.status(context).skipped[outcome]
    run = msgspec.structs.replace(a_run("x", calls=()), status=status)
    assert record(context, run).outcome == outcome
    assert queries.status(context).skipped[outcome] == before + 1
    failed = msgspec.structs.replace(a_run("y", calls=("a",)), status=status)
    assert record(context, failed).outcome == "observed", "a run that failed after a real call is observed"


def test_a_preview_says_what_the_reward_then_does(context: Context) -> None:
    for value, run, correct in ((0.25, None, False), (0.5, "run-1", False), (0.75, "run-1", True)):
        preview = queries.preview_reward(context, A, value, run=run, correct=correct)
        before = belief(context)
        assert (preview.before.alpha, preview.before.beta, preview.before.pulls) == before
        answer = reward(context, A, value, run=run, correct=correct)
        assert (preview.after.alpha, preview.after.beta, preview.after.pulls) == (
            answer.alpha,
            answer.beta,
            answer.pulls,
        )
        moved = queries.rewards(context)[0].mean_moved
        assert moved is not None
        assert math.isclose(moved, preview.after.mean - preview.before.mean, abs_tol=1e-12)
