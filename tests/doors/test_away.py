"""Away: an agent whose database or server fails neither dies nor waits, and each of its runs is recorded once."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import (
    AsyncClient,
    AsyncLearner,
    Client,
    Learner,
    LearnerProtocol,
    RunUnderWay,
    Unreachable,
    open_learner,
)
from core.doors.asynchronous import AsyncLearnerProtocol
from core.doors.attempts import fallback
from core.errors import (
    Closed,
    Conflict,
    Denied,
    InvalidArm,
    InvalidInput,
    InvalidSetting,
    NotFound,
    StoreBusy,
    TimedOut,
    Unidentified,
)
from core.flows import queries
from core.flows.context import Context
from core.flows.erase import erase
from core.flows.tokens import create_token
from core.maths.packing import fill
from core.records.candidate import memory_candidate
from core.records.learner import DEFAULT_SEEDS, LearnerSettings
from core.records.run import Call
from core.spool import Spool
from tests.conftest import ROOT
from tests.doors.conftest import Shell, document, error
from tests.doors.front import AWAY, Front, Mode
from tests.doors.http.test_served import served
from tests.doors.test_webhook import receiving
from tests.terminal import warm
from tests.waiting import until
from tests.worlds import context_at

TOOLS: list[dict[str, Any]] = [{"name": name, "input_schema": {}} for name in ("search", "fetch", "Read")]
QUICK: dict[str, Any] = {"connect_s": 0.2, "select_s": 0.3, "record_s": 0.3}
NO_WAIT_S = 10.0
"""Far below the two minutes that a request may take otherwise, and far above the limits: a machine may be loaded."""

ARMS = st.dictionaries(
    st.sampled_from([*DEFAULT_SEEDS, *(f"skill:s{number}:main" for number in range(20))]), st.integers(0, 300)
)

CODES = ("not_found", "unknown_learner", "unknown_arm", "invalid_input", "invalid_batch", "closed")
FOREIGN = {
    "run_class": "selected",
    "decisions": [{"arm": "tool:evil:x", "included": True, "reason": "draw", "rank": 1, "token_cost": 0}],
    "seed": "1",
    "baseline_prob": 0.1,
    "settings_hash": "",
    "revision": 1,
}


@pytest.fixture
def context(context: Context) -> Iterator[Context]:
    yield context
    context.store.close()


@pytest.fixture
def front(context: Context) -> Iterator[Front]:
    with served(context) as url:
        front = Front(url)
        yield front
        front.close()


def request(client: LearnerProtocol, uid: str, problem: BaseException | None = None) -> RunUnderWay[Any]:
    with client.run(TOOLS, uid=uid, session="s") as run:
        assert sorted(run.tools, key=str) == sorted(TOOLS, key=str)
        run.called("search")
        run.said("found")
        run.achieved(0)
        if problem is not None:
            raise problem
    return run


async def awaited(
    client: AsyncLearnerProtocol, uid: str, problem: BaseException | None = None
) -> RunUnderWay[Any]:
    async with client.run(TOOLS, uid=uid, session="s") as run:
        assert sorted(run.tools, key=str) == sorted(TOOLS, key=str)
        run.called("search")
        run.achieved(0.5)
        if problem is not None:
            raise problem
    return run


@pytest.mark.parametrize("mode", AWAY)
def test_an_agent_goes_on_without_its_server(mode: Mode, front: Front, tmp_path: Path) -> None:
    front.be(mode)
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        began = time.monotonic()
        first = request(client, "r0")
        assert time.monotonic() - began < NO_WAIT_S
        assert (first.outcome, first.answer, first.selection.run_class) == ("spooled", None, "fallback")
        own = KeyError("the agent's own")
        with pytest.raises(KeyError) as raised:
            request(client, "r1", own)
        assert raised.value is own
        began = time.monotonic()
        for number in range(2, 12):
            assert request(client, f"r{number}").outcome == "spooled"
        assert time.monotonic() - began < NO_WAIT_S
        front.be("passing")
        until(lambda: client._attempts.counts().waiting == 0)
        assert client.status().runs == 12
        assert client.verify().clean
        assert {(row.run_class, row.outcome_shown) for row in client.runs()} == {("fallback", (0, "program"))}
        assert client.why("r1").facts.status == "error"
        until(lambda: request(client, f"r{time.monotonic()}").outcome == "recorded")


@pytest.mark.parametrize("mode", ["refused", "silent"])
def test_an_awaited_agent_goes_on_too(mode: Mode, front: Front, tmp_path: Path) -> None:
    async def agent() -> list[str]:
        async with AsyncClient(front.url, spool=tmp_path, **QUICK) as client:
            front.be(mode)
            began = time.monotonic()
            own = KeyError("the agent's own")
            runs = await asyncio.gather(
                *(awaited(client, f"r{number}") for number in range(20)),
                awaited(client, "e", own),
                return_exceptions=True,
            )
            assert time.monotonic() - began < NO_WAIT_S
            assert runs[-1] is own
            front.be("passing")
            await asyncio.to_thread(until, lambda: client.learner._attempts.counts().waiting == 0)
            assert (await client.status()).runs == 21
            assert (await client.verify()).clean
            assert {row.outcome_shown for row in await client.runs()} == {(0.5, "program")}
            return [str(one.outcome) for one in runs if isinstance(one, RunUnderWay)]

    assert asyncio.run(agent()) == ["spooled"] * 20


@pytest.mark.parametrize("mode", ["failing", "dripping"])
def test_a_run_that_was_selected_stays_selected(mode: Mode, front: Front, tmp_path: Path) -> None:
    """The server goes away inside the block; the run comes later under its coin, its arms and its time."""
    # A server that has just started may take more than the 0.3 s of the other tests to answer.
    with Client(front.url, spool=tmp_path, connect_s=1, select_s=3, record_s=3) as client:
        assert request(client, "before").outcome == "recorded"
        with client.run(TOOLS, uid="r") as run:
            run.called("fetch")
            front.be(mode)
        assert (run.outcome, run.selection.run_class != "fallback") == ("spooled", True)
        front.be("passing")
        until(lambda: client._attempts.counts().waiting == 0)
        story = client.why("r")
        assert story.selection is not None
        assert story.selection.seed == run.selection.seed
        assert story.facts.run_class == run.selection.run_class
        assert client.verify().clean


def test_a_run_whose_answer_was_lost_counts_once(front: Front, context: Context, tmp_path: Path) -> None:
    """It is recorded, the client doesn't know, and sends it again without the texts that its excerpts are from."""
    offered = [*TOOLS, "skill:review:main", "file:workspace:plan.md"]
    with Client(front.url, spool=tmp_path, **QUICK | {"select_s": NO_WAIT_S}) as client:
        with client.run(offered, uid="r", model="m") as run:
            run.called("search", {"q": "review of last week"})
            run.said("As plan.md has it, the answer is 42.")
            run.achieved(1)
            front.be("muting")
        assert run.outcome == "spooled"
        with closing(Learner(context)) as learner:
            until(lambda: learner.status().runs == 1)
            before = learner.why("r")
            assert [one.excerpt is not None for one in before.arms].count(True) == 2
            front.be("passing")
            until(lambda: client._attempts.counts().waiting == 0)
            assert client.status().spool.rejected == 0
            assert learner.why("r") == before
            assert learner.verify().clean


@contextmanager
def browsed(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program has begun to write to the file, as a database browser does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as browser:
        browser.execute("BEGIN IMMEDIATE")
        yield browser


@pytest.mark.of_file
def test_an_agent_goes_on_while_its_file_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_learner(path, spool=tmp_path, select_s=5, record_s=0.2) as learner:
        request(learner, "before")
        with browsed(path) as browser:
            began = time.monotonic()
            own = KeyError("the agent's own")
            with pytest.raises(KeyError) as raised:
                request(learner, "r0", own)
            assert raised.value is own
            outcomes = {request(learner, f"r{number}").outcome for number in range(1, 9)}
            assert time.monotonic() - began < NO_WAIT_S
            assert outcomes == {"spooled"}
            browser.execute("ROLLBACK")
        until(lambda: learner.status().spool.waiting == 0)
        assert (learner.status().runs, learner.verify().clean) == (10, True)


@pytest.mark.of_file
def test_closing_waits_for_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    learner = open_learner(path, spool=tmp_path, select_s=5, record_s=0.2)
    request(learner, "before")
    with browsed(path):
        assert request(learner, "r").outcome == "spooled"
        began = time.monotonic()
        learner.close()
        assert time.monotonic() - began < NO_WAIT_S
    with open_learner(path, spool=tmp_path) as later:
        request(later, "after")
        until(lambda: later.status().spool.waiting == 0)
        assert later.status().runs == 3


@pytest.mark.of_file
def test_an_awaited_agent_waits_for_no_lock(tmp_path: Path) -> None:
    async def agent() -> set[str | None]:
        async with AsyncLearner.open(tmp_path / "a.db", spool=tmp_path, select_s=5, record_s=0.2) as learner:
            await awaited(learner, "before")
            with browsed(tmp_path / "a.db"):
                runs = await asyncio.gather(*(awaited(learner, f"r{number}") for number in range(20)))
            return {run.outcome for run in runs}

    began = time.monotonic()
    assert asyncio.run(agent()) == {"spooled"}
    assert time.monotonic() - began < NO_WAIT_S


@pytest.mark.of_file
def test_many_requests_at_once_are_no_failure(tmp_path: Path) -> None:
    """There are more of them than threads of the learner."""
    with open_learner(tmp_path / "a.db", spool=tmp_path) as learner, ThreadPoolExecutor(100) as agents:
        runs = list(agents.map(lambda number: request(learner, f"r{number}"), range(100)))
        assert {run.outcome for run in runs} == {"recorded"}
        assert "fallback" not in {run.selection.run_class for run in runs}


# Errors


def test_on_request_an_agent_gets_the_error(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:1", spool=tmp_path, **QUICK) as client:
        with pytest.raises(Unreachable), client.run(TOOLS, on_error="raise"):
            raise AssertionError("the block does not begin")
        own = KeyError()
        with client.run(TOOLS) as run:
            pass
        assert run.outcome == "spooled"
    with open_learner(tmp_path / "a.db", spool=tmp_path, record_s=0.2) as learner:
        request(learner, "before")
        with browsed(tmp_path / "a.db"):
            with pytest.raises((StoreBusy, TimedOut)), learner.run(TOOLS, on_error="raise"):
                pass
            with pytest.raises(KeyError) as raised, learner.run(TOOLS, on_error="raise"):
                raise own
            assert raised.value is own


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget_tokens": -1},
        {"k": "two"},
        {"uid": ""},
        {"session": "s" * 2_000},
        {"session": "half a character \ud83d"},
        {"model": 7},
        {"select_s": 0},
        {"on_error": "warn"},
    ],
    ids=str,
)
def test_a_wrong_argument_raises_before_the_block(wrong: dict[str, Any], tmp_path: Path) -> None:
    with Client("http://127.0.0.1:1", spool=tmp_path, **QUICK) as client:
        with pytest.raises((InvalidInput, InvalidSetting)), client.run(TOOLS, **wrong):
            raise AssertionError("the block does not begin")
        with pytest.raises(TypeError, match="sesion"):
            client.run(TOOLS, sesion="s")  # type: ignore[call-overload]
        with pytest.raises(InvalidArm), client.run([{"description": "no name"}]):
            raise AssertionError("the block does not begin")


def test_what_the_server_rejects_is_kept_with_the_reason(
    context: Context, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A token that may not record, a uid for other content, and a call that no run can have."""
    with closing(Learner(context)) as learner:
        request(learner, "taken")
        token = create_token(context, "reader", ["read"]).secret
        with served(context) as url:
            with Client(url, token, spool=tmp_path / "reader") as reader:
                for number in range(3):
                    assert request(reader, f"r{number}").outcome == "rejected"
                assert reader.status().spool.rejected == 3
                with pytest.raises(Denied), reader.run(TOOLS, on_error="raise"):
                    pass
            with Client(url, "arms_wrong", spool=tmp_path / "wrong") as unknown:
                with pytest.raises(Unidentified) as refused:
                    unknown.status()
                assert ("none" in str(refused.value), "arms_wrong" in str(refused.value)) == (False, False)
            with Client(url, spool=tmp_path / "own") as client:
                with client.run(TOOLS, uid="taken") as run:
                    run.called("fetch")
                assert run.outcome == "rejected"
                with client.run(TOOLS) as run:
                    run.calls.append(Call(name="n" * 5_000))
                assert run.outcome == "rejected"
                assert request(client, "r9").outcome == "recorded"
                assert client.status().spool.rejected == 2
                reasons = [client._attempts.spool.read(path) for path in client._attempts.spool.rejected()]
                assert [item and item.header.code for item in reasons] == ["conflict", "invalid_input"]
                assert client.status().spool.dropped == 0
            (tmp_path / "full").write_text("a file, and no folder")
            with Client(url, token, spool=tmp_path / "full") as lossy:
                assert request(lossy, "r0").outcome == "dropped"
                assert (lossy.status().spool.rejected, lossy.status().spool.dropped) == (0, 1)
    assert len([one for one in caplog.messages if "rejected" in one]) == 3, "once for each client"


@pytest.mark.parametrize("mode", AWAY)
def test_a_read_ends_within_its_limit(mode: Mode, front: Front, tmp_path: Path) -> None:
    front.be(mode)
    with Client(front.url, spool=tmp_path, read_s=0.5) as client:
        began = time.monotonic()
        with pytest.raises(Unreachable) as refused:
            client.status()
        assert time.monotonic() - began < NO_WAIT_S
        assert "Error" not in str(refused.value)
    with pytest.raises(InvalidSetting):
        Client(front.url, read_s=0)


def test_a_refused_read_does_not_wait_for_its_limit(front: Front, tmp_path: Path) -> None:
    front.be("refused")
    with Client(front.url, spool=tmp_path, read_s=600) as client:
        began = time.monotonic()
        with pytest.raises(Unreachable, match="connection refused"):
            client.status()
        assert time.monotonic() - began < NO_WAIT_S


def test_retries_leave_the_random_numbers_of_the_agent_alone() -> None:
    """An agent may have seeded Python's generator, to repeat a run."""
    state = random.getstate()
    with Client("http://127.0.0.1:1") as client, pytest.raises(Unreachable):
        client.status()
    assert random.getstate() == state


# The fallback


@given(
    costs=ARMS,
    budget=st.integers(0, 1_500),
    k=st.integers(0, 12),
    seed=st.integers(0, 2**64 - 1),
    excluded=st.sets(st.sampled_from(["tool:fs:Read", "skill:s0:main", "skill:s1:main"])),
)
def test_a_fallback_packs_as_a_baseline_does(
    costs: dict[str, int], budget: int, k: int, seed: int, excluded: set[str]
) -> None:
    settings = LearnerSettings(budget_tokens=budget, k=k, excluded_arms=tuple(excluded))
    chosen = fallback(costs, settings, seed=seed)
    assert chosen == fallback(costs, settings, seed=seed)
    gone = [one for one in chosen.decisions if one.arm in excluded]
    assert [(one.arm, one.included, one.reason) for one in gone] == [
        (arm, False, "excluded") for arm in sorted(excluded & costs.keys())
    ]
    assert [one.rank for one in chosen.decisions] == list(range(1, len(costs) + 1))
    assert [*chosen.decisions[len(costs) - len(gone) :]] == gone
    costs = {arm: cost for arm, cost in costs.items() if arm not in excluded}
    chosen = msgspec.structs.replace(chosen, decisions=chosen.decisions[: len(costs)])
    order = [one.arm for one in chosen.decisions]
    n_seeds = len(costs.keys() & set(DEFAULT_SEEDS))
    assert sorted(order[:n_seeds]) == order[:n_seeds]
    assert set(order[:n_seeds]) == costs.keys() & set(DEFAULT_SEEDS)
    assert sorted(order) == sorted(costs)
    packed = fill(np.array([costs[arm] for arm in order], dtype=np.int64), n_seeds, budget, k)
    assert [one.included for one in chosen.decisions] == packed.tolist()


def test_a_fallback_knows_the_arms_and_the_settings_that_were_last_seen(front: Front, tmp_path: Path) -> None:
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        client.change("seed_arms", ["tool:web:fetch"])
        client.change("k", 2)
        with client.run(TOOLS, k=0):
            pass
        until(lambda: client._attempts._known.settings is not None)
        front.be("refused")
        with client.run() as run:
            assert run.selection.run_class == "fallback"
            assert (len(run.arms), run.arms[0], len(run.selection.decisions)) == (2, "tool:web:fetch", 3)
        with client.run(k=0) as run:
            assert len(run.arms) == 3
    with Client("http://127.0.0.1:1", spool=tmp_path, **QUICK) as unknowing, unknowing.run() as run:
        assert (run.arms, run.tools, run.guidance) == ((), [], None)


def test_a_fallback_leaves_out_what_the_last_selection_excluded(front: Front, tmp_path: Path) -> None:
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        client.change("excluded_arms", ["tool:web:search"])
        assert "tool:web:search" not in client.select(TOOLS, k=0).included
        with client.run(TOOLS) as run:
            assert run.tools == TOOLS[1:]
        front.be("refused")
        with client.run(TOOLS) as run:
            assert run.selection.run_class == "fallback"
            assert {one["name"] for one in run.tools} == {"fetch", "Read"}


def test_a_fallback_run_never_counts_in_the_comparison(tmp_path: Path) -> None:
    """It is recorded and learned from, and neither group of the comparison has it."""
    with open_learner(tmp_path / "a.db", spool=tmp_path) as learner:
        for number in range(20):
            with learner.run(TOOLS, uid=f"r{number}") as run:
                run.called("search")
                run.used(input=100, output=1)
        before = learner.savings()
        chosen = fallback({"tool:web:search": 5}, learner.settings, seed=1)
        answer = learner.record("f", selection=chosen, calls=["search"])
        assert answer.outcome == "observed"
        after = learner.savings()
        assert after.left_out.fallback == before.left_out.fallback + 1
        assert repr(after.overall) == repr(before.overall)
        story = learner.why("f")
        assert story.replays
        assert learner.verify().clean


# The spool


def test_a_run_that_waits_keeps_its_arms_by_name(front: Front, tmp_path: Path) -> None:
    front.be("refused")
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        with client.run(["tool:fs:Read"], uid="r", named=["tool:web:search", "skill:pdf:main"]) as run:
            run.called("search")
            run.loaded("skill:pdf:main")
        assert run.outcome == "spooled"
        front.be("passing")
        until(lambda: client._attempts.counts().waiting == 0)
        named = {one.arm: (one.n_named, one.n_loaded) for one in client.arms() if one.n_named}
        assert named == {"tool:web:search": (1, 1), "skill:pdf:main": (1, 1)}
        assert client.verify().clean


def test_a_later_process_sends_what_waits(front: Front, tmp_path: Path) -> None:
    """The first one was killed; the next one sends in the background."""
    front.be("refused")
    killed = (
        "import os, sys\nfrom core import Client\nclient = Client(sys.argv[1])\n"
        "for n in range(5):\n    with client.run(['tool:web:search'], uid=f'r{n}') as run:\n"
        "        run.called('search')\nos.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ARMSCOPE_SPOOL": str(tmp_path)}
    done = subprocess.run([*warm(), "-c", killed, front.url], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    front.be("passing")
    with Client(front.url, spool=tmp_path) as client:
        assert client.status().spool.waiting == 5
        request(client, "after")
        until(lambda: client.status().spool.waiting == 0)
        assert client.status().runs == 6
        assert client.verify().clean


@pytest.mark.parametrize("keeps", [True, False])
def test_texts_are_spooled_only_where_the_learner_keeps_them(
    keeps: bool, front: Front, tmp_path: Path
) -> None:
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        client.change("keep_texts", keeps)
        request(client, "before")
        until(lambda: client._attempts._known.settings is not None)
        front.be("silent")
        with client.run(
            [*TOOLS, memory_candidate("plan", "PLANTED content of a memory, long enough")]
        ) as run:
            run.asked("PLANTED request")
            run.called("search", {"q": "PLANTED argument"})
            run.said("PLANTED text: content of a memory, long enough")
            run.said("PLANTED reply")
        (path,) = client._attempts.spool.waiting()
        stored = path.read_bytes()
        assert [word in stored for word in (b"request", b"PLANTED reply")] == [keeps, keeps]
        assert (b"PLANTED argument" in stored) == keeps
        assert b"memory:fact:plan" in msgspec.json.encode(
            msgspec.json.decode(stored.partition(b"\n")[2])["run"]
        )
        front.be("passing")
        until(lambda: client.status().spool.waiting == 0)
        (memory,) = [one for one in client.why(run.uid).arms if one.arm == "memory:fact:plan"]
        assert memory.referenced


def test_what_is_erased_is_erased_in_the_spool_too(front: Front, tmp_path: Path) -> None:
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        client.change("keep_texts", True)
        request(client, "before")
        until(lambda: client._attempts._known.settings is not None)
        front.be("refused")
        for uid in ("r1", "r2"):
            with client.run(TOOLS, uid=uid, session=f"PLANTED {uid}") as run:
                run.called("search")
                run.asked("PLANTED")
        spool = client._attempts.spool
        spool_of = {item.header.uid: item.body for path in spool.waiting() if (item := spool.read(path))}
        assert [b"PLANTED" in body for body in spool_of.values()] == [True, True]
        assert spool.erase(run="r1") == 1
        assert spool.erase(session="PLANTED r2") == 1
        assert not any(b"PLANTED" in path.read_bytes() for path in spool.folder.iterdir())
        front.be("passing")
        until(lambda: client.status().spool.waiting == 0)
        assert (client.status().runs, client.status().spool.rejected) == (3, 0)


@pytest.mark.of_file
def test_a_run_that_only_the_spool_has_can_be_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARMSCOPE_SPOOL", str(tmp_path))
    context = context_at(tmp_path / "a.db")
    body = msgspec.json.encode({"run": {"uid": "r", "prompt": "PLANTED"}, "references": []})
    spool = Spool.of_database(context.store.location, context.learner)
    spool.add("r", body, now_ms=0, session="s")
    erased = erase(context, run="r")
    assert (erased.texts, erased.places) == (1, {"spool.run": 1})
    assert b"PLANTED" not in spool.waiting()[0].read_bytes()
    with pytest.raises(NotFound):
        erase(context, run="r")
    context.store.close()


def test_erase_names_the_spools_of_clients_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMSCOPE_SPOOL", str(tmp_path / "spool"))
    context = context_at(tmp_path / "a.db")
    for address, learner in (("http://a", "default"), ("http://b", "other")):
        Spool(address, learner).add("r", b"{}", now_ms=1, session="s")
    (named,) = [one for one in erase(context, session="s").not_reached if "http" in one]
    assert named.startswith("http://a ")
    with pytest.raises(NotFound):
        erase(context, session="another")


def test_the_command_lists_and_sends(
    shell: Shell, front: Front, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMSCOPE_SPOOL", str(tmp_path / "spool"))
    front.be("refused")
    with Client(front.url) as client:
        for number in range(3):
            assert request(client, f"r{number}").outcome == "spooled"
    (row,) = document(shell("spool", "--json"))
    assert (row["address"], row["counts"]) == (front.url, {"waiting": 3, "rejected": 0, "dropped": 0})
    assert error(shell("spool", "send", "--server", front.url, "--json"), 1, "unreachable")
    front.be("passing")
    sent = document(shell("spool", "send", "--server", front.url, "--json"))
    assert (sent["sent"], sent["left"]["waiting"]) == (3, 0)
    assert queries.status(context).runs == 3


def test_the_command_sends_for_every_learner_of_an_address(
    shell: Shell, front: Front, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMSCOPE_SPOOL", str(tmp_path / "spool"))
    front.be("refused")
    for learner, number in (("support", 3), ("sales", 2)):
        with Client(front.url, learner=learner, **QUICK) as client:
            for n in range(number):
                assert request(client, f"r{n}").outcome == "spooled"
    front.be("passing")
    only = document(shell("spool", "send", "--server", front.url, "--learner", "sales", "--json"))
    assert (only["sent"], only["left"]["waiting"]) == (2, 0)
    shell("spool", "send", "--server", front.url, "--learner", "never")
    shell("spool", "send", "--server", "http://127.0.0.1:1")
    every = document(shell("spool", "send", "--server", f"{front.url}/", "--json"))
    assert (every["sent"], every["left"]["waiting"]) == (3, 0)
    assert [row["learner"] for row in document(shell("spool", "--json"))] == ["sales", "support"]
    for name in ("support", "sales"):
        body = b'{"run":{"uid":"late","inventory":{"kind":"declared","arms":[{"key":"tool:a:a"}]}},"ended_now":true}'
        Spool.of_database(context.store.location, name).add("late", body, now_ms=0)
    here = document(shell("--database", str(tmp_path / "a.db"), "spool", "send", "--json"))
    assert (here["sent"], here["left"]["rejected"]) == (2, 0)
    assert [queries.status(context.of(name)).runs for name in ("support", "sales")] == [4, 3]


def test_rejected_runs_are_counted_by_reason_and_cleared(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMSCOPE_SPOOL", str(tmp_path / "spool"))
    spool, other = (Spool.of_server("http://127.0.0.1:1", name) for name in ("support", "sales"))
    for number in range(16):
        spool.add(f"r{number}", b"{}", now_ms=number, why=Denied("No.", next_step=f"Ask for {number}."))
    spool.add("c", b"{}", now_ms=20, why=Conflict("Taken.", next_step="Use another."))
    spool.add("w", b"{}", now_ms=21)
    other.add("o", b"{}", now_ms=22, why=Conflict("Taken.", next_step="Use another."))
    rows = {row["learner"]: row for row in document(shell("spool", "--json"))}
    assert rows["support"]["codes"] == {"denied": 16, "conflict": 1}
    assert rows["support"]["reasons"] == {"r15": "No. Ask for 15.", "c": "Taken. Use another."}
    assert len(shell("spool")[1].splitlines()) <= 10
    assert shell("spool", "clear")[0] == 2, "there is no terminal to ask on"
    assert spool.counts().rejected == 17
    named = ("--server", "http://127.0.0.1:1/", "--learner", "support", "--yes", "--json")
    assert document(shell("spool", "clear", *named))["cleared"] == 17
    assert msgspec.structs.astuple(spool.counts()) == (1, 0, 17)
    assert (
        document(shell("--database", str(tmp_path / "a.db"), "spool", "clear", "--yes", "--json"))["cleared"]
        == 0
    )
    assert document(shell("spool", "clear", "--yes", "--json"))["cleared"] == 1
    assert msgspec.structs.astuple(other.counts()) == (0, 0, 1)


@pytest.mark.of_file
def test_a_file_that_cannot_be_read_keeps_no_sender_busy(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db", spool=tmp_path, select_s=5, record_s=0.2) as learner:
        request(learner, "before")
        with browsed(tmp_path / "a.db"):
            assert request(learner, "r").outcome == "spooled"
            (learner._attempts.spool.folder / f"{0:015d}-000000-00000000.run").mkdir()
        until(lambda: learner._attempts.counts().waiting == 1 and learner._attempts._recovery is None)
        assert learner.status().runs == 2
        assert request(learner, "after").outcome == "recorded"


# Record later


def test_a_record_that_is_not_waited_for_comes_within_a_second(front: Front, tmp_path: Path) -> None:
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        for number in range(5):
            client.record(f"r{number}", arms=TOOLS, calls=["search"], wait=False)
        until(lambda: client.status().runs == 5)
        client.record("r0", arms=TOOLS, calls=["fetch"], wait=False)
        client.record("r5", arms=TOOLS, calls=["search"], wait=False)
        until(lambda: client.status().runs == 6)
        until(lambda: client.status().spool.rejected == 1)
        with pytest.raises(InvalidInput):
            client.record("r6", wait=False)
        front.be("refused")
        client.record("r7", arms=TOOLS, calls=["search"], wait=False)
    front.be("passing")
    with Client(front.url, spool=tmp_path, **QUICK) as client:
        with pytest.raises(InvalidInput):
            client.record("r8", wait=False)
        request(client, "r9")
        until(lambda: client.status().runs == 8)
        assert client.verify().clean
    with pytest.raises(Closed):
        client.record("r10", arms=TOOLS, wait=False)


@pytest.mark.parametrize(
    ("status", "answer"),
    [(400, {"ok": False, "error": "x", "code": code, "next": "y"}) for code in CODES] + [(200, FOREIGN)],
    ids=[*CODES, "foreign arms"],
)
def test_no_answer_of_a_server_stops_an_agent(status: int, answer: object, tmp_path: Path) -> None:
    body = msgspec.json.encode(answer)

    def answered(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with (
        receiving(answered) as (port, _),
        Client(f"http://127.0.0.1:{port}", spool=tmp_path, **QUICK) as client,
        client.run(TOOLS) as run,
    ):
        assert run.selection.run_class == "fallback"
        assert run.tools == TOOLS


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_an_endless_answer_ends(coding: str, tmp_path: Path) -> None:
    """The client reads at most 32 MiB and closes the connection; it decompresses nothing."""
    ends: Queue[int] = Queue()

    def answered(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", coding)
        handler.end_headers()
        n_mib = 0
        with suppress(OSError):
            while n_mib < 500:
                handler.wfile.write(b" " * (1 << 20))
                n_mib += 1
        ends.put(n_mib)

    with receiving(answered) as (port, _):
        with Client(f"http://127.0.0.1:{port}", spool=tmp_path, **QUICK) as client, client.run(TOOLS) as run:
            assert run.selection.run_class == "fallback"
        assert ends.get(timeout=20) < 100


@pytest.mark.parametrize("is_file", [True, False])
def test_a_lone_surrogate_opens_no_breaker(is_file: bool, context: Context, tmp_path: Path) -> None:
    with (
        served(context) as url,
        Learner(context) if is_file else Client(url, spool=tmp_path, select_s=5, record_s=5) as client,
    ):
        with client.run(TOOLS, uid="r0") as run:
            run.called("search", "\ud83d")
            run.said("x\ud83dy")
        assert run.outcome == "recorded"
        with pytest.raises(InvalidInput, match="session"), client.run(TOOLS, uid="r1", session="s\ud83d"):
            pass
        assert not any(client._attempts._is_open.values())


# Processes


def test_a_child_goes_on_and_what_is_not_waited_for_is_recorded_at_the_end(tmp_path: Path) -> None:
    """A child made by fork has none of the parent's threads."""
    program = (
        "import os\nfrom core import open_learner\nlearner = open_learner('a.db')\n"
        "def go(uid):\n    with learner.run(['tool:web:search'], uid=uid) as run:\n        run.called('search')\n"
        "    assert run.outcome == 'recorded', uid\n"
        "go('parent')\nchild = os.fork()\ngo('child' if child == 0 else 'both')\n"
        "os._exit(0) if child == 0 else None\nassert os.waitpid(child, 0)[1] == 0\n"
        "for n in range(3):\n    learner.record(f'r{n}', arms=['tool:web:search'], calls=['search'], wait=False)\n"
    )
    subprocess.run(
        [*warm(), "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True
    )
    with open_learner(tmp_path / "a.db") as learner:
        assert (learner.status().runs, learner.verify().clean) == (6, True)


def test_a_child_shares_no_connection_with_its_parent(tmp_path: Path) -> None:
    ports: list[int] = []

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            ports.append(self.client_address[1])
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    program = (
        "import os, sys\nfrom core import Client\nfrom core.client import Unreachable\nclient = Client(sys.argv[1])\n"
        "def go():\n    try:\n        client.status()\n    except Unreachable:\n        pass\n"
        "go()\nchild = os.fork()\nif child == 0:\n    go()\n    go()\n    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\ngo()\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        subprocess.run(
            [*warm(), "-c", program, f"http://127.0.0.1:{server.server_port}"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ARMSCOPE_SPOOL": str(tmp_path)},
            check=True,
        )
        server.shutdown()
    parent, child = ports[0], ports[1]
    assert parent != child
    assert ports == [parent, child, child, parent]


def test_no_learner_goes_to_another_process(tmp_path: Path) -> None:
    with open_learner(tmp_path / "a.db") as learner, Client("http://127.0.0.1:1") as client:
        for one in (learner, client, AsyncLearner(learner), AsyncClient("http://127.0.0.1:1")):
            with pytest.raises(InvalidInput, match=r"open_learner\(PATH\)"):
                pickle.dumps(one)
