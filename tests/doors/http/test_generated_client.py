"""A client that a package generates from the document has the types of all answers, and works on a real server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from core import guide
from core.doors.http.api import openapi
from core.flows import queries
from core.flows.context import Context
from tests.conformance.environments import alone, python_with
from tests.doors.examples import ARM
from tests.doors.http.test_served import served

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
