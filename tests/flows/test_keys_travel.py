"""Idempotency keys go along with an export: a request sent again elsewhere is answered as the first time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Conflict
from core.flows import queries
from core.flows.bundle import export_bundle
from core.flows.context import Context
from core.flows.corrections import note, redo, reset, undo
from core.flows.export import export_file
from core.flows.importing import ImportAnswer, import_files
from core.flows.learn import record_all, reward, reward_all
from core.flows.learners import create_learner
from core.records.observation import OUTCOME_REWARDS, RewardAnswer, RewardOrder, RewardOutcome
from tests.engine import named
from tests.formats.builders import lines
from tests.waiting import memory_folder
from tests.worlds import a_run, context_at

A, B, C = (f"tool:other:{name}" for name in "abc")
LONG = "k" * 200
OUTCOMES: st.SearchStrategy[RewardOutcome | None] = st.none() | st.sampled_from(sorted(OUTCOME_REWARDS))

KEYED = ["k1", "k2", "k3"]

REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["k1", "k2", "k3"]),
        st.sampled_from([A, B]),
        st.none() | st.sampled_from([0.0, 1.0, 0.0000005]) | st.floats(0, 1),
        OUTCOMES,
        st.none() | st.sampled_from(["r", "s"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture
def context(context: Context) -> Context:
    record_all(context, [a_run("r"), a_run("s")])
    return context


def exported(context: Context, path: Path) -> Path:
    export_file(context, path)
    return path


def zipped(context: Context, path: Path) -> Path:
    path = path.with_suffix(".zip")
    export_bundle(context, path)
    return path


def import_by_hand(context: Context, *records: object) -> ImportAnswer:
    """Lines by hand, imported; their file has the name of the next revision."""
    path = named(context.store).with_name(f"told-{queries.revision(context).revision}.jsonl")
    path.write_bytes(lines([{"armscope": 1, "kind": "learner", "name": "x"}, *records]))
    return import_files(context, [path])


def numbers(context: Context) -> list[tuple[str, float, float, int]]:
    assert queries.verify(context).clean
    return [(one.arm, one.alpha, one.beta, one.pulls) for one in queries.posteriors(context)]


def same(context: Context, answer: RewardAnswer, first: RewardAnswer) -> bool:
    """The same answer under this learner's id, which names a reward of the same content."""
    (given,) = [one for one in queries.rewards(context) if one.id == answer.id]
    assert (given.arm, given.reward, given.kind) == (first.arm, first.reward, first.kind)
    return msgspec.structs.replace(answer, id=first.id) == first


@pytest.mark.parametrize("way", [exported, zipped])
def test_a_request_sent_again_to_a_restored_learner_counts_once(
    context: Context, tmp_path: Path, way: Callable[[Context, Path], Path]
) -> None:
    reward(context, C, 0.5)  # so that numbers there differ from those here
    undo(
        context,
        import_by_hand(
            context, {"kind": "reward", "id": "x", "arm": A, "observation": "feedback", "reward": 0.0}
        ).id,
    )
    orders = [
        RewardOrder(arm=A, value=0.1234567, reason="half an answer", key=LONG),
        RewardOrder(arm=B, outcome="partial", run="1", key="by number"),
        RewardOrder(arm=A, value=0.0, run="r", correct=True, key="clé/\u2028'; --"),
        RewardOrder(arm="tool:other:new", key="made", create=True),
    ]
    first = reward_all(context, orders)
    written = note(context, A, "slow on Mondays", key="n")
    reset(context, arms=[A])
    undo(context, first[1].id)
    there = context_at(tmp_path / "b.db")
    import_files(there, [way(context, tmp_path / "out.jsonl")])
    before = numbers(there)
    assert before == numbers(context)
    again = reward_all(there, orders)
    assert all(same(there, *both) for both in zip(again, first, strict=True))
    assert again[0].rounded
    assert note(there, A, " slow on Mondays ", key="n") == written
    assert numbers(there) == before
    assert len(queries.rewards(there)) == 5
    assert len(queries.notes(there, A)) == 1
    with pytest.raises(Conflict, match=r"already belongs to reward-\d: 0.123457 for tool:other:a"):
        reward(there, A, 0.2, reason="half an answer", key=LONG)
    with pytest.raises(Conflict, match="already belongs to note-1"):
        reward(there, A, key="n")
    with pytest.raises(Conflict):
        note(there, A, "other", key="by number")
    assert numbers(there) == before


def test_another_learner_of_the_same_database_answers_too(context: Context, tmp_path: Path) -> None:
    first = reward(context, A, 0.25, key="k")
    there = replace(context.of("copy"), identity=lambda: "test:copy")
    create_learner(there, "copy")
    import_files(there, [zipped(context, tmp_path / "out")])
    assert same(there, reward(there, A, 0.25, key="k"), first)
    assert numbers(there) == numbers(context)


def test_a_request_that_was_sent_to_both_counts_once_where_they_meet(
    context: Context, tmp_path: Path
) -> None:
    """It was answered, the answer was lost with the machine, and it was sent again before the export was read."""
    reward(context, A, 0.25, key="k")
    note(context, A, "slow", key="n")
    there = context_at(tmp_path / "b.db")
    record_all(there, [a_run("r"), a_run("s")])
    answer, written = reward(there, A, 0.25, key="k"), note(there, A, "slow", key="n")
    before = numbers(there)
    act = import_files(there, [exported(context, tmp_path / "a.jsonl")])
    assert (act.id, act.ledger, act.rejected_count) == (None, 2, 0), "nothing of it is new"
    assert (numbers(there), len(queries.notes(there, A))) == (before, 1)
    assert (reward(there, A, 0.25, key="k"), note(there, A, "slow", key="n")) == (answer, written)


def test_other_content_under_a_key_is_refused_and_named(context: Context, tmp_path: Path) -> None:
    reward(context, A, 0.25, key="k")
    note(context, A, "slow", key="n")
    there = context_at(tmp_path / "b.db")
    record_all(there, [a_run("r"), a_run("s")])
    reward(there, B, 1.0, key="k")
    reward(there, B, 1.0, key="n")
    before = numbers(there)
    act = import_files(there, [exported(context, tmp_path / "a.jsonl")])
    assert [one.reason for one in act.rejected] == [
        "The idempotency key 'k' already belongs to reward-1: 1 for tool:other:b.",
        "The idempotency key 'n' already belongs to reward-2: 1 for tool:other:b.",
    ]
    assert numbers(there) == before


def told_again(tmp_path: Path) -> tuple[Context, Context, str | None]:
    """A learner with three keyed rewards, a correction and a note; one that read its export, took that back, and was
    asked for all of it directly; and the import it took back.
    """
    context = context_at(tmp_path / "a.db")
    record_all(context, [a_run(f"r{number}") for number in range(5)])

    def ask(there: Context) -> None:
        for number, key in enumerate(KEYED):
            reward(there, A, number / 2, key=key)
        reward(there, A, 0.25, run="r1", correct=True, key="c")
        note(there, A, "slow", key="n")

    ask(context)
    there = context_at(tmp_path / "b.db")
    act = import_files(there, [exported(context, tmp_path / "a.jsonl")]).id
    undo(there, act)
    record_all(there, [a_run(f"r{number}") for number in range(5)])
    ask(there)
    return context, there, act


def test_an_import_that_stands_again_leaves_out_what_was_asked_for_meanwhile(tmp_path: Path) -> None:
    context, there, act = told_again(tmp_path)
    wanted = numbers(there)
    assert wanted == numbers(context)
    back = redo(there, act)
    assert back.left_out == 5
    assert numbers(there) == wanted
    assert len(queries.notes(there, A)) == 1
    further = context_at(tmp_path / "c.db")
    answer = import_files(further, [exported(there, tmp_path / "b.jsonl")])
    assert (answer.ledger, answer.ledger_duplicates, numbers(further)) == (5, 0, wanted)
    assert import_files(there, [tmp_path / "a.jsonl"]).id is None, "nothing of it is new"
    assert numbers(there) == wanted
    undo(there, back.id)
    assert numbers(there) == wanted
    assert undo(there, act).left_out == 0


def test_a_key_that_two_imports_used_for_different_things_stands_once(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    line = {"kind": "reward", "observation": "feedback", "reward": 0.5, "key": "k"}
    first = import_by_hand(context, line | {"id": "x1", "arm": A})
    undo(context, first.id)
    second = import_by_hand(context, line | {"id": "x2", "arm": B})

    def counted() -> list[str]:
        return [arm for arm, _, _, pulls in numbers(context) if pulls]

    assert redo(context, first.id).left_out == 1
    assert counted() == [B]
    undo(context, second.id)
    assert counted() == [A], "nothing holds its key any more"
    redo(context, second.id)
    assert counted() == [B], "whatever the order"
    undo(context, first.id)
    assert counted() == [B]


def test_a_key_that_stands_twice_is_found(tmp_path: Path) -> None:
    """As a database has it in which an import stood again before keys were looked at."""
    _, there, act = told_again(tmp_path)
    redo(there, act)
    there.store.database.write(lambda connection: connection.run("UPDATE observation SET standing = 1"))
    found = queries.verify(there)
    assert not found.clean
    assert {one.table for _, one in found.differences} >= {"observation", "posterior"}


def test_exports_without_keys_are_read_as_before_and_learn_them_later(
    context: Context, tmp_path: Path
) -> None:
    first = reward(context, A, 0.25, key="k")
    file = exported(context, tmp_path / "a.jsonl")
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for one in records:
        one.pop("reply", None)
        if one["kind"] == "reward":
            del one["key"]
    older = tmp_path / "older.jsonl"
    older.write_bytes(lines(records))
    there = context_at(tmp_path / "b.db")
    assert import_files(there, [older]).rejected_count == 0
    assert numbers(there) == numbers(context)
    import_files(there, [file])
    assert same(there, reward(there, A, 0.25, key="k"), first)
    assert numbers(there) == numbers(context)


def test_a_key_by_hand_stands_for_the_request_that_says_the_same(context: Context) -> None:
    line = {"kind": "reward", "id": "x1", "arm": A, "observation": "feedback", "reward": 0.5, "key": "k"}
    assert import_by_hand(context, line | {"context": {"reason": "meh"}}).ledger == 1
    before = numbers(context)
    answer = reward(context, A, 0.5, reason="meh", key="k")
    assert (answer.id, answer.reward) == ("reward-1", 0.5)
    assert (answer.alpha, answer.beta, answer.pulls) == before[0][1:]
    with pytest.raises(Conflict):
        reward(context, A, 0.5, key="k")
    assert import_by_hand(context, line | {"id": "x2", "context": {"reason": "meh"}}).rejected_count == 0
    assert numbers(context) == before


@pytest.mark.parametrize(
    "field",
    [
        {"key": "k" * 201},
        {"key": ""},
        {"reply": {"asked": "0" * 16, "alpha": 1.0, "beta": 1.0, "mean": 0.5, "pulls": 0}},
        {"key": "k", "reply": {"asked": "x" * 16, "alpha": 1.0, "beta": 1.0, "mean": 0.5, "pulls": 0}},
        {"key": "k", "reply": {"asked": "0" * 16, "alpha": 0.0, "beta": 1.0, "mean": 0.5, "pulls": 0}},
        {"key": "k", "reply": {"asked": "0" * 16}},
        {"key": "k", "observation": "correction"},
    ],
)
def test_a_key_that_cannot_be_is_refused_with_its_line(context: Context, field: dict[str, object]) -> None:
    good = {"kind": "reward", "id": "x1", "arm": A, "observation": "feedback", "reward": 0.5}
    before = numbers(context)
    act = import_by_hand(context, good | field, good | {"id": "x2", "arm": B})
    assert act.rejected_count == 1
    assert numbers(context)[0] == before[0]


@settings(max_examples=15)
@given(requests=REQUESTS, undone=st.sets(st.integers(0, 5)))
def test_whatever_was_asked_gets_the_same_answer_after_the_journey(
    requests: list[tuple[str, str, float | None, RewardOutcome | None, str | None, bool]], undone: set[int]
) -> None:
    orders = [
        RewardOrder(
            key=key, arm=arm, value=value, outcome=outcome, run=run, correct=correct and run is not None
        )
        for key, arm, value, outcome, run, correct in requests
    ]
    with TemporaryDirectory(dir=memory_folder()) as folder:
        here, there = context_at(Path(folder) / "a.db"), context_at(Path(folder) / "b.db")
        record_all(here, [a_run("r"), a_run("s")])
        first = [_answer(here, order) for order in orders]
        for place in undone & set(range(len(first))):
            answer = first[place]
            if answer is not None:
                undo(here, answer.id)
        import_files(there, [exported(here, Path(folder) / "out.jsonl")])
        before = numbers(there)
        assert before == numbers(here)
        for order, was in zip(orders, first, strict=True):
            answer = _answer(there, order)
            assert (answer is None) == (was is None)
            assert answer is None or was is None or same(there, answer, was)
        assert numbers(there) == before


def _answer(context: Context, order: RewardOrder) -> RewardAnswer | None:
    """None where the key stands for something else."""
    try:
        return reward_all(context, [order])[0]
    except Conflict:
        return None


def test_a_reward_that_came_undone_keeps_its_key_and_is_no_rejected_line(tmp_path: Path) -> None:
    context = context_at(tmp_path / "a.db")
    line = {"kind": "reward", "id": "1", "arm": "tool:other:new", "observation": "feedback", "reward": 0.0}
    for n_known in (0, 1):
        answer = import_by_hand(context, {**line, "key": "k", "undone": True})
        assert (answer.ledger, answer.ledger_duplicates, answer.rejected) == (1, n_known, ())
    redo(context, "reward-1")
    again = reward(context, "tool:other:new", 0.0, key="k")
    assert (again.id, again.alpha, again.beta, again.pulls) == ("reward-1", 3, 2, 1)
    assert queries.verify(context).clean
