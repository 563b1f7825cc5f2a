"""Layers, adapters, executions and candidates: what their ids name, costs, and what a record refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InvalidArm, InvalidEvaluation, InvalidInput
from core.records.candidate import file_candidate, skill_candidate, tool_candidate
from core.records.layer import Adapter, Layer, LayerUri, parse_uri

LAYER = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
EXECUTION = "11111111-2222-3333-4444-555555555555"
IDS = st.text("0123456789abcdefABCDEF-", min_size=36, max_size=36)
CATEGORIES = [
    ("runTests", "exec"),
    ("SHELL_do", "exec"),
    ("execute", "exec"),
    ("bash", "exec"),
    ("readiness", "fs"),
    ("GlobAll", "fs"),
    ("editor", "fs"),
    ("recall_notes", "memory"),
    ("remember", "memory"),
    ("memory_search", "memory"),
    ("searching", "web"),
    ("WebFetch", "web"),
    ("browser", "web"),
    ("fetch_page", "web"),
    ("reply_to", "messaging"),
    ("sendMail", "messaging"),
    ("messages", "messaging"),
    ("my_bash", "other"),
    ("prune", "other"),
]


@given(IDS, st.none() | IDS, st.sampled_from(["layer", "Layer", "LAYER"]))
def test_an_id_is_answered_as_sent_and_compares_in_lower_case(
    uid: str, execution: str | None, word: str
) -> None:
    tail = "" if execution is None else f"?execution_id={execution}"
    found = LayerUri.parse(f"\ufeff kairos://{word}/{uid}{tail}\n")
    assert (found.uid, found.execution, found.key) == (uid, execution, uid.lower())
    assert found.execution_key == (None if execution is None else execution.lower())
    assert found.raw == f"kairos://{word}/{uid}{tail}"


@given(st.text())
def test_any_text_names_something_or_is_refused(value: str) -> None:
    try:
        found = parse_uri(value)
    except InvalidEvaluation:
        return
    assert value.strip("\ufeff \n\t") != ""
    assert found.raw in value


@pytest.mark.parametrize(
    "value",
    [
        "",
        "layer",
        f"kairos://layer/{LAYER}\x85",  # white space of Python's, not of JavaScript's
        f"\u212aairos://layer/{LAYER}",  # a Kelvin sign is a k to some
        f"KAIROS://MEM/{LAYER}",
        f"kairos://layer/{LAYER[:-1]}\u0665",  # a digit, but no hexadecimal one
        f"kairos://layer/{LAYER}?execution_id={EXECUTION}&x=1",
        "kairos://adapter/a--b",
        "kairos://adapter/-",
        "kairos://adapter/" + "a" * 201,
    ],
)
def test_what_is_no_uri_is_refused(value: str) -> None:
    with pytest.raises(InvalidEvaluation, match="must name a layer"):
        parse_uri(value)


@pytest.mark.parametrize("value", ["kairos://adapter/a", "kairos://artifact/a", f"kairos://adapter/{LAYER}"])
def test_only_a_layer_can_be_rewarded(value: str) -> None:
    with pytest.raises(InvalidEvaluation, match="reward requires a layer URI"):
        LayerUri.parse(value)


@pytest.mark.parametrize("tail", ["?x=1", "/more", "?a/b", "/?"])
def test_what_follows_an_older_layers_id_is_not_looked_at(tail: str) -> None:
    assert LayerUri.parse(f"kairos://mem/{LAYER}{tail}").uid == LAYER


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (Adapter, {"uri": ""}),
        (Adapter, {"uri": "a\0b"}),
        (Adapter, {"uri": "a", "name": "n" * 513}),
        (Layer, {"uid": ""}),
        (Layer, {"uid": LAYER, "index": -1}),
        (Layer, {"uid": LAYER, "index": True}),
        (Layer, {"uid": LAYER, "tags": "docker"}),
        (Layer, {"uid": LAYER, "tags": ["a"] * 101}),
        (Layer, {"uid": LAYER, "task": "\0"}),
        (Layer, {"uid": LAYER, "adapter": "kairos://adapter/a"}),
    ],
)
def test_a_record_refuses_what_could_not_be_kept(make: Callable[..., object], fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make(**fields)


@pytest.mark.parametrize(("name", "category"), CATEGORIES)
def test_a_tools_category_is_told_by_the_start_of_its_name(name: str, category: str) -> None:
    assert tool_candidate({"name": name}).category == category


def test_a_tool_costs_a_quarter_of_its_whole_definition() -> None:
    definition = {"name": "Read", "label": "Read 📖", "parameters": {"most": 2.0, "of": ["ä", None]}}
    written = json.dumps({**definition, "parameters": {"most": 2, "of": ["ä", None]}}, ensure_ascii=False)
    n_units = len(written.replace(": ", ":").replace(", ", ",")) + 1  # the book counts twice
    assert tool_candidate(definition).token_cost == -(-n_units // 4)


@pytest.mark.parametrize(("n_units", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (4001, 1001)])
def test_a_skill_costs_a_quarter_of_its_prompt(n_units: int, tokens: int) -> None:
    arm = skill_candidate("coding", n_units)
    assert (arm.key, arm.token_cost) == ("skill:coding:main", tokens)


@pytest.mark.parametrize(("content", "tokens"), [("", 0), ("abcd", 1), ("📖📖📖", 2)])
def test_a_file_costs_a_quarter_of_its_content(content: str, tokens: int) -> None:
    arm = file_candidate("docs/a:b.md", content)
    assert (arm.key, arm.token_cost) == ("file:workspace:docs/a:b.md", tokens)


@pytest.mark.parametrize("definition", [{}, {"name": 3}, {"name": ""}, {"name": "a\nb"}])
def test_a_tool_without_a_name_is_no_candidate(definition: dict[str, object]) -> None:
    with pytest.raises(InvalidArm):
        tool_candidate(definition)
