"""Kinds of model names: a spelling never changes the kind, and two models are never one."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core import explained
from core.errors import InvalidSetting
from core.flows import queries
from core.flows.context import Context
from core.flows.corrections import undo
from core.flows.learn import record
from core.flows.settings import accept_price, change
from core.records.bill import Spent
from core.records.model_kinds import kind_of, price_offers, price_words
from core.records.run import Usage
from tests.worlds import a_run

MODELS = """
    claude-opus-4 claude-opus-4-1 claude-opus-4-8 claude-sonnet-4-8 claude-v2 claude-v2:1 gpt-4 gpt-4o
    gpt-4o-mini gpt-4.1 gpt-4.1-mini gpt-5 gpt-5-mini gpt-5.1 gpt-5-codex o1 o1-mini o3 o3-pro gemini-2.5-pro
    gemini-2.5-flash gemini-2.5-flash-lite gemini-2.5 llama3:8b llama3:70b llama-3.1-8b llama-3-18b
    deepseek-v3 deepseek-v3.1 nova-pro-v1:0 qwen3-32b qwen3-235b-a22b gpt-4-1106-preview gpt-4-turbo grok-4
    grok-4-fast
""".split()  # noqa: SIM905 - one word per line is a page
"""Different models, some of which differ in one character."""
DAYS = st.dates(date(2000, 1, 1), date(2099, 12, 31))
PREFIXES = st.sampled_from(
    [
        "",
        "anthropic/",
        "openrouter/openai/",
        "models/",
        "us.anthropic.",
        "eu.amazon.",
        "openai:",
        "google-vertex:",
    ]
)
ENDS = st.one_of(
    st.sampled_from(["", "[1m]", " [fast]", "-latest", "@default"]),
    DAYS.map(lambda day: f"-{day:%Y%m%d}"),
    DAYS.map(lambda day: f"-{day:%Y-%m-%d}"),
    DAYS.map(lambda day: f"@{day:%Y%m%d}"),
    DAYS.map(lambda day: f"-{day:%Y%m%d}-v1:0"),
    DAYS.map(lambda day: f"-{day:%Y%m%d}[1m]"),
)


@st.composite
def spellings(draw: st.DrawFn, model: str) -> str:
    """The name with a prefix, an end, other letters, and dots or hyphens in its version."""
    name = draw(PREFIXES) + model + draw(ENDS)
    dotted = draw(st.booleans())
    if dotted:
        name = name.replace("4-8", "4.8").replace("4-1-", "4.1-")
    return str(draw(st.sampled_from([name, name.upper(), name.title()])))


@given(st.data(), st.sampled_from(MODELS), st.sampled_from(MODELS))
def test_names_are_of_one_kind_only_where_the_model_is_one(data: st.DataObject, one: str, other: str) -> None:
    first, second = data.draw(spellings(one)), data.draw(spellings(other))
    assert (kind_of(first) == kind_of(second)) == (one == other)
    offers = price_offers([first], {second: 3.0})
    assert offers == ({first: second} if one == other and first != second else {})


@given(st.text(st.characters(max_codepoint=126), max_size=60))
def test_any_name_has_a_kind_that_stays(name: str) -> None:
    assert kind_of(name) == kind_of(name.upper().lower())
    assert price_offers([name], {name: 1.0}) == {}


def test_of_several_priced_names_the_shortest_is_offered_then_the_last() -> None:
    prices = {"m-4-20250101": 1.0, "m-4-20260101": 2.0, "x/m-4-20260101": 3.0}
    assert price_offers(["M-4"], prices) == {"M-4": "m-4-20260101"}
    assert price_offers(["M-4"], {**prices, "m-4": 9.0}) == {"M-4": "m-4"}


def test_a_person_accepts_the_price_of_the_kind_and_takes_it_back(context: Context) -> None:
    spelled = "us.anthropic.claude-opus-4-8-v1:0"
    million = Usage(input=10**6)
    child = Spent(owner="sub-agent", model="Other-1", input=5)
    record(context, replace(a_run("r"), model=spelled, usage=million))
    bill = (Spent(model=spelled, input=10**6), child)
    record(context, replace(a_run("s"), model=spelled, usage=million, bill=bill))
    assert queries.status(context).money is None
    change(context, "prices", {"claude-opus-4-8": {"input": 5, "output": 25}, "other-1": 1})
    for uid in ("r", "s"):
        words = explained.bill(queries.run(context, uid)) or ""
        assert f"unknown, because {spelled} has no price" in words
        assert f"The price of claude-opus-4-8 fits {spelled}" in words
    money = queries.status(context).money
    assert money is not None
    assert money.unpriced_models == ("Other-1", spelled)
    assert money.price_offers == {"Other-1": "other-1", spelled: "claude-opus-4-8"}
    accepted = accept_price(context, spelled)
    assert "Cost: $5.00." in (explained.bill(queries.run(context, "r")) or "")
    assert accept_price(context, spelled).id is None
    undo(context, str(accepted.id))
    assert queries.run(context, "r").facts.unpriced == (spelled,)
    with pytest.raises(InvalidSetting):
        accept_price(context, "claude-opus-4-1")
    assert queries.verify(context).clean


def test_no_more_names_than_a_line_can_hold_are_written() -> None:
    assert price_words(["a", "b", "c", "d", "e"], {}) == "No price for a, b, c and 2 more."
    assert price_words([], {}) == ""
