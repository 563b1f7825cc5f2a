"""/api/v1: what programs are told by a route is what the verb's command tells them; the same again counts once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import get_type_hints
from urllib.parse import quote

import msgspec
import pytest

from core.doors.http import own
from core.doors.verbs import VERBS, verb
from core.flows import learn, queries
from core.flows.context import Context
from core.records.actor import Actor
from core.store.schema import HEAD
from tests.doors.examples import ARM, RUN, SESSION
from tests.doors.http.asking import Asking
from tests.doors.http.conftest import Asked
from tests.worlds import a_run

AT = "/api/v1/learners/default"
ACTS: Mapping[str, str] = {
    "select": "select",
    "record": "runs",
    "reward": "rewards",
    "reward_run": "rewards",
    "reward_batch": "rewards:together",
    "outcomes": "runs:outcomes",
    "evaluate": "evaluations",
    "note": "notes",
    "confirm_browser": "browsers",
    "repair": "repairs",
    "reset": "resets",
    "record_step": "steps",
    "mark_incomplete": "episodes:incomplete",
    "declare": "scales",
    "credit_episode": "credits",
    "undo": "undo",
    "redo": "redo",
    "accept_price": "settings:accept-price",
}
PAID: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "episodes": ("environments", {}),
    "lint": ("environments/sums/findings", {"environment": "sums"}),
    "compare": ("environments/sums/models", {"environment": "sums"}),
    "episode": ("episodes/sums%2F1", {"uid": "sums/1"}),
    "episode_list": ("episodes", {}),
    "compare_sides": (
        f"sides?a.run={RUN}&b.class=baseline&b.class=imported",
        {"a": {"run": RUN}, "b": {"class": ["baseline", "imported"]}},
    ),
    "session": (f"sessions/{SESSION}?limit=5&texts=true", {"name": SESSION, "limit": 5, "texts": True}),
    "versions": (f"arms/{quote(ARM, safe='')}/versions", {"arm": ARM}),
}
"""What is told of episodes: the route, and what its verb is asked with."""
LOOKS = ("status", "traces", "rollouts", "settings", "agreement", "carried")
LISTS = ("posteriors", "arms", "runs", "sessions", "evaluations", "acts", "audit")


def test_what_is_looked_at_is_what_commands_tell(context: Context, asking: Asking) -> None:
    for name in (*LOOKS, "verify", "learners"):
        one = verb(name)
        told = json.loads(msgspec.json.encode(one.plain(context, one.respond(context, one.decode({})))))
        found = asking.get(f"/api/v1/{name}" if one.whole else f"{AT}/{name}").document
        assert found == (
            {"items": told, "next": None} if name in {"learners", "traces", "rollouts"} else told
        ), name
    story = verb("run")
    told = story.plain(context, story.respond(context, story.decode({"name": RUN})))
    assert asking.get(f"{AT}/runs/{RUN}").document == json.loads(msgspec.json.encode(told))
    assert asking.get(f"{AT}/savings").document["overall"]["baseline"]["n_runs"] == 0
    for name, (route, asked) in PAID.items():
        one = verb(name)
        plain = one.plain(context, one.respond(context, one.decode(asked)))
        told = json.loads(msgspec.json.encode(plain))
        found = asking.get(f"{AT}/{route}").document
        if name in {"episodes", "episode_list", "lint"}:
            told = {"items": told["rows"] if name == "episode_list" else told, "next": None}
        assert found == told, name


def test_environments_are_told_by_name_page_by_page(context: Context, asking: Asking) -> None:
    for environment, model in (("b", "m1"), ("a", "m2"), ("a", "m1")):
        episode = f"{environment}/{model}"
        said = {"environment": environment, "model": model, "reward": 1.0, "number": 0}
        for _ in range(2):  # sent again, it counts once
            assert asking.post(f"{AT}/steps", {"episode": episode, **said}).document["steps"] == 1
        assert asking.post(f"{AT}/steps", {"episode": episode, **said, "reward": 0.5}).status == 409
    one = verb("episodes")
    told = json.loads(msgspec.json.encode(one.plain(context, one.respond(context, one.decode({})))))
    first = asking.get(f"{AT}/environments?limit=2").document
    second = asking.get(f"{AT}/environments?limit=2&cursor={first['next']}").document
    assert (first["items"] + second["items"], second["next"]) == (told, None)
    assert [seen["environment"] for seen in told] == ["a", "b", "sums"]
    (seen,) = asking.get(f"{AT}/environments?environment=a&model=m2").document["items"]
    assert (seen["environment"], seen["n"], seen["average"]["value"]) == ("a", 1, 1.0)
    assert asking.get(f"{AT}/environments?enviroment=a").status == 400
    assert asking.get(f"{AT}/episodes/nobody").status == 404


@pytest.mark.parametrize("name", LISTS)
def test_pages_of_a_list_are_the_whole_list(name: str, context: Context, asking: Asking) -> None:
    made = [a_run(f"r{n}", at_ms=None if n % 3 else 1_790_000_000_000) for n in range(9)]
    learn.record_all(context, [msgspec.structs.replace(run, session=f"s{n}") for n, run in enumerate(made)])
    whole = asking.get(f"{AT}/{name}?limit=1000").document
    assert whole["next"] is None
    assert asking.items(f"{AT}/{name}", 2) == whole["items"]
    assert len(whole["items"]) > 2


@pytest.mark.parametrize("name", ["traces", "rollouts", "runs"])
def test_a_misspelt_field_of_a_list_is_refused(name: str, asking: Asking) -> None:
    answer = asking.get(f"{AT}/{name}?limt=2")
    assert answer.status == 400
    assert "must be of limit, cursor" in answer.document["error"]


def test_a_page_goes_on_where_it_ended_whatever_comes_meanwhile(context: Context, asking: Asking) -> None:
    learn.record_all(context, [a_run(f"r{n}") for n in range(4)])
    first = asking.get(f"{AT}/runs?limit=2").document
    learn.record(context, a_run("newer", at_ms=1_790_000_000_001))
    second = asking.get(f"{AT}/runs?limit=9&cursor={first['next']}").document
    assert [run["uid"] for run in first["items"] + second["items"]] == ["r3", "r2", "r1", "r0", RUN]


def test_what_has_not_changed_is_not_told_again(context: Context, ask_as: Asked) -> None:
    asking = ask_as(viewer=Actor(name="vi", role="viewer"))
    for name in (*LOOKS, *LISTS[:-1], "savings", f"runs/{RUN}"):
        tag = asking.get(f"{AT}/{name}").headers["etag"]
        assert tag.startswith(f'"{queries.revision(context).revision}-')
        again = asking.get(f"{AT}/{name}", if_none_match=f'"x", W/{tag}')
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert asking.get(f"{AT}/{name}", if_none_match=tag, authorization="Bearer viewer").status == 200
    asking.post(f"{AT}/notes", {"arm": ARM, "text": "slow"})
    assert asking.get(f"{AT}/status", if_none_match=tag).status == 200


def test_series_are_told_window_by_window(asking: Asking) -> None:
    for metric in ("tokens", "pulls", "convergence"):
        found = asking.get(f"{AT}/timeseries?metric={metric}&window=1h").document
        assert (found["metric"], found["window"]) == (metric, "1h")
        assert found["points"], metric
    assert asking.get(f"{AT}/timeseries?metric=moods").status == 400


def test_exports_are_the_file(context: Context, asking: Asking) -> None:
    whole = asking.get(f"{AT}/export")
    assert whole.headers["armscope-compacted-runs"] == "0"
    lines = whole.lines
    assert {line["kind"] for line in lines} >= {"learner", "arm", "run", "reward"}
    assert asking.get(f"{AT}/export?format=json").document["posteriors"]
    assert asking.get(f"{AT}/export?format=csv").body.startswith(b"armId,")
    assert asking.get(f"{AT}/export?format=pickle").document["code"] == "invalid_input"


# The same again


def test_a_key_counts_once(context: Context, asking: Asking) -> None:
    for path, asked in (
        ("rewards", {"arm": ARM, "value": 0.25}),
        ("rewards", {"run": RUN, "value": 0.5}),
        ("notes", {"arm": ARM, "text": "slow"}),
        ("evaluations", {"subject": RUN, "outcome": "success", "rater": "zoe"}),
        ("resets", {"arms": [ARM], "reason": "changed"}),
    ):
        key = f"{path}-{len(asked)}-{'run' in asked}"
        first = asking.post(f"{AT}/{path}", asked, idempotency_key=key)
        known = queries.posteriors(context), queries.rewards(context, limit=99)
        assert first.status == 200
        assert asking.post(f"{AT}/{path}", {**asked, "key": key}).document == first.document
        other = {**asked, **({"text": "other"} if "text" in asked else {"value": 0.75})}
        if path == "resets":
            other = {**asked, "target": "prior"}
        if "subject" not in asked:
            assert asking.post(f"{AT}/{path}", other, idempotency_key=key).status == 409
        assert (queries.posteriors(context), queries.rewards(context, limit=99)) == known
    both = asking.post(f"{AT}/notes", {"arm": ARM, "text": "x", "key": "a"}, idempotency_key="b")
    assert (both.status, both.document["code"]) == (400, "invalid_input")
    reused = asking.post(f"{AT}/resets", {}, idempotency_key="notes-2-False")
    assert (reused.status, reused.document["code"]) == (409, "conflict")


def test_batches_say_of_each_line_what_came_of_it(context: Context, asking: Asking) -> None:
    sent = [
        {"kind": "run", "uid": "b1", "arms": [ARM], "calls": ["search"]},
        b"nonsense",
        {"kind": "run", "uid": RUN, "arms": ["tool:fs:Other"]},
        {"run": {"uid": "b2", "inventory": {"kind": "declared", "arms": [{"key": ARM}]}}, "ended_now": True},
        {"kind": "run", "uid": "b3", "arms": [ARM], "arms ": []},
        {"kind": "reset", "uid": "b4"},
        {"kind": "run", "uid": "b1", "arms": [ARM], "calls": ["search"]},
        {"kind": "run", "uid": "b5", "arms": [ARM], "outcome": "observed"},
    ]
    found = asking.send_lines(f"{AT}/runs:batch", sent)
    assert found.status == 207
    assert [line["line"] for line in found.lines] == list(range(1, 9))
    assert [line.get("told", line.get("code")) for line in found.lines] == [
        "new", "invalid_input", "conflict", "new", "invalid_input", "invalid_input", "duplicate", "invalid_input",
    ]  # fmt: skip
    again = asking.send_lines(f"{AT}/runs:batch", [sent[0], sent[3]])
    assert [line["told"] for line in again.lines] == ["duplicate", "duplicate"]
    assert queries.revision(context).n_runs == 3
    rewards = [{"arm": ARM, "value": 0.5}, {"arm": ARM, "value": 7}, {"arm": "tool:no:one", "value": 1}]
    given = asking.send_lines(f"{AT}/rewards:batch", rewards, idempotency_key="table")
    assert [line.get("code") for line in given.lines] == [None, "invalid_reward", "unknown_arm"]
    known = queries.rewards(context, limit=99)
    assert asking.send_lines(f"{AT}/rewards:batch", rewards, idempotency_key="table").lines == given.lines
    assert queries.rewards(context, limit=99) == known


def test_a_batch_is_not_one_body(context: Context, asking: Asking) -> None:
    """Six MiB in lines of which one is too long, in pieces that end wherever they end."""
    lines = [b'{"kind":"run","uid":"long%d","arms":["tool:web:search"]}' % n for n in range(3)]
    lines.insert(1, b'{"kind":"run","uid":"' + b"x" * (5 << 20) + b'"}')
    body = b"\n".join(lines) + b"\r\n" * 3
    pieces = [body[start : start + 70_001] for start in range(0, len(body), 70_001)]
    found = asking.ask("POST", f"{AT}/runs:batch", pieces, {"content-type": "application/x-ndjson"})
    assert [line.get("told", line.get("code")) for line in found.lines] == [
        "new", "invalid_input", "new", "new",
    ]  # fmt: skip


def test_a_batch_that_is_cut_off_is_not_there_and_comes_again(context: Context, asking: Asking) -> None:
    lines = [b'{"kind":"run","uid":"c%d","arms":["tool:web:search"]}\n' % n for n in range(1_500)]
    kind = {"content-type": "application/x-ndjson"}
    assert asking.ask("POST", f"{AT}/runs:batch", [*lines, None], kind).status == 0
    assert queries.revision(context).n_runs == 1
    found = asking.ask("POST", f"{AT}/runs:batch", lines, kind)
    assert [line["told"] for line in found.lines] == ["new"] * 1_500


# The document


def test_no_route_reaches_files_of_the_server() -> None:
    """A path in a body would be one on the server's disk."""
    reached = {one.verb.name for one in (row.text for row in own.ROWS) if one.verb is not None}
    with_paths = {
        one.name for one in VERBS if any("Path" in str(kind) for kind in get_type_hints(one.input).values())
    }
    assert with_paths
    assert not reached & with_paths


def test_the_search_takes_its_words_and_kinds_from_the_query(context: Context, asking: Asking) -> None:
    one = verb("search")
    wanted = one.decode({"words": "request 1", "kinds": ["run", "arm"], "limit": 1})
    found = asking.get(f"{AT}/search?words=request%201&kinds=run&kinds=arm&limit=1")
    assert found.document == json.loads(msgspec.json.encode(one.plain(context, one.respond(context, wanted))))
    assert [hit["id"] for hit in found.document["hits"]] == [RUN]
    hostile = asking.get(f"{AT}/search?words={'%22' * 5_000}%00")
    assert (hostile.status, hostile.document["hits"]) == (200, [])
    assert asking.get(f"{AT}/search?word=x").status == 400


def test_every_verb_is_a_route_or_of_this_machine(asking: Asking) -> None:
    """What is not offered is named, so that a verb that is added is thought about."""
    offered = {
        *ACTS,
        *LOOKS,
        *LISTS,
        *PAID,
        "run",
        "learners",
        "verify",
        "change",
        "search",
        "browsers",
        "outcome",
        "plan_trial",
        "read_trial",
        "trials",
        "trial_result",
        "plan_experiment",
        "start_experiment",
        "share_experiment",
        "stop_experiment",
        "experiments",
        "experiment_result",
    }
    kept = {one.name for one in VERBS} - offered
    assert kept == {
        "backup", "compact", "create_learner", "erase", "export", "export_bundle", "export_training", "import",
        "add_queue", "queues", "next_item", "rubrics", "add_rubric", "members", "add_member", "invite_member",
        "preview_declare",
        "set_role", "sign_out_member", "remove_member", "tokens", "create_token", "revoke_token", "denials",
        "alerts", "add_webhook", "remove_webhook",
            "senders", "add_sender", "remove_sender",
    }  # fmt: skip
    local = {one.name for one in VERBS if not one.route} - {"audit", "episode_list"}
    assert local | {"compact", "erase"} == {one.name for one in VERBS} - offered


def test_a_setting_is_put_by_its_name(context: Context, asking: Asking) -> None:
    kind = {"content-type": "application/json"}
    found = asking.ask("PUT", f"{AT}/settings/k", [b'{"value": 3}'], kind)
    assert (found.status, found.document["value"], found.document["before"]) == (200, 3, 0)
    assert asking.get(f"{AT}/settings").document["k"] == 3
    found = asking.ask("PUT", f"{AT}/settings/seed_arms", [b'{"value": []}'], kind)
    assert (found.status, found.document["value"]) == (200, [])
    assert asking.ask("PUT", f"{AT}/settings/k", [b'{"value": 3, "name": "x"}'], kind).status == 400
    assert asking.ask("PUT", f"{AT}/settings/nothing", [b'{"value": 3}'], kind).document["code"] == (
        "invalid_setting"
    )


def test_ready_is_who_can_read_the_schema_and_alive_who_answers(context: Context, asking: Asking) -> None:
    def stamped(version: str) -> list[int]:
        sql = f"UPDATE alembic_version SET version_num = '{version}'"
        context.store.database.write(lambda connection: connection.run(sql))
        return [asking.get(path).status for path in ("/livez", "/healthz", "/readyz")]

    assert stamped("9999") == [200, 503, 503]
    answer = asking.get("/readyz").document
    assert (answer["code"], "9999 of a newer" in answer["error"]) == ("schema_mismatch", True)
    assert stamped(HEAD) == [200, 200, 200]
