"""Clients' own doors in the one application: who is let in, and that nothing malformed fails or moves anything."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Final, NamedTuple

import pytest

from core.doors.http.guard import Listener
from core.doors.http.serving import ROUTES, is_door_path
from core.flows import queries
from core.flows.context import Context
from core.records.actor import Action, Actor, Grant, Role, may
from dashboard.pages import PAGES
from tests.conftest import ROOT
from tests.doors.examples import ARM, RUN
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import Asked
from tests.doors.http.test_guard import malformed
from tests.flows.test_authorisation import ROLES

OPENCLAW: Final = "/__openclaw__/api/learning"
QORTEX: Final = "/v1/learning"

AT: Final = "/api/v1/learners/default"

CALLED: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "qortex_learning_observe",
        "arguments": {"learner": "default", "arm_id": ARM, "reward": 1},
    },
}


class Example(NamedTuple):
    """A request that is answered 200 to whoever may do this."""

    action: Action
    path: str
    body: object = None
    method: str = "POST"
    kind: str = "application/json"


def got(action: Action, path: str) -> Example:
    return Example(action, path, method="GET")


EXAMPLES: Final = (
    got("read", f"{OPENCLAW}/dashboard"),
    got("read", f"{OPENCLAW}/summary"),
    got("read", f"{OPENCLAW}/metrics"),
    got("read", f"{OPENCLAW}/config"),
    got("read", f"{OPENCLAW}/posteriors"),
    got("read", f"{OPENCLAW}/traces?limit=2"),
    got("read", f"{OPENCLAW}/timeseries?metric=pulls&window=1d"),
    Example("reward", f"{OPENCLAW}/reward", {"arm_id": ARM, "reward": 0.5}),
    Example("reset", f"{OPENCLAW}/reset", {"arm_ids": [ARM]}),
    Example("select", f"{QORTEX}/select", {"learner": "default", "candidates": [{"id": ARM}]}),
    Example("ingest", f"{QORTEX}/observe", {"learner": "default", "arm_id": ARM, "outcome": "accepted"}),
    Example("reset", f"{QORTEX}/reset", {"learner": "default", "arm_ids": [ARM]}),
    got("read", f"{QORTEX}/default/posteriors"),
    got("read", f"{QORTEX}/default/metrics"),
    got("read", "/metrics"),
    Example("read", "/api/v1/chat", {"text": "/learning status"}),
)


FILES: Final = (
    Example("ingest", "/v1/traces", {"resourceSpans": []}),
    Example(
        "ingest",
        f"{AT}/imports?file=a.jsonl",
        {"kind": "run", "uid": "x", "arms": [ARM]},
        kind="application/octet-stream",
    ),
    Example("export_training", f"{AT}/training", {"format": "sft_jsonl"}),
    Example("erase", f"{AT}/erasures", {"run": RUN}),
    Example("erase", f"{AT}/compactions", {"keep_days": 365}),
)
"""What comes and goes as files."""


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_let_in_where_the_table_lets_it(role: Role, context: Context, ask_as: Asked) -> None:
    who = Actor(name="mara", role=None, grants=(Grant(role=role, learner="default"),))
    asking = ask_as(Listener(), me=who)
    for one in (*EXAMPLES, *FILES):
        before = queries.revision(context).revision
        found = sent(asking, one, authorization="Bearer me")
        allowed = may(who, one.action, "default")
        assert found == (200 if allowed else 403), (one, role)
        if not allowed:
            assert queries.revision(context).revision == before


def sent(asking: Asking, one: Example, **headers: str) -> int:
    body = b"" if one.body is None else json.dumps(one.body).encode()
    return asking.ask(one.method, one.path, [body], {"content-type": one.kind, **headers}).status


def test_a_backup_is_for_who_governs_all_of_it(context: Context, ask_as: Asked) -> None:
    """It holds members, texts and what every learner has, which no token may read."""
    for role in ROLES:
        grants = (Grant(role=role, learner="default"), *([Grant(role=role)] if role != "operator" else ()))
        who = Actor(name="mara", role=None, grants=grants)
        assert ask_as(Listener(), me=who).get("/api/v1/backup", authorization="Bearer me").status == 403, role
    found = ask_as().get("/api/v1/backup")
    assert found.body.startswith(b"SQLite format 3")
    assert found.headers["etag"] == f'"{queries.revision(context).revision}"'


def test_openclaws_paths_answer_every_method_as_its_clients_know_it(context: Context, asking: Asking) -> None:
    before = queries.revision(context).revision
    for method, path in (
        ("HEAD", "summary"),
        ("OPTIONS", "reset"),
        ("DELETE", "reward"),
        ("POST", "summary"),
    ):
        found = asking.ask(method, f"{OPENCLAW}/{path}")
        assert (found.status, bool(found.headers["allow"])) == (405, True), (method, path)
    assert asking.ask("POST", f"{OPENCLAW}/reset").status == 415, "no form of a foreign page resets"
    assert queries.revision(context).revision == before


def test_without_the_protocols_package_the_other_doors_are_there() -> None:
    code = (
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'mcp' else find(name, *more)\n"
        "from core.doors.http.serving import ROUTES\n"
        "print(len([route for route in ROUTES if route.path == '/mcp']), len(ROUTES))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout == f"0 {len(ROUTES) - 1}\n"


def test_pages_and_doors_share_no_path() -> None:
    assert not [page.name for page in PAGES if is_door_path(f"/{page.name}")]
    assert all(is_door_path(route.path) for route in ROUTES)


def test_nobody_unknown_gets_through_any_door(context: Context, ask_as: Asked) -> None:
    asking, before = ask_as(Listener()), queries.revision(context).revision
    for one in (*EXAMPLES, *FILES):
        assert sent(asking, one) == 401, one
        assert sent(asking, one, authorization="Bearer nobody") == 401, one
    assert asking.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status == 401
    assert queries.revision(context).revision == before


def test_what_is_malformed_neither_fails_nor_moves_anything(context: Context, asking: Asking) -> None:
    dice, before = random.Random(29), queries.revision(context).revision
    writing = [*(one for one in EXAMPLES if one.body is not None), Example("connect", "/mcp", CALLED)]
    for number in range(3_000):
        one = writing[number % len(writing)]
        body = malformed(dice, json.dumps(one.body).encode(), knows_all_fields=False)
        if not body:
            continue  # to OpenClaw's reset that means everything
        found = asking.ask(one.method, one.path, [body], {"content-type": "application/json"})
        assert found.status < 500, (one.path, body, found.body)
        now = queries.revision(context).revision
        assert now == before, (one.path, body, found.status, found.body)


def test_a_malformed_file_fails_nothing_and_what_is_refused_moves_nothing(
    context: Context, asking: Asking
) -> None:
    """Of a file some lines may be read, and the others are named; that is an answer, and an act."""
    dice = random.Random(31)
    for number in range(600):
        one = FILES[number % len(FILES)]
        body = malformed(dice, json.dumps(one.body).encode(), knows_all_fields=False)
        before = queries.revision(context).revision
        found = asking.ask(one.method, one.path, [body], {"content-type": one.kind})
        assert found.status < 500, (one.path, body, found.body)
        assert found.status == 200 or queries.revision(context).revision == before, (
            one.path,
            body,
            found.status,
        )
    assert queries.verify(context).clean
