"""A real server: the session with curl of the guide, and agents whose server is killed under them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from core import Client, Learner, open_learner
from core.client import Unreachable
from core.doors.http.serving import doors
from core.doors.service import Service
from core.errors import InvalidInput
from core.flows.audit import denials
from core.flows.context import Context
from tests.bench.servers import free_port
from tests.doors.examples import ARM, example_world
from tests.doors.http.slow import BELOW, server
from tests.engine import kept_in
from tests.terminal import script, warm
from tests.test_readme import blocks
from tests.worlds import context_at
from tests.worlds.training import judged

PATIENCE_S = 120.0


@contextmanager
def served(context: Context, *, learner: str = "default") -> Iterator[str]:
    """Every door in a thread of this process, with this context's clock and dice."""
    service = Service(store=context.store, learner=learner, clock=context.clock, entropy=context.entropy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", "mara")  # whoever asks without a token
        app = doors(service)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the program's own
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error", proxy_headers=False))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Context, str]]:
    context = example_world(tmp_path_factory.mktemp("served"))
    with served(context) as url:
        yield context, url
    context.store.close()


def test_files_go_over_the_wire_as_they_are(tmp_path: Path) -> None:
    """Transcripts in, alone and several; rows to train on and a backup out; and erased is erased."""
    (tmp_path / "here").mkdir()
    context = judged(tmp_path / "here", 20)
    context.store.close()
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    learner = Learner(context_at(tmp_path / "there" / "a.db"))
    one, two, tools = tmp_path / "one.jsonl", tmp_path / "two.jsonl", tmp_path / "tools.json"
    one.write_bytes(chat("one", "search"))
    two.write_bytes(chat("two", "fetch") * 3)
    tools.write_text('["search", "fetch"]')
    context = context_at(tmp_path / "here" / "a.db")
    with served(context) as url, Client(url) as client:
        for paths in ([one], [one, two], [tmp_path / "one.jsonl", two]):
            ours = learner.import_files(*paths, tools_file=tools)
            theirs = client.import_files(*paths, tools_file=tools)
            assert (theirs.id, theirs.runs, theirs.duplicates) == (ours.id, ours.runs, ours.duplicates)
        assert client.status().runs == learner.status().runs
        theirs_made = client.export_training(tmp_path / "theirs.jsonl", "reward_jsonl", raters=("mara",))
        ours_made = learner.export_training(tmp_path / "ours.jsonl", "reward_jsonl", raters=("mara",))
        assert theirs_made.rows == ours_made.rows > 0
        assert (tmp_path / "theirs.jsonl").read_bytes() == (tmp_path / "ours.jsonl").read_bytes()
        manifests = [
            {**json.loads((tmp_path / f"{name}.jsonl.manifest.json").read_text()), "made_at": "", "file": ""}
            for name in ("ours", "theirs")
        ]
        assert manifests[0] == manifests[1]
        with pytest.raises(InvalidInput, match="must not exist"):
            client.export_training(tmp_path / "ours.jsonl", "reward_jsonl")
        made = client.backup(tmp_path / "copy.db")
        assert made.size_bytes == (tmp_path / "copy.db").stat().st_size > 0
        copy = Learner(context_at(tmp_path / "copy.db"))
        assert copy.verify().clean
        assert copy.status().runs == client.status().runs
        copy.close()
        assert client.erase(rater="mara").texts == learner.erase(rater="mara").texts
    learner.close()
    context.store.close()


def chat(name: str, tool: str) -> bytes:
    """A line of a chat in which a tool is called."""
    call = {"id": "c", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    messages = [{"role": "user", "content": name}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    return json.dumps({"messages": messages}).encode() + b"\n"


def test_the_session_with_curl_is_as_the_guide_shows_it(world: tuple[Context, str], tmp_path: Path) -> None:
    context, url = world
    session = next(block for block in blocks("sh") if "post()" in block)
    typed = session.replace("http://127.0.0.1:8502", url)
    typed = re.sub(r"^((?:post \w+|curl) .*?)(  #.*)?$", r"\1 -w '\\n%{http_code}\\n'", typed, flags=re.M)
    script(tmp_path / "armscope", *warm())
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path), "ARMSCOPE_DATABASE": str(kept_in(context.store))}
    done = subprocess.run(
        ["bash", "-ec", typed], capture_output=True, check=True, timeout=PATIENCE_S, env=environment
    )
    told = done.stdout.splitlines()
    run, rewarded, undone, believed, seen, denied = [json.loads(line) for line in told[::2]]
    assert [int(status) for status in told[1::2]] == [200, 200, 200, 200, 200, 403]
    assert (run["told"], rewarded["id"], undone["undone"]) == ("new", "reward-1", "reward-1")
    assert len(believed["items"]) == 1
    assert (seen["learner"], denied["code"]) == ("support", "denied")
    (one,) = denials(context).denials
    assert (one.actor.startswith("token:board-"), one.action) == (True, "reward")


# Killed


def test_what_was_answered_is_there_once_though_the_server_is_killed(tmp_path: Path) -> None:
    port = free_port()
    answered: dict[str, int] = {}
    is_killed = threading.Event()

    def agent(number: int) -> None:
        # Half of them as through a proxy that keeps the path, half as through one that removes it.
        with Client(f"http://127.0.0.1:{port}{BELOW if number % 2 else ''}", learner="agents") as client:
            for place in range(12):
                uid = f"{number}-{place}"
                told = _told(client, uid)
                answered[uid] = told
                if len(answered) > 30:
                    is_killed.set()

    with ThreadPoolExecutor(8) as agents:
        with server(tmp_path, port) as first:
            works = [agents.submit(agent, number) for number in range(8)]
            assert is_killed.wait(PATIENCE_S)
            first.kill()
            first.join()
        with server(tmp_path, port):
            for work in works:
                work.result(PATIENCE_S)
            with Client(f"http://127.0.0.1:{port}", learner="agents") as client:
                before = client.posteriors()
                for uid in list(answered)[::7]:
                    assert _told(client, uid) == answered[uid]
                assert client.posteriors() == before
    with open_learner(tmp_path / "a.db", "agents") as learner:
        assert len(answered) == learner.status().runs == 96
        assert sorted(run.uid for run in learner.runs(200)) == sorted(answered)
        assert len(learner.ledger(500)) == 96
        assert learner.verify().clean


def _told(client: Client, uid: str) -> int:
    """A run and a reward under its key; whoever gets no answer asks again, as agents do."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.record(uid, arms=[ARM], calls=["search"])
            return int(client.reward(ARM, 0.5, key=f"late-{uid}", reason=uid).id.rpartition("-")[2])
        except Unreachable:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
