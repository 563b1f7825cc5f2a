"""Limits in force: the chance of inclusion agrees with the share of the next prompts."""

from __future__ import annotations

import random
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypedDict

import pytest

from core import explained
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.export import export_file
from core.flows.importing import import_files
from core.flows.learn import record
from core.flows.select import select
from core.flows.settings import change_all
from core.records.arm import Arm
from core.records.judgement import LimitInForce
from core.records.run import Call
from core.store.reads.sessions import session_runs
from tests.worlds import chosen_among, context_at

RATES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15)
ARMS = [Arm(key=f"tool:other:t{place}", token_cost=100) for place in range(9)]
OTHERS = [Arm(key=f"tool:other:u{place}", token_cost=200) for place in range(5)]


class Limits(TypedDict, total=False):
    """Limits of a request."""

    budget_tokens: int
    k: int


TWO_PROGRAMS: list[Limits] = [{"budget_tokens": 420}, {"k": 2}]


def played(context: Context, n_runs: int, offers: list[tuple[list[Arm], Limits]]) -> None:
    """Record runs that take these offers in turn; each arm is called by its own rate."""
    rng = random.Random(7)
    for arms, limits in islice(cycle(offers), n_runs):
        chosen = select(context, arms, **limits)
        inside = [arm for arm in arms if arm.key in chosen.included]
        used = [arm for arm in inside if rng.random() < RATES[int(arm.key[-1])]] or inside[:1]
        run = chosen_among(
            f"{context.clock()}",
            chosen,
            inside,
            calls=tuple(Call(name=arm.key.split(":")[2]) for arm in used),
        )
        record(context, run)


def shares(context: Context, offers: list[tuple[list[Arm], Limits]], n: int = 400) -> dict[str, float]:
    """Return the share of the next prompts that hold each arm, among those that offer it."""
    inside: dict[str, list[bool]] = {}
    for arms, limits in islice(cycle(offers), n):
        chosen = set(select(context, arms, **limits).included)
        for arm in arms:
            inside.setdefault(arm.key, []).append(arm.key in chosen)
    return {key: sum(one) / len(one) for key, one in inside.items()}


@pytest.mark.parametrize(
    "limits",
    [
        [{"budget_tokens": 420}],
        [{"k": 4}],
        [{"k": 2}, {"budget_tokens": 700}],
        [{"budget_tokens": 0}, {"k": 3}, {"k": 3}],
    ],
)
def test_the_chance_is_the_share_of_the_next_prompts(context: Context, limits: list[Limits]) -> None:
    offers = [(ARMS, one) for one in limits]
    played(context, 60, offers)
    judged = queries.judgements(context)
    for key, share in shares(context, offers).items():
        chance = judged[key].chance
        assert chance is not None
        assert abs(chance - share) < 0.1, key
    assert min(one.chance or 0 for one in judged.values()) < 0.9
    assert {one.no_break_even for one in judged.values()} == {None}


def test_each_program_has_its_own_limits_and_each_limit_its_share(context: Context) -> None:
    offers = [*zip([ARMS, OTHERS], TWO_PROGRAMS, strict=True)]
    played(context, 60, offers)
    played(context, 4, [(ARMS, {"budget_tokens": 300})])
    chances = queries.inclusion(context)
    assert chances.arms[ARMS[0].key].limits == (
        LimitInForce(budget_tokens=420, k=0, share=10 / 14),
        LimitInForce(budget_tokens=300, k=0, share=4 / 14),
    )
    assert chances.arms[OTHERS[0].key].limits == (LimitInForce(budget_tokens=0, k=2, share=1.0),)
    (row,) = [one for one in queries.judged_posteriors(context) if one.arm == ARMS[0].key]
    assert explained.limits_words(row.limits) == "420 tokens (71%), 300 tokens (29%)"


@pytest.mark.parametrize(
    ("settings", "limits", "then", "in_force"),
    [
        ({"k": 4}, {}, {"k": 6}, (0, 6)),
        ({"k": 4}, {"k": 3}, {"k": 6}, (0, 3)),
        ({}, {"budget_tokens": 420}, {"k": 5}, (420, 5)),
        ({"budget_tokens": 500}, {"budget_tokens": 0}, {"budget_tokens": 300}, (0, 0)),
        ({}, {}, {"budget_tokens": 300}, (300, 0)),
    ],
)
def test_a_new_setting_counts_where_requests_give_no_limit(
    context: Context,
    settings: dict[str, Any],
    limits: Limits,
    then: dict[str, Any],
    in_force: tuple[int, int],
) -> None:
    change_all(context, settings)
    played(context, 30, [(ARMS, limits)])
    before = queries.inclusion(context).limits
    change = change_all(context, then)[0]
    played(context, 3, [(ARMS, limits)])
    ((limit,),) = queries.inclusion(context).limits
    assert (limit.budget_tokens, limit.k) == in_force
    undo(context, change.id)
    assert queries.inclusion(context).limits == before


def test_an_arm_without_a_cost_is_not_weighed_under_a_budget_of_the_request(context: Context) -> None:
    arms = [*ARMS[:5], Arm(key="tool:other:t8")]
    played(context, 8, [(arms, {"budget_tokens": 300})])
    assert queries.judgements(context)["tool:other:t8"].no_break_even == "unknown_cost"
    assert queries.judgements(context)["tool:other:t0"].no_break_even != "unknown_cost"


def test_without_a_limit_all_are_picked_at_any_use(context: Context) -> None:
    played(context, 25, [(ARMS, {})])
    judged = queries.judgements(context).values()
    assert {(one.chance, one.no_break_even) for one in judged} == {(1.0, "always_in")}
    assert {explained.limits_words(one.limits) for one in judged} == {"none"}
    assert {explained.picked(one) for one in judged} == {explained.arm.PICKED}


def test_imported_runs_keep_the_settings_that_selected_them_apart(context: Context, tmp_path: Path) -> None:
    """Their revisions are those of their learner, so their settings are known by the hash alone."""
    change_all(context, {"baseline_rate": 0.5})
    for k in (2, 3, 2):
        change_all(context, {"k": k})
        played(context, 4, [(ARMS, {})])
    export_file(context, tmp_path / "a.jsonl")
    other = context_at(tmp_path / "b.db")
    import_files(other, [tmp_path / "a.jsonl"])

    def parts(one: Context) -> set[frozenset[int]]:
        with one.reading() as snapshot:
            runs = session_runs(snapshot, 12)
        return {frozenset(runs.draw[runs.settings == number].tolist()) for number in runs.settings}

    assert parts(other) == parts(context)
    assert sorted(map(len, parts(other))) == [4, 8]
