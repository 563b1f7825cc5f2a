"""The OpenAPI document describes all that is answered, with examples, and a client made from it has its types."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
from schemathesis.specs.openapi import definitions

from core import guide
from core.doors.exchange import JSON
from core.doors.http.api import openapi
from core.doors.http.app import Api
from core.doors.http.guard import Listener
from core.doors.http.routes import NDJSON
from core.doors.http.serving import ROUTES
from core.flows import queries
from core.flows.context import Context
from core.records.actor import Actor, Grant
from tests.conformance.environments import alone, python_with
from tests.doors.examples import ARM
from tests.doors.http.answers import asked, examples
from tests.doors.http.asking import Asking
from tests.doors.http.conforming import check, resolved, validator, validator_of
from tests.doors.http.conftest import LOCAL, Asked, at_desk
from tests.doors.http.test_served import served
from tests.worlds import context_at

NOT_SHOWN = {"get_openapi", "export_training"}
"""The document itself, and rows that a small world does not have."""
PACKAGES: Final = ("openapi-python-client==0.29.1", "openapi-spec-validator==0.9.0", "mypy==2.4.1")
_PATIENCE_S: Final = 600
_CONFIG: Final = (
    guide.path_of("http").read_text("utf-8").partition("config.yml`:\n\n```\n")[2].partition("```")[0]
)
_PROGRAM: Final = """
import sys
from armscope_client import Client
from armscope_client.api.arms import list_posteriors
from armscope_client.api.rewards import reward
from armscope_client.api.runs import get_run, list_runs, record
from armscope_client.api.selection import select
from armscope_client.models import (
    Arm, Call, Error, Inventory, InventoryKind, RecordInput, RewardInput, RewardRunInput, Run, SelectInput,
)

client = Client(sys.argv[1])
chosen = select.sync("default", client=client, body=SelectInput(budget_tokens=8000))
assert chosen is not None and not isinstance(chosen, Error)
arms = [one.arm for one in chosen.decisions if one.included]

inventory = Inventory(kind=InventoryKind.DECLARED, arms=[Arm(key=one, token_cost=100) for one in arms])
run = Run(uid="of-a-client", inventory=inventory, calls=[Call(name=arms[0].rpartition(":")[2])])
recorded = record.sync("default", client=client, body=RecordInput(run=run, ended_now=True))
assert recorded is not None and not isinstance(recorded, Error)

given = reward.sync("default", client=client, body=RewardRunInput(run="of-a-client", value=0.5))
assert given is not None and not isinstance(given, Error) and not hasattr(given, "arm")
lone = reward.sync("default", client=client, body=RewardInput(arm=arms[0], value=0.25))
assert lone is not None and not isinstance(lone, Error)

story = get_run.sync("default", "of-a-client", client=client)
assert story is not None and not isinstance(story, Error) and story.ended_at is not None
runs = list_runs.sync("default", client=client, limit=1)
assert runs is not None and not isinstance(runs, Error)
learned = list_posteriors.sync("default", client=client)
assert learned is not None and not isinstance(learned, Error)
unknown = get_run.sync("default", "nobody", client=client)
assert isinstance(unknown, Error)

pulls: int = sum(one.pulls for one in learned.items)
print(recorded.told.value, story.ended_at.year > 2000, runs.items[0].uid, unknown.code, pulls > 0, *arms)
"""


def operations() -> Iterator[Any]:
    for methods in openapi()["paths"].values():
        yield from methods.values()


def answers() -> Iterator[tuple[str, str, str, Any]]:
    """Operation, status and media type of each answer that has an example, and the example."""
    for operation in operations():
        for status, response in operation["responses"].items():
            for media, content in resolved(response).get("content", {}).items():
                if "example" in content:
                    yield operation["operationId"], status, media, content["example"]


def test_the_document_is_one() -> None:
    document = openapi()
    definitions.OPENAPI_31_VALIDATOR.validate(document)
    names = [operation["operationId"] for operation in operations()]
    assert len({*names}) == len(names)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in names)
    assert {tag for operation in operations() for tag in operation["tags"]} == {
        tag["name"] for tag in document["tags"]
    }
    assert all(re.fullmatch("[A-Z][A-Za-z]+", name) for name in document["components"]["schemas"])
    for kind, name in re.findall(r'"#/components/(\w+)/([^"]+)"', json.dumps(document)):
        assert name in document["components"][kind], (kind, name)
    assert document["servers"] == [{"url": "/"}]
    for parameter in (resolved(one) for operation in operations() for one in operation["parameters"]):
        assert parameter.get("description") or parameter["schema"].get("description"), parameter


def test_each_operation_is_answered_to_its_example_as_it_shows(
    context: Context, world: Path, tmp_path: Path
) -> None:
    reading = Asking(app=Api(at_desk(context), ROUTES, listener=LOCAL))
    for number, one in enumerate(examples()):
        if one.method == "GET":
            found = asked(reading, one)
            tag = found.headers.get("etag")
            if tag is not None:
                assert reading.get(one.path, if_none_match=tag).status in {200, 304}
        else:
            shutil.copytree(world, tmp_path / str(number))
            copy = context_at(tmp_path / str(number) / "a.db")
            asking = Asking(app=Api(at_desk(copy), ROUTES, listener=LOCAL))
            found = asked(asking, one)
            asking.close()
            copy.store.close()
        assert found.status in {200, 207}, (one, found)
    reading.close()


def test_each_operation_shows_what_is_sent_and_answered() -> None:
    shown = {name for name, _, _, _ in answers()}
    for operation in operations():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            example = content["example"]
            assert isinstance(example, str) or validator_of(content["schema"]).is_valid(example)
        done = next(one for status, one in operation["responses"].items() if status.startswith("2"))
        if operation["operationId"] not in shown:
            assert {JSON, NDJSON}.isdisjoint(done["content"]) or operation["operationId"] in NOT_SHOWN


def test_what_is_shown_is_of_its_schema_which_admits_nothing_else() -> None:
    n_closed = 0
    for name, status, media, example in answers():
        if media != JSON:
            continue
        schema = validator(name, status, media)
        schema.validate(example)
        for field in example:
            without = {key: value for key, value in example.items() if key != field}
            n_closed += not schema.is_valid(without)
        assert not schema.is_valid({**example, "more": 1}), name
    assert n_closed > 200


def test_an_answer_that_is_not_described_is_found() -> None:
    headers = {"x-request-id": "1", "content-type": JSON}
    version = {"name": "armscope", "version": "1"}
    check("GET", "/api/v1/version", 200, headers, json.dumps(version).encode())
    for status, sent, document in (
        (200, headers, {**version, "more": 1}),
        (200, headers, {"name": "armscope"}),
        (200, headers, {**version, "version": 1}),
        (200, {"content-type": JSON}, version),
        (200, {**headers, "content-type": "text/plain"}, version),
        (200, {**headers, "etag": "x"}, version),
        (201, headers, version),
        (404, headers, version),
    ):
        with pytest.raises((AssertionError, jsonschema_rs.ValidationError)):
            check("GET", "/api/v1/version", status, sent, json.dumps(document).encode())


def test_limits_of_a_token_are_described(ask_as: Asked) -> None:
    who = Actor(name="token:bot", role=None, grants=(Grant(role="read"),), token=3)
    asking = ask_as(Listener(), bot=who)
    for path in ("version", "learners/default/status", "learners/default/audit", "learners/none/status"):
        found = asking.get(f"/api/v1/{path}", authorization="Bearer bot")
        assert "ratelimit-remaining" in found.headers, path
    assert asking.get("/api/v1/version").headers["www-authenticate"] == "Bearer"


@pytest.mark.long
def test_a_generated_client_selects_records_rewards_and_reads(context: Context, tmp_path: Path) -> None:
    python = python_with(tmp_path, *PACKAGES)
    (tmp_path / "openapi.json").write_text(json.dumps(openapi()), encoding="utf-8")
    (tmp_path / "config.yml").write_text(_CONFIG, encoding="utf-8")
    (tmp_path / "program.py").write_text(_PROGRAM, encoding="utf-8")
    _run(tmp_path, python, "-m", "openapi_spec_validator", "openapi.json")
    generated = _run(
        tmp_path, python, "-m", "openapi_python_client", "generate", "--config", "config.yml",
        "--path", "openapi.json", "--output-path", "client",
    )  # fmt: skip
    assert {"WARNING", "Unable"}.isdisjoint(generated.split()), "nothing of the document is left out"
    _run(tmp_path, python, "-m", "mypy", "--strict", "client/armscope_client", "program.py")
    with served(context) as url:
        told, is_late, uid, code, has_pulls, *arms = _run(tmp_path, python, "program.py", url).split()
    assert (told, is_late, uid, code, has_pulls) == ("new", "True", "of-a-client", "unknown_run", "True")
    assert ARM in arms
    assert {one.arm for one in queries.run(context, "of-a-client").arms} == {*arms}
    assert sum(len(arm.by_hand) for arm in queries.run(context, "of-a-client").arms) > 0


def _run(folder: Path, *line: Path | str) -> str:
    """What a command prints; it succeeds."""
    paths = {"PATH": f"{folder / 'venv' / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(folder / "client")}
    variables = {**alone(), **paths, "MYPYPATH": paths["PYTHONPATH"]}
    words: Sequence[str] = [*map(str, line)]
    done = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done.stdout + done.stderr
