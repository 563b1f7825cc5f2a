"""The way of a request: one reward, one evaluation and one step take few own calls, through few files."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

import pytest

import core
from core.doors.http.app import Api
from core.doors.http.serving import ROUTES
from core.doors.mcp.tools import call
from core.flows.context import Context
from core.formats import strict
from core.records import actor, observation
from tests.doors.examples import ARM, LAYER, RUN, example_world
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import LOCAL, MARA, at_desk

AT: Final = "/api/v1/learners/default"
OWN: Final = str(Path(core.__file__).parent)
BEFORE: Final = {"reward": (209, 35), "evaluation": (208, 39), "step": (189, 28)}
"""Calls and files at commit beef0f8, counted in the same way."""
ALLOWED: Final = {"reward": (164, 20), "evaluation": (182, 22), "step": (169, 18)}

COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclass
class Way:
    """Functions of ``core`` that a request called, each as often as it was called.

    Comprehensions and generator expressions are no calls, because their frames depend on the version of Python.
    """

    codes: Counter[CodeType] = field(default_factory=Counter)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OWN):
            self.codes[frame.f_code] += 1

    @property
    def n_calls(self) -> int:
        return sum(n for code, n in self.codes.items() if code.co_name not in COMPREHENSIONS)

    @property
    def n_files(self) -> int:
        return len({code.co_filename for code in self.codes})

    def n_calls_of(self, function: Callable[..., object]) -> int:
        return self.codes[function.__code__]


@contextmanager
def counting(way: Way) -> Iterator[None]:
    """Count the calls of this thread, and of threads that begin meanwhile."""
    threading.setprofile(way)
    sys.setprofile(way)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    context = example_world(tmp_path)
    yield context
    context.store.close()


def way_of(context: Context, journey: str) -> Way:
    """The way of the third of three alike requests: the first ones open files and fill caches.

    The clock is fixed. Otherwise a new hour could begin before the third request, which misses a cache.
    """
    now_ms = context.clock()
    context = replace(context, clock=lambda: now_ms)
    app = Api(at_desk(context), ROUTES, listener=LOCAL)
    asking, way = Asking(app=app), Way()
    requests: dict[str, Callable[[int], bool]] = {
        "reward": lambda _: (
            asking.post(f"{AT}/rewards", {"arm": ARM, "value": 0.5, "run": RUN}).status == 200
        ),
        "evaluation": lambda _: (
            call(
                at_desk(context),
                MARA,
                "reward",
                {"uri": LAYER, "outcome": "success", "score": 0.9, "rater": "mara", "rubric_version": "v1"},
            ).document
            is not None
        ),
        "step": lambda number: (
            asking.post(
                f"{AT}/steps",
                {
                    "episode": "sums/9",
                    "environment": "sums",
                    "number": number,
                    "name": "submit",
                    "reward": 0.1,
                },
            ).status
            == 200
        ),
    }
    with counting(way):
        for number in range(3):
            way.codes.clear()
            assert requests[journey](number)
    asking.close()
    return way


@pytest.mark.of_file  # another engine takes other calls
@pytest.mark.parametrize("journey", ALLOWED)
def test_a_request_takes_few_calls_through_few_files(journey: str, context: Context) -> None:
    way = way_of(context, journey)
    calls, files = ALLOWED[journey]
    assert way.n_calls <= calls < BEFORE[journey][0]
    assert way.n_files <= files < BEFORE[journey][1]


@pytest.mark.parametrize("journey", ALLOWED)
def test_a_request_is_authorised_once(journey: str, context: Context) -> None:
    way = way_of(context, journey)
    assert way.n_calls_of(actor.authorise) == 1
    assert way.n_calls_of(actor.may) == 0


def test_a_reward_is_parsed_and_checked_once(context: Context) -> None:
    way = way_of(context, "reward")
    assert way.n_calls_of(strict.json_body) == 1
    assert way.n_calls_of(observation.check_reward) == 1
