"""Many rewards as one act: all of them or none, one id that takes all of it back, and the laws of single ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from core.errors import (
    Conflict,
    Denied,
    InvalidBatch,
    InvalidInput,
    UnknownAct,
)
from core.flows import queries
from core.flows.batch import reward_batch, reward_run
from core.flows.context import Context
from core.flows.corrections import redo, reset, undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record, reward
from core.records.arm import Arm
from core.records.batch import MAX_BATCH, RUN_REWARD_RULES, BatchLine, RunRewardRule
from core.records.observation import RewardOrder
from core.records.run import Call, Inventory, Run
from tests.flows.test_rewards import A, B, C, context, everything
from tests.worlds import a_run, acting, context_at

__all__ = ["context"]

GOLDEN = -6590339906000085899
"""Digest of one correction, as the version before rules computed it."""
TABLE = (
    BatchLine(arm=A, value=0.0, run="run-1"),
    BatchLine(arm=B, outcome="partial", run="talk", reason="=1+1"),
    BatchLine(arm=B, value=1.0),
    BatchLine(arm=A, value=0.25),
)


def beliefs(context: Context) -> list[tuple[str, float, float, int]]:
    assert queries.verify(context).clean
    return [(one.arm, one.alpha, one.beta, one.pulls) for one in queries.posteriors(context)]


# Giving


def test_a_batch_is_what_its_rewards_are_one_by_one(context: Context, tmp_path: Path) -> None:
    other = context_at(tmp_path / "b.db")
    record(other, a_run("run-1"))
    record(other, a_run("talk", calls=()))
    answer = reward_batch(context, TABLE)
    reward(other, A, 0.0, run="run-1", correct=True)
    reward(other, B, outcome="partial", run="talk")
    reward(other, B, 1.0)
    reward(other, A, 0.25)
    assert beliefs(context) == beliefs(other)
    assert (answer.id, answer.count) == ("rewards-1", 4)
    assert [one.kind for one in answer.rewards] == ["correction", "feedback", "feedback", "feedback"]
    assert [one.id for one in answer.rewards] == [f"reward-{number}" for number in (1, 2, 3, 4)]
    assert queries.rewards(context, limit=99)[2].reason == "=1+1"


def test_a_preview_says_what_the_act_then_does(context: Context) -> None:
    reset(context, arms=[B])
    before = everything(context)
    preview = queries.preview_batch(context, TABLE)
    assert everything(context) == before
    then = {one.arm: (one.mean, one.pulls) for one in queries.posteriors(context)}
    answer = reward_batch(context, TABLE)
    now = {one.arm: (one.mean, one.pulls) for one in queries.posteriors(context)}
    for arm in (A, B):
        effect = preview.arms[arm]
        assert (effect.mean[0], effect.pulls[0]) == pytest.approx(then[arm])
        assert (effect.mean[1], effect.pulls[1]) == pytest.approx(now[arm])
    assert [line.kind for line in preview.lines] == [one.kind for one in answer.rewards]
    assert [line.in_present_epoch for line in preview.lines] == [True, False, True, True]
    assert preview.n_corrections == 1


def test_one_bad_line_keeps_the_others_out_and_every_one_is_named(context: Context) -> None:
    before = everything(context)
    lines = [
        TABLE[0],
        BatchLine(arm="tool:other:aa", value=1.0),
        BatchLine(arm=A, value=1.5),
        BatchLine(arm=A),
        BatchLine(arm=A, value=1.0, run="nowhere"),
        BatchLine(arm=A, value=1.0, reason="x" * 2_001),
        BatchLine(arm="no id", value=1.0),
        BatchLine(arm=A, value=1.0, run="run-1"),
        BatchLine(arm=A, value=1.0, kind="correction"),
    ]
    with pytest.raises(InvalidBatch) as refused:
        reward_batch(context, lines)
    assert everything(context) == before
    codes = {number: bad.code for number, bad in refused.value.lines.items()}
    assert codes == {
        2: "unknown_arm",
        3: "invalid_reward",
        4: "invalid_reward",
        5: "unknown_run",
        6: "invalid_input",
        7: "invalid_arm",
        8: "conflict",
        9: "invalid_input",
    }
    assert "8 of 9 lines" in refused.value.problem
    assert "line 8: tool:other:a in run 1 is corrected by line 1 already" in refused.value.problem
    told = refused.value.as_answer()["lines"]
    assert isinstance(told, list)
    assert [one["line"] for one in told] == sorted(codes)
    assert queries.preview_batch(context, lines).bad.keys() == codes.keys()


def test_a_batch_that_is_empty_or_too_long_and_a_key_without_room_for_lines_are_refused(
    context: Context,
) -> None:
    for n_lines in (0, MAX_BATCH + 1):
        with pytest.raises(InvalidInput, match="10,000"):
            reward_batch(context, [BatchLine(arm=A, value=1.0)] * n_lines)
    reward_batch(context, TABLE, key="k" * 194)
    with pytest.raises(InvalidInput, match="194"):
        reward_batch(context, TABLE, key="k" * 195)


def test_ten_thousand_are_one_act_and_one_undo(context: Context) -> None:
    before = beliefs(context)
    lines = [BatchLine(arm=(A, B, C)[place % 3], value=place % 5 / 4) for place in range(MAX_BATCH)]
    answer = reward_batch(context, lines)
    assert sum(one[3] for one in beliefs(context)) == sum(one[3] for one in before) + MAX_BATCH
    assert undo(context, f"rewards-{MAX_BATCH}").undone == answer.id
    assert beliefs(context) == before


def test_what_somebody_said_meanwhile_is_told_of_each_line(context: Context) -> None:
    first = reward(acting(context, name="priya"), A, 0.5, run="run-1", correct=True)
    lines = [
        BatchLine(arm=A, value=1.0, run="run-1", seen=""),
        BatchLine(arm=B, value=1.0, run="run-1", seen=""),
    ]
    with pytest.raises(InvalidBatch, match=r"corrected to 0\.5 by priya since") as refused:
        reward_batch(context, lines)
    assert {number: bad.code for number, bad in refused.value.lines.items()} == {1: "conflict"}
    assert queries.preview_batch(context, lines).bad.keys() == {1}
    reward_batch(context, [msgspec.structs.replace(lines[0], seen=first.id), lines[1]])


# A run as a whole


def test_a_run_is_rewarded_in_all_its_arms(context: Context) -> None:
    answer = reward_run(context, "run-1", 0.5, rule="equal", reason="half")
    assert [(one.arm, one.kind, one.reward) for one in answer.rewards] == [
        (arm, "correction", 0.5) for arm in (A, B, C)
    ]
    talk = reward_run(context, "talk", outcome="rejected", rule="equal")
    assert {(one.kind, one.reward) for one in talk.rewards} == {("feedback", 0.0)}
    assert {one.reward for one in reward_run(context, "talk", rule="equal").rewards} == {1.0}
    assert answer.id is not None
    undo(context, answer.id)
    assert all(row.undone for row in queries.rewards(context, limit=99)[-3:])


def test_only_referenced_arms_are_rewarded_beside_what_was_observed(context: Context) -> None:
    before = {one.arm: one for one in queries.posteriors(context)}
    answer = reward_run(context, "run-1", 0.5, reason="half")
    assert (answer.rule, answer.count, answer.why) == ("referenced", 1, None)
    assert [(one.arm, one.kind, one.reward) for one in answer.rewards] == [(A, "feedback", 0.5)]
    after = {one.arm: one for one in queries.posteriors(context)}
    assert (after[A].pulls, after[A].alpha) == (before[A].pulls + 1, before[A].alpha + 0.5)
    assert {arm: after[arm] for arm in (B, C)} == {arm: before[arm] for arm in (B, C)}
    assert answer.id is not None
    undo(context, answer.id)
    assert beliefs(context) == [(one.arm, one.alpha, one.beta, one.pulls) for one in before.values()]
    redo(context, answer.id)
    assert {one.arm: one for one in queries.posteriors(context)}[A].alpha == after[A].alpha


def test_a_correction_of_a_run_replaces_what_was_observed(context: Context) -> None:
    before = {one.arm: one for one in queries.posteriors(context)}
    answer = reward_run(context, "run-1", 0.0, correct=True)
    assert [(one.arm, one.kind) for one in answer.rewards] == [(A, "correction")]
    after = {one.arm: one for one in queries.posteriors(context)}
    assert (after[A].pulls, after[A].alpha, after[A].beta) == (1, before[A].alpha - 1, before[A].beta + 1)
    assert after[B] == before[B]
    reward_run(context, "run-1", 0.25, rule="equal", correct=True)
    with pytest.raises(InvalidBatch, match="was not observed"):
        reward_run(context, "talk", 0.0, rule="equal", correct=True)


def test_where_nothing_was_referenced_nothing_is_recorded(context: Context) -> None:
    record(context, a_run("bare", arms=()))
    before = everything(context)
    for run in ("talk", "bare"):
        for rule in RUN_REWARD_RULES[::2]:
            answer = reward_run(context, run, 1.0, rule=rule, key="none")
            assert (answer.id, answer.count, answer.rewards) == (None, 0, ())
            assert answer.why is not None
            assert "nothing" in answer.why
    assert everything(context) == before


def test_by_step_the_called_tools_are_rewarded(context: Context) -> None:
    both = Inventory(kind="declared", arms=(Arm(key=A), Arm(key="skill:review:main")))
    record(context, Run(uid="both", inventory=both, calls=(Call(name="a", metadata="review"),)))
    assert [one.arm for one in reward_run(context, "both", 1.0, rule="step").rewards] == [A]
    assert {one.arm for one in reward_run(context, "both", 1.0).rewards} == {A, "skill:review:main"}


# Once


def test_the_key_of_a_run_keeps_the_rule_of_its_first_request(context: Context) -> None:
    """A request of a version without rules is answered as stored, also after its run has grown."""
    old = reward_run(context, "run-1", 0.5, rule="equal", reason="half", key="k")
    before = everything(context)
    record(context, a_run("run-1", arms=("a", "b", "c", "d"), calls=("a", "b"), rank=1))
    grown = everything(context)
    assert reward_run(context, "run-1", 0.5, reason="half", key="k") == old
    assert reward_run(context, "run-1", 0.5, rule="equal", reason="half", key="k") == old
    new = reward_run(context, "run-1", 1.0, key="n")
    assert reward_run(context, "run-1", 1.0, key="n") == new
    last = everything(context)
    others: list[tuple[float, str, RunRewardRule, bool]] = [
        (0.5, "k", "step", False),
        (0.75, "k", "referenced", False),
        (0.5, "k", "referenced", True),
        (1.0, "n", "equal", False),
        (1.0, "n", "referenced", True),
    ]
    for value, key, rule, correct in others:
        reason = "half" if key == "k" else None
        with pytest.raises(Conflict):
            reward_run(context, "run-1", value, rule=rule, reason=reason, correct=correct, key=key)
    assert everything(context) == last
    assert len({before, grown, last}) == 3


def test_a_request_without_a_rule_has_the_digest_it_always_had() -> None:
    order = RewardOrder(arm=A, value=0.5, reason="half", run="run-1", correct=True, key="k/1")
    assert order.payload() == GOLDEN
    assert msgspec.structs.replace(order, rule="referenced").payload() != GOLDEN


@pytest.mark.parametrize(
    "other",
    [
        TABLE[:2],
        (*TABLE, BatchLine(arm=C, value=1.0)),
        (*TABLE[:3], BatchLine(arm=A, value=0.5)),
        (*TABLE[:3], BatchLine(arm=C, value=0.25)),
    ],
    ids=["shorter", "longer", "other value", "other arm"],
)
def test_a_key_stands_for_one_batch(context: Context, other: Sequence[BatchLine]) -> None:
    reward_batch(context, TABLE, key="k")
    before = everything(context)
    with pytest.raises(Conflict):
        reward_batch(context, other, key="k")
    assert everything(context) == before


def test_keys_travel_and_the_batch_counts_once_elsewhere_too(context: Context, tmp_path: Path) -> None:
    first = reward_batch(context, TABLE, key="k")
    export_file(context, tmp_path / "all.jsonl")
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "all.jsonl"])
    before = beliefs(other)
    assert reward_batch(other, TABLE, key="k").rewards == first.rewards
    assert beliefs(other) == before == beliefs(context)
    export_file(other, tmp_path / "again.jsonl")
    assert b"rewards-" not in (tmp_path / "again.jsonl").read_bytes()
    with pytest.raises(UnknownAct, match="rewards-1"):
        undo(other, "rewards-1")  # imported rewards are no batch


# Taking back


def test_one_id_takes_all_of_it_back_and_forth(context: Context) -> None:
    before = beliefs(context)
    reward(context, A, 1.0)
    alone = beliefs(context)
    answer = reward_batch(context, TABLE)
    given = beliefs(context)
    reward(context, C, 0.0)
    taken = undo(context, answer.id)
    assert (taken.id, taken.undone, taken.kind, taken.count) == ("undos-1", "rewards-2", "reward", 4)
    assert undo(context, answer.id) == taken
    assert [row.undone for row in queries.rewards(context, limit=99)] == [
        False,
        True,
        True,
        True,
        True,
        False,
    ]
    again = undo(context, taken.id)
    assert (again.id, again.undone, again.kind) == ("undos-5", "undos-1", "undo")
    undo(context, "reward-6")
    assert beliefs(context) == given
    assert undo(context, again.id).kind == "undo"
    assert beliefs(context) == alone
    assert redo(context, answer.id).count == 4
    assert beliefs(context) == given
    assert redo(context, answer.id).id == answer.id
    undo(context, answer.id)
    undo(context, "reward-1")
    assert beliefs(context) == before


def test_taking_back_is_foretold(context: Context) -> None:
    answer = reward_batch(context, TABLE)
    before = everything(context)
    preview = queries.preview_undo(context, answer.id)
    assert everything(context) == before
    assert undo(context, "rewards-3").undone == answer.id, "any of its rewards names the batch"
    assert preview.n_pulls[0] - preview.n_pulls[1] == 3
    assert {arm.key for arm in preview.moved} == {A, B}


def test_reviewers_take_back_their_own_batches_only(context: Context) -> None:
    answer = reward_batch(acting(context, name="mo"), TABLE)
    with pytest.raises(Denied):
        undo(acting(context, name="priya"), answer.id)
    taken = undo(acting(context, name="mo"), answer.id)
    with pytest.raises(Denied):
        redo(acting(context, name="priya"), answer.id)
    with pytest.raises(Denied):
        undo(acting(context, name="priya"), taken.id)
    redo(acting(context, name="mo"), answer.id)
    with pytest.raises(Denied):
        reward_batch(acting(context, "viewer", "vi"), TABLE)
