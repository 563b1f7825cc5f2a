"""Sessions by their verbs: the list and its pages, one with its runs, and texts only for whom they are."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from core.doors.verbs import verb
from core.errors import NotFound
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from core.flows.queues import add_queue
from core.flows.settings import change
from core.records.actor import Grant, Role
from core.records.review import QueueAsks
from core.records.run_page import SessionRow
from core.records.times import HOUR_MS
from tests.worlds import START_MS, a_run, granted

SECRET = "words of the user"


@pytest.fixture
def context(context: Context) -> Iterator[Context]:
    """Four runs in three sessions, and one without a session; texts are kept."""
    change(context, "keep_texts", True)
    rows = (("r0", "chat-1"), ("r1", "chat-2"), ("r2", "chat-1"), ("r3", "chat-3"), ("r4", None))
    record_all(
        context,
        [
            msgspec.structs.replace(
                a_run(uid, model=("large", "small")[at % 2], at_ms=START_MS + at * HOUR_MS),
                session=session,
                prompt=f"{SECRET} {uid}",
            )
            for at, (uid, session) in enumerate(rows)
        ],
    )
    yield context
    context.store.close()


def acting(context: Context, *roles: Role) -> Context:
    grants = tuple(Grant(role=role, learner=None) for role in roles)
    return granted(context, *grants)


def test_the_latest_sessions_come_first_and_filters_are_those_of_runs(context: Context) -> None:
    assert [(one.session, one.n_runs) for one in queries.sessions(context)] == [
        ("chat-3", 1),
        ("chat-1", 2),
        ("chat-2", 1),
    ]
    assert [one.session for one in queries.sessions(context, 1)] == ["chat-3"]
    large = queries.sessions(context, model="large")
    assert [(one.session, one.n_runs) for one in large] == [("chat-1", 2)]
    assert queries.sessions(context, from_="2999-01-01") == ()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_pages_are_the_list(context: Context, size: int) -> None:
    rows: list[SessionRow] = []
    after = None
    while True:
        page = queries.listed_sessions(context, after=after, limit=size)
        rows += page.rows
        after = page.onward
        if after is None:
            break
    assert tuple(rows) == queries.sessions(context)


def test_a_session_has_its_runs_in_order_and_an_unknown_one_is_named(context: Context) -> None:
    one = queries.session(context, "chat-1")
    assert [row.uid for row in one.rows] == ["r0", "r2"]
    assert one.row == queries.sessions(context)[1]
    assert one.transcripts is None
    assert [row.uid for row in queries.session(context, "chat-1", limit=1).rows] == ["r0"]
    with pytest.raises(NotFound, match="There is no session 'chat-9'"):
        queries.session(context, "chat-9")


@pytest.mark.parametrize(
    ("roles", "may"),
    [
        (("operator",), True),
        (("read", "texts"), True),
        (("read",), False),
        (("viewer",), False),
        (("read", "operate"), False),
        (("reviewer",), False),
    ],
)
def test_texts_come_only_to_callers_who_may_read_them(
    context: Context, roles: tuple[Role, ...], may: bool
) -> None:
    caller, operation = acting(context, *roles), verb("session")
    request = operation.decode({"name": "chat-1", "texts": True})
    answer = operation.respond(caller, request)
    assert set(answer.transcripts) == ({"r0", "r2"} if may else set())
    document = msgspec.json.encode(operation.plain(caller, answer)).decode()
    assert (SECRET in document) == may
    without = msgspec.json.encode(operation.plain(caller, queries.session(caller, "chat-1"))).decode()
    assert SECRET not in without


def test_a_reviewer_reads_the_texts_of_runs_to_judge_alone(context: Context) -> None:
    add_queue(context, "One", QueueAsks(source="runs", runs=("r0",), limit=1))
    answer = queries.session(acting(context, "reviewer"), "chat-1", texts=True)
    assert answer.transcripts is not None
    assert set(answer.transcripts) == {"r0"}
