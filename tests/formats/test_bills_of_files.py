"""Bills of files: five disjoint counts by model, sub-agents among them, equal to a recount by other code."""

from __future__ import annotations

import gzip
import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.formats import open_sources
from core.formats.entries import Skipped
from core.records.bill import Spent
from core.records.run import Run
from tests.formats.builders import Session, lines, put, read, runs, text, use

Json = dict[str, Any]
Row = tuple[str, str, int, int, int, int, int, int]
"""Owner, model, input, cached read, cache write of 5 minutes and 1 hour, output, tokens of an unknown split."""


def rows_of(found: Iterable[Run]) -> dict[str, Counter[tuple[str, str, str]]]:
    """Return the counts of each run by owner, model and part; a run without rows has its usage as its row."""
    known = {}
    for run in found:
        counts: Counter[tuple[str, str, str]] = Counter()
        for row in run.bill or by_usage(run):
            model = row.model or run.model or ""
            for part in ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "total"):
                counts[row.owner, model, part] += getattr(row, part)
        known[run.uid.rpartition("/")[2]] = +counts
    return known


def by_usage(run: Run) -> list[Spent]:
    if run.usage is None:
        return []
    used = run.usage
    cached = used.cache_read + used.cache_write
    parts = used.input + used.output + cached
    is_inside = used.tokens == used.input + used.output and parts != used.tokens
    return [
        Spent(
            input=used.input - cached * is_inside,
            cache_read=used.cache_read,
            cache_write_5m=used.cache_write,
            output=used.output,
        )
    ]


# --- the files at hand, counted again ------------------------------------------------------------------


def recounted_claude(content: Iterable[Json]) -> dict[str, Counter[tuple[str, str, str]]]:
    """Return each prompt's tokens: last usage of each response; a notice's response pays where its call is."""
    prompt, prompts, of_call, own, others = (
        "",
        list[str](),
        dict[str, str](),
        dict[str, Any](),
        dict[str, Any](),
    )
    results = dict[str, tuple[str, int]]()
    for line in content:
        message = line.get("message") or {}
        blocks = message.get("content") or []
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        kind = line.get("type")
        if kind == "progress" and line["data"].get("type") == "agent_progress":
            inner = line["data"]["message"]
            if inner["type"] == "assistant":
                call = of_call[line["parentToolUseID"]]
                others[inner["message"]["id"]] = (call, line["data"]["agentId"], inner["message"])
        elif kind == "user" and not line.get("isMeta") and not line.get("isCompactSummary"):
            said = "\n".join(block["text"] for block in blocks if block["type"] == "text")
            is_result = any(block["type"] == "tool_result" for block in blocks)
            odd = ("<local-command", "<bash-", "[Request interrupted")
            if said.strip() and not is_result and not said.startswith(odd):
                prompt = line["uuid"]
                prompts.append(prompt)
            answer = line.get("toolUseResult")
            if isinstance(answer, dict) and "totalTokens" in answer:
                results[answer["agentId"]] = (of_call[blocks[0]["tool_use_id"]], answer["totalTokens"])
        elif kind == "assistant" and message["model"] != "<synthetic>":
            of_call |= {block["id"]: prompt for block in blocks if block["type"] == "tool_use"}
            owner = own.get(message["id"], (prompt,))[0]
            own[message["id"]] = (owner, message)
    counts = {one: Counter[tuple[str, str, str]]() for one in prompts}
    for at, message in own.values():
        counts[at].update(parts_of("agent", message))
    for at, agent, message in others.values():
        counts[at].update(parts_of("sub-agent", message))
        results.pop(agent, None)
    for at, total in results.values():
        counts[at]["sub-agent", "", "total"] += total
    return {one: +count for one, count in counts.items()}


def parts_of(owner: str, message: Json) -> Counter[tuple[str, str, str]]:
    used, split = message["usage"], message["usage"]["cache_creation"]
    named = {
        "input": used["input_tokens"],
        "cache_read": used["cache_read_input_tokens"],
        "cache_write_5m": split["ephemeral_5m_input_tokens"],
        "cache_write_1h": split["ephemeral_1h_input_tokens"],
        "output": used["output_tokens"],
    }
    return Counter({(owner, message["model"], part): count for part, count in named.items()})


def content_of(path: Path) -> Iterator[Json]:
    with gzip.open(path, "rt", encoding="utf-8") as opened:
        for line in opened:
            yield json.loads(line)


def test_bills_of_claude_code_equal_a_recount(shared_data: Path) -> None:
    paths = sorted((shared_data / "claude-code").glob("*.jsonl.gz"))
    owners = Counter[str]()
    for path in paths:
        expected = recounted_claude(content_of(path))
        found = rows_of(runs(read(path)))
        assert without_run_s_model(found, path) == expected
        owners.update(key[0] for count in expected.values() for key in count.elements())
    assert len(paths) == 12
    assert owners["sub-agent"] > 100_000 < owners["agent"]


def without_run_s_model(
    found: dict[str, Counter[tuple[str, str, str]]], _: Path
) -> dict[str, Counter[tuple[str, str, str]]]:
    """Name no model beside a bare total: its model is unknown."""
    return {
        one: Counter(
            {(own, "" if part == "total" else model, part): n for (own, model, part), n in count.items()}
        )
        for one, count in found.items()
    }


def test_bills_of_gemini_equal_a_recount(shared_data: Path) -> None:
    for path in sorted((shared_data / "gemini-cli").glob("*.json.gz")):
        document = json.loads(gzip.decompress(path.read_bytes()))
        expected, at = dict[str, Counter[tuple[str, str, str]]](), ""
        for message in document["messages"]:
            if message["type"] == "user":
                at = message["id"]
                expected[at] = Counter()
            elif message.get("tokens"):
                used, model = message["tokens"], message["model"]
                parts = {
                    "input": used["input"] - used["cached"] + used["tool"],
                    "cache_read": used["cached"],
                    "output": used["output"] + used["thoughts"],
                }
                assert sum(parts.values()) == used["total"]
                expected[at].update({("agent", model, part): count for part, count in parts.items()})
        assert rows_of(runs(read(path))) == {one: +count for one, count in expected.items()}


def samples_of(path: Path) -> list[Json]:
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            inside = sorted(name for name in archive.namelist() if name.startswith("samples/"))
            return [json.loads(archive.read(name)) for name in inside]
    return json.loads(gzip.decompress(path.read_bytes())).get("samples") or []


def test_bills_of_inspect_name_each_model(shared_data: Path) -> None:
    """A total that is the sum of all parts shows that its input holds no cached token."""
    n_runs, totals = 0, set[int]()
    for path in sorted((shared_data / "inspect-ai").iterdir()):
        for run, sample in zip(runs(read(path)), samples_of(path), strict=True):
            expected = dict[str, tuple[int, int, int]]()
            for name, use_of in (sample.get("model_usage") or {}).items():
                read_from = use_of.get("input_tokens_cache_read") or 0
                inside = use_of["total_tokens"] == use_of["input_tokens"] + use_of["output_tokens"]
                if use_of["total_tokens"]:
                    n_input = use_of["input_tokens"] - read_from * inside
                    expected[name] = (n_input, read_from, use_of["output_tokens"])
            found = {row.model or run.model: row for row in run.bill or by_usage(run)}
            assert {name: (row.input, row.cache_read, row.output) for name, row in found.items()} == expected
            n_runs += 1
            totals.update(row.tokens for row in found.values())
    assert n_runs == 105
    assert len(totals) > 3


@pytest.mark.parametrize("folder", ["pi-session", "tau2-results", "langfuse-trace"])
def test_a_bill_holds_every_token_of_the_usage(shared_data: Path, folder: str) -> None:
    """Agent's rows add up to the usage where all its tokens have a split."""
    n_known = 0
    for path in sorted((shared_data / folder).glob("*.json*.gz")):
        for run in runs(read(path)):
            if run.usage is not None:
                own = [row for row in run.bill or by_usage(run) if row.owner == "agent"]
                assert sum(row.tokens + row.total for row in own) == run.usage.tokens
                n_known += sum(row.total for row in own) == 0
    assert n_known > 0


# --- sub-agents in their three forms -------------------------------------------------------------------

CREATED = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70}


def used(n_input: int, n_output: int, **others: object) -> Json:
    return {"input_tokens": n_input, "output_tokens": n_output, **others}


def session_with_task(prompt: str = "look around") -> Session:
    session = Session().prompt("go")
    session.reply(use("Task", "call-1", prompt=prompt), id="m1", usage=used(150, 20))
    return session


def answered(session: Session, agent: str | None = "a1", total: int = 50_000) -> Session:
    block = {"type": "tool_result", "tool_use_id": "call-1", "content": "done"}
    result: Json = {"status": "completed", "totalTokens": total}
    session.prompt([block], toolUseResult=result if agent is None else {**result, "agentId": agent})
    return session.reply(text("ready"), id="m2", usage=used(90, 10))


def sub_agent_lines(agent: str | None = "a1", prompt: str = "look around", session: str = "s1") -> list[Json]:
    own = Session(id=f"x-{agent}")
    marks: Json = {"isSidechain": True, "sessionId": session}
    if agent is not None:
        marks["agentId"] = agent
    own.prompt(prompt, **marks)
    before = own.made[-1]["uuid"]
    for number, (n_input, n_output) in enumerate([(10_000, 1), (10_000, 5_000), (30_000, 4_900)]):
        usage = used(n_input, n_output, cache_creation_input_tokens=100, cache_creation=CREATED)
        # The first two lines are one response: it grows.
        own.reply(
            text("x"), id=f"r{max(number, 1)}-{agent}", model="haiku", usage=usage, parentUuid=before, **marks
        )
        before = own.made[-1]["uuid"]
    return own.made


EXPECTED = {
    ("agent", "opus", "input"): 240,
    ("agent", "opus", "output"): 30,
    ("sub-agent", "haiku", "input"): 40_000,
    ("sub-agent", "haiku", "output"): 9_900,
    ("sub-agent", "haiku", "cache_write_5m"): 60,
    ("sub-agent", "haiku", "cache_write_1h"): 140,
}


def inline(folder: Path) -> list[Path]:
    session = session_with_task()
    session.made += sub_agent_lines()
    return [put(folder, answered(session).bytes(), "s1.jsonl")]


def inline_without_an_id(folder: Path) -> list[Path]:
    session = session_with_task()
    session.made += sub_agent_lines(agent=None)
    return [put(folder, answered(session, agent=None).bytes(), "s1.jsonl")]


def by_notices(folder: Path) -> list[Path]:
    session = session_with_task()
    for line in sub_agent_lines():
        data = {"type": "agent_progress", "agentId": "a1", "message": line}
        session.line("progress", data=data, parentToolUseID="call-1")
    return [put(folder, answered(session).bytes(), "s1.jsonl")]


def in_a_folder(folder: Path) -> list[Path]:
    main = put(folder, answered(session_with_task()).bytes(), "s1.jsonl")
    (folder / "s1" / "subagents").mkdir(parents=True)
    put(folder / "s1" / "subagents", lines(sub_agent_lines()), "agent-a1.jsonl")
    return [main]


def whole_folder(folder: Path) -> list[Path]:
    in_a_folder(folder)
    return [folder]


def beside_it(folder: Path) -> list[Path]:
    put(folder, lines(sub_agent_lines()), "agent-a1.jsonl")
    return [put(folder, answered(session_with_task()).bytes(), "s1.jsonl")]


def named_in_any_order(folder: Path) -> list[Path]:
    one = put(folder, lines(sub_agent_lines()), "z.jsonl")
    other = put(folder, answered(session_with_task()).bytes(), "s1.jsonl")
    return random.Random(str(folder)).sample([one, other], 2)


def zipped(folder: Path) -> list[Path]:
    path = folder / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p/s1/subagents/agent-a1.jsonl", lines(sub_agent_lines()))
        archive.writestr("p/s1.jsonl", answered(session_with_task()).bytes())
    return [path]


def in_all_forms(folder: Path) -> list[Path]:
    in_a_folder(folder)
    session = session_with_task()
    session.made += sub_agent_lines()
    return [put(folder, answered(session).bytes(), "s1.jsonl")]


FORMS: list[Callable[[Path], list[Path]]] = [
    inline,
    inline_without_an_id,
    by_notices,
    in_a_folder,
    whole_folder,
    beside_it,
    named_in_any_order,
    zipped,
    in_all_forms,
]


def read_all(paths: list[Path]) -> list[object]:
    opened = open_sources(paths)
    try:
        return [entry for source in opened.sources for entry in source.read(None)]
    finally:
        opened.close()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_sub_agent_s_tokens_are_its_run_s(tmp_path: Path, form: Callable[[Path], list[Path]]) -> None:
    entries = read_all(form(tmp_path))
    (run,) = [entry for entry in entries if isinstance(entry, Run)]
    assert rows_of([run]) == {"s1-u0": EXPECTED}
    assert run.usage is not None
    assert (run.usage.tokens, run.model, [call.name for call in run.calls]) == (270, "opus", ["Task"])
    assert not [entry for entry in entries if isinstance(entry, Skipped)]


def test_a_reported_total_alone_is_a_lower_bound(tmp_path: Path) -> None:
    (run,) = runs(read(put(tmp_path, answered(session_with_task()).bytes())))
    (apart,) = [row for row in run.bill if row.owner == "sub-agent"]
    assert (apart.total, apart.tokens) == (50_000, 0)


def test_a_sub_agent_s_file_alone_holds_no_runs(tmp_path: Path) -> None:
    (skipped,) = read(put(tmp_path, lines(sub_agent_lines()), "agent-a1.jsonl"))
    assert isinstance(skipped, Skipped)


def test_each_run_pays_for_its_own_sub_agents(tmp_path: Path) -> None:
    """Two runs start one each, with the same task; a sub-agent starts another one."""
    session = answered(session_with_task())
    session.prompt("again").reply(use("Task", "call-2", prompt="look around"), id="m3", usage=used(1, 1))
    block = {"type": "tool_result", "tool_use_id": "call-2", "content": "done"}
    session.prompt([block], toolUseResult={"agentId": "a2", "totalTokens": 9})
    folder = tmp_path / "s1" / "subagents"
    folder.mkdir(parents=True)
    second = sub_agent_lines("a2")
    nested = {"type": "tool_result", "tool_use_id": "inner", "content": "done"}
    of_second = {"isSidechain": True, "sessionId": "s1", "agentId": "a2"}
    inner = Session(id="y").prompt([nested], toolUseResult={"agentId": "a3", "totalTokens": 9}, **of_second)
    put(folder, lines(sub_agent_lines("a1")), "agent-a1.jsonl")
    put(folder, lines([*second, *inner.made]), "agent-a2.jsonl")
    put(folder, lines(sub_agent_lines("a3", prompt="deeper")), "agent-a3.jsonl")
    found = rows_of(runs(read(put(tmp_path, session.bytes(), "s1.jsonl"))))
    by_run = {one: count["sub-agent", "haiku", "output"] for one, count in found.items()}
    assert list(by_run.values()) == [9_900, 2 * 9_900]
    assert not [key for count in found.values() for key in count if key[2] == "total"]


def test_the_model_with_most_tokens_is_the_run_s(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a"), id="m1", usage=used(100, 35))
    session.reply(text("b"), id="m2", model="haiku", usage=used(1, 1))
    (run,) = runs(read(put(tmp_path, session.bytes())))
    assert run.model == "opus"
    assert {(row.model, row.tokens) for row in run.bill} == {("opus", 135), ("haiku", 2)}


def test_cache_writes_without_a_lifetime_are_assumed(tmp_path: Path) -> None:
    session = Session().prompt("go").reply(text("a"), usage=used(1, 1, cache_creation_input_tokens=5))
    session.reply(
        text("b"),
        id="m2",
        model="b",
        usage=used(1, 1, cache_creation_input_tokens=100, cache_creation=CREATED),
    )
    (run,) = runs(read(put(tmp_path, session.bytes())))
    by_model = {row.model: (row.cache_write_5m, row.cache_write_1h, row.assumed) for row in run.bill}
    assert by_model == {"opus": (5, 0, True), "b": (30, 70, False)}
