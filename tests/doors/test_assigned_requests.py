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
from core.doors.attempts import Attempts, fallback
from core.doors.service import Service
from core.flows import queries
from core.flows.context import Context
from core.flows.settings import change
from core.records.experiment import Assigned
from core.records.learner import LearnerSettings
from core.records.selection import Selection
from core.records.trial import TrialSide
from tests.doors.front import Front
from tests.doors.http.test_served import served
from tests.doors.test_away import QUICK
from tests.doors.test_mcp_proxy import anyio_backend, late, proxied
from tests.engine import named
from tests.waiting import until
from tests.worlds import context_at, is_clean
from tests.worlds.experiments import sides_of, start_experiment

__all__ = ["anyio_backend"]

SEARCH = "tool:web:search"
TOOLS: list[dict[str, Any]] = [{"name": name, "input_schema": {}} for name in ("search", "fetch", "mail")]
Selecting = Callable[[str, str], tuple[bool, str | None]]
"""A door: a session and a uid to whether the arm was in the prompt, and the guidance text."""


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    """A learner with an experiment on one of three tools, and sessions that hold nothing."""
    built = context_at(tmp_path / "a.db")
    change(built, "k", 2)
    start_experiment(built, SEARCH)
    with closing(built.store):
        yield built


def carried(chosen: Selection) -> Assigned | None:
    return chosen.experiment or None


def by_run(learner: LearnerProtocol) -> Selecting:
    def select(session: str, uid: str) -> tuple[bool, str | None]:
        with learner.run(TOOLS, session=session, uid=uid) as run:
            assert TOOLS[0] not in run.tools or SEARCH in run.arms
        return SEARCH in run.arms, run.guidance

    return select


def by_record(learner: LearnerProtocol, *, waits: bool) -> Selecting:
    def select(session: str, uid: str) -> tuple[bool, str | None]:
        chosen = learner.select(TOOLS, session=session)
        if waits:
            learner.record(uid, selection=chosen, session=session)
        else:
            learner.record(uid, selection=chosen, session=session, wait=False)
        return SEARCH in chosen.included, chosen.guidance

    return select


def awaited(url: str) -> Selecting:
    async def select(session: str, uid: str) -> tuple[bool, str | None]:
        async with AsyncClient(url) as client, client.run(TOOLS, session=session, uid=uid) as run:
            pass
        return SEARCH in run.arms, run.guidance

    return lambda session, uid: asyncio.run(select(session, uid))


def by_adapter(learner: LearnerProtocol) -> Selecting:
    def select(session: str, uid: str) -> tuple[bool, str | None]:
        request = Request(Requests(learner, {}), uid=uid, session=session)
        tools = request.tools(TOOLS)
        guidance = request.guidance
        request.end()
        return TOOLS[0] in tools, guidance

    return select


def by_qortex(context: Context) -> Selecting:
    service = Service(store=context.store, clock=context.clock, entropy=context.entropy)

    def call(name: str, **values: object) -> dict[str, Any]:
        return qortex.call(service, context.actor, name, {"learner": "default", **values})

    def select(session: str, _: str) -> tuple[bool, str | None]:
        arms = [{"id": f"tool:web:{one['name']}"} for one in TOOLS]
        chosen = call("select", candidates=arms, k=2, session_key=session)
        inside, out = ([one["id"] for one in chosen[of]] for of in ("selected_arms", "excluded_arms"))
        call("observe", arm_id=inside[0], reward=1, session_key=session)
        assert SEARCH in inside or SEARCH not in {*out, *chosen["scores"]}
        return SEARCH in inside, None

    return select


def test_every_door_has_the_one_side_of_a_session(context: Context) -> None:
    chance = Random(59)
    by_session: dict[str, list[tuple[bool, str | None]]] = defaultdict(list)
    with (
        served(context) as url,
        Client(url) as client,
        open_learner(named(context.store), clock=context.clock, entropy=context.entropy) as learner,
    ):
        doors: dict[str, Selecting] = {
            "block": by_run(learner),
            "block over HTTP": by_run(client),
            "async": awaited(url),
            "record": by_record(learner, waits=True),
            "batch": by_record(client, waits=False),
            "adapter": by_adapter(client),
            "qortex": by_qortex(context),
        }
        for number in range(8):
            for name in chance.sample([*doors], len(doors)):
                by_session[f"s{number}"].append(doors[name](f"s{number}", f"{name}-{number}"))
    sides = sides_of(context)
    assert sides.keys() == by_session.keys()
    assert {*sides.values()} == {"with", "without"}
    for session, pairs in by_session.items():
        assert {has for has, _ in pairs} == {sides[session] == "with"}
        assert not any('"search"' in (guidance or "") for _, guidance in pairs)
    for row in queries.runs(context, limit=1_000):
        story = queries.run(context, row.uid)
        assert story.selection is not None
        assigned = carried(story.selection)
        assert assigned is not None
        assert (assigned.side, story.replays) == (sides[row.session or ""], True)
    assert len(queries.runs(context, limit=1_000)) == 7 * 8
    assert is_clean(context)


@pytest.fixture
def front(context: Context) -> Iterator[Front]:
    with served(context) as url:
        built = Front(url)
        yield built
        built.close()


def test_a_client_in_fallback_repeats_the_side_that_it_last_got(
    context: Context, front: Front, tmp_path: Path
) -> None:
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        for number in range(6):
            with client.run(TOOLS, session=f"s{number}"):
                pass
        client.select(TOOLS, session="selected")
        sides = sides_of(context)
        until(lambda: client._attempts._known.settings is not None)
        front.be("refused")
        for session, side in sides.items():
            with client.run(TOOLS, session=session, uid=f"away-{session}", k=1) as run:
                assert run.selection.run_class == "fallback"
                assert (run.arms == (SEARCH,)) == (side == "with")
                assigned = carried(run.selection)
                assert (assigned and assigned.side) == side
                assert side == "with" or '"search"' not in str(run.guidance)
                run.called("search")
                assert TOOLS[0] in run.tools, "a call of it runs as everywhere"
        with client.run(TOOLS, session="new", uid="away-new") as run:
            assert carried(run.selection) is None
        front.be("passing")
        until(lambda: client._attempts.counts().waiting == 0)
        with client.run(TOOLS, session="new") as run:
            assert carried(run.selection) is None, "it had a run before"
    assert sides_of(context) == sides
    for session, side in sides.items():
        story = queries.run(context, f"away-{session}").selection
        assert story is not None
        assert (assigned := carried(story)) is not None
        assert assigned.side == side
    assert is_clean(context)


def test_a_client_keeps_the_sides_of_the_latest_sessions(context: Context) -> None:
    own = Assigned(experiment="e", arm=SEARCH, side="with", chance_micro=1)
    chosen = fallback({SEARCH: 1}, LearnerSettings(), seed=1, assigned=own)
    with open_learner(named(context.store)) as learner:
        attempts: Attempts = learner._attempts
        for number in range(10_000):
            attempts.add_side(f"s{number}", chosen)
        remembered = attempts._known.sides
        assert 2_000 < len(remembered) <= 4_097
        assert "s9999" in remembered


@pytest.mark.parametrize("side", ["with", "without"])
def test_a_fallback_has_the_arm_behind_the_seeds_or_out(side: TrialSide) -> None:
    own = Assigned(experiment="e", arm=SEARCH, side=side, chance_micro=500_000)
    costs = dict.fromkeys([SEARCH, "tool:fs:Read", *(f"tool:x:{name}" for name in "abcdef")], 10)
    for seed in range(20):
        chosen = fallback(costs, LearnerSettings(budget_tokens=30), seed=seed, assigned=own)
        assert chosen.included[0] == "tool:fs:Read"
        reasons = {one.arm: one.reason for one in chosen.decisions}
        assert (chosen.included[1] == SEARCH) == (side == "with")
        assert reasons[SEARCH] == ("assigned" if side == "with" else "held_out")
        assert (SEARCH in chosen.nameable, '"search"' in str(chosen.guidance)) == (False, False)
        over = msgspec.structs.replace(own, in_force=False)
        plain = fallback(costs, LearnerSettings(budget_tokens=30), seed=seed)
        later = fallback(costs, LearnerSettings(budget_tokens=30), seed=seed, assigned=over)
        assert later.decisions == plain.decisions
        assert carried(later) == over
        for one in (LearnerSettings(excluded_arms=(SEARCH,)), LearnerSettings(phase="passive")):
            again = fallback(costs, one, seed=seed, assigned=own)
            assert {row.reason for row in again.decisions if row.arm == SEARCH} <= {"excluded", "baseline"}


@pytest.mark.anyio
async def test_the_process_of_a_proxy_is_a_session(context: Context) -> None:
    start_experiment(context, "tool:a:only_a")
    path = named(context.store)
    pairs: dict[TrialSide, int] = defaultdict(int)
    for _ in range(3):
        before = {*sides_of(context)}
        async with proxied(late(path), "a", is_named=True) as peer:
            await peer.begin()
            names = [await peer.tools() for _ in range(2)]
            for number in range(2):
                assert "result" in await peer.call("only_a", {"armscope/turn": str(number)})
        ((session, side),) = ((one, of) for one, of in sides_of(context).items() if one not in before)
        assert {"only_a" in one for one in names} == {side == "with"}
        pairs[side] += 1
        runs = [row for row in queries.runs(context) if row.session == session]
        for row in runs:
            story = queries.run(context, row.uid)
            assert story.selection is not None
            assert (assigned := carried(story.selection)) is not None
            assert assigned.side == side
        assert len(runs) == 2
    assert is_clean(context)
    assert sum(pairs.values()) == 3
