"""Thirty processes write to one database at the same time: no one fails, and every reward is kept once."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record
from core.flows.select import select
from core.records.actor import Actor
from core.records.arm import Arm
from core.records.selection import Selection
from core.settings import Located
from core.store.store import Store
from tests.store.crowd import Writer, all_select, all_write
from tests.worlds import a_run

pytestmark = pytest.mark.own_engines
ARM = "tool:other:a"
N_WRITERS, N_REWARDS = 30, 20


def test_first_selections_of_a_session_at_once_are_one(place: Located) -> None:
    """The learner is new, too: one process creates it with the hold, and the others read it."""
    Store(place).close()
    arms = [Arm(key=f"tool:other:{number}", token_cost=10) for number in range(12)]
    for session in ("one", "two"):
        (found,) = set(all_select(place, session, arms, n_processes=8))
        chosen = Selection.from_json(found)
        assert chosen.held_since_ms is not msgspec.UNSET
        context = Context(store=Store(place), actor=Actor(name="mara"))
        with closing(context.store):
            assert select(context, arms, session=session, budget_tokens=40) == chosen
            assert queries.verify(context).clean


@pytest.mark.parametrize("place", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True)
def test_thirty_processes_are_all_kept_once(place: Located) -> None:
    context = Context(store=Store(place), actor=Actor(name="mara"))
    with closing(context.store):
        record(context, a_run("r", arms=["a"]))
        writers = [
            Writer(place, "default", ARM, f"writer {number}", N_REWARDS, n_sent=2)
            for number in range(N_WRITERS)
        ]
        told = all_write(writers)
        assert [one.problem for one in told if one.problem] == []
        ids = [one.ids for one in told]
        assert all(mine[::2] == mine[1::2] for mine in ids), "sent again it is the same reward"
        assert len({each for mine in ids for each in mine}) == N_WRITERS * N_REWARDS
        kept = queries.rewards(context, limit=10_000)
        assert len(kept) == N_WRITERS * (N_REWARDS + 1)
        assert queries.verify(context).clean
