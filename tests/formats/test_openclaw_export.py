"""OpenClaw's learning export: traces that say what they used, beliefs that are compared or carried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.detect import detect
from core.errors import UnreadableSource
from core.formats import Entry, Stated, recognise
from core.maths.observe import guard
from core.records.ledger_lines import ArmLine, RewardLine
from core.records.run import Run
from tests.formats.builders import Json, put, read, rejected, runs


def arm(key: str, *, included: bool = True, referenced: bool = False, **fields: object) -> Json:
    return {"armId": key, "included": included, "referenced": referenced, "tokenCost": 40, **fields}


def trace(*arms: Json, id: str = "t1", **fields: object) -> Json:
    return {
        "traceId": id,
        "runId": "r1",
        "sessionId": "s1",
        "timestamp": 1_770_285_600_000,
        "provider": "p",
        "model": "m",
        "channel": "telegram",
        "isBaseline": False,
        "arms": list(arms),
        "usage": {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "total": 15},
        "durationMs": 1200,
        "systemPromptChars": 9000,
        "aborted": False,
        "error": None,
        **fields,
    }


def posterior(key: str = "tool:fs:read", **fields: object) -> Json:
    return {"armId": key, "alpha": 3.5, "beta": 1.0, "mean": 0.7778, "pulls": 3, "lastUpdated": "", **fields}


def entries_of(folder: Path, **parts: object) -> list[Entry]:
    return read(put(folder, json.dumps(parts, indent=2).encode(), "export.json"))


def only_run(folder: Path, one: Json) -> Run:
    (run,) = runs(entries_of(folder, traces=[one]))
    return run


@pytest.mark.parametrize("indent", [None, 2])
def test_a_trace_keeps_its_own_flags(tmp_path: Path, indent: int | None) -> None:
    told = trace(
        arm("tool:fs:read", referenced=True),
        arm("skill:pdf:main"),
        arm("file:workspace:A.md", referenced=True, tokenCost=None),
        arm("tool:exec:exec", included=False, referenced=True),
    )
    content = json.dumps({"traces": [told], "posteriors": []}, indent=indent)
    path = put(tmp_path, content.encode())
    assert recognise(path) == "openclaw-export"
    (run,) = runs(read(path))
    assert (run.uid, run.session, run.source) == ("openclaw-export/prompt/t1", "s1", "t1")
    assert [(one.key, one.token_cost) for one in run.inventory.arms] == [
        ("tool:fs:read", 40),
        ("skill:pdf:main", 40),
        ("file:workspace:A.md", None),
    ]
    assert run.excluded == ("tool:exec:exec",)
    assert detect(run).referenced == (True, False, True)
    assert (run.run_class, run.status, run.tokens, run.duration_ms) == ("selected", "completed", 15, 1200)
    assert (run.provider, run.model, run.channel, run.prompt_chars) == ("p", "m", "telegram", 9000)
    assert run.ended_at_ms == 1_770_285_600_000


@pytest.mark.parametrize(
    ("arms", "outcome"),
    [
        ([arm("tool:fs:read", referenced=True)], "observed"),
        ([arm("tool:messaging:message", referenced=True)], "conversational"),
        ([arm("file:workspace:A.md", referenced=True), arm("tool:fs:read")], "conversational"),
        ([], "conversational"),
    ],
)
def test_a_trace_is_observed_if_a_real_tool_is_referenced(
    tmp_path: Path, arms: list[Json], outcome: str
) -> None:
    run = only_run(tmp_path, trace(*arms))
    assert guard(run, detect(run)).outcome == outcome


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"aborted": True, "error": "x"}, "aborted"),
        ({"error": "timeout"}, "error"),
        ({"error": {"message": "x"}}, "error"),
        ({"error": ""}, "completed"),
        ({"error": False}, "completed"),
    ],
)
def test_how_it_ended(tmp_path: Path, fields: Json, status: str) -> None:
    assert only_run(tmp_path, {**trace(), **fields}).status == status


def test_zero_usage_and_absent_fields_are_unknown(tmp_path: Path) -> None:
    zero = {"input": 0, "output": 0, "total": 0}
    assert only_run(tmp_path, trace(usage=zero)).usage is None
    (run,) = runs(entries_of(tmp_path, traces=[{"traceId": "t", "arms": [arm("tool:fs:read")]}]))
    assert (run.usage, run.duration_ms, run.ended_at_ms, run.run_class) == (None, None, None, "imported")


def test_a_trace_without_an_id_is_known_by_its_content(tmp_path: Path) -> None:
    nameless = trace(traceId=None, runId="")
    one = only_run(tmp_path, nameless)
    assert one.uid == only_run(tmp_path, dict(reversed(nameless.items()))).uid
    assert one.uid != only_run(tmp_path, {**nameless, "model": "other"}).uid


def test_an_arm_named_twice_is_one(tmp_path: Path) -> None:
    twice = [arm("file:workspace:a", included=False), arm("file:workspace:a", referenced=True)]
    run = only_run(tmp_path, trace(*twice))
    assert [one.key for one in run.inventory.arms] == ["file:workspace:a"]
    assert (run.excluded, run.referenced) == ((), ("file:workspace:a",))


def test_with_traces_posteriors_are_stated_first_and_not_taken(tmp_path: Path) -> None:
    entries = entries_of(tmp_path, traces=[trace()], posteriors=[posterior()])
    assert isinstance(entries[0], Stated)
    assert (entries[0].arm, entries[0].alpha, entries[0].pulls) == ("tool:fs:read", 3.5, 3)
    assert [type(entry) for entry in entries[1:]] == [Run]


@pytest.mark.parametrize("traces", [None, []])
def test_without_traces_posteriors_are_carried(tmp_path: Path, traces: list[Json] | None) -> None:
    metrics = {"learner": "openclaw", "total_pulls": 3}
    told = posterior(lastUpdated="2026-02-05T10:00:00+00:00")
    found, row = entries_of(tmp_path, metrics=metrics, traces=traces, posteriors=[told])
    assert isinstance(found, ArmLine)
    assert isinstance(row, RewardLine)
    assert (row.success_micro, row.failure_micro, row.pulls, row.at_ms) == (
        2_500_000,
        0,
        3,
        1_770_285_600_000,
    )


BAD_POSTERIORS = {
    "no id": posterior("tool"),
    "unknown type": posterior("weird:a:b"),
    "below its beginning": posterior(alpha=0.2),
    "huge": posterior(beta=1e300),
    "negative pulls": posterior(pulls=-1),
    "fractional pulls": posterior(pulls=0.5),
    "text": posterior(alpha="3"),
    "nothing": None,
}


@pytest.mark.parametrize("bad", BAD_POSTERIORS.values(), ids=BAD_POSTERIORS.keys())
def test_a_bad_posterior_is_rejected_with_its_number(tmp_path: Path, bad: Json | None) -> None:
    entries = entries_of(tmp_path, posteriors=[posterior("tool:fs:write"), bad])
    assert [line.reason.partition(":")[0] for line in rejected(entries)] == ["Posterior 2"]
    assert len(entries) == 3


def test_an_arm_with_two_beliefs_keeps_the_first(tmp_path: Path) -> None:
    entries = entries_of(tmp_path, posteriors=[posterior(), posterior(alpha=9)])
    assert [line.reason for line in rejected(entries)] == [
        "Posterior 2: It names an arm that has one already."
    ]


BAD_TRACES = {
    "unknown type": trace(arm("weird:a:b")),
    "no flags": trace({"armId": "tool:fs:read"}),
    "no arms": {"traceId": "t"},
    "negative duration": trace(durationMs=-5),
    "endless": trace(durationMs=1e300),
    "a long model": trace(model="x" * 900),
    "a number": 7,
}


@pytest.mark.parametrize("bad", BAD_TRACES.values(), ids=BAD_TRACES.keys())
def test_a_bad_trace_is_rejected_with_its_number(tmp_path: Path, bad: object) -> None:
    entries = entries_of(tmp_path, traces=[trace(arm("tool:fs:read")), bad])
    assert [line.reason.partition(":")[0] for line in rejected(entries)] == ["Trace 2"]
    assert len(runs(entries)) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"traces": [{"arms": [{"armId": NaN}]}]}', "NaN"),
        (b'{"posteriors": [{"armId": "\\ud800"}]}', "surrogate"),
        (b'{"posteriors": [{"armId": "\xff"}]}', "UTF-8"),
        (b'{"posteriors": [{"armId": ' + b"[" * 100, "deeper than 64"),
        (b'{"posteriors": {"armId": 1}}', "another shape"),
        (b'{"posteriors": [{"armId": 1}', "cut off"),
    ],
)
def test_a_broken_document_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    (line,) = rejected(read(put(tmp_path, content)))
    assert message in line.reason


def test_other_exports_with_traces_are_not_taken_for_it(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="none of them"):
        read(put(tmp_path, json.dumps({"traces": [{"traceId": "x", "observations": []}]}).encode()))
