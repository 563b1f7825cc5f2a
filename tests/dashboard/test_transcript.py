"""Transcript on its pages: every text literal, references marked, and nothing for viewers and presentations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.flows.context import Context
from core.flows.learn import record
from core.flows.select import select
from core.flows.settings import change
from core.records.actor import Actor
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run
from core.records.transcript import Message
from dashboard.sentences.transcript import how_to_keep
from tests.dashboard.conftest import Open, texts
from tests.dashboard.worlds import HOSTILE, NOON_MS, context_at
from tests.worlds import chosen_among

TOOL, SKILL = "tool:other:find", "skill:review:main"

CALL = Message(kind="call", name="find", text='{"q": 1}', result="two of them")
REPLY = Message(kind="agent", text="as the review skill says, in Reviewers' words")


def recorded(database: Path, *messages: Message) -> Context:
    context = context_at(database)
    change(context, "keep_texts", value=True)
    record(
        context,
        Run(
            uid="r",
            inventory=Inventory(kind="declared", arms=(Arm(key=TOOL), Arm(key=SKILL))),
            ended_at_ms=NOON_MS,
            calls=(Call(name="find"),),
            texts=("as the review skill says",),
            messages=messages,
        ),
    )
    return context


def shown(page: AppTest) -> str:
    return "".join(str(one.proto.body) for one in page.get("html") if "border-left" in one.proto.body)


def test_calls_results_and_references_are_shown(open_page: Open, database: Path) -> None:
    recorded(database, Message(kind="user", text="Go"), CALL, REPLY)
    page = open_page("run", run="r")
    assert "1 call, secrets masked" in " ".join(texts(page))
    body = shown(page)
    assert body.index("Go") < body.index("q&quot;: 1") < body.index("two of them") < body.index("as the ")
    assert re.findall(r'<mark [^>]*title="([^"]*)"', body) == [TOOL, SKILL]
    assert body.count("<details") == 1, "the result is folded"
    assert "In the prompt" in " ".join(texts(page))


def test_an_arm_that_was_left_out_says_why(open_page: Open, context: Context) -> None:
    change(context, "keep_texts", value=True)
    change(context, "baseline_rate", 0.0)
    offered = [Arm(key=TOOL, token_cost=50), Arm(key=SKILL, token_cost=500)]
    chosen = select(context, offered, budget_tokens=100)
    record(
        context,
        chosen_among("r", chosen, offered, calls=(Call(name="find"),), messages=(REPLY,)),
    )
    assert chosen.excluded == (SKILL,)
    (beside,) = [text for text in texts(open_page("run", run="r")) if "Left out" in text and "skill" in text]
    head = beside.partition("\n")[0]
    assert "budget" in head, "one reason of all is said once"
    assert re.search(r"\b(50|100) left", head), "as the draws decide what comes first"


@pytest.mark.parametrize("text", HOSTILE)
def test_every_text_stays_literal(open_page: Open, database: Path, text: str) -> None:
    recorded(
        database,
        Message(kind="user", text=text),
        Message(kind="call", name=f"{text}"[:60], text=text, result=text),
        Message(kind="agent", text=f"review {text}"),
    )
    page = open_page("run", run="r")
    tags = set(re.findall(r"<(/?\w+)", shown(page)))
    assert {tag.strip("/") for tag in tags} <= {"div", "b", "mark", "details", "summary"}
    assert "script" not in tags


def test_a_long_transcript_unfolds(open_page: Open, database: Path) -> None:
    many = [Message(kind="agent", text=f"text {number}") for number in range(60)]
    recorded(database, *many, Message(kind="agent", text="x" * 5_000))
    body = shown(open_page("run", run="r"))
    assert "21 more messages" in body
    assert "3,800 more characters" in body


def test_viewers_and_presentations_get_none(
    open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(database, CALL, REPLY)
    page = open_page("run", run="r", present="true")
    assert not page.exception
    assert "two of them" not in f"{shown(page)} {' '.join(texts(page))}"
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="vi", role="viewer"))
    page = open_page("run", run="r")
    assert not shown(page)
    assert how_to_keep(keeps=True, may_read=False) in " ".join(texts(page))


def test_a_run_without_one_says_how_to_keep_it(open_page: Open, database: Path) -> None:
    context = recorded(database, CALL)
    change(context, "keep_texts", value=False)
    record(context, Run(uid="s", inventory=Inventory(kind="declared", arms=(Arm(key=TOOL),))))
    assert how_to_keep(keeps=False) in " ".join(texts(open_page("run", run="s")))
