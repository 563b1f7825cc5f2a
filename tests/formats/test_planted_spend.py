"""Laws of what a session spent: each planted spend is in the bill once, at its model, owner and run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.flows.settings import changed
from core.formats import FORMATS as ALL
from core.formats import recognise
from core.formats.claude_code import Used
from core.formats.entries import Entry, Remark
from core.formats.unknown import Unknown
from core.records.bill import AT_LEAST, Apart, ModelPrices, Price, Spent, bill_of, dollars
from core.records.learner import LearnerSettings
from core.records.run import Run
from tests.formats.builders import lines, put, read, rejected, runs
from tests.formats.test_inspect_log import log as inspect_log
from tests.formats.test_inspect_log import sample as inspect_sample
from tests.formats.test_langfuse import export, observation
from tests.formats.test_openclaw_export import arm
from tests.formats.test_openclaw_export import trace as openclaw_trace
from tests.formats.test_opencode import START, call, database, finish, say, tokens
from tests.formats.test_opencode import session as opencode_session
from tests.formats.test_otlp import as_json, span
from tests.formats.test_swe_agent import acted, small
from tests.formats.test_verifiers import trace as verifiers_trace

Json = dict[str, Any]
MODELS = ("own-1", "own-2", "advisor-1", "child-1")
PRICES = dict.fromkeys(MODELS, 3.0)

Key = tuple[int, str, str, str, str]

_BEYOND = frozenset(("fast", "searches"))
_LINES = frozenset(("foreign",))

ELSEWHERE = {
    "armscope": "its bills are written part by part, which its own tests draw",
    "tau2": "a message has two counts of one model, read in test_tau2",
    **dict.fromkeys(
        ("factory-droid", "kairos", "openreward", "ors", "qortex-db", "tau-bench"), "has no usage"
    ),
}


class Spend(NamedTuple):
    """A planted spend of one run. ``kind`` says who spent it, ``size`` its input and output."""

    kind: str
    model: str
    size: tuple[int, int]
    fast: bool = False
    searches: int = 0
    twice: bool = False
    unknown: bool = False
    foreign: bool = False
    """A record of an unknown kind with a usage follows."""


Planted = Sequence[Sequence[Spend]]
Write = Callable[[Path, Planted], list[Path]]


def time_of(run: int, step: int) -> str:
    return f"2026-01-02T03:{run:02}:{step:02}.000Z"


def usage_of(spend: Spend) -> Json:
    return {"input_tokens": spend.size[0], "output_tokens": spend.size[1]}


def claude_usage(spend: Spend, beside: Sequence[Spend]) -> Json:
    """The usage of an answer: its own counts, and the requests that it took."""
    own = usage_of(spend)
    usage: Json = {**own, "service_tier": "standard", "inference_geo": "not_available"}
    others = [
        {"type": f"{one.kind}_message" if one.kind == "advisor" else one.kind, "model": one.model}
        | usage_of(one)
        for one in beside
    ]
    usage["iterations"] = [{"type": "message", **own}, *others] if beside else None
    if spend.fast:
        usage["speed"] = "fast"
    if spend.searches:
        usage["server_tool_use"] = {"web_search_requests": spend.searches, "web_fetch_requests": 3}
    if spend.unknown:
        usage["seats"] = {"n": 2}
    return usage


def claude_code(folder: Path, planted: Planted) -> list[Path]:
    """One session; sub-agents go on in later runs, in files of their own."""
    built: list[Json] = []
    children: list[Json] = [agent_line("user", "c0", 0, 0, {"role": "user", "content": "look"})]

    def line(kind: str, run: int, step: int, message: Json, **more: object) -> None:
        parent = built[-1]["uuid"] if built else None
        built.append(
            {"type": kind, "uuid": f"u{len(built)}", "parentUuid": parent, "sessionId": "s1"}
            | {"timestamp": time_of(run, step), "message": message}
            | more
        )

    for place, spends in enumerate(planted):
        line("user", place, 0, {"role": "user", "content": f"go {place}"})
        if place == 0:
            call = {"type": "tool_use", "id": "t0", "name": "Agent", "input": {"prompt": "look"}}
            line("assistant", place, 1, {"id": "start", "model": "own-1", "content": [call]})
            done = {"type": "tool_result", "tool_use_id": "t0", "content": "x"}
            line("user", place, 1, {"role": "user", "content": [done]}, toolUseResult={"agentId": "a1"})
        for step, spend in enumerate(spends):
            beside = [one for one in spends if one.kind in {"advisor", "compaction"}] if step == 0 else []
            message: Json = {
                "id": f"m{place}-{step}",
                "model": spend.model,
                "content": [{"type": "text", "text": "x"}],
            }
            if spend.kind == "own":
                for _ in range(1 + spend.twice):
                    line("assistant", place, 2 + step, {**message, "usage": claude_usage(spend, beside)})
            elif spend.kind == "sub-agent":
                message["usage"] = claude_usage(spend, ())
                children.append(agent_line("assistant", f"c{place}-{step}", place, 2 + step, message))
    put(folder, lines(children), "agent-a1.jsonl")
    return [put(folder, lines(built), "s1.jsonl"), folder / "agent-a1.jsonl"]


def agent_line(kind: str, uuid: str, run: int, step: int, message: Json) -> Json:
    head = {"type": kind, "uuid": uuid, "parentUuid": None, "sessionId": "s1", "agentId": "a1"}
    return {**head, "isSidechain": True, "timestamp": time_of(run, step), "message": message}


def codex(folder: Path, planted: Planted, *, totals: bool, records: bool = True) -> list[Path]:
    """A rollout and that of its sub-agent; records, totals that leave compactions out, or both."""
    built = [event(0, 0, "session_meta", id="s1")]
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "s1"}}}
    children = [event(0, 1, "session_meta", id="a1", source=source)]
    whole = Counter[str]()
    for place, spends in enumerate(planted):
        built.append(event(place, 0, "event_msg", type="user_message", message=f"go {place}"))
        if place == 0:
            built.append(event(0, 1, "event_msg", type="collab", call_id="t0", new_thread_id="a1"))
        for step, spend in enumerate(spends):
            target = children if spend.kind == "sub-agent" else built
            usage = usage_of(spend) | ({"seats": 2} if spend.unknown else {})
            tier = "fast" if spend.fast else None
            target.append(event(place, 2 + step, "turn_context", model=spend.model, service_tier=tier))
            record = event(place, 2 + step, "token_usage_record", response_id=f"r{place}-{step}", usage=usage)
            target += [record] * (1 + spend.twice) * records
            search = {"type": "web_search_call", "action": {"type": "search", "query": "q"}}
            target += [event(place, 2 + step, "response_item", **search)] * spend.searches
            if totals and target is built and spend.kind != "compaction":
                whole.update(usage_of(spend))
                last = usage_of(spend) if records else usage
                info = {"total_token_usage": dict(whole), "last_token_usage": last}
                built += [event(place, 2 + step, "event_msg", type="token_count", info=info)] * 2
    put(folder, lines(children), "a1.jsonl")
    return [put(folder, lines(built), "s1.jsonl"), folder / "a1.jsonl"]


def event(run: int, step: int, kind: str, **payload: object) -> Json:
    return {"type": kind, "timestamp": time_of(run, step), "payload": payload}


def codex_records(folder: Path, planted: Planted) -> list[Path]:
    return codex(folder, planted, totals=False)


def codex_totals(folder: Path, planted: Planted) -> list[Path]:
    return codex(folder, planted, totals=True)


def codex_without_records(folder: Path, planted: Planted) -> list[Path]:
    return codex(folder, planted, totals=True, records=False)


def spoken(planted: Planted) -> Iterator[tuple[int, int, Spend]]:
    """Each spend with its run and step."""
    return ((run, step, one) for run, spends in enumerate(planted) for step, one in enumerate(spends))


def with_unknown(usage: Json, spend: Spend) -> Json:
    return usage | ({"seats": 2} if spend.unknown else {})


def gemini(folder: Path, planted: Planted) -> list[Path]:
    """A session, whose sub-agent's file lies in a folder with its name; a message is written again as it grows."""
    head: Json = {"sessionId": "s1-longer", "projectHash": "p"}
    built: list[Json] = [head]
    children: list[Json] = [{**head, "sessionId": "a1", "kind": "subagent"}]
    for run, step, one in spoken(planted):
        call = {"id": f"t{run}", "name": "agent", "args": {}, "agentId": "a1"}
        if step == 0:
            built.append(
                {"id": f"u{run}", "type": "user", "timestamp": time_of(run, 0), "content": f"go {run}"}
            )
        read, written = one.size
        tokens = with_unknown({"input": read, "output": written, "cached": 0, "total": read + written}, one)
        reply: Json = {
            "id": f"m{run}-{step}",
            "type": "gemini",
            "timestamp": time_of(run, 1 + step),
            "content": "x",
        }
        reply |= {"model": one.model, "tokens": tokens}
        if (run, step) == (0, 0):
            reply["toolCalls"] = [call]
        (children if one.kind == "sub-agent" else built).extend([reply] * (1 + one.twice))
        if one.foreign:
            built.append({**reply, "id": f"f{run}-{step}", "type": "jury"})
    (folder / "s1-longer").mkdir()
    return [
        put(folder, lines(built), "session-s1-longe.jsonl"),
        put(folder / "s1-longer", lines(children), "a1.jsonl"),
    ]


def qwen(folder: Path, planted: Planted) -> list[Path]:
    built, children = list[Json](), list[Json]()
    for run, step, one in spoken(planted):
        head: Json = {"sessionId": "s1", "timestamp": time_of(run, 1 + step)}
        if step == 0:
            asked = {"role": "user", "parts": [{"text": f"go {run}"}]}
            built.append(
                {**head, "uuid": f"u{run}", "type": "user", "message": asked, "timestamp": time_of(run, 0)}
            )
        counts = {"promptTokenCount": one.size[0], "candidatesTokenCount": one.size[1]}
        usage = with_unknown({**counts, "promptTokensDetails": [{"tokenCount": 3}]}, one)
        reply: Json = {**head, "uuid": f"m{run}-{step}", "type": "assistant", "model": one.model}
        reply |= {"message": {"role": "model", "parts": [{"text": "x"}]}, "usageMetadata": usage}
        if one.kind == "sub-agent":
            children.append({**reply, "isSidechain": True, "agentId": "a1"})
        else:
            more: Json = {"role": "model", "parts": [{"text": "y"}]}
            built += [reply, {**reply, "message": more}][: 1 + one.twice]
        if one.foreign:
            built.append({**reply, "uuid": f"f{run}-{step}", "type": "jury"})
    (folder / "subagents" / "s1").mkdir(parents=True)
    beside = put(folder / "subagents" / "s1", lines(children), "agent-a1.jsonl") if children else None
    return [put(folder, lines(built), "s1.jsonl"), *([beside] if beside else [])]


def pi(folder: Path, planted: Planted) -> list[Path]:
    built: list[Json] = [{"type": "session", "id": "s1", "timestamp": time_of(0, 0)}]
    for run, step, one in spoken(planted):
        head = {"type": "message", "id": f"e{run}-{step}", "timestamp": time_of(run, 1 + step)}
        if step == 0:
            built.append({**head, "id": f"u{run}", "message": {"role": "user", "content": f"go {run}"}})
        usage = with_unknown({"input": one.size[0], "output": one.size[1], "cost": {"total": 0.1}}, one)
        reply = {"role": "assistant", "model": one.model, "content": "x", "usage": usage}
        change = {
            "type": "model_change",
            "id": f"c{run}-{step}",
            "timestamp": head["timestamp"],
            "modelId": one.model,
        }
        summary = {**head, "type": "compaction", "summary": "x", "tokensBefore": 9, "usage": usage}
        built += (
            [change, summary] if one.kind == "compaction" else [{**head, "message": reply}] * (1 + one.twice)
        )
        if one.foreign:
            built.append({**head, "id": f"f{run}-{step}", "type": "jury", "usage": usage})
    return [put(folder, lines(built), "s.jsonl")]


def opencode_sessions(planted: Planted) -> list[dict[str, Any]]:
    messages, children = list[tuple[str, list[Json], Json]](), list[tuple[str, list[Json], Json]]()
    for run, step, one in spoken(planted):
        at = {
            "time": {
                "created": START + 1000 * (100 * run + step),
                "completed": START + 1000 * (100 * run + step),
            }
        }
        if step == 0:
            messages.append(
                ("user", [say(f"go {run}")], {"time": {"created": START + 1000 * (100 * run - 1)}})
            )
            messages += [("assistant", [call("task", "t0", sessionId="ses_2")], at)] if run == 0 else []
        parts = [say("x"), finish(with_unknown(tokens(*one.size), one))]
        parts += [{"type": "jury", "tokens": {"input": 4}}] if one.foreign else []
        target = children if one.kind == "sub-agent" else messages
        target.append(("assistant", parts, {**at, "modelID": one.model, "tokens": tokens(*one.size)}))
    return [opencode_session(1, *messages), opencode_session(2, *children, parent=1)]


def opencode(folder: Path, planted: Planted) -> list[Path]:
    return [
        put(folder, json.dumps(one).encode(), f"{place}.json")
        for place, one in enumerate(opencode_sessions(planted))
    ]


def opencode_database(folder: Path, planted: Planted) -> list[Path]:
    return [database(folder, *opencode_sessions(planted))]


def atif(folder: Path, planted: Planted) -> list[Path]:
    """A trajectory for each run; an answer is written twice as Harbor writes that of Claude Code."""
    built = []
    for run, spends in enumerate(planted):
        steps: list[Json] = [{"source": "user", "message": f"go {run}"}]
        for step, one in enumerate(spends):
            extra: Json = {"service_tier": "standard", "seats": 2 * one.unknown}
            extra |= {"speed": "fast"} if one.fast else {}
            extra |= {"server_tool_use": {"web_search_requests": one.searches}} if one.searches else {}
            metrics = {"prompt_tokens": one.size[0], "completion_tokens": one.size[1], "extra": extra}
            reply: Json = {
                "source": "agent",
                "message": f"x {step}",
                "model_name": one.model,
                "metrics": metrics,
            }
            reply |= {"extra": {"is_sidechain": one.kind == "sub-agent", "message_id": f"{step}"}}
            steps += [reply] * (1 + one.twice)
        document = {
            "schema_version": "ATIF-v1.7",
            "session_id": f"s{run}",
            "agent": {"name": "a"},
            "steps": steps,
        }
        built.append(put(folder, json.dumps(document).encode(), f"{run}.json"))
    return built


def spans(folder: Path, planted: Planted) -> list[Path]:
    built = []
    for run, step, one in spoken(planted):
        counts = {"input_tokens": one.size[0], "output_tokens": one.size[1], "reasoning.tokens": 1}
        usage: Json = {f"gen_ai__usage__{name}": n for name, n in with_unknown(counts, one).items()}
        more: Json = {"gen_ai__operation__name": "chat", "gen_ai__response__model": one.model}
        built += [span(run * 60 + step + 1, trace=f"{run + 1:032x}", **usage, **more)] * (1 + one.twice)
    return [put(folder, as_json(*built), "spans.json")]


def langfuse(folder: Path, planted: Planted) -> list[Path]:
    built = list[Json]()
    for run, step, one in spoken(planted):
        usage = with_unknown({"input": one.size[0], "output": one.size[1], "total": sum(one.size)}, one)
        seen = observation(f"g{step + 1}", "GENERATION", model=one.model, usageDetails=usage, output="x")
        built += [export(id=f"t{run}")] if step == 0 else []
        built[-1]["observations"] += [seen] * (1 + one.twice)
    return [put(folder, lines(built), "traces.jsonl")]


def inspect(folder: Path, planted: Planted) -> list[Path]:
    """A sample for each run, with the sum of each model."""
    built = []
    for run, spends in enumerate(planted):
        used: dict[str, Counter[str]] = {}
        for one in spends:
            used.setdefault(one.model, Counter()).update(with_unknown(usage_of(one), one))
        built.append(inspect_sample(run, model_usage=used))
    return [put(folder, inspect_log(*built), "log.json")]


def chats(folder: Path, planted: Planted) -> list[Path]:
    """A chat has one usage and one model."""
    built = []
    for run, spends in enumerate(planted):
        usage = Counter[str]()
        for one in spends:
            usage.update(with_unknown({"prompt_tokens": one.size[0], "completion_tokens": one.size[1]}, one))
        messages = [{"role": "user", "content": f"go {run}"}, {"role": "assistant", "content": "x"}]
        built.append({"messages": messages, "model": spends[0].model, "usage": usage})
    return [put(folder, lines(built), "chats.jsonl")]


def chat_usage(spend: Spend) -> Json:
    return with_unknown({"prompt_tokens": spend.size[0], "completion_tokens": spend.size[1]}, spend)


def small_agent(folder: Path, planted: Planted) -> list[Path]:
    """A file of mini-SWE-agent for each run, with the response of each message."""
    built = []
    for run, spends in enumerate(planted):
        answers = [
            {**acted("bash", n), "extra": {"response": {"usage": chat_usage(one)}}}
            for n, one in enumerate(spends)
        ]
        built.append(small({"role": "user", "content": f"go {run}"}, *answers, model=spends[0].model))
    return [put(folder, json.dumps(one).encode(), f"{place}.json") for place, one in enumerate(built)]


def verifiers(folder: Path, planted: Planted) -> list[Path]:
    built = []
    for run, spends in enumerate(planted):
        calls = [{"node": 3, "model": one.model, "usage": chat_usage(one)} for one in spends]
        built.append(verifiers_trace(run, calls=calls))
    return [put(folder, lines(built), "results.jsonl")]


def openclaw(folder: Path, planted: Planted) -> list[Path]:
    """A trace has one usage and one model."""
    built = []
    for run, spends in enumerate(planted):
        usage = Counter[str]()
        for one in spends:
            usage.update(with_unknown({"input": one.size[0], "output": one.size[1]}, one))
        built.append(openclaw_trace(arm("tool:a:b"), id=f"t{run}", model=spends[0].model, usage=usage))
    return [put(folder, json.dumps({"traces": built, "posteriors": []}).encode(), "export.json")]


class Places(NamedTuple):
    """Who spends in a format, and the rest that it can say."""

    kinds: tuple[str, ...] = ("own",)
    also: frozenset[str] = frozenset()
    n_models: int = 2


FORMATS: dict[Write, Places] = {
    claude_code: Places(("own", "advisor", "compaction", "sub-agent"), _BEYOND),
    codex_records: Places(("own", "compaction", "sub-agent"), _BEYOND),
    codex_without_records: Places(("own",), _BEYOND),
    codex_totals: Places(("own", "compaction", "sub-agent"), _BEYOND),
    gemini: Places(("own", "sub-agent"), _LINES),
    qwen: Places(("own", "sub-agent"), _LINES),
    pi: Places(("own", "compaction"), _LINES),
    opencode: Places(("own", "sub-agent"), _LINES),
    opencode_database: Places(("own", "sub-agent"), _LINES),
    atif: Places(("own", "sub-agent"), _BEYOND),
    spans: Places(),
    langfuse: Places(),
    inspect: Places(),
    chats: Places(n_models=1),
    small_agent: Places(n_models=1),
    verifiers: Places(),
    openclaw: Places(n_models=1),
}


def test_every_format_bills_what_is_planted_or_has_its_reason(tmp_path: Path) -> None:
    billed = set()
    for place, write in enumerate(FORMATS):
        folder = tmp_path / f"{place}"
        folder.mkdir()
        billed.add(recognise(write(folder, [[Spend("own", "own-1", (1, 1))]])[0]))
    assert billed | ELSEWHERE.keys() == ALL.keys()


def spends_of(places: Places, *, unknown: bool) -> st.SearchStrategy[list[Spend]]:
    """The spends of a run; its first is the agent's own."""
    size = st.tuples(st.integers(1, 300_000), st.integers(1, 9_000))
    own = st.builds(
        Spend,
        kind=st.just("own"),
        model=st.sampled_from(MODELS[: places.n_models]),
        size=size,
        fast=st.booleans() if "fast" in places.also else st.just(False),
        searches=st.integers(0, 3) if "searches" in places.also else st.just(0),
        twice=st.booleans(),
        unknown=st.booleans() if unknown else st.just(False),
        foreign=st.booleans() if unknown and "foreign" in places.also else st.just(False),
    )
    models = {"advisor": MODELS[2:3], "sub-agent": MODELS[3:]}
    others = [
        st.tuples(st.just(kind), st.sampled_from(models.get(kind, MODELS[:2])), size).map(
            lambda fields: Spend(*fields)
        )
        for kind in places.kinds
        if kind != "own"
    ]
    return st.tuples(own, st.lists(st.one_of(own, *others), max_size=5)).map(in_one_tier)


def in_one_tier(drawn: tuple[Spend, list[Spend]]) -> list[Spend]:
    """A compaction is in the tier of the answer that it belongs to."""
    head, rest = drawn
    return [head, *(one._replace(fast=head.fast) if one.kind == "compaction" else one for one in rest)]


def planted_counts(planted: Planted) -> Counter[Key]:
    counts: Counter[Key] = Counter()
    for place, spends in enumerate(planted):
        for one in spends:
            owner = "sub-agent" if one.kind == "sub-agent" else "agent"
            tier = "fast" if one.fast else ""
            for part, count in zip(("input", "output"), one.size, strict=True):
                counts[place, owner, one.model, tier, part] += count
            counts[place, owner, one.model, "", "searches"] += one.searches
    return +counts


def billed_counts(read_runs: Iterable[Run]) -> Counter[Key]:
    counts: Counter[Key] = Counter()
    for place, run in enumerate(read_runs):
        whole = Spent(input=run.usage.input, output=run.usage.output) if run.usage else Spent()
        for row in run.bill or (whole,):
            for part in ("input", "output", "searches", "cache_read", "cache_write_5m", "total"):
                counts[place, row.owner, row.model or run.model or "", row.tier, part] += getattr(row, part)
    return +counts


def entries_of(write: Write, planted: Planted) -> list[Entry]:
    with TemporaryDirectory() as name:
        return read(*write(Path(name), planted))


def read_of(write: Write, planted: Planted) -> list[Run]:
    return runs(entries_of(write, planted))


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_each_planted_spend_is_in_the_bill_once(write: Write, data: st.DataObject) -> None:
    planted = data.draw(st.lists(spends_of(FORMATS[write], unknown=False), min_size=1, max_size=3))
    assert billed_counts(read_of(write, planted)) == planted_counts(planted)


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_spend_of_an_unknown_kind_makes_the_bill_a_lower_bound(write: Write, data: st.DataObject) -> None:
    planted = data.draw(st.lists(spends_of(FORMATS[write], unknown=True), min_size=1, max_size=3))
    bare = [
        [one._replace(fast=False, searches=0, size=(one.size[0] % 900 + 1, one.size[1])) for one in run]
        for run in planted
    ]
    entries = entries_of(write, bare)
    for run, spends in zip(runs(entries), bare, strict=True):
        whole = Spent(input=run.usage.input, output=run.usage.output) if run.usage else Spent()
        bill = bill_of(run.bill or (whole,), run.model, None, PRICES)
        assert bill.pico is not None
        assert bill.is_at_least == any(one.unknown or one.foreign for one in spends)
    named = " ".join(one.text for one in entries if isinstance(one, Remark))
    for name, is_there in (("seats", "unknown"), ("jury", "foreign")):
        assert (name in named) == any(getattr(one, is_there) for run in bare for one in run)


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
@pytest.mark.parametrize("wrong", ['"seve"', "-77777", "[7777]", "  true"])
def test_a_count_of_another_shape_takes_nothing_along(tmp_path: Path, write: Write, wrong: str) -> None:
    """The line around it is read, its other counts are in the bill, and the bill is a lower bound."""
    planted = [[Spend("own", "own-1", (777_777, 5))], [Spend("own", "own-1", (30, 7))]]
    whole = read_of(write, planted)
    paths = write(tmp_path, planted)
    for path in paths:  # a number of OTLP is a text
        shape = "-77777" if write is spans else wrong
        path.write_bytes(path.read_bytes().replace(b"777777", shape.encode()))
    entries = read(*paths)
    assert not rejected(entries)
    billed_runs = runs(entries)
    assert [run.calls for run in billed_runs] == [run.calls for run in whole]
    assert sum(row.unread for row in billed_runs[0].bill) > 0
    assert sum(row.unread for row in billed_runs[1].bill) == 0
    counts = billed_counts(billed_runs)
    assert sum(n for key, n in counts.items() if key[-1] == "output") == 12 or any(
        key[-1] == "total" for key in counts
    )
    assert any("spend" in one.text for one in entries if isinstance(one, Remark))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 400_000), min_size=1, max_size=6), st.sampled_from([128_000, 200_000, 272_000])
)
def test_a_long_request_has_its_price_request_by_request(sizes: list[int], above: int) -> None:
    planted = [[Spend("own", "own-1", (size, 1)) for size in sizes]]
    (run,) = read_of(claude_code, planted)
    rows = run.bill or (Spent(input=sum(sizes), output=len(sizes)),)
    long = {"above": above, "input": 6, "output": 0}
    prices = converted({"own-1": {"input": 3, "output": 0, "long": long}})
    assert bill_of(rows, "own-1", None, prices) == (
        sum(size * (6 if size > above else 3) * 10**6 for size in sizes),
        0,
    )
    flat = bill_of(rows, "own-1", None, converted({"own-1": {"input": 3, "output": 0}}))
    assert flat == (sum(sizes) * 3 * 10**6, AT_LEAST * any(size > 200_000 for size in sizes))


def converted(prices: Json) -> Mapping[str, ModelPrices]:
    return changed(LearnerSettings(), "prices", prices).prices


@pytest.mark.parametrize("has_file", [False, True])
def test_a_total_is_on_the_run_that_was_open_when_it_came(tmp_path: Path, has_file: bool) -> None:
    """A result comes in the run after its call's; a notice of the end comes before the run that it opens."""

    def line(kind: str, at: int, content: object, **more: object) -> Json:
        message: Json = {"role": kind, "content": content, "id": f"m{at}", "model": "own-1"}
        head = {"type": kind, "uuid": f"u{at}", "sessionId": "s1", "timestamp": time_of(at, 0)}
        return {**head, "message": message, **more}

    start = {"type": "tool_use", "id": "t0", "name": "Agent", "input": {"prompt": "look"}}
    result = {"type": "tool_result", "tool_use_id": "t0", "content": "x"}
    usage = "<usage><total_tokens>70</total_tokens></usage>"
    built = [
        line("user", 0, "go"),
        line("assistant", 1, [start]),
        line("user", 2, "and this"),
        line("user", 3, [result], toolUseResult={"agentId": "a1", "totalTokens": 900}),
        line("user", 4, f"<task-notification><task-id>a2</task-id><status>completed</status>{usage}"),
        line("assistant", 5, [{"type": "text", "text": "x"}]),
    ]
    reply: Json = {"id": "c1", "model": "child-1", "content": [], "usage": {"input_tokens": 500}}
    if has_file:
        put(tmp_path, lines([agent_line("assistant", "c1", 1, 0, reply)]), "agent-a1.jsonl")
    found = runs(read(put(tmp_path, lines(built), "s1.jsonl")))
    spent = [[(row.tokens, row.total) for row in run.bill] for run in found]
    assert spent == ([[(500, 0)], [(0, 70)], []] if has_file else [[], [(0, 970)], []])


@pytest.mark.parametrize(("tier", "least"), [("fast", 3), ("flex", 1.5), ("batch", 1.5), ("turbo", 0)])
def test_a_tier_without_a_price_is_a_bound_until_it_has_one(tier: str, least: float) -> None:
    rows = (Spent(input=10**6, tier=tier),)
    bare, named = {"input": 3}, {tier: 2} if tier != "turbo" else {"tier": {tier: 2}}
    assert bill_of(rows, "m", None, converted({"m": bare})) == (least * 10**12, AT_LEAST)
    priced = converted({"m": bare | named})
    assert bill_of(rows, "m", None, priced) == (6 * 10**12, 0)
    assert (
        converted({"m": dollars(Price(input_micro=3 * 10**6, tiers={tier: Apart(factor_micro=2 * 10**6)}))})
        == priced
    )


def test_a_fork_without_its_history_spends_what_its_last_usage_bounds(tmp_path: Path) -> None:
    def rollout(last: Json | None) -> list[Json]:
        info = {"total_token_usage": {"input_tokens": 105_000, "output_tokens": 90}}
        more = info | ({"last_token_usage": last} if last else {})
        return [
            event(0, 0, "session_meta", id="s1", forked_from_id="s0"),
            event(0, 1, "turn_context", model="own-1"),
            event(0, 2, "event_msg", type="user_message", message="go"),
            event(0, 3, "response_item", type="message", role="assistant", content="x"),
            event(0, 4, "event_msg", type="token_count", info=more),
        ]

    (run,) = runs(
        read(put(tmp_path, lines(rollout({"input_tokens": 5_000, "output_tokens": 10})), "a.jsonl"))
    )
    assert (run.model, run.tokens) == ("own-1", 5_010)
    (run,) = runs(read(put(tmp_path, lines(rollout(None)), "b.jsonl")))
    assert (run.tokens, [(row.unread, row.tokens) for row in run.bill]) == (None, [(1, 0)])


@pytest.mark.parametrize("own", [{}, {"input_tokens": 4, "output_tokens": 5}])
def test_an_answer_without_counts_of_its_requests_keeps_its_own(tmp_path: Path, own: Json) -> None:
    """An entry of another model is added; entries of the answer's model never count beside its usage."""
    usage = {"input_tokens": 10, "output_tokens": 20, "iterations": [
        {"type": "message", **own},
        {"type": "fallback_message", "model": "own-2", "input_tokens": 1, "output_tokens": 1},
        {"type": "jury", "model": "own-2", "input_tokens": 7},
    ]}  # fmt: skip
    message = {"id": "m", "model": "own-1", "content": [{"type": "text", "text": "x"}], "usage": usage}
    head = {"sessionId": "s1", "timestamp": time_of(0, 0)}
    built = [
        {"type": "user", "uuid": "u", "message": {"role": "user", "content": "go"}, **head},
        {"type": "assistant", "uuid": "v", "message": message, **head},
    ]
    (run,) = runs(read(put(tmp_path, lines(json.loads(json.dumps(built))), "s.jsonl")))
    rows = {(row.model, row.tokens, row.total, row.unread) for row in run.bill}
    assert rows == {("own-1", 30, 0, 0), ("own-2", 2, 7, 1)}


@settings(max_examples=30)
@given(count=st.one_of(st.integers(max_value=-1), st.integers(10**13), st.text(max_size=3), st.just(2.5)))
@pytest.mark.parametrize("place", ["iterations", "server_tool_use"])
def test_a_spend_that_has_no_readable_count_makes_the_bill_at_least(place: str, count: object) -> None:
    request = {"type": "advisor_message", "model": "advisor-1", "input_tokens": 9}
    values = {
        "iterations": [request, {**request, "input_tokens": count}],
        "server_tool_use": {"web_search_requests": count},
    }
    usage = json.dumps({"input_tokens": 5, "output_tokens": 1, place: values[place]}).encode()
    assert sum(row.unread for row in Used(usage).billed("own-1", "agent", Unknown())) == 1
