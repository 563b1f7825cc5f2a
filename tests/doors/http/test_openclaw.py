"""OpenClaw's paths: what is read of a learner, what a request may change, and that a refused one changes nothing."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http import openclaw
from core.doors.service import Service
from core.errors import ArmscopeError, InvalidInput, UnknownLearner
from core.flows import learn, queries
from core.records.actor import Actor
from core.records.arm import Arm
from core.records.run import Inventory
from tests.worlds import START_MS, a_run, context_at

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOSTILE = "tool:x:<script>alert('1')</script>%{x}$\\alpha$"
MARA = Actor(name="mara")
JSON_SENT = {"content-type": "application/json"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A seed and a hostile id in every prompt; runs on three days, one of whose usage no one knows."""
    context = context_at(tmp_path / "a.db")
    prompt = Inventory(kind="declared", arms=(Arm(key="tool:fs:Read", token_cost=120), Arm(key=HOSTILE)))
    for place, tokens in enumerate((100, 200, None, 400)):
        at_ms = START_MS + place // 2 * DAY_MS + place * HOUR_MS
        learn.record(
            context,
            a_run(
                f"r{place}",
                inventory=prompt,
                calls=["Read"],
                at_ms=at_ms,
                tokens=tokens,
                run_class="baseline" if place == 0 else "selected",
            ),
        )
    learn.record(
        context, a_run("late", inventory=prompt, calls=["Read"], at_ms=START_MS + 4 * DAY_MS, tokens=None)
    )
    yield Service(store=context.store, learner="default", clock=context.clock)
    context.store.close()


def asked(service: Service, path: str, *, body: bytes | None = None, **query: str) -> Any:  # noqa: ANN401
    answer = sent(service, path, query, body=body)
    assert answer.status == 200, answer
    return json.loads(answer.body)


def sent(
    service: Service, path: str, query: Mapping[str, str] = MappingProxyType({}), *, body: bytes | None = None
) -> HttpAnswer:
    method = "GET" if body is None else "POST"
    call = HttpCall(method, openclaw.PREFIX + path, query, JSON_SENT, body or b"")
    return openclaw.handle(service, MARA, call)


def test_a_learner_that_is_awaited_has_nothing_yet_and_is_not_made_by_being_asked(service: Service) -> None:
    """OpenClaw's command asks before its agent ever reported anything, and takes a 404 for a server that is gone."""
    new = replace(service, learner="openclaw")
    assert asked(new, "/posteriors") == []
    assert (asked(new, "/summary")["traceCount"], asked(new, "/summary")["armCount"]) == (0, 0)
    assert asked(new, "/config")["phase"] == "active"
    assert asked(new, "/traces") == {"traces": [], "total": 0}
    assert asked(new, "/timeseries", metric="pulls")["buckets"] == []
    with pytest.raises(UnknownLearner):
        sent(new, "/reset", body=b"")
    with pytest.raises(UnknownLearner):
        queries.status(service.context(MARA, "openclaw"))


def test_a_series_has_gaps_where_nothing_is_known(service: Service) -> None:
    day = START_MS // DAY_MS * DAY_MS
    tokens = asked(service, "/timeseries")["buckets"]
    assert tokens == [
        {"t": day, "value": 300.0, "runs": 2},
        {"t": day + DAY_MS, "value": 400.0, "runs": 2},
        {"t": day + 4 * DAY_MS, "value": None, "runs": 1},
    ]
    pulls = asked(service, "/timeseries", metric="pulls", window="1h")["buckets"]
    assert [one["value"] for one in pulls] == [2.0] * 5
    assert sum(one["value"] for one in asked(service, "/timeseries", metric="pulls")["buckets"]) == 10
    for wrong in ({"metric": "mood"}, {"window": "1m"}):
        with pytest.raises(InvalidInput):
            sent(service, "/timeseries", wrong)


def test_a_body_has_a_length_at_most(service: Service) -> None:
    padding = 65_536 - len(b'{"arm_id":"tool:fs:Read"}')
    body = b'{"arm_id":"tool:fs:Read"' + b" " * padding + b"}"
    assert sent(service, "/reward", body=body).status == 200
    told = sent(service, "/reward", body=body + b" ")
    assert (told.status, told.headers["connection"]) == (413, "close")


def test_the_prefix_alone_is_nobodys(service: Service) -> None:
    with pytest.raises(ArmscopeError, match="nothing at this path"):
        sent(service, "")


def test_the_page_runs_what_it_brought_and_nothing_else(service: Service) -> None:
    answer = sent(service, "/dashboard/")
    page = answer.body.decode()
    policy = answer.headers["content-security-policy"]
    for tag in ("script", "style"):
        inner = page.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
        assert page.count(f"<{tag}") == 1
        assert f"{tag}-src 'sha256-{b64encode(sha256(inner.encode()).digest()).decode()}'" in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "innerHTML" not in page
    assert " on" + "click=" not in page
