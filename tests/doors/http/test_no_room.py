"""The folder for temporary files refuses: it is full, or gone. The answer names it, and nothing is done."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from tests.doors.http.asking import Asking
from tests.worlds import a_run, run_line

AT = "/api/v1/learners/default"
LINES = b"".join(
    json.dumps(run_line(f"x{number}", session="y" * 200)).encode() + b"\n" for number in range(2_000)
)
ARMS = [[f"{group}-{n}-{'a' * 60}" for n in range(9)] for group in range(50)]
REWARD = json.dumps({"arm": f"tool:other:{ARMS[0][0]}", "value": 0.5, "reason": "z" * 200}).encode() + b"\n"
REQUESTS = {
    "import": ("POST", f"{AT}/imports?file=a.jsonl", LINES, "application/octet-stream"),
    "batch": ("POST", f"{AT}/rewards:batch", REWARD * 2_000, "application/x-ndjson"),
    "export": ("GET", f"{AT}/export", b"", ""),
    "backup": ("GET", "/api/v1/backup", b"", ""),
    "training": ("POST", f"{AT}/training", b'{"format": "reward_jsonl"}', "application/json"),
}


@contextmanager
def full() -> Iterator[None]:
    """Files of this process may not grow beyond what is too little for each of the requests."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def gone(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(folder / "gone"))
        yield


@pytest.mark.parametrize("name", REQUESTS)
def test_a_refusal_of_the_folder_for_temporary_files_is_named(
    name: str, context: Context, asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_all(context, [a_run(f"m{number}", arms=ARMS[number % 50]) for number in range(1_500)])
    before = queries.revision(context)
    method, path, body, kind = REQUESTS[name]
    headers = {"content-type": kind} if kind else {}
    with gone(tmp_path):
        refused = [asking.ask(method, path, [body], headers)]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with full():
        refused.append(asking.ask(method, path, [body], headers))
    for answer in refused:
        if name == "training" and answer is refused[1]:  # its rows are few
            continue
        assert (answer.status, answer.document["code"]) == (507, "store_full")
        assert str(tmp_path) in answer.document["error"]
        assert "TMPDIR" in answer.document["next"]
    assert queries.revision(context) == before
    assert asking.ask(method, path, [body], headers).status in {200, 207}
    assert not [one for one in tmp_path.iterdir() if one.name.startswith("armscope-")]
