"""Two people who act at once on the same arm: every act is kept or refused in plain words, and can be undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from core.errors import ArmscopeError, Conflict, NotApplicable
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import repair, reset, undo
from core.flows.evaluate import evaluate
from core.flows.learn import reward
from core.flows.queues import browsers, confirm_browser
from core.records.actor import Actor
from tests.flows.test_repair import SINCE, B, broken
from tests.worlds import context_at
from tests.worlds.history import beliefs_by_arm

KIM = "kim 3f2a91"
Act = Callable[[Context], Any]


@pytest.fixture
def people(tmp_path: Path) -> Iterator[tuple[Context, Context]]:
    """Two people on one database, each with a store of their own as in two processes; a browser has judged there."""
    ann = broken(tmp_path)
    bob = context_at(tmp_path / "broken.db", name="bob")
    stranger = replace(ann, actor=Actor(name=ann.actor.name, browser=KIM))
    evaluate(stranger, "r3", "success", score=1.0, arm=B)
    with ExitStack() as ending:
        ending.callback(ann.store.close)
        ending.callback(bob.store.close)
        yield ann, bob
        assert queries.verify(ann).clean


def at_once(people: Sequence[Context], acts: Sequence[Act]) -> list[Any]:
    """The answers, or the refusals, of acts that begin together; each is by the next person."""
    start = Barrier(len(acts))

    def done(number: int) -> Any:  # noqa: ANN401 - whatever the act returns
        start.wait(timeout=60)
        try:
            return acts[number](people[number % len(people)])
        except ArmscopeError as refusal:
            return refusal

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(done, range(len(acts))))


def repaired(context: Context) -> Any:  # noqa: ANN401 - as `Act` has it
    return repair(context, arms=[B], since=SINCE)


def test_of_two_repairs_one_takes_back_and_the_other_is_refused(people: tuple[Context, Context]) -> None:
    before = beliefs_by_arm(people[0])
    first, second = sorted(at_once(people, [repaired, repaired]), key=lambda one: isinstance(one, Exception))
    assert first.observation_count == 10
    assert isinstance(second, NotApplicable)
    assert "got none that counts" in str(second)
    undo(people[1], first.id)
    assert beliefs_by_arm(people[0]) == before


def test_repair_reset_rewards_and_a_confirmation_lose_nothing(people: tuple[Context, Context]) -> None:
    before = beliefs_by_arm(people[0])
    acts: list[Act] = [
        repaired,
        lambda one: reset(one, arms=[B], reason="the detector was wrong"),
        lambda one: reward(one, B, 1.0),
        lambda one: reward(one, B, 0.0, run="r4"),
        lambda one: confirm_browser(one, KIM),
        lambda one: confirm_browser(one, KIM),
    ]
    answers = at_once(people, acts)
    assert not [one for one in answers if isinstance(one, Exception)]
    assert answers[4].id == answers[5].id, "a name is confirmed once"
    assert queries.verify(people[1]).clean
    assert len({one.id for one in answers}) == 5
    for act in {one.id: None for one in answers}:
        undo(people[0], act)
    assert beliefs_by_arm(people[1]) == before
    (row,) = browsers(people[0])
    assert (row.id, row.n_judged) == (None, 1)


def test_the_second_correction_of_a_run_is_the_one_that_counts_and_the_first_stays(
    people: tuple[Context, Context],
) -> None:
    before = beliefs_by_arm(people[0])
    answers = at_once(people, [lambda one: reward(one, B, 1.0, run="r12", correct=True)] * 2)
    assert {one.kind for one in answers} == {"correction"}
    assert (beliefs_by_arm(people[0])[B][0], beliefs_by_arm(people[0])[B][1]) == (
        before[B][0] + 1,
        before[B][1] - 1,
    )
    for one in answers:
        undo(people[1], one.id)
    assert beliefs_by_arm(people[0]) == before


def test_a_reset_that_has_not_seen_the_reward_of_another_is_refused(people: tuple[Context, Context]) -> None:
    seen = queries.status(people[0]).revision
    answers = at_once(
        people,
        [
            lambda one: reset(one, arms=[B], reason="first", seen=seen),
            lambda one: reset(one, arms=[B], reason="second", seen=seen),
        ],
    )
    refused = [one for one in answers if isinstance(one, Exception)]
    assert [type(one) for one in refused] == [Conflict]
    assert sum(one.reason in {"first", "second"} for one in queries.resets(people[0])) == 1
