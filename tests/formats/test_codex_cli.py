"""Codex CLI rollouts: prompts, calls in their three forms, totals, forks, replays, sub-agents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import pytest

from core.formats import open_sources, recognise
from core.records.run import Run
from tests.formats.builders import Json, lines, names, put, read, rejected, runs

HOSTILE: dict[str, Callable[[Json], object]] = {
    "a number as a name": lambda line: {**line, "payload": {"type": "function_call", "name": 7}},
    "a list": lambda _: [1],
}


def uuid7(second: int, rest: int = 0) -> str:
    return f"019c8a5a-{second:04x}-7000-8000-{rest:012x}"


@dataclass
class Rollout:
    """A rollout that began at a second; totals go on from ``total``."""

    id: str
    second: int = 0
    total: list[int] = field(default_factory=lambda: [0, 0, 0])
    made: list[Json] = field(default_factory=list)

    def line(self, kind: str, **payload: object) -> Rollout:
        self.second += 1
        time = f"2026-02-03T04:{self.second // 60:02}:{self.second % 60:02}.000Z"
        self.made.append({"timestamp": time, "type": kind, "payload": payload})
        return self

    def header(self, **fields: object) -> Rollout:
        return self.line("session_meta", id=self.id, model_provider="openai", **{"source": "cli", **fields})

    def event(self, kind: str, **fields: object) -> Rollout:
        return self.line("event_msg", type=kind, **fields)

    def item(self, kind: str, **fields: object) -> Rollout:
        return self.line("response_item", type=kind, **fields)

    def prompt(self, words: str, model: str = "gpt-5") -> Rollout:
        turn = uuid7(self.second + 1, 7)
        self.item("message", role="user", content=[{"type": "input_text", "text": "<environment_context>"}])
        self.event("task_started", turn_id=turn)
        self.event("user_message", message=words, images=[])
        return self.line("turn_context", turn_id=turn, model=model)

    def call(self, name: str, identity: str, **fields: object) -> Rollout:
        self.item("function_call", name=name, call_id=identity, arguments='{"q": 1}', **fields)
        return self.item("function_call_output", call_id=identity, output="ok")

    def used(self, read: int, cached: int, written: int) -> Rollout:
        self.total = [one + more for one, more in zip(self.total, (read, cached, written), strict=True)]
        return self.say_total(*self.total)

    def say_total(self, *total: int) -> Rollout:
        names = ("input_tokens", "cached_input_tokens", "output_tokens")
        return self.event("token_count", info={"total_token_usage": dict(zip(names, total, strict=True))})

    def done(self, words: str = "done") -> Rollout:
        self.item("message", role="assistant", content=[{"type": "output_text", "text": words}])
        return self.event("task_complete", duration_ms=1500)

    def bytes(self) -> bytes:
        return lines(self.made)


def parent() -> Rollout:
    rollout = Rollout(uuid7(0)).header()
    rollout.prompt("one").call("shell", "c1").used(100, 40, 5).used(100, 90, 5).say_total(200, 130, 10).done()
    return rollout.prompt("two").call("read", "c2").used(50, 0, 1).done()


def fork(of: Rollout, second: int = 300) -> Rollout:
    """A child that begins with all lines of its parent, at new times."""
    child = Rollout(uuid7(second), second=second, total=list(of.total))
    child.header(forked_from_id=of.id)
    for line in of.made:
        child.made.append({**line, "timestamp": child.made[0]["timestamp"]})
    return child.prompt("three").call("write", "c3").used(10, 2, 3).done()


def facts(run: Run) -> tuple[str, list[str], int | None, str, object]:
    return run.uid, names(run), run.tokens, run.status, run.bill


def test_a_prompt_is_a_run_with_the_difference_of_the_totals(tmp_path: Path) -> None:
    path = put(tmp_path, parent().bytes())
    one, two = runs(read(path))
    assert recognise(path) == "codex-cli"
    assert (one.prompt, one.reply, one.model, one.provider) == ("one", "done", "gpt-5", "openai")
    assert (names(one), names(two)) == (["shell"], ["read"])
    assert one.usage is not None
    assert (one.usage.input, one.usage.cache_read, one.usage.output, one.tokens) == (70, 130, 10, 210)
    assert (two.tokens, one.duration_ms, one.status, one.session) == (51, 1500, "completed", uuid7(0))


def test_calls_have_one_name_in_each_form_and_count_once(tmp_path: Path) -> None:
    rollout = Rollout(uuid7(0)).header().prompt("go")
    rollout.item("function_call", name="search", namespace="mcp__web", call_id="a", arguments="{}")
    rollout.event("mcp_tool_call_end", call_id="a", invocation={"server": "web", "tool": "search"})
    rollout.item("function_call", name="mcp__web__search", call_id="b", arguments="{}")
    rollout.item("function_call", name="x", call_id="c", arguments="{}")
    rollout.event("mcp_tool_call_end", call_id="c", invocation={"server": "web", "tool": "fetch"})
    rollout.event("mcp_tool_call_end", call_id="d", invocation={"server": "web", "tool": "late"})
    rollout.item("custom_tool_call", name="apply_patch", call_id="e", input="*** Begin")
    rollout.item("web_search_call", action={"type": "search", "query": "q"})
    rollout.item("local_shell_call", call_id="f", action={"command": ["ls"]})
    rollout.item("ghost_snapshot").item("mcp_approval_response_output").done()
    (run,) = runs(read(put(tmp_path, rollout.bytes())))
    web = ["web.search", "web.search", "web.fetch", "web.late"]
    assert names(run) == [*web, "apply_patch", "web_search", "local_shell"]


def test_how_a_turn_ended(tmp_path: Path) -> None:
    rollout = (
        parent().prompt("three").call("x", "c9").event("turn_aborted", reason="interrupted", duration_ms=7)
    )
    rollout.prompt("four").event("error", message="no").prompt("five").event("error", message="no").done()
    found = runs(read(put(tmp_path, rollout.bytes())))
    assert [run.status for run in found] == ["completed", "completed", "aborted", "error", "completed"]


def test_a_prompt_inside_a_turn_is_a_run_of_its_own(tmp_path: Path) -> None:
    rollout = Rollout(uuid7(0)).header().prompt("go").call("a", "1").used(9, 0, 1)
    rollout.event("user_message", message="wait").call("b", "2").used(5, 0, 1).done()
    first, second = runs(read(put(tmp_path, rollout.bytes())))
    assert (names(first), first.tokens, names(second), second.tokens) == (["a"], 10, ["b"], 6)
    assert second.uid == f"{first.uid}/1"


def test_totals_that_fall_start_anew_and_more_cached_than_read_has_no_split(tmp_path: Path) -> None:
    rollout = Rollout(uuid7(0)).header().prompt("go").event("token_count", info=None).used(100, 50, 10)
    rollout.line("turn_context", model="mini").say_total(30, 10, 5).say_total(40, 10, 5).done()
    (run,) = runs(read(put(tmp_path, rollout.bytes())))
    assert (run.tokens, run.model) == (110 + 45, "gpt-5")
    assert {row.model: row.tokens for row in run.bill} == {"gpt-5": 110, "mini": 45}
    rollout = Rollout(uuid7(0)).header().prompt("go").used(10, 20, 1).done()
    (run,) = runs(read(put(tmp_path, rollout.bytes())))
    assert (run.tokens, [row.total for row in run.bill]) == (11, [11])


def order_of(folder: Path, parts: list[bytes], *, joined: bool) -> list[Run]:
    target = folder / f"{len(list(folder.iterdir()))}"
    target.mkdir()
    for number, part in enumerate([b"".join(parts)] if joined else parts):
        put(target, part, f"{number}.jsonl")
    with open_sources([target]) as opened:
        return [one for source in opened.sources for one in source.entries() if isinstance(one, Run)]


@pytest.mark.parametrize("joined", [False, True])
def test_a_fork_adds_its_own_runs_alone(tmp_path: Path, joined: bool) -> None:
    whole, child = parent(), fork(parent())
    own = runs(read(put(tmp_path, child.bytes(), "alone")))
    assert [(names(run), run.tokens, run.prompt) for run in own] == [(["write"], 13, "three")]
    wanted = sorted(map(facts, [*runs(read(put(tmp_path, whole.bytes(), "whole"))), *own]), key=str)
    for parts in permutations([whole.bytes(), child.bytes()]):
        assert sorted(map(facts, order_of(tmp_path, list(parts), joined=joined)), key=str) == wanted
    second = fork(child, 600)
    assert [names(run) for run in runs(read(put(tmp_path, second.bytes(), "second")))] == [["write"]]


def spawning(**fields: object) -> Rollout:
    rollout = Rollout(uuid7(0)).header().prompt("go").call("spawn_agent", "s1").used(100, 0, 10)
    if fields:
        rollout.event("collab_agent_spawn_end", call_id="s1", **fields)
    rollout.second = 200
    return rollout.call("wait", "s2").used(20, 0, 2).done().prompt("next").used(1, 0, 1).done()


def sub_agent(of: str, rank: int = 1) -> Rollout:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": of, "depth": 1}}}
    rollout = Rollout(uuid7(20 * rank, rank), second=20 * rank).header(source=source, parent_thread_id=of)
    return rollout.prompt("look", "mini").call("grep", f"g{rank}").used(1000, 500, 50).done()


NAMED: Json = {"new_thread_id": uuid7(20, 1)}


# Where they are joined, only the name says that the session had one.
@pytest.mark.parametrize(("named", "joined"), [({}, False), (NAMED, False), (NAMED, True)])
def test_tokens_of_sub_agents_are_in_the_bill_of_the_run_that_started_them(
    tmp_path: Path, named: Json, joined: bool
) -> None:
    parts = [spawning(**named).bytes(), sub_agent(uuid7(0)).bytes(), sub_agent(uuid7(20, 1), 2).bytes()]
    for order in permutations(parts):
        first, second = order_of(tmp_path, list(order), joined=joined)
        assert (names(first), first.tokens, second.tokens) == (["spawn_agent", "wait"], 132, 2)
        theirs = [row for row in first.bill if row.owner == "sub-agent"]
        assert [(row.model, row.cache_read, row.tokens) for row in theirs] == [("mini", 1000, 2100)]
        assert not [row for row in second.bill if row.owner == "sub-agent"]


@pytest.mark.parametrize("what", HOSTILE)
def test_a_line_of_another_shape_is_rejected_alone(tmp_path: Path, what: str) -> None:
    made: list[object] = list(parent().made)
    made.insert(6, HOSTILE[what](parent().made[6]))
    entries = read(put(tmp_path, lines(made)))
    assert ([one.line for one in rejected(entries)], len(runs(entries))) == ([7], 2)


def test_an_unknown_item_that_may_be_a_call_is_refused_loudly(tmp_path: Path) -> None:
    rollout = Rollout(uuid7(0)).header().prompt("go").item("computer_call", call_id="x").done()
    entries = read(put(tmp_path, rollout.bytes()))
    assert (runs(entries), len(rejected(entries))) == ([], 1)


def test_a_deferred_tool_is_there_by_name_until_a_call_finds_it(tmp_path: Path) -> None:
    tools = [
        {"name": "near", "description": "n", "inputSchema": {}},
        {"name": "far", "namespace": "mcp__x__", "deferLoading": True},
        {"name": "off", "deferLoading": True},
    ]
    rollout = Rollout(uuid7(0)).header(dynamic_tools=tools).prompt("go").call("shell", "c1")
    rollout.prompt("more").call("far", "c2", namespace="mcp__x__").prompt("on").call("shell", "c3")
    made = runs(read(put(tmp_path, lines(rollout.made))))
    states = [([a.name for a in run.inventory.arms], [a.name for a in run.inventory.named]) for run in made]
    assert states == [
        (["shell"], ["off", "x.far"]),
        (["shell"], ["off", "x.far"]),
        (["shell", "x.far"], ["off"]),
    ]
    rollout.made[0]["payload"]["dynamic_tools"] = "all"  # type: ignore[index]
    assert not runs(read(put(tmp_path, lines(rollout.made))))[0].inventory.named
