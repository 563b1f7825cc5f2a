"""A disk that fills and clients that break off, at a real server: what was answered 2xx is there, the rest isn't."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import urllib3

from core import open_learner
from core.flows import queries
from core.flows.context import Context
from core.flows.learn import record_all
from tests.bench.servers import free_port, wait_for
from tests.doors.examples import ARM
from tests.doors.http.asking import Asking
from tests.doors.http.slow import server
from tests.doors.http.test_served import PATIENCE_S
from tests.store.child import Living
from tests.worlds import a_run, run_line

AT: Final = "/api/v1/learners/agents"
N_LINES: Final = 3_000
_LINES: Final = [
    {
        "kind": "run",
        "uid": f"r{number}",
        "arms": [ARM],
        "calls": ["search"],
        "session": f"s{number}" + "x" * 100,
    }
    for number in range(N_LINES)
]
NOW_MS = "/api/v1/learners/default"
LINES = b"".join(
    json.dumps(run_line(f"x{number}", session="y" * 200)).encode() + b"\n" for number in range(2_000)
)
ARMS = [[f"{group}-{n}-{'a' * 60}" for n in range(9)] for group in range(50)]
REWARD = json.dumps({"arm": f"tool:other:{ARMS[0][0]}", "value": 0.5, "reason": "z" * 200}).encode() + b"\n"
REQUESTS = {
    "import": ("POST", f"{NOW_MS}/imports?file=a.jsonl", LINES, "application/octet-stream"),
    "batch": ("POST", f"{NOW_MS}/rewards:batch", REWARD * 2_000, "application/x-ndjson"),
    "export": ("GET", f"{NOW_MS}/export", b"", ""),
    "backup": ("GET", "/api/v1/backup", b"", ""),
    "training": ("POST", f"{NOW_MS}/training", b'{"format": "reward_jsonl"}', "application/json"),
}


@contextmanager
def limited_server(folder: Path, most_bytes: int) -> Iterator[str]:
    """``armscope api`` on a disk that takes files of so many bytes at most; its address."""
    port = free_port()
    line = ("--database", str(folder / "a.db"), "--learner", "agents", "api", "--port", str(port))
    process = Living("limited", str(most_bytes), *line)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.end()


def sent(place: str, path: str, body: bytes, kind: str = "application/json") -> tuple[int, list[Any]]:
    found = urllib3.request(
        "POST",
        f"{place}{AT}/{path}",
        body=body,
        headers={"Content-Type": kind},
        retries=False,
        timeout=PATIENCE_S,
    )
    return found.status, [json.loads(line) for line in found.data.splitlines()]


def sent_lines(place: str) -> list[Any]:
    status, told = sent(place, "runs:batch", b"".join(map(_line, _LINES)), "application/x-ndjson")
    assert status == 207
    assert [one["line"] for one in told] == list(range(1, N_LINES + 1))
    return told


def _line(run: object) -> bytes:
    return json.dumps(run).encode() + b"\n"


def standing(folder: Path) -> set[str]:
    with open_learner(folder / "a.db", "agents") as learner:
        assert learner.verify().clean
        return {run.uid for run in learner.runs(2 * N_LINES)}


@pytest.mark.long
def test_where_the_disk_fills_in_a_batch_each_line_is_told_whether_it_stands(tmp_path: Path) -> None:
    with limited_server(tmp_path, 900_000) as place:
        told = sent_lines(place)
        stand = {run["uid"] for run, one in zip(_LINES, told, strict=True) if one["ok"]}
        assert 0 < len(stand) < N_LINES
        assert {one["code"] for one in told if not one["ok"]} == {"store_full"}
        rewards = {"rewards": [{"arm": ARM, "value": 0.5, "reason": "x" * 300}] * 4_000}
        status, (refused,) = sent(place, "rewards:together", _line(rewards))
        assert (status, refused["code"]) == (507, "store_full"), "all of it or nothing"
        seen = urllib3.request("GET", f"{place}{AT}/status", retries=False)
        assert (seen.status, seen.json()["runs"]) == (200, len(stand)), "it is read as before"
    assert standing(tmp_path) == stand
    with limited_server(tmp_path, 1 << 30) as place:
        again = sent_lines(place)
        assert {
            run["uid"] for run, one in zip(_LINES, again, strict=True) if one["told"] == "duplicate"
        } == stand
        assert all(one["ok"] for one in again)
    assert len(standing(tmp_path)) == N_LINES


def test_a_body_that_stops_is_not_there_and_one_that_creeps_is(tmp_path: Path) -> None:
    port = free_port()
    with server(tmp_path, port):
        creeping = [_broken(port, f"c{number}", whole=True) for number in range(4)]
        for number in range(4):
            _broken(port, f"b{number}", whole=False).close()
        for connection in creeping:
            head = connection.makefile("rb").readline()
            assert head.startswith(b"HTTP/1.1 200"), head
            connection.close()
    assert standing(tmp_path) == {f"c{number}" for number in range(4)}


def _broken(port: int, uid: str, *, whole: bool) -> socket.socket:
    """A connection over which a run was sent bit by bit; or half of it, as one line of a batch or as a body."""
    body = _line({"kind": "run", "uid": uid, "arms": [ARM], "calls": ["search"]})
    path, kind = ("runs:batch", "x-ndjson") if uid == "b0" else ("runs", "json")
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    head = (
        f"POST {AT}/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/{kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode())
    for start_at in range(0, len(body) if whole else len(body) // 2, 7):
        connection.sendall(body[start_at : start_at + 7])
        time.sleep(0.005)
    return connection


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
