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
from core.flows.settings import change
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


def test_arms_are_told_with_both_scales_of_confidence(service: Service) -> None:
    read, hostile = asked(service, "/posteriors/")
    believed = {one.arm: one for one in queries.posteriors(service.context(MARA))}
    for one in (read, hostile):
        ours = believed[one["armId"]]
        assert (one["alpha"], one["beta"], one["mean"], one["pulls"]) == (
            ours.alpha,
            ours.beta,
            ours.mean,
            ours.pulls,
        )
        limits = {"lower": ours.interval.lower, "upper": ours.interval.upper}
        assert one["credibleInterval"] == limits
        assert (one["confidence"], one["tier"]) == ("medium", "medium")
        assert one["lastUpdated"] == START_MS + 4 * DAY_MS
        assert not one["isUnderexplored"]
    assert (read["armId"], read["isSeed"], hostile["isSeed"]) == ("tool:fs:Read", True, False)
    change(service.context(MARA), "min_pulls", 6)
    assert all(one["isUnderexplored"] for one in asked(service, "/posteriors"))


def test_an_arm_nobody_observed_was_never_updated(tmp_path: Path) -> None:
    context = context_at(tmp_path / "b.db")
    learn.record(context, a_run("r", calls=()))
    found = asked(Service(store=context.store, learner="default"), "/posteriors")
    assert [(one["lastUpdated"], one["tier"], one["confidence"]) for one in found] == [
        ("", "none", "low")
    ] * 3
    context.store.close()


def test_a_summary_adds_up_and_leaves_unknown_what_it_is(service: Service) -> None:
    found = asked(service, "/summary")
    assert found == asked(service, "/metrics", x="1")
    assert (found["traceCount"], found["runs"], found["armCount"], found["totalTokens"]) == (10, 5, 2, 700)
    assert (found["totalReward"], found["accuracy"]) == (5.0, 0.5)
    assert (found["minTimestamp"], found["maxTimestamp"]) == (START_MS, START_MS + 4 * DAY_MS)
    runs = found["baseline"]
    assert (runs["baselineRuns"], runs["selectedRuns"]) == (1, 3)
    assert runs["tokenSavingsPercent"] is runs["baselineAvgDuration"] is runs["selectedAvgDuration"] is None


def test_traces_are_the_runs_newest_first(service: Service) -> None:
    found = asked(service, "/traces", limit="2", offset="1")
    assert found["total"] == 5
    assert [one["runId"] for one in found["traces"]] == ["r3", "r2"]
    first, second = found["traces"]
    assert first["usage"]["total"] == 400
    assert second["usage"] is None
    assert first["arms"][0] == {
        "armId": "tool:fs:Read",
        "included": True,
        "referenced": True,
        "tokenCost": 120,
    }
    assert len(asked(service, "/traces")["traces"]) == 5
    assert asked(service, "/traces", offset="5") == {"traces": [], "total": 5}
    for wrong in (
        {"limit": "0"},
        {"limit": "1001"},
        {"offset": "-1"},
        {"limit": "ten"},
        {"offset": "9" * 30},
    ):
        with pytest.raises(InvalidInput):
            sent(service, "/traces", wrong)


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


@pytest.mark.parametrize("window", ["1h", "1d"])
def test_a_path_of_means_ends_where_the_arm_is_now(service: Service, window: str) -> None:
    asked(service, "/reward", body=json.dumps({"arm_id": HOSTILE, "reward": 0.25}).encode())
    found = asked(service, "/timeseries", metric="convergence", window=window)["buckets"]
    last = {one["armId"]: one["value"] for one in found}
    now = {one["armId"]: one["mean"] for one in asked(service, "/posteriors")}
    assert last == pytest.approx(now)
    read = [one["value"] for one in found if one["armId"] == "tool:fs:Read"]
    assert read[-1] == pytest.approx(8 / 9)
    assert read == sorted(read)  # it was used in every run


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
