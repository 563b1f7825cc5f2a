"""Sessions of pi and OpenClaw, and OpenClaw's report beside them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from core.detect import detect
from core.errors import UnreadableSource
from core.formats import Limits, open_sources, recognise
from core.maths.observe import guard
from core.records.run import Run
from tests.formats.builders import Json, lines, names, offered, put, read, rejected, runs, text, tool
from tests.formats.test_real_data import expected, expected_rows, read_folder, usage_of

HEADER: Json = {"type": "session", "version": 3, "id": "harbor", "timestamp": "2026-01-02T03:00:00.000Z"}
ZERO = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
USAGE = {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 1}


class Session:
    """A session file, entry by entry; every entry gets the next id and the next second."""

    def __init__(self, *, has_ids: bool = True) -> None:
        self.made: list[Json] = [HEADER]
        self.has_ids = has_ids

    def entry(self, kind: str, **fields: object) -> Session:
        number = len(self.made)
        entry: Json = {"type": kind, "timestamp": f"2026-01-02T03:00:{number:02}.000Z", **fields}
        if self.has_ids:
            entry = {"id": f"e{number}", **entry}
        self.made.append(entry)
        return self

    def message(self, role: str, **fields: object) -> Session:
        return self.entry("message", message={"role": role, **fields})

    def prompt(self, words: object = "go") -> Session:
        return self.message("user", content=words)

    def reply(self, *blocks: Json, stop: str = "stop", **fields: object) -> Session:
        return self.message(
            "assistant", content=list(blocks), provider="p", model="m", stopReason=stop, **fields
        )

    def result(self) -> Session:
        return self.message("toolResult", toolName="read", content=[text("ok")])

    def bytes(self, n_lines: int | None = None) -> bytes:
        return lines(self.made[:n_lines])


def call(name: str, **arguments: object) -> Json:
    return {"type": "toolCall", "id": "read:0", "name": name, "arguments": arguments}


def report(**meta: object) -> bytes:
    """A report with two tools, a skill and two files, of which one is missing."""
    prompt = {
        "workspaceDir": "/home/a/work",
        "systemPrompt": {"chars": 900},
        "tools": {"entries": [{"name": "read", "schemaChars": 5, "summaryChars": 90}, {"name": "message"}]},
        "skills": {"entries": [{"name": "pdf", "blockChars": 8}]},
        "injectedWorkspaceFiles": [
            {
                "name": "A.md",
                "path": "/home/a/work/docs/A.md",
                "missing": False,
                "rawChars": 99,
                "injectedChars": 9,
            },
            {"name": "B.md", "path": "/home/a/work/B.md", "missing": True, "injectedChars": 0},
        ],
    }
    agent = {"provider": "reported", "model": "reported-model"}
    document = {"meta": {"durationMs": 700, "agentMeta": agent, "systemPromptReport": prompt, **meta}}
    return b"[agent] a log line {\n[agent] another\n" + json.dumps(document, indent=2).encode() + b"\n"


def only_run(folder: Path, session: Session) -> Run:
    (run,) = runs(read(put(folder, session.bytes(), "s.jsonl")))
    return run


def ids(found: Iterable[Run]) -> list[str]:
    return [run.uid for run in found]


def test_usage_adds_up_and_zero_everywhere_is_unknown(tmp_path: Path) -> None:
    known = Session().prompt().reply(usage=USAGE).reply(usage=ZERO).reply(usage={**USAGE, "totalTokens": 120})
    usage = only_run(tmp_path, known).usage
    assert usage is not None
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.tokens) == (
        20,
        10,
        200,
        2,
        236,
    )
    assert only_run(tmp_path, Session().prompt().reply(usage=ZERO)).usage is None
    assert only_run(tmp_path, Session().prompt().reply()).usage is None


@pytest.mark.parametrize(
    ("stops", "status"),
    [
        (["stop"], "completed"),
        (["length"], "completed"),
        (["error", "toolUse"], "completed"),
        (["toolUse", "error"], "error"),
        (["aborted"], "aborted"),
    ],
)
def test_the_last_reply_says_how_a_run_ended(tmp_path: Path, stops: list[str], status: str) -> None:
    session = Session().prompt()
    for stop in stops:
        session.reply(stop=stop)
    assert only_run(tmp_path, session).status == status


def test_what_the_person_ran_and_what_extensions_note_is_nothing_of_the_agents(tmp_path: Path) -> None:
    session = Session().prompt().message("bashExecution", command="ls", output="x", exitCode=0)
    session.message("compactionSummary", summary="x").message("custom", content=7, usage="none")
    session.entry("compaction", summary="x").entry("custom", data={"a": 1}, provider={"not": "a name"})
    run = only_run(tmp_path, session.reply(text("a")))
    assert (run.calls, run.provider) == ((), "p")
    assert rejected(read(tmp_path / "s.jsonl")) == []


def test_prompts_without_replies_and_replies_without_prompts_are_runs(tmp_path: Path) -> None:
    session = Session().result().reply(call("read")).prompt(" \n").prompt().reply(text("b"))
    first, second = runs(read(put(tmp_path, session.bytes())))
    assert (first.uid[-2:], names(first), names(second)) == ("e2", ["read"], [])
    found = runs(read(put(tmp_path, Session().prompt().prompt().reply().bytes())))
    assert [run.empty for run in found] == [True, False]


def test_a_repeated_entry_counts_once_and_restarting_call_ids_count_each(tmp_path: Path) -> None:
    session = Session().prompt().reply(call("read"), usage=USAGE).reply(call("read"))
    session.made.extend(session.made[1:])
    run = only_run(tmp_path, session)
    assert names(run) == ["read", "read"]
    assert run.tokens == 116


def test_entries_without_ids_are_known_by_time_and_words(tmp_path: Path) -> None:
    session = Session(has_ids=False).prompt("one").reply().prompt("two").reply()
    first, second = runs(read(put(tmp_path, session.bytes())))
    assert first.uid.startswith("pi-session/prompt/2026-01-02T03:00:01.000Z/")
    assert len({first.uid, second.uid}) == 2
    assert ids(runs(read(put(tmp_path, session.bytes(), "other")))) == [first.uid, second.uid]


def test_sessions_of_the_same_id_are_told_apart_and_a_fork_is_not(tmp_path: Path) -> None:
    session = Session().prompt().reply()
    other = Session().prompt().reply()
    other.made[0] = {**HEADER, "timestamp": "2026-01-02T04:00:00.000Z"}
    fork = runs(read(put(tmp_path, other.bytes(), "fork")))
    other.made[1]["timestamp"] = "2026-01-02T04:00:01.000Z"
    apart = runs(read(put(tmp_path, other.bytes(), "other")))
    own = runs(read(put(tmp_path, session.bytes(), "own")))
    assert ids(fork) == ids(own)
    assert ids(apart) != ids(own)
    assert apart[0].source != own[0].source


# --- the report -------------------------------------------------------------------------------------------


def joined(folder: Path, session: Session, told: bytes, ending: str = "") -> Path:
    pack = gzip.compress if ending else bytes
    put(folder, pack(session.bytes()), f"s.jsonl{ending}")
    return put(folder, pack(told), f"s.openclaw.txt{ending}")


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_report_tells_its_session_what_was_in_the_prompt(tmp_path: Path, ending: str) -> None:
    session = Session().prompt().reply(call("read"), text("I look at A.md")).prompt().reply(stop="error")
    path = joined(tmp_path, session, report(aborted=True), ending)
    for named in ([tmp_path], [path], [tmp_path / f"s.jsonl{ending}"], sorted(tmp_path.iterdir())):
        opened = open_sources(named)
        (source,) = opened.sources
        assert opened.skipped == ()
        first, second = runs(source.entries())
        assert [(arm.key, arm.token_cost) for arm in first.inventory.arms] == [
            ("tool:fs:read", 2),
            ("tool:messaging:message", None),
            ("skill:pdf:main", 2),
            ("file:workspace:docs/A.md", 3),
        ]
        assert first.inventory.kind == "declared"
        assert detect(first).referenced == (True, False, False, True)
        assert (first.duration_ms, first.status, first.prompt_chars) == (None, "completed", 900)
        assert (second.duration_ms, second.status, second.prompt_chars) == (700, "aborted", 900)


def test_a_session_with_its_report_outranks_the_same_without(tmp_path: Path) -> None:
    session = Session().prompt().reply(call("read"))
    (alone,) = runs(read(put(tmp_path, session.bytes(), "s.jsonl")))
    joined(tmp_path, session, report())
    (told,) = runs(read(tmp_path / "s.jsonl"))
    (grown,) = runs(read(put(tmp_path, session.reply().bytes(), "other.jsonl")))
    assert alone.uid == told.uid == grown.uid
    assert alone.rank < told.rank < grown.rank


def test_a_declared_inventory_beats_a_supplied_one(tmp_path: Path) -> None:
    joined(tmp_path, Session().prompt().reply(call("other")), report())
    tools_file = put(tmp_path, lines([[tool("other")]]), "tools.json")
    (run,) = runs(read(tmp_path / "s.jsonl", tools_file=tools_file))
    assert run.inventory.kind == "declared"
    assert detect(run).not_offered == ("other",)


def test_a_report_alone_makes_no_run(tmp_path: Path) -> None:
    path = put(tmp_path, report(), "s.openclaw.txt")
    with pytest.raises(UnreadableSource, match="makes no run alone"):
        open_sources([path])
    opened = open_sources([tmp_path])
    assert opened.sources == ()
    assert "makes no run alone" in opened.skipped[0].reason


DAMAGED = {
    "cut off": report()[:-20],
    "empty": b"",
    "only logs": b"[agent] nothing else\n",
    "of another shape": report(systemPromptReport={"tools": {"entries": 7}}),
    "negative": report(durationMs=-1),
    "endless": report(durationMs=1e300),
    "a huge size": report(systemPromptReport={"tools": {"entries": [{"name": "x", "schemaChars": 10**19}]}}),
    "not a number": report().replace(b"700", b"NaN"),
    "deep": b"{\n" + b'"a": ' + b"[" * 100 + b"]" * 100 + b"\n}\n",
    "half of a pair": report(x="?").replace(b"?", b"\\ud800"),
    "no UTF-8": report(x="?").replace(b"?", b"\xff"),
}


@pytest.mark.parametrize("told", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_report_is_told_and_its_session_read_without(tmp_path: Path, told: bytes) -> None:
    joined(tmp_path, Session().prompt().reply(call("read")), told)
    entries = read(tmp_path / "s.jsonl")
    (refused,) = rejected(entries)
    assert refused.file.endswith("s.openclaw.txt")
    (run,) = runs(entries)
    assert (run.inventory.kind, offered(run), run.duration_ms) == ("inferred", ["read"], None)


def test_a_report_beyond_the_limit_is_told(tmp_path: Path) -> None:
    joined(tmp_path, Session().prompt().reply(), report())
    (refused,) = rejected(read(tmp_path / "s.jsonl", limits=Limits(document_bytes=100)))
    assert "must be at most" in refused.reason


def test_names_that_can_be_no_arm_are_left_out_and_repeated_ones_count_once(tmp_path: Path) -> None:
    entries = [{"name": "bad\nname"}, {"name": "x" * 600}, {"name": ""}, {"name": "ok"}, {"name": "ok"}]
    joined(tmp_path, Session().prompt().reply(), report(systemPromptReport={"tools": {"entries": entries}}))
    (run,) = runs(read(tmp_path / "s.jsonl"))
    assert offered(run) == ["ok"]


# --- hostile ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "message", "message": {"role": "assistant", "content": 7}}',
        b'{"type": "message", "message": 7}',
        b'{"type": "message"}',
        b'{"type": "message", "message": {"role": "assistant", "x": "\\ud800"}}',
        b'{"type": "message", "message": {"role": "assistant", "x": NaN}}',
        b"[1]",
        b"{",
    ],
)
def test_a_broken_line_is_rejected_with_its_place_and_the_rest_read(tmp_path: Path, line: bytes) -> None:
    session = Session().prompt().reply(call("read"))
    content = session.bytes(2) + line + b"\n" + lines(session.made[2:])
    entries = read(put(tmp_path, content))
    assert [refused.line for refused in rejected(entries)] == [3]
    assert [names(run) for run in runs(entries)] == [["read"]]


def test_hostile_ids_and_times_are_hashed_or_unknown_and_a_number_is_a_time(tmp_path: Path) -> None:
    session = Session()
    session.entry("message", id="x" * 900, timestamp="\u202e", message={"role": "user", "content": "a"})
    session.entry("message", timestamp=-5, message={"role": "assistant", "content": []})
    run = only_run(tmp_path, session)
    assert len(run.uid) == len("pi-session/prompt//") + 64
    assert run.ended_at_ms is None
    session = Session()
    session.entry("message", timestamp=1000, message={"role": "user", "content": "a"})
    assert only_run(tmp_path, session).ended_at_ms == 1000


def test_counts_that_no_run_can_have_reject_the_run_alone(tmp_path: Path) -> None:
    huge = {"input": 10**12}
    session = Session().prompt().reply(usage=huge).reply(usage=huge).prompt().reply(usage=USAGE)
    entries = read(put(tmp_path, session.bytes()))
    assert [run.tokens for run in runs(entries)] == [116]
    assert "usage" in rejected(entries)[0].reason


# --- real sessions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pi-session", "openclaw-session"])
def test_each_real_run_equals_what_was_computed(shared_data: Path, name: str) -> None:
    """Counts and beliefs are compared where the folders are imported (`tests.flows.test_joined_files`)."""
    found = read_folder(shared_data / name, "prompt")
    wanted = expected(shared_data, f"{name}.prompt")
    assert sum(run.status == "aborted" for run, _, _ in found.judged) == wanted["runs_aborted"]
    assert sum(evidence.n_calls for _, evidence, _ in found.judged) == wanted["tool_calls"]
    rows = expected_rows(shared_data, f"{name}.prompt")
    assert len({run.uid for run, _, _ in found.judged}) == len(rows)
    for row, (run, evidence, verdict) in zip(rows, found.judged, strict=True):
        assert verdict.observed is (row["status"] == "observed")
        assert (sorted(set(names(run))), evidence.n_calls) == (row["tools"], row["calls"])
        assert (run.model, run.duration_ms, run.reward) == (row["model"], row["durationMs"], row["reward"])
        assert usage_of(run) == row["usage"]


def test_real_reports_declare_three_types_of_arms_with_their_costs(shared_data: Path) -> None:
    found = read_folder(shared_data / "openclaw-session", "prompt")
    for run, _, _ in found.judged:
        types = Counter(arm.type for arm in run.inventory.arms)
        assert types == {"tool": 23, "skill": 3, "file": 7}
        assert all(arm.token_cost for arm in run.inventory.arms)
        costs = {arm.key: arm.token_cost for arm in run.inventory.arms}
        assert costs["tool:fs:read"] == 98  # 392 characters
        assert costs["skill:weather:main"] == 96  # 381
        assert costs["file:workspace:AGENTS.md"] == 1953  # 7809
    assert {recognise(path) for path in (shared_data / "openclaw-session").glob("*.jsonl.gz")} == {
        "pi-session"
    }


def test_real_sessions_cut_off_anywhere_are_the_beginning_of_the_whole(
    shared_data: Path, tmp_path: Path
) -> None:
    (path,) = (shared_data / "pi-session").iterdir()
    content = gzip.decompress(path.read_bytes())
    whole = {run.uid: run for run in runs(read(put(tmp_path, content)))}
    for end in range(3000, len(content), len(content) // 17):
        found = runs(read(put(tmp_path, content[:end])))
        assert [run.uid for run in found] == list(whole)[: len(found)]
        for run in found:
            grown = whole[run.uid]
            assert grown.calls[: len(run.calls)] == run.calls
            assert (grown.source, grown.rank > run.rank) == (run.source, True)
            assert guard(run, detect(run)).outcome != "empty" or run.empty
