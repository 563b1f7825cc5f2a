"""Targets of requests: the learner that is meant, and destructive requests that are not exactly right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core import open_learner
from core.doors.exchange import HttpCall
from core.doors.http.openclaw import PREFIX, handle
from core.doors.service import OPENCLAW, Service
from core.errors import InvalidInput
from core.records.actor import Actor, Grant
from core.records.arm import Arm
from tests.doors.examples import ARM
from tests.worlds import context_at


@pytest.mark.parametrize(
    ("there", "meant"),
    [
        ((), "default"),
        (("a",), "a"),
        (("a", "default"), "default"),
        (("a", "openclaw"), "openclaw"),
        (("a", "default", "openclaw"), "openclaw"),
        (("a", "b"), None),
    ],
)
def test_the_learner_of_openclaw_is_found_per_request(
    there: tuple[str, ...], meant: str | None, tmp_path: Path
) -> None:
    """The server starts on an empty file. Learners come later."""
    path = tmp_path / "a.db"
    context = context_at(path)
    service = Service(store=context.store)
    operator = Actor(name="mara", role="operator")
    assert service.context(operator, preferred=OPENCLAW).learner == "default"
    for name in there:
        with open_learner(path, name) as learner:
            learner.record("r1", arms=[Arm(key=ARM)], calls=[])
    asked = HttpCall(method="GET", path=f"{PREFIX}/posteriors", headers={}, query={}, body=b"")
    if meant is None:
        with pytest.raises(InvalidInput, match="'a', 'b'"):
            handle(service, operator, asked)
        return
    assert service.context(operator, preferred=OPENCLAW).learner == meant
    answer = handle(service, operator, asked)
    assert (answer.status, len(json.loads(answer.body))) == (200, len(there) > 0)
    one = Actor(name="bot", role=None, grants=(Grant(role="read", learner="a"),))
    if "a" in there:
        assert service.context(one, preferred=OPENCLAW).learner == "a", "its only one"
