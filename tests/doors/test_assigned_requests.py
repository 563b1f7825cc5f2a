"""Requests of assigned sessions: one side at every door, also without an answer; a left-out arm is named nowhere."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from core import AsyncClient, Client, LearnerProtocol, open_learner
from core.adapters.request import Request, Requests
from core.doors import qortex
from core.doors.attempts import fallback
from core.doors.service import Service
from core.flows import queries
from core.flows.context import Context
from core.flows.settings import change
from core.records.experiment import Assigned
from core.records.learner import LearnerSettings
from core.records.trial import TrialSide
from tests.doors.front import Front
from tests.doors.http.test_served import served
from tests.doors.test_away import QUICK
from tests.doors.test_mcp_proxy import anyio_backend, late, proxied
from tests.engine import named
from tests.waiting import until
from tests.worlds import context_at
from tests.worlds.experiments import SIDES, carried, check_sides, sides_of, start_experiment

__all__ = ["anyio_backend"]
SEARCH = "tool:web:search"
TOOLS: list[dict[str, Any]] = [{"name": name, "input_schema": {}} for name in ("search", "fetch", "mail")]
Selecting = Callable[[str, str], tuple[bool, str | None]]
"""A request by its session and uid: whether the arm was in the prompt, and the text about left-out arms."""


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    """A learner with an experiment on one of three tools, two of which go in."""
    built = context_at(tmp_path / "a.db")
    change(built, "k", 2)
    start_experiment(built, SEARCH)
    with closing(built.store):
        yield built


def by_run(learner: LearnerProtocol) -> Selecting:
    def select(session: str, uid: str) -> tuple[bool, str | None]:
        with learner.run(TOOLS, session=session, uid=uid) as run:
            return TOOLS[0] in run.tools, run.guidance

    return select


def by_record(learner: LearnerProtocol, *, is_batch: bool) -> Selecting:
    def select(session: str, uid: str) -> tuple[bool, str | None]:
        chosen = learner.select(TOOLS, session=session)
        if is_batch:
            learner.record(uid, selection=chosen, session=session, wait=False)
        else:
            learner.record(uid, selection=chosen, session=session)
        return SEARCH in chosen.included, chosen.guidance

    return select


def awaited(url: str) -> Selecting:
    async def select(session: str, uid: str) -> tuple[bool, str | None]:
        async with AsyncClient(url) as client, client.run(TOOLS, session=session, uid=uid) as run:
            return TOOLS[0] in run.tools, run.guidance

    return lambda session, uid: asyncio.run(select(session, uid))


def by_adapter(learner: LearnerProtocol) -> Selecting:
    def select(session: str, uid: str) -> tuple[bool, str | None]:
        request = Request(Requests(learner, {}), uid=uid, session=session)
        with request:
            return TOOLS[0] in request.tools(TOOLS), request.guidance

    return select


def by_qortex(context: Context) -> Selecting:
    service = Service(store=context.store, clock=context.clock, entropy=context.entropy)

    def select(session: str, _: str) -> tuple[bool, str | None]:
        of: dict[str, object] = {"learner": "default", "session_key": session}
        arms = [{"id": f"tool:web:{one['name']}"} for one in TOOLS]
        chosen = qortex.call(service, context.actor, "select", {**of, "candidates": arms, "k": 2})
        inside, out = ([one["id"] for one in chosen[name]] for name in ("selected_arms", "excluded_arms"))
        qortex.call(service, context.actor, "observe", {**of, "arm_id": inside[0], "reward": 1})
        return SEARCH in inside, '"search"' if SEARCH in {*out, *chosen["scores"]} - {*inside} else None

    return select


def test_every_door_has_the_one_side_of_a_session(context: Context) -> None:
    chance = Random(59)
    by_session: dict[str, list[tuple[bool, str | None]]] = defaultdict(list)
    with (
        served(context) as url,
        Client(url) as client,
        open_learner(named(context.store), clock=context.clock, entropy=context.entropy) as learner,
    ):
        doors = [by_run(learner), by_run(client), awaited(url), by_adapter(client), by_qortex(context)]
        doors += [by_record(learner, is_batch=False), by_record(client, is_batch=True)]
        for number in range(8):
            for at in chance.sample(range(len(doors)), len(doors)):
                by_session[f"s{number}"].append(doors[at](f"s{number}", f"{at}-{number}"))
    sides = check_sides(context)
    assert {*sides.values()} == {*SIDES}
    assert len(queries.runs(context, limit=1_000)) == len(doors) * 8
    assert {session: {SIDES[not has] for has, _ in pairs} for session, pairs in by_session.items()} == {
        session: {side} for session, side in sides.items()
    }
    assert not any('"search"' in str(guidance) for pairs in by_session.values() for _, guidance in pairs)


def test_a_client_in_fallback_repeats_the_side_that_it_last_got(context: Context, tmp_path: Path) -> None:
    with (
        served(context) as url,
        closing(Front(url)) as front,
        Client(front.url, spool=tmp_path, **QUICK) as client,
    ):
        for number in range(6):
            client.run(TOOLS, session=f"s{number}").__enter__()
        chosen = client.select(TOOLS, session="selected")
        until(lambda: client._attempts._known.settings is not None)
        sides = sides_of(context)
        front.be("refused")
        for session in (*sides, "new"):
            with client.run(TOOLS, session=session, uid=f"away-{session}", k=1) as run:
                assert run.selection.run_class == "fallback"
                assigned = carried(run.selection)
                assert (assigned and assigned.side) == sides.get(session)
                if assigned is not None:
                    assert (run.arms == (SEARCH,)) == (assigned.side == "with")
                    assert assigned.side == "with" or '"search"' not in str(run.guidance)
                    run.called("search")
                    assert TOOLS[0] in run.tools, "a call of it runs as everywhere"
        front.be("passing")
        until(lambda: client._attempts.counts().waiting == 0)
        for number in range(10_000):
            client._attempts.add_side(f"s{number}", chosen)
        assert len(client._attempts._known.sides) < 5_000
        assert check_sides(context) == sides
        pairs = {session: carried(queries.run(context, f"away-{session}").selection) for session in sides}
        assert {session: one.side for session, one in pairs.items() if one} == sides


@pytest.mark.parametrize("side", SIDES)
def test_a_fallback_has_the_arm_behind_the_seeds_or_out(side: TrialSide) -> None:
    own = Assigned(experiment="e", arm=SEARCH, side=side, chance_micro=500_000)
    over = msgspec.structs.replace(own, in_force=False)
    costs = dict.fromkeys([SEARCH, "tool:fs:Read", *(f"tool:x:{name}" for name in "abcdef")], 10)
    limits = LearnerSettings(budget_tokens=30)
    for seed in range(20):
        chosen = fallback(costs, limits, seed=seed, assigned=own)
        reason = next(one.reason for one in chosen.decisions if one.arm == SEARCH)
        assert (chosen.included[1] == SEARCH, reason) == (
            (True, "assigned") if side == "with" else (False, "held_out")
        )
        assert '"search"' not in str(chosen.guidance)
        later = fallback(costs, limits, seed=seed, assigned=over)
        assert (later.decisions, carried(later)) == (fallback(costs, limits, seed=seed).decisions, over)
        for one in (LearnerSettings(excluded_arms=(SEARCH,)), LearnerSettings(phase="passive")):
            reasons = fallback(costs, one, seed=seed, assigned=own).decisions
            assert {row.reason for row in reasons if row.arm == SEARCH} <= {"excluded", "baseline"}


@pytest.mark.anyio
async def test_the_process_of_a_proxy_is_a_session(context: Context) -> None:
    start_experiment(context, "tool:a:only_a")
    for number in range(3):
        async with proxied(late(named(context.store)), "a", is_named=True) as peer:
            await peer.begin()
            names = [await peer.tools() for _ in range(2)]
            for turn in range(2):
                assert "result" in await peer.call("only_a", {"armscope/turn": str(turn)})
        sides = check_sides(context)
        assert len(sides) == number + 1
        runs = queries.runs(context)[:2]
        assert {row.session for row in runs} == {[*sides][-1]}
        assert {"only_a" in one for one in names} == {sides[runs[0].session or ""] == "with"}
