"""Only who may comes in, whatever a browser or a stranger's page sends; what is wrong is told and changes nothing."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

from core.doors.exchange import HttpAnswer, HttpCall
from core.doors.http import api, serving
from core.doors.http.app import Api
from core.doors.http.guard import Callers, Listener, Rate, check_pattern
from core.doors.http.refusals import TooMany
from core.doors.http.routes import NDJSON, Route
from core.doors.http.serving import doors, parse_origins
from core.errors import InvalidSetting, Unidentified
from core.flows import queries
from core.flows.audit import denials
from core.flows.context import Context
from core.flows.tokens import create_token, revoke_token
from core.formats.strict import MAX_BODY_BYTES
from core.records.actor import Action, Actor, Grant, Role, may
from tests.doors.examples import ARM, RUN, SESSION
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import MARA, ROUTES, Asked, at_desk

AT = "/api/v1/learners/default"
JSON = {"content-type": "application/json"}
NOTE = {"arm": ARM, "text": "x"}
ACTIONS = get_args(Action)
ROLES: tuple[Role, ...] = get_args(Role)

REFUSED: Mapping[str, tuple[str, str, dict[str, str], int]] = {
    "another name": ("GET", "/healthz", {"host": "evil.example"}, 421),
    "two names": ("GET", "/healthz", {"host": "localhost,evil.example"}, 421),
    "a name with more": ("GET", "/healthz", {"host": "localhost:80@evil.example"}, 421),
    "no name": ("GET", "/healthz", {"host": ""}, 421),
    "a proxy": ("GET", "/healthz", {"x-forwarded-for": "203.0.113.7"}, 403),
    "another proxy": ("POST", f"{AT}/notes", {**JSON, "forwarded": "for=203.0.113.7"}, 403),
    "a third": ("GET", f"{AT}/status", {"via": "1.1 gate"}, 403),
    "a fourth": ("GET", f"{AT}/status", {"x-real-ip": "127.0.0.1"}, 403),
    "a foreign page": ("POST", f"{AT}/notes", {**JSON, "origin": "http://evil.example"}, 403),
    "another port": ("POST", f"{AT}/notes", {**JSON, "origin": "http://localhost:3000"}, 403),
    "another scheme": ("POST", f"{AT}/notes", {**JSON, "origin": "https://localhost"}, 403),
    "no page's own": ("POST", f"{AT}/notes", {**JSON, "origin": "null"}, 403),
    "a foreign page that reads": ("GET", f"{AT}/runs", {"origin": "http://evil.example"}, 403),
    "a page beside it": ("POST", f"{AT}/notes", {**JSON, "sec-fetch-site": "same-site"}, 403),
    "a page elsewhere": ("POST", f"{AT}/notes", {**JSON, "sec-fetch-site": "cross-site"}, 403),
    "a script elsewhere": ("GET", f"{AT}/runs", {"sec-fetch-site": "cross-site"}, 403),
    "a form": ("POST", f"{AT}/notes", {"content-type": "application/x-www-form-urlencoded"}, 415),
    "a form's text": ("POST", f"{AT}/notes", {"content-type": "text/plain"}, 415),
    "nothing said": ("POST", f"{AT}/notes", {}, 415),
    "another alphabet": ("POST", f"{AT}/notes", {"content-type": "application/json; charset=utf-16"}, 415),
    "packed": ("POST", f"{AT}/notes", {**JSON, "content-encoding": "gzip"}, 415),
    "lines for a body": ("POST", f"{AT}/notes", {"content-type": NDJSON}, 415),
    "a body for lines": ("POST", f"{AT}/runs:batch", JSON, 415),
    "nowhere": ("GET", "/api/v2/version", {}, 404),
    "nowhere to write": ("POST", "/api/v1/learners/default/nothing", JSON, 404),
    "the wrong method": ("DELETE", f"{AT}/notes", JSON, 405),
    "a method nobody has": ("BREW", f"{AT}/notes", JSON, 405),
    "reading what is written": ("GET", f"{AT}/notes", {}, 405),
    "a token that is none": ("GET", f"{AT}/status", {"authorization": "Bearer arms_nonsense"}, 401),
    "two tokens": ("GET", f"{AT}/status", {"authorization": "Bearer arms_a", "x-api-key": "b"}, 401),
    "a key that is none": ("GET", f"{AT}/status", {"x-api-key": "arms_nonsense"}, 401),
    "a path that is no text": ("GET", f"{AT}/runs/%ff", {}, 400),
    "a query that is no text": ("GET", f"{AT}/runs?cursor=%ff", {}, 400),
    "a cursor that is none": ("GET", f"{AT}/runs?cursor=abc", {}, 400),
    "a limit that is none": ("GET", f"{AT}/runs?limit=0", {}, 400),
    "a limit that is much": ("GET", f"{AT}/runs?limit=1001", {}, 400),
    "a limit in other digits": ("GET", f"{AT}/runs?limit=%D9%A3", {}, 400),
    "a field that is misspelt": ("GET", f"{AT}/runs?limits=3", {}, 400),
    "a learner nobody knows": ("GET", "/api/v1/learners/nobody/status", {}, 404),
    "a learner that can't be": ("GET", "/api/v1/learners/a%00b/status", {}, 400),
    "a run nobody knows": ("GET", f"{AT}/runs/none", {}, 404),
}


OF_PROXIES = """
    Forwarded X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Forwarded-Server X-Forwarded Forwarded-For
    X-Original-Forwarded-For X-Original-URL X-Original-Host Via X-Real-IP X-Client-IP Client-IP X-Remote-Addr
    X-Remote-IP X-Originating-IP X-Cluster-Client-IP CF-Connecting-IP X_Forwarded_For X-Rewrite-URL
    Front-End-Https X-Cloud-Trace-Context X-Appgw-Trace-Id Ali-Cdn-Real-IP X-Railway-Edge
    X-Pomerium-Jwt-Assertion Client-Cert SSL-Client-Cert CF-Ray CF-Visitor CDN-Loop True-Client-IP
    Fastly-Client-IP Fly-Client-IP X-Envoy-External-Address X-Envoy-Expected-Rq-Timeout-Ms
    Tailscale-User-Login Tailscale-User-Name X-Amzn-Trace-Id X-Amz-Cf-Id CloudFront-Viewer-Address
    X-Azure-ClientIP X-Azure-FDID X-Appengine-User-IP X-Goog-IAP-JWT-Assertion X-Goog-Authenticated-User-Email
    DO-Connecting-IP X-ARR-SSL X-MS-Client-Principal X-Vercel-Forwarded-For X-NF-Client-Connection-IP
    X-Varnish X-ProxyUser-IP Proxy-Client-IP WL-Proxy-Client-IP X-Nginx-Proxy Remote-User X-Remote-User
    X-Auth-Request-Email X-WebAuth-User Akamai-Origin-Hop X-Akamai-Edgescape Incap-Client-IP X-Sucuri-ClientIP
    Proxy-Connection X-True-Client-IP X-HAProxy-Server-State X-Traefik-Router Ngrok-Auth-User-Email
    X-Authenticated-User Remote-Email Remote-Groups X-Pangolin-User X-ExeDev-Email X-Coder-User
    EO-Connecting-IP X-Render-Origin-Server X-Squid-Error
""".split()  # noqa: SIM905 - one word per line is a page
"""Headers by which proxies, content networks and load balancers name themselves or the client."""
OF_CLIENTS = """
    Accept Accept-Encoding User-Agent Traceparent Tracestate Baggage X-Request-Id X-B3-TraceId Idempotency-Key
    If-None-Match Priority Sec-Fetch-Dest DNT Mcp-Session-Id X-Amz-Date X-Stainless-Lang X-Requested-With
    Client-Name Expect-CT Viability Remote-Tool
""".split()  # noqa: SIM905 - one word per line is a page

_OTHER_KEYS = st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=60)


@pytest.mark.parametrize("name", OF_PROXIES)
def test_each_header_of_a_proxy_is_refused(name: str, asking: Asking) -> None:
    found = asking.ask("GET", f"{AT}/status", headers={name: "203.0.113.7"})
    assert (found.status, found.document["code"]) == (403, "foreign")


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_no_header_of_a_client_is_taken_for_a_proxys(name: str, asking: Asking) -> None:
    assert asking.ask("GET", f"{AT}/status", headers={name: "1"}).status == 200


@pytest.mark.parametrize("host", ["10.0.0.5:8501", "armscope:8501", "evil.example"])
@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/healthz", "/v1/health", "/metrics", f"{AT}/status", "/api/v1/version"]
)
def test_a_monitor_may_use_any_address_where_every_caller_needs_a_token(
    path: str, host: str, ask_as: Asked
) -> None:
    """Probes without a token, and scrapes with one; all else, and a server that knows its user, stay strict."""
    server, own = ask_as(Listener(), t=MARA), ask_as()
    is_probe = path in {"/livez", "/readyz", "/healthz", "/v1/health"}
    for headers in ({}, {"authorization": "Bearer t"}, {"x-api-key": "t"}, {"authorization": "Bearer no"}):
        known = "t" in "".join(headers.values()).split()
        expected = 200 if is_probe or known else 401
        strict = not is_probe and not (path == "/metrics" and headers)
        found = server.ask("GET", path, headers={**headers, "host": host})
        assert found.status == (421 if strict else expected), headers
        assert own.ask("GET", path, headers={**headers, "host": host}).status == 421
    assert server.ask("GET", path, headers={"host": ""}).status == 421


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("a.example.internal", 200),
        ("A.B.Example.Internal:8502", 200),
        ("example.internal", 421),
        ("aexample.internal", 421),
        ("a.example.internal.evil.example", 421),
        ("10.1.2.3:8502", 200),
        ("11.1.2.3", 421),
        ("[fd00::7]:8502", 200),
        ("10.1.2.3.evil.example", 421),
    ],
)
def test_a_host_may_match_a_pattern(host: str, status: int, ask_as: Asked) -> None:
    patterns = frozenset({"*.example.internal", "10.0.0.0/8", "fd00::/8"})
    found = ask_as(Listener(local=MARA, host_patterns=patterns)).ask(
        "GET", f"{AT}/status", headers={"host": host}
    )
    assert found.status == status


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "*.com",
        "*.1.2",
        "a*.example.org",
        "*.example.*",
        "0.0.0.0/0",
        "::/0",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "a/b",
    ],
)
def test_a_pattern_that_matches_too_much_or_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidSetting, match="pattern of --host"):
        check_pattern(pattern)


@pytest.mark.parametrize("what", REFUSED)
def test_what_may_not_come_in_is_told_and_changes_nothing(
    what: str, context: Context, asking: Asking
) -> None:
    method, path, headers, status = REFUSED[what]
    before = queries.revision(context).revision
    found = asking.ask(method, path, [json.dumps(NOTE).encode()], headers)
    assert found.status == status
    assert set(found.document) == {"ok", "error", "code", "next", "request"}
    assert found.document["ok"] is False
    assert "evil" not in found.body.decode()
    assert "access-control-allow-origin" not in found.headers
    assert found.headers["x-content-type-options"] == "nosniff"
    assert ("allow" in found.headers) == (status == 405)
    assert ("www-authenticate" in found.headers) == (status == 401)
    assert queries.revision(context).revision == before


def test_own_pages_and_those_that_are_named_may_ask(ask_as: Asked) -> None:
    listed = Listener(local=MARA, origins=parse_origins("https://board.example"))
    asking = ask_as(listed)
    for origin, site, readers in (
        ("http://localhost", "same-origin", "same-origin"),
        ("https://board.example", "cross-site", "cross-origin"),
    ):
        found = asking.post(f"{AT}/notes", NOTE, origin=origin, sec_fetch_site=site)
        assert (found.status, found.headers["access-control-allow-origin"]) == (200, origin)
        assert found.headers["cross-origin-resource-policy"] == readers
        assert found.headers["vary"] == "Origin"
        asked = {"origin": origin, "access-control-request-method": "POST"}
        before = asking.ask("OPTIONS", f"{AT}/notes", headers=asked)
        assert (before.status, before.headers["access-control-allow-origin"]) == (204, origin)
        assert "POST" in before.headers["access-control-allow-methods"]
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert asking.ask("GET", f"{AT}/status", headers=followed).status == 200
    assert asking.ask("POST", f"{AT}/notes", [json.dumps(NOTE).encode()], {**JSON, **followed}).status == 403


@pytest.mark.parametrize("said", ["*", "board.example", "https://board.example/page", "https://*.example"])
def test_no_list_of_pages_has_all_of_them(said: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_origins(said)


def test_the_list_of_pages_is_the_environments(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMSCOPE_CORS_ORIGIN", "https://board.example")
    asking = Asking(app=doors(at_desk(context)))
    assert asking.get(f"{AT}/status", origin="https://board.example").status == 200
    assert asking.get(f"{AT}/status", origin="https://other.example").status == 403
    asking.close()


def test_a_head_is_an_answer_without_its_body(asking: Asking) -> None:
    whole, head = asking.get(f"{AT}/status"), asking.ask("HEAD", f"{AT}/status")
    assert (head.status, head.body) == (200, b"")
    assert {**head.headers, "x-request-id": ""} == {**whole.headers, "x-request-id": ""}
    assert head.headers["x-request-id"] != whole.headers["x-request-id"]
    assert asking.get(f"{AT}/status/").body == whole.body


# Who it is


def test_where_tokens_are_asked_nobody_acts_without(context: Context, ask_as: Asked) -> None:
    bot = Actor(name="token:bot", role=None, grants=(Grant(role="ingest", learner="default"),), token=7)
    asking = ask_as(Listener(), bot=bot)
    run = {"kind": "run", "uid": "x", "arms": [ARM]}
    assert asking.get("/healthz").status == 200
    assert asking.get("/api/v1/version").status == 401
    assert asking.post(f"{AT}/runs", run).status == 401
    assert asking.post(f"{AT}/runs", run, authorization="Bearer bot").status == 200
    assert asking.post(f"{AT}/runs", run, x_api_key="bot").status == 200
    assert asking.post(f"{AT}/notes", NOTE, x_api_key="bot").document["code"] == "denied"
    elsewhere = asking.post("/api/v1/learners/other/runs", run, x_api_key="bot")
    assert (elsewhere.status, elsewhere.document["code"]) == (403, "denied")


def test_a_token_is_itself_on_this_machine_too(context: Context, ask_as: Asked) -> None:
    asking = ask_as(vi=Actor(name="token:vi", role="viewer", token=3))
    assert asking.post(f"{AT}/notes", NOTE).status == 200
    assert asking.post(f"{AT}/notes", NOTE, authorization="Bearer vi").status == 403
    assert asking.get(f"{AT}/learners", authorization="Bearer vi").status == 404
    assert asking.get("/api/v1/learners", authorization="Bearer vi").status == 200


def test_a_token_that_was_made_is_let_in_until_it_is_revoked(context: Context) -> None:
    made = create_token(context, "bot", scopes=("ingest",), learners=("default",))
    asking = Asking(app=doors(at_desk(context), asks_tokens=True))
    run, bearer = {"kind": "run", "uid": "x", "arms": [ARM]}, f"Bearer {made.secret}"
    assert asking.post(f"{AT}/runs", run, authorization=bearer).status == 200
    assert asking.get(f"{AT}/status", authorization=bearer).status == 403
    assert asking.post(f"{AT}/runs", run, authorization=f"{bearer[:-1]}!").status == 401
    revoke_token(context, made.token.id)
    assert asking.post(f"{AT}/runs", run, authorization=bearer).status == 401
    asking.close()
    refused = denials(context).denials
    assert {(one.actor, one.action) for one in refused} == {("token:bot", "read"), ("", "identify")}
    assert made.secret not in json.dumps([one.actor for one in refused])


def example_of(route: Route) -> tuple[str, bytes]:
    """A request that makes sense, as far as its path says."""
    places = {
        "arm": ARM,
        "environment": "sums",
        "episode": "sums%2F1",
        "session": SESSION,
        "trial": "trial-1",
        "experiment": "experiment-1",
    }
    path = route.path.format(name="default", uid=RUN, setting="k", **places)
    bodies: dict[str, Any] = {
        "select": {},
        "runs": {"kind": "run", "uid": "x", "arms": [ARM]},
        "runs:batch": {"kind": "run", "uid": "x", "arms": [ARM]},
        "rewards": {"arm": ARM, "value": 0.5},
        "rewards:batch": {"arm": ARM, "value": 0.5},
        "outcome": {"value": 0.5},
        "runs:outcomes": {"rows": [{"run": RUN, "value": 0.5}]},
        "rewards:together": {"rewards": [{"arm": ARM, "value": 0.5}]},
        "steps": {"episode": "sums/1", "name": "idle"},
        "episodes:incomplete": {"episode": "sums/1"},
        "scales": {"environment": "sums", "hi": 2},
        "credits": {"uid": "sums/1", "rule": "equal"},
        "credits:preview": {"uid": "sums/1", "rule": "equal"},
        "experiments": {"arm": ARM, "metric": "tokens"},
        "share": {"share": 0.2},
        "stop": {},
        "trials": {"arm": ARM, "tasks": [{"name": "sums"}]},
        "results": {"results": {"source": "lines", "cells": [{"task": "sums", "repeat": 1, "side": "with"}]}},
        "notes": NOTE,
        "evaluations": {"subject": RUN, "outcome": "success"},
        "browsers": {"browser": "kim 3f2a91"},
        "repairs": {"arms": [ARM], "since": "2026-01-31"},
        "repairs:preview": {"arms": [ARM], "since": "2026-01-31"},
        "resets": {},
        "resets:preview": {},
        "imports": {"kind": "run", "uid": "x", "arms": [ARM]},
        "training": {"format": "sft_jsonl"},
        "erasures": {"run": RUN},
        "compactions": {"keep_days": 365},
        "undo": {"act_id": "reward-1"},
        "redo": {"act_id": "reward-1"},
        "settings:accept-price": {"model": "large"},
        "k": {"value": 3},
        "reward": {"uri": "kairos://layer/aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "outcome": "success"},
        "export": {"all_adapters": True, "format": "trace_jsonl"},
    }
    name = path.rpartition("/")[2]
    return path, b"" if route.methods == ("GET",) else json.dumps(bodies[name]).encode()


def test_every_route_has_an_action_and_no_get_has_one_that_changes() -> None:
    for route in serving.ROUTES:
        assert route.action in ACTIONS, route.path
        assert route.public == (route.path in {"/healthz", "/livez", "/readyz", "/v1/health"}), route.path
        if set(route.methods) & {"GET", "HEAD"}:
            assert route.action in {"read", "members"}, route.path
            assert route.methods == ("GET",), route.path
    named = [(method, route.path) for route in serving.ROUTES for method in route.methods]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_denied_what_the_table_denies_it(role: Role, context: Context, ask_as: Asked) -> None:
    who = Actor(name="mara", role=None, grants=(Grant(role=role, learner="default"),))
    asking = ask_as(Listener(), me=who)
    for route in sorted(
        ROUTES, key=lambda one: "GET" not in one.methods
    ):  # an erasure comes after what reads
        if route.path.endswith(("/verify", "/audit", "/backup")):
            continue  # of the whole database: asked below
        path, body = example_of(route)
        before = queries.revision(context).revision
        kind = {"content-type": route.takes[0], "authorization": "Bearer me"}
        found = asking.ask(route.methods[0], path, [body], kind)
        allowed = route.public or may(who, route.action, "default")
        assert found.status in ({200, 207} if allowed else {403}), (route.path, found.body)
        if not allowed:
            assert found.document["code"] == "denied"
            assert queries.revision(context).revision == before
    for path in ("/api/v1/verify", "/api/v1/backup", f"{AT}/audit"):
        assert asking.get(path, authorization="Bearer me").status == 403


def test_a_denial_is_told_to_whoever_counts_them(context: Context) -> None:
    counted: list[tuple[str | None, str]] = []

    def count(actor: Actor | None, action: str) -> None:
        counted.append((None if actor is None else actor.name, action))

    listener = Listener(local=Actor(name="vi", role="viewer"))
    asking = Asking(app=Api(at_desk(context), ROUTES, listener=listener, denied=count))
    asking.post(f"{AT}/resets", {})
    asking.get(f"{AT}/status", x_api_key="arms_forged")
    asking.get(f"{AT}/status")
    asking.close()
    assert counted == [("vi", "reset"), (None, "identify")]


@given(st.sampled_from(["Bearer {}", "Basic {}", "{}"]), _OTHER_KEYS, st.none() | _OTHER_KEYS)
def test_a_server_that_needs_no_token_ignores_keys_of_other_services(
    scheme: str, key: str, second: str | None
) -> None:
    def identify(secret: str) -> Actor:
        raise Unidentified(f"A token must be valid, got {len(secret)} characters.", next_step="Send another.")

    headers = {"authorization": scheme.format(key)} | ({} if second is None else {"x-api-key": second})
    is_open, asks_tokens = Callers(identify, Listener(local=MARA)), Callers(identify, Listener())
    assert is_open.counted_actor(headers, "203.0.113.7") == is_open.cached_actor(headers) == MARA
    for callers, sent in ((asks_tokens, headers), (is_open, headers | {"x-api-key": f"arms_{key}"})):
        with pytest.raises(Unidentified):
            callers.counted_actor(sent, "203.0.113.7")


# How much, and how often


def test_a_token_has_so_many_requests_a_minute(context: Context, ask_as: Asked) -> None:
    who, other = (Actor(name=f"token:{number}", role="viewer", token=number) for number in (1, 2))
    asking = ask_as(Listener(local=MARA, per_minute=2), a=who, b=other)
    found = [asking.get("/api/v1/version", authorization="Bearer a").status for _ in range(3)]
    assert found == [200, 200, 429]
    last = asking.get("/api/v1/version", authorization="Bearer a")
    assert last.document["code"] == "too_many"
    assert 1 <= int(last.headers["retry-after"]) <= 60
    assert asking.get("/api/v1/version", authorization="Bearer b").status == 200
    assert [asking.get("/api/v1/version").status for _ in range(5)] == [200] * 5


def test_room_comes_back_with_time() -> None:
    now = 0.0
    rate = Rate(per_minute=60, seconds=lambda: now)
    rate.count(1, 60)
    with pytest.raises(TooMany) as refused:
        rate.count(1)
    assert refused.value.wait_s == 1
    now = 1.0
    rate.count(1)
    now = 1_000.0
    rate.count(1, 60)
    with pytest.raises(TooMany):
        rate.count(1)


def test_a_token_names_so_many_new_layers_a_minute(context: Context) -> None:
    secret = create_token(context, "grader", ("review", "read")).secret
    asking = Asking(
        app=doors(at_desk(context), layers_per_minute=3), headers={"authorization": f"Bearer {secret}"}
    )
    told = []
    for number in range(4):
        uri = f"kairos://layer/aaaaaaaa-bbbb-4ccc-8ddd-{number:012}"
        order = {"subject": uri, "outcome": "success", "create": True}
        told.append(asking.post(f"{AT}/evaluations", order))
        assert asking.post(f"{AT}/evaluations", order).status == told[-1].status, "known ones are not counted"
    assert [one.status for one in told] == [200, 200, 200, 429]
    assert int(told[-1].headers["retry-after"]) in range(1, 21)
    asked = {"uri": "kairos://layer/aaaaaaaa-bbbb-4ccc-8ddd-ffffffffffff", "outcome": "success"}
    theirs = asking.post("/api/reward", asked)
    assert (theirs.status, theirs.document["error"]) == (429, "REWARD_FAILED")
    assert int(theirs.headers["retry-after"]) > 0
    assert "A token may send at most 3 new layers a minute" in theirs.document["message"]
    local = Asking(app=asking.app)
    assert local.post("/api/reward", asked).status == 200, "on this machine nobody is counted"
    for one in (asking, local):
        one.close()


def test_a_body_has_its_limits(context: Context, ask_as: Asked) -> None:
    asking = ask_as(Listener(local=MARA, patience_s=0.05))
    before = queries.revision(context).revision
    body = json.dumps(NOTE).encode()
    told = asking.ask("POST", f"{AT}/notes", [body], {**JSON, "content-length": str(MAX_BODY_BYTES + 1)})
    assert told.status == 413
    large = [b"x" * (1 << 20)] * 5
    assert asking.ask("POST", f"{AT}/notes", large, JSON).status == 413
    assert asking.ask("POST", f"{AT}/notes", [body[:5], None], JSON).status == 0  # no one is there to be told
    assert queries.revision(context).revision == before
    assert asking.ask("POST", f"{AT}/notes", [b"", body[:5], b"", body[5:]], JSON).status == 200
    slow = asyncio.run(_slowly(asking.app))
    assert (slow["status"], queries.revision(context).revision) == (408, before + 1)


async def _slowly(app: ASGIApp) -> Message:
    told: list[Message] = []
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]

    async def receive() -> Message:
        await asyncio.sleep(3_600)
        return {}

    async def send(message: Message) -> None:
        told.append(message)

    scope: dict[str, Any] = {
        "type": "http", "method": "POST", "path": f"{AT}/notes", "headers": headers,
    }  # fmt: skip
    await app(scope, receive, send)
    return told[0]


def test_where_we_fail_nothing_of_why_is_told(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    def fail(desk: object, actor: Actor, call: HttpCall) -> HttpAnswer:
        raise RuntimeError("arms_canary")

    listener = Listener(local=MARA)
    asking = Asking(app=Api(at_desk(context), [Route(("GET",), "/api/x", "read", fail)], listener=listener))
    found = asking.get("/api/x")
    asking.close()
    assert (found.status, found.document["code"]) == (500, "internal")
    assert "canary" not in found.body.decode()
    assert "request failed" in caplog.text


# Ten thousand bodies that are none


def malformed(dice: random.Random, body: bytes, *, knows_all_fields: bool) -> bytes:
    """A body that says something sound, made unsound."""
    sound = json.loads(body)
    first = next(iter(sound), "key")
    ways = [
        lambda: body[: dice.randrange(len(body))],
        lambda: body[:-1] + dice.choice([b', "x": NaN}', b', "x": 1e999}', b', "x": Infinity}']),
        lambda: (
            body[:-1] + dice.choice([b', "\\ud800": 1}', b', "x": "\\udc00"}', b', "x": "\xed\xa0\x80"}'])
        ),
        lambda: b'{"%s": 1, ' % first.encode() + body[1:] if sound else b'{"a": 1, "a": 2}',
        lambda: json.dumps(dice.choice([None, 3, "x", [], [sound], True])).encode(),
        lambda: b"[" * dice.choice([65, 1_000, 10_000]),
        lambda: b'{"x":' * 100 + body + b"}" * 100,
        lambda: body.replace(b'"', b"'") if b'"' in body else b"{'",
        lambda: body.replace(b":", b":\x00", 1) + b"\x00",
        lambda: b"\xff\xfe" + body,
        lambda: body + body,
        lambda: dice.randbytes(dice.randrange(1, 60)),
        lambda: json.dumps({**sound, first: {"a": [1]}} if sound else {"q": 1}).encode(),
        lambda: json.dumps({**sound, "arm": "\x00" * 3, "zz": 10**30}).encode(),
    ]
    if knows_all_fields:  # KAIROS's calls may have others
        ways.append(lambda: json.dumps({**sound, "abc": dice.choice([None, 0, [], {}])}).encode())
    return dice.choice(ways)()


def bodies(n: int) -> Iterator[tuple[Route, str, bytes]]:
    dice = random.Random(13)
    writing = [route for route in ROUTES if route.methods != ("GET",) and route.takes != (api.BYTES,)]
    for number in range(n):
        route = writing[number % len(writing)]
        path, body = example_of(route)
        yield route, path, malformed(dice, body, knows_all_fields=path.startswith("/api/v1/"))


@pytest.mark.parametrize("n_bodies", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_malformed_bodies_change_nothing(context: Context, asking: Asking, n_bodies: int) -> None:
    before = queries.revision(context).revision
    for route, path, body in bodies(n_bodies):
        found = asking.ask(route.methods[0], path, [body], {"content-type": route.takes[0]})
        assert found.status < 500, (path, body, found.body)
        if found.status == 207:
            assert not any(line["ok"] for line in found.lines), (path, body)
        else:
            assert found.status >= 400, (path, body, found.body)
    assert queries.revision(context).revision == before
