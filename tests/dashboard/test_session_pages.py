"""Sessions: the list, the page of one with its runs in order, and the ways from a run and from its address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

import dashboard
from core.doors.cli import main
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record
from core.flows.select import select
from core.flows.settings import change
from core.records.actor import Actor
from core.records.arm import Arm
from core.records.run import Call, Inventory, Run, Usage
from core.records.run_query import View
from core.records.transcript import Message
from dashboard.sentences.transcript import STEPS, how_to_keep
from dashboard.widgets.run.story import WHY_FOLD
from tests.dashboard.conftest import Open, Steps, check, texts, unfold
from tests.dashboard.worlds import HOSTILE, NOON_MS, context_at
from tests.worlds import chosen_among

ONE = Run(
    uid="r0",
    inventory=Inventory(kind="declared", arms=(Arm(key="tool:other:find"), Arm(key="tool:other:book"))),
    session="chat-1",
    ended_at_ms=NOON_MS,
    model="large",
    usage=Usage(input=10, output=5),
    calls=(Call(name="find"),),
)

NO_PRICE = re.compile("No price for odd-1|because odd-1 has no price")
MONEY = re.compile(r"\$\s?\d")

PAGES = sorted(path.stem for path in Path(dashboard.__file__).parent.glob("app_pages/[a-z]*.py"))
QUERIES = {
    "session": {"session": "chat-1"},
    "run": {"run": "r1"},
    "compare": {"a": "model.large", "b": "model.odd-1"},
}
TOOL, SKILL = "tool:other:find", "skill:review:main"
CALL = Message(kind="call", name="find", text='{"q": 1}', result="two of them")
REPLY = Message(kind="agent", text="as the review skill says, in Reviewers' words")


def recorded(database: Path, *sessions: str) -> None:
    context = context_at(database)
    for number, session in enumerate(sessions):
        record(
            context, replace(ONE, uid=f"r{number}", session=session, ended_at_ms=NOON_MS + 60_000 * number)
        )


def tables(page: object) -> list[dict[str, list[object]]]:
    return [frame.value.to_dict("list") for frame in page.dataframe]  # type: ignore[attr-defined]


def test_the_list_has_the_latest_first(open_page: Open, database: Path) -> None:
    recorded(database, "chat-1", "chat-2", "chat-1", "chat-3")
    page = open_page("sessions")
    check(page)
    (table,) = tables(page)
    assert (table["session"], table["runs"]) == (["chat-3", "chat-1", "chat-2"], [1, 2, 1])
    assert table["tokens"] == [15, 30, 15]


def test_a_session_has_its_runs_in_order_and_a_view_chooses_among_them(
    open_page: Open, database: Path
) -> None:
    recorded(database, "chat-1", "chat-2", "chat-1")
    page = open_page("session", session="chat-1")
    check(page)
    assert "2 runs" in str(page.title[0].value)
    runs, arms = tables(page)
    assert runs["id"] == ["r0", "r2"]
    assert (arms["id"], arms["used in"]) == (["tool:other:find", "tool:other:book"], [2, 0])
    context = context_at(database)
    assert [one.n_runs for one in queries.sessions_in(context, View(until_ms=NOON_MS + 60_000))] == [1]
    assert queries.sessions_in(context, View(models=("small",))) == ()


def test_a_session_in_the_place_of_a_run_is_named(open_page: Open, database: Path) -> None:
    recorded(database, "chat-1")
    page = open_page("run", run="chat-1")
    assert [one.proto.label for one in page.get("page_link") if "session" in one.proto.label] == [
        "Open the session"
    ]
    assert "Its session" in [one.proto.label for one in open_page("run", run="r0").get("page_link")]


def test_a_view_without_sessions_says_so(open_page: Open, database: Path) -> None:
    record(context_at(database), replace(ONE, session=None))
    page = open_page("sessions")
    check(page)
    assert not page.dataframe
    assert "names a session" in " ".join(texts(page))


def with_an_unpriced_model(database: Path) -> None:
    context = context_at(database)
    change(context, "prices", {"large": 3})
    for number, model in enumerate(("large", "odd-1")):
        record(context, replace(ONE, uid=f"r{number}", session="chat-1", model=model))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_shows_money_names_the_model_without_a_price(
    open_page: Open, database: Path, page: str
) -> None:
    with_an_unpriced_model(database)
    opened = open_page(page, **QUERIES.get(page, {}))
    shown = "\n".join([*texts(opened), *(str(one) for one in tables(opened))]).replace("\\", "")
    is_list = page in {"overview", "sessions", "session", "runs", "compare"}
    shows_prices_alone = page in {"audit", "settings"}
    assert NO_PRICE.search(shown) or shows_prices_alone or not (is_list or MONEY.search(shown))


@pytest.mark.parametrize(
    "command",
    [
        *(["status"], ["savings"], ["runs"], ["sessions"], ["session", "chat-1"]),
        *(["run", "r1"], ["compare", "--a", "model=large", "--b", "model=odd-1"]),
    ],
)
def test_a_command_that_shows_money_names_the_model_without_a_price(
    database: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    with_an_unpriced_model(database)
    with pytest.raises(SystemExit):
        main(["--database", str(database), *command])
    words = " ".join(capsys.readouterr().out.split())
    assert len(NO_PRICE.findall(words)) == 1


def recorded_run(database: Path, *messages: Message, n_calls: int = 1) -> Context:
    context = context_at(database)
    change(context, "keep_texts", value=True)
    record(
        context,
        Run(
            uid="r",
            inventory=Inventory(kind="declared", arms=(Arm(key=TOOL), Arm(key=SKILL))),
            ended_at_ms=NOON_MS,
            calls=(Call(name="find"),) * n_calls,
            texts=("as the review skill says",),
            messages=messages,
        ),
    )
    return context


def shown(page: AppTest) -> str:
    return "".join(
        str(one.proto.body)
        for one in page.get("html")
        if STEPS in one.proto.body and "<style>" not in one.proto.body
    )


def test_calls_results_and_references_are_shown(open_page: Open, database: Path) -> None:
    recorded_run(database, Message(kind="user", text="Go"), CALL, REPLY)
    page = open_page("run", run="r")
    assert "1 call, secrets masked" in " ".join(texts(page))
    body = shown(page)
    assert (
        body.index("Go")
        < body.index("<small>q</small><pre>1")
        < body.index("two of them")
        < body.index("as the ")
    )
    assert re.findall(r'<mark [^>]*title="([^"]*)"', body) == [TOOL, SKILL]
    assert body.count("<details") == 1, "the result is folded"


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
    page = unfold(open_page("run", run="r"), WHY_FOLD)
    (why,) = [one.value for one in page.dataframe if "skill" in str(one.value)]
    assert re.search(r"\b(50|100) .*left", why.to_string()), "as the draws decide what comes first"


@pytest.mark.parametrize("text", HOSTILE)
def test_every_text_stays_literal(open_page: Open, database: Path, text: str) -> None:
    recorded_run(
        database,
        Message(kind="user", text=text),
        Message(kind="call", name=f"{text}"[:60], text=text, result=text),
        Message(kind="agent", text=f"review {text}"),
    )
    page = open_page("run", run="r")
    assert Steps.of(shown(page)).faults == []


def test_a_long_transcript_unfolds(open_page: Open, database: Path) -> None:
    many = [Message(kind="agent", text=f"text {number}") for number in range(220)]
    recorded_run(database, *many)
    assert "20 more messages" in shown(open_page("run", run="r"))


def test_a_transcript_without_its_middle_counts_all_calls(open_page: Open, database: Path) -> None:
    long = Message(kind="call", name="find", text="x" * 7_000)
    recorded_run(database, *[long] * 40, n_calls=40)
    words = " ".join(texts(open_page("run", run="r")))
    assert "14 of 40 calls" in words
    assert "40 real tool calls" in words


def test_viewers_get_none(open_page: Open, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_run(database, CALL, REPLY)
    monkeypatch.setattr("core.settings.local_operator", lambda: Actor(name="vi", role="viewer"))
    page = open_page("run", run="r")
    assert not shown(page)
    assert how_to_keep(keeps=True, may_read=False) in " ".join(texts(page))


def test_a_run_without_one_says_how_to_keep_it(open_page: Open, database: Path) -> None:
    context = recorded_run(database, CALL)
    change(context, "keep_texts", value=False)
    record(context, Run(uid="s", inventory=Inventory(kind="declared", arms=(Arm(key=TOOL),))))
    assert how_to_keep(keeps=False) in " ".join(texts(open_page("run", run="s")))
