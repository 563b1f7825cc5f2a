"""tau-bench and OpenAI chat records: units, identity, inventories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from core.detect import detect
from core.errors import InvalidInput, UnreadableSource
from core.formats import open_sources
from core.formats.tools import DeclaredLists, inventory_of
from tests.formats.builders import (
    Json,
    lines,
    offered,
    put,
    read,
    rejected,
    reply,
    runs,
    tool,
    trajectory,
    user,
)

TALK: list[Json] = [
    {"role": "system", "content": "be good"},
    reply("Hello!", "greet"),
    user("first"),
    reply(None, "search", "search"),
    {"role": "tool", "content": "Error: no", "tool_call_id": "c0"},
    reply("done"),
    user("  "),
    user(None),
    reply("more", "book"),
    user("second"),
    user("third"),
    reply("bye"),
]


def tau(*trajectories: Sequence[Mapping[str, object]]) -> bytes:
    return json.dumps([trajectory(one, task) for task, one in enumerate(trajectories)]).encode()


def test_a_reward_of_zero_is_a_reward(tmp_path: Path) -> None:
    records = [trajectory([reply("a")], reward=0.0), {"traj": [], "reward": None}]
    assert [run.reward for run in runs(read(put(tmp_path, lines(records))))] == [0.0, None]


def test_content_may_come_in_parts_and_calls_in_the_old_way(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]
    old = {"role": "assistant", "function_call": {"name": "old", "arguments": '{"a": "é"}'}}
    custom = {
        "role": "assistant",
        "tool_calls": [{"type": "custom", "custom": {"name": "new", "input": "x"}}],
    }
    (run,) = runs(read(put(tmp_path, tau([user(parts), reply(parts), old, custom])), unit="turn"))
    assert run.texts == ("see",)
    assert [(call.name, call.metadata) for call in run.calls] == [("old", '{"a": "é"}'), ("new", "x")]


# --- identity ---------------------------------------------------------------------------------------------


def test_identity_is_the_content_and_its_ordinal_among_equals(tmp_path: Path) -> None:
    one, other = {"messages": [user("a"), reply("b")]}, {"messages": [user("a"), reply("c")]}
    turned = {"messages": [dict(reversed(message.items())) for message in one["messages"]]}
    found = [run.uid for run in runs(read(put(tmp_path, lines([one, other, turned]))))]
    assert found[0].endswith("-0")
    assert found[2] == found[0].removesuffix("-0") + "-1"
    assert len(set(found)) == 3
    moved = runs(read(put(tmp_path, json.dumps([other, one], indent=1).encode(), "elsewhere")))
    assert {run.uid for run in moved} == set(found[:2])


def test_a_model_and_usage_are_read_where_they_are_stated(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    record = {"messages": [user("a"), reply("b")], "model": "m", "usage": usage}
    path = put(tmp_path, lines([record, {**record, "usage": {"total_tokens": 0}}]))
    first, second = runs(read(path))
    assert first.usage is not None
    assert (first.usage.input, first.usage.cache_read, first.tokens, first.model) == (5, 4, 11, "m")
    assert second.usage is None
    assert {run.usage for run in runs(read(path, unit="turn"))} == {None}


# --- inventories ------------------------------------------------------------------------------------------


def test_declared_beats_supplied_beats_inferred(tmp_path: Path) -> None:
    talk = [user("a"), reply(None, "used")]
    records: list[Json] = [
        {"messages": talk, "tools": [tool("declared")]},
        {"messages": talk, "functions": [{"name": "old_way", "parameters": {}}]},
        {"messages": talk, "tools": []},
        {"messages": talk, "tools": None},
        {"messages": [user("b"), reply(None, "other")]},
    ]
    path = put(tmp_path, lines(records))
    found = runs(read(path))
    kinds = ["declared"] * 3 + ["inferred"] * 2
    assert [run.inventory.kind for run in found] == kinds
    expected = [["declared"], ["old_way"], [], ["other", "used"], ["other", "used"]]
    assert [offered(run) for run in found] == expected
    assert detect(found[2]).not_offered == ("used",)
    tools_file = put(tmp_path, lines([[tool("supplied")]]), "t")
    assert offered(runs(read(path, tools_file=tools_file))[4]) == ["supplied"]


def test_costs_and_kinds_of_tools_in_lists_that_are_shared() -> None:
    listed = inventory_of(
        b'["Read", {"type": "function", "function": {"name": "a", "description": "\\u00e9"}},'
        b' {"name": "b", "token_cost": 0}, {"type": "function", "token_cost": 3, "function": {"name": "a"}}]',
        "supplied",
    )
    assert [(arm.name, arm.token_cost) for arm in listed.arms] == [("Read", None), ("a", 8), ("b", 0)]
    assert len('{"name":"a","description":"é"}') == 30
    lists = DeclaredLists()
    first = lists.inventory(b'["a"]')
    assert lists.inventory(b'["a"]') is first
    for number in range(300):
        lists.inventory(b'["t%d"]' % number)
    assert lists.inventory(b'["a"]') == first


def test_a_tools_file_by_domain(tmp_path: Path) -> None:
    path = put(tmp_path, tau([reply(None, "x")]))
    one = put(tmp_path, lines([{"domains": {"air": [tool("x"), tool("y")]}}]), "one")
    assert offered(runs(read(path, tools_file=one))[0]) == ["x", "y"]
    two = put(tmp_path, lines([{"domains": {"air": [], "sea": []}}]), "two")
    with pytest.raises(UnreadableSource, match="lists 2 domains"):
        read(path, tools_file=two)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"a": 1}', b"[1]", b'[{"name": "a\\nb"}]', b"[NaN]", b"\xff"]
)
def test_a_file_that_lists_no_tools_is_refused(tmp_path: Path, content: bytes) -> None:
    path = put(tmp_path, tau([reply("a")]))
    with pytest.raises(UnreadableSource, match="A tools file must hold a JSON list of tools"):
        read(path, tools_file=put(tmp_path, content, "tools"))
    with pytest.raises(UnreadableSource, match="--tools must name a file that can be read"):
        read(path, tools_file=tmp_path / "none")


def test_impossible_tools_and_long_names_reject_their_record_alone(tmp_path: Path) -> None:
    talk = [user("a"), reply("b")]
    records: list[Json] = [
        {"messages": talk, "tools": [tool("bad\nname")]},
        {"messages": talk, "tools": [tool("good")]},
    ]
    entries = read(put(tmp_path, lines(records)))
    assert [one.line for one in rejected(entries)] == [1]
    assert "control characters" in rejected(entries)[0].reason
    assert len(runs(entries)) == 1
    long = "n" * 513
    records = [
        {"messages": [reply(None, long)]},
        {"messages": [], "model": long},
        {"messages": [reply(None, "n" * 512)]},
    ]
    entries = read(put(tmp_path, lines(records)))
    assert [one.line for one in rejected(entries)] == [1, 2]
    (run,) = runs(entries)
    assert offered(run) == []  # the id of an arm would be too long, yet the call was made
    assert detect(run).n_real_calls == 1


def test_units_of_benchmarks(tmp_path: Path) -> None:
    path = put(tmp_path, tau(TALK))
    assert [
        open_sources([path], unit=unit).sources[0].unit for unit in (None, "prompt", "turn", "episode")
    ] == ["episode", "turn", "turn", "episode"]
    with pytest.raises(InvalidInput, match="format must be one of"):
        open_sources([path], format="csv")
