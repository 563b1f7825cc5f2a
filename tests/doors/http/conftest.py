"""A world in which the example of every verb makes sense, and whoever asks it over HTTP."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from core.doors.http import api, foreign
from core.doors.http.app import Api
from core.doors.http.guard import Listener
from core.doors.http.serving import ROUTES as EVERY
from core.doors.service import Service
from core.errors import Unidentified
from core.flows import queries
from core.flows.context import Context
from core.records.actor import Actor
from tests.doors.http.asking import Asking
from tests.worlds import context_at

ROUTES = (*api.ROUTES, *foreign.KAIROS_ROUTES)
"""Those whose errors are in the one shape; of the other doors there are tests of their own."""
MARA = Actor(name="mara")
LOCAL = Listener(local=MARA)
Asked = Callable[..., Asking]


@pytest.fixture
def context(world: Path, tmp_path: Path) -> Iterator[Context]:
    """A copy of the world, which is sound afterwards, no matter what was asked."""
    shutil.copytree(world, tmp_path / "here")
    made = context_at(tmp_path / "here" / "a.db")
    yield made
    assert queries.verify(made).clean
    made.store.close()


def at_desk(context: Context) -> Service:
    return Service(store=context.store, learner="default", clock=context.clock, entropy=context.entropy)


@pytest.fixture
def ask_as(context: Context) -> Iterator[Asked]:
    """Make someone who asks: the machine's user, or those whose tokens these are."""
    with ExitStack() as ending:

        def made(listener: Listener = LOCAL, **tokens: Actor) -> Asking:
            def identify(secret: str) -> Actor:
                if secret not in tokens:
                    raise Unidentified("A token that holds is needed, got none.", next_step="Ask for one.")
                return tokens[secret]

            asking = Asking(app=Api(at_desk(context), EVERY, listener=listener, identify=identify))
            ending.callback(asking.close)
            return asking

        yield made


@pytest.fixture
def asking(ask_as: Asked) -> Asking:
    return ask_as()
