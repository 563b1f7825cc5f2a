"""Bills of files: five disjoint counts by model, sub-agents among them, equal to a recount by other code."""

from __future__ import annotations

import gzip
import json
import random
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.formats import open_sources
from core.formats.entries import Rejected, Skipped
from core.records.bill import Spent
from core.records.run import Run
from tests.formats.builders import Session, lines, put, read, runs, text, use

Json = dict[str, Any]

CREATED = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70}

EXPECTED = {
    ("agent", "opus", "input"): 240,
    ("agent", "opus", "output"): 30,
    ("sub-agent", "haiku", "input"): 40_000,
    ("sub-agent", "haiku", "output"): 9_900,
    ("sub-agent", "haiku", "cache_write_5m"): 60,
    ("sub-agent", "haiku", "cache_write_1h"): 140,
}

OPENED: Counter[str] = Counter()


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
        assert {
            one: Counter(
                {(own, "" if part == "total" else model, part): n for (own, model, part), n in count.items()}
            )
            for one, count in found.items()
        } == expected
        owners.update(key[0] for count in expected.values() for key in count.elements())
    assert len(paths) == 12
    assert owners["sub-agent"] > 100_000 < owners["agent"]


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


def inline(folder: Path, agent: str | None = "a1") -> list[Path]:
    session = session_with_task()
    session.made += sub_agent_lines(agent)
    return [put(folder, answered(session, agent).bytes(), "s1.jsonl")]


def inline_without_an_id(folder: Path) -> list[Path]:
    return inline(folder, agent=None)


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
    return inline(folder)


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


def by_sub_agents(found: Iterable[object]) -> list[tuple[int, int]]:
    """Return input and tokens without a split of the sub-agents of each run."""
    made = [run for run in found if isinstance(run, Run)]
    rows = [[row for row in run.bill if row.owner == "sub-agent"] for run in made]
    return [(sum(row.input for row in own), sum(row.total for row in own)) for own in rows]


def agent_line(
    kind: str, uuid: str, parent: str | None, second: int, n_input: int = 0, **marks: object
) -> Json:
    content = [text("look around")] if kind == "user" else [text("x")]
    message: Json = {"role": kind, "content": content, "id": uuid, "model": "haiku"}
    if kind == "assistant":
        message["usage"] = used(n_input, 1)
    at = f"2026-01-02T03:00:{second:02}.000Z"
    same: Json = {"isSidechain": True, "sessionId": "s1", "timestamp": at}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "message": message, **same, **marks}


def two_runs(agents: tuple[str | None, str | None], between: Iterable[Json] = ()) -> Session:
    """A session whose two runs start a sub-agent each, on the same task."""
    session = Session()
    for number, agent in enumerate(agents):
        call = f"call-{number}"
        session.prompt("go").reply(use("Task", call, prompt="look around"), id=f"m{number}", usage=used(1, 1))
        session.made += [line for line in between if line["run"] == number]
        block = {"type": "tool_result", "tool_use_id": call, "content": "done"}
        result: Json = {"totalTokens": 500} if agent is None else {"totalTokens": 500, "agentId": agent}
        session.prompt([block], toolUseResult=result)
    return session


def test_a_sub_agent_that_is_resumed_is_paid_by_each_of_its_runs(tmp_path: Path) -> None:
    mark: Json = {"agentId": "a1"}
    put(tmp_path, lines([
        agent_line("user", "x0", None, 1, **mark),
        agent_line("assistant", "x1", "x0", 1, 400, **mark),
        agent_line("assistant", "x2", "x1", 4, 700, **mark),
    ]), "agent-a1.jsonl")  # fmt: skip
    path = put(tmp_path, two_runs(("a1", "a1")).bytes(), "s1.jsonl")
    assert by_sub_agents(read_all([path])) == [(400, 0), (700, 0)]


@pytest.mark.parametrize("order", ["in order", "child first"])
@pytest.mark.parametrize(
    "words", ["look around", " look\naround ", "<system-reminder>now</system-reminder>look around"]
)
def test_sub_agents_without_ids_are_told_apart_by_their_run(tmp_path: Path, order: str, words: str) -> None:
    between = []
    for run, (name, n_input) in enumerate([("z", 1_000), ("b", 7)]):  # the later one sorts first
        own = [
            agent_line("user", f"{name}0", None, 3 * run + 1, run=run),
            agent_line("assistant", f"{name}1", f"{name}0", 3 * run + 1, n_input, run=run),
        ]
        own[0]["message"]["content"] = [text(words)]
        between += own if order == "in order" else own[::-1]
    session = two_runs((None, None), between)
    found = runs(read(put(tmp_path, session.bytes(), "s1.jsonl")))
    assert by_sub_agents(found) == [(1_000, 0), (7, 0)]


def test_a_joined_file_gives_the_bills_of_its_parts(tmp_path: Path) -> None:
    """The sub-agent has no call: its time says whose it is, wherever its lines are."""
    session = Session().prompt("one").reply(text("a"), id="m1", usage=used(1, 1))
    session.prompt("two").reply(text("b"), id="m2", usage=used(1, 1))
    own = [
        agent_line("user", "x0", None, 0, agentId="acompact-1"),
        agent_line("assistant", "x1", "x0", 1, 300, agentId="acompact-1"),
    ]
    for name, content in {"front": [*own, *session.made], "behind": [*session.made, *own]}.items():
        assert by_sub_agents(runs(read(put(tmp_path, lines(content), name)))) == [(300, 0), (0, 0)]
    paths = [put(tmp_path, lines(own), "agent-x.jsonl"), put(tmp_path, session.bytes(), "s1.jsonl")]
    assert by_sub_agents(read_all(paths)) == [(300, 0), (0, 0)]


@pytest.mark.parametrize("shape", ["circle", "chain"])
def test_many_nested_sub_agents_come_to_an_end(tmp_path: Path, shape: str) -> None:
    own = [agent_line("assistant", f"x{n}", None, 1, 10, agentId=f"a{n}") for n in range(2_000)]
    block = {"type": "tool_result", "tool_use_id": "inner", "content": "done"}
    for number, line in enumerate(own):
        after = (number + 1) % len(own) if shape == "circle" else number + 1
        result = {"agentId": f"a{after}", "totalTokens": 9}
        nested = agent_line("user", f"y{number}", None, 1, agentId=f"a{number}", toolUseResult=result)
        nested["message"]["content"] = [block]
        line["nested"] = nested
    content = [part for line in own for part in (line, line.pop("nested"))]
    session = Session().prompt("one").reply(text("a"), id="m1", usage=used(1, 1))
    session.made += content
    (found,) = by_sub_agents(runs(read(put(tmp_path, session.bytes()))))
    assert found[0] == 20_000


def test_counts_that_no_bill_can_have_are_a_lower_bound(tmp_path: Path) -> None:
    session = session_with_task()
    session.made += [agent_line("assistant", f"x{n}", None, 1, 10**12, agentId="a1") for n in range(2)]
    (run,) = runs(read(put(tmp_path, answered(session).bytes())))
    assert run.usage is not None
    assert run.usage.tokens == 270
    assert by_sub_agents([run]) == [(0, 10**12)]


@pytest.mark.parametrize(
    "strange",
    [
        {"usage": {"cache_creation": []}},
        {"usage": {"cache_creation": {"ephemeral_1h_input_tokens": -1}}},
        {"line": {"agentId": 5}},
        {"line": {"parentToolUseID": []}},
    ],
)
def test_a_strange_member_that_only_the_bill_reads_costs_no_line(tmp_path: Path, strange: Json) -> None:
    usage = used(1, 2, cache_creation_input_tokens=4, **strange.get("usage", {}))
    session = Session().prompt("go").reply(use("Read", "t1"), usage=usage, **strange.get("line", {}))
    (run,) = runs(read(put(tmp_path, session.bytes())))
    assert [call.name for call in run.calls] == ["Read"]
    (row,) = run.bill or by_usage(run)
    assert (row.tokens, row.cache_write_5m) == (7, 4)


def count_opened(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and "agent-many-" in str(arguments[0]):
        OPENED[str(arguments[0])] += 1


def test_each_file_of_a_sub_agent_is_read_as_often_as_one_alone(tmp_path: Path) -> None:
    """How often a file is opened doesn't grow with the number of files. A bad line is reported once."""
    sys.addaudithook(count_opened)
    most = {}
    for n_files in (2, 40):
        folder = tmp_path / str(n_files)
        folder.mkdir()
        for number in range(n_files):
            own = agent_line("assistant", f"x{number}", None, 1, 10, agentId=f"a{number}")
            bad = {**own, "message": 7} if not number else own
            put(folder, lines([own, own, bad]), f"agent-many-{n_files}-{number}.jsonl")
        put(folder, session_with_task().bytes(), "s1.jsonl")
        OPENED.clear()
        entries = read_all([folder])
        most[n_files] = max(OPENED.values())
        assert by_sub_agents(entries) == [(10 * n_files, 0)]
        assert len([entry for entry in entries if isinstance(entry, Rejected)]) == 1
    assert most[2] == most[40]


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
