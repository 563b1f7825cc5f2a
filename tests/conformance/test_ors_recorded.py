"""Episodes as they are recorded beside real environments: clients and servers of ors-sdk and of openreward."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import tenacity
import urllib3
from msgspec.structs import replace
from ors.client import ORS, AsyncORS, ToolCallError, _http
from ors.client import session as ors_session

from core import Learner, open_learner, record_episodes
from core.flows import queries
from core.flows.context import Context
from core.flows.export import lines as lines_of
from core.flows.tokens import create_token
from core.formats.ors import events_in
from core.records.episode import Episode
from core.store.episodes import find_episode
from tests.conformance.environments import Serving, alone, openreward_python, run_beside, serving
from tests.conformance.test_ors import playable, recordings
from tests.conftest import ROOT, VECTORS
from tests.doors.http.test_served import served
from tests.flows.test_episodes import held
from tests.formats.builders import lines, put
from tests.test_readme import blocks

_PATIENCE_S: Final = 60
_EPISODES: Final = 100

_PLAYER: Final = """
import sys
from ors.client import ORS
from core import open_learner, record_episodes

client = ORS(sys.argv[1])
sums = client.environments.get("sums")
with open_learner(sys.argv[2]) as learner:
    for number in range(1_000):
        with record_episodes(sums.session(split="train", index=number % 5), learner) as session:
            for _ in range(5):
                paid = session.call_tool("look")
                print(session.uid, paid.reward, flush=True)
"""

_OPENREWARD: Final = """
import asyncio, json, sys
from openreward import AsyncOpenReward, OpenReward
from core import open_learner, record_episodes

def told(paid):
    return [paid.reward, paid.finished]

def play(learner, n):
    with OpenReward(api_key="key") as client:
        sums = client.environments.get("sums")
        for number in range(n):
            with record_episodes(sums.session(split="train", index=number % 5), learner) as session:
                answer = {"answer": number % 5 * 2 + 1}
                said = [told(session.call_tool("look")), told(session.call_tool("submit", answer))]
                try:
                    session.call_tool("submit", {"answer": 1})
                except Exception as problem:
                    said.append(problem.reason)
                print(json.dumps([session.uid, said]))
            with record_episodes(sums.session(split="train", index=0), learner) as session:
                try:
                    session.call_tool("crash")
                except Exception as problem:
                    print(json.dumps([session.uid, type(problem).__name__]))
                try:
                    session.call_tool("look")
                except Exception as problem:
                    assert type(problem).__name__ == "SessionTerminatedError", problem

async def play_awaited(learner):
    client = AsyncOpenReward(api_key="key")
    sums = client.environments.get("sums")
    async with record_episodes(sums.session(split="train", index=2), learner) as session:
        said = [told(await session.call_tool("look")), told(await session.call_tool("submit", {"answer": 5}))]
        print(json.dumps([session.uid, said]))
    await client.environments.aclose()

with open_learner(sys.argv[1]) as learner:
    play(learner, 3)
    asyncio.run(play_awaited(learner))
"""

_UPLOADING: Final = """
import asyncio, json, sys
from openreward import OpenReward
from openreward.api.rollouts.serializers.base import AssistantMessage, ToolCall, ToolResult, UserMessage
from openreward.models import RolloutInfo, RunInfo

with OpenReward(api_key=sys.argv[1]) as client:
    for number in range(6):
        rollout = client.rollout.create(
            run_name="r", rollout_name=f"ep{number}", environment="own/sums", split="train", variant="v1",
            task_spec={"a": number % 3}, run_info=RunInfo(model_name="m"),
        )
        rollout.log(UserMessage("1+2?"))
        for step in range(3):
            rollout.log(ToolCall(name="look", content="{}", call_id=f"c{step}"))
            rollout.log(ToolResult(content="seen", call_id=f"c{step}"), reward=float("nan") if step == 1 else 0.1)
        rollout.log_anthropic_message({"role": "assistant", "content": [
            {"type": "text", "text": "three"}, {"type": "tool_use", "id": "t", "name": "submit", "input": {}}]},
            reward=0.25)
        rollout.log(ToolResult(content="Correct!", call_id="t"), reward=1.0, is_finished=True,
            rollout_info=RolloutInfo(task_index=number % 3))
        print(json.dumps([rollout.event_id, rollout.environment_id, rollout.variant_id]))
    client.rollout.close()
    hard = client.environments.get("own/sums", variant="v1").get_task_difficulty(split="train", model_name="m")
    print(json.dumps([[one.task_index, one.avg_reward, one.num_rollouts, one.response_chars.p50] for one in hard]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("ors")) as found:
        yield found


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return openreward_python(tmp_path_factory.mktemp("openreward"))


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    with open_learner(tmp_path / "a.db") as found:
        yield found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tries as often as ever, with pauses that no one has to wait for."""
    patiently: Any = vars(ors_session)["resumable_sse"]

    async def at_once(*args: object, **more: object) -> object:
        return await patiently(*args, **more, backoff_base=0.01)

    monkeypatch.setattr(ors_session, "resumable_sse", at_once)
    retrying: Any = _http.request_retryable
    monkeypatch.setattr(retrying.retry, "wait", tenacity.wait_none())


def seen(learner: Learner) -> dict[str, Episode]:
    assert learner.verify().clean
    return held(learner.context)


# Many episodes, and what dies


@pytest.mark.long
def test_a_hundred_episodes_are_there_though_the_server_is_killed_in_the_middle(
    tmp_path: Path, learner: Learner
) -> None:
    """What the agent was answered, step by step, and nothing twice; a second submit is refused, and shown."""
    answered: dict[str, list[tuple[str, float | None, bool, bool]]] = {}
    with serving(tmp_path) as server, ORS(server.url) as client:
        sums = client.environments.get("sums")
        for number in range(_EPISODES):
            session = sums.session(split="train", index=number % 5)
            with record_episodes(session, learner, model="m") as recorded:
                said = answered.setdefault(recorded.uid, [])
                for tool in ["look"] * (number % 4) + ["idle"]:
                    paid = recorded.call_tool(tool)
                    said.append((tool, paid.reward, paid.finished, False))
                if number == _EPISODES // 2:
                    with pytest.raises(Exception, match="retries"):
                        recorded.call_tool("die")
                    server.start()
                    continue
                for is_late in (False, True) if number % 10 == 1 else (False,):
                    paid = recorded.call_tool("submit", {"answer": number % 5 * 2 + number % 3})
                    said.append(("submit", paid.reward, paid.finished, is_late))
    found = seen(learner)
    assert len(answered) == _EPISODES
    assert {
        uid: [(step.name, step.reward, step.finished, step.refused) for step in one.steps]
        for uid, one in found.items()
    } == answered
    statuses = [one.status for one in found.values()]
    assert (statuses.count("unfinished"), statuses.count("finished")) == (1, _EPISODES - 1)
    for one in found.values():
        assert (one.environment, one.split, one.model) == ("sums", "train", "m")
    late = [uid for uid, said in answered.items() if said[-1][3]]
    assert len(late) == _EPISODES // 10
    for uid in late:
        told = queries.episode(learner.context, uid)
        assert told.steps[-1].refused
        assert told.steps[-1].reward is not None
        assert told.final == told.steps[-2].reward
    (environment,) = learner.episodes()
    assert (environment.n, environment.n_finished) == (_EPISODES, _EPISODES - 1)


def test_a_recorder_that_is_killed_has_lost_nothing_that_was_handed_on(
    tmp_path: Path, server: Serving
) -> None:
    database = tmp_path / "a.db"
    line = [sys.executable, "-c", _PLAYER, server.url, str(database)]
    variables = {**alone(), "PYTHONPATH": str(ROOT)}
    for n_handed in (3, 26):
        with subprocess.Popen(line, stdout=subprocess.PIPE, env=variables, text=True) as player:
            assert player.stdout is not None
            handed = [player.stdout.readline().split() for _ in range(n_handed)]
            player.kill()
            handed += [told.split() for told in player.stdout if told.endswith("\n")]
        with open_learner(database) as learner:
            found = seen(learner)
        for uid in {uid for uid, _ in handed}:
            kept = [step.reward for step in found[uid].steps]
            wanted = [float(reward) for other, reward in handed if other == uid]
            # At most the one that was written when the process died, before it was handed on.
            assert kept in (wanted, [*wanted, 0.1])
            assert [step.number for step in found[uid].steps] == list(range(len(kept)))


def test_the_lines_of_the_guide_record_episodes(
    tmp_path: Path, server: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = [block for block in blocks("python") if "record_episodes(" in block]
    assert "http://127.0.0.1:8080" in code
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace("http://127.0.0.1:8080", server.url), "guide", "exec"), {})
    with open_learner("paid.db") as learner:
        (sums,) = learner.episodes()
        assert (sums.n, sums.average.value, len(seen(learner))) == (3, 1.1, 3)
    assert capsys.readouterr().out.count("1.0 True\n") == 3


# A connection that breaks off


@contextmanager
def cutting(port: int) -> Iterator[tuple[str, list[int], threading.Event]]:
    """Proxy to a server that cuts a connection after a task id has passed, at most eight times.

    Yields its address, the cuts, and an event that starts them. A session is created in one piece: its connection is
    reused at once, so a cut there could lose the answer to a request that the client may not repeat.
    """
    cuts: list[int] = []
    begins = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        is_over = threading.Event()

        def accept() -> None:
            while not is_over.is_set():
                with suppress(OSError):
                    near, _ = listening.accept()
                    threading.Thread(target=carry, args=(near,), daemon=True).start()

        def carry(near: socket.socket) -> None:
            # Both ways end before a socket is closed. Otherwise a new connection could get its number, and the
            # thread that still waits for the old one would read the new one's bytes.
            with suppress(OSError), near, socket.create_connection(("127.0.0.1", port)) as far:
                back = threading.Thread(target=hand_on, args=(far, near, True), daemon=True)
                back.start()
                hand_on(near, far, False)
                back.join()

        def hand_on(one: socket.socket, other: socket.socket, is_back: bool) -> None:
            n_tasks = 0
            with suppress(OSError):
                while piece := one.recv(1 << 16):
                    other.sendall(piece)
                    n_tasks += is_back and b"event: task_id" in piece
                    if begins.is_set() and n_tasks and len(cuts) < 8 and is_back and b"task_id" in piece:
                        cuts.append(1)
                        break
            for end in (one, other):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", cuts, begins
        is_over.set()
        with suppress(OSError):
            socket.create_connection(listening.getsockname()[:2]).close()
        thread.join(_PATIENCE_S)


def test_a_call_that_the_client_resumes_counts_once(server: Serving, learner: Learner) -> None:
    with cutting(server.port) as (url, cuts, begins), ORS(url) as client:
        session = client.environments.get("sums").session(split="train", index=1)
        with record_episodes(session, learner) as recorded:
            begins.set()
            told = [recorded.call_tool("slow").reward for _ in range(3)]
    assert len(cuts) >= 3, "the way was cut in the middle of answers"
    (one,) = seen(learner).values()
    assert [step.reward for step in one.steps] == told == [0.5] * 3


def test_sessions_that_are_awaited_go_side_by_side(server: Serving, learner: Learner) -> None:
    async def play(client: AsyncORS, number: int) -> None:
        session = client.environments.get("sums").session(split="train", index=number % 5)
        async with record_episodes(session, learner) as recorded:
            await asyncio.gather(*(recorded.call_tool("look") for _ in range(3)))
            await recorded.call_tool("submit", {"answer": 1})

    async def all_of_them() -> None:
        client = AsyncORS(server.url)
        await asyncio.gather(*(play(client, number) for number in range(10)))
        for one in client.environments._clients.values():
            await one.close()

    asyncio.run(all_of_them())
    found = seen(learner)
    assert len(found) == 10
    assert all([step.name for step in one.steps] == ["look"] * 3 + ["submit"] for one in found.values())
    assert all(one.finished for one in found.values())


# Recorded exchanges, played again


class Resent:
    """A session that sends the bodies of recorded requests as they are, and nothing of an SDK."""

    def __init__(self, url: str, created: Mapping[str, Any]) -> None:
        self._url = url
        self._created = created
        self._pool = urllib3.PoolManager(retries=False, timeout=_PATIENCE_S)
        self.sid: str | None = None
        self.body: Any = None
        self.path = ""

    def __enter__(self) -> Resent:
        self.sid = next(iter(self._events("/create_session", None))).data
        self._sent("/create", self._created)
        return self

    def __exit__(self, *problem: object) -> None:
        self._sent("/delete", None)
        self._pool.clear()

    def call_tool(self, tool_name: str, input: object) -> object:
        whole = ""
        for event in self._events(self.path, self.body):
            if event.event == "error":
                raise RuntimeError(event.data)
            whole += event.data if event.event in {"chunk", "end"} else ""
        found = json.loads(whole)
        if not found["ok"]:
            raise Refused(found.get("reason"))
        return found["output"]

    def _events(self, path: str, body: object) -> Iterator[Any]:
        return events_in(self._sent(path, body).data.decode())

    def _sent(self, path: str, body: object) -> urllib3.BaseHTTPResponse:
        headers = {} if self.sid is None else {"X-Session-ID": self.sid}
        if body is not None:
            headers["Content-Type"] = "application/json"
        content = None if body is None else json.dumps(body)
        answer = self._pool.request("POST", self._url + path, body=content, headers=headers)
        if answer.status >= 400:
            raise Refused(None, answer.status)
        return answer


class Refused(Exception):
    """An answer that is no output."""

    def __init__(self, reason: str | None, status: int = 200) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


def _created(exchanges: list[dict[str, Any]]) -> dict[str, Any]:
    return next(one["request_body"] for one in exchanges if (one["path"], one["status"]) == ("/create", 200))


def resend(url: str, exchanges: list[dict[str, Any]], learner: Learner) -> Episode:
    """Play a recording to a server again, each call of it; the episode that is recorded."""
    created = _created(exchanges)
    spec = created.get("task_spec")
    task = {} if spec is None else {"task": spec["id"]}
    split = {} if spec is not None else {"split": created["split"], "task": str(created["index"])}
    session = Resent(url, created)
    with record_episodes(session, learner, environment="sums", **task, **split) as recorded:
        for one in exchanges:
            if not one["path"].endswith("/call") or "task_id" in one["request_body"]:
                continue  # a call that was resumed is answered at once here
            session.body, session.path = one["request_body"], one["path"]
            with suppress(RuntimeError, Refused):
                recorded.call_tool(session.body.get("name"), session.body.get("input"))
    (found,) = seen(learner).values()
    return found


def is_equal(learner: Learner, found: Episode, exchanges: list[dict[str, Any]], folder: Path) -> None:
    """All of it but whose session, and when: also what tells equal arguments, under the key of one database."""
    recorded = put(folder, lines(exchanges), "recorded.jsonl")
    assert learner.import_files(recorded).episodes == 1
    with learner.context.reading() as snapshot:
        told = [find_episode(snapshot, uid) for uid in seen(learner)]
    first, second = (without_dates(one[0]) for one in told if one is not None)
    assert first == second
    assert found.uid in seen(learner)


def without_dates(one: Episode) -> Episode:
    return replace(one, uid="u", at_ms=None, steps=tuple(replace(step, at_ms=None) for step in one.steps))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tasks of the recordings."""
    told = json.loads((VECTORS / "ors_environment.json").read_text(encoding="utf-8"))
    path = tmp_path_factory.mktemp("tasks") / "tasks.json"
    path.write_text(json.dumps(told["environments"]["sums"]["tasks"]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def rebuilt_ors(tmp_path_factory: pytest.TempPathFactory, tasks: Path) -> Iterator[str]:
    """ors-sdk's server with them."""
    with serving(tmp_path_factory.mktemp("rebuilt"), tasks=tasks) as found:
        yield found.url


@pytest.fixture(scope="module")
def rebuilt_openreward(tmp_path_factory: pytest.TempPathFactory, tasks: Path, beside: Path) -> Iterator[str]:
    """openreward's server with them."""
    with serving(tmp_path_factory.mktemp("other"), beside, "openreward", tasks) as found:
        yield found.url


@pytest.mark.parametrize("key", playable("ors_http_ors"))
def test_what_is_sent_again_is_an_equal_episode(
    tmp_path: Path, rebuilt_ors: str, learner: Learner, key: str
) -> None:
    exchanges = recordings("ors_http_ors")[key]
    is_equal(learner, resend(rebuilt_ors, exchanges, learner), exchanges, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("key", playable("ors_http_openreward"))
def test_what_is_sent_to_openreward_again_is_an_equal_episode(
    tmp_path: Path, rebuilt_openreward: str, learner: Learner, key: str
) -> None:
    exchanges = recordings("ors_http_openreward")[key]
    is_equal(learner, resend(rebuilt_openreward, exchanges, learner), exchanges, tmp_path)


def _of_a_client(key: str) -> bool:
    """Whether the SDK's client could have sent it: with the task's content, and whole calls only."""
    exchanges = recordings("ors_http_ors")[key]
    sent = [one["request_body"] for one in exchanges if one["path"].endswith("/call")]
    return "task_spec" in _created(exchanges) and all(body.keys() == {"name", "input"} for body in sent)


@pytest.mark.parametrize("key", [key for key in playable("ors_http_ors") if _of_a_client(key)])
def test_what_the_client_can_send_again_is_an_equal_episode(
    tmp_path: Path, rebuilt_ors: str, learner: Learner, key: str
) -> None:
    exchanges = recordings("ors_http_ors")[key]
    with ORS(rebuilt_ors) as client:
        sums = client.environments.get("sums")
        tasks = sums.list_tasks(split="train")
        task = next(one for one in tasks if one.task_spec == _created(exchanges)["task_spec"])
        with record_episodes(sums.session(task), learner) as session:
            for one in exchanges:
                if one["path"].endswith("/call"):
                    with suppress(ToolCallError):
                        session.call_tool(one["request_body"]["name"], one["request_body"]["input"])
    (found,) = seen(learner).values()
    is_equal(learner, found, exchanges, tmp_path)


# openreward's own client, in its own environment


@pytest.mark.long
def test_openrewards_client_is_recorded(tmp_path: Path, rebuilt_openreward: str, beside: Path) -> None:
    more = dict.fromkeys(("OPENREWARD_SESSION_URL", "OPENREWARD_API_URL"), rebuilt_openreward)
    handed = dict(json.loads(told) for told in run_beside(beside, _OPENREWARD, tmp_path / "a.db", more=more))
    with open_learner(tmp_path / "a.db") as learner:
        found = seen(learner)
    assert found.keys() == handed.keys()
    assert len(found) == 7
    for uid, one in found.items():
        kept = [[step.reward, step.finished] for step in one.steps if step.note is None]
        notes = [(step.note, step.refused) for step in one.steps if step.note is not None]
        if handed[uid] == "ToolFailed":
            assert (kept, notes, one.status) == ([], [("error", False)], "unfinished")
        else:
            said = handed[uid]
            assert kept == said[:2]
            assert notes == ([("episode_finished", True)] if len(said) > 2 else [])
            assert one.status == "finished"


# What its client uploads


@pytest.mark.long
def test_what_openrewards_client_uploads_is_recorded(context: Context, beside: Path) -> None:
    secret = create_token(context, "trainer", scopes=("ingest", "read")).secret
    with served(context) as url:
        more = {"OPENREWARD_API_URL": url, "OPENREWARD_SESSION_URL": url}
        *created, hard = [json.loads(told) for told in run_beside(beside, _UPLOADING, secret, more=more)]
    with context.reading() as snapshot:
        found = {line.uid: line for line in lines_of(snapshot) if isinstance(line, Episode)}
    assert found.keys() == {f"own/sums/{uid}" for uid, *_ in created}
    for one in found.values():
        paid = [(step.name, step.reward, step.note, step.finished) for step in one.steps]
        assert paid == [
            ("look", 0.1, None, False),
            ("look", None, "nan", False),
            ("look", 0.1, None, False),
            ("submit", 0.25, None, False),
            ("submit", 1.0, None, True),
        ]
        assert (one.environment, one.split, one.variant, one.model) == ("own/sums", "train", "v1", "m")
    assert sorted(one.task or "" for one in found.values()) == ["0", "0", "1", "1", "2", "2"]
    assert [told[1:] for told in created[1:]] == [["environment-1", "environment-1/v1"]] * 5
    assert [row[:3] for row in hard] == [[task, 1.45, 2] for task in range(3)]
    assert queries.verify(context).clean
